"""Releases of Flux: which there are, what is wrong with them, and the proof that fetched files are a release's own."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from ci_automation.errors import ReleaseSourceError
from ci_automation.flux.bundle import BUNDLE, ManifestsBundle, ReleaseFiles, checksums_name, verify_checksums
from ci_automation.flux.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterable

NOT_PUBLISHED = datetime(9000, 1, 1, tzinfo=UTC)  # the date of a draft: never old enough
_DRAFT = "it is a draft: withdrawn, or not published yet"
_MAX_RELEASES = 10_000  # what GitHub lists at most
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class ReleaseNotFound(ReleaseSourceError):
    """A release source does not have a release."""

    hint = "Check the version, or name another source. This program does not use drafts and withdrawn releases."

    def __init__(self, version: Version, where: str) -> None:
        super().__init__(f"{where} has no release {version}")


class ReleaseIncomplete(ReleaseSourceError):
    """A release lacks a file that it cannot be used without."""

    hint = "Its publication may still be running, or has failed. Use another version, or try again later."

    def __init__(self, version: Version, problem: str) -> None:
        super().__init__(f"{version} cannot be used: {problem}")


class InvalidReleaseList(ReleaseSourceError):
    """A list of releases or tags is not of the form that GitHub gives it, or is empty."""

    hint = "Check the source of releases: it must have the form of GitHub's list of releases."

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where} has no usable list of releases: {problem}")


class UnknownCommit(ReleaseSourceError):
    """A release source cannot tell which commit a release was made from."""

    hint = "The artifact states the commit. Use a source that has the tag and its commit."

    def __init__(self, version: Version, problem: str) -> None:
        super().__init__(f"the commit of {version} is not known: {problem}")


class Release(Struct, frozen=True):
    """One release as its source lists it; one with a `problem` cannot be taken, and that says why."""

    version: Version
    published_at: datetime
    prerelease: bool = False
    problem: str | None = None
    notes: str = ""  # upstream's words as they came; a list may be without them, so that they make no difference

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self._compared == other._compared

    def __hash__(self) -> int:
        return hash(self._compared)

    @property
    def _compared(self) -> tuple[object, ...]:
        return self.version, self.published_at, self.prerelease, self.problem


class FetchedRelease(Struct, frozen=True):
    """A release with its files, proven to be the ones that its checksums name, and the commit it was made from.

    `vouched` is whose signature over the checksums was verified, or None where none was.
    """

    release: Release
    bundle: ManifestsBundle
    commit: str
    files: ReleaseFiles
    vouched: str | None = None


class ReleaseSource(Protocol):
    """A place that releases come from. Any method may raise a `ReleaseSourceError` of the place's own."""

    def list(self, newer_than: Version | None = None) -> tuple[Release, ...]:
        """Return the releases, newest version first: every one above `newer_than`, and that one itself if it is there.

        Older ones may be left out, and their problems not be known. With None, none is left out.

        Raises:
            InvalidReleaseList: it is empty, or not a list of releases.
        """
        ...

    def fetch(self, version: Version) -> FetchedRelease:
        """Return the release of `version`, its files checked against its checksums.

        Raises:
            ReleaseNotFound: there is none, or it is a draft.
            ReleaseIncomplete: it lacks the bundle or the checksums.
            InvalidChecksums: the checksums file does not say what the bundle must be.
            ChecksumMismatch: the bundle is another.
            UnknownCommit: the source cannot tell the commit.
            UnsafeArchive, BadBundle: what the checksums name is not a manifests bundle.
        """
        ...

    def asset(self, version: Version, name: str, limit: int) -> bytes | None:
        """Return a file of the release of `version`, unproven and at most `limit` bytes, or None where it has none."""
        ...


class Listing(Struct, frozen=True):
    """One release in the words of GitHub, before anything is concluded from them; the assets' names where known."""

    tag: str
    published_at: str | None
    draft: bool
    prerelease: bool
    assets: frozenset[str]
    notes: str = ""


def read_version(tag: str) -> Version | None:
    """Return the version that a tag stands for, or None where the tag is not a Flux release's."""
    try:
        version = Version.parse(tag)
    except InvalidVersion:
        return None
    return version if str(version) == tag and version.semver.build is None else None


def releases(listings: Iterable[Listing], where: str) -> tuple[Release, ...]:
    """Return the releases among `listings`, newest version first; other tags are left out.

    A draft gives way to a published release of the same tag: GitHub lets both exist.

    Raises:
        InvalidReleaseList: there is no release, too many, a version twice, or a date that is none.
    """
    found: dict[Version, Release] = {}
    for number, listing in enumerate(listings, 1):
        if number > _MAX_RELEASES:
            raise InvalidReleaseList(where, f"there are more than {_MAX_RELEASES} releases")
        if (version := read_version(listing.tag)) is None:
            continue
        release = _release(version, listing, where)
        earlier = found.get(version)
        if earlier and not is_draft(earlier) and not listing.draft:
            raise InvalidReleaseList(where, f"{version} is there twice")
        if earlier is None or is_draft(earlier):
            found[version] = release
    if not found:
        raise InvalidReleaseList(where, "it has no release of Flux")
    return tuple(sorted(found.values(), key=lambda release: release.version, reverse=True))


def is_draft(release: Release) -> bool:
    """Return whether a release is a draft, which GitHub shows only to those who may change it."""
    return release.problem == _DRAFT


def _release(version: Version, listing: Listing, where: str) -> Release:
    problem = _DRAFT if listing.draft else missing_file(version, listing.assets)
    return Release(version, _published_at(version, listing, where), listing.prerelease, problem, listing.notes)


def missing_file(version: Version, assets: Iterable[str]) -> str | None:
    """Return what is wrong with a release that has `assets`, or None if it has all that is needed."""
    missing = [name for name in (BUNDLE, checksums_name(version)) if name not in assets]
    return f"it has no {' and no '.join(missing)}" if missing else None


def _published_at(version: Version, listing: Listing, where: str) -> datetime:
    if listing.published_at is None and listing.draft:
        return NOT_PUBLISHED
    if _TIMESTAMP.fullmatch(listing.published_at or ""):
        with suppress(ValueError, OverflowError):
            return datetime.fromisoformat(listing.published_at or "").astimezone(UTC)
    raise InvalidReleaseList(where, f"{version} has no date of publication")


def successors_complete(listed: Iterable[Version], newer_than: Version | None) -> bool:
    """Return whether a list in the order of creation, newest first, that begins with `listed` has all that is needed.

    Every successor of v2.8.5 was created after v2.8.0: its patches follow it, and so do later minors, although those
    may well be older than v2.8.5 itself. So once the list has come down to a release with the patch number 0 that is
    not above `newer_than` (v2.8.0, a candidate for it, or an earlier minor), neither a successor nor `newer_than`
    itself lies behind it.
    """
    return newer_than is not None and any(version.semver.patch == 0 and version <= newer_than for version in listed)


def open_release(release: Release, files: ReleaseFiles, commit: str) -> FetchedRelease:
    """Return the release with its bundle, once the files are proven and the commit is one.

    Raises:
        InvalidChecksums, ChecksumMismatch: the files are not proven.
        UnknownCommit: `commit` is not the name of a commit.
        UnsafeArchive, BadBundle: the bundle is not one.
    """
    verify_checksums(release.version, files)
    if not _COMMIT.fullmatch(commit):
        raise UnknownCommit(release.version, f"{commit[:80]!r} is not the name of a commit")
    return FetchedRelease(release, ManifestsBundle.from_archive(files.bundle), commit, files)
