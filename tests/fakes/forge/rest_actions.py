"""The operations on workflows, runs, environments and dispatches."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from tests.fakes.forge import shown, shown_actions
from tests.fakes.forge.routes import REPO, Answer, Call, page, route
from tests.fakes.forge.state import Refused
from tests.fakes.forge.workflows import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.fakes.forge.state import Run


def _run(call: Call) -> Run:
    return call.repo.run(int(call.path["run_id"]))


def _listed(call: Call, runs: Iterable[Run]) -> Answer:
    """Return the runs that a query asks for, newest first."""
    query = call.query

    def wanted(run: Run) -> bool:
        return (
            query.get("event") in {None, run.event}
            and query.get("status") in {None, run.status, run.conclusion}
            and query.get("branch") in {None, run.branch}
            and query.get("actor") in {None, run.actor}
            and query.get("head_sha") in {None, run.sha}
            and _in_time(run.created, query.get("created", ""))
        )

    found = sorted((run for run in runs if wanted(run)), key=lambda run: run.id, reverse=True)
    return page(call, [shown_actions.run_of(call.repo, run) for run in found], "workflow_runs")


def _in_time(at: dt.datetime, wanted: str) -> bool:
    """Return whether a moment is in a range as searches write it: `>=2026-01-01T00:00:00Z`, or `A..B`."""
    if ".." in wanted:
        start, _, end = wanted.partition("..")
        return (start == "*" or _moment(start) <= at) and (end == "*" or at <= _moment(end))
    if wanted.startswith((">", "<")):
        limit = _moment(wanted.lstrip("<>="))
        equal = "=" in wanted[:2] and at == limit
        return equal or (at > limit if wanted[0] == ">" else at < limit)
    return not wanted or at.date() == _moment(wanted).date()


def _moment(text: str) -> dt.datetime:
    found = dt.datetime.fromisoformat(text.replace(" ", "+"))
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


@route("GET", f"{REPO}/actions/permissions/workflow", "administration=read")
def get_workflow_permissions(call: Call) -> Answer:
    can = call.repo.can_create_pulls
    return Answer(200, {"default_workflow_permissions": "read", "can_approve_pull_request_reviews": can})


@route("GET", f"{REPO}/actions/runs", "actions=read")
def list_runs(call: Call) -> Answer:
    return _listed(call, call.repo.runs)


@route("GET", f"{REPO}/actions/workflows/{{workflow_id}}/runs", "actions=read")
def list_workflow_runs(call: Call) -> Answer:
    workflow = call.repo.workflow(call.path["workflow_id"])
    return _listed(call, (run for run in call.repo.runs if run.workflow is workflow))


@route("GET", f"{REPO}/actions/runs/{{run_id}}", "actions=read")
def get_run(call: Call) -> Answer:
    return Answer(200, shown_actions.run_of(call.repo, _run(call)))


@route("POST", f"{REPO}/actions/runs/{{run_id}}/cancel", "actions=write")
def cancel_run(call: Call) -> Answer:
    call.repo.cancel(_run(call).id)
    return Answer(202, {})


@route("GET", f"{REPO}/actions/runs/{{run_id}}/approvals", "actions=read")
def list_approvals(call: Call) -> Answer:
    repo = call.repo
    return Answer(
        200,
        [
            {
                "state": decision.state,
                "comment": decision.comment,
                "user": shown.user(call.forge, decision.by),
                "environments": [
                    shown_actions.in_short(repo, repo.environments[name]) for name in decision.environments
                ],
            }
            for decision in _run(call).decisions
        ],
    )


@route("GET", f"{REPO}/actions/workflows/{{workflow_id}}", "actions=read")
def get_workflow(call: Call) -> Answer:
    workflow = call.repo.workflow(call.path["workflow_id"])
    name = parsed(call.repo.read(workflow.path) or b"").get("name") or workflow.path
    return Answer(200, shown_actions.workflow_of(call.repo, workflow, str(name)))


@route("PUT", f"{REPO}/actions/workflows/{{workflow_id}}/enable", "actions=write")
def enable_workflow(call: Call) -> Answer:
    call.repo.workflow(call.path["workflow_id"]).state = "active"
    return Answer(204)


@route("POST", f"{REPO}/actions/workflows/{{workflow_id}}/dispatches", "actions=write")
def dispatch_workflow(call: Call) -> Answer:
    given = call.given
    run = call.repo.dispatch(call.path["workflow_id"], given["ref"], given.get("inputs", {}), call.login)
    if not given.get("return_run_details"):
        return Answer(204)
    made = shown_actions.run_of(call.repo, run)
    return Answer(200, {"workflow_run_id": run.id, "run_url": made["url"], "html_url": made["html_url"]})


@route("POST", f"{REPO}/dispatches", "contents=write")
def dispatch_event(call: Call) -> Answer:
    call.repo.dispatch_event(call.given["event_type"], call.given.get("client_payload", {}), call.login)
    return Answer(204)


@route("GET", f"{REPO}/environments/{{environment_name}}", "actions=read")
def get_environment(call: Call) -> Answer:
    found = call.repo.environments.get(call.path["environment_name"])
    if found is None:
        raise Refused(404, "Not Found")
    return Answer(200, shown_actions.environment_of(call.repo, found))
