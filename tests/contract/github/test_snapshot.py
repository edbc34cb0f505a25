"""What one query tells of a repository, its branch and its pull requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.github.errors import EmptyRepository, NotOnGitHub, TeamHidden, TooManyFiles, UnexpectedGitHubAnswer
from ci_automation.github.files import Files
from ci_automation.github.model import Actor, Comparison, PullSnapshot, PullState, Review
from ci_automation.github.repository import Repository
from tests.contract.github.conftest import BRANCH, FLEET, LOCK
from tests.fakes.forge.faults import Fault, times
from tests.fakes.forge.people import ACTIONS

if TYPE_CHECKING:
    from ci_automation.github.client import GitHub
    from tests.contract.github.conftest import Open
    from tests.fakes.forge import Forge
    from tests.fakes.forge import repository as double

BOT = Actor(ACTIONS, is_bot=True)


@pytest.fixture
def repository(client: GitHub) -> Repository:
    return Repository(client, FLEET)


@pytest.fixture
def files(client: GitHub) -> Files:
    return Files(client, FLEET)


@pytest.fixture
def asked(fleet: double.Repository) -> int:
    """Return the number of a pull request of the bot's that changes the lock file."""
    fleet.push(BRANCH, {LOCK: b"entries: [x]\n"}, ACTIONS, "Ask")
    return fleet.open_pull(BRANCH, ACTIONS, "Flux v2.9.4", "Please.").number


def snapshot(repository: Repository) -> PullSnapshot:
    return repository.snapshot(BRANCH, LOCK)


class TestTheRepository:
    def test_it_takes_one_request(self, forge: Forge, repository: Repository, asked: int) -> None:
        assert snapshot(repository).pulls[0].number == asked
        assert [(request.method, request.path) for request in forge.requests] == [("POST", "/graphql")]

    def test_it_is_as_it_is(self, fleet: double.Repository, repository: Repository) -> None:
        seen = snapshot(repository)
        assert (seen.default_branch, seen.head, seen.file) == ("main", fleet.head, "entries: []\n")
        assert (seen.branch, seen.pulls, seen.viewer) == (None, (), BOT)
        assert seen.merge_method == "MERGE"

    def test_a_file_that_is_not_there_is_none(self, repository: Repository) -> None:
        assert repository.snapshot(BRANCH, ".github/other.yaml").file is None

    def test_an_empty_file_is_one(self, fleet: double.Repository, repository: Repository) -> None:
        fleet.push("main", {LOCK: b""}, "ada")
        assert snapshot(repository).file == ""

    def test_a_file_that_is_no_text_is_not_taken_for_none(
        self, fleet: double.Repository, repository: Repository
    ) -> None:
        fleet.push("main", {LOCK: b"\0\xff"}, "ada")
        with pytest.raises(UnexpectedGitHubAnswer, match="is not a text"):
            snapshot(repository)

    def test_a_person_with_a_token_is_who_asks(self, forge: Forge, connect: Open) -> None:
        token = forge.token("pat", FLEET, {"contents": "read", "pull_requests": "read"}, login="ada")
        assert snapshot(Repository(connect(token=token), FLEET)).viewer == Actor("ada")

    @pytest.mark.parametrize("name", ["acme/other", "nobody/fleet"])
    def test_what_is_not_there_is_said_to_be_so(self, client: GitHub, name: str) -> None:
        with pytest.raises(NotOnGitHub, match=name):
            Repository(client, name).snapshot(BRANCH, LOCK)

    def test_without_a_commit_there_is_nothing_to_see(self, fleet: double.Repository, repository: Repository) -> None:
        fleet.branches.clear()
        with pytest.raises(EmptyRepository):
            snapshot(repository)


class TestTheBranch:
    def test_its_commits_are_newest_first_and_its_own(self, fleet: double.Repository, repository: Repository) -> None:
        first = fleet.push(BRANCH, {LOCK: b"entries: [x]\n"}, ACTIONS, "Ask")
        second = fleet.push(BRANCH, {LOCK: b"entries: [y]\n"}, "ada", "Another")
        fleet.push("main", {"apps/a.yaml": b"a: 2\n"}, "grace")
        branch = snapshot(repository).branch
        assert branch is not None
        assert (branch.name, branch.head, branch.file) == (BRANCH, second, "entries: [y]\n")
        assert [(commit.oid, commit.author, commit.message) for commit in branch.commits] == [
            (second, Actor("ada"), "Another"),
            (first, BOT, "Ask"),
        ]

    def test_one_that_is_where_the_default_branch_is_has_none(
        self, fleet: double.Repository, repository: Repository
    ) -> None:
        fleet.move(BRANCH, fleet.head, ACTIONS)
        branch = snapshot(repository).branch
        assert branch is not None
        assert (branch.head, branch.commits) == (fleet.head, ())

    def test_of_many_commits_the_newest_are_told(self, fleet: double.Repository, repository: Repository) -> None:
        for number in range(55):
            fleet.push(BRANCH, {"apps/a.yaml": b"%d" % number}, "ada", f"{number}")
        branch = snapshot(repository).branch
        assert branch is not None
        assert [commit.message for commit in branch.commits] == [str(number) for number in range(54, 4, -1)]

    def test_what_is_no_text_there_is_none(self, fleet: double.Repository, repository: Repository) -> None:
        fleet.push(BRANCH, {LOCK: b"\0\xff"}, "ada")
        branch = snapshot(repository).branch
        assert branch is not None
        assert branch.file is None


class TestPullRequests:
    def test_an_open_one_is_told_whole(self, fleet: double.Repository, repository: Repository, asked: int) -> None:
        (pull,) = snapshot(repository).pulls
        assert (pull.number, pull.state, pull.title, pull.body) == (asked, PullState.OPEN, "Flux v2.9.4", "Please.")
        assert (pull.branch, pull.base, pull.head) == (BRANCH, "main", fleet.branches[BRANCH])
        assert (pull.author, pull.merged_by, pull.merged_at) == (BOT, None, None)
        assert (pull.cross_repository, pull.auto_merge) == (False, False)
        assert pull.url.endswith(f"/{FLEET}/pull/{asked}")

    @pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
    def test_a_merged_one_has_the_file_of_its_merge(
        self, fleet: double.Repository, repository: Repository, asked: int, how: str
    ) -> None:
        fleet.merge(asked, "ada", how)
        fleet.push("main", {LOCK: b"entries: [later]\n"}, "ada")
        (pull,) = snapshot(repository).pulls
        assert (pull.state, pull.merged_by) == (PullState.MERGED, Actor("ada"))
        assert pull.merged_file == "entries: [x]\n"
        assert pull.merged_at is not None

    def test_a_merged_one_is_found_when_its_branch_is_gone(
        self, fleet: double.Repository, repository: Repository, asked: int
    ) -> None:
        fleet.merge(asked, "ada")
        fleet.delete_branch(BRANCH, "ada")
        assert [pull.number for pull in snapshot(repository).pulls] == [asked]

    def test_a_closed_one_is_found_when_its_branch_is_gone(
        self, fleet: double.Repository, repository: Repository, asked: int
    ) -> None:
        fleet.close(asked, "ada")
        fleet.delete_branch(BRANCH, "ada")
        assert [pull.state for pull in snapshot(repository).pulls] == [PullState.CLOSED]

    def test_they_are_newest_first(self, fleet: double.Repository, repository: Repository, asked: int) -> None:
        fleet.close(asked, "ada")
        again = fleet.open_pull(BRANCH, ACTIONS).number
        assert [pull.number for pull in snapshot(repository).pulls] == [again, asked]

    def test_what_goes_into_another_branch_is_none(
        self, fleet: double.Repository, repository: Repository, asked: int
    ) -> None:
        fleet.push("stable", {"apps/a.yaml": b"a: 3\n"}, "ada")
        fleet.open_pull(BRANCH, "ada", base="stable")
        assert [pull.number for pull in snapshot(repository).pulls] == [asked]

    def test_forks_cannot_push_ours_out_of_sight(
        self, forge: Forge, fleet: double.Repository, repository: Repository, asked: int
    ) -> None:
        fork = forge.fork(FLEET, "mallory")
        fork.push(BRANCH, {LOCK: b"entries: [evil]\n"}, "mallory")
        fleet.private = False
        for _ in range(25):
            fleet.close(fleet.open_pull(f"mallory:{BRANCH}", "mallory").number, "mallory")
        fleet.open_pull(f"mallory:{BRANCH}", "mallory")
        assert [pull.number for pull in snapshot(repository).pulls] == [asked]

    def test_a_merged_one_of_a_fork_says_so(
        self, forge: Forge, fleet: double.Repository, repository: Repository
    ) -> None:
        forge.fork(FLEET, "mallory").push(BRANCH, {LOCK: b"entries: [evil]\n"}, "mallory")
        fleet.private = False
        fleet.merge(fleet.open_pull(f"mallory:{BRANCH}", "mallory").number, "ada")
        assert [pull.cross_repository for pull in snapshot(repository).pulls] == [True]

    def test_only_the_last_word_of_those_who_may_write_is_a_review(
        self, fleet: double.Repository, repository: Repository, asked: int
    ) -> None:
        fleet.review(asked, "ada", "CHANGES_REQUESTED")
        fleet.review(asked, "ada", "APPROVED")
        fleet.review(asked, "ada", "COMMENTED")
        fleet.review(asked, "rita", "APPROVED")
        (pull,) = snapshot(repository).pulls
        assert [(review.author, review.state, review.commit) for review in pull.reviews] == [
            (Actor("ada"), "APPROVED", fleet.branches[BRANCH])
        ]
        assert isinstance(pull.reviews[0], Review)

    def test_a_review_stays_on_the_commit_that_was_reviewed(
        self, fleet: double.Repository, repository: Repository, asked: int
    ) -> None:
        fleet.review(asked, "ada")
        seen = fleet.branches[BRANCH]
        fleet.push(BRANCH, {LOCK: b"entries: [other]\n"}, "grace")
        (pull,) = snapshot(repository).pulls
        assert pull.reviews[0].commit == seen != pull.head


class TestPermissions:
    @pytest.mark.parametrize(
        ("login", "permission"),
        [
            pytest.param("ada", "write", id="a writer"),
            pytest.param("grace", "admin", id="an administrator"),
            pytest.param("rita", "read", id="a reader"),
            pytest.param("mallory", "none", id="a stranger"),
            pytest.param("nobody", "none", id="no account"),
            pytest.param(ACTIONS, "none", id="a bot"),
            pytest.param("ada/../grace", "none", id="a path"),
        ],
    )
    def test_each_has_its_own(self, forge: Forge, repository: Repository, login: str, permission: str) -> None:
        forge.user("mallory")
        assert repository.permission(login).level == permission

    def test_members_of_a_team_are_known_to_who_may_see_them(self, forge: Forge, connect: Open) -> None:
        team = forge.team("acme/platform", ["ada"])
        team.invited.add("grace")
        token = forge.token("app", FLEET, {"members": "read"}, login=forge.app("flux").login)
        repository = Repository(connect(token=token), FLEET)
        assert [repository.is_member("acme/platform", login) for login in ("ada", "grace", "rita")] == [
            True,
            False,
            False,
        ]
        with pytest.raises(TeamHidden, match="acme/other"):
            repository.is_member("acme/other", "ada")

    def test_who_may_not_see_a_team_is_told_so(self, forge: Forge, repository: Repository) -> None:
        forge.team("acme/platform", ["ada"])
        with pytest.raises(TeamHidden) as caught:
            repository.is_member("acme/platform", "ada")
        assert "members: read" in caught.value.hint


class TestFiles:
    @pytest.mark.parametrize(
        ("paths", "found"),
        [
            pytest.param(("apps",), ["apps/a.yaml"], id="a folder"),
            pytest.param(("apps/",), ["apps/a.yaml"], id="a folder with a slash"),
            pytest.param(("apps", "infra"), ["apps/a.yaml", "infra/b.yaml"], id="two"),
            pytest.param(("infra/b.yaml",), ["infra/b.yaml"], id="a file"),
            pytest.param(("app",), [], id="half a name"),
            pytest.param(("infra/b.yaml/x",), [], id="below a file"),
            pytest.param((LOCK, "nowhere"), [LOCK], id="nothing"),
        ],
    )
    @pytest.mark.parametrize("largest", [100_000, 5], ids=["at once", "by walking"])
    def test_they_are_those_below_the_paths(
        self, forge: Forge, fleet: double.Repository, files: Files, paths: tuple[str, ...], found: list[str],
        largest: int,
    ) -> None:  # fmt: skip
        forge.largest_tree = largest
        assert [path for path, _ in files.listed(fleet.head, paths)] == found

    def test_without_paths_they_are_all(self, fleet: double.Repository, files: Files) -> None:
        paths = [path for path, _ in files.listed(fleet.head)]
        assert paths == sorted(paths)
        assert {"README.md", LOCK, "apps/a.yaml"} <= set(paths)

    def test_more_than_can_be_listed_is_an_error(self, forge: Forge, fleet: double.Repository, files: Files) -> None:
        forge.largest_tree = 5
        with pytest.raises(TooManyFiles, match="the root"):
            files.listed(fleet.head)
        fleet.push("main", {f"apps/{number}.yaml": b"" for number in range(9)}, "ada")
        with pytest.raises(TooManyFiles, match="apps"):
            files.listed(fleet.head, ["apps"])

    @pytest.mark.parametrize("content", [b"a: 1\n", b"", b"\0\xff\r\n", b"x" * 100_000])
    def test_content_is_byte_for_byte(self, fleet: double.Repository, files: Files, content: bytes) -> None:
        fleet.push("main", {"apps/c": content}, "ada")
        ((_, sha),) = files.listed(fleet.head, ["apps/c"])
        assert files.blob(sha) == content

    def test_content_that_is_another_is_refused(self, forge: Forge, fleet: double.Repository, files: Files) -> None:
        ((_, sha),) = files.listed(fleet.head, ["apps"])
        for content in ("ZXZpbA==", "*"):
            forge.faults = [times(1, Fault(200, {"content": content, "encoding": "base64"}))]
            with pytest.raises(UnexpectedGitHubAnswer, match="another content"):
                files.blob(sha)


class TestAnswersThatAreNone:
    """What no server that keeps to its schema says."""

    @pytest.mark.parametrize(
        ("changed", "why"),
        [
            pytest.param({"viewer": None}, "without saying who asks", id="nobody asks"),
            pytest.param({"tip": "0" * 40}, "do not lead to its tip", id="commits of another branch"),
            pytest.param({"viewer": {"login": 7}}, "'login'", id="a login that is a number"),
        ],
    )
    def test_they_are_refused(self, forge: Forge, repository: Repository, changed: dict[str, object], why: str) -> None:
        oid = "a" * 40
        commit = {"oid": changed.get("tip", oid), "message": "m", "author": None}
        data = {
            "viewer": changed.get("viewer", {"login": "ada"}),
            "repository": {
                "viewerDefaultMergeMethod": "MERGE",
                "defaultBranchRef": {
                    "name": "main",
                    "target": {"oid": oid},
                    "compare0": {"commits": {"nodes": [commit]}},
                },
                "ref0": {"target": {"oid": oid}},
            },
        }
        forge.faults.append(times(1, Fault(200, {"data": data})))
        with pytest.raises(UnexpectedGitHubAnswer, match=why):
            snapshot(repository)


def test_the_merge_base_is_where_a_branch_left_the_other(fleet: double.Repository, repository: Repository) -> None:
    start = fleet.head
    head = fleet.push(BRANCH, {"apps/a.yaml": b"a: 2\n"}, "ada")
    base = fleet.push("main", {"apps/b.yaml": b"b: 1\n"}, "ada")
    assert repository.compared(base, head) == Comparison(start, ("apps/a.yaml",))
    assert repository.compared(head, head) == Comparison(head, ())
    moved = fleet.push("moved", {"apps/b.yaml": None, "b.yaml": b"b: 1\n"}, "ada", onto=base)
    assert repository.compared(base, moved) == Comparison(base, ("apps/b.yaml", "b.yaml"), (("apps/b.yaml", "b.yaml"),))
    many = fleet.push("many", {f"apps/{number}": b"" for number in range(300)}, "ada", onto=base)
    assert repository.compared(base, many) == Comparison(base, None)
    with pytest.raises(NotOnGitHub):
        repository.compared(base, "0" * 40)


@pytest.mark.parametrize(
    ("old", "new", "shows"),
    [
        ("apps/a.yaml", "apps/b.yaml", True),
        ("apps/a.yaml", "b.yaml", True),
        ("a.yaml", "b.yaml", True),
        ("a.yaml", "apps/b.yaml", False),
        ("apps-old/a.yaml", "apps/b.yaml", False),
        ("a.yaml", "apps-old/b.yaml", True),
    ],
)
def test_a_comparison_shows_a_folder_unless_a_file_came_there_from_elsewhere(
    old: str, new: str, *, shows: bool
) -> None:
    assert Comparison("", (old, new), ((old, new),)).shows("apps") is shows
    assert not Comparison("", None, ((old, new),)).shows("apps")
