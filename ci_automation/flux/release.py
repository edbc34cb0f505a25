"""Releases of Flux, their sources and problems, and the check that fetched files belong to a release."""

from __future__ import annotations

import re
from contextlib import suppress
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
from ci_automation.flux.version import Version, near_misses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    Asset = Callable[[Version, str, int], bytes | None]

    from ci_automation.flux.advisories import Advisory

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SERIES = 3  # minor releases that Flux supports at a time


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

    hint = (
        "Check the source of releases: it must have the form of GitHub's list of releases. `mirror` fills a folder, "
        "and with --push a registry."
    )

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

    def advisories(self) -> tuple[Advisory, ...]:
        """Return the published security advisories about Flux, which nothing proves; none if the source has none."""

    def asset(self, version: Version, name: str, limit: int) -> bytes | None:
        """Return a file of the release of `version`, not verified, at most `limit` bytes, or None if it has none."""


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


def newest_of_minors(offered: Iterable[Release], newest: Version | None = None) -> list[Version]:
    """Return the newest release of each of the last three minor series, or each that is newer than `newest`.

    The oldest comes first. Candidates, and releases that cannot be taken, are left out.
    """
    usable = (it for it in offered if it.problem is None and not it.prerelease and not it.version.is_prerelease)
    versions = sorted(it.version for it in usable)
    if newest is not None:
        return [version for version in versions if version > newest]
    return list({version.minor: version for version in versions}.values())[-_SERIES:]
