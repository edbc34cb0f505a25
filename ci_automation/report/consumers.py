"""Texts on the repositories that pin an artifact: the pull request in each, and the summary of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.consumers.model import MentionKind, State, is_digest
from ci_automation.flux.artifact import called, immutable_version
from ci_automation.report.markdown import code, inline, link, markdown_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ci_automation.consumers.model import ConsumersReport, FileOutcome, Mention, Published, RepositoryOutcome

_MOST_ROWS = 100  # of the summary
_MOST_EDITS, _MOST_LEFT = 30, 15  # of a pull request: its text has at most 65536 characters
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
    edits = _Rows(("what", "before", "after"), lambda it: (_value(it.old), code(it.new)), _MOST_EDITS)
    blocks = [
        f"{code(str(published.channel))} has {called(published.version)}, {code(str(published.digest))}.",
        *edits.of(files, MentionKind.EDITED),
    ]
    for kind, words in _LEFT_ALONE.items():
        left = _Rows(("what", words), lambda it: (inline(it.reason or it.old, 100),), _MOST_LEFT)
        blocks += left.of(files, kind)
    return "\n\n".join([*blocks, _NOTE]) + "\n"


def consumers_summary(report: ConsumersReport) -> str:
    """Return what became of all repositories, for the summary of a run; nothing where there are none."""
    if not report.repositories:
        return ""
    head = ("repository", "what was done", *(str(kind) for kind in MentionKind), "why")
    blocks = [
        f"### Repositories that pin {inline(report.published.name)}",
        markdown_table(head, map(_line, report.repositories[:_MOST_ROWS])),
        *_more(len(report.repositories) - _MOST_ROWS),
    ]
    return "\n\n".join(blocks) + "\n"


def _line(outcome: RepositoryOutcome) -> tuple[str, ...]:
    words = _WORDS[outcome.state]
    counts = (str(outcome.count(kind) or "") for kind in MentionKind)
    done = link(words, outcome.url) if outcome.url else words
    return (inline(outcome.repository), done, *counts, inline(outcome.remark, 600))


class _Rows(Struct, frozen=True):
    """A table of places: its head behind the file and the line, and the cells of a place behind what it is."""

    head: tuple[str, ...]
    cells: Callable[[Mention], tuple[str, ...]]
    most: int

    def of(self, files: Iterable[FileOutcome], kind: MentionKind) -> Iterator[str]:
        """Yield the table of the first places of a kind, and how many more there are; nothing where there are none."""
        places = [(file.path, it) for file in files for it in file.findings if it.kind is kind]
        rows = [
            (inline(path, 120), str(it.line), inline(it.what, 120), *self.cells(it)) for path, it in places[: self.most]
        ]
        if rows:
            yield markdown_table(("file", "line", *self.head), rows)
            yield from _more(len(places) - self.most)


def _value(text: str) -> str:
    return code(text) if is_digest(text) or immutable_version(text) else inline(text, 80)


def _more(number: int) -> Iterator[str]:
    if number > 0:
        yield f"… and {number} more"
