"""The gates of a promotion: the soak time of a digest at its source, and further evidence."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.policy.decision import Decision, Verdict
from ci_automation.policy.gates import Situation, version_verdicts

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Digest
    from ci_automation.flux.version import Version
    from ci_automation.policy.model import Policy


class PromotionCandidate(Struct, frozen=True):
    """A promotion's source: its digest, the time of its signed record, the evidence, and whether a run rendered it."""

    source: str
    digest: Digest
    version: Version
    since: datetime | None  # None: no record of a trusted signer says so
    evidence: tuple[Verdict, ...] = ()
    rendered: bool = True


class Goal(Struct, frozen=True):
    """A promotion's target: its present version (None: nothing), its policy, and the soak time.

    `gone` is the version that it had by its records until it was deleted.
    """

    current: Version | None
    policy: Policy
    now: datetime
    after: timedelta = timedelta()
    paused: bool = False
    gone: Version | None = None


def promotion_verdicts(candidate: PromotionCandidate, goal: Goal) -> tuple[Verdict, ...]:
    """Return the verdicts of all gates except those on content and on holds."""
    situation = Situation(goal.current or goal.gone or candidate.version, goal.policy, goal.now, paused=goal.paused)
    first = (_first(goal.gone),) if goal.current is None else ()
    gates = (_after_rollback(it, candidate) for it in version_verdicts(candidate.version, situation))
    unproven = () if candidate.rendered else (_unproven(candidate),)
    return (_soak(candidate, goal), *candidate.evidence, *first, *gates, *unproven)


def _unproven(candidate: PromotionCandidate) -> Verdict:
    """Let a person look at what another person adopted: that counts for the source alone."""
    reason = f"no record says that a run rendered it: a person adopted it, for {candidate.source} alone"
    return Verdict("proof", Decision.APPROVAL, reason, "the publication records of the digest")


def _after_rollback(verdict: Verdict, candidate: PromotionCandidate) -> Verdict:
    """Return the verdict; one on an older release says what to do, since the source may have gone back."""
    if verdict.gate != "direction" or verdict.decision is not Decision.REFUSED:
        return verdict
    return replace(verdict, reason=f"{verdict.reason}: where {candidate.source} went back, `rollback` follows it")


def _first(gone: Version | None) -> Verdict:
    """Let a person choose what a channel begins with."""
    reason = "the channel does not exist yet: a person must choose its first digest"
    if gone is not None:
        reason = f"the channel was deleted, and had {gone} last: a person must choose what it begins with"
    return Verdict("first", Decision.APPROVAL, reason, "the channel")


def _soak(candidate: PromotionCandidate, goal: Goal) -> Verdict:
    """Wait until the soak time has passed since the source's signed record of the digest."""
    needed = f"promote.after: {_for_people(goal.after)}"
    since = candidate.since
    if since is None:
        reason = f"no record of a trusted signer says since when {candidate.source} has {candidate.digest}"
        return Verdict("soak", Decision.WAIT, reason, "the publication records of the digest")
    looked_at = f"{needed}; recorded {since:%Y-%m-%d %H:%M} UTC"
    has_been = f"{candidate.source} has had the digest for {_for_people(max(goal.now - since, timedelta()))}"
    if goal.current is None and goal.gone is None:  # `first` asks a person
        return Verdict("soak", Decision.AUTO, "the first digest of a channel does not wait", looked_at)
    if goal.after and goal.now < (until := since + goal.after):
        reason = f"the source must have had it for {_for_people(goal.after)}, until {until:%Y-%m-%d %H:%M} UTC"
        return Verdict("soak", Decision.WAIT, reason, looked_at)
    return Verdict("soak", Decision.AUTO, has_been, looked_at)


def evidence_verdict(looked_at: str, well: str = "", *, against: str = "") -> Verdict:
    """Return the verdict of one piece of evidence: wait for the reason `against`, or auto as `well` says."""
    return Verdict("evidence", Decision.WAIT if against else Decision.AUTO, against or well, looked_at)


def _for_people(span: timedelta) -> str:
    """Return a span in days and hours, or in minutes if it is short."""
    hours, rest = divmod(span, timedelta(hours=1))
    parts = [f"{hours // 24}d" if hours >= 24 else "", f"{hours % 24}h" if hours % 24 else ""]  # noqa: PLR2004  # a day
    return " ".join(filter(None, parts)) or f"{rest // timedelta(minutes=1)}m"
