"""How much work it may be to look into an overlay, so that one made to be slow is told to be too much instead."""

from __future__ import annotations

MAX_STEPS = 2_000_000  # an overlay around Flux's components takes a tenth of it at the most
_DOCUMENT = 100
_SIGNS = 16  # of a text, in a step
_BETWEEN = "\n,:-[{?"  # each value is behind one of these
_VALUE = 3


class TooMuch(Exception):  # not an error of the run: it becomes a hazard
    """To look into an overlay is more work than anybody's own overlay is."""


class Effort:
    """What is left of the work for one overlay, before and after a step.

    A step is about what it takes to hold a rule against an object, or to copy some values; no clock is looked at, so
    that the same files always come to the same end.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Take steps away.

        Raises:
            TooMuch: there are not so many left.
        """
        self.left -= steps
        if self.left < 0:
            raise TooMuch


def to_skim(text: str) -> int:
    """Return the steps that it takes to look for a few lines of a document."""
    return _DOCUMENT + len(text) // _SIGNS


def to_read(text: str) -> int:
    """Return the steps that it takes to read a document, which are more the more values may be in it."""
    return to_skim(text) + _VALUE * sum(map(text.count, _BETWEEN))


def size(value: object) -> int:
    """Return how many values there are in a value, itself included."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return 1 + sum(map(size, inside))
