"""Registry in a directory: an OCI image layout (OCI image spec v1.1, *Image Layout*), as crane and oras read it.

The directory is one repository. `index.json` lists its manifests, with their tags as annotations. A manifest whose tag
moves on stays in the list without a tag, as it would stay in a registry.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ci_automation.artifact.index import Index, parse_stored
from ci_automation.artifact.manifest import OCI_INDEX, Descriptor, InvalidManifest, Manifest, parse_document
from ci_automation.artifact.reference import Digest, InvalidReference, LayoutDirectory, Reference
from ci_automation.registry.files import (
    MARKER,
    MARKER_CONTENT,
    TAG_ANNOTATION,
    UNFINISHED,
    LayoutUnusable,
    NotALayout,
    Sink,
    check_blob,
    digest_of,
    opened,
    pieces,
    require_readable,
    tag_of,
    untagged,
    with_entry,
    write_whole,
)
from ci_automation.registry.port import (
    MAX_BLOB_BYTES,
    MAX_MANIFEST_BYTES,
    ContentMismatch,
    NotFound,
    OtherRegistry,
    UnexpectedAnswer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INDEX = "index.json"
LOCK = ".flux-manifests.lock"
IDENTITY = "flux-manifests.id"
LOCK_SECONDS = 60
_IDENTITY_BYTES = 33
_OURS = frozenset({MARKER, INDEX, "blobs", LOCK, IDENTITY})
_IDENTITY = re.compile(rb"[0-9a-f]{32}\n")


class LayoutRegistry:
    """One image layout directory as a registry. Its methods are the port's; threads and processes may share it."""

    def __init__(self, directory: LayoutDirectory) -> None:
        self.directory = directory
        self._path = Path(directory.path)
        self._last: tuple[bytes | None, dict[str, Any]] = (None, {})  # the index, as bytes and parsed
        self._referrals: dict[Digest, tuple[Digest, Descriptor] | None] = {}  # of manifests that were read

    def at_once(self, *work: Callable[[], Any]) -> list[Any]:
        """Run the work in turn, because a directory has no round trips, and return the results."""
        return [each() for each in work]

    def identity(self, reference: Reference) -> str | None:
        """Return the directory's identity, or None if it has none."""
        self._check(reference)
        raw = self._read(self._path / IDENTITY, _IDENTITY_BYTES)
        return f"layout:{raw.decode().strip()}" if raw is not None and _IDENTITY.fullmatch(raw) else None

    def give_identity(self, reference: Reference) -> None:
        """Give the directory a random identity, if it has none and is empty."""
        self._check(reference)
        with self._writing(), self._locked():
            if not self._index()["manifests"] and not (self._path / IDENTITY).is_file():
                write_whole(self._path / IDENTITY, f"{secrets.token_hex(16)}\n".encode())

    def resolve(self, reference: Reference) -> Digest | None:
        """Return the digest of the manifest that `reference` names, or None if it does not exist."""
        self._check(reference)
        name = reference.name
        entries = self._index()["manifests"]
        if reference.digest is not None:
            return reference.digest if any(entry["digest"] == name for entry in entries) else None
        named = {digest_of(entry) for entry in entries if tag_of(entry) == name}
        if len(named) > 1:  # of two entries with a tag other programs take the first, and oras the last
            raise UnexpectedAnswer(f"{name} is the tag of {len(named)} manifests in {self._path / INDEX}")
        return next(iter(named), None)

    def manifest(self, reference: Reference) -> Manifest:
        """Return the manifest that `reference` names."""
        return Manifest.parse(self._named(reference, self.resolve(reference)))

    def stored(self, reference: Reference) -> Manifest | Index:
        """Return the manifest or the index that `reference` names; other programs list only those with a tag."""
        self._check(reference)
        return parse_stored(self._named(reference, reference.digest or self.resolve(reference)))

    def blob(self, reference: Reference, descriptor: Descriptor) -> bytes:
        """Return the bytes of a blob."""
        self._check(reference)
        what = f"blob {descriptor.digest} of {self.directory}"
        require_readable(what, descriptor, MAX_BLOB_BYTES)
        if (data := self._read(self._blob_path(descriptor.digest), descriptor.size)) is None:
            raise NotFound(what)
        check_blob(what, descriptor, Digest.of(data), len(data))
        return data

    def require_writable(self, reference: Reference) -> None:
        """Check that the directory, or the one that it would be made in, may be written to."""
        self._check(reference)
        there = next(it for it in (self._path, *self._path.absolute().parents) if it.exists())
        if not os.access(there, os.W_OK | os.X_OK):
            raise LayoutUnusable(self._path, "it may not be written to")

    def put_blob(self, reference: Reference, data: bytes) -> Digest:
        """Store `data`, unless it is there, and return its digest."""
        self._check(reference)
        digest = Digest.of(data)
        with self._writing():
            self._store(digest, data)
        return digest

    def has_blob(self, reference: Reference, descriptor: Descriptor) -> bool:
        """Return whether the blob exists, undamaged."""
        self._check(reference)
        with opened(self._blob_path(descriptor.digest)) as file:
            return file is not None and hashlib.file_digest(file, "sha256").hexdigest() == descriptor.digest.hex

    def fetch_blob(self, reference: Reference, descriptor: Descriptor, file: BinaryIO) -> None:
        """Write a blob to a file."""
        self._check(reference)
        what = f"blob {descriptor.digest} of {self.directory}"
        with opened(self._blob_path(descriptor.digest)) as blob:
            if blob is None:
                raise NotFound(what)
            sink = Sink(file, descriptor, what)
            for piece in pieces(blob):
                sink.write(piece)
        sink.check()

    def send_blob(self, reference: Reference, descriptor: Descriptor, file: BinaryIO) -> None:
        """Store the blob that a file has."""
        self._check(reference)
        with self._writing():
            write_whole(self._blob_path(descriptor.digest), pieces(file))

    def mount_blob(self, reference: Reference, descriptor: Descriptor, source: Reference) -> bool:
        """Return whether the blob exists; the directory has only one repository."""
        self._check(source)
        return self.has_blob(reference, descriptor)

    def put_manifest(self, reference: Reference, manifest: Manifest | Index) -> Digest:
        """Store the bytes of `manifest` under the reference's digest or tag, and return their digest."""
        if reference.digest not in {None, manifest.digest}:
            raise ContentMismatch(f"the manifest for {reference}", reference.digest, manifest.digest)
        annotations = {} if reference.digest is not None else {TAG_ANNOTATION: reference.name}
        return self._put(reference, manifest, Descriptor.of(manifest.media_type, manifest.raw, annotations).to_json())

    def delete_manifest(self, reference: Reference) -> None:
        """Delete the manifest with the reference's digest, if it exists; its blobs stay."""
        self._check(reference)
        if (digest := reference.digest) is None:
            raise InvalidReference(str(reference), "only a digest can be deleted, because a tag may move")
        with self._writing(), self._locked():
            index = self._index()
            self._write_index(index, [entry for entry in index["manifests"] if entry["digest"] != str(digest)])
            self._blob_path(digest).unlink(missing_ok=True)

    def tags(self, reference: Reference) -> tuple[str, ...]:
        """Return all tags, sorted."""
        self._check(reference)
        return tuple(sorted({tag for entry in self._index()["manifests"] if (tag := tag_of(entry)) is not None}))

    def referrers(self, reference: Reference, digest: Digest) -> tuple[Descriptor, ...]:
        """Return the manifests in the index that refer to `digest`; like oras, read each one instead of its entry."""
        self._check(reference)
        referrals = [self._referral(Digest.parse(entry["digest"])) for entry in self._index()["manifests"]]
        return tuple({it[1].digest: it[1] for it in referrals if it is not None and it[0] == digest}.values())

    def _referral(self, digest: Digest) -> tuple[Digest, Descriptor] | None:
        """Return the subject of a manifest and its entry as a referrer, or None if it is gone or has no subject."""
        if digest not in self._referrals and (raw := self._read_manifest(digest)) is not None:
            try:
                self._referrals[digest] = Manifest.parse(raw).referral
            except InvalidManifest:
                self._referrals[digest] = None
        return self._referrals.get(digest)

    def put_referrer(self, reference: Reference, manifest: Manifest, check: Callable[[], None] | None = None) -> Digest:
        """Store a manifest with a subject by its digest, list it as oras does, and return the digest."""
        _, entry = manifest.referral
        if check is not None:
            check()
        return self._put(reference, manifest, untagged(entry.to_json()))

    def _put(self, reference: Reference, manifest: Manifest | Index, entry: dict[str, Any]) -> Digest:
        """Store a manifest whose blobs exist, with its entry in the index, and return its digest."""
        self._check(reference)
        for descriptor in manifest.parts:
            if not self._blob_path(descriptor.digest).is_file():
                raise NotFound(f"blob {descriptor.digest} of {self.directory}, which the manifest needs,")
        with self._writing(), self._locked():
            self._store(manifest.digest, manifest.raw)
            index = self._index()
            self._write_index(index, with_entry(index["manifests"], entry))
        return manifest.digest

    def _check(self, reference: Reference) -> None:
        if reference.repository != self.directory:
            raise OtherRegistry(str(self.directory), reference)

    def _index(self) -> dict[str, Any]:
        """Return the index, after a check that each of its `manifests` is an object with a digest."""
        path = self._path / INDEX
        if (raw := self._read(path, MAX_MANIFEST_BYTES)) is None:
            return {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}
        seen, index = self._last
        if raw == seen:
            return index
        try:
            value = parse_document(raw if len(raw) <= MAX_MANIFEST_BYTES else b"")
        except ValueError as error:
            raise UnexpectedAnswer(f"{path} is not the index of an image layout: {error}") from None
        entries = [] if value.get("manifests") is None else value["manifests"]
        if not isinstance(entries, list) or not all(isinstance(digest_of(entry), Digest) for entry in entries):
            raise UnexpectedAnswer(f"{path} is not the index of an image layout: an entry has no sha256 digest")
        index = {**value, "manifests": entries}
        self._last = raw, index
        return index

    def _write_index(self, index: dict[str, Any], entries: list[dict[str, Any]]) -> None:
        if entries != index["manifests"]:
            content = json.dumps({**index, "manifests": entries}, separators=(",", ":"), ensure_ascii=False)
            write_whole(self._path / INDEX, content.encode())

    def _blob_path(self, digest: Digest) -> Path:
        return self._path / "blobs" / "sha256" / digest.hex

    def _named(self, reference: Reference, digest: Digest | None) -> bytes:
        if digest is None or (raw := self._read_manifest(digest)) is None:
            raise NotFound(str(reference), "" if self._path.is_dir() else f"there is no directory {self._path}")
        return raw

    def _read_manifest(self, digest: Digest) -> bytes | None:
        """Return the bytes of a manifest, or None if they are gone."""
        raw = self._read(self._blob_path(digest), MAX_MANIFEST_BYTES)
        if raw is not None and (found := Digest.of(raw)) != digest:
            raise ContentMismatch(f"manifest {digest} of {self.directory}", digest, found)
        return raw

    def _store(self, digest: Digest, data: bytes) -> None:
        path = self._blob_path(digest)
        if self._read(path, len(data)) != data:  # absent, or damaged
            write_whole(path, data)

    def _read(self, path: Path, cap: int) -> bytes | None:
        """Return the bytes of a file, at most one more than `cap`, or None if it does not exist."""
        with opened(path) as file:
            return None if file is None else file.read(cap + 1)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Make a new directory an image layout, and turn errors of the file system into `LayoutUnusable`."""
        try:
            if not (self._path / MARKER).is_file():
                self._path.mkdir(parents=True, exist_ok=True)
                names = {entry.name for entry in self._path.iterdir() if not entry.name.startswith(UNFINISHED)}
                if names - _OURS:
                    raise NotALayout(self._path)
                write_whole(self._path / MARKER, MARKER_CONTENT)
            blobs = self._path / "blobs" / "sha256"
            if not blobs.resolve().is_relative_to(self._path.resolve()):
                raise LayoutUnusable(blobs, "a link leads out of the image layout")
            blobs.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as error:
            raise LayoutUnusable(
                self._path, f"it cannot be written: {error.strerror or type(error).__name__}"
            ) from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock, Timeout  # it costs 80 ms, and only writers need it

        try:
            with FileLock(self._path / LOCK, timeout=LOCK_SECONDS):
                yield
        except Timeout:
            raise LayoutUnusable(self._path, f"another process has been writing for {LOCK_SECONDS} s") from None
