"""Results of promotions: for people, and as values for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.policy.decision import Decision
from ci_automation.report.blocks import MarkedLine, Table
from ci_automation.report.changes import brief_parts, text_parts
from ci_automation.report.notes import notes_hint, notes_text
from ci_automation.report.text import HEADLINES, WORDS, because

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flux.version import Version
    from ci_automation.report.blocks import Part
    from ci_automation.report.findings import Findings
    from ci_automation.report.notes import ReleaseNotes

_WORDS = {**WORDS, Decision.AUTO: "nothing to do"}


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

    @property
    def word(self) -> str:
        """Return what became of it."""
        return "promoted" if self.done else _WORDS[self.decision]

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


def promotion_headline(shown: PromotionShown, *, alone: bool = False) -> MarkedLine:
    """Return what became of a promotion in one sentence; `alone` it needs no name."""
    channel = str(shown.target) if alone else f"{shown.name} ({shown.target})"
    if shown.done:
        words = f"{shown.version} promoted from {shown.source}"
    elif shown.version is None:
        words = "; ".join(shown.reasons) or "nothing to do"
    elif shown.decision is Decision.AUTO:
        words = f"nothing to do at {shown.version}"
    else:
        asks = shown.decision is not Decision.WAIT
        decided = f"{HEADLINES[shown.decision]}{because(shown.findings) if asks else ''}"
        words = f"{shown.version} from {shown.source} {decided}"
    return MarkedLine(f"{channel}: {words}", shown.word)


def promotions_table(shown: Sequence[PromotionShown], *, every: bool = False) -> Table:
    """Return one row for each promotion; without `every`, digests are as short as people read them."""
    rows = (
        (
            each.word,
            each.name,
            *(str(it or "") for it in (each.source, each.old_version, each.version)),
            "" if each.digest is None else str(each.digest) if every else each.digest.short,
        )
        for each in shown
    )
    head = ("", "channel", "promoted from", "had", "gets", "digest")
    return Table(head, tuple(rows))


def promotion_parts(
    shown: PromotionShown, *, every: bool = False, width: int | None = None, alone: bool = False
) -> Iterator[Part]:
    """Yield why, and what one promotion changes, on few lines or with `every` detail; nothing if nothing was to do.

    `alone` it is below its headline; if it was not done, an error says why.
    """
    if not shown.findings.gates:
        return
    yield MarkedLine("")
    yield from () if alone else (MarkedLine(f"{shown.name}: {shown.word}", shown.word),)
    for reason in shown.reasons if shown.done or not alone else ():
        yield MarkedLine(f"  {reason}")
    if shown.digest:
        found = shown.findings
        yield from text_parts(found, every=True) if every else brief_parts(found, width, shown.reasons)
    if said := notes_text(shown.notes) if every else notes_hint(shown.notes):
        yield from map(MarkedLine, said.splitlines())
