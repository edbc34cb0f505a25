"""The content of the default branch through its history, against the double of GitHub."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from ci_automation.github.client import GitHub
from ci_automation.github.content_history import ContentHistory
from ci_automation.github.errors import EmptyRepository, NotOnGitHub
from ci_automation.github.model import ContentAt, UpdateKind
from tests.fakes.forge import Forge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fakes.forge import Repository

FOLDER, CONFIG = "clusters/production", ".github/flux-manifests.yaml"
PATCH = f"{FOLDER}/patch.yaml"
NOTHING = "0" * 40


@pytest.fixture
def forge() -> Iterator[Forge]:
    with Forge() as made:
        yield made


@pytest.fixture
def fleet(forge: Forge) -> Repository:
    repository = forge.repository("acme/fleet", {PATCH: b"a: 1\n", CONFIG: b"version: 1\n"})
    repository.collaborators |= dict.fromkeys((forge.user(login).login for login in ("alice", "bob", "carol")), "write")
    return repository


@pytest.fixture
def history(forge: Forge, fleet: Repository) -> ContentHistory:
    rights = {"contents": "read", "pull_requests": "read"}
    return ContentHistory(GitHub(forge.token("actions", fleet.full_name, rights), forge.url), fleet.full_name)


def tree_of(fleet: Repository, commit: str) -> str | None:
    entry = fleet.objects.entry(fleet.objects.commits[commit].tree, FOLDER)
    return entry.sha if entry else None


def requested(fleet: Repository, text: bytes, by: str = "alice", branch: str = "change", base: str = "") -> int:
    fleet.push(branch, {PATCH: text}, by, onto=fleet.branches[base or "main"])
    return fleet.open_pull(branch, by, base=base).number


def test_the_head_has_the_folder_as_git_names_it_the_configuration_and_the_time(
    forge: Forge, fleet: Repository, history: ContentHistory
) -> None:
    branch, content, now = history.head(FOLDER, CONFIG)
    assert (branch, now) == ("main", forge.now())
    assert content == ContentAt(fleet.head, tree_of(fleet, fleet.head), "version: 1\n")


def test_the_attributes_above_the_folder_come_along(fleet: Repository, history: ContentHistory) -> None:
    fleet.push(
        "main", {".gitattributes": b"* -diff\n", "clusters/.gitattributes": b"\xff", "x/.gitattributes": b""}, "bob"
    )
    attributes = history.head(FOLDER, CONFIG)[1].attributes
    assert attributes == {".gitattributes": "* -diff\n", "clusters/.gitattributes": None}


def test_what_is_no_folder_and_no_file_is_not_there(fleet: Repository, history: ContentHistory) -> None:
    assert history.head(PATCH, FOLDER)[1] == ContentAt(fleet.head, None, None)


def test_updates_come_newest_first_page_by_page_with_their_types(
    forge: Forge, fleet: Repository, history: ContentHistory
) -> None:
    for number in range(103):
        fleet.push("main", {"counted": b"%d" % number}, "alice")
    fleet.merge(requested(fleet, b"a: 2\n"), "bob")
    updates = history.updates("main") or ()
    assert [updates[0].kind, updates[1].kind, updates[-1].kind] == [
        UpdateKind.PR_MERGE, UpdateKind.PUSH, UpdateKind.BRANCH_CREATION
    ]  # fmt: skip
    assert len(updates) == 105
    assert all(newer.before == older.after for newer, older in pairwise(updates))
    assert (updates[0].after, updates[-1].before) == (fleet.head, NOTHING)
    assert len([request for request in forge.requests if "/activity" in request.path]) == 2
    assert len(history.updates("main", 7) or ()) == 7


def test_there_are_no_updates_where_github_keeps_no_log(fleet: Repository, history: ContentHistory) -> None:
    fleet.has_activity = False
    assert history.updates("main") is None


def test_contents_of_many_commits_are_asked_for_once(forge: Forge, fleet: Repository, history: ContentHistory) -> None:
    commits = [fleet.push("main", {PATCH: b"a: %d\n" % number}, "alice") for number in range(201)]
    before = len(forge.requests)
    found = history.contents([*commits, NOTHING], FOLDER, CONFIG)
    assert {commit: content.overlay for commit, content in found.items()} == {
        commit: tree_of(fleet, commit) for commit in commits
    }
    assert history.contents(commits, FOLDER, CONFIG) == found
    assert len(forge.requests) == before + 1


@pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
def test_a_merge_has_its_request_with_the_content_of_merge_base_and_head(
    forge: Forge, fleet: Repository, history: ContentHistory, how: str
) -> None:
    base = fleet.head
    number = requested(fleet, b"a: 2\n")
    fleet.push("main", {"other": b"1"}, "alice")
    fleet.review(number, "carol")
    fleet.merge(number, "bob", how)
    update = (history.updates("main") or ())[0]
    (merge,) = history.merges([update], FOLDER, CONFIG)[fleet.head]
    assert (merge.pull.number, merge.pull.merge_commit, merge.pull.base) == (number, fleet.head, "main")
    assert merge.merge_base == ContentAt(base, tree_of(fleet, base), "version: 1\n")
    assert merge.head == ContentAt(merge.pull.head, tree_of(fleet, fleet.head), "version: 1\n")
    assert merge.making.hands == {"alice"}
    assert [review.author.login for review in merge.pull.reviews] == ["carol"]
    # The log of main; the request with its commits; merge base, log of its branch, content of the merge base.
    assert len(forge.requests) == 5


def test_states_and_requests_are_one_query(forge: Forge, fleet: Repository, history: ContentHistory) -> None:
    number = requested(fleet, b"a: 2\n")
    fleet.merge(number, "bob")
    before = len(forge.requests)
    updates = history.updates("main") or ()
    history.contents([each for update in updates for each in (update.after, update.before)], FOLDER, CONFIG)
    (merge,) = history.merges(updates[:1], FOLDER, CONFIG)[fleet.head]
    assert merge.pull.number == number
    assert merge.making.hands == {"alice"}
    # The log, states and requests, merge base, log of its branch.
    assert len(forge.requests) - before == 4


def test_more_merges_than_a_query_asks_for_take_more_queries(
    forge: Forge, fleet: Repository, history: ContentHistory
) -> None:
    for number in range(7):
        fleet.merge(requested(fleet, b"a: 1%d\n" % number, branch=f"change-{number}"), "bob")
    updates = [update for update in history.updates("main") or () if update.kind is UpdateKind.PR_MERGE]
    merges = history.merges(updates, FOLDER, CONFIG)
    assert [merge.pull.number for update in updates for merge in merges[update.after]] == [7, 6, 5, 4, 3, 2, 1]
    # Five requests, two more, and the content of the first one's merge base.
    assert len([request for request in forge.requests if request.path == "/graphql"]) == 3


def test_requests_that_an_answer_does_not_show_whole_are_none(fleet: Repository, history: ContentHistory) -> None:
    head = fleet.push("change", {PATCH: b"a: 2\n"}, "alice")
    for number in range(6):
        fleet.push(f"base-{number}", {"f": b"1"}, "alice", onto=fleet.head)
        fleet.open_pull("change", "alice", base=f"base-{number}")
    fleet.merge(fleet.open_pull("change", "alice").number, "bob", "rebase")
    fleet.move("main", head, "bob", force=True)
    (update, *_) = history.updates("main") or ()
    assert update.after == head
    assert history.merges([update], FOLDER, CONFIG) == {head: ()}


def test_an_update_that_no_request_was_merged_as_has_none(fleet: Repository, history: ContentHistory) -> None:
    number = requested(fleet, b"a: 2\n")
    fleet.merge(number, "bob")
    fleet.push("main", {PATCH: b"a: 3\n"}, "alice")
    updates = (history.updates("main") or ())[:1]
    assert history.merges(updates, FOLDER, CONFIG) == {fleet.head: ()}
    assert history.merges([], FOLDER, CONFIG) == {}


def test_a_request_of_a_fork_is_named_and_not_looked_into(
    forge: Forge, fleet: Repository, history: ContentHistory
) -> None:
    fork = forge.fork("acme/fleet", "mallory")
    fork.push("change", {PATCH: b"a: 2\n"}, "mallory")
    number = fleet.open_pull("mallory:change", "mallory").number
    fleet.merge(number, "bob")
    (merge,) = history.merges((history.updates("main") or ())[:1], FOLDER, CONFIG)[fleet.head]
    assert merge.pull.cross_repository
    assert (merge.merge_base, merge.head) == (None, None)


def test_a_request_that_got_another_base_says_when(fleet: Repository, history: ContentHistory) -> None:
    fleet.push("feature", {"f": b"1"}, "alice")
    number = requested(fleet, b"a: 2\n", base="feature")
    fleet.retarget(number, "main", "alice")
    fleet.merge(number, "bob")
    (merge,) = history.merges((history.updates("main") or ())[:1], FOLDER, CONFIG)[fleet.head]
    assert merge.making.retargeted_at == fleet.pull(number).timeline[0].at


def test_a_repository_that_is_hidden_or_empty_is_said_so(forge: Forge) -> None:
    rights = {"contents": "read", "pull_requests": "read"}
    with pytest.raises(NotOnGitHub):
        ContentHistory(GitHub(forge.token("actions", "acme/other", rights), forge.url), "acme/other").head("a", "b")
    empty = forge.repository("acme/empty")
    empty.branches.clear()
    with pytest.raises(EmptyRepository):
        ContentHistory(GitHub(forge.token("actions", "acme/empty", rights), forge.url), "acme/empty").head("a", "b")
