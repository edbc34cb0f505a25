"""The registry port in memory: what a registry is, with a list of what was asked of it."""

from __future__ import annotations

import functools
import json
import threading
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_automation.artifact.index import Index, InvalidIndex, parse_stored
from ci_automation.artifact.manifest import OCI_MANIFEST, Descriptor, InvalidManifest, Manifest
from ci_automation.artifact.reference import Digest, InvalidReference
from ci_automation.net.waiting import Clock
from ci_automation.registry.contents import index_entry, merge, referrers_tag
from ci_automation.registry.port import ContentMismatch, NotAnIndex, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

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


# Tests ask again and again what the same bytes say.
_parsed = functools.lru_cache(4096)(Manifest.parse)


@functools.lru_cache(4096)
def _subject(raw: bytes) -> str | None:
    """Return the digest of a manifest's subject as registries in Go find it: also in what nobody should take."""
    try:
        value = json.loads(raw.decode(errors="replace"), object_pairs_hook=_folded)
    except ValueError:
        return None
    match value:
        case {"subject": {"digest": str(digest)}}:
            return digest
    return None


def _folded(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key.casefold(): value for key, value in pairs}


@dataclass(slots=True)
class InMemoryRegistry:
    """All registries at once, a repository each under its name.

    `requests` has the calls in their order. `before` hears of each one first; it may interfere, or raise as a crash
    would. Without the `referrers_api`, referrers are kept under the fallback tag: `read_index` and `write_index` are
    the calls of it.
    """

    repositories: defaultdict[str, Repository] = field(default_factory=lambda: defaultdict(Repository))
    requests: list[Asked] = field(default_factory=list)
    before: Callable[[Asked], None] = _nothing
    referrers_api: bool = True
    mounts: bool = True
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _merging: threading.Lock = field(default_factory=threading.Lock)

    def copy(self) -> InMemoryRegistry:
        """Return a registry of the same kind that holds the same, of which nothing was asked yet."""
        same = InMemoryRegistry(referrers_api=self.referrers_api, mounts=self.mounts)
        for name, held in self.repositories.items():
            same.repositories[name] = Repository(dict(held.manifests), dict(held.blobs), dict(held.tags))
        return same

    def _at(self, method: str, reference: Reference, what: object = None) -> Repository:
        asked = Asked(method, str(reference if what is None else what))
        self.before(asked)
        self.requests.append(asked)
        return self.repositories[str(reference.repository)]

    def at_once(self, *work: Callable[[], Any]) -> list[Any]:
        """Do one thing after the other, and return the results: tests need one order."""
        return [each() for each in work]

    def identity(self, reference: Reference) -> str | None:
        """Return the repository's address."""
        return str(reference.repository)

    def give_identity(self, reference: Reference) -> None:
        """Do nothing: the address is the identity."""

    def resolve(self, reference: Reference) -> Digest | None:
        """Return the digest of the manifest that `reference` names, or None where there is none."""
        return self._find(self._at("resolve", reference), reference)

    def manifest(self, reference: Reference) -> Manifest:
        """Return the manifest that `reference` names."""
        repository = self._at("manifest", reference)
        if (digest := self._find(repository, reference)) is None:
            raise NotFound(str(reference))
        return _parsed(repository.manifests[digest])

    def stored(self, reference: Reference) -> Manifest | Index:
        """Return the manifest or the index that `reference` names."""
        repository = self._at("stored", reference)
        if (digest := self._find(repository, reference)) is None:
            raise NotFound(str(reference))
        return parse_stored(repository.manifests[digest])

    def blob(self, reference: Reference, descriptor: Descriptor) -> bytes:
        """Return the bytes of a blob."""
        data = self._at("blob", reference, descriptor.digest).blobs.get(descriptor.digest)
        if data is None:
            raise NotFound(f"blob {descriptor.digest} of {reference.repository}")
        if Descriptor.of("", data) != Descriptor("", descriptor.digest, descriptor.size):
            raise ContentMismatch(f"blob {descriptor.digest}", descriptor.size, len(data))
        return data

    def require_writable(self, reference: Reference) -> None:
        """Do nothing but count: everybody may write."""
        self._at("require_writable", reference)

    def put_blob(self, reference: Reference, data: bytes) -> Digest:
        """Store `data` and return its digest."""
        digest = Digest.of(data)
        self._at("put_blob", reference, digest).blobs[digest] = data
        return digest

    def has_blob(self, reference: Reference, descriptor: Descriptor) -> bool:
        """Return whether the blob is there."""
        return descriptor.digest in self._at("has_blob", reference, descriptor.digest).blobs

    def fetch_blob(self, reference: Reference, descriptor: Descriptor, file: BinaryIO) -> None:
        """Write a blob to a file."""
        file.seek(0)
        file.truncate()
        file.write(self.blob(reference, descriptor))

    def send_blob(self, reference: Reference, descriptor: Descriptor, file: BinaryIO) -> None:
        """Store what a file has."""
        file.seek(0)
        data = file.read()
        if Digest.of(data) != descriptor.digest:
            raise ContentMismatch(f"blob {descriptor.digest}", descriptor.digest, Digest.of(data))
        self.put_blob(reference, data)

    def mount_blob(self, reference: Reference, descriptor: Descriptor, source: Reference) -> bool:
        """Have a blob of the source's repository in the reference's too, and return whether it is."""
        repository = self._at("mount_blob", reference, descriptor.digest)
        if self.mounts and (data := self.repositories[str(source.repository)].blobs.get(descriptor.digest)) is not None:
            repository.blobs[descriptor.digest] = data
        return descriptor.digest in repository.blobs

    def put_manifest(self, reference: Reference, manifest: Manifest | Index) -> Digest:
        """Store the bytes of `manifest` under the reference's digest or tag, and return their digest."""
        return self._put(self._at("put_manifest", reference), reference, manifest)

    def _put(self, repository: Repository, reference: Reference, manifest: Manifest | Index) -> Digest:
        digest = manifest.digest
        if reference.digest not in {None, digest}:
            raise ContentMismatch(f"the manifest for {reference}", reference.digest, digest)
        held = repository.manifests if isinstance(manifest, Index) else repository.blobs
        for needed in manifest.parts:
            if needed.digest not in held:
                raise NotFound(f"blob {needed.digest} of {reference.repository}, which the manifest needs,")
        with self._lock:
            repository.manifests[digest] = manifest.raw
            if reference.digest is None:
                repository.tags[reference.name] = digest
        return digest

    def delete_manifest(self, reference: Reference) -> None:
        """Delete the manifest of the reference's digest, and every tag that names it."""
        repository = self._at("delete_manifest", reference)
        if reference.digest is None:
            raise InvalidReference(str(reference), "only a digest can be deleted")
        with self._lock:
            repository.manifests.pop(reference.digest, None)
            for tag in [tag for tag, digest in repository.tags.items() if digest == reference.digest]:
                del repository.tags[tag]

    def tags(self, reference: Reference) -> tuple[str, ...]:
        """Return all tags of the reference's repository, sorted."""
        return tuple(sorted(self._at("tags", reference, reference.repository).tags))

    def referrers(self, reference: Reference, digest: Digest) -> tuple[Descriptor, ...]:
        """Return what says it refers to `digest`."""
        repository = self._at("referrers", reference, reference.at_digest(digest))
        if not self.referrers_api:
            return self.read_index(referrers_tag(reference, digest)).manifests
        found = []
        with self._lock:
            stored = tuple(repository.manifests.values())
        for raw in stored:
            if _subject(raw) == str(digest):
                found.append(Descriptor(OCI_MANIFEST, Digest.of(raw), len(raw)))
                with suppress(InvalidManifest):
                    found[-1] = _parsed(raw).referral[1]
        return tuple(found)

    def put_referrer(self, reference: Reference, manifest: Manifest, check: Callable[[], None] | None = None) -> Digest:
        """Store a manifest that has a subject by its digest, and see that it is listed."""
        subject, entry = index_entry(manifest)
        if check is not None:
            check()
        at = reference.at_digest(manifest.digest)
        self._put(self._at("put_referrer", at), at, manifest)
        if not self.referrers_api:
            with self._merging:
                merge(self, referrers_tag(reference, subject), entry, Clock(sleep=lambda _: None))
        return manifest.digest

    def read_index(self, tag: Reference) -> Index:
        """Return the index under a tag, an empty one where there is none."""
        repository = self._at("read_index", tag)
        if (digest := self._find(repository, tag)) is None:
            return Index.build()
        try:
            return Index.parse(repository.manifests[digest])
        except InvalidIndex as error:
            raise NotAnIndex(tag, error.reason) from None

    def write_index(self, tag: Reference, index: Index) -> None:
        """Store an index under a tag."""
        repository = self._at("write_index", tag)
        with self._lock:
            repository.manifests[index.digest] = index.raw
            repository.tags[tag.name] = index.digest

    def _find(self, repository: Repository, reference: Reference) -> Digest | None:
        digest = repository.tags.get(reference.name) if reference.digest is None else reference.digest
        return digest if digest in repository.manifests else None
