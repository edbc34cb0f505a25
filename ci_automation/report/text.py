"""Texts for people: tables and sentences from plans and what became of them."""

from __future__ import annotations

import shlex
import unicodedata
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.policy.decision import Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ci_automation.policy.plan import Plan, PlannedStep

MAX_REASON = 160  # characters; all of it is told with the step
_MAX_WHY = 57  # same, on a terminal, where a step that needs approval is told in full below
_FEW = 2
_WORDS = {
    Decision.AUTO: "can be published",
    Decision.APPROVAL: "waits for approval",
    Decision.WAIT: "waiting",
    Decision.REFUSED: "refused",
}
_LEFT = {**_WORDS, Decision.AUTO: "not taken", Decision.APPROVAL: "not taken"}


class Table(Struct, frozen=True):
    """Rows of cells under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def plain(cls, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Table:
        """Return the table whose cells cannot control a terminal."""
        return cls(head, tuple(rows)).mapped(lambda _, cell: plain_text(cell))

    def to_text(self) -> str:
        """Return the table as aligned plain text, without trailing blanks."""
        lines = [self.head, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.head))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )

    def mapped(self, shown: Callable[[str, str], str]) -> Table:
        """Return the table with what `shown` makes of each cell, given the head of its column and its text."""
        return Table(self.head, tuple(tuple(map(shown, self.head, row)) for row in self.rows))


class MarkedLine(Struct, frozen=True):
    """A line for a terminal; `mark` is a word that has a colour there, which the whole line gets."""

    text: str
    mark: str = ""


Part = MarkedLine | Table


def plain_text(text: str) -> str:
    """Return `text` without what could control a terminal or a log: controls, escapes, bidirectional marks.

    Line feeds stay; a carriage return does not, for it could overwrite the line.
    """
    return "".join(
        character
        if character == "\n" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
        else "�"
        for character in text
    )


def plan_table(plan: Plan, done: int, start: int = 0) -> Table:
    """Return where the channel is, what was published (the steps from `start` to `done`), what is left, and why."""
    rows = [("before" if done else "now", str(plan.current_version), str(plan.current), "")]
    for number, step in enumerate(plan.steps):
        word = _WORDS[step.decision]
        if number < done:
            word = "published" if number >= start else "already published"
        approved = "approved; " if number < done and step.decision is Decision.APPROVAL else ""
        rows.append((word, str(step.new_version), str(step.target), approved + _why(step)))
    rows += [
        (_LEFT[decision], versions, "", "; ".join(reasons)) for decision, versions, reasons in passed_over_rows(plan)
    ]
    return Table.plain(("", "version", "digest", "why"), rows)


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
    """Return the beginning of a long text, for a table."""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


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
