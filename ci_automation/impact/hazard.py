"""Hazards: what a step can break in clusters, beyond what the two components files show."""

from __future__ import annotations

import enum
import shlex
from typing import TYPE_CHECKING, Any

from msgspec import Struct, json

from ci_automation.impact.change import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SHOWN = 3
_MOST_NAMED = 30  # each takes 17 characters of a page, and a page can have twenty artifacts


class Certainty(enum.StrEnum):
    """How sure a hazard is, the least first."""

    ADVICE = "advice"  # it breaks nothing; it is worth knowing
    UNCHECKED = "unchecked"  # nobody could look
    POSSIBLE = "possible"  # it breaks some clusters, and nothing tells whether it is these
    CERTAIN = "certain"


def in_shell(*words: str) -> str:
    """Return a command between backticks, which a shell takes as it is.

    For a word that has a backtick of its own, or signs that nobody sees, it says NAME: a person has to look.
    """
    fit = (shlex.quote(word) if word.isprintable() and "`" not in word else "NAME" for word in words)
    return f"`{' '.join(fit)}`"


def all_of(names: Sequence[str]) -> str:
    """Return the names as a sentence has them: `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def some_of(names: Sequence[str], limit: int = _SHOWN) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - limit
    return all_of(names) if more <= 0 else f"{', '.join(names[:limit])} and {more} more"


def within(files: Sequence[str]) -> str:
    """Return files as the end of a hazard's subject: it is another one where other files have it."""
    if not files:
        return ""
    return f" in {', '.join(files)}" if len(files) <= _SHOWN else f" in {len(files)} files ({fingerprint(*files)})"


class Place(Struct, frozen=True, order=True):
    """Where something is: a file as the user named it, and a line, which is 0 for the whole file."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Hazard(Struct, frozen=True):
    """What can break, where, and what to do about it.

    `gate` is who found it (crds, overlay, compatibility, images). `subject` names it exactly, and without anything that
    changes from run to run: by it a hazard is acknowledged. Several with the same `together` are told in its words,
    with their names, such as `v1 of Alert`, in place of `{}`.
    """

    gate: str
    certainty: Certainty
    subject: str
    sentence: str
    places: tuple[Place, ...] = ()
    remedies: tuple[str, ...] = ()
    together: str = ""
    name: str = ""

    @property
    def fingerprint(self) -> str:
        """Return the 16 hex digits by which it is acknowledged; that it is possible does not cover that it is sure."""
        return fingerprint(self.gate, self.certainty, self.subject)

    @property
    def named(self) -> str:
        """Return the 16 hex digits by which a later run knows what an approver was shown; its words do not count.

        That nobody could look counts by its gate: what a registry does not tell, and why, changes from hour to hour.
        """
        return self.fingerprint if self.certainty is not Certainty.UNCHECKED else fingerprint(self.gate, self.certainty)

    def to_json(self) -> dict[str, Any]:
        """Return the hazard as documents have it."""
        return {**json.decode(json.encode(self)), "fingerprint": self.fingerprint}


def hazard_names(hazards: Iterable[Hazard]) -> frozenset[str]:
    """Return the name of each hazard that is more than advice; one name for all of them where there are very many."""
    names = frozenset(hazard.named for hazard in hazards if hazard.certainty is not Certainty.ADVICE)
    return names if len(names) <= _MOST_NAMED else frozenset((fingerprint(*sorted(names)),))
