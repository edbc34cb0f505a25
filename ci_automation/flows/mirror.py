"""Directory of Flux releases that an air-gapped site can verify by itself, and the same in a registry.

The directory has the form of `flux.sources.directory`, and an image layout with upstream's own artifacts. Nothing is
written that was not verified, each file appears whole, and the list of releases comes last: a run that was cut off is
repeated.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.flows.planning.findings import advisories
from ci_automation.flows.programs.delegate import MAX_ARCHIVE_BYTES
from ci_automation.flows.publication.copy import copy
from ci_automation.flows.release_folder import RELEASES, alone_in, listed_release, write_lists, write_mirrored
from ci_automation.flows.rendering import UpstreamArtifact, fetch, find_artifact, verify_artifact
from ci_automation.flux.advisories import written_advisories
from ci_automation.flux.bundle import (
    BUNDLE,
    MAX_PROOF_BYTES,
    ChecksumMismatch,
    checksums_name,
    program_name,
    proof_names,
    verify_file,
)
from ci_automation.flux.release import FetchedRelease, Release, ReleaseIncomplete
from ci_automation.flux.sources.directory import ADVISORIES, DirectorySource, LeavesDirectory
from ci_automation.registry.port import NotFound, Registry
from ci_automation.registry.releases import RegistryReleases, put_advisories, put_release, rendered_beside
from ci_automation.signing.upstream import UpstreamForged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Ports
    from ci_automation.flux.version import Version

PROGRAMS = ("linux_amd64", "linux_arm64")
ARTIFACTS = "flux-manifests"  # the image layout in the directory
_SERIES = 3  # minor releases that Flux supports at a time


class MirrorFolder(Struct, frozen=True):
    """The directory to fill, and the repository in it that upstream's artifacts go to."""

    folder: Path
    artifacts: Reference


class Mirrored(Struct, frozen=True):
    """Content of the directory of one release, and its signer; None if it needs no signature and has none."""

    version: Version
    vouched: str | None
    artifact: UpstreamArtifact | None
    programs: tuple[str, ...]


def mirror(
    place: MirrorFolder, ports: Ports, versions: Iterable[Version] = (), *, with_programs: bool = False
) -> tuple[Mirrored, ...]:
    """Fill a directory with these releases, and return what was done, the oldest first.

    Without `versions` those are taken that are newer than all in the directory; if it has none, the newest of each of
    the last three minor series, which are those that Flux supports. `ports.registry` is where the artifacts go to. The
    published security advisories come along each time; where the source has none, those that are there stay.

    Raises:
        LeavesDirectory: a link in it leads elsewhere.
    """
    with alone_in(place.folder):
        wanted = sorted(set(versions)) or _newer(place.folder, ports)
        fetched: list[FetchedRelease] = []
        done = []
        for version in wanted:
            ports.say(f"mirroring {version}")
            for path in (place.folder / str(version), place.folder / ARTIFACTS):
                if not path.resolve().is_relative_to(place.folder.resolve()):
                    raise LeavesDirectory(path)
            release = _fetch(place.folder, version, ports)
            artifact = _artifact(version, ports)
            programs = tuple(_programs(place.folder, release, ports)) if with_programs else ()
            for name, content in _named_files(release):
                write_mirrored(place.folder / str(version) / name, content)
            if artifact is not None:
                _copy(place.artifacts, version, artifact, ports)
            fetched.append(release)
            done.append(Mirrored(version, release.vouched, artifact, programs))
        if known := advisories(ports):
            write_mirrored(place.folder / ADVISORIES, written_advisories(known))
        if fetched:
            write_lists(place.folder, fetched)
    return tuple(done)


def push(target: Reference, rendered: Registry, ports: Ports) -> tuple[tuple[FetchedRelease, bool], ...]:
    """Store the verified releases of a directory in the repository of `target`, and read each back, checked as before.

    Upstream's renderings go to `rendered_beside(target)`, in the registry `rendered`. Return each release, the oldest
    first, and whether its files were written. A run that was cut off is repeated. The directory's advisories go along.
    """
    found = RegistryReleases(ports.registry, target)
    done = []
    if known := ports.releases.advisories():
        put_advisories(ports.registry, target, written_advisories(known))
    for version in sorted(it.version for it in ports.releases.list() if it.problem is None):
        ports.say(f"pushing {version}")
        release = fetch(version, ports)
        files, artifact = _pushed_files(release, ports), _artifact(version, ports)
        listed = {"tag_name": str(version), "body": release.release.notes, **listed_release(release, files)}
        tags = [{"name": str(version), "commit": {"sha": release.commit}}]
        written = put_release(ports.registry, target, {"release": listed, "tags": tags}, files)
        if artifact is not None:
            _copy(rendered_beside(target), version, artifact, replace(ports, registry=rendered))
        fetch(version, replace(ports, releases=found))
        done.append((release, written))
    return tuple(done)


def _pushed_files(release: FetchedRelease, ports: Ports) -> dict[str, bytes]:
    """Return the files of a release by name, with its log entry, and the programs that the directory has."""
    version, files = release.release.version, dict(_named_files(release))
    for platform in PROGRAMS:
        name = program_name(version, platform)
        if (data := ports.releases.asset(version, name, MAX_ARCHIVE_BYTES)) is not None:
            verify_file(version, release.files.checksums, name, data)
            files[name] = data
    return files


def _newer(folder: Path, ports: Ports) -> list[Version]:
    """Return what a run without a wish takes, the oldest first."""
    present = DirectorySource(folder).list() if (folder / RELEASES).exists() else ()
    newest = max((each.version for each in present if not each.prerelease), default=None)
    return newest_of_minors(ports.releases.list(newest), newest)


def newest_of_minors(offered: Iterable[Release], newest: Version | None = None) -> list[Version]:
    """Return the newest release of each of the last three minor series, or each that is newer than `newest`.

    The oldest comes first. Candidates, and releases that cannot be taken, are left out.
    """
    usable = (it for it in offered if it.problem is None and not it.prerelease and not it.version.is_prerelease)
    versions = sorted(it.version for it in usable)
    if newest is not None:
        return [version for version in versions if version > newest]
    return list({version.minor: version for version in versions}.values())[-_SERIES:]


def _fetch(folder: Path, version: Version, ports: Ports) -> FetchedRelease:
    """Return a release, vouched for with the log's entry that the directory has, if it has one that holds.

    The log signs its answers anew each time, so that another look would change a file for nothing.
    """
    stored = DirectorySource(folder).asset(version, proof_names(version).log_entry, MAX_PROOF_BYTES)
    if stored is not None:
        with suppress(UpstreamForged):
            return fetch(version, ports, log_entry=stored)
    return fetch(version, ports)


def _programs(folder: Path, release: FetchedRelease, ports: Ports) -> Iterator[str]:
    """Write the CLI's archives, and yield what they are for; one that is there already is not downloaded again."""
    version, checksums = release.release.version, release.files.checksums
    for platform in PROGRAMS:
        name = program_name(version, platform)
        try:
            stored = DirectorySource(folder).asset(version, name, MAX_ARCHIVE_BYTES) or b""
            verify_file(version, checksums, name, stored)
        except ChecksumMismatch:
            ports.say(f"downloading {name}")
            if (data := ports.releases.asset(version, name, MAX_ARCHIVE_BYTES)) is None:
                raise ReleaseIncomplete(version, f"the source of releases has no {name}") from None
            verify_file(version, checksums, name, data)
            write_mirrored(folder / str(version) / name, data)
        yield platform


def _named_files(release: FetchedRelease) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a release that a source needs, with their names; the bundle is the last."""
    files, names = release.files, proof_names(release.release.version)
    contents = {
        names.log_entry: files.log_entry,
        names.certificate: files.certificate,
        names.signature: files.signature,
        checksums_name(release.release.version): files.checksums,
        BUNDLE: files.bundle,
    }
    return ((name, content) for name, content in contents.items() if content is not None)


def _artifact(version: Version, ports: Ports) -> UpstreamArtifact | None:
    """Return what upstream rendered, or None where it is not there and need not be."""
    try:
        return find_artifact(version, ports)
    except NotFound as error:
        if ports.upstream is None or ports.upstream.required:
            raise
        ports.say(str(error))
        return None


def _copy(artifacts: Reference, version: Version, artifact: UpstreamArtifact, ports: Ports) -> None:
    """Copy what upstream rendered, with its signatures, and verify it where it is now."""
    target = artifacts.at_tag(str(version))
    ports.say(f"copying {artifact.reference}")
    copy(artifact.upstream.registry, artifact.reference, ports.registry, target, artifact.digest)
    if artifact.vouched is not None:
        verify_artifact(version, artifact.upstream, ports.registry, target.at_digest(artifact.digest))
