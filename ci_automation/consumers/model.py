"""The values that consumers should name, the mentions in their files, and the result of each repository.

And the texts on them: the pull request in each repository, and the summary of all.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.reference import InvalidReference, OciRepository, Reference
from ci_automation.flux.artifact import called, immutable_tag, immutable_version
from ci_automation.report.blocks import Block, Code, Table, more, shortened
from ci_automation.report.markdown import code, inline, link, markdown_table, to_markdown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.artifact.reference import Digest
    from ci_automation.flux.version import Version

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class MentionKind(enum.StrEnum):
    """Kind of a mention."""

    EDITED = "edited"
    CURRENT = "current"  # pinned, and to what the channel has
    FOLLOWS = "follows"  # names the channel, and so moves by itself
    SEMVER = "semver"  # names a range, which the cluster resolves
    OTHER = "other"  # names another tag of the same repository
    LEFT = "left"  # should be edited, and is written in a way that is not


class Published(Struct, frozen=True):
    """A channel's present digest and version; `name` is the one in the configuration and in setter comments."""

    name: str
    channel: Reference
    version: Version
    digest: Digest

    @property
    def tag(self) -> str:
        """Return the immutable tag of what the channel has."""
        return immutable_tag(self.version, self.digest)

    @property
    def address(self) -> str:
        """Return the repository as files write it, without a scheme."""
        return str(self.channel.repository).partition("://")[2]

    def is_at(self, text: str, *, scheme: bool = True) -> bool:
        """Return whether `text` is the address of the artifact's repository; `scheme` where it must begin with oci://.

        Hosts have no case (RFC 3986, section 3.2.2), and repositories are in lower case.
        """
        if not scheme and "://" not in text:
            text = f"oci://{text}"
        ours = self.channel.repository
        try:
            theirs = Reference.parse(text)
        except InvalidReference:
            return False
        return isinstance(ours, OciRepository) and theirs == Reference(ours)


class Mention(Struct, frozen=True):
    """One place that names the artifact: where, as what, and what is to be done about it.

    `what`, `old` and `reason` may hold text of the file, as it came.
    """

    line: int  # from 1
    what: str
    kind: MentionKind
    old: str = ""
    new: str = ""
    reason: str = ""
    span: tuple[int, int] = (0, 0)  # of the scalar that is edited, in characters


def is_digest(text: str) -> bool:
    """Return whether `text` is a digest as registries write it."""
    return bool(_DIGEST.fullmatch(text))


class State(enum.StrEnum):
    """State of one repository."""

    OPENED = "opened"  # a pull request
    UPDATED = "updated"
    UNCHANGED = "unchanged"  # the pull request is there, and as it should be
    KEPT = "kept"  # people changed the pull request, and that is not overwritten
    DECLINED = "declined"  # a person closed the pull request for this digest
    WITHDRAWN = "withdrawn"  # the pull request was closed, for the files say it already
    CURRENT = "current"  # nothing in it is to be edited
    FAILED = "failed"
    NOT_REACHED = "not reached"  # the run ended before


class FileOutcome(Struct, frozen=True):
    """A file that names the artifact, and how."""

    path: str
    findings: tuple[Mention, ...]


class RepositoryOutcome(Struct, frozen=True):
    """Result of one repository; `remark` gives the reason if the state does not."""

    repository: str
    state: State
    url: str = ""  # of the pull request
    remark: str = ""
    files: tuple[FileOutcome, ...] = ()
    exit_code: int = 0

    def count(self, kind: MentionKind) -> int:
        """Return how many places of a kind its files have."""
        return sum(finding.kind is kind for file in self.files for finding in file.findings)


class ConsumersReport(Struct, frozen=True):
    """Results of all repositories that name one artifact, in the order of the configuration."""

    published: Published
    repositories: tuple[RepositoryOutcome, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return 0, or the highest code of what failed or was not reached."""
        return max((each.exit_code for each in self.repositories), default=0)


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
