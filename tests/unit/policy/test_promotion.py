"""The gates of a promotion, each by its one rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.flux.version import Bump, Version
from ci_automation.policy.decision import Decision, Verdict, decide
from ci_automation.policy.model import Action, Policy
from ci_automation.policy.promotion import Goal, PromotionCandidate, evidence_verdict, promotion_verdicts
from ci_automation.policy.ranges import Range

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
OLD, PATCH, MINOR = (Version.parse(text) for text in ("v2.8.7", "v2.8.8", "v2.9.4"))
CANDIDATE = PromotionCandidate(
    "oci://registry.example/staging:stable", Digest("1" * 64), PATCH, NOW - timedelta(days=3, hours=2)
)
GOAL = Goal(OLD, Policy(), NOW, timedelta(hours=72))


def said(gate: str, candidate: PromotionCandidate = CANDIDATE, goal: Goal = GOAL) -> Verdict:
    (found,) = [verdict for verdict in promotion_verdicts(candidate, goal) if verdict.gate == gate]
    return found


def test_what_has_waited_happens_by_itself() -> None:
    verdicts = promotion_verdicts(CANDIDATE, GOAL)
    assert decide(verdicts) is Decision.AUTO
    assert [verdict.gate for verdict in verdicts] == [
        *("soak", "direction", "prereleases", "range", "kind", "freeze", "paused")
    ]
    assert all(verdict.reason and verdict.looked_at for verdict in verdicts)


@pytest.mark.parametrize(
    ("since", "after", "decision", "words"),
    [
        (timedelta(hours=72), timedelta(hours=72), Decision.AUTO, "for 3d"),
        (
            timedelta(hours=71, minutes=59),
            timedelta(hours=72),
            Decision.WAIT,
            "the source must have had it for 3d, until 2026-11-21 12:01 UTC",
        ),
        (timedelta(minutes=7), timedelta(), Decision.AUTO, "for 7m"),
        (
            timedelta(minutes=7),
            timedelta(hours=1),
            Decision.WAIT,
            "the source must have had it for 1h, until 2026-11-21 12:53 UTC",
        ),
        (timedelta(hours=-1), timedelta(), Decision.AUTO, "for 0m"),
        (
            timedelta(hours=-1),
            timedelta(seconds=1),
            Decision.WAIT,
            "the source must have had it for 0m, until 2026-11-21 13:00 UTC",
        ),
    ],
    ids=["just", "not quite", "no wait", "young", "a clock that is ahead", "a clock that is ahead, and a wait"],
)
def test_the_wait_counts_from_the_record(since: timedelta, after: timedelta, decision: Decision, words: str) -> None:
    verdict = said("soak", replace(CANDIDATE, since=NOW - since), replace(GOAL, after=after))
    assert verdict.decision is decision
    assert words in verdict.reason


@pytest.mark.parametrize("after", [timedelta(), timedelta(hours=1)], ids=["no wait", "a wait"])
def test_without_a_record_nobody_knows(after: timedelta) -> None:
    verdict = said("soak", replace(CANDIDATE, since=None), replace(GOAL, after=after))
    assert verdict.decision is Decision.WAIT
    assert "no record" in verdict.reason


def test_what_no_run_rendered_asks_for_approval() -> None:
    verdict = said("proof", replace(CANDIDATE, rendered=False))
    assert verdict.decision is Decision.APPROVAL
    assert "a person adopted it, for oci://registry.example/staging:stable alone" in verdict.reason


def test_each_piece_of_evidence_has_its_own_say() -> None:
    words = (evidence_verdict("a", "yes"), evidence_verdict("b", against="no"))
    verdicts = promotion_verdicts(replace(CANDIDATE, evidence=words), GOAL)
    found = [verdict for verdict in verdicts if verdict.gate == "evidence"]
    assert found == [
        Verdict("evidence", Decision.AUTO, "yes", "a"),
        Verdict("evidence", Decision.WAIT, "no", "b"),
    ]


@pytest.mark.parametrize(("current", "gone", "waits"), [(None, None, False), (None, OLD, True), (OLD, None, True)])
def test_only_the_first_digest_of_a_new_channel_does_not_soak(
    current: Version | None, gone: Version | None, *, waits: bool
) -> None:
    goal = replace(GOAL, after=timedelta(days=3), current=current, gone=gone)
    recent = replace(CANDIDATE, since=NOW - timedelta(minutes=1))
    assert (said("soak", recent, goal).decision is Decision.WAIT) is waits
    assert said("soak", replace(CANDIDATE, since=None), goal).decision is Decision.WAIT
    found = {it.gate for it in promotion_verdicts(recent, goal) if it.decision is Decision.APPROVAL}
    assert found == (set() if current else {"first"})


def test_a_first_digest_takes_a_person_and_the_range_counts_no_more() -> None:
    goal = replace(GOAL, current=None)
    assert said("first", goal=goal).decision is Decision.APPROVAL
    assert decide(promotion_verdicts(CANDIDATE, goal)) is Decision.APPROVAL


def test_a_deleted_channel_goes_on_from_what_it_had() -> None:
    goal = replace(GOAL, current=None, gone=OLD)
    assert f"was deleted, and had {OLD} last" in said("first", goal=goal).reason
    assert said("direction", goal=replace(goal, gone=MINOR)).decision is Decision.REFUSED


@pytest.mark.parametrize(
    ("goal", "gate", "decision"),
    [
        (replace(GOAL, current=MINOR), "direction", Decision.REFUSED),
        (replace(GOAL, policy=Policy(range=Range.parse("<2.8.8"))), "range", Decision.REFUSED),
        (replace(GOAL, policy=Policy({**Policy().actions, Bump.PATCH: Action.NEVER})), "kind", Decision.REFUSED),
        (replace(GOAL, paused=True), "paused", Decision.WAIT),
    ],
    ids=["down", "range", "never", "paused"],
)
def test_the_policy_of_the_target_counts(goal: Goal, gate: str, decision: Decision) -> None:
    assert said(gate, goal=goal).decision is decision


def test_an_older_release_is_told_with_what_follows_a_source_that_went_back() -> None:
    reason = said("direction", goal=replace(GOAL, current=MINOR)).reason
    assert reason.startswith(f"{CANDIDATE.version} is older than the present {MINOR}: ")
    assert reason.endswith(f"where {CANDIDATE.source} went back, `rollback` follows it")


def test_a_minor_takes_a_person_by_the_usual_policy() -> None:
    assert decide(promotion_verdicts(replace(CANDIDATE, version=MINOR), GOAL)) is Decision.APPROVAL


def test_the_same_version_with_other_contents_is_not_asked_for_its_range() -> None:
    goal = replace(GOAL, current=PATCH, policy=Policy(range=Range.parse("<2.0.0")))
    assert decide(promotion_verdicts(CANDIDATE, goal)) is Decision.AUTO
