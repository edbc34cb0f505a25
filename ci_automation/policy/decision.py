"""The decision about a step, and its reasons."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable


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
