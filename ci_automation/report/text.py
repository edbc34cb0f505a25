"""Texts for people: tables and sentences from plans and what became of them."""

from __future__ import annotations

import shlex
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.policy.decision import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ci_automation.policy.plan import Plan, PlannedStep

_MAX_REASON = 160  # characters; all of it is told with the step
_WORDS = {
    Decision.AUTO: "can be published",
    Decision.APPROVAL: "waits for approval",
    Decision.HOLD: "on hold",
    Decision.REFUSED: "refused",
}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def to_text(self) -> str:
        """Return the table as aligned plain text, without trailing blanks."""
        lines = [self.head, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.head))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )


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
    """Return what was there, what was published (the steps from `start` to `done`), what waits or was left, and why."""
    rows = [("was there", str(plan.current_version), str(plan.current), "")]
    for number, step in enumerate(plan.steps):
        word = _WORDS[step.decision]
        if number < done:
            word = "published" if number >= start else "done before"
        approved = "approved; " if number < done and step.decision is Decision.APPROVAL else ""
        rows.append((word, str(step.new_version), str(step.target), approved + "; ".join(map(_short, step.reasons))))
    rows += [
        (_WORDS[passed.decision], str(passed.version), "", "; ".join(passed.reasons)) for passed in plan.passed_over
    ]
    return Table(("", "version", "digest", "why"), tuple(tuple(plain_text(cell) for cell in row) for row in rows))


def _short(reason: str) -> str:
    return reason if len(reason) <= _MAX_REASON else f"{reason[: _MAX_REASON - 1].rstrip()}…"


def approval_commands(
    plan: Plan,
    waiting: Iterable[PlannedStep],
    planning: Sequence[str],
    applying: Sequence[str],
    plan_file: str | None = None,
) -> str:
    """Return the commands that approve the first step that waits for it, or nothing where none does.

    `planning` and `applying` are the options to repeat; a shell takes the lines as they are. With a `plan_file` the
    plan is made already.
    """
    for step in waiting:
        if step.decision is Decision.APPROVAL:
            make = ("flux-manifests", "plan", str(plan.artifact), "--out", "plan.json", *planning)
            do = ("flux-manifests", "apply", plan_file or "plan.json", "--approve", str(step.target), *applying)
            return shlex.join(do) if plan_file else f"{shlex.join(make)}\n{shlex.join(do)}"
    return ""
