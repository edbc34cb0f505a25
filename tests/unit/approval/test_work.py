"""What is on a request's branch: whose it is, and whether it can stay as it is."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ci_automation.approval.lock import Lock, LockEntry
from ci_automation.approval.port import ApprovalRequest, RequestKind
from ci_automation.approval.work import Trace, Work
from ci_automation.artifact.digest import Digest
from ci_automation.artifact.reference import Reference
from ci_automation.flux.version import Version
from ci_automation.github.model import Actor, Branch, Commit, PullRequest, PullSnapshot, PullState

CHANNEL, OTHER = (Reference.parse(f"oci://ghcr.io/acme/flux-manifests:{tag}") for tag in ("production", "edge"))
ENTRY = LockEntry(ApprovalRequest(CHANNEL, Version.parse("v2.9.4"), Digest.of(b"base"), Digest.of(b"target")))
NEIGHBOUR = LockEntry(replace(ENTRY.request, artifact=OTHER))
NEWER = LockEntry(replace(ENTRY.request, target=Digest.of(b"newer")))
LOCK = Lock().with_entry(ENTRY)
PLACES = [(CHANNEL, RequestKind.VERSION)]
BOT, ALICE = Actor("github-actions[bot]", is_bot=True), Actor("alice")
HEAD = "b" * 40


def ours(entry: LockEntry = ENTRY, default: Lock | None = None, author: Actor | None = BOT) -> Commit:
    message = f"Ask for Flux\n\n{Trace.of([entry], default or Lock())}\n"
    return Commit(HEAD, author, message)


THEIRS = Commit("e" * 40, ALICE, "Tidy up")


def seen(*commits: Commit, file: str | None = LOCK.text, merged: str | None = None, fork: bool = False) -> PullSnapshot:
    branch = Branch("flux-manifests/production", HEAD, file, commits)
    pulls = () if merged is None else (
        PullRequest("id", 7, "url", PullState.MERGED, "", "", branch.name, "main", merged, fork),
    )  # fmt: skip
    return PullSnapshot("main", "d" * 40, None, branch, pulls, BOT)


def work(snapshot: PullSnapshot) -> Work:
    found = Work.of(snapshot, PLACES)
    assert found is not None
    return found


def test_no_branch_has_no_work() -> None:
    assert Work.of(replace(seen(), branch=None), PLACES) is None


def test_a_trace_is_found_again_in_a_commit_of_ours_alone() -> None:
    assert Trace.find(ours(), BOT) == Trace.of([ENTRY], Lock())
    assert Trace.find(ours(author=None), BOT) == Trace.of([ENTRY], Lock())  # GitHub does not know the address
    assert Trace.find(ours(author=Actor("our-app[bot]", is_bot=True)), BOT) is not None
    assert Trace.find(ours(author=Actor("Machine")), Actor("machine")) is not None
    assert Trace.find(ours(author=ALICE), BOT) is None
    assert Trace.find(Commit(HEAD, BOT, "Format files"), BOT) is None  # another workflow's


@pytest.mark.parametrize(
    ("snapshot", "people", "altered"),
    [
        pytest.param(seen(ours()), False, False, id="ours alone"),
        pytest.param(seen(ours(NEWER), ours(), file=Lock().with_entry(NEWER).text), False, False, id="ours, twice"),
        pytest.param(seen(), False, False, id="nothing yet"),
        pytest.param(seen(THEIRS, ours()), True, False, id="people's commit beside"),
        pytest.param(seen(THEIRS, ours(), file=Lock().with_entry(NEWER).text), True, True, id="people's other entry"),
        pytest.param(seen(THEIRS, ours(), file=None), True, True, id="people deleted the file"),
        pytest.param(seen(THEIRS, ours(), file="x: ["), True, True, id="people damaged the file"),
        pytest.param(seen(ours(), file=Lock().with_entry(NEWER).text), True, True, id="a commit of ours was amended"),
        pytest.param(seen(THEIRS), True, True, id="people's alone"),
        pytest.param(seen(THEIRS, ours(), merged=HEAD), False, False, id="people's, merged with it"),
        pytest.param(seen(THEIRS, ours(), merged="f" * 40), True, False, id="people's, after it was merged"),
        pytest.param(
            seen(THEIRS, ours(), merged=HEAD, fork=True), True, False, id="a fork's merge is another branch's"
        ),
    ],
)
def test_what_people_did_is_told_from_ours(snapshot: PullSnapshot, *, people: bool, altered: bool) -> None:
    found = work(snapshot)
    assert (found.has_people, found.is_altered) == (people, altered)


@pytest.mark.parametrize(
    ("snapshot", "wanted", "default", "serves"),
    [
        pytest.param(seen(ours()), ENTRY, Lock(), True, id="as it was written"),
        pytest.param(seen(ours()), NEWER, Lock(), False, id="something else is wanted"),
        pytest.param(seen(ours()), replace(ENTRY, ask=2), Lock(), False, id="wanted again"),
        pytest.param(
            seen(ours()), ENTRY, Lock().with_entry(NEIGHBOUR), False, id="another new entry came to the same place"
        ),
        pytest.param(
            seen(ours(NEWER, LOCK), file=LOCK.with_entry(NEWER).text),
            NEWER, LOCK.with_entry(NEIGHBOUR), True, id="a neighbour of an entry that was there is merged by git",
        ),
        pytest.param(
            seen(ours(NEWER, LOCK), file=LOCK.with_entry(NEWER).text),
            NEWER, Lock().with_entry(replace(ENTRY, ask=2)), False, id="the entry itself changed",
        ),
        pytest.param(
            seen(THEIRS, ours()), ENTRY, Lock().with_entry(NEIGHBOUR), True, id="people's commits are left alone"
        ),
        pytest.param(seen(ours(), merged=HEAD), ENTRY, Lock(), False, id="merged already"),
        pytest.param(seen(file=None), ENTRY, Lock(), False, id="nothing yet"),
    ],
)  # fmt: skip
def test_a_branch_serves_as_long_as_it_asks_for_it_and_can_be_merged(
    snapshot: PullSnapshot, wanted: LockEntry, default: Lock, *, serves: bool
) -> None:
    assert work(snapshot).serves([wanted], default) is serves


def test_a_branch_without_commits_left_the_default_branch_at_its_own_head() -> None:
    assert work(seen(file=LOCK.text)).base == Trace.of([NEWER], LOCK).base
    assert work(seen(file=None)).base == Trace.of([NEWER], Lock()).base


class TestGroup:
    """A branch that asks for several artifacts is told by the last trace, which names all that it asks for."""

    PLACES = tuple((Reference.parse(f"oci://r.example/x:{tag}"), RequestKind.VERSION) for tag in "abc")
    A, B, C = (LockEntry(replace(ENTRY.request, artifact=artifact)) for artifact, _ in PLACES)
    DEFAULT = Lock().with_entry(C)

    def on(self, *entries: LockEntry) -> Work:
        message = f"Ask for Flux\n\n{Trace.of(entries, self.DEFAULT)}\n"
        branch = Branch("b", HEAD, self.DEFAULT.with_entries(entries).text, (Commit(HEAD, BOT, message),))
        found = Work.of(PullSnapshot("main", "d" * 40, None, branch, (), BOT), self.PLACES)
        assert found is not None
        return found

    def test_an_entry_that_the_default_branch_had_is_not_asked_for(self) -> None:
        found = self.on(self.A, self.B)
        assert found.entries == (self.A, self.B)
        assert not found.has_people
        assert found.serves((self.B, self.A)[::-1], self.DEFAULT)

    def test_another_number_of_artifacts_is_another_request(self) -> None:
        assert not self.on(self.A, self.B).serves([self.A], self.DEFAULT)
        assert not self.on(self.A).serves([self.A, self.B], self.DEFAULT)
        assert self.on(self.A, self.B).has_others([self.A])
        assert not self.on(self.A).has_others([self.A, self.B])

    def test_what_the_default_branch_has_at_each_place_counts(self) -> None:
        newer = self.DEFAULT.with_entry(replace(self.C, ask=2))
        assert not self.on(self.A, replace(self.C, ask=3)).serves([self.A, replace(self.C, ask=3)], newer)
