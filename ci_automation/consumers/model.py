"""The values that consumers should name, the mentions in their files, and the result of each repository."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.reference import InvalidReference, OciRepository, Reference
from ci_automation.flux.artifact import immutable_tag

if TYPE_CHECKING:
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
