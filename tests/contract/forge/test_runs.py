"""Runs that wait for people, dispatches, and events."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from tests.contract.forge.asking import EVERYTHING, FLEET, Reply, ask
from tests.fakes.forge import ACTIONS, Forge, Refused, Repository

if TYPE_CHECKING:
    from collections.abc import Callable


def dispatch(forge: Forge, token: str, **body: object) -> Reply:
    body = {"ref": "main", "inputs": {"artifact": "a", "key": "0123456789abcdef"}, **body}
    return ask(forge, token, "POST", f"{FLEET}/actions/workflows/approve.yaml/dispatches", body)


def test_a_run_waits_for_a_reviewer_of_its_environment(forge: Forge, repo: Repository, token: str) -> None:
    forge.team("acme/platform", ["bob"])
    repo.environment("flux-manifests", ["alice", "acme/platform"], prevent_self_review=True)
    assert dispatch(forge, token).status == 204
    run = repo.runs[0]
    assert (run.title, run.status, run.actor) == ("Approve a v1.0.0 (0123456789abcdef)", "waiting", ACTIONS)
    with pytest.raises(Refused, match="not authorized"):
        forge.approve(run.id, "rita")
    forge.approve(run.id, "bob")
    assert run.status == "queued"
    repo.complete(run.id)
    approvals = ask(forge, token, "GET", f"{FLEET}/actions/runs/{run.id}/approvals").value
    assert [(a["user"]["login"], a["state"], a["environments"][0]["name"]) for a in approvals] == [
        ("bob", "approved", "flux-manifests")
    ]
    own = repo.dispatch("approve.yaml", "main", {"artifact": "a"}, "alice")
    with pytest.raises(Refused, match="not authorized"):
        forge.approve(own.id, "alice")
    forge.reject(own.id, "bob")
    assert (own.status, own.conclusion) == ("completed", "failure")


def test_a_called_workflow_waits_in_its_own_environment(forge: Forge, repo: Repository) -> None:
    forge.repository("acme/ci", {".github/workflows/approve.yaml": (
        b"on: {workflow_call: {inputs: {environment: {type: string, default: flux-manifests}}}}\n"
        b"jobs: {a: {environment: '${{ inputs.environment }}', runs-on: x, steps: []}}\n"
    )})  # fmt: skip
    caller = b"on: workflow_dispatch\njobs: {a: {uses: acme/ci/.github/workflows/approve.yaml@v1}}\n"
    repo.push("main", {".github/workflows/approve.yaml": caller}, "alice")
    repo.environment("flux-manifests", ["bob"])
    assert repo.dispatch("approve.yaml", "main", {}, "alice").status == "waiting"


def test_details_of_a_run_are_returned_where_the_server_knows_how(forge: Forge, repo: Repository, token: str) -> None:
    reply = dispatch(forge, token, return_run_details=True)
    if forge.is_public:
        assert (reply.status, reply.value["workflow_run_id"]) == (200, repo.runs[0].id)
    else:
        assert (reply.status, repo.runs) == (422, [])
        assert '"return_run_details" is not a permitted key' in reply.value["message"]


def switched_off(repo: Repository) -> dict[str, object]:
    repo.workflow("approve.yaml").state = "disabled_inactivity"
    return {}


@pytest.mark.parametrize(
    ("prepare", "status"),
    [
        (lambda _: {"inputs": {"artifact": "a", "other": "x"}}, 422),
        (lambda _: {"inputs": {}}, 422),
        (lambda _: {"ref": "nowhere"}, 422),
        (switched_off, 422),
    ],
    ids=["an input it has not", "a required input missing", "no such ref", "switched off"],
)
def test_what_cannot_be_dispatched_is_refused(
    forge: Forge, repo: Repository, token: str, prepare: Callable[[Repository], dict[str, object]], status: int
) -> None:
    assert dispatch(forge, token, **prepare(repo)).status == status
    assert repo.runs == []


def test_an_event_starts_the_workflows_that_listen_to_it(forge: Forge, repo: Repository, token: str) -> None:
    for kind in ("flux-manifests-update-requested", "something-else"):
        body = {"event_type": kind, "client_payload": {"key": "k1"}}
        assert ask(forge, token, "POST", f"{FLEET}/dispatches", body).status == 204
    assert [(run.title, run.event) for run in repo.runs] == [("Update (k1)", "repository_dispatch")]
    assert [kind for kind, _ in repo.dispatched] == ["flux-manifests-update-requested", "something-else"]
    listed = ask(forge, token, "GET", f"{FLEET}/actions/runs?event=repository_dispatch&per_page=1").value
    assert (listed["total_count"], listed["workflow_runs"][0]["display_title"]) == (1, "Update (k1)")


def test_a_run_is_cancelled_once(forge: Forge, repo: Repository, token: str) -> None:
    dispatch(forge, token)
    place = f"{FLEET}/actions/runs/{repo.runs[0].id}/cancel"
    assert [ask(forge, token, "POST", place).status for _ in range(2)] == [202, 409]
    assert repo.runs[0].conclusion == "cancelled"


def test_runs_are_listed_by_time(forge: Forge, repo: Repository, token: str) -> None:
    forge.now = lambda: dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    old = repo.start("receive.yaml", "schedule", ACTIONS)
    forge.now = lambda: dt.datetime(2026, 11, 3, tzinfo=dt.UTC)
    new = repo.start("receive.yaml", "schedule", ACTIONS)
    token = forge.token("actions", "acme/fleet", EVERYTHING)
    for created, wanted in ((">=2026-11-02T00:00:00Z", [new.id]), ("<2026-11-02", [old.id]), ("", [new.id, old.id])):
        place = f"{FLEET}/actions/workflows/receive.yaml/runs?created={created}"
        runs = ask(forge, token, "GET", place).value["workflow_runs"]
        assert [run["id"] for run in runs] == wanted


def test_an_environment_keeps_other_branches_out(repo: Repository) -> None:
    repo.environment("flux-manifests", ["bob"], branches="custom")
    repo.push("elsewhere", {"x": b""}, "alice")
    kept_out = repo.dispatch("approve.yaml", "elsewhere", {"artifact": "a"}, "alice")
    assert (kept_out.status, kept_out.conclusion, kept_out.waits_for) == ("completed", "failure", [])
    assert repo.dispatch("approve.yaml", "main", {"artifact": "a"}, "alice").status == "waiting"


def test_a_push_starts_what_listens_to_it_unless_a_job_pushed(repo: Repository) -> None:
    listens = b"on: {push: {branches: [main], paths: [lock.yaml]}}\njobs: {}\n"
    repo.push("main", {".github/workflows/apply.yaml": listens}, "alice")
    repo.push("main", {"other": b""}, "alice")
    repo.push("main", {"lock.yaml": b"1"}, "alice", "Approve it")
    repo.push("main", {"lock.yaml": b"2"}, ACTIONS)
    assert [(run.event, run.title, run.actor) for run in repo.runs] == [("push", "Approve it", "alice")]
    repo.push("other", {"lock.yaml": b"3"}, "alice")
    number = repo.open_pull("other", "alice").number
    repo.merge(number, ACTIONS)
    assert len(repo.runs) == 1
    repo.push("another", {"lock.yaml": b"4"}, "alice")
    repo.merge(repo.open_pull("another", "alice").number, "bob")
    assert [run.actor for run in repo.runs] == ["alice", "bob"]
