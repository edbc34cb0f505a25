"""Releases of Flux: their list, their problems, and the check that fetched files belong to a release."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from ci_automation.errors import Error, ReleaseSourceError
from ci_automation.flux.bundle import (
    BUNDLE,
    LIMITS,
    MAX_CHECKSUMS_BYTES,
    MAX_PROOF_BYTES,
    ManifestsBundle,
    ReleaseFiles,
    checksums_name,
    proof_names,
    verify_checksums,
)
from ci_automation.flux.version import InvalidVersion, Version, near_misses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Asset = Callable[[Version, str, int], bytes | None]

    from ci_automation.flux.advisories import Advisory

NOT_PUBLISHED = datetime(9000, 1, 1, tzinfo=UTC)  # the date of a draft: never old enough
_DRAFT = "it is a draft: withdrawn, or not published yet"
_MAX_RELEASES = 10_000  # what GitHub lists at most
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class ReleaseNotFound(ReleaseSourceError):
    """A release source does not have a release."""

    hint = "Check the version, or name another source. This program does not use drafts and withdrawn releases."

    def __init__(self, version: Version, where: str, listed: Callable[[Version], Iterable[Release]]) -> None:
        known: list[Version] = []
        with suppress(Error):  # this is one already
            # The list goes back to the minor before: far enough for a neighbour, and mostly one request.
            known = [it.version for it in listed(version.before_minor) if it.problem is None]
        super().__init__(f"{where} has no release {version}{near_misses(version, known)}")


class ReleaseIncomplete(ReleaseSourceError):
    """A release lacks a necessary file."""

    hint = "Its publication may still be running, or has failed. Use another version, or try again later."

    def __init__(self, version: Version, problem: str) -> None:
        super().__init__(f"{version} cannot be used: {problem}")


class InvalidReleaseList(ReleaseSourceError):
    """A list of releases or tags is empty, or not of GitHub's form."""

    hint = "Check the source of releases: it must have the form of GitHub's list of releases."

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where} has no usable list of releases: {problem}")


class UnknownCommit(ReleaseSourceError):
    """A release source does not know the commit of a release."""

    hint = "The artifact states the commit. Use a source that has the tag and its commit."

    def __init__(self, version: Version, problem: str) -> None:
        super().__init__(f"the commit of {version} is not known: {problem}")


class Release(Struct, frozen=True):
    """One release as its source lists it; `problem` says why a run cannot take it."""

    version: Version
    published_at: datetime
    prerelease: bool = False
    problem: str | None = None
    notes: str = ""  # upstream's words, unchanged; not compared, because a list may lack them

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self._compared == other._compared

    def __hash__(self) -> int:
        return hash(self._compared)

    @property
    def _compared(self) -> tuple[object, ...]:
        return self.version, self.published_at, self.prerelease, self.problem


class FetchedRelease(Struct, frozen=True):
    """A release with its files, which match its checksums, and its commit.

    `vouched` is the verified signer of the checksums, or None without a signature.
    """

    release: Release
    bundle: ManifestsBundle
    commit: str
    files: ReleaseFiles
    vouched: str | None = None


class ReleaseSource(Protocol):
    """Source of releases. Any method may raise a `ReleaseSourceError` of the source."""

    def list(self, newer_than: Version | None = None) -> tuple[Release, ...]:
        """Return the releases, newest version first: all above `newer_than`, and that one itself if it exists.

        The list may omit older ones, and their problems. With None it has all releases.

        Raises:
            InvalidReleaseList: the list is empty, or not a list of releases.
        """
        ...

    def fetch(self, version: Version) -> FetchedRelease:
        """Return the release of `version`, its files checked against its checksums.

        Raises:
            ReleaseNotFound: the release does not exist, or is a draft.
            ReleaseIncomplete: the release lacks the bundle or the checksums.
            InvalidChecksums: the checksums file is broken.
            ChecksumMismatch: the checksums do not list the bundle, or list another.
            UnknownCommit: the source does not know the commit.
            UnsafeArchive, BadBundle: the file with the right checksum is not a manifests bundle.
        """
        ...

    def advisories(self) -> tuple[Advisory, ...]:
        """Return the published security advisories about Flux, which nothing proves; none if the source has none."""
        ...

    def asset(self, version: Version, name: str, limit: int) -> bytes | None:
        """Return a file of the release of `version`, not verified, at most `limit` bytes, or None if it has none."""
        ...


class Listing(Struct, frozen=True):
    """One release as GitHub lists it, not yet interpreted; the assets' names as far as known."""

    tag: str
    published_at: str | None
    draft: bool
    prerelease: bool
    assets: frozenset[str]
    notes: str = ""


def read_version(tag: str) -> Version | None:
    """Return the version of a tag, or None if the tag is not a Flux release's."""
    try:
        version = Version.parse(tag)
    except InvalidVersion:
        return None
    return version if str(version) == tag and version.semver.build is None else None


def releases(listings: Iterable[Listing], where: str) -> tuple[Release, ...]:
    """Return the releases among `listings`, newest version first; other tags are left out.

    A published release replaces a draft with the same tag, because GitHub lets both exist.

    Raises:
        InvalidReleaseList: the list has no release, too many, a version twice, or an invalid date.
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


def usable(found: Iterable[Release], version: Version, where: str, source: ReleaseSource) -> Release:
    """Return the release of a version, which was found in a source.

    Raises:
        ReleaseNotFound: the release is not among `found`, or is a draft.
        ReleaseIncomplete: the release has a problem.
    """
    release = next((each for each in found if each.version == version and not is_draft(each)), None)
    if release is None:
        raise ReleaseNotFound(version, where, source.list)
    if release.problem:
        raise ReleaseIncomplete(version, release.problem)
    return release


def is_draft(release: Release) -> bool:
    """Return whether a release is a draft, which GitHub shows only to users who may change it."""
    return release.problem == _DRAFT


def _release(version: Version, listing: Listing, where: str) -> Release:
    problem = _DRAFT if listing.draft else _missing_file(version, listing.assets)
    return Release(version, _published_at(version, listing, where), listing.prerelease, problem, listing.notes)


def _missing_file(version: Version, assets: Iterable[str]) -> str | None:
    """Return the problem of a release with these `assets`, or None if it has the necessary files."""
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
    """Return whether `listed`, the start of a list from new to old, has all successors of `newer_than`.

    Every successor of v2.8.5 was created after v2.8.0: its patches follow it, and so do later minors, although some of
    them may be older than v2.8.5 itself. So if the list has reached a release with the patch number 0 that is not above
    `newer_than` (v2.8.0, a candidate for it, or an earlier minor), neither a successor nor `newer_than` itself comes
    later in the list.
    """
    return newer_than is not None and any(version.semver.patch == 0 and version <= newer_than for version in listed)


def collected_files(version: Version, asset: Asset, where: str) -> ReleaseFiles:
    """Return the files of a release that `asset` returns by name, within limits in bytes.

    Raises:
        ReleaseIncomplete: the bundle or the checksums are not there; `where` says where they should be.
    """

    def needed(name: str, limit: int) -> bytes:
        if (data := asset(version, name, limit)) is None:
            raise ReleaseIncomplete(version, f"{where} has no {name}")
        return data

    names = proof_names(version)
    return ReleaseFiles(
        checksums=needed(checksums_name(version), MAX_CHECKSUMS_BYTES),
        bundle=needed(BUNDLE, LIMITS.compressed_bytes),
        signature=asset(version, names.signature, MAX_PROOF_BYTES),
        certificate=asset(version, names.certificate, MAX_PROOF_BYTES),
        log_entry=asset(version, names.log_entry, MAX_PROOF_BYTES),
    )


def open_release(release: Release, files: ReleaseFiles, commit: str) -> FetchedRelease:
    """Return the release with its bundle, after a check of the files and the commit.

    Raises:
        InvalidChecksums, ChecksumMismatch: the files do not match the checksums.
        UnknownCommit: `commit` is not the name of a commit.
        UnsafeArchive, BadBundle: the file is not a manifests bundle.
    """
    verify_checksums(release.version, files)
    if not _COMMIT.fullmatch(commit):
        raise UnknownCommit(release.version, f"{commit[:80]!r} is not the name of a commit")
    return FetchedRelease(release, ManifestsBundle.from_archive(files.bundle), commit, files)
