"""Releases of Flux in an OCI repository: one artifact a release, under the tag of its version.

Its config is JSON with the release and its tag as GitHub lists them; each layer is a file of the release, with its name
in an annotation, as oras writes files. All who can write to the repository can change both: what is read is checked
like any other source's files, against checksums and upstream's signature. The tag `advisories` has the published
security advisories, in the form of a directory's `advisories.json`.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ci_automation.artifact.manifest import Descriptor, InvalidManifest, Manifest
from ci_automation.artifact.reference import LayoutDirectory, OciRepository, Reference
from ci_automation.errors import Conflict, ReleaseSourceError
from ci_automation.flux.listing import Listing, field, listing, load, releases, tag_commit, usable
from ci_automation.flux.release import (
    FetchedRelease,
    InvalidReleaseList,
    Release,
    ReleaseNotFound,
    collected_files,
    open_release,
)
from ci_automation.flux.sources.directory import ADVISORIES
from ci_automation.flux.version import read_version
from ci_automation.registry.port import NotFound, Registry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.flux.advisories import Advisory
    from ci_automation.flux.version import Version

RELEASE_TYPE = "application/vnd.flux-manifests.release.v1"
_CONFIG_TYPE, _FILE_TYPE = f"{RELEASE_TYPE}+json", "application/octet-stream"
_TITLE = "org.opencontainers.image.title"
_ADVISORIES, _ADVISORIES_TYPE = "advisories", "application/vnd.flux-manifests.advisories.v1"
_EMPTY_TYPE, _EMPTY = "application/vnd.oci.empty.v1+json", b"{}"
_MAX_ADVISORIES_BYTES = 4 << 20
_AT_ONCE = 16  # requests: each takes a thread, and an attacker who can write to the repository makes tags
_MAX_CONFIG_BYTES = 1 << 20  # GitHub's notes of a release have at most 125,000 characters


class ReleaseFileTooLarge(ReleaseSourceError):
    """A file of a release in a repository is larger than Flux's files."""

    hint = "Compare the release with the one on GitHub, and push it again with `mirror --push`."

    def __init__(self, place: Reference, name: str, limit: int) -> None:
        super().__init__(f"{name} in {place} has more than {limit} bytes")


class OtherRelease(Conflict):
    """A repository has something else under the version of a release."""

    hint = (
        "Find out who pushed that. Name a repository that has releases alone; or delete the tag, then run the same "
        "command again."
    )

    def __init__(self, place: Reference, name: str | None = None) -> None:
        what = "and is no release that `mirror` pushed" if name is None else f"with another {name}"
        super().__init__(f"{place} is there already, {what}")


class RegistryReleases:
    """The releases in the repository of `place`, read when they are needed."""

    def __init__(self, registry: Registry, place: Reference) -> None:
        self._registry, self._place = registry, place
        self._read: dict[Version, Manifest | None] = {}

    def list(self, newer_than: Version | None = None) -> tuple[Release, ...]:
        """Return the releases, newest version first; see `ReleaseSource`."""
        known = [it for tag in self._registry.tags(self._place) if (it := read_version(tag)) is not None]
        wanted = [it for it in known if newer_than is None or it >= newer_than]
        if known and not wanted:
            return ()
        found: list[Listing | None] = []
        for few in (wanted[start : start + _AT_ONCE] for start in range(0, len(wanted), _AT_ONCE)):
            self._registry.at_once(*(partial(self._manifest, it) for it in few))
            found += self._registry.at_once(*(partial(self._listing, it) for it in few))
        return releases([it for it in found if it is not None], self._where)

    def fetch(self, version: Version) -> FetchedRelease:
        """Return the release of `version`; see `ReleaseSource`."""
        if (listed := self._listing(version)) is None:
            raise ReleaseNotFound(version, self._where, self.list)
        release = usable(releases([listed], self._where), version, self._where, self)
        commit = tag_commit(field(self._config(version), "tags", list, self._where), version, self._where)
        files = collected_files(version, self.asset, str(self._at(version)))
        return open_release(release, files, commit)

    def advisories(self) -> tuple[Advisory, ...]:
        """Return the advisories under their tag, if it is there; see `ReleaseSource`."""
        from ci_automation.flux.advisories import advisories_in  # not for a check that finds nothing newer

        at = self._place.at_tag(_ADVISORIES)
        manifest = _stored(self._registry, at)
        layer = _files(manifest).get(ADVISORIES) if manifest else None
        if layer is None:
            return ()
        if layer.size > _MAX_ADVISORIES_BYTES:
            raise ReleaseFileTooLarge(at, ADVISORIES, _MAX_ADVISORIES_BYTES)
        return advisories_in(load(self._registry.blob(self._place, layer), str(at)))

    def asset(self, version: Version, name: str, limit: int) -> bytes | None:
        """Return a file of a release, or None if it does not exist; see `ReleaseSource`."""
        manifest = self._manifest(version)
        layer = _files(manifest).get(name) if manifest else None
        if layer is None:
            return None
        if layer.size > limit:
            raise ReleaseFileTooLarge(self._at(version), name, limit)
        return self._registry.blob(self._place, layer)

    @property
    def _where(self) -> str:
        return str(self._place.repository)

    def _at(self, version: Version) -> Reference:
        return self._place.at_tag(str(version))

    def _manifest(self, version: Version) -> Manifest | None:
        if version not in self._read:
            self._read[version] = _stored(self._registry, self._at(version))
        return self._read[version]

    def _listing(self, version: Version) -> Listing | None:
        if (manifest := self._manifest(version)) is None:
            return None
        found = listing(field(self._config(version), "release", dict, self._where), str(version), self._where)
        if found.tag != str(version):
            raise InvalidReleaseList(self._where, f"what is under {version} says that it is {found.tag[:80]}")
        return replace(found, assets=frozenset(_files(manifest)))

    def _config(self, version: Version) -> object:
        manifest = self._manifest(version)
        assert manifest is not None  # noqa: S101  # for the type checker: its callers have it
        if manifest.config.media_type != _CONFIG_TYPE or manifest.config.size > _MAX_CONFIG_BYTES:
            raise InvalidReleaseList(self._where, f"what is under {version} is no release that `mirror` pushed")
        return load(self._registry.blob(self._place, manifest.config), str(self._at(version)))


def put_release(registry: Registry, place: Reference, described: Mapping[str, Any], files: Mapping[str, bytes]) -> bool:
    """Store a release under its tag in the repository of `place`, and return whether anything was written.

    `described` has the release as `release` and its tags as `tags`, in GitHub's form. A release that is there keeps its
    files, and gets those that it lacks. The tag comes last, so that no reader gets half a release.

    Raises:
        OtherRelease: the repository has another file under one of the names, or the tag names something else.
        TagMoved: another writer moved the tag during the write.
    """
    at = place.at_tag(described["release"]["tag_name"])
    present = _stored(registry, at)
    if present.config.media_type != _CONFIG_TYPE if present else registry.resolve(at) is not None:
        raise OtherRelease(at)
    there = _files(present) if present else {}
    layers = dict(there)
    for name, data in files.items():
        layers[name] = Descriptor.of(_FILE_TYPE, data, {_TITLE: name})
        if name in there and there[name].digest != layers[name].digest:
            raise OtherRelease(at, name)
    config = json.dumps(described, sort_keys=True, separators=(",", ":")).encode()
    ordered = tuple(layers[name] for name in sorted(layers))
    manifest = Manifest.build(Descriptor.of(_CONFIG_TYPE, config), ordered, artifact_type=RELEASE_TYPE)
    if present is not None and present.digest == manifest.digest:
        return False
    for data in (config, *(data for name, data in files.items() if name not in there)):
        registry.put_blob(place, data)
    registry.put_manifest(at, manifest)
    return True


def put_advisories(registry: Registry, place: Reference, data: bytes) -> None:
    """Store the published advisories under their tag in the repository of `place`, in place of older ones."""
    at, layer = place.at_tag(_ADVISORIES), Descriptor.of("application/json", data, {_TITLE: ADVISORIES})
    manifest = Manifest.build(Descriptor.of(_EMPTY_TYPE, _EMPTY), (layer,), artifact_type=_ADVISORIES_TYPE)
    if registry.resolve(at) != manifest.digest:
        for content in (_EMPTY, data):
            registry.put_blob(place, content)
        registry.put_manifest(at, manifest)


def rendered_beside(place: Reference) -> Reference:
    """Return the repository with upstream's own renderings that belongs to a repository of releases."""
    home = place.repository
    if isinstance(home, OciRepository):
        return Reference(replace(home, path=f"{home.path}/flux-manifests"), "latest")
    return Reference(LayoutDirectory(home.path / "flux-manifests"), "latest")


def _stored(registry: Registry, at: Reference) -> Manifest | None:
    try:
        return registry.manifest(at)
    except (NotFound, InvalidManifest):
        return None


def _files(manifest: Manifest) -> dict[str, Descriptor]:
    return {it.annotations[_TITLE]: it for it in manifest.layers if _TITLE in it.annotations}
