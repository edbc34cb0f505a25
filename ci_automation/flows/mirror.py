"""Directory of Flux releases that an air-gapped site can verify by itself.

It has the form of `flux.sources.directory`, and an image layout with upstream's own artifacts. Nothing is written that
was not verified, each file appears whole, and the list of releases comes last: a run that was cut off is repeated.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager, suppress
from datetime import UTC
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.errors import ReleaseSourceError, UsageError
from ci_automation.flows.files import Unwritable, write_file
from ci_automation.flows.publication.copy import copy
from ci_automation.flows.rendering.delegate import MAX_ARCHIVE_BYTES
from ci_automation.flows.rendering.upstream import fetch, find_artifact, verify_artifact
from ci_automation.flux.bundle import BUNDLE, MAX_PROOF_BYTES, checksums_name, parse_checksums, proof_names
from ci_automation.flux.release import read_version
from ci_automation.flux.sources.directory import DirectorySource, UnreadableDirectory
from ci_automation.registry.port import NotFound
from ci_automation.signing.upstream import UpstreamForged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Ports
    from ci_automation.flows.rendering.upstream import UpstreamArtifact
    from ci_automation.flux.release import FetchedRelease
    from ci_automation.flux.version import Version

PROGRAMS = ("linux_amd64", "linux_arm64")
_RELEASES, _TAGS = "releases.json", "tags.json"
_LOCK, _LOCK_SECONDS = ".flux-manifests.lock", 600
_SERIES = 3  # minor releases that Flux supports at a time


class MirrorBusy(UsageError):
    """A directory that another process is filling."""

    hint = "Wait until it ends, then run the same command again."

    def __init__(self, folder: Path) -> None:
        super().__init__(f"another process has been writing to {folder} for {_LOCK_SECONDS} seconds")


class ForgedProgram(ReleaseSourceError):
    """A program of a release whose checksum differs."""

    hint = "Nothing was written. The download, a mirror or the release itself is damaged, or an attacker changed it."

    def __init__(self, version: Version, name: str, reason: str) -> None:
        super().__init__(f"{name} of {version} cannot be used: {reason}")


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
    the last three minor series, which are those that Flux supports. `ports.registry` is where the artifacts go to.

    Raises:
        ReleaseSourceError: a release is not there, or its files are not what its checksums say.
        VerificationFailed: something is not signed as Flux signs it.
        MirrorBusy, Unwritable: the directory cannot be written.
    """
    with _alone(place.folder):
        wanted = sorted(set(versions)) or _newer(place.folder, ports)
        fetched: list[FetchedRelease] = []
        done = []
        for version in wanted:
            ports.say(f"mirroring {version}")
            release = _fetch(place.folder, version, ports)
            artifact = _artifact(version, ports)
            programs = tuple(_programs(place.folder, release, ports)) if with_programs else ()
            _write_files(place.folder, release)
            if artifact is not None:
                _copy(place, version, artifact, ports)
            fetched.append(release)
            done.append(Mirrored(version, release.vouched, artifact, programs))
        if fetched:
            _write_lists(place.folder, fetched)
    return tuple(done)


def _newer(folder: Path, ports: Ports) -> list[Version]:
    """Return what a run without a wish takes, the oldest first."""
    present = DirectorySource(folder).list() if (folder / _RELEASES).exists() else ()
    newest = max((each.version for each in present if not each.prerelease), default=None)
    offered = sorted(
        each.version
        for each in ports.releases.list(newest)
        if each.problem is None and not each.prerelease and not each.version.is_prerelease
    )
    if newest is not None:
        return [version for version in offered if version > newest]
    return list({version.minor: version for version in offered}.values())[-_SERIES:]


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
    version = release.release.version
    checksums = parse_checksums(version, release.files.checksums)
    for platform in PROGRAMS:
        name = f"flux_{version.semver}_{platform}.tar.gz"
        if (expected := checksums.get(name)) is None:
            raise ForgedProgram(version, name, "its checksums do not list it")
        path = folder / str(version) / name
        if not path.is_file() or _sha256(path) != expected:
            ports.say(f"downloading {name}")
            data = ports.releases.asset(version, name, MAX_ARCHIVE_BYTES)
            if data is None:
                raise ForgedProgram(version, name, "the release does not have it")
            if (found := hashlib.sha256(data).hexdigest()) != expected:
                raise ForgedProgram(version, name, f"its sha256 is {found}, and its checksums say {expected}")
            _write(path, data)
        yield platform


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise Unwritable(path, error) from None


def _write_files(folder: Path, release: FetchedRelease) -> None:
    """Write what the release's folder needs, the bundle last."""
    version, files = release.release.version, release.files
    names = proof_names(version)
    contents = {
        names.log_entry: files.log_entry,
        names.certificate: files.certificate,
        names.signature: files.signature,
        checksums_name(version): files.checksums,
        BUNDLE: files.bundle,
    }
    for name, content in contents.items():
        if content is not None:
            _write(folder / str(version) / name, content)


def _artifact(version: Version, ports: Ports) -> UpstreamArtifact | None:
    """Return what upstream rendered, or None where it is not there and need not be."""
    try:
        return find_artifact(version, ports)
    except NotFound as error:
        if ports.upstream is None or ports.upstream.required:
            raise
        ports.say(str(error))
        return None


def _copy(place: MirrorFolder, version: Version, artifact: UpstreamArtifact, ports: Ports) -> None:
    """Copy what upstream rendered, with its signatures, and verify it where it is now."""
    assert ports.upstream is not None  # noqa: S101  # for the type checker: the artifact was found by both
    assert ports.upstream.registry is not None  # noqa: S101
    target = place.artifacts.at_tag(str(version))
    ports.say(f"copying {artifact.reference}")
    copy(ports.upstream.registry, artifact.reference, ports.registry, target, artifact.digest)
    if artifact.vouched is not None:
        verify_artifact(version, ports.upstream, ports.registry, target.at_digest(artifact.digest))


def _write_lists(folder: Path, fetched: Iterable[FetchedRelease]) -> None:
    """Add the releases to the two lists; what others have put there stays."""
    releases = {str(each.release.version): _listed(folder, each) for each in fetched}
    tags = {str(each.release.version): {"commit": {"sha": each.commit}} for each in fetched}
    _merge(folder / _TAGS, "name", tags)
    _merge(folder / _RELEASES, "tag_name", releases)


def _listed(folder: Path, fetched: FetchedRelease) -> dict[str, Any]:
    """Return a release as GitHub lists it, with the assets that are in its folder."""
    release = fetched.release
    assets = sorted(each.name for each in (folder / str(release.version)).iterdir() if not each.name.startswith("."))
    return {
        "draft": False,
        "prerelease": release.prerelease,
        "published_at": release.published_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "assets": [{"name": name} for name in assets],
    }


def _merge(path: Path, key: str, new: Mapping[str, dict[str, Any]]) -> None:
    """Write the list at `path` with the new items in it, newest version first, and others' after them as they were."""
    old: Any = []
    if path.exists():
        try:
            old = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            raise UnreadableDirectory(path, "it is not JSON") from None
    if not isinstance(old, list) or not all(isinstance(item, dict) and isinstance(item.get(key), str) for item in old):
        raise UnreadableDirectory(path, "it does not have the format of GitHub's answer")
    kept = [item for item in old if item[key] not in new]
    versions = [*kept, *({key: name, **value} for name, value in new.items())]
    known = [(version, item) for item in versions if (version := read_version(item[key])) is not None]
    others = [item for item in kept if read_version(item[key]) is None]
    ordered = [item for _, item in sorted(known, key=lambda each: each[0], reverse=True)]
    _write(path, f"{json.dumps([*ordered, *others], indent=1)}\n".encode())


def _write(path: Path, data: bytes) -> None:
    """Write a file whole, unless it is there with these bytes."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and not path.is_symlink() and path.read_bytes() == data:
            return
    except OSError as error:
        raise Unwritable(path, error) from None
    write_file(path, data)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout  # it costs 80 ms, and only writers need it

    lock = FileLock(folder / _LOCK, timeout=_LOCK_SECONDS)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise MirrorBusy(folder) from None
    except OSError as error:
        raise Unwritable(folder, error) from None
    try:
        yield
    finally:
        lock.release()
