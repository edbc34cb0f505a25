"""The registry port in memory: what a registry is, with a list of what was asked of it."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ci_automation.artifact.digest import Digest
from ci_automation.artifact.manifest import Descriptor, Manifest
from ci_automation.registry.port import ContentMismatch, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.reference import Reference


class Asked(NamedTuple):
    """One call of the port: the method's name, and the reference or the digest that it was about."""

    method: str
    what: str


@dataclass(slots=True)
class Repository:
    """What one repository holds. A manifest is kept as bytes: also one that nobody should take may be put there."""

    manifests: dict[Digest, bytes] = field(default_factory=dict)
    blobs: dict[Digest, bytes] = field(default_factory=dict)
    tags: dict[str, Digest] = field(default_factory=dict)


def _nothing(_: Asked) -> None:
    pass


@dataclass(slots=True)
class InMemoryRegistry:
    """All registries at once, a repository each under its name.

    `requests` has the calls in their order. `before` hears of each one first; it may interfere, or raise as a crash
    would.
    """

    repositories: defaultdict[str, Repository] = field(default_factory=lambda: defaultdict(Repository))
    requests: list[Asked] = field(default_factory=list)
    before: Callable[[Asked], None] = _nothing
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def _at(self, method: str, reference: Reference, what: object = None) -> Repository:
        asked = Asked(method, str(reference if what is None else what))
        self.before(asked)
        self.requests.append(asked)
        return self.repositories[str(reference.repository)]

    def resolve(self, reference: Reference) -> Digest | None:
        """Return the digest of the manifest that `reference` names, or None where there is none."""
        return self._find(self._at("resolve", reference), reference)

    def manifest(self, reference: Reference) -> Manifest:
        """Return the manifest that `reference` names."""
        repository = self._at("manifest", reference)
        if (digest := self._find(repository, reference)) is None:
            raise NotFound(str(reference))
        return Manifest.parse(repository.manifests[digest])

    def blob(self, reference: Reference, descriptor: Descriptor) -> bytes:
        """Return the bytes of a blob."""
        data = self._at("blob", reference, descriptor.digest).blobs.get(descriptor.digest)
        if data is None:
            raise NotFound(f"blob {descriptor.digest} of {reference.repository}")
        if Descriptor.of("", data) != Descriptor("", descriptor.digest, descriptor.size):
            raise ContentMismatch(f"blob {descriptor.digest}", descriptor.size, len(data))
        return data

    def put_blob(self, reference: Reference, data: bytes) -> Digest:
        """Store `data` and return its digest."""
        digest = Digest.of(data)
        self._at("put_blob", reference, digest).blobs[digest] = data
        return digest

    def put_manifest(self, reference: Reference, manifest: Manifest) -> Digest:
        """Store the bytes of `manifest` under the reference's digest or tag, and return their digest."""
        repository, digest = self._at("put_manifest", reference), manifest.digest
        if reference.digest not in {None, digest}:
            raise ContentMismatch(f"the manifest for {reference}", reference.digest, digest)
        for needed in (manifest.config, *manifest.layers):
            if needed.digest not in repository.blobs:
                raise NotFound(f"blob {needed.digest} of {reference.repository}, which the manifest needs,")
        with self._lock:
            repository.manifests[digest] = manifest.raw
            if reference.digest is None:
                repository.tags[reference.name] = digest
        return digest

    def tags(self, reference: Reference) -> tuple[str, ...]:
        """Return all tags of the reference's repository, sorted."""
        return tuple(sorted(self._at("tags", reference, reference.repository).tags))

    def _find(self, repository: Repository, reference: Reference) -> Digest | None:
        digest = repository.tags.get(reference.name) if reference.digest is None else reference.digest
        return digest if digest in repository.manifests else None
