"""The content of the default branch through its history, against the double of GitHub."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from ci_automation.github.client import GitHub
from ci_automation.github.content_history import ContentHistory
from ci_automation.github.errors import EmptyRepository, NotOnGitHub
from ci_automation.github.model import Actor, BranchUpdate, ContentAt, UpdateKind
from tests.fakes.forge import Forge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.github.model import ContentMerge
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


def test_without_a_folder_there_is_no_overlay(fleet: Repository, history: ContentHistory) -> None:
    assert history.head("", CONFIG)[1] == ContentAt(fleet.head, None, "version: 1\n")


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
    assert history.contents([*commits, NOTHING], FOLDER, CONFIG) == found  # nor is a lost one asked for again
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


def test_a_file_that_is_too_large_to_be_sent_is_none(
    fleet: Repository, history: ContentHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.push("main", {"large": b"x" * 5000, "small": b"x"}, "alice")
    monkeypatch.setattr("ci_automation.github.client._MAX_ANSWER_BYTES", 4000)
    tree = fleet.objects.commits[fleet.head].tree
    found = history.files(tree)
    assert found
    names = found[tree]
    assert (history.blob(names["large"]), history.blob(names["small"])) == (None, b"x")


def test_folders_with_all_that_is_in_them_are_one_query(
    forge: Forge, fleet: Repository, history: ContentHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = "/".join("abcdefg")
    commits = [fleet.push("main", {f"{FOLDER}/{deep}/{it}": b"1"}, "alice") for it in ("x", "y")]
    trees = [tree_of(fleet, commit) or "" for commit in commits]
    before = len(forge.requests)
    first, second = (history.files(*trees) or {}).values()
    assert (sorted(first), second.keys() - first.keys()) == ([f"{deep}/x", "patch.yaml"], {f"{deep}/y"})
    assert history.blob(first["patch.yaml"]) == b"a: 1\n"
    assert history.files(*trees)
    assert len(forge.requests) == before + 2  # the deepest folders take another one
    monkeypatch.setattr("ci_automation.github.files._MOST_ENTRIES", 1)
    assert history.files(tree_of(fleet, fleet.push("main", {f"{FOLDER}/z": b""}, "alice")) or "") is None


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


def test_what_github_has_lost_is_not_compared(forge: Forge, fleet: Repository, history: ContentHistory) -> None:
    fleet.merge(requested(fleet, b"a: 2\n"), "bob")
    lost = BranchUpdate("f" * 40, fleet.head, UpdateKind.PR_MERGE, Actor("bob"), forge.now())
    (merge,) = history.merges([lost], FOLDER, CONFIG)[fleet.head]
    assert (merge.merge_base, merge.head) == (None, None)
    assert history.merges([BranchUpdate(fleet.head, "f" * 40, UpdateKind.PR_MERGE, None, forge.now())], "a", "b") == {
        "f" * 40: ()
    }


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


class TestAttacks:
    """What the judge of content needs to see of each trick: types, states, and what a request's page compared."""

    def newest(self, history: ContentHistory) -> BranchUpdate:
        return (history.updates("main") or ())[0]

    def merged(self, history: ContentHistory) -> tuple[BranchUpdate, tuple[ContentMerge, ...], list[str | None]]:
        """Return the last update, the requests merged as its commit, and the overlay before and after."""
        update = self.newest(history)
        states = history.contents((update.before, update.after), FOLDER, CONFIG)
        merges = history.merges([update], FOLDER, CONFIG)[update.after]
        return update, merges, [states[commit].overlay for commit in (update.before, update.after)]

    def test_a_push_of_a_requests_commits_is_a_push_though_the_request_counts_as_merged(
        self, fleet: Repository, history: ContentHistory
    ) -> None:
        number = requested(fleet, b"a: 2\n")
        fleet.move("main", fleet.pull(number).head, "carol")
        update, (merge,), _ = self.merged(history)
        assert (update.kind, merge.making.merged_as, merge.pull.merged_by) == (
            UpdateKind.PUSH, UpdateKind.PUSH, Actor("carol")
        )  # fmt: skip

    def test_a_merge_commit_with_foreign_bytes_has_another_tree_than_its_request(
        self, fleet: Repository, history: ContentHistory
    ) -> None:
        number = requested(fleet, b"a: 2\n")
        head = fleet.pull(number).head
        evil = fleet.objects.changed(fleet.objects.commits[head].tree, {PATCH: b"evil: 1\n"})
        by = fleet.signature("carol")
        fleet.move("main", fleet.objects.commit(evil, [fleet.head, head], by, by, "Merge"), "carol")
        update, (merge,), (before, after) = self.merged(history)
        assert update.kind is UpdateKind.PUSH
        assert merge.merge_base
        assert merge.head
        assert (merge.merge_base.overlay, after) == (before, tree_of(fleet, fleet.head))
        assert merge.head.overlay != after

    def test_what_two_requests_sum_to_is_on_neither_page(self, fleet: Repository, history: ContentHistory) -> None:
        base = fleet.head
        numbers = []
        for name in ("one", "two"):
            fleet.push(name, {f"{FOLDER}/{name}.yaml": b"1"}, "alice", onto=base)
            numbers.append(fleet.open_pull(name, "alice").number)
        for number in numbers:
            fleet.merge(number, "bob")
        _, (merge,), (before, after) = self.merged(history)
        assert merge.merge_base
        assert merge.head
        assert merge.merge_base.overlay == tree_of(fleet, base) != before
        assert merge.head.overlay != after

    def test_a_queue_of_two_is_one_update_that_names_the_last_request(
        self, fleet: Repository, history: ContentHistory
    ) -> None:
        base = fleet.head
        fleet.push("other", {"x": b"1"}, "alice", onto=base)
        other, number = fleet.open_pull("other", "alice").number, requested(fleet, b"a: 2\n")
        fleet.merge_queue(other, number)
        update, (merge,), (before, after) = self.merged(history)
        assert (update.kind, update.before, merge.pull.number) == (UpdateKind.MERGE_QUEUE, base, number)
        assert merge.merge_base
        assert merge.head
        assert (merge.merge_base.overlay, merge.head.overlay) == (before, after)
        assert merge.pull.merged_by
        assert merge.pull.merged_by.is_bot

    def test_a_commit_that_merged_several_requests_names_them_all(
        self, fleet: Repository, history: ContentHistory
    ) -> None:
        first = requested(fleet, b"a: 2\n")
        fleet.push("more", {"x": b"1"}, "carol", onto=fleet.pull(first).head)
        second = fleet.open_pull("more", "carol").number
        fleet.merge(second, "bob")
        _, merges, _ = self.merged(history)
        assert sorted(merge.pull.number for merge in merges) == [first, second]

    def test_a_request_that_went_into_another_branch_is_not_looked_into(
        self, fleet: Repository, history: ContentHistory
    ) -> None:
        fleet.push("feature", {"f": b"1"}, "alice")
        number = requested(fleet, b"a: 2\n", base="feature")
        commit = fleet.merge(number, "bob")
        fleet.move("main", commit, "carol")
        _, (merge,), _ = self.merged(history)
        assert (merge.pull.base, merge.merge_base, merge.head) == ("feature", None, None)

    def test_a_request_that_is_too_large_for_its_page_is_not_looked_into(
        self, fleet: Repository, history: ContentHistory
    ) -> None:
        fleet.push("long", {PATCH: b"a: 2\n" * 10_001, "docs": b"\n" * 10_000}, "alice", onto=fleet.head)
        fleet.merge(fleet.open_pull("long", "alice").number, "bob")
        _, (merge,), _ = self.merged(history)
        assert (merge.merge_base, merge.head) == (None, None)

    def test_a_revert_that_is_pushed_back_has_the_approved_tree_by_a_push(
        self, fleet: Repository, history: ContentHistory
    ) -> None:
        first = fleet.head
        fleet.merge(requested(fleet, b"a: 2\n"), "bob")
        merged = fleet.head
        fleet.push("main", {PATCH: b"a: 1\n"}, "alice")
        fleet.push("main", {PATCH: b"a: 2\n"}, "carol")
        fleet.move("main", merged, "carol", force=True)
        updates = history.updates("main") or ()
        states = history.contents((update.after for update in updates), FOLDER, CONFIG)
        assert [(update.kind.value, states[update.after].overlay) for update in updates] == [
            ("force_push", tree_of(fleet, merged)), ("push", tree_of(fleet, merged)), ("push", tree_of(fleet, first)),
            ("pr_merge", tree_of(fleet, merged)), ("branch_creation", tree_of(fleet, first)),
        ]  # fmt: skip

    def test_a_log_that_lags_or_has_a_gap_shows_it(self, fleet: Repository, history: ContentHistory) -> None:
        for number in range(3):
            fleet.push("main", {PATCH: b"a: 1%d\n" % number}, "alice")
        fleet.lag = 1
        assert self.newest(history).after != fleet.head
        fleet.lag = 0
        del fleet.activity[-2]
        newest, older, *_ = history.updates("main") or ()
        assert newest.before != older.after
