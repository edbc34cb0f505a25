"""Lists in sentences and in subjects, short enough to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.impact.change import fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN = 3


def all_of(names: Sequence[str]) -> str:
    """Return the names as a sentence has them: `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def some_of(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _SHOWN
    return all_of(names) if more <= 0 else f"{', '.join(names[:_SHOWN])} and {more} more"


def within(files: Sequence[str]) -> str:
    """Return files as the end of a hazard's subject: it is another one where other files have it."""
    if not files:
        return ""
    return f" in {', '.join(files)}" if len(files) <= _SHOWN else f" in {len(files)} files ({fingerprint(*files)})"
