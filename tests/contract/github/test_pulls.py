"""Pull requests: opened once, found again, dressed, and merged by themselves only where the rules allow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.github.errors import (
    AnswerLost,
    GitHubRefused,
    NotOnGitHub,
    PermissionMissing,
    PullRequestsForbidden,
    UnexpectedGitHubAnswer,
)
from ci_automation.github.model import Actor, PullState
from ci_automation.github.pulls import Pulls
from ci_automation.github.repository import Repository
from tests.contract.github.conftest import ALL, BRANCH, FLEET, LOCK
from tests.fakes.forge.faults import LOST, Fault, nth, times
from tests.fakes.forge.people import ACTIONS

if TYPE_CHECKING:
    from ci_automation.github.client import GitHub
    from ci_automation.github.model import PullRequest
    from tests.contract.github.conftest import Open
    from tests.fakes.forge import Forge
    from tests.fakes.forge import repository as double

BOT = Actor(ACTIONS, is_bot=True)


@pytest.fixture
def pulls(client: GitHub, fleet: double.Repository) -> Pulls:
    """Return the pull requests of a repository with a branch that could become one."""
    fleet.push(BRANCH, {LOCK: b"entries: [x]\n"}, ACTIONS, "Ask")
    return Pulls(client, FLEET)


def opened(pulls: Pulls, *, draft: bool = False) -> PullRequest:
    return pulls.open_pull(BRANCH, "main", "Flux v2.9.4", "Please.", draft=draft)


class TestOpening:
    @pytest.mark.parametrize("draft", [False, True])
    def test_it_is_what_was_asked_for(self, fleet: double.Repository, pulls: Pulls, *, draft: bool) -> None:
        pull = opened(pulls, draft=draft)
        there = fleet.pull(pull.number)
        assert (there.title, there.body, there.branch, there.base) == ("Flux v2.9.4", "Please.", BRANCH, "main")
        assert (pull.state, there.draft, pull.author) == (PullState.OPEN, draft, BOT)
        assert (pull.head, pull.cross_repository) == (fleet.branches[BRANCH], False)

    def test_the_same_is_seen_by_a_snapshot(self, client: GitHub, pulls: Pulls) -> None:
        pull = opened(pulls)
        assert Repository(client, FLEET).snapshot(BRANCH, LOCK).pulls == (pull,)

    def test_an_open_one_is_found(self, fleet: double.Repository, pulls: Pulls) -> None:
        first = opened(pulls)
        assert opened(pulls) == first
        assert len(fleet.pulls) == 1

    def test_a_closed_one_is_not_taken_for_an_open_one(self, fleet: double.Repository, pulls: Pulls) -> None:
        first = opened(pulls)
        fleet.close(first.number, "ada")
        assert opened(pulls).number != first.number

    def test_one_of_a_fork_is_not_taken_for_ours(self, forge: Forge, fleet: double.Repository, pulls: Pulls) -> None:
        forge.fork(FLEET, "mallory").push(BRANCH, {LOCK: b"entries: [evil]\n"}, "mallory")
        fleet.private = False
        theirs = fleet.open_pull(f"mallory:{BRANCH}", "mallory").number
        assert opened(pulls).number != theirs
        assert opened(pulls).number != theirs

    def test_one_of_a_fork_of_the_same_owner_is_not_taken_for_ours(
        self, forge: Forge, fleet: double.Repository, pulls: Pulls
    ) -> None:
        fork = forge.fork(FLEET, "acme", "fleet-2")
        fork.collaborators["mallory"] = "write"
        fork.push(BRANCH, {LOCK: b"entries: [evil]\n"}, "mallory")
        first = opened(pulls)
        fleet.private = False
        fleet.open_pull(f"acme:{BRANCH}", "mallory", head_repo="fleet-2")
        assert opened(pulls) == first

    def test_where_there_is_nothing_to_merge_it_is_refused(self, fleet: double.Repository, pulls: Pulls) -> None:
        fleet.move("same", fleet.head, "ada")
        with pytest.raises(GitHubRefused, match="No commits between main and same"):
            pulls.open_pull("same", "main", "t", "b")

    def test_a_repository_that_lets_workflows_open_none_is_told_of(
        self, fleet: double.Repository, pulls: Pulls
    ) -> None:
        fleet.can_create_pulls = False
        with pytest.raises(PullRequestsForbidden) as caught:
            opened(pulls)
        assert "Allow GitHub Actions to create and approve pull requests" in caught.value.hint

    def test_an_answer_that_is_lost_is_found_by_the_next_run(
        self, forge: Forge, fleet: double.Repository, pulls: Pulls
    ) -> None:
        forge.faults.append(nth(1, LOST, "POST", "/pulls"))
        with pytest.raises(AnswerLost):
            opened(pulls)
        assert opened(pulls).number == 1
        assert len(fleet.pulls) == 1


class TestKeeping:
    def test_what_is_given_is_changed_and_no_more(self, fleet: double.Repository, pulls: Pulls) -> None:
        number = opened(pulls).number
        pulls.edit_pull(number, title="New")
        there = fleet.pull(number)
        assert (there.title, there.body, there.state) == ("New", "Please.", "OPEN")
        pulls.edit_pull(number, body="", state=PullState.CLOSED)
        assert (there.title, there.body, there.state) == ("New", "", "CLOSED")
        pulls.edit_pull(number, state=PullState.OPEN)
        assert there.state == "OPEN"

    def test_comments_are_written_and_found(self, fleet: double.Repository, pulls: Pulls) -> None:
        number = opened(pulls).number
        assert pulls.comments(number) == ()
        pulls.comment(number, "Superseded.")
        fleet.comment(number, "ada", "Why?")
        assert [(c.author, c.body) for c in pulls.comments(number)] == [(BOT, "Superseded."), (Actor("ada"), "Why?")]

    def test_many_comments_are_read_page_by_page(self, fleet: double.Repository, pulls: Pulls) -> None:
        number = opened(pulls).number
        for text in range(340):
            fleet.comment(number, "ada", str(text))
        assert [comment.body for comment in pulls.comments(number)] == [str(text) for text in range(300)]

    def test_what_is_not_there_has_no_comments(self, pulls: Pulls) -> None:
        with pytest.raises(NotOnGitHub):
            pulls.comments(99)

    def test_it_is_dressed_in_one_request(self, forge: Forge, fleet: double.Repository, pulls: Pulls) -> None:
        number = opened(pulls).number
        before = len(forge.requests)
        pulls.dress(number, ["flux", "minor"], ["ada"])
        assert len(forge.requests) == before + 1
        assert (fleet.pull(number).labels, fleet.pull(number).assignees) == (["flux", "minor"], ["ada"])

    def test_people_and_teams_are_asked(self, forge: Forge, fleet: double.Repository, pulls: Pulls) -> None:
        forge.team("acme/platform", ["ada"])
        fleet.team_permissions["acme/platform"] = "write"
        number = opened(pulls).number
        pulls.request_review(number, ["grace"], ["platform"])
        assert (fleet.pull(number).asked, fleet.pull(number).asked_teams) == (["grace"], ["platform"])

    def test_who_may_not_review_is_said_to_be_so(self, pulls: Pulls) -> None:
        with pytest.raises(GitHubRefused, match="Reviews may only be requested from collaborators"):
            pulls.request_review(opened(pulls).number, ["mallory"])


class TestAutoMerge:
    def test_it_waits_for_what_the_branch_asks_for(
        self, client: GitHub, fleet: double.Repository, pulls: Pulls
    ) -> None:
        fleet.allow_auto_merge = True
        fleet.protect("main", reviews=1)
        pull = opened(pulls)
        pulls.enable_auto_merge(pull, "SQUASH")
        assert Repository(client, FLEET).snapshot(BRANCH, LOCK).pulls[0].auto_merge
        fleet.review(pull.number, "ada")
        assert fleet.pull(pull.number).state == "MERGED"

    def test_where_the_repository_does_not_allow_it_that_is_said(self, fleet: double.Repository, pulls: Pulls) -> None:
        fleet.allow_auto_merge = False
        with pytest.raises(GitHubRefused, match="not allowed for this repository"):
            pulls.enable_auto_merge(opened(pulls))

    def test_where_there_is_nothing_to_wait_for_it_is_refused(self, fleet: double.Repository, pulls: Pulls) -> None:
        fleet.allow_auto_merge = True
        with pytest.raises(GitHubRefused, match="clean status"):
            pulls.enable_auto_merge(opened(pulls))
        assert fleet.pulls[0].state == "OPEN"

    def test_an_answer_that_does_not_say_so_is_not_taken_for_done(self, forge: Forge, pulls: Pulls) -> None:
        pull = opened(pulls)
        data = {"enablePullRequestAutoMerge": {"pullRequest": {"number": 1, "autoMergeRequest": None}}}
        forge.faults.append(times(1, Fault(200, {"data": data})))
        with pytest.raises(UnexpectedGitHubAnswer):
            pulls.enable_auto_merge(pull)

    def test_what_a_person_switched_on_is_switched_off(self, fleet: double.Repository, pulls: Pulls) -> None:
        fleet.allow_auto_merge = True
        fleet.protect("main", reviews=1)
        pull = opened(pulls)
        fleet.enable_auto_merge(pull.number, "ada")
        pulls.disable_auto_merge(pull)
        assert fleet.pull(pull.number).auto_merge is None
        with pytest.raises(GitHubRefused):
            pulls.disable_auto_merge(pull)

    def test_a_head_that_was_not_seen_is_not_merged(self, fleet: double.Repository, pulls: Pulls) -> None:
        fleet.allow_auto_merge = True
        fleet.protect("main", reviews=1)
        pull = opened(pulls)
        fleet.push(BRANCH, {LOCK: b"entries: [other]\n"}, "ada")
        with pytest.raises(GitHubRefused):
            pulls.enable_auto_merge(pull)


@pytest.mark.usefixtures("pulls")
def test_without_the_permission_its_line_is_named(connect: Open) -> None:
    less = Pulls(connect(ALL | {"pull_requests": "read"}), FLEET)
    with pytest.raises(PermissionMissing, match="Resource not accessible by integration") as caught:
        opened(less)
    assert "Add to the job `permissions: {pull-requests: write}`" in caught.value.hint
