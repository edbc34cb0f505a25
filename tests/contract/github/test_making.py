"""Who had a hand in a pull request: what GitHub shows, and what follows where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.errors import ReleaseSourceError
from ci_automation.github.pulls import Pulls
from ci_automation.github.repository import Repository as Door
from tests.contract.approval_doubles import client
from tests.fakes.forge import ACTIONS, Forge
from tests.fakes.forge.routes import ROUTES, Answer, Route
from tests.fakes.forge.state import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.github.model import Making
    from tests.fakes.forge import Repository

FLEET, BRANCH = "acme/fleet", "flux-manifests/production"
ACTIVITY = ("GET", "/repos/{owner}/{repo}/activity")


@pytest.fixture
def forge() -> Iterator[Forge]:
    with Forge() as running:
        fleet = running.repository(FLEET)
        for person in ("alice", "bob"):
            running.user(person)
            fleet.collaborators[person] = "write"
        yield running


@pytest.fixture
def fleet(forge: Forge) -> Repository:
    return forge.repositories[FLEET]


def making(forge: Forge) -> Making:
    opened = client(forge, {"contents": "write", "pull_requests": "write"}, FLEET)
    door = Door(opened, FLEET)
    pull = Pulls(opened, FLEET).open_pull(BRANCH, "main", "t", "b")
    found = door.making(pull, door.snapshot(BRANCH, "f"))
    assert found
    return found


def test_authors_committers_co_authors_and_pushers_are_hands(forge: Forge, fleet: Repository) -> None:
    for person in ("carol", "dave"):
        forge.user(person)
        fleet.collaborators[person] = "write"
    trailer = f"x\n\nCo-authored-by: carol <{forge.user('carol').email}>"
    fleet.push(BRANCH, {"f": b"1"}, "alice", trailer, committer="bob", by="dave")
    assert making(forge).hands == {"alice", "bob", "carol", "dave"}


def test_who_pushed_what_is_no_longer_there_has_a_hand_in_it(forge: Forge, fleet: Repository) -> None:
    first = fleet.push(BRANCH, {"f": b"1"}, "alice", by="alice")
    fleet.push(BRANCH, {"f": b"2"}, "alice", onto=first, by="bob")
    fleet.move(BRANCH, first, "alice", force=True)
    found = making(forge)
    assert found.hands == {"alice", "bob"}
    assert found.pushed_at


def test_who_pushed_to_an_earlier_branch_of_the_name_has_no_hand_in_it(forge: Forge, fleet: Repository) -> None:
    fleet.push(BRANCH, {"f": b"1"}, "bob")
    fleet.delete_branch(BRANCH, "bob")
    fleet.push(BRANCH, {"f": b"2"}, "alice")
    assert making(forge).hands == {"alice"}


def test_commits_of_an_earlier_branch_of_the_name_keep_their_pusher(forge: Forge, fleet: Repository) -> None:
    head = fleet.push(BRANCH, {"f": b"1"}, "alice", by="bob")
    fleet.delete_branch(BRANCH, "alice")
    fleet.move(BRANCH, head, "alice")
    assert making(forge).hands == {"alice", "bob"}


def test_a_log_that_does_not_go_back_to_the_creation_of_the_branch_leaves_pushers_unknown(
    forge: Forge, fleet: Repository
) -> None:
    first = fleet.push(BRANCH, {"f": b"1"}, "alice", by="bob")
    for number in range(50):
        fleet.push(BRANCH, {"f": b"%d" % number}, "carol", onto=first, force=True, by="alice")
        fleet.move(BRANCH, first, "alice", force=True)
    found = making(forge)
    assert found.hands == {"alice"}
    assert found.pushed_at is None


def test_a_branch_that_goes_with_its_merge_keeps_its_pushers(forge: Forge, fleet: Repository) -> None:
    fleet.delete_branch_on_merge = True
    first = fleet.push(BRANCH, {"f": b"1"}, "alice")
    fleet.push(BRANCH, {"f": b"2"}, "alice", onto=first, by="bob")
    fleet.move(BRANCH, first, "alice", force=True)
    fleet.merge(fleet.open_pull(BRANCH, "alice").number, "alice")
    door = Door(client(forge, {"contents": "read", "pull_requests": "read"}, FLEET), FLEET)
    seen = door.snapshot(BRANCH, "f")
    found = door.making(seen.pulls[0], seen)
    assert found
    assert found.hands == {"alice", "bob"}
    assert found.pushed_at


def answering(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let GitHub answer with this status in place of its log of a branch."""

    def refused(_: object) -> Answer:
        raise Refused(status, "no")

    monkeypatch.setitem(ROUTES, ACTIVITY, Route(refused, ""))


def test_an_activity_that_is_not_there_leaves_the_last_push_unknown(
    forge: Forge, fleet: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.push(BRANCH, {"f": b"1"}, "alice")
    answering(404, monkeypatch)
    found = making(forge)
    assert found.hands == {"alice"}
    assert found.pushed_at is None


@pytest.mark.parametrize("status", [301, 403, 422])
def test_an_activity_that_github_fails_to_show_is_an_error(
    forge: Forge, fleet: Repository, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Without the log a push of a request's commits counts as its merge."""
    fleet.push(BRANCH, {"f": b"1"}, "alice")
    answering(status, monkeypatch)
    with pytest.raises(ReleaseSourceError, match="/activity"):
        making(forge)


def test_more_commits_than_github_shows_at_once_leave_it_unknown(forge: Forge, fleet: Repository) -> None:
    for number in range(101):
        fleet.push(BRANCH, {"f": b"%d" % number}, ACTIONS)
    assert making(forge).pushed_at is None
