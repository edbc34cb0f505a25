"""Branches and commits: written where the branch is as it was seen, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.github.commits import Commits
from ci_automation.github.errors import AnswerLost, GitHubRefused, HeadMoved, NotOnGitHub, PermissionMissing
from tests.contract.github.conftest import BRANCH, FLEET, LOCK
from tests.fakes.forge.faults import LOST, RESET, Fault, nth, times
from tests.fakes.forge.people import ACTIONS

if TYPE_CHECKING:
    from ci_automation.github.client import GitHub
    from tests.contract.github.conftest import Open
    from tests.fakes.forge import Forge
    from tests.fakes.forge.repository import Repository

MESSAGE = "Ask for Flux v2.9.4\n\nIt is new."
ASKED = {LOCK: b"entries: [x]\n"}


@pytest.fixture
def commits(client: GitHub) -> Commits:
    return Commits(client, FLEET)


class TestBranches:
    def test_one_is_made_at_a_commit(self, fleet: Repository, commits: Commits) -> None:
        commits.create_branch(BRANCH, fleet.head)
        assert fleet.branches[BRANCH] == fleet.head

    def test_one_that_is_there_already_is_as_good(self, fleet: Repository, commits: Commits) -> None:
        for _ in range(2):
            commits.create_branch(BRANCH, fleet.head)

    def test_one_that_is_there_at_another_commit_is_a_conflict(self, fleet: Repository, commits: Commits) -> None:
        there = fleet.push(BRANCH, ASKED, "ada")
        with pytest.raises(HeadMoved, match=BRANCH):
            commits.create_branch(BRANCH, fleet.head)
        assert fleet.branches[BRANCH] == there

    def test_a_commit_that_is_not_there_makes_none(self, fleet: Repository, commits: Commits) -> None:
        with pytest.raises(GitHubRefused):
            commits.create_branch(BRANCH, "0" * 40)
        assert BRANCH not in fleet.branches

    def test_one_is_deleted_and_none_is_as_good(self, fleet: Repository, commits: Commits) -> None:
        fleet.push(BRANCH, ASKED, "ada")
        for _ in range(2):
            commits.delete_branch(BRANCH)
        assert BRANCH not in fleet.branches

    def test_a_deletion_whose_answer_is_lost_is_done(self, forge: Forge, fleet: Repository, commits: Commits) -> None:
        fleet.push(BRANCH, ASKED, "ada")
        forge.faults.append(nth(1, LOST, "DELETE"))
        commits.delete_branch(BRANCH)
        assert BRANCH not in fleet.branches

    def test_the_default_branch_is_not_deleted(self, fleet: Repository, commits: Commits) -> None:
        with pytest.raises(GitHubRefused, match="Cannot delete"):
            commits.delete_branch("main")
        assert fleet.head


class TestACommit:
    def test_it_is_one_request_and_has_all_the_files(self, forge: Forge, fleet: Repository, commits: Commits) -> None:
        fleet.move(BRANCH, fleet.head, ACTIONS)
        files = {LOCK: b"entries: [x]\n", "apps/raw": b"\0\xff\r\n", "apps/a.yaml": None}
        oid = commits.commit(BRANCH, fleet.head, MESSAGE, files)
        assert fleet.branches[BRANCH] == oid
        assert [fleet.read(path, oid) for path in files] == [*list(files.values())[:2], None]
        assert len(forge.requests) == 1
        made = fleet.objects.commits[oid]
        assert (made.message, list(made.parents), made.author.login) == (MESSAGE, [fleet.head], ACTIONS)

    def test_a_message_of_one_line_stays_one(self, fleet: Repository, commits: Commits) -> None:
        fleet.move(BRANCH, fleet.head, ACTIONS)
        oid = commits.commit(BRANCH, fleet.head, "Ask", ASKED)
        assert fleet.objects.commits[oid].message == "Ask"

    def test_where_the_branch_moved_nothing_is_written(self, fleet: Repository, commits: Commits) -> None:
        seen = fleet.head
        theirs = fleet.push(BRANCH, {"apps/a.yaml": b"a: 2\n"}, "ada")
        with pytest.raises(HeadMoved) as caught:
            commits.commit(BRANCH, seen, MESSAGE, ASKED)
        assert caught.value.exit_code == 12
        assert fleet.branches[BRANCH] == theirs

    def test_a_branch_that_is_not_there_is_not_made(self, fleet: Repository, commits: Commits) -> None:
        with pytest.raises((NotOnGitHub, GitHubRefused, HeadMoved)):
            commits.commit(BRANCH, fleet.head, MESSAGE, ASKED)
        assert BRANCH not in fleet.branches

    def test_a_rule_of_the_branch_is_told(self, fleet: Repository, commits: Commits) -> None:
        fleet.protect("main")
        with pytest.raises(GitHubRefused, match="Changes must be made through a pull request"):
            commits.commit("main", fleet.head, MESSAGE, ASKED)

    def test_an_answer_that_is_lost_says_that_it_may_have_been_done(
        self, forge: Forge, fleet: Repository, commits: Commits
    ) -> None:
        fleet.move(BRANCH, fleet.head, ACTIONS)
        forge.faults.append(nth(1, LOST))
        with pytest.raises(AnswerLost, match="createCommitOnBranch"):
            commits.commit(BRANCH, fleet.head, MESSAGE, ASKED)
        assert len(forge.requests) == 1
        assert fleet.read(LOCK, BRANCH) == ASKED[LOCK]

    def test_without_the_permission_its_line_is_named(self, connect: Open, fleet: Repository) -> None:
        fleet.move(BRANCH, fleet.head, ACTIONS)
        with pytest.raises(PermissionMissing) as caught:
            Commits(connect({"contents": "read"}), FLEET).commit(BRANCH, fleet.head, MESSAGE, ASKED)
        assert "`permissions: {contents: write}`" in caught.value.hint


class TestARebase:
    @pytest.fixture
    def seen(self, fleet: Repository) -> str:
        """Return the tip of a branch that the default branch has left behind."""
        tip = fleet.push(BRANCH, {LOCK: b"entries: [old]\n", "apps/stray": b""}, ACTIONS)
        fleet.push("main", {LOCK: b"entries: [z]\n", "apps/a.yaml": b"a: 2\n"}, "ada")
        return tip

    def test_it_has_the_files_of_the_new_base_but_for_those_given(
        self, fleet: Repository, commits: Commits, seen: str
    ) -> None:
        files = {LOCK: b"entries: [z, new]\n", "apps/raw": b"\xff\xfe", "infra/b.yaml": None}
        oid = commits.rebase_commit(BRANCH, seen, fleet.head, MESSAGE, files)
        assert fleet.branches[BRANCH] == oid
        made = fleet.objects.commits[oid]
        assert (list(made.parents), made.message) == ([seen, fleet.head], MESSAGE)
        found = [fleet.read(path, oid) for path in (LOCK, "apps/raw", "infra/b.yaml", "apps/a.yaml", "apps/stray")]
        assert found == [files[LOCK], files["apps/raw"], None, b"a: 2\n", None]

    def test_it_can_be_merged(self, fleet: Repository, commits: Commits, seen: str) -> None:
        commits.rebase_commit(BRANCH, seen, fleet.head, MESSAGE, {LOCK: b"entries: [z, new]\n"})
        fleet.merge(fleet.open_pull(BRANCH, ACTIONS).number, "ada")
        assert fleet.read(LOCK) == b"entries: [z, new]\n"

    def test_it_is_four_requests(self, forge: Forge, fleet: Repository, commits: Commits, seen: str) -> None:
        commits.rebase_commit(BRANCH, seen, fleet.head, MESSAGE, ASKED)
        assert [request.method for request in forge.requests] == ["GET", "POST", "POST", "PATCH"]

    def test_where_the_branch_moved_nothing_is_written(self, fleet: Repository, commits: Commits, seen: str) -> None:
        theirs = fleet.push(BRANCH, {"apps/theirs": b""}, "ada")
        with pytest.raises(HeadMoved):
            commits.rebase_commit(BRANCH, seen, fleet.head, MESSAGE, ASKED)
        assert fleet.branches[BRANCH] == theirs

    def test_a_branch_that_is_gone_is_a_conflict(self, fleet: Repository, commits: Commits, seen: str) -> None:
        fleet.delete_branch(BRANCH, "ada")
        with pytest.raises(HeadMoved):
            commits.rebase_commit(BRANCH, seen, fleet.head, MESSAGE, ASKED)
        assert BRANCH not in fleet.branches

    def test_a_base_that_is_not_there_is_said_to_be_so(self, commits: Commits, seen: str) -> None:
        with pytest.raises(NotOnGitHub):
            commits.rebase_commit(BRANCH, seen, "0" * 40, MESSAGE, ASKED)

    def test_a_rule_of_the_branch_is_told(self, fleet: Repository, commits: Commits, seen: str) -> None:
        fleet.protect(BRANCH)
        with pytest.raises(GitHubRefused, match="rule violations"):
            commits.rebase_commit(BRANCH, seen, fleet.head, MESSAGE, ASKED)

    @pytest.mark.parametrize("fault", [LOST, RESET, Fault(502)], ids=["lost", "reset", "502"])
    def test_moving_the_branch_is_safe_to_repeat(
        self, forge: Forge, fleet: Repository, commits: Commits, seen: str, fault: Fault
    ) -> None:
        forge.faults.append(times(1, fault, "PATCH"))
        oid = commits.rebase_commit(BRANCH, seen, fleet.head, MESSAGE, ASKED)
        assert fleet.branches[BRANCH] == oid
        assert [request.method for request in forge.requests] == ["GET", "POST", "POST", "PATCH", "PATCH"]
