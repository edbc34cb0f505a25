"""Blocks of a report with the diffs of the team's own files, and of what those render to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.policy.decision import Decision
from ci_automation.report.blocks import Block, Code, Detail, Quoted, Titled, cut, more

if TYPE_CHECKING:
    from ci_automation.impact.change import FileDiff
    from ci_automation.report.findings import Findings

IN_FILES = "What changes in your files"
_TO_APPROVE = 40  # lines of all diffs, before a person approves them
_ROOM = 100  # characters of a diff in Markdown for each entry of a list


def file_blocks(found: Findings, detail: Detail) -> tuple[Block, ...]:
    """Return the diffs of files of the overlay."""
    return cut([_diff(it, detail) for it in found.diffs], detail.rows, "file")


def diffs_to_approve(found: Findings, detail: Detail) -> tuple[Titled, ...]:
    """Return the diffs of files that a person approves, whole unless they are long; what they render to is counted.

    There is nothing where no gate asks for approval.
    """
    files = [it for it in found.diffs if not it.rendered]
    if not files or all(it.decision is not Decision.APPROVAL for it in found.gates):
        return ()
    shown: list[Block] = []
    left = _TO_APPROVE
    for diff in files:
        if left > 0:
            shown.append(_diff(diff, replace(detail, lines=left)))
            left -= len(diff.text.splitlines())
    rest = more(len(files) - len(shown), "file", detail.hint)
    return (Titled(IN_FILES, (*shown, *rest, *more(len(found.diffs) - len(files), "rendering", detail.hint))),)


def _diff(diff: FileDiff, detail: Detail) -> Titled:
    """Return the diff of a file of the overlay, or of what it renders to; of a long one the first lines."""
    lines = diff.text.splitlines()
    shown = Quoted("\n".join(lines[: detail.lines]), detail.rows * _ROOM)
    title = f"What changes in the rendering of {diff.path}" if diff.rendered else Code(diff.path)
    return Titled(title, (shown, *more(len(lines) - detail.lines, "line", detail.hint)), folded=diff.rendered)
