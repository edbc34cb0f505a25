"""The last lines of a request's page, which are for this program, and the comments that end with them.

A mark says what the page asks for one artifact, and whether that was brought to an end.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.reference import Digest
from ci_automation.report.markdown import code, inline

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ci_automation.artifact.reference import Reference

_MAX_REASON = 600
_DIGEST = r"sha256:[0-9a-f]{64}"
_MARK = re.compile(
    rf"<!-- flux-manifests (?P<state>[a-z]+) (?P<base>{_DIGEST}) (?P<target>{_DIGEST}) (?P<of>{_DIGEST})"
    r"(?P<shown> shown(?: [0-9a-f]{16})*)? -->\s*"
)
_MARKS = re.compile(rf"(?:{re.sub('P<[a-z]+>', ':', _MARK.pattern)})+\Z")


class MarkState(enum.StrEnum):
    """Progress of a request."""

    OPENED = "opened"  # the people who are asked were not all told
    ASKED = "asked"
    WITHDRAWN = "withdrawn"  # by this program, not by a person


class Mark(Struct, frozen=True):
    """What a page asks for one artifact, in one of its last lines. People can edit that line: it approves nothing.

    `of` is the digest of the artifact's address: two artifacts can have the same digests. `shown` are the names of the
    hazards on the page; None where an earlier version of this program wrote it, or where nothing is asked any more.
    """

    base: Digest
    target: Digest
    of: Digest
    state: MarkState = MarkState.ASKED
    shown: frozenset[str] | None = None

    def __str__(self) -> str:
        shown = () if self.shown is None else ("shown", *sorted(self.shown))
        return " ".join(
            ("<!-- flux-manifests", self.state, *map(str, (self.base, self.target, self.of)), *shown, "-->")
        )


def find_marks(body: str) -> tuple[Mark, ...]:
    """Return the marks at the end of a page, or of a comment of ours; none if one of them is not as it should be."""
    end = _MARKS.search(body)
    found = list(_MARK.finditer(end[0])) if end else []
    states = {each["state"] for each in found}
    if len(states) != 1 or not states <= set(MarkState):
        return ()
    return tuple(
        Mark(
            Digest.parse(each["base"]),
            Digest.parse(each["target"]),
            Digest.parse(each["of"]),
            MarkState(each["state"]),
            None if each["shown"] is None else frozenset(each["shown"].split()[1:]),
        )
        for each in found
    )


def put_marks(body: str, marks: Iterable[Mark]) -> str:
    """Return a page with these marks at its end, instead of those that it had."""
    lines = "\n".join(map(str, marks))
    return f"{_MARKS.sub('', body).rstrip()}\n\n{lines}\n"


def place_digest(artifact: Reference) -> Digest:
    """Return what stands for an artifact's address in a mark."""
    return Digest.of(str(artifact).encode())


def superseded(changes: Sequence[tuple[str, Mark, Mark]], marks: Iterable[Mark]) -> str:
    """Return the comment that says what is asked for now, and that no earlier approval counts for it."""
    asks = (f"{what}, {code(str(new.target))}, instead of {code(str(old.target))}" for what, old, new in changes)
    return put_marks(
        f"Superseded: this pull request now asks for {', and for '.join(asks)}. "
        f"Approvals of the old digest{'s' if len(changes) > 1 else ''} do not count for it.",
        marks,
    )


def withdrawn(marks: Iterable[Mark], reason: str) -> str:
    """Return the comment with which a request is closed."""
    return put_marks(f"Withdrawn: {inline(reason, _MAX_REASON)}.", marks)
