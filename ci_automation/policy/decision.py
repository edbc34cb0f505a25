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
    """Return the sentences of the verdicts that are not a plain pass, or all of them where all pass."""
    verdicts = tuple(verdicts)
    grave = tuple(verdict.reason for verdict in verdicts if verdict.decision is not Decision.AUTO)
    return grave or tuple(verdict.reason for verdict in verdicts)
