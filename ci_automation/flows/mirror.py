"""Directory of Flux releases that an air-gapped site can verify by itself, and the same in a registry.

The directory has the form of `flux.sources.directory`, and an image layout with upstream's own artifacts. Nothing is
written that was not verified, each file appears whole, and the list of releases comes last: a run that was cut off is
repeated.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.reference import Reference
from ci_automation.errors import UsageError
from ci_automation.flows.files import Unwritable, read_file, write_file
from ci_automation.flows.planning.findings import advisories
from ci_automation.flows.programs.delegate import MAX_ARCHIVE_BYTES
from ci_automation.flows.publication.copy import copy
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
from ci_automation.flux.release import FetchedRelease, ReleaseIncomplete, newest_of_minors
from ci_automation.flux.sources.directory import (
    ADVISORIES,
    MAX_JSON_BYTES,
    DirectorySource,
    LeavesDirectory,
    UnreadableDirectory,
)
from ci_automation.flux.version import read_version
from ci_automation.registry.port import NotFound, Registry
from ci_automation.registry.releases import RegistryReleases, put_advisories, put_release, rendered_beside
from ci_automation.signing.upstream import UpstreamForged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from ci_automation.flows.ports import Ports
    from ci_automation.flux.version import Version

PROGRAMS = ("linux_amd64", "linux_arm64")
_ARTIFACTS = "flux-manifests"
_RELEASES, _TAGS = "releases.json", "tags.json"
_LOCK, _LOCK_SECONDS = ".flux-manifests.lock", 600


class Mirrored(Struct, frozen=True):
    """Content of the directory of one release, and its signer; None if it needs no signature and has none."""

    version: Version
    vouched: str | None
    artifact: UpstreamArtifact | None
    programs: tuple[str, ...]


def artifacts_in(folder: Path) -> Reference:
    """Return the image layout in a directory of releases, for what Flux itself rendered."""
    return Reference.parse(f"layout:{folder / _ARTIFACTS}")


def mirror(
    folder: Path, ports: Ports, versions: Iterable[Version] = (), *, with_programs: bool = False
) -> tuple[Mirrored, ...]:
    """Fill a directory with these releases, and return what was done, the oldest first.

    Without `versions` those are taken that are newer than all in the directory; if it has none, the newest of each of
    the last three minor series, which are those that Flux supports. `ports.registry` is where the artifacts go to. The
    published security advisories come along each time; where the source has none, those that are there stay.

    Raises:
        LeavesDirectory: a link in it leads elsewhere.
        ReleaseSourceError: a release is not there, or its files are not what its checksums say.
        VerificationFailed: something is not signed as Flux signs it.
        MirrorBusy, Unwritable: the directory cannot be written.
    """
    with alone_in(folder):
        wanted = sorted(set(versions)) or _newer(folder, ports)
        fetched: list[FetchedRelease] = []
        done = []
        for version in wanted:
            ports.say(f"mirroring {version}")
            for path in (folder / str(version), folder / _ARTIFACTS):
                if not path.resolve().is_relative_to(folder.resolve()):
                    raise LeavesDirectory(path)
            release = _fetch(folder, version, ports)
            artifact = _artifact(version, ports)
            programs = tuple(_programs(folder, release, ports)) if with_programs else ()
            for name, content in _named_files(release):
                write_mirrored(folder / str(version) / name, content)
            if artifact is not None:
                _copy(artifacts_in(folder), version, artifact, ports)
            fetched.append(release)
            done.append(Mirrored(version, release.vouched, artifact, programs))
        if known := advisories(ports):
            write_mirrored(folder / ADVISORIES, written_advisories(known))
        if fetched:
            write_lists(folder, fetched)
    return tuple(done)


def push(target: Reference, rendered: Registry, ports: Ports) -> tuple[tuple[FetchedRelease, bool], ...]:
    """Store the verified releases of a directory in the repository of `target`, and read each back, checked as before.

    Upstream's renderings go to `rendered_beside(target)`, in the registry `rendered`. Return each release, the oldest
    first, and whether its files were written. A run that was cut off is repeated. The directory's advisories go along.

    Raises:
        ReleaseSourceError: the directory cannot be read, or the files of a release are not what its checksums say.
        VerificationFailed: something is not signed as Flux signs it.
        OtherRelease: the repository has other files of a release.
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
    present = DirectorySource(folder).list() if (folder / _RELEASES).exists() else ()
    newest = max((each.version for each in present if not each.prerelease), default=None)
    return newest_of_minors(ports.releases.list(newest), newest)


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


class MirrorBusy(UsageError):
    """A directory that another process is filling."""

    hint = "Wait until it ends, then run the same command again."

    def __init__(self, folder: Path) -> None:
        super().__init__(f"another process has been writing to {folder} for {_LOCK_SECONDS} seconds")


def write_lists(folder: Path, fetched: Iterable[FetchedRelease]) -> None:
    """Add the releases to the two lists; what others have put there stays."""
    releases, tags = {}, {}
    for each in fetched:
        version = str(each.release.version)
        names = (it.name for it in (folder / version).iterdir() if not it.name.startswith("."))
        releases[version] = listed_release(each, names)
        tags[version] = {"commit": {"sha": each.commit}}
    _merge(folder / _TAGS, "name", tags)
    _merge(folder / _RELEASES, "tag_name", releases)


def listed_release(fetched: FetchedRelease, assets: Iterable[str]) -> dict[str, Any]:
    """Return a release as GitHub lists it, with these assets."""
    release = fetched.release
    return {
        "draft": False,
        "prerelease": release.prerelease,
        "published_at": release.published_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "assets": [{"name": name} for name in sorted(assets)],
    }


def _merge(path: Path, key: str, new: Mapping[str, dict[str, Any]]) -> None:
    """Write the list at `path` with the new items in it, newest version first, and others' after them as they were."""
    old: Any = []
    if path.exists():
        try:
            old = json.loads(read_file(path, MAX_JSON_BYTES, partial(UnreadableDirectory, path)))
        except (ValueError, RecursionError):
            raise UnreadableDirectory(path, "it is not JSON") from None
    if not isinstance(old, list) or not all(isinstance(item, dict) and isinstance(item.get(key), str) for item in old):
        raise UnreadableDirectory(path, "it does not have the format of GitHub's answer")
    kept = [item for item in old if item[key] not in new]
    versions = [*kept, *({key: name, **value} for name, value in new.items())]
    known = [(version, item) for item in versions if (version := read_version(item[key])) is not None]
    others = [item for item in kept if read_version(item[key]) is None]
    ordered = [item for _, item in sorted(known, key=lambda each: each[0], reverse=True)]
    write_mirrored(path, f"{json.dumps([*ordered, *others], indent=1)}\n".encode())


def write_mirrored(path: Path, data: bytes) -> None:
    """Write a file whole, unless it is there with these bytes; a link, a pipe or a device there is replaced."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.unlink()
        elif path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
            return
    except OSError as error:
        raise Unwritable(path, error) from None
    write_file(path, data)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make the directory, and let no other process write to it meanwhile.

    Raises:
        MirrorBusy: another process writes to it for a long time.
        Unwritable: it cannot be made or locked.
    """
    from filelock import FileLock, Timeout  # it costs 80 ms, and only writers need it

    lock = FileLock(folder / _LOCK, timeout=_LOCK_SECONDS)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = lock.acquire()
    except Timeout:
        raise MirrorBusy(folder) from None
    except OSError as error:
        raise Unwritable(folder, error) from None
    with held:
        yield
