"""Which merge is a yes, and what a request's branch asks for: each case that only looks so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from ci_automation.approval.branch_work import Trace, Work
from ci_automation.approval.counting import People
from ci_automation.approval.judge import claimed, judge_merge, merge_of, witnesses
from ci_automation.approval.lock import InvalidLock, Lock, LockEntry
from ci_automation.approval.port import ApprovalRequest, GrantedApproval, NotCounted, RequestKind
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.config.model import ApprovalConfig
from ci_automation.flux.version import Version
from ci_automation.github.model import (
    MOST_LISTED,
    Actor,
    Branch,
    Commit,
    Making,
    PullRequest,
    PullSnapshot,
    PullState,
    Review,
    UpdateKind,
)
from ci_automation.records.content import CountedPerson, CountedRequest
from ci_automation.records.notes import Approval
from ci_automation.report.markdown import Mark, MarkState, place_digest

CHANNEL = Reference.parse("oci://ghcr.io/acme/flux-manifests:production")
HERE = place_digest(CHANNEL)
OTHER = Reference.parse("oci://ghcr.io/acme/flux-manifests:edge")
BASE, TARGET, EVIL = (Digest.of(text) for text in (b"base", b"target", b"evil"))
ENTRY = LockEntry(ApprovalRequest(CHANNEL, Version.parse("v2.9.4"), BASE, TARGET))
OLDER = Version.parse("v2.9.3")
LOCK = Lock().with_entry(ENTRY)
MERGED = datetime(2026, 11, 21, 12, tzinfo=UTC)
BOT = Actor("github-actions[bot]", is_bot=True)
ALICE, BOB, EVE = Actor("alice"), Actor("bob"), Actor("eve")
HEAD, OLD_HEAD = "b" * 40, "a" * 40
PLAIN = ApprovalConfig()
PUSHED = MERGED - timedelta(hours=2)
OURS = Making(frozenset({BOT.login, "web-flow"}), PUSHED)
PEOPLE = People({"alice": "write", "bob": "admin", "eve": "read"}, frozenset({"alice", "bob"}))
NEIGHBOUR = LockEntry(replace(ENTRY.request, artifact=OTHER))
NEWER = LockEntry(replace(ENTRY.request, target=Digest.of(b"newer")))
PLACES = [(CHANNEL, RequestKind.VERSION)]


def changed(**fields: Any) -> Lock:
    return Lock().with_entry(replace(ENTRY, request=replace(ENTRY.request, **fields)))


def pull(**fields: Any) -> PullRequest:
    plain = PullRequest(
        id="PR_7", number=7, url="https://github.com/acme/fleet/pull/7", state=PullState.MERGED, title="",
        body=str(Mark(BASE, TARGET, HERE)), branch="flux-manifests/production", base="main", head=HEAD,
        cross_repository=False, author=BOT, merged_by=ALICE, merged_at=MERGED, merged_file=LOCK.text,
    )  # fmt: skip
    return replace(plain, **fields)


def snapshot(*pulls: PullRequest, file: str | None = LOCK.text, viewer: Actor = BOT) -> PullSnapshot:
    return PullSnapshot("main", "d" * 40, file, None, pulls, viewer)


def review(author: Actor = BOB, state: str = "APPROVED", commit: str = HEAD, minute: int = 0) -> Review:
    return Review(author, state, commit, MERGED - timedelta(hours=1) + timedelta(minutes=minute))


def reason(found: GrantedApproval | NotCounted) -> str:
    assert isinstance(found, NotCounted)
    assert found.request == ENTRY.request
    return found.reason


class TestClaimed:
    """What the default branch says now is no more than a claim, and without one there is nothing to judge."""

    def test_the_entry_for_this_step_is_one(self) -> None:
        assert claimed(BASE, CHANNEL, snapshot()) == ENTRY

    @pytest.mark.parametrize(
        ("file", "base", "channel"),
        [
            pytest.param(None, BASE, CHANNEL, id="no lock file: it was edited in the workspace alone"),
            pytest.param(LOCK.text, EVIL, CHANNEL, id="a yes to another base"),
            pytest.param(LOCK.text, BASE, OTHER, id="a yes to another artifact"),
            pytest.param(LOCK.text, TARGET, CHANNEL, id="done already"),
            pytest.param(changed(target=BASE).text, BASE, CHANNEL, id="a step to where the channel is"),
        ],
    )
    def test_anything_else_is_none(self, file: str | None, base: Digest, channel: Reference) -> None:
        assert claimed(base, channel, snapshot(pull(), file=file)) is None

    def test_a_damaged_file_is_an_error(self) -> None:
        with pytest.raises(InvalidLock):
            claimed(BASE, CHANNEL, snapshot(file="version: 1\n"))


class TestMergedByAPerson:
    def test_the_merge_is_the_yes(self) -> None:
        found = judge_merge(ENTRY, snapshot(pull()), OURS, PEOPLE, PLAIN)
        how = "pull request https://github.com/acme/fleet/pull/7"
        counted = CountedRequest("https://github.com/acme/fleet/pull/7", (CountedPerson("alice", 0),))
        approval = Approval("alice", how, MERGED, (counted,))
        assert found == GrantedApproval(ENTRY.request, approval, shown=frozenset())

    def test_the_merge_method_does_not_matter(self) -> None:
        merged = Lock().with_entry(ENTRY).with_entry(replace(ENTRY, request=replace(ENTRY.request, artifact=OTHER)))
        assert isinstance(
            judge_merge(ENTRY, snapshot(pull(merged_file=merged.text)), OURS, PEOPLE, PLAIN), GrantedApproval
        )

    @pytest.mark.parametrize(
        ("merged", "why"),
        [
            pytest.param({"state": PullState.OPEN}, "did not ask for exactly these digests", id="not merged"),
            pytest.param({"state": PullState.CLOSED}, "did not ask for exactly these digests", id="closed"),
            pytest.param({"merged_file": None}, "did not ask for exactly these digests", id="without the file"),
            pytest.param({"merged_file": "x: ["}, "did not ask for exactly these digests", id="with a damaged file"),
            pytest.param(
                {"merged_file": changed(target=EVIL).text}, "did not ask for exactly these", id="another target"
            ),
            pytest.param({"merged_file": changed(base=EVIL).text}, "did not ask for exactly these", id="another base"),
            pytest.param({"merged_file": changed(version=OLDER).text}, "the file was edited", id="an edited one"),
            pytest.param(
                {"merged_file": Lock().with_entry(replace(ENTRY, ask=2)).text}, "the file was edited", id="another ask"
            ),
            pytest.param({"cross_repository": True}, "pull request 7 comes from a fork", id="from a fork"),
            pytest.param({"base": "dev"}, "went into dev, which is not the default branch", id="into another branch"),
            pytest.param({"merged_at": None}, "GitHub does not say when", id="at no time"),
            pytest.param({"merged_by": EVE}, "eve may not write to the repository now", id="a revoked permission"),
            pytest.param({"merged_by": Actor("mallory")}, "mallory may not write to the", id="by somebody unknown"),
            pytest.param({"merged_by": BOT}, "by github-actions[bot] with 0 of 1 people who count", id="by the bot"),
            pytest.param({"merged_by": Actor("renovate[bot]", is_bot=True)}, "with 0 of 1 people", id="by another bot"),
            pytest.param({"merged_by": None}, "was merged with 0 of 1 people", id="by an account that is gone"),
        ],
    )  # fmt: skip
    def test_what_is_none(self, merged: dict[str, Any], why: str) -> None:
        assert why in reason(judge_merge(ENTRY, snapshot(pull(**merged)), OURS, PEOPLE, PLAIN))

    def test_who_the_token_belongs_to_is_no_second_person(self) -> None:
        found = judge_merge(ENTRY, snapshot(pull(), viewer=Actor("Alice")), OURS, PEOPLE, PLAIN)
        assert "was merged by alice with 0 of 1 people who count" in reason(found)

    @pytest.mark.parametrize(
        ("told", "why"),
        [
            pytest.param({"edited_at": PUSHED, "editor": EVE}, "a description that eve wrote last", id="edited"),
            pytest.param({"edited_at": PUSHED}, "an account that is gone wrote last", id="by nobody any more"),
            pytest.param({"author": BOB}, "a description that bob wrote last", id="a request that a person opened"),
            pytest.param(
                {"edited_at": MERGED + timedelta(seconds=1), "editor": BOT}, "after it was merged", id="put right since"
            ),
            pytest.param(
                {"body": str(Mark(BASE, EVIL, HERE))}, "a description of other digests", id="of another target"
            ),
            pytest.param(
                {"body": str(Mark(EVIL, TARGET, HERE))}, "a description of other digests", id="of another base"
            ),
            pytest.param({"body": "Merge this."}, "a description of other digests", id="of none"),
        ],
    )
    def test_a_description_that_is_not_of_a_run_for_these_digests_approves_nothing(
        self, told: dict[str, Any], why: str
    ) -> None:
        assert why in reason(judge_merge(ENTRY, snapshot(pull(**told)), OURS, PEOPLE, PLAIN))

    def test_a_review_counts_for_the_description_that_it_saw(self) -> None:
        renewed = {"edited_at": MERGED - timedelta(minutes=30), "editor": BOT, "merged_by": None}
        before, after = (snapshot(pull(reviews=(review(minute=it),), **renewed)) for it in (29, 30))
        found = judge_merge(ENTRY, before, OURS, PEOPLE, PLAIN)
        assert "bob approved it before its description changed" in reason(found)
        assert isinstance(judge_merge(ENTRY, after, OURS, PEOPLE, PLAIN), GrantedApproval)

    def test_the_file_without_any_pull_request_was_pushed(self) -> None:
        assert "the file was edited" in reason(judge_merge(ENTRY, snapshot(), OURS, PEOPLE, PLAIN))

    def test_what_was_merged_once_is_not_brought_back_by_a_push(self) -> None:
        later = pull(number=6, merged_at=MERGED + timedelta(days=1), merged_file=changed(target=EVIL).text)
        assert "the file was edited" in reason(judge_merge(ENTRY, snapshot(pull(), later), OURS, PEOPLE, PLAIN))

    @pytest.mark.parametrize(
        ("number", "mark", "counts"),
        [
            pytest.param(8, Mark(BASE, TARGET, HERE), False, id="later"),
            pytest.param(6, Mark(BASE, TARGET, HERE), True, id="before"),
            pytest.param(8, Mark(BASE, EVIL, HERE), True, id="of another target"),
            pytest.param(8, Mark(BASE, TARGET, HERE, MarkState.WITHDRAWN), False, id="by this program, in the end"),
        ],
    )
    def test_a_no_to_what_was_asked_anew_is_not_overruled(self, number: int, mark: Mark, *, counts: bool) -> None:
        fields = {"body": str(mark), "merged_by": None, "merged_at": None, "merged_file": None}
        no = pull(number=number, state=PullState.CLOSED, **fields)
        found = judge_merge(ENTRY, snapshot(pull(), no), OURS, PEOPLE, PLAIN)
        assert isinstance(found, GrantedApproval) is counts
        assert counts or "before pull request 8 asked again, and that one was closed" in reason(found)

    @pytest.mark.parametrize(("ended", "counts"), [(MOST_LISTED - 1, True), (MOST_LISTED, False)])
    def test_a_no_may_be_behind_a_list_that_is_full_of_later_requests(self, ended: int, *, counts: bool) -> None:
        fields = {"body": str(Mark(BASE, EVIL, HERE)), "merged_by": None, "merged_at": None, "merged_file": None}
        others = [pull(number=8 + at, state=PullState.CLOSED, **fields) for at in range(ended)]
        found = judge_merge(ENTRY, snapshot(pull(), *others), OURS, PEOPLE, PLAIN)
        assert isinstance(found, GrantedApproval) is counts
        assert counts or f"before {ended} other pull requests from its branch ended" in reason(found)

    def test_a_page_that_a_run_has_withdrawn_is_no_question(self) -> None:
        withdrawn = pull(body=str(Mark(BASE, TARGET, HERE, MarkState.WITHDRAWN)))
        assert "was withdrawn before it was merged" in reason(
            judge_merge(ENTRY, snapshot(withdrawn), OURS, PEOPLE, PLAIN)
        )

    def test_what_is_asked_anew_was_taken_back(self) -> None:
        again = pull(number=8, state=PullState.OPEN, merged_by=None, merged_at=None, merged_file=None)
        assert "merged before pull request 8 was opened, which asks again" in reason(
            judge_merge(ENTRY, snapshot(again, pull()), OURS, PEOPLE, PLAIN)
        )

    def test_the_last_of_two_merges_counts_whatever_their_numbers_are(self) -> None:
        later = pull(number=6, merged_at=MERGED + timedelta(days=1), merged_by=BOB)
        assert merge_of(ENTRY, snapshot(pull(), later)) == later

    def test_a_merge_from_a_fork_that_did_not_ask_for_it_does_not_come_between(self) -> None:
        fork = pull(number=8, merged_at=MERGED + timedelta(days=1), merged_file=None, cross_repository=True)
        assert isinstance(judge_merge(ENTRY, snapshot(fork, pull()), OURS, PEOPLE, PLAIN), GrantedApproval)


class TestGroup:
    """A merge of a group's request counts for an artifact if its page names it, and stands aside if it does not."""

    NAMED = Mark(BASE, TARGET, HERE)
    BESIDE = Mark(BASE, TARGET, place_digest(OTHER))
    LATER = MERGED + timedelta(days=1)

    def judged(self, *marks: Mark, **later: Any) -> GrantedApproval | NotCounted:
        """Judge the merge of a request that names the artifact and then one with `marks`."""
        first = pull(body=f"{self.NAMED}\n{self.BESIDE}")
        body = "\n".join(map(str, marks))
        second = pull(number=8, merged_at=self.LATER, merged_by=BOB, body=body)
        return judge_merge(ENTRY, snapshot(replace(second, **later), first), OURS, PEOPLE, PLAIN)

    @pytest.mark.parametrize(
        ("marks", "later", "by"),
        [
            pytest.param((BESIDE,), {}, "alice", id="a later merge that does not name it"),
            pytest.param((BESIDE, NAMED), {}, "bob", id="a later merge that names it"),
            pytest.param((BESIDE,), {"state": PullState.OPEN, "merged_at": None}, "alice", id="an open one beside it"),
        ],
    )
    def test_the_last_merge_whose_page_names_it_is_the_yes(
        self, marks: tuple[Mark, ...], later: dict[str, Any], by: str
    ) -> None:
        found = self.judged(*marks, **later)
        assert isinstance(found, GrantedApproval)
        assert found.approval.by == by

    @pytest.mark.parametrize(
        ("marks", "later", "why"),
        [
            pytest.param((BESIDE,), {"merged_file": changed(target=EVIL).text}, "the file was edited", id="it changed"),
            pytest.param((BESIDE,), {"author": EVE}, "a description that eve wrote last", id="a page of a person"),
            pytest.param((BESIDE, replace(NAMED, target=EVIL)), {}, "a description of other digests", id="another row"),
            pytest.param((BESIDE, NAMED, replace(NAMED, target=EVIL)), {}, "a description of other", id="two rows"),
            pytest.param((NAMED,), {"state": PullState.OPEN}, "which asks again", id="an open one that names it"),
        ],
    )
    def test_anything_else_is_none(self, marks: tuple[Mark, ...], later: dict[str, Any], why: str) -> None:
        assert why in reason(self.judged(*marks, **later))

    def test_nothing_but_merges_beside_it_is_none(self) -> None:
        alone = snapshot(pull(body=str(self.BESIDE)))
        assert "the file was edited" in reason(judge_merge(ENTRY, alone, OURS, PEOPLE, PLAIN))


class TestReviews:
    TWO = ApprovalConfig(approvals=2)
    ONE = ApprovalConfig(approvals=1)

    @pytest.mark.parametrize(
        ("reviews", "settings", "counts"),
        [
            pytest.param((review(),), ONE, True, id="one of one"),
            pytest.param((), ONE, False, id="none of one"),
            pytest.param((review(), review(ALICE)), TWO, True, id="two of two, the merger among them"),
            pytest.param((review(), review(minute=1)), TWO, False, id="one person twice"),
            pytest.param((review(commit=OLD_HEAD),), ONE, False, id="of an earlier commit"),
            pytest.param((review(commit=OLD_HEAD), review(minute=1)), ONE, True, id="again, of the last commit"),
            pytest.param((review(EVE),), ONE, False, id="of somebody who may not write"),
            pytest.param((review(BOT),), ONE, False, id="of the bot"),
            pytest.param((review(state="COMMENTED"),), ONE, False, id="a comment"),
            pytest.param((review(), review(state="COMMENTED", minute=1)), ONE, True, id="a comment after it"),
            pytest.param((review(), review(state="CHANGES_REQUESTED", minute=1)), ONE, False, id="taken back"),
            pytest.param((review(state="CHANGES_REQUESTED", minute=1), review()), ONE, False, id="in any order"),
            pytest.param((review(state="DISMISSED"),), ONE, False, id="dismissed"),
            pytest.param((review(state="CHANGES_REQUESTED"), review(minute=1)), ONE, True, id="given after all"),
        ],
    )
    def test_as_many_as_are_wanted_of_the_last_commit(
        self, reviews: tuple[Review, ...], settings: ApprovalConfig, *, counts: bool
    ) -> None:
        found = judge_merge(ENTRY, snapshot(pull(reviews=reviews)), OURS, PEOPLE, settings)
        assert isinstance(found, GrantedApproval) is counts
        if not counts:
            assert f"was merged by alice with {reason(found).count('1 of 2')} of {settings.approvals}" in reason(found)

    def test_the_author_is_no_reviewer(self) -> None:
        assert isinstance(
            judge_merge(ENTRY, snapshot(pull(author=BOB, reviews=(review(),))), OURS, PEOPLE, self.ONE), NotCounted
        )

    @pytest.mark.parametrize("merger", [BOT, None, Actor("merge-queue[bot]", is_bot=True)])
    def test_what_github_merges_counts_by_its_reviews(self, merger: Actor | None) -> None:
        for settings in (PLAIN, self.ONE):
            found = judge_merge(ENTRY, snapshot(pull(merged_by=merger, reviews=(review(),))), OURS, PEOPLE, settings)
            assert isinstance(found, GrantedApproval)
            assert found.approval.by == "bob"
        both = pull(merged_by=merger, reviews=(review(), review(ALICE, minute=1)))
        found = judge_merge(ENTRY, snapshot(both), OURS, PEOPLE, self.TWO)
        assert isinstance(found, GrantedApproval)
        assert found.approval.by == "bob, alice"

    def test_what_github_merges_without_reviews_is_nobodys_yes(self) -> None:
        found = judge_merge(ENTRY, snapshot(pull(merged_by=BOT, reviews=(review(EVE),))), OURS, PEOPLE, PLAIN)
        assert reason(found) == (
            "pull request 7 was merged by github-actions[bot] with 0 of 1 people who count, by pressing merge or "
            "approving it; eve may not write to the repository now"
        )


class TestHands:
    """Who had a hand in the branch neither merges nor reviews it for others, and auto-merge is nobody's word."""

    ONE = ApprovalConfig(approvals=1)
    REVIEWED = snapshot(pull(reviews=(review(),)))

    @pytest.mark.parametrize(
        ("making", "counts", "why"),
        [
            pytest.param(OURS, True, "", id="ours alone"),
            pytest.param(Making(frozenset({"alice"}), PUSHED), True, "", id="the merger's"),
            pytest.param(
                Making(frozenset({"bob"}), PUSHED), False,
                "0 of 1 approving reviews of its last commit that count; bob is its author or pushed to it",
                id="the reviewer's"
            ),
            pytest.param(
                Making(frozenset(), None), False,
                "1 of 2 approving reviews of its last commit that count; GitHub does not show who pushed its last "
                "commit, so one more person is needed", id="nobody knows whose"
            ),
        ],
    )  # fmt: skip
    def test_a_review_counts_by_who_had_none(self, making: Making, why: str, *, counts: bool) -> None:
        found = judge_merge(ENTRY, self.REVIEWED, making, PEOPLE, self.ONE)
        assert isinstance(found, GrantedApproval) is counts
        assert counts or reason(found) == f"pull request 7 was merged by alice with {why}"

    def test_logins_have_no_case(self) -> None:
        seen = snapshot(pull(reviews=(review(Actor("Bob")),)))
        people = replace(PEOPLE, permissions={"alice": "write", "Bob": "write"})
        assert isinstance(judge_merge(ENTRY, seen, OURS, people, self.ONE), GrantedApproval)
        assert isinstance(judge_merge(ENTRY, seen, Making(frozenset({"bob"}), PUSHED), people, self.ONE), NotCounted)

    @pytest.mark.parametrize("auto_merge", [PUSHED - timedelta(1), PUSHED, PUSHED + timedelta(minutes=1)])
    def test_an_auto_merge_is_nobodys_whenever_it_was_switched_on(self, auto_merge: datetime) -> None:
        making = replace(OURS, auto_merge=auto_merge)
        found = judge_merge(ENTRY, self.REVIEWED, making, PEOPLE, PLAIN)
        assert isinstance(found, GrantedApproval)
        assert found.approval.by == "bob"
        assert witnesses(ENTRY, self.REVIEWED, making, PLAIN) == ("bob",)
        assert reason(judge_merge(ENTRY, snapshot(pull()), making, PEOPLE, PLAIN)) == (
            "pull request 7 was merged by alice with 0 of 1 people who count, by pressing merge or approving it; "
            "auto-merge was on, so no person pressed merge"
        )

    @pytest.mark.parametrize("kind", [UpdateKind.PUSH, UpdateKind.FORCE_PUSH, UpdateKind.BRANCH_CREATION])
    def test_a_push_of_its_commits_is_no_merge(self, kind: UpdateKind) -> None:
        found = judge_merge(ENTRY, self.REVIEWED, replace(OURS, merged_as=kind), PEOPLE, PLAIN)
        assert "was merged by a push of its commits to the default branch" in reason(found)

    def test_the_merge_of_another_request_is_none_of_it(self) -> None:
        found = judge_merge(ENTRY, self.REVIEWED, replace(OURS, merged_with=(8, 9)), PEOPLE, PLAIN)
        assert "was merged by the same commit as pull request 8, 9" in reason(found)

    def test_a_merge_before_what_is_read_of_the_log_does_not_count(self) -> None:
        found = judge_merge(ENTRY, self.REVIEWED, replace(OURS, is_forgotten=True), PEOPLE, PLAIN)
        assert "was merged before what a run reads of GitHub's log of the default branch" in reason(found)

    def test_the_authors_own_merge_counts_where_it_is_configured_and_the_record_says_so(self) -> None:
        own = snapshot(pull(author=ALICE, editor=BOT, edited_at=PUSHED))
        assert isinstance(judge_merge(ENTRY, own, OURS, PEOPLE, PLAIN), NotCounted)
        found = judge_merge(ENTRY, own, OURS, PEOPLE, ApprovalConfig(own_merge=True))
        assert isinstance(found, GrantedApproval)
        assert found.approval.how == "pull request https://github.com/acme/fleet/pull/7, merged by its author"


class TestTeam:
    TEAM = ApprovalConfig(team="acme/platform")

    def test_a_member_counts(self) -> None:
        assert isinstance(judge_merge(ENTRY, snapshot(pull()), OURS, PEOPLE, self.TEAM), GrantedApproval)

    def test_others_do_not(self) -> None:
        people = replace(PEOPLE, members=frozenset({"bob"}))
        assert "alice is not in the team acme/platform now" in reason(
            judge_merge(ENTRY, snapshot(pull()), OURS, people, self.TEAM)
        )

    def test_a_review_of_somebody_else_does_not(self) -> None:
        people = replace(PEOPLE, members=frozenset({"alice"}))
        one = replace(self.TEAM, approvals=1)
        assert isinstance(judge_merge(ENTRY, snapshot(pull(reviews=(review(),))), OURS, people, one), NotCounted)


class TestWitnesses:
    """Only about those whose word could count is GitHub asked."""

    @pytest.mark.parametrize(
        ("merged", "settings", "asked"),
        [
            pytest.param(pull(), PLAIN, ("alice",), id="who merged"),
            pytest.param(pull(reviews=(review(),)), ApprovalConfig(approvals=1), ("alice", "bob"), id="and reviewed"),
            pytest.param(
                pull(reviews=(review(), review(ALICE))), ApprovalConfig(approvals=1), ("alice", "bob"), id="1"
            ),
            pytest.param(
                pull(reviews=(review(state="DISMISSED"),)), ApprovalConfig(approvals=1), ("alice",), id="gone"
            ),
            pytest.param(pull(merged_by=BOT, reviews=(review(),)), PLAIN, ("bob",), id="who let GitHub merge"),
            pytest.param(pull(merged_by=BOT), PLAIN, (), id="nobody"),
            pytest.param(pull(cross_repository=True), PLAIN, (), id="nobody of a fork"),
            pytest.param(pull(merged_file=None), PLAIN, (), id="nobody of another request"),
        ],
    )
    def test_they_are(self, merged: PullRequest, settings: ApprovalConfig, asked: tuple[str, ...]) -> None:
        assert witnesses(ENTRY, snapshot(merged), OURS, settings) == asked

    def test_what_is_not_known_of_somebody_is_no_permission(self) -> None:
        assert isinstance(judge_merge(ENTRY, snapshot(pull()), OURS, People({}), PLAIN), NotCounted)


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


class TestWorkOfGroup:
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
