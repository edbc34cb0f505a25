"""What became of the repositories that name an artifact, for summaries and exit codes."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from ci_automation.consumers.model import Finding, Kind, Published


class State(enum.StrEnum):
    """What became of one repository."""

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
    findings: tuple[Finding, ...]


class RepositoryOutcome(Struct, frozen=True):
    """What became of one repository; `remark` says why, where that is a question."""

    repository: str
    state: State
    url: str = ""  # of the pull request
    remark: str = ""
    files: tuple[FileOutcome, ...] = ()
    exit_code: int = 0

    def count(self, kind: Kind) -> int:
        """Return how many places of a kind its files have."""
        return sum(finding.kind is kind for file in self.files for finding in file.findings)


class ConsumersReport(Struct, frozen=True):
    """What became of all repositories that name one artifact, in the order of the configuration."""

    published: Published
    repositories: tuple[RepositoryOutcome, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return 0, or the highest code of what failed or was not reached."""
        return max((each.exit_code for each in self.repositories), default=0)
