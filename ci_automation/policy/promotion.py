"""The gates of a promotion: how long a digest has been where it comes from, and what speaks for it besides."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.policy.decision import Decision, Verdict
from ci_automation.policy.gates import Situation, version_verdicts

if TYPE_CHECKING:
    from datetime import datetime

    from ci_automation.artifact.digest import Digest
    from ci_automation.flux.version import Version
    from ci_automation.policy.model import Policy


class Word(Struct, frozen=True):
    """What something outside says: whether it says yes, in a sentence, and what was looked at."""

    speaks_for: bool
    sentence: str
    looked_at: str


class PromotionCandidate(Struct, frozen=True):
    """What is to be promoted: the digest that a source has, since when by its signed record, and who speaks for it."""

    source: str
    digest: Digest
    version: Version
    since: datetime | None  # None: no record that somebody trusted signed says so
    evidence: tuple[Word, ...] = ()


class Goal(Struct, frozen=True):
    """Where it shall go: what is there (None: nothing), what its policy is, and how long one has to wait."""

    current: Version | None
    policy: Policy
    now: datetime
    after: timedelta = timedelta()
    paused: bool = False


def promotion_verdicts(candidate: PromotionCandidate, goal: Goal) -> tuple[Verdict, ...]:
    """Return what every gate says but those on content and on holds."""
    situation = Situation(goal.current or candidate.version, goal.policy, goal.now, paused=goal.paused)
    evidence = tuple(_evidence(each) for each in candidate.evidence)
    first = (_FIRST,) if goal.current is None else ()
    return (_soak(candidate, goal), *evidence, *first, *version_verdicts(candidate.version, situation))


_FIRST = Verdict(
    "first",
    Decision.APPROVAL,
    "the channel is not there yet: its first digest is for a person to choose",
    "the channel",
)


def _soak(candidate: PromotionCandidate, goal: Goal) -> Verdict:
    """Hold what has not been at the source for long enough, by the record of the move there; nothing else tells."""
    needed = f"promote.after: {_for_people(goal.after)}"
    since = candidate.since
    if since is None:
        reason = f"no record that somebody trusted signed says since when {candidate.source} is at {candidate.digest}"
        return Verdict("soak", Decision.HOLD, reason, "the publication records of the digest")
    looked_at = f"{needed}; recorded {since:%Y-%m-%d %H:%M} UTC"
    has_been = f"it has been at {candidate.source} for {_for_people(max(goal.now - since, timedelta()))}"
    if goal.after and goal.now < (until := since + goal.after):
        reason = f"{has_been}, and waits there until {until:%Y-%m-%d %H:%M} UTC"
        return Verdict("soak", Decision.HOLD, reason, looked_at)
    return Verdict("soak", Decision.AUTO, has_been, looked_at)


def _evidence(word: Word) -> Verdict:
    decision = Decision.AUTO if word.speaks_for else Decision.HOLD
    return Verdict("evidence", decision, word.sentence, word.looked_at)


def _for_people(span: timedelta) -> str:
    """Return a span in days and hours, or in minutes where it is short."""
    hours, rest = divmod(span, timedelta(hours=1))
    parts = [f"{hours // 24}d" if hours >= 24 else "", f"{hours % 24}h" if hours % 24 else ""]  # noqa: PLR2004  # a day
    return " ".join(filter(None, parts)) or f"{rest // timedelta(minutes=1)}m"
