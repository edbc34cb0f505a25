"""The decision about a step and its reasons, and holds: a rolled-back release waits for a newer one, or a date."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ci_automation.artifact.reference import Digest
    from ci_automation.flux.version import Version


class Decision(enum.StrEnum):
    """A verdict on a step; a later one in this list is stricter."""

    AUTO = "auto"
    APPROVAL = "approval"
    WAIT = "wait"
    REFUSED = "refused"

    @property
    def is_actionable(self) -> bool:
        """Return whether the step can be done now, if need be with an approval."""
        return self in {Decision.AUTO, Decision.APPROVAL}


ACKNOWLEDGED = "acknowledged"  # the gate of what a person has acknowledged; it looked at the fingerprint
# The gates whose pass is worth reporting, unlike `release` or `freeze`.
_TELLING = frozenset({"kind", "age", "proof", "changes"})
_FEW = 3
_WEIGHT = {decision: weight for weight, decision in enumerate(Decision)}


class Verdict(Struct, frozen=True, rename={"decision": "verdict", "looked_at": "input"}):
    """The verdict of one gate on a step, in a sentence for people, and what the gate looked at.

    The report always shows one that would stop the step if a person had not `allowed` it.
    """

    gate: str
    decision: Decision
    reason: str
    looked_at: str = ""
    allowed: bool = False


def decide(verdicts: Iterable[Verdict]) -> Decision:
    """Return the strictest of the verdicts.

    Raises:
        ValueError: there are none; without a gate everything would pass.
    """
    return max((verdict.decision for verdict in verdicts), key=_WEIGHT.__getitem__)


def reasons(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """Return the sentences that a person needs: why the step stops, strictest first, or else why it passes."""
    verdicts = tuple(verdicts)
    stops = [verdict for verdict in verdicts if verdict.decision is not Decision.AUTO]
    stops.sort(key=lambda verdict: -_WEIGHT[verdict.decision])
    allowed = tuple(verdict.reason for verdict in verdicts if verdict.allowed)
    if len(allowed) > _FEW:
        allowed = (*allowed[: _FEW - 1], f"{len(allowed) - _FEW + 1} more that a person has allowed")
    telling = stops or [verdict for verdict in verdicts if verdict.gate in _TELLING]
    return tuple(verdict.reason for verdict in telling) + allowed


_GATE = "hold"


class Hold(Struct, frozen=True):
    """The release that a rollback refused, when, until when that counts, and why.

    Without a date it counts until the channel goes to a newer version than the refused one. `moved` is when the channel
    was moved back, where that is not `at`: the hold was changed since. It is on the digest `alone`, and on no release,
    if the channel went back to other content of the same version, or from what another writer put there.
    """

    version: Version
    digest: Digest
    at: datetime
    until: datetime | None = None
    reason: str = ""
    moved: datetime | None = None
    alone: bool = False

    @property
    def since(self) -> datetime:
        """Return when the channel was moved back."""
        return self.moved or self.at

    @property
    def order(self) -> tuple[datetime, datetime]:
        """Return the key by which the last of several about one digest counts."""
        return self.since, self.at

    @property
    def end(self) -> str:
        """Return until when it counts, in words."""
        return f"until {self.until:%Y-%m-%d %H:%M} UTC" if self.until else "until the channel takes a newer release"

    @property
    def told(self) -> str:
        """Return what it is on, for people."""
        short = self.digest.short
        return f"digest {short}" if self.alone else f"{self.version} ({short})"

    @property
    def goes_on_as(self) -> str:
        """Return the sentence for people that it goes on."""
        what = f"digest {self.digest}" if self.alone else f"{self.version} ({self.digest})"
        return f"The hold on {what} goes on {self.end}."

    @property
    def has_ended(self) -> bool:
        """Return whether it was written to end the hold: a change of it whose date was no later than the moment itself.

        A rollback may be dated later than its hold ends, after a record by a clock that was ahead.
        """
        return self.moved is not None and self.until is not None and self.until <= self.at

    def is_on(self, now: datetime) -> bool:
        """Return whether its date, if it has one, is yet to come."""
        return self.until is None or now < self.until

    def names(self, offered: Offered) -> bool:
        """Return whether it is on exactly this digest or release."""
        return offered.digest == self.digest or (not self.alone and offered.version == self.version)

    def keeps_back(self, offered: Offered, now: datetime) -> bool:
        """Return whether `offered` has to wait.

        Besides the refused digest and version, that is every older version that was there already when the channel was
        moved back: 2.9.3 is not wanted after going back from 2.9.4 to 2.8.8. A later patch of the old minor is new.
        """
        if not self.is_on(now):
            return False
        if self.names(offered):
            return True
        if self.alone or offered.version is None or offered.version > self.version:
            return False
        return offered.since is None or offered.since <= self.since

    def outlasts(self, other: Hold) -> bool:
        """Return whether it is no earlier word about the same digest than another hold, and keeps back as much."""
        if self.digest != other.digest or self.order < other.order or self.alone > other.alone:
            return False
        return self.until is None or (other.until is not None and self.until >= other.until)

    def goes_on(self, version: Version, now: datetime) -> bool:
        """Return whether it still matters once the channel has `version`, so that what has it needs this hold too."""
        return self.is_on(now) and version <= self.version


class Offered(Struct, frozen=True):
    """What a channel could be moved to: a version (None where the channel's stays), since when it is there, a digest.

    `since` is None if unknown; `digest` is None if nothing was rendered yet.
    """

    version: Version | None = None
    since: datetime | None = None
    digest: Digest | None = None


def hold_verdict(holds: Sequence[Hold], offered: Offered, now: datetime) -> Verdict:
    """Return the verdict of the holds on a channel's present digest about what is offered."""
    for hold in sorted(holds, key=lambda it: not it.names(offered)):
        if hold.keeps_back(offered, now):
            reason = f"{_why(hold, offered)} on hold {hold.end}"
            reason += f": {hold.reason}" if hold.reason else ""
            return Verdict(_GATE, Decision.WAIT, reason, f"the hold of {hold.at:%Y-%m-%d %H:%M} UTC on {hold.digest}")
    number = f"{len(holds)} hold{'' if len(holds) == 1 else 's'} on the present digest"
    return Verdict(_GATE, Decision.AUTO, "no hold of a rollback covers this release", number)


def is_held(verdicts: Iterable[Verdict]) -> bool:
    """Return whether it is a hold that makes a step wait."""
    return any(it.gate == _GATE and it.decision is Decision.WAIT for it in verdicts)


def _why(hold: Hold, offered: Offered) -> str:
    """Return why a hold keeps back what is offered, as the beginning of a sentence."""
    back = f"was rolled back on {hold.since:%Y-%m-%d}"
    if offered.version is None or hold.alone:
        return f"digest {hold.digest.short} {back}, and stays"
    if hold.names(offered):
        return f"{hold.version} {back}, and stays"
    there = "not known to be new since" if offered.since is None else "there already when"
    return f"it is older than the rolled-back {hold.version}, and was {there} that {back}; it stays"


def still_on(holds: Sequence[Hold], version: Version, now: datetime) -> tuple[Hold, ...]:
    """Return the holds that the next digest, with `version`, needs as well."""
    return tuple(hold for hold in holds if hold.goes_on(version, now))
