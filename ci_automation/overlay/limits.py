"""A limit on the work that one overlay may cause, so that one made to be slow is reported instead."""

from __future__ import annotations

MAX_STEPS = 2_000_000  # an overlay around Flux's components takes a fiftieth of it
BUILD = 5_000  # steps for each build by kustomize
_DOCUMENT = 100
_SIGNS = 16  # of a text, in a step
_BETWEEN = "\n,:-[{?"  # each value is behind one of these
_VALUE = 3


class TooMuch(Exception):  # not an error of the run: it becomes a hazard
    """Checking an overlay is more work than a real overlay causes."""


class Effort:
    """The work that is left for one overlay, before and after a step.

    No clock is read, so that the same files always come to the same end.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Take steps away.

        Raises:
            TooMuch: fewer are left.
        """
        self.left -= steps
        if self.left < 0:
            raise TooMuch


def to_skim(text: str) -> int:
    """Return the steps that it takes to look for a few lines of a text."""
    return _DOCUMENT + len(text) // _SIGNS


def to_read(text: str) -> int:
    """Return the steps that reading a text takes, which are more the more values may be in it."""
    return to_skim(text) + _VALUE * sum(map(text.count, _BETWEEN))
