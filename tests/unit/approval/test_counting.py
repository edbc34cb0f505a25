"""Whose word counts for a merged pull request: rule by rule, for lock files and for content."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from ci_automation.approval.counting import Counted, MergedRequest, People
from ci_automation.config.model import ApprovalConfig
from ci_automation.github.model import Actor, Making, PullRequest, PullState, Review, UpdateKind

MERGED = datetime(2026, 11, 21, 12, tzinfo=UTC)
HEAD = "b" * 40
BOT = Actor("github-actions[bot]", is_bot=True)
ALICE, BOB, CAROL, DAVE, EVE = map(Actor, ("alice", "bob", "carol", "dave", "eve"))
PEOPLE = People({"alice": "write", "bob": "write", "carol": "write", "eve": "read"})
PLAIN, OWN = ApprovalConfig(), ApprovalConfig(own_merge=True)
PULL = PullRequest(
    id="PR_7", number=7, url="u", state=PullState.MERGED, title="", body="", branch="b", base="main", head=HEAD,
    cross_repository=False, author=ALICE, merged_by=BOB, merged_at=MERGED,
)  # fmt: skip
MADE = Making(frozenset({"alice"}), MERGED - timedelta(hours=3), merged_as=UpdateKind.PR_MERGE)


def review(author: Actor, hours: int = 1, state: str = "APPROVED", commit: str = HEAD) -> Review:
    return Review(author, state, commit, MERGED - timedelta(hours=hours))


def counted(
    settings: ApprovalConfig = PLAIN, making: Making = MADE, people: People = PEOPLE, **fields: Any
) -> Counted | str:
    return MergedRequest(replace(PULL, **fields), making, BOT).counted(people, settings)


def test_another_persons_merge_is_enough() -> None:
    assert counted() == Counted("bob", ())


def test_everyone_who_counts_is_named_once() -> None:
    found = counted(reviews=(review(BOB), review(CAROL), review(EVE)))
    assert found == Counted("bob", ("bob", "carol"))
    assert isinstance(found, Counted)
    assert found.people == ("bob", "carol")


@pytest.mark.parametrize("making", [MADE, replace(MADE, hands=frozenset())])
def test_the_authors_merge_needs_another_person(making: Making) -> None:
    assert counted(making=making, merged_by=ALICE) == (
        "with 0 of 1 people who count, by pressing merge or approving it; alice is its author or pushed to it"
    )
    assert counted(making=making, merged_by=ALICE, reviews=(review(CAROL),)) == Counted(None, ("carol",))


def test_the_authors_merge_counts_where_it_is_configured_and_nobody_elses_push_does() -> None:
    assert counted(OWN, merged_by=Actor("Alice"), people=People({"Alice": "write"})) == Counted(
        "Alice", (), is_own=True
    )
    assert counted(replace(OWN, approvals=1), merged_by=ALICE) == (
        "with 0 of 1 approving reviews of its last commit that count"
    )
    assert isinstance(counted(OWN, making=replace(MADE, hands=frozenset({"bob"}))), str)
    assert isinstance(counted(OWN, merged_by=ALICE, people=People({})), str)
    assert counted(OWN, merged_by=ALICE, author=None) == (
        "with 0 of 1 people who count, by pressing merge or approving it; alice is its author or pushed to it"
    )


@pytest.mark.parametrize(
    ("making", "merged_by", "why"),
    [
        pytest.param(
            replace(MADE, auto_merge=MERGED), BOB, "; auto-merge was on, so no person pressed merge", id="auto"
        ),
        pytest.param(
            replace(MADE, merged_as=UpdateKind.MERGE_QUEUE), BOB, "; a merge queue merged it", id="queue, by who queued"
        ),
        pytest.param(replace(MADE, merged_as=UpdateKind.OTHER), BOB, "; no person pressed merge", id="unknown"),
        pytest.param(replace(MADE, merged_as=UpdateKind.PUSH), BOB, "; no person pressed merge", id="push"),
        pytest.param(MADE, Actor("renovate[bot]", is_bot=True), "", id="bot"),
        pytest.param(MADE, BOT, "", id="we"),
        pytest.param(MADE, None, "", id="gone"),
    ],
)
def test_a_merge_that_no_person_pressed_needs_a_review(making: Making, merged_by: Actor | None, why: str) -> None:
    few = "with 0 of 1 people who count, by pressing merge or approving it"
    assert counted(making=making, merged_by=merged_by) == few + why
    assert counted(making=making, merged_by=merged_by, reviews=(review(CAROL),)) == Counted(None, ("carol",))


@pytest.mark.parametrize(
    ("reviews", "counts"),
    [
        pytest.param((review(CAROL, 1, "CHANGES_REQUESTED"),), False, id="no"),
        pytest.param((review(CAROL, -1, "CHANGES_REQUESTED"),), False, id="after the merge"),
        pytest.param(
            (review(CAROL, 2, "CHANGES_REQUESTED"), review(CAROL, 1, "COMMENTED")), False, id="a comment since"
        ),
        pytest.param((review(CAROL, 2, "CHANGES_REQUESTED"), review(CAROL)), True, id="a yes since"),
        pytest.param((review(CAROL, 1, "DISMISSED"),), True, id="dismissed"),
        pytest.param((review(CAROL, 1, "CHANGES_REQUESTED", "c" * 40),), False, id="to an older commit"),
        pytest.param((review(DAVE, 1, "CHANGES_REQUESTED"),), False, id="by whoever a commit names"),
        pytest.param((review(BOB, 1, "CHANGES_REQUESTED"),), True, id="whose own merge came after it"),
        pytest.param((review(BOB, -1, "CHANGES_REQUESTED"),), False, id="whose own merge came before it"),
        pytest.param((review(Actor("robot[bot]", is_bot=True), 1, "CHANGES_REQUESTED"),), True, id="a bot"),
    ],
)
def test_a_person_who_requested_changes_of_what_was_merged_said_no(
    reviews: tuple[Review, ...], *, counts: bool
) -> None:
    found = counted(
        making=replace(MADE, hands=frozenset({"alice", "dave"})),
        reviews=(*reviews, review(EVE)),
        people=replace(PEOPLE, permissions={**PEOPLE.permissions, "eve": "write"}),
    )
    assert isinstance(found, Counted) is counts
    if not counts:
        assert found == f"though {reviews[0].author.login} requested changes"


def test_a_server_without_a_log_is_believed_on_who_merged() -> None:
    assert counted(making=replace(MADE, merged_as=None)) == Counted("bob", ())


def test_a_pusher_counts_neither_as_merger_nor_as_reviewer() -> None:
    making = replace(MADE, hands=frozenset({"alice", "bob"}))
    assert counted(making=making, reviews=(review(BOB),)) == (
        "with 0 of 1 people who count, by pressing merge or approving it; bob is its author or pushed to it"
    )


def test_where_pushers_are_unknown_one_person_more_is_needed() -> None:
    making = replace(MADE, pushed_at=None)
    remark = "GitHub does not show who pushed its last commit, so one more person is needed"
    assert counted(making=making) == f"with 1 of 2 people who count, by pressing merge or approving it; {remark}"
    assert counted(making=making, reviews=(review(CAROL),)) == Counted("bob", ("carol",))
    one = ApprovalConfig(approvals=1)
    assert counted(one, making, reviews=(review(CAROL),)) == (
        f"with 1 of 2 approving reviews of its last commit that count; {remark}"
    )
    assert counted(one, making, reviews=(review(CAROL), review(BOB))) == Counted("bob", ("carol", "bob"))


@pytest.mark.parametrize(
    ("reviews", "counts"),
    [
        pytest.param((review(CAROL),), True, id="the last word"),
        pytest.param((review(CAROL, 2), review(CAROL, 1, "COMMENTED")), True, id="a comment after it"),
        pytest.param((review(CAROL, 1, "CHANGES_REQUESTED"), review(CAROL, 2)), False, id="taken back"),
        pytest.param((review(CAROL, 1, "DISMISSED"),), False, id="dismissed"),
        pytest.param((review(CAROL, commit="c" * 40),), False, id="of another commit"),
        pytest.param((review(EVE),), False, id="of somebody who may not write"),
        pytest.param((review(BOT),), False, id="of the bot"),
    ],
)
def test_a_review_is_the_last_word_on_the_head(reviews: tuple[Review, ...], *, counts: bool) -> None:
    assert isinstance(counted(ApprovalConfig(approvals=1), reviews=reviews), Counted) is counts


def test_a_review_before_the_last_change_of_base_does_not_count() -> None:
    making = replace(MADE, retargeted_at=MERGED - timedelta(hours=2))
    one = ApprovalConfig(approvals=1)
    assert counted(one, making, reviews=(review(CAROL, 2),)) == (
        "with 0 of 1 approving reviews of its last commit that count; carol approved it before its base changed"
    )
    assert counted(one, making, reviews=(review(CAROL, 1),)) == Counted("bob", ("carol",))


def test_each_must_be_allowed_to_approve_now() -> None:
    team = ApprovalConfig(team="acme/platform")
    assert counted(team, people=replace(PEOPLE, members=frozenset({"bob"}))) == Counted("bob", ())
    assert counted(team, reviews=(review(EVE),)) == (
        "with 0 of 1 people who count, by pressing merge or approving it; bob is not in the team acme/platform now; "
        "eve may not write to the repository now"
    )


def test_anybody_may_approve_as_long_as_github_was_not_asked() -> None:
    assert People.all_of(["alice"]).lacking("alice", "acme/reviewers") == ""
