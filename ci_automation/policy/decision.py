"""What is decided about a step, and why."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Decision(enum.StrEnum):
    """What happens to a step; a later one in this list outweighs an earlier one."""

    AUTO = "auto"
    APPROVAL = "approval"
    HOLD = "hold"
    REFUSED = "refused"

    @property
    def is_actionable(self) -> bool:
        """Return whether the step can be done now, if need be with an approval."""
        return self in {Decision.AUTO, Decision.APPROVAL}


# The gates whose pass is worth a word; that a release is complete, or no freeze is on, is not.
_TELLING = frozenset({"kind", "age", "proof"})
# What only passes because a flag allows it is always said, to whoever approves above all.
_ALLOWED = frozenset({"removal", "unproven", "edits"})
_WEIGHT = {decision: weight for weight, decision in enumerate(Decision)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one gate says about a step, in a sentence for people."""

    gate: str
    decision: Decision
    reason: str


def decide(verdicts: Iterable[Verdict]) -> Decision:
    """Return the gravest of the verdicts.

    Raises:
        ValueError: there are none; no gate at all would let everything through.
    """
    return max((verdict.decision for verdict in verdicts), key=_WEIGHT.__getitem__)


def reasons(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """Return the sentences that a person needs: of what stops the step, or else of what lets it through by itself."""
    verdicts = tuple(verdicts)
    grave = tuple(verdict.reason for verdict in verdicts if verdict.decision is not Decision.AUTO)
    allowed = tuple(v.reason for v in verdicts if v.decision is Decision.AUTO and v.gate in _ALLOWED)
    return (grave or tuple(v.reason for v in verdicts if v.gate in _TELLING)) + allowed
