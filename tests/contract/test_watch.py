"""The dead-man's switch: one issue where the check does not run, none where it does, and a schedule that stays on."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ci_automation.errors import ReleaseSourceError
from ci_automation.flows.watch import LABEL, Watched, judge, mark, succeeded, watch
from ci_automation.github.model import WorkflowRun
from ci_automation.github.runs import Issues, Runs
from tests.contract.approval_doubles import NOW, client, die_everywhere
from tests.fakes.forge.forge import Forge

if TYPE_CHECKING:
    from collections.abc import Iterator

FLEET, FILE = "acme/fleet", "update.yaml"
UPDATE = b"name: Update\non: {schedule: [{cron: '17 * * * *'}], workflow_dispatch: {}}\njobs: {}\n"
PERMISSIONS = {"actions": "write", "issues": "write"}
MAX_AGE = timedelta(days=2)


def made(
    age: timedelta | None = None,
    flavour: str = "api.github.com",
    state: str = "active",
    created: datetime = NOW - 2 * MAX_AGE,
) -> Forge:
    """Return a GitHub whose check succeeded so long ago, or never."""
    forge = Forge(flavour=flavour, now=lambda: NOW)
    forge.repository(FLEET, {f".github/workflows/{FILE}": UPDATE})
    if age is not None:
        succeed(forge, age)
    workflow = forge.repositories[FLEET].workflow(FILE)
    workflow.state, workflow.created = state, created
    return forge


def succeed(forge: Forge, age: timedelta = timedelta(), event: str = "schedule", branch: str = "main") -> None:
    """Let the check run, some time ago."""
    fleet = forge.repositories[FLEET]
    run = fleet.start(FILE, event, "github-actions[bot]", branch=branch)
    fleet.complete(run.id)
    run.created = NOW - age


def look(forge: Forge) -> Watched:
    """Watch, as a run of its own."""
    github = client(forge, PERMISSIONS, FLEET)
    return watch(Runs(github, FLEET), Issues(github, FLEET), FILE, "main", MAX_AGE, NOW)


def issues(forge: Forge) -> list[tuple[str, str]]:
    """Return the issues that there are, and whether they are open."""
    return [(issue.title, issue.state) for issue in forge.repositories[FLEET].issues]


@pytest.fixture(params=["api.github.com", "ghes"])
def flavour(request: pytest.FixtureRequest) -> str:
    """Return github.com and an Enterprise Server."""
    return str(request.param)


@pytest.fixture
def dead(flavour: str) -> Iterator[Forge]:
    """Yield a GitHub whose check has been dead for a week."""
    with made(timedelta(days=7), flavour) as forge:
        yield forge


def test_a_check_that_runs_is_let_be(flavour: str) -> None:
    with made(timedelta(hours=1), flavour) as forge:
        assert look(forge) == Watched()
        assert not look(forge).failed
        assert not issues(forge)
        assert len(forge.requests) <= 8


def test_a_dead_check_opens_one_issue_and_fails_each_time(dead: Forge) -> None:
    first = look(dead)
    assert first.failed
    assert "has not succeeded since 2026-11-14 12:00 UTC" in first.problem
    (issue,) = dead.repositories[FLEET].issues
    assert first.issue.endswith(f"/acme/fleet/issues/{issue.number}")
    assert issue.labels == [LABEL]
    assert mark(FILE) in issue.body
    assert look(dead) == first
    assert len(dead.repositories[FLEET].issues) == 1
    assert not issue.comments


def test_a_check_that_never_succeeded_is_dead(flavour: str) -> None:
    with made(None, flavour) as forge:
        assert look(forge).problem == "the workflow update.yaml has not succeeded yet"


@pytest.mark.parametrize("state", ["active", "disabled_inactivity", "disabled_manually"])
@pytest.mark.parametrize("late", [False, True])
def test_a_new_check_has_as_long_as_an_old_one(state: str, *, late: bool) -> None:
    with made(None, state=state, created=NOW - MAX_AGE - late * timedelta(seconds=1)) as forge:
        found = look(forge)
        assert (found.is_new, found.failed) == (not late and state != "disabled_manually", not found.is_new)
        assert len(issues(forge)) == found.failed


def test_the_issue_is_closed_when_the_check_is_well_again(dead: Forge) -> None:
    look(dead)
    succeed(dead)
    assert look(dead) == Watched()
    assert look(dead) == Watched()
    assert [state for _, state in issues(dead)] == ["CLOSED"]


def test_a_second_death_has_an_issue_of_its_own(dead: Forge) -> None:
    look(dead)
    succeed(dead)
    look(dead)
    dead.repositories[FLEET].runs[-1].created = NOW - timedelta(days=3)
    assert look(dead).failed
    assert [state for _, state in issues(dead)] == ["CLOSED", "OPEN"]


def test_issues_of_others_are_let_be(dead: Forge) -> None:
    fleet = dead.repositories[FLEET]
    fleet.open_issue("update.yaml no longer runs", "alice", "by hand", [LABEL])
    fleet.open_issue("other", "alice", mark("other.yaml"), [LABEL])
    look(dead)
    succeed(dead)
    look(dead)
    assert [state for _, state in issues(dead)] == ["OPEN", "OPEN", "CLOSED"]


@pytest.mark.parametrize("event", ["pull_request", "pull_request_target", "workflow_dispatch"])
def test_a_request_or_an_operation_of_a_person_is_no_sign_of_life(dead: Forge, event: str) -> None:
    succeed(dead, event=event)
    assert look(dead).failed


def test_a_run_after_a_merge_is_a_sign_of_life(dead: Forge) -> None:
    succeed(dead, event="push")
    assert not look(dead).failed


def test_another_branch_is_no_sign_of_life(dead: Forge) -> None:
    dead.repositories[FLEET].push("feature", {"x": b"y"}, "acme", "x")
    succeed(dead, branch="feature")
    assert look(dead).failed


def test_a_failed_run_is_no_sign_of_life(dead: Forge) -> None:
    succeed(dead)
    dead.repositories[FLEET].runs[-1].conclusion = "failure"
    assert look(dead).failed


def test_what_github_switched_off_for_inactivity_is_on_again(flavour: str) -> None:
    with made(timedelta(hours=1), flavour, "disabled_inactivity") as forge:
        assert look(forge) == Watched(enabled=True)
        assert forge.repositories[FLEET].workflow(FILE).state == "active"
        assert look(forge) == Watched()


def test_what_github_switched_off_long_ago_is_on_again_and_said(flavour: str) -> None:
    with made(timedelta(days=9), flavour, "disabled_inactivity") as forge:
        found = look(forge)
        assert found.enabled
        assert "switched off for inactivity and is switched on again" in found.problem
        assert forge.repositories[FLEET].workflow(FILE).state == "active"


def test_what_a_person_switched_off_stays_off_and_is_said(flavour: str) -> None:
    with made(timedelta(hours=1), flavour, "disabled_manually") as forge:
        assert look(forge).problem == "the workflow update.yaml is switched off (disabled manually)"
        assert forge.repositories[FLEET].workflow(FILE).state == "disabled_manually"


def test_a_healthy_check_is_kept_from_being_switched_off() -> None:
    with made(timedelta(hours=1)) as forge:
        look(forge)
        assert [request.path for request in forge.requests if request.method == "PUT"] == [
            f"/repos/{FLEET}/actions/workflows/{FILE}/enable"
        ]


def test_a_workflow_that_is_not_there_is_an_error() -> None:
    with made() as forge:
        github = client(forge, PERMISSIONS, FLEET)
        with pytest.raises(ReleaseSourceError):
            watch(Runs(github, FLEET), Issues(github, FLEET), "none.yaml", "main", MAX_AGE, NOW)


class TestCrashes:
    def test_wherever_it_dies_there_is_one_issue(self) -> None:
        requests = die_everywhere(lambda: made(timedelta(days=7), state="disabled_inactivity"), look, issues)
        assert requests >= 5

    def test_wherever_it_dies_the_issue_is_closed(self) -> None:
        def begun() -> Forge:
            forge = made(timedelta(hours=1))
            forge.repositories[FLEET].open_issue("x", "github-actions[bot]", mark(FILE), [LABEL])
            return forge

        assert die_everywhere(begun, look, issues) >= 5


RUN = WorkflowRun(7, "https://x.example/7", "completed", "success", "schedule", "main", "Update", NOW, NOW, None)


@pytest.mark.parametrize(
    ("state", "age", "problem"),
    [
        pytest.param("active", timedelta(), "", id="just now"),
        pytest.param("active", MAX_AGE, "", id="as long ago as it may be"),
        pytest.param("active", MAX_AGE + timedelta(seconds=1), "not succeeded since", id="longer ago"),
        pytest.param("disabled_inactivity", timedelta(), "", id="on again in time"),
        pytest.param("disabled_inactivity", timedelta(9), "switched on again", id="on again too late"),
        pytest.param("disabled_manually", timedelta(), "switched off", id="off"),
        pytest.param("disabled_fork", timedelta(), "switched off", id="off in a fork"),
        pytest.param("deleted", timedelta(), "switched off", id="gone"),
        pytest.param("active", None, "not succeeded yet", id="never"),
        pytest.param("disabled_inactivity", None, "not succeeded yet", id="never, and on again"),
    ],
)
def test_when_a_check_counts_as_dead(state: str, age: timedelta | None, problem: str) -> None:
    last = None if age is None else RUN
    found = judge(FILE, state, last, MAX_AGE, NOW + (age or timedelta()))
    assert (problem in found) if problem else not found


def test_no_run_shows_nothing() -> None:
    assert succeeded([], "main") is None
