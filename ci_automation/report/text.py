"""Texts for people: tables and sentences from plans and what became of them."""

from __future__ import annotations

import re
import shlex
import unicodedata
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.policy.decision import Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ci_automation.artifact.digest import Digest
    from ci_automation.policy.plan import Plan, PlannedStep
    from ci_automation.report.findings import Findings

MAX_REASON = 160  # characters; all of it is told with the step
_MAX_WHY = 57  # same, of a step that needs approval, which is told in full below
_FEW = 2
_SENTENCE = 30  # a column with wider cells, and with blanks, may be folded to this width
_HANGING = 2  # how far the later lines of a folded one are indented
_WORDS = {
    Decision.AUTO: "can be published",
    Decision.APPROVAL: "needs approval",
    Decision.WAIT: "waiting",
    Decision.REFUSED: "refused",
}
HEADLINES = {
    **_WORDS,
    Decision.WAIT: "is waiting",
    Decision.REFUSED: "is refused",
}
_UNREAD = "not checked against holds"  # which are signed: nothing was read that nobody verified
_CAUSES = 3  # in a headline
_LEFT = {**_WORDS, Decision.AUTO: "not taken", Decision.APPROVAL: "not taken"}


class Table(Struct, frozen=True):
    """Rows of cells under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def plain(cls, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Table:
        """Return the table whose cells cannot control a terminal."""
        return cls(head, tuple(rows)).mapped(lambda _, cell: plain_text(cell))

    def widths(self, width: int | None = None) -> tuple[int, ...] | None:
        """Return the width of each column in lines of at most `width` characters; None if the table has no room.

        Only columns of sentences get narrower than their cells.
        """
        columns = list(zip(self.head, *self.rows, strict=True))
        full = [max(map(len, column)) for column in columns]
        room = None if width is None else width - 2 * (len(full) - 1)
        if room is None or sum(full) <= room:
            return tuple(full)
        folds = [
            wide > _SENTENCE and any(" " in cell for cell in cells) for wide, cells in zip(full, columns, strict=True)
        ]
        least = [
            max(len(word) for cell in cells for word in (*_words(cell), "")) if fold else wide
            for wide, fold, cells in zip(full, folds, columns, strict=True)
        ]
        found = [max(few, _SENTENCE) if fold else few for few, fold in zip(least, folds, strict=True)]
        left = room - sum(found)
        if left < 0:
            return None
        for column in (it for it, fold in enumerate(folds) if fold):
            more = min(left, full[column] - found[column])
            found[column] += more
            left -= more
        return tuple(found)

    def to_text(self, width: int | None = None, shown: Callable[[str, str], str] = lambda _, text: text) -> str:
        """Return aligned text without trailing blanks, in lines of at most `width` characters where words allow it.

        Sentences are folded between words. If they find no room, each row is a paragraph. `shown` colours what is
        printed of a cell, given the cell.
        """
        if (widths := self.widths(width)) is None:
            return "\n".join(self._paragraph(row, width or 0, shown) for row in self.rows)
        lines = []
        for row in (self.head, *self.rows):
            cells = [wrapped(cell, wide) or [""] for cell, wide in zip(row, widths, strict=True)]
            for number in range(max(map(len, cells))):
                texts = [cell[number] if number < len(cell) else "" for cell in cells]
                last = max((at for at, text in enumerate(texts) if text), default=0)
                pads = [" " * (wide - len(text)) for text, wide in zip(texts, widths, strict=True)]
                told = [shown(cell, text) for cell, text in zip(row, texts, strict=True)]
                lines.append("  ".join(f"{told[at]}{pads[at] if at < last else ''}" for at in range(last + 1)))
        return "\n".join(lines)

    def _paragraph(self, row: tuple[str, ...], width: int, shown: Callable[[str, str], str]) -> str:
        """Return a row as lines: its first cell, and below it each other cell that says something, with its head."""
        wide = max(map(len, self.head))
        lines = [shown(row[0], f"{self.head[0]} {row[0]}".strip())]
        for name, cell in zip(self.head[1:], row[1:], strict=True):
            first, *rest = wrapped(cell, width - wide - 4) or [""]
            if len(first) > width - wide - 4:
                lines += [f"  {name}", f"    {first}"]
            elif cell:
                lines.append(f"  {name.ljust(wide)}  {shown(cell, first)}")
            lines += [f"{' ' * (wide + 4)}{line}" for line in rest]
        return "\n".join(lines)

    def mapped(self, shown: Callable[[str, str], str]) -> Table:
        """Return the table with what `shown` makes of each cell, given the head of its column and its text."""
        return Table(self.head, tuple(tuple(map(shown, self.head, row)) for row in self.rows))


class MarkedLine(Struct, frozen=True):
    """A line for a terminal; `mark` is a word that has a colour there, which the whole line gets.

    A line that is `to_copy`, such as a command or a part of a file, is never folded. One that `may_be_cut` is cut on
    a terminal, and whole elsewhere.
    """

    text: str
    mark: str = ""
    to_copy: bool = False
    may_be_cut: bool = False

    def lines(self, width: int | None) -> list[str]:
        """Return the lines that it takes where lines have at most `width` characters."""
        text = shortened(self.text) if width is not None and self.may_be_cut else self.text
        if width is None or self.to_copy or len(text) <= width or "\n" in text:
            return [text]
        indent = len(text) - len(text.lstrip())
        first, *rest = wrapped(text, width - indent, _HANGING)
        return [" " * indent + first, *(" " * (indent + _HANGING) + line for line in rest)]


def _words(text: str) -> list[str]:
    """Return what a line is never broken in: words, and commands between backticks with what belongs to them."""
    return re.findall(r"(?:`[^`]*`|\S)+", text)


def wrapped(text: str, width: int, hanging: int = 0) -> list[str]:
    """Return a text in lines of at most `width` characters, the later ones shorter by `hanging`; no word is broken."""
    if len(text) <= width:
        return [text]
    lines: list[str] = []
    for word in _words(text):
        if lines and len(lines[-1]) + 1 + len(word) <= width - (hanging if len(lines) > 1 else 0):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


Part = MarkedLine | Table


def plain_text(text: str) -> str:
    """Return `text` without what could control a terminal or a log: controls, escapes, bidirectional marks.

    Line feeds stay; a carriage return does not, for it could overwrite the line.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(
        character
        if character == "\n" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
        else "�"
        for character in text
    )


def headline(plan: Plan, done: int, start: int = 0, name: str = "", *, verified: bool = True) -> MarkedLine:
    """Return what became of a channel in one sentence: published, or what the other versions need, and why.

    Unless the channel was `verified`, holds and records were not read.
    """
    channel = f"{name} ({plan.artifact})" if name else str(plan.artifact)
    known = HEADLINES if verified else {**HEADLINES, Decision.AUTO: f"is possible, {_UNREAD}"}
    told = [(known[step.decision], step) for step in plan.steps]
    told = [
        ("published" if at >= start else "was published before", it[1]) if at < done else it
        for at, it in enumerate(told)
    ]
    words = [f"{what_comes(step)} {word}{_because(step) if at >= done else ''}" for at, (word, step) in enumerate(told)]
    words += [f"{versions} {_LEFT[decision]}" for decision, versions, _ in passed_over_rows(plan)]
    if not plan.steps:
        words.insert(0, f"nothing to do at {plan.current_version}" if words else f"{plan.current_version} is current")
    grave = [step.decision for step in plan.steps[done:]]
    gravest = max(grave, key=tuple(Decision).index, default=None)
    mark = _word(gravest, verified=verified) if gravest else "published"
    return MarkedLine(plain_text(f"{channel}: {'; '.join(words)}").replace("\n", " "), mark)


def _because(step: PlannedStep) -> str:
    """Return what a person has to know first of a step that is not simply published; empty if nothing."""
    if step.decision not in {Decision.APPROVAL, Decision.REFUSED}:
        return ""
    from ci_automation.report.findings import Findings  # not for a check that finds nothing to do

    return because(Findings.of(step))


def because(found: Findings) -> str:
    """Return the causes of a decision as the end of a headline; empty if nothing is known of them."""
    causes = found.causes()
    more = [f"{len(causes) - _CAUSES} more"] if len(causes) > _CAUSES else []
    return f": {', '.join((*causes[:_CAUSES], *more))}" if causes else ""


def what_comes(step: PlannedStep) -> str:
    """Return what a step brings to the channel, in a few words."""
    return f"changed content of {step.new_version}" if step.kind == "content" else str(step.new_version)


def _word(decision: Decision, *, verified: bool) -> str:
    return "possible" if decision is Decision.AUTO and not verified else _WORDS[decision]


def plan_table(
    plan: Plan, done: int, start: int = 0, *, every: bool = True, verified: bool = True, cut: bool = False
) -> Table:
    """Return where the channel is, what was published (the steps from `start` to `done`), what is left, and why.

    Without `every`, digests are as short as people read them. `verified` is as in `headline`. If `cut`, for a
    terminal, long reasons are cut, because the steps are told below.
    """

    def digest(whole: Digest) -> str:
        return str(whole) if every else whole.short

    rows = [("before" if done else "now", str(plan.current_version), digest(plan.current), "")]
    for number, step in enumerate(plan.steps):
        word = _word(step.decision, verified=verified)
        unread = f"{_UNREAD}; " if word == "possible" and number >= done else ""
        if number < done:
            word = "published" if number >= start else "already published"
        approved = "approved; " if number < done and step.decision is Decision.APPROVAL else ""
        told = _without_upstream(step)
        why = _why(told) if cut else "; ".join(told.reasons)
        rows.append((word, str(step.new_version), digest(step.target), approved + unread + why))
    rows += [
        (_LEFT[decision], versions, "", "; ".join(reasons)) for decision, versions, reasons in passed_over_rows(plan)
    ]
    return Table.plain(("", "version", "digest", "why"), rows)


def _without_upstream(step: PlannedStep) -> PlannedStep:
    """Return the step without the reason that a line below the table tells once for all steps."""
    from ci_automation.policy.content import UPSTREAM  # not for a check that finds nothing to do

    told = {gate.reason for gate in step.gates if gate.gate == UPSTREAM}
    return replace(step, reasons=tuple(reason for reason in step.reasons if reason not in told))


def _why(step: PlannedStep) -> str:
    told = "; ".join(main_reasons(step))
    return shortened(told, _MAX_WHY) if step.decision is Decision.APPROVAL else told


def passed_over_rows(plan: Plan) -> Iterator[tuple[Decision, str, tuple[str, ...]]]:
    """Yield what the plan passed over, with its versions: those for the same reasons, one after the other, are one."""
    for (decision, reasons), group in groupby(plan.passed_over, key=lambda it: (it.decision, it.reasons)):
        versions = [str(it.version) for it in group]
        some = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]} ({len(versions)})"
        yield decision, some, reasons


def main_reasons(step: PlannedStep) -> tuple[str, ...]:
    """Return why a step is decided so, short enough for a table; of many obstacles the gravest, and how many there are.

    What lets a step through is told whole: nothing else says what a person has allowed.
    """
    told = tuple(map(shortened, step.reasons))
    if step.decision is Decision.AUTO or len(told) <= _FEW:
        return told
    return told[0], f"and {len(told) - 1} more reasons"


def shortened(text: str, limit: int = MAX_REASON) -> str:
    """Return the beginning of a long text, for a table; it ends with a whole word, if there is one."""
    if len(text) <= limit:
        return text
    start, blank, _ = text[:limit].rpartition(" ")
    return f"{(start if blank else text[: limit - 1]).rstrip(' ,;:')}…"


def approval_commands(
    plan: Plan,
    waiting: Iterable[PlannedStep],
    planning: Sequence[str],
    applying: Sequence[str],
    plan_file: str | None = None,
) -> str:
    """Return the commands that approve the waiting steps, each with those before it, or nothing where none waits.

    `planning` and `applying` are the options to repeat; a shell takes the lines as they are. With a `plan_file` the
    plan is made already.
    """
    make = ("flux-manifests", "plan", str(plan.artifact), "--out", "plan.json", *planning)
    lines: list[str] = []
    approved: list[str] = []
    for step in (it for it in waiting if it.decision is Decision.APPROVAL):
        approved += ("--approve", str(step.target))
        before = [f"To approve {step.new_version} too, instead of the last line:"] if lines else []
        before += [] if plan_file or lines else [shlex.join(make)]
        do = ("flux-manifests", "apply", plan_file or "plan.json", *approved, *applying)
        lines += [*before, shlex.join(do)]
    return "\n".join(lines)
