"""What a person writes into the configuration to accept changes and hazards, and what of that has no effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.report.quote import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from ci_automation.policy.model import Acknowledgement
    from ci_automation.policy.plan import PlannedStep

_MAX_COMMENT = 100
_DIGITS = frozenset("0123456789e")


def acknowledging(known: Sequence[tuple[str, str]], rows: int) -> str:
    """Return what is to be put into the configuration; the date and the reason are a person's to say."""
    lines = [
        f"  - {{fingerprint: {_scalar(each)}, until: DATE, reason: WHY}}  # {one_line(what, _MAX_COMMENT)}"
        for each, what in known[:rows]
    ]
    more = [f"  # and {len(known) - rows} more"] if len(known) > rows else []
    return "\n".join(["acknowledge:", *lines, *more])


def _scalar(each: str) -> str:
    """Return a fingerprint as YAML that reads as a text; of digits alone, or with an exponent, it would be a number."""
    return f'"{each}"' if set(each) <= _DIGITS else each


def idle_acknowledgements(
    given: Iterable[Acknowledgement], steps: Sequence[PlannedStep], now: datetime
) -> Iterator[str]:
    """Yield a sentence on each acknowledgement without effect on the steps of a plan; nothing where it has none."""
    found = {change.fingerprint for step in steps for change in step.changes}
    found |= {hazard.fingerprint for step in steps for hazard in step.hazards}
    for each in given if steps else ():
        if not each.is_on(now):
            yield ended(each)
        elif each.fingerprint not in found:
            yield f"{_named(each)} matches nothing in the steps of this plan"


def ended(given: Acknowledgement) -> str:
    """Return that the date of an acknowledgement has passed."""
    return f"{_named(given)} ended on {given.until:%Y-%m-%d}"


def _named(given: Acknowledgement) -> str:
    return f"the acknowledgement {given.fingerprint} ({given.reason})"
