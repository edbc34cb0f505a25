"""Texts on the repositories that pin an artifact: the pull request in each, and the summary of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.consumers.model import MentionKind, State, is_digest
from ci_automation.flux.artifact import called, immutable_version
from ci_automation.report.blocks import Block, Code, Table, more, shortened
from ci_automation.report.markdown import code, inline, link, markdown_table, to_markdown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.consumers.model import ConsumersReport, FileOutcome, Mention, Published, RepositoryOutcome

_MOST_ROWS = 100  # of the summary
_MOST_EDITS, _MOST_LEFT, _MAX_CELL = 30, 15, 100  # of a pull request: its text has at most 65536 characters
_WORDS = {
    State.OPENED: "pull request opened",
    State.UPDATED: "pull request updated",
    State.UNCHANGED: "pull request is waiting",
    State.KEPT: "pull request left as people changed it",
    State.DECLINED: "pull request was closed by a person",
    State.WITHDRAWN: "pull request withdrawn",
    State.CURRENT: "nothing to change",
    State.FAILED: "**failed**",
    State.NOT_REACHED: "**not reached, run again**",
}
_LEFT_ALONE = {
    MentionKind.SEMVER: "names a range: its cluster finds a version, not its newest content",
    MentionKind.LEFT: "needs a change by hand",
}
_NOTE = """\
Merging this pull request moves everything that reads these files to that digest. Closing it declines this digest \
while its branch exists; the next digest gets a new request. Runs do not overwrite what people commit to this branch."""


def title(published: Published) -> str:
    """Return the title of the pull request."""
    return f"{published.name}: {called(published.version)} ({published.digest.short})"


def message(published: Published) -> str:
    """Return the message of its commit."""
    return f"{title(published)}\n\n{published.channel} is at {published.digest}."


def body(published: Published, files: tuple[FileOutcome, ...]) -> str:
    """Return the text of the pull request: what moves where, what needs a hand, and what merging and closing mean.

    Text of the files is shown, and does nothing.
    """
    blocks = _places(files, MentionKind.EDITED, ("what", "before", "after"), _MOST_EDITS)
    for kind, words in _LEFT_ALONE.items():
        blocks += _places(files, kind, ("what", words), _MOST_LEFT)
    first = f"{code(str(published.channel))} has {called(published.version)}, {code(str(published.digest))}."
    return "\n\n".join(filter(None, (first, to_markdown(blocks), _NOTE))) + "\n"


def _places(files: Iterable[FileOutcome], kind: MentionKind, head: tuple[str, ...], most: int) -> list[Block]:
    """Return the table of the first places of a kind, and how many more there are; nothing where there are none."""
    places = [(file.path, it) for file in files for it in file.findings if it.kind is kind]
    cells = ((path, str(it.line), it.what, *_cells(it)) for path, it in places[:most])
    rows = tuple(tuple(shortened(cell, _MAX_CELL) for cell in row) for row in cells)
    return [Table(("file", "line", *head), rows), *more(len(places) - most, "place")] if rows else []


def _cells(it: Mention) -> tuple[str, ...]:
    if it.kind is not MentionKind.EDITED:
        return (it.reason or it.old,)
    is_code = is_digest(it.old) or immutable_version(it.old)
    return Code(it.old) if is_code else it.old, Code(it.new)


def consumers_summary(report: ConsumersReport) -> str:
    """Return what became of all repositories, for the summary of a run; nothing where there are none."""
    if not report.repositories:
        return ""
    head = ("repository", "what was done", *(str(kind) for kind in MentionKind), "why")
    rows = [_line(it) for it in report.repositories[:_MOST_ROWS]]
    left = to_markdown(more(len(report.repositories) - _MOST_ROWS))
    blocks = (f"### Repositories that pin {inline(report.published.name)}", markdown_table(head, rows), left)
    return "\n\n".join(filter(None, blocks)) + "\n"


def _line(outcome: RepositoryOutcome) -> tuple[str, ...]:
    words = _WORDS[outcome.state]
    counts = (str(outcome.count(kind) or "") for kind in MentionKind)
    done = link(words, outcome.url) if outcome.url else words
    return (inline(outcome.repository), done, *counts, inline(outcome.remark, 600))
