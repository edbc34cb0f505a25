"""Results of promotions: for people, and as values for programs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.policy.decision import Decision
from ci_automation.report.blocks import HINT, Code, MarkedLine, Part, Reasons, Table, on_terminal
from ci_automation.report.changes import text_parts
from ci_automation.report.details import rights_blocks
from ci_automation.report.findings import Findings
from ci_automation.report.notes import ReleaseNotes, notes_hint, notes_text
from ci_automation.report.text import HEADLINES, WORDS, because, brief_cell, brief_reasons, digests_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ci_automation.artifact.reference import Reference
    from ci_automation.artifact.tree import Tree
    from ci_automation.flux.version import Version
    from ci_automation.policy.decision import Hold

_WORDS = {**WORDS, Decision.AUTO: "nothing to do"}
_OPEN = "can be promoted"
_FILES = 10  # of a first digest, without -v


class FirstDigest(Struct, frozen=True):
    """What a channel would get as its first digest, for the person who chooses it."""

    options: tuple[str, ...]
    overlay: Tree
    signer: str
    since: datetime | None  # when the source got it, by a signed record


class PromotionShown(Struct, frozen=True):
    """One promotion: from where to where, what of which version, what was decided, and whether it was done now."""

    name: str
    source: Reference
    target: Reference
    version: Version | None  # None, like `digest`: the source has nothing yet
    digest: Digest | None
    old_version: Version | None  # None, like `before`: there was no such channel
    before: Digest | None
    decision: Decision
    reasons: tuple[str, ...]
    findings: Findings
    done: bool
    notes: tuple[ReleaseNotes, ...] = ()
    ahead: bool = False  # it is only shown: a later `promote` does what can be done
    first: FirstDigest | None = None  # without which there is something to compare with
    source_name: str = ""  # in the configuration, if it has the source too
    holds: tuple[Hold, ...] = ()  # in force, on what the target has

    @property
    def origin(self) -> str:
        """Return where it comes from, for people."""
        return self.source_name or str(self.source)

    @property
    def is_open(self) -> bool:
        """Return whether a later `promote` can do it by itself."""
        return self.ahead and self.decision is Decision.AUTO and bool(self.findings.gates)

    @property
    def word(self) -> str:
        """Return what became of it, or will."""
        return "promoted" if self.done else _OPEN if self.is_open else _WORDS[self.decision]

    def to_json(self) -> dict[str, Any]:
        """Return it as documents have it."""
        return {
            "name": self.name,
            "artifact": str(self.target),
            "source": str(self.source),
            "from": {"version": str(self.old_version or ""), "digest": str(self.before or "")},
            "to": {"version": str(self.version or ""), "digest": str(self.digest or "")},
            "decision": str(self.decision),
            "reasons": list(self.reasons),
            "changed": self.done,
            "releaseNotes": [each.to_json() for each in self.notes],
            **self.findings.to_json(),
        }


def promotion_headline(shown: PromotionShown, *, fails: bool = False) -> MarkedLine:
    """Return what became of a promotion in one sentence; of one that `fails` it says why it waits too."""
    if shown.done:
        words = f"{shown.version} promoted from {shown.origin}"
    elif shown.version is None:
        words = "; ".join(shown.reasons) or "nothing to do"
    elif shown.decision is Decision.AUTO and not shown.is_open:
        words = f"{shown.version} is current" if shown.ahead else f"nothing to do at {shown.version}"
    else:
        decided = _OPEN if shown.is_open else HEADLINES[shown.decision]
        is_content = shown.before is not None and shown.version == shown.old_version
        what = f"changed content of {shown.version}" if is_content else str(shown.version)
        words = f"{what} from {shown.origin} {decided}{because(shown.findings) if _asks(shown) else ''}"
        if fails and shown.decision is Decision.WAIT:
            words += f": {'; '.join(brief_cell(shown.reasons, shown.findings.gates))}"
    if shown.ahead and shown.findings.gates:
        words = f"{f'{shown.old_version} now' if shown.old_version else 'nothing yet'}; {words}"
    return MarkedLine(f"{shown.name}: {words}", shown.word)


def _asks(shown: PromotionShown) -> bool:
    return not shown.done and shown.decision in {Decision.APPROVAL, Decision.REFUSED}


def promotion_table(shown: PromotionShown, *, every: bool = False) -> Table:
    """Return what a channel has or had, what it gets, and why; without `every`, digests and reasons are the brief ones.

    A person's yes is told of what was done.
    """

    def digest(of: Digest | None) -> str:
        return "" if of is None else Code(str(of) if every else of.short)

    had = ("before" if shown.done else "now", str(shown.old_version or "nothing yet"), digest(shown.before), "")
    approved = ("approved",) if shown.done and shown.decision is Decision.APPROVAL else ()
    cause = because(shown.findings) if _asks(shown) and shown.reasons else ""
    why = shown.reasons if every else brief_cell(shown.reasons, shown.findings.gates, cause)
    return digests_table((had, (shown.word, str(shown.version), digest(shown.digest), Reasons((*approved, *why)))))


def promotion_parts(
    shown: PromotionShown, *, every: bool = False, details: bool = True, fails: bool = False
) -> Iterator[Part]:
    """Yield what is below the headline: the table, and with `details` what the promotion changes.

    There is nothing if nothing was to do, or if the source has nothing. If the command `fails`, its headline says why.
    """
    found = shown.findings
    if not (found.gates and shown.digest):
        return
    yield promotion_table(replace(shown, reasons=(), findings=Findings()) if fails else shown, every=every)
    if not details:
        return
    is_first = shown.first is not None and not shown.done
    yield from _first_parts(shown, shown.first, every=every) if shown.first and is_first else ()
    told = shown.reasons if fails else brief_reasons(shown.reasons, found.gates)
    parts = text_parts(found, told, every=every)
    # No command shows more of a first digest that is there: there is nothing to compare it with.
    yield from map(_without_hint, parts) if shown.done and not shown.before else parts
    if is_first and not every:
        yield from on_terminal(rights_blocks(found.rights, every=False))
    if said := notes_text(shown.notes) if every else notes_hint(shown.notes):
        yield from map(MarkedLine, said.splitlines())


def _without_hint(part: Part) -> Part:
    return replace(part, text=part.text.removesuffix(HINT)) if isinstance(part, MarkedLine) else part


def _first_parts(shown: PromotionShown, first: FirstDigest, *, every: bool) -> Iterator[Part]:
    """Yield what is in the first digest of a channel, who signed it, and where it has been since when."""
    options = "these options:" if first.options else "Flux's default options."
    yield MarkedLine(f"A person must choose the first digest of a channel. It is Flux {shown.version} with {options}")
    yield from (MarkedLine(f"  {' '.join(first.options)}", to_copy=True),) if first.options else ()
    yield MarkedLine(f"It is signed by {first.signer}.")
    if first.since:
        yield MarkedLine(f"{shown.origin} has had it since {first.since:%Y-%m-%d %H:%M} UTC.")
    table = files_table(first.overlay)
    if not table.rows:
        yield MarkedLine("It has no files besides Flux's components.")
        return
    yield MarkedLine("Its files besides Flux's components:")
    left = 0 if every else len(table.rows) - _FILES
    yield Table(table.head, table.rows[:_FILES] if left > 0 else table.rows)
    if left > 0:
        yield MarkedLine(f"and {left} more files{HINT}")


def files_table(overlay: Tree) -> Table:
    """Return one row for each file of an overlay."""
    rows = ((shlex.quote(it.path), str(len(it.content)), Digest.of(it.content).short) for it in overlay.files)
    return Table(("path", "bytes", "sha256"), tuple(rows))
