"""Runs of workflows, with their approvals and environments, and the issues that report that none runs any more."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from ci_automation.github.answers import Fields, OfRepository, segment
from ci_automation.github.errors import GitHubRefused, NotOnGitHub
from ci_automation.github.model import Actor, Environment, Issue, RunApproval, StartedRun, WorkflowRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ci_automation.github.client import GitHub

_DETAILS = "return_run_details"
_MANY_ISSUES = 100
_GONE = Actor("an account that is gone", is_bot=True)  # no person, whose yes could count


class Runs(OfRepository):
    """Workflows of one repository, and their runs."""

    def __init__(self, client: GitHub, name: str) -> None:
        super().__init__(client, name)
        self._tells_details = True  # until an Enterprise Server says that it does not

    def dispatch_workflow(self, file: str, ref: str, inputs: Mapping[str, str]) -> StartedRun | None:
        """Start a workflow on a branch; return its run, or None if an Enterprise Server does not name the run.

        Raises:
            NotOnGitHub: the default branch has no such workflow.
            GitHubRefused: the workflow takes no dispatch or other inputs, or the branch does not exist.
            AnswerLost: GitHub may have started it.
        """
        path = f"/actions/workflows/{segment(file)}/dispatches"
        asked: dict[str, object] = {"ref": ref, "inputs": dict(inputs)}
        if self._tells_details:
            try:
                answer = self._send("POST", path, asked | {_DETAILS: True})
            except GitHubRefused as refused:  # before anything was started
                if not refused.says(_DETAILS):
                    raise
                self._tells_details = False
            else:
                if answer.value is None:
                    return None
                started = Fields(answer.value, f"POST {self._client.host}/repos/{self.name}{path}")
                return StartedRun(started.number("workflow_run_id"), started.text("html_url"))
        self._send("POST", path, asked)
        return None

    def runs(
        self,
        *,
        workflow: str | None = None,
        event: str | None = None,
        statuses: Iterable[str] = (),
        since: datetime | None = None,
        limit: int = 100,
    ) -> tuple[WorkflowRun, ...]:
        """Return runs, newest first, with this workflow file, this event, one of these statuses, and since that time.

        Each status costs one request, and brings at most `limit` runs.

        Raises:
            NotOnGitHub: the workflow does not exist.
        """
        path = "/actions/" + (f"workflows/{segment(workflow)}/runs" if workflow else "runs")
        query = [f"event={segment(event)}"] if event else []
        if since:
            query.append(f"created={segment(f'>={since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}')}")
        found: dict[int, WorkflowRun] = {}
        for status in tuple(statuses) or (None,):
            asked = "&".join([*query, f"status={segment(status)}"] if status else query)
            for item in self._listed(path + (asked and f"?{asked}"), key="workflow_runs", limit=limit):
                run = _run(item)
                found[run.id] = run
        return tuple(islice((found[number] for number in sorted(found, reverse=True)), limit))

    def run(self, number: int) -> WorkflowRun:
        """Return a run by its id; raise `NotOnGitHub` if it does not exist."""
        return _run(self._one(f"/actions/runs/{number}"))

    def cancel(self, number: int) -> None:
        """Cancel a run, unless it is already over."""
        path = f"/actions/runs/{number}"
        try:
            self._send("POST", f"{path}/cancel")
        except GitHubRefused:
            if self.run(number).status != "completed":
                raise

    def run_approvals(self, number: int) -> tuple[RunApproval, ...]:
        """Return people's reviews of the environments of a run, in GitHub's order; a no outlives its account.

        Raises:
            NotOnGitHub: the run does not exist.
        """
        path = f"/repos/{self.name}/actions/runs/{number}/approvals"
        if (answer := self._client.get(path)) is None:
            raise NotOnGitHub(f"{self._client.host}{path}")
        said = Fields.all(answer.value, f"GET {self._client.host}{path}")
        return tuple(
            RunApproval(
                review.actor("user") or _GONE,
                review.text("state"),
                tuple(item.text("name") for item in review.each("environments")),
            )
            for review in said
        )

    def environment(self, name: str) -> Environment | None:
        """Return the protection of an environment, or None if the environment does not exist."""
        try:
            found = self._one(f"/environments/{segment(name)}")
        except NotOnGitHub:
            return None
        rules = found.each("protection_rules") if found.has("protection_rules") else ()
        asking = [rule for rule in rules if rule.text("type") == "required_reviewers"]
        return Environment(
            name=found.text("name"),
            required_reviewers=sum(len(rule.each("reviewers")) for rule in asking if rule.has("reviewers")),
        )

    def dispatch_event(self, event_type: str, payload: Mapping[str, object]) -> None:
        """Send a `repository_dispatch` to the repository; GitHub does not say whether any workflow listens.

        Raises:
            NotOnGitHub: the repository does not exist, or the token may not see it.
            AnswerLost: GitHub may have sent it.
        """
        asked = {"event_type": event_type, "client_payload": dict(payload)}
        self._send("POST", "/dispatches", asked)

    def workflow_state(self, file: str) -> str:
        """Return `active`, or why a workflow does not run: `disabled_inactivity`, `disabled_manually`, for example.

        Raises:
            NotOnGitHub: the workflow does not exist.
        """
        return self._one(f"/actions/workflows/{segment(file)}").text("state")

    def workflow_created(self, file: str) -> datetime:
        """Return since when GitHub knows a workflow; raise `NotOnGitHub` if it does not know it."""
        return self._one(f"/actions/workflows/{segment(file)}").time("created_at")

    def enable_workflow(self, file: str) -> None:
        """Let a workflow run again, which also counts as activity.

        Raises:
            NotOnGitHub: the workflow does not exist.
        """
        self._send("PUT", f"/actions/workflows/{segment(file)}/enable")


def _run(found: Fields) -> WorkflowRun:
    return WorkflowRun(
        id=found.number("id"),
        url=found.text("html_url"),
        status=found.maybe_text("status") or "",
        conclusion=found.maybe_text("conclusion"),
        event=found.text("event"),
        branch=found.maybe_text("head_branch"),
        title=found.text("display_title"),
        created_at=found.time("created_at"),
        updated_at=found.time("updated_at"),
        actor=found.actor("actor"),
        triggering_actor=found.actor("triggering_actor"),
    )


class Issues(OfRepository):
    """Issues of one repository; the token must allow writes."""

    def open_issue(self, title: str, body: str, labels: Iterable[str] = ()) -> Issue:
        """Open an issue, and return it; GitHub creates missing labels.

        Raises:
            NotOnGitHub: issues are switched off in the repository.
        """
        return _issue(self._created("/issues", {"title": title, "body": body, "labels": list(labels)}))

    def issues(self, label: str) -> tuple[Issue, ...]:
        """Return the open issues with a label, newest first, at most 100, without pull requests.

        Raises:
            NotOnGitHub: the repository does not exist, or issues are switched off in it.
        """
        found = self._listed(f"/issues?state=open&labels={segment(label)}", limit=_MANY_ISSUES)
        return tuple(_issue(issue) for issue in found if not issue.has("pull_request"))

    def close_issue(self, number: int) -> None:
        """Close an issue as done."""
        asked = {"state": "closed", "state_reason": "completed"}
        self._send("PATCH", f"/issues/{number}", asked)


def _issue(found: Fields) -> Issue:
    return Issue(
        number=found.number("number"),
        url=found.text("html_url"),
        title=found.text("title"),
        body=found.maybe_text("body") or "",
    )
