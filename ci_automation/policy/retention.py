"""The artifacts of a repository that may be deleted: ours, if nothing needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.errors import UsageError
from ci_automation.impact.change import all_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime, timedelta

    from ci_automation.artifact.reference import Digest
    from ci_automation.flux.version import Version


class NothingKept(UsageError):
    """A retention would keep no artifact for a rollback."""

    hint = "Keep at least one: --keep-last 1. What a channel has is kept besides."
    message = "--keep-last is less than one"


class Window(Struct, frozen=True):
    """Artifacts to keep besides the needed ones: a number of the newest, and all that are younger than an age."""

    keep_last: int
    keep_for: timedelta | None = None

    def __post_init__(self) -> None:
        """Raise `NothingKept` if the window keeps no artifact."""
        if self.keep_last < 1:
            raise NothingKept


class Stored(Struct, frozen=True):
    """One artifact: its immutable tag, every other tag that leads to it, and when a channel came to it or left it last.

    `ours` says that a trusted signer signed it. `at` is None if no signed record names it, `here` says that one is
    about a channel of the repository. `last_of` are the channels that had it last by their records, wherever they point
    now.
    """

    digest: Digest
    tag: str
    version: Version
    ours: bool
    others: tuple[str, ...] = ()
    at: datetime | None = None
    here: bool = True
    last_of: tuple[str, ...] = ()


class Kept(Struct, frozen=True):
    """An artifact that stays, and why."""

    artifact: Stored
    reason: str


class Retention(Struct, frozen=True):
    """Artifacts to keep and artifacts to delete; each artifact is in one of the two."""

    kept: tuple[Kept, ...]
    goes: tuple[Stored, ...]


def retain(artifacts: Sequence[Stored], window: Window, now: datetime) -> Retention:
    """Return the artifacts to keep and to delete, the newest first.

    The newest has the highest version, and among equal versions the latest time at a channel. What only channels of
    other repositories had is counted by itself: copies of it push nothing out that was published here.
    """
    newest = sorted(artifacts, key=_rank, reverse=True)
    last: list[Digest] = []
    for here in (True, False):
        published = (it.digest for it in newest if it.ours and it.at is not None and it.here is here)
        last += [*dict.fromkeys(published)][: window.keep_last]  # a digest can have many tags
    kept, goes = [], []
    for artifact in newest:
        if reason := _needed(artifact, window, now) or (
            f"it is among the last {window.keep_last}" if artifact.digest in last else ""
        ):
            kept.append(Kept(artifact, reason))
        else:
            goes.append(artifact)
    return Retention(tuple(kept), tuple(goes))


def named_by_others(digest: Digest, own: Collection[str], tags: Mapping[str, Digest]) -> tuple[str, ...]:
    """Return the other tags that name `digest`, which a deletion of the digest would delete too."""
    return tuple(sorted(tag for tag, named in tags.items() if named == digest and tag not in own))


def _needed(artifact: Stored, window: Window, now: datetime) -> str:
    """Return why an artifact must stay, however many newer ones exist, or nothing."""
    if not artifact.ours:
        return "no trusted signer signed it"
    if artifact.others:
        return f"{all_of(artifact.others)} {'leads' if len(artifact.others) == 1 else 'lead'} to it"
    if artifact.last_of:
        return f"{', '.join(artifact.last_of)} had it last, by its records"
    if artifact.at is None:
        return "no signed record names it: a run may be about to publish it"
    if window.keep_for is not None and now - artifact.at < window.keep_for:
        return f"it is younger than {window.keep_for.days} days"
    return ""


def _rank(artifact: Stored) -> tuple[Version, float, str]:
    return artifact.version, artifact.at.timestamp() if artifact.at else 0.0, str(artifact.digest)
