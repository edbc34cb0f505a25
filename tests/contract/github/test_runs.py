"""Runs: started once, found again, waited for by people, and cancelled; environments and events."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.github.errors import AnswerLost, GitHubRefused, NotOnGitHub, PermissionMissing
from ci_automation.github.model import Actor, Environment, RunApproval
from ci_automation.github.runs import Runs
from tests.contract.github.conftest import ALL, FLEET
from tests.fakes.forge.faults import LOST, Fault, nth
from tests.fakes.forge.people import ACTIONS

if TYPE_CHECKING:
    from ci_automation.github.client import GitHub
    from tests.contract.github.conftest import Open
    from tests.fakes.forge import Forge
    from tests.fakes.forge.repository import Repository

INPUTS = {"artifact": "production", "key": "0123456789abcdef"}
REQUESTED = "flux-manifests-update-requested"


@pytest.fixture
def runs(client: GitHub) -> Runs:
    return Runs(client, FLEET)


class TestDispatch:
    def test_it_starts_the_workflow_with_its_inputs(self, forge: Forge, fleet: Repository, runs: Runs) -> None:
        started = runs.dispatch_workflow("approve.yaml", "main", INPUTS)
        (run,) = fleet.runs
        assert (run.inputs, run.title) == (INPUTS, "Approve production (0123456789abcdef)")
        if forge.is_public:
            assert started is not None
            assert (started.id, started.url) == (run.id, runs.run(run.id).url)
        else:
            assert started is None

    def test_an_enterprise_server_is_asked_for_details_once(self, forge: Forge, fleet: Repository, runs: Runs) -> None:
        for _ in range(2):
            runs.dispatch_workflow("approve.yaml", "main", INPUTS)
        assert len(fleet.runs) == 2
        details = [bool(request.body.get("return_run_details")) for request in forge.requests]
        assert details == ([True, True] if forge.is_public else [True, False, False])

    @pytest.mark.parametrize("fault", [LOST, Fault(502, b"<html>")], ids=["lost", "502"])
    def test_it_is_never_sent_twice(self, forge: Forge, fleet: Repository, runs: Runs, fault: Fault) -> None:
        forge.faults.append(nth(1 if forge.is_public else 2, fault, "POST"))
        with pytest.raises(AnswerLost):
            runs.dispatch_workflow("approve.yaml", "main", INPUTS)
        assert len(fleet.runs) == int(fault.lost)
        assert len(forge.requests) == (1 if forge.is_public else 2)

    def test_a_workflow_that_is_not_there_is_said_to_be_so(self, runs: Runs) -> None:
        with pytest.raises(NotOnGitHub):
            runs.dispatch_workflow("other.yaml", "main", INPUTS)

    @pytest.mark.parametrize(
        ("file", "ref", "inputs", "why"),
        [
            pytest.param("check.yaml", "main", {}, "does not have 'workflow_dispatch'", id="no dispatch"),
            pytest.param("approve.yaml", "main", INPUTS | {"x": "1"}, "Unexpected inputs", id="other inputs"),
            pytest.param("approve.yaml", "nowhere", INPUTS, "No ref found", id="no such branch"),
        ],
    )
    def test_what_the_workflow_does_not_take_is_told(
        self, fleet: Repository, runs: Runs, file: str, ref: str, inputs: dict[str, str], why: str
    ) -> None:
        with pytest.raises(GitHubRefused, match=why):
            runs.dispatch_workflow(file, ref, inputs)
        assert fleet.runs == []

    def test_without_the_permission_its_line_is_named(self, connect: Open) -> None:
        with pytest.raises(PermissionMissing) as caught:
            Runs(connect(ALL | {"actions": "read"}), FLEET).dispatch_workflow("approve.yaml", "main", INPUTS)
        assert "`permissions: {actions: write}`" in caught.value.hint


class TestFinding:
    def test_a_run_is_told_whole(self, fleet: Repository, runs: Runs) -> None:
        there = fleet.dispatch("approve.yaml", "main", INPUTS, "ada")
        run = runs.run(there.id)
        assert (run.status, run.conclusion, run.event, run.branch) == ("queued", None, "workflow_dispatch", "main")
        assert (run.title, run.created_at, run.actor) == (there.title, there.created, Actor("ada"))
        assert run.url.endswith(f"/{FLEET}/actions/runs/{run.id}")
        assert runs.runs() == (run,)

    def test_one_that_is_not_there_is_said_to_be_so(self, runs: Runs) -> None:
        with pytest.raises(NotOnGitHub):
            runs.run(99)

    def test_they_are_those_asked_for_newest_first(self, forge: Forge, fleet: Repository, runs: Runs) -> None:
        fleet.environment("flux-manifests", ["ada"])
        waiting = [fleet.dispatch("approve.yaml", "main", INPUTS, ACTIONS).id for _ in range(3)]
        fleet.begin(waiting[1])
        event = fleet.dispatch_event(REQUESTED, {"key": "k"}, ACTIONS)[0].id
        fleet.complete(event)
        now = forge.now()

        def found(**asked: object) -> list[int]:
            return [run.id for run in runs.runs(**asked)]  # type: ignore[arg-type]

        assert found() == [event, *reversed(waiting)]
        assert found(workflow="approve.yaml") == waiting[::-1]
        assert found(event="repository_dispatch") == [event]
        assert found(statuses=["waiting"]) == [waiting[2], waiting[0]]
        assert found(statuses=["waiting", "in_progress"]) == waiting[::-1]
        assert found(statuses=["waiting", "completed"], limit=2) == [event, waiting[2]]
        assert found(since=now - dt.timedelta(hours=1)) == [event, *reversed(waiting)]
        assert found(since=now + dt.timedelta(hours=1)) == []
        assert found(workflow="check.yaml", event="workflow_dispatch") == []

    def test_more_than_a_page_are_found(self, forge: Forge, fleet: Repository, runs: Runs) -> None:
        ids = [fleet.dispatch("approve.yaml", "main", INPUTS, ACTIONS).id for _ in range(130)]
        assert [run.id for run in runs.runs(limit=120)] == ids[::-1][:120]
        assert len(forge.requests) == 2

    def test_a_moment_is_asked_for_in_utc(self, forge: Forge, runs: Runs) -> None:
        zone = dt.timezone(dt.timedelta(hours=2))
        runs.runs(since=dt.datetime(2026, 1, 2, 1, 0, tzinfo=zone))
        assert "created=%3E%3D2026-01-01T23%3A00%3A00Z" in forge.requests[-1].path


class TestCancelling:
    def test_a_run_that_waits_is_cancelled(self, fleet: Repository, runs: Runs) -> None:
        run = fleet.dispatch("approve.yaml", "main", INPUTS, ACTIONS)
        runs.cancel(run.id)
        assert run.conclusion == "cancelled"

    def test_one_that_is_over_is_as_good(self, fleet: Repository, runs: Runs) -> None:
        run = fleet.dispatch("approve.yaml", "main", INPUTS, ACTIONS)
        fleet.complete(run.id)
        runs.cancel(run.id)
        assert run.conclusion == "success"

    def test_one_that_cannot_be_cancelled_is_told(self, forge: Forge, fleet: Repository, runs: Runs) -> None:
        run = fleet.dispatch("approve.yaml", "main", INPUTS, ACTIONS)
        forge.faults.append(nth(1, Fault(409, {"message": "Cannot."}), "POST"))
        with pytest.raises(GitHubRefused, match="Cannot"):
            runs.cancel(run.id)


class TestApprovals:
    def test_who_said_what_is_told(self, forge: Forge, fleet: Repository, runs: Runs) -> None:
        fleet.environment("flux-manifests", ["ada", "grace"])
        run = fleet.dispatch("approve.yaml", "main", INPUTS, ACTIONS)
        assert runs.run_approvals(run.id) == ()
        forge.approve(run.id, "ada")
        assert runs.run_approvals(run.id) == (RunApproval(Actor("ada"), "approved", ("flux-manifests",)),)
        fleet.rerun(run.id, "grace")
        forge.reject(run.id, "grace")
        assert [said.state for said in runs.run_approvals(run.id)] == ["approved", "rejected"]

    def test_the_no_of_an_account_that_is_gone_stays_and_its_yes_is_no_persons(self, forge: Forge, runs: Runs) -> None:
        words = [{"user": None, "state": state, "environments": [{"name": "e"}]} for state in ("rejected", "approved")]
        forge.faults.append(nth(1, Fault(200, words), "GET"))
        found = runs.run_approvals(1)
        assert [(said.state, said.user.is_bot, said.environments) for said in found] == [
            ("rejected", True, ("e",)),
            ("approved", True, ("e",)),
        ]

    def test_a_run_that_is_not_there_is_said_to_be_so(self, runs: Runs) -> None:
        with pytest.raises(NotOnGitHub):
            runs.run_approvals(99)

    @pytest.mark.parametrize(
        ("rules", "expected"),
        [
            pytest.param({}, 0, id="unprotected"),
            pytest.param({"wait_timer": 30}, 0, id="a timer alone"),
            pytest.param({"reviewers": ["ada", "grace"]}, 2, id="two people"),
            pytest.param(
                {"reviewers": ["ada"], "prevent_self_review": True, "branches": "protected", "wait_timer": 30},
                1,
                id="all of it",
            ),
        ],
    )
    def test_how_an_environment_is_protected_is_told(
        self, fleet: Repository, runs: Runs, rules: dict[str, Any], expected: int
    ) -> None:
        fleet.environment("prod/eu", **rules)
        assert runs.environment("prod/eu") == Environment("prod/eu", expected)

    def test_an_environment_that_is_not_there_is_none(self, runs: Runs) -> None:
        assert runs.environment("prod") is None


class TestEvents:
    def test_one_is_sent_with_its_payload(self, fleet: Repository, runs: Runs) -> None:
        payload = {"schema": "flux-manifests.dispatch/v1", "key": "k"}
        runs.dispatch_event(REQUESTED, payload)
        assert fleet.dispatched == [(REQUESTED, payload)]
        assert runs.runs(event="repository_dispatch")[0].title == "Check k"

    def test_one_is_never_sent_twice(self, forge: Forge, fleet: Repository, runs: Runs) -> None:
        forge.faults.append(nth(1, LOST, "POST"))
        with pytest.raises(AnswerLost):
            runs.dispatch_event(REQUESTED, {})
        assert len(fleet.dispatched) == 1

    def test_a_repository_that_cannot_be_seen_names_what_could_be_missing(self, client: GitHub) -> None:
        with pytest.raises(NotOnGitHub) as caught:
            Runs(client, "acme/other").dispatch_event(REQUESTED, {})
        assert "contents: write" in caught.value.hint


class TestWorkflows:
    def test_one_that_was_switched_off_is_switched_on(self, fleet: Repository, runs: Runs) -> None:
        fleet.workflow("check.yaml").state = "disabled_inactivity"
        assert runs.workflow_state("check.yaml") == "disabled_inactivity"
        assert runs.workflow_created("check.yaml") == fleet.workflow("check.yaml").created
        runs.enable_workflow("check.yaml")
        assert runs.workflow_state("check.yaml") == "active"

    def test_one_that_is_not_there_is_said_to_be_so(self, runs: Runs) -> None:
        with pytest.raises(NotOnGitHub):
            runs.workflow_state("other.yaml")
        with pytest.raises(NotOnGitHub):
            runs.enable_workflow("other.yaml")
