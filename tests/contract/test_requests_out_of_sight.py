"""Requests that a person hides behind others, or sends to another branch: a no stays a no, and a yes a yes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.approval.lock import LOCK_FILE
from ci_automation.approval.port import AskedState, GrantedApproval, NotCounted
from ci_automation.github import repository
from ci_automation.github.errors import TooManyPulls
from tests.contract.approval_doubles import question
from tests.contract.pull_requests import BASE, BRANCH, FLEET, NEWER, PLAIN, desk, entry, lock, the_pull, why_not, world

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fakes.forge import Forge, Pull
    from tests.fakes.forge import Repository as Fleet

REVIEWED = replace(PLAIN, approvals=1)
MANY = 11  # one more than a list of GitHub's has that a run asks for


@pytest.fixture
def forge() -> Iterator[Forge]:
    with world() as running:
        running.repositories[FLEET].push("aside", {"x": b"1"}, "alice")
        yield running


@pytest.fixture
def fleet(forge: Forge) -> Fleet:
    return forge.repositories[FLEET]


@pytest.fixture
def again(forge: Forge, fleet: Fleet) -> Pull:
    """Return the request that asks again after a merge that lacked a review, which came later."""
    desk(forge).ask(question())
    first = the_pull(fleet)
    fleet.merge(first.number, "alice")
    run = desk(forge, REVIEWED)
    assert isinstance(run.granted(BASE), NotCounted)
    assert run.ask(question()).state is AskedState.OPENED
    fleet.review(first.number, "bob")
    return fleet.pulls[-1]


def elsewhere(forge: Forge, fleet: Fleet) -> None:
    """Open many requests from our branch into another one."""
    del forge
    for _ in range(MANY):
        fleet.close(fleet.open_pull(BRANCH, "alice", base="aside").number, "alice")


def from_a_fork(forge: Forge, fleet: Fleet) -> None:
    """Open many requests from the branch of a fork, after ours was deleted."""
    fleet.delete_branch(BRANCH, "alice")
    forge.user("mallory")
    forge.fork(FLEET, "mallory").push(BRANCH, {"y": b"1"}, "mallory")
    for _ in range(MANY):
        fleet.close(fleet.open_pull(f"mallory:{BRANCH}", "mallory").number, "mallory")


def from_a_fork_of_the_same_owner(forge: Forge, fleet: Fleet) -> None:
    """Open many requests from the branch of a fork in the same organisation, which GitHub lists with ours."""
    fleet.delete_branch(BRANCH, "alice")
    fork = forge.fork(FLEET, "acme", "fleet-2")
    fork.collaborators["eve"] = "write"
    fork.push(BRANCH, {"y": b"1"}, "eve")
    for _ in range(MANY):
        fleet.close(fleet.open_pull(f"acme:{BRANCH}", "eve", head_repo="fleet-2").number, "eve")


@pytest.mark.parametrize("hide", [elsewhere, from_a_fork, from_a_fork_of_the_same_owner])
def test_a_no_behind_many_requests_counts(
    forge: Forge, fleet: Fleet, again: Pull, hide: Callable[[Forge, Fleet], None]
) -> None:
    fleet.close(again.number, "bob")
    hide(forge, fleet)
    reason = why_not(desk(forge, REVIEWED).granted(BASE))
    assert f"before pull request {again.number} asked again, and that one was closed" in reason


@pytest.mark.parametrize("then", ["open", "closed", "merged", "behind many"])
def test_a_no_that_was_sent_to_another_branch_counts(forge: Forge, fleet: Fleet, again: Pull, then: str) -> None:
    fleet.close(again.number, "bob")
    fleet.reopen(again.number, "alice")
    fleet.retarget(again.number, "aside", "alice")
    if then == "merged":
        fleet.merge(again.number, "alice")
    elif then != "open":
        fleet.close(again.number, "alice")
    if then == "behind many":
        elsewhere(forge, fleet)
    run = desk(forge, REVIEWED)
    reason = why_not(run.granted(BASE))
    assert f"before pull request {again.number} asked again, and that one was sent to aside" in reason
    run.ask(question())
    assert (fleet.pulls[-1].base, fleet.pulls[-1].state) == ("main", "OPEN")


def test_a_no_to_a_request_that_another_account_opened_counts(forge: Forge, fleet: Fleet) -> None:
    """Only of the run's own requests a run sees that they were sent to another branch."""
    desk(forge).ask(question())
    first = the_pull(fleet)
    fleet.merge(first.number, "alice")
    fleet.push(BRANCH, {LOCK_FILE: lock(fleet).with_entry(entry(question(), 2)).text.encode()}, "alice")
    theirs = fleet.open_pull(BRANCH, "alice")
    run = desk(forge, REVIEWED)
    run.granted(BASE)
    assert run.ask(question()).url.endswith(f"/{theirs.number + 1}")
    fleet.review(first.number, "bob")
    for pull in fleet.pulls[1:]:
        fleet.close(pull.number, "bob")
    fleet.reopen(theirs.number, "alice")
    fleet.retarget(theirs.number, "aside", "alice")
    fleet.close(theirs.number, "alice")
    assert "asked again, and that one was closed" in why_not(desk(forge, REVIEWED).granted(BASE))


def test_a_no_behind_many_of_the_runs_own_counts(forge: Forge, fleet: Fleet, again: Pull) -> None:
    """A run opens a request for each newer release, and who may write closes it."""
    fleet.close(again.number, "bob")
    for number in range(MANY):
        assert desk(forge, REVIEWED).ask(question(f"v2.9.{number + 5}")).state is AskedState.OPENED
        fleet.close(fleet.pulls[-1].number, "alice")
    reason = why_not(desk(forge, REVIEWED).granted(BASE))
    assert "other pull requests from its branch ended, behind which a run does not look" in reason


def test_a_no_that_was_reopened_and_withdrawn_counts(forge: Forge, fleet: Fleet, again: Pull) -> None:
    fleet.close(again.number, "bob")
    fleet.reopen(again.number, "alice")
    desk(forge, REVIEWED).withdraw("it is paused, and no step needs approval")
    run = desk(forge, REVIEWED)
    assert f"before pull request {again.number} asked again, and that one was closed" in why_not(run.granted(BASE))
    assert run.ask(question()).state is AskedState.OPENED


def test_a_no_that_was_reopened_and_superseded_counts(forge: Forge, fleet: Fleet, again: Pull) -> None:
    """What is closed then asks for something else."""
    fleet.close(again.number, "bob")
    fleet.reopen(again.number, "alice")
    assert desk(forge, REVIEWED).ask(NEWER).state is AskedState.UPDATED
    fleet.close(again.number, "alice")
    run = desk(forge, REVIEWED)
    found = run.granted(BASE)
    assert isinstance(found, NotCounted)
    assert f"before pull request {again.number} asked again, and that one was closed" in found.reason
    assert run.ask(question()).state is AskedState.OPENED


def test_an_open_request_behind_many_is_kept_current(forge: Forge, fleet: Fleet) -> None:
    desk(forge).ask(question())
    pull = the_pull(fleet)
    elsewhere(forge, fleet)
    assert desk(forge).ask(question()).state is AskedState.UNCHANGED
    assert desk(forge).ask(NEWER).state is AskedState.UPDATED
    assert "v2.9.5" in pull.title


def test_a_merge_behind_many_counts(forge: Forge, fleet: Fleet) -> None:
    desk(forge).ask(question())
    fleet.merge(the_pull(fleet).number, "alice")
    for number in range(MANY):
        fleet.push(BRANCH, {"y": b"%d" % number}, "bob")
        fleet.merge(fleet.open_pull(BRANCH, "bob", base="aside").number, "bob")
    found = desk(forge).granted(BASE)
    assert isinstance(found, GrantedApproval)
    assert found.approval.by == "alice"


def test_to_look_behind_many_takes_two_requests_more(forge: Forge, fleet: Fleet) -> None:
    desk(forge).ask(question())
    elsewhere(forge, fleet)
    before = len(forge.requests)
    assert desk(forge).granted(BASE) is None
    assert len(forge.requests) == before + 3


def test_more_than_a_run_reads_stop_it(forge: Forge, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    desk(forge).ask(question())
    elsewhere(forge, fleet)
    monkeypatch.setattr(repository, "_MOST_PULLS", MANY)
    with pytest.raises(TooManyPulls, match=f"{MANY} pull requests or more from the branch {BRANCH}"):
        desk(forge).granted(BASE)


def test_where_all_are_of_others_there_are_none(forge: Forge, fleet: Fleet) -> None:
    fork = forge.fork(FLEET, "alice")
    fork.push(BRANCH, {"y": b"1"}, "alice")
    for _ in range(MANY):
        fleet.close(fleet.open_pull(f"alice:{BRANCH}", "alice").number, "alice")
    assert desk(forge).granted(BASE) is None
    assert desk(forge).ask(question()).state is AskedState.OPENED
