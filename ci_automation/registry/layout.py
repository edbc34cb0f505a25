"""A registry in a directory: an OCI image layout (OCI image spec v1.1, *Image Layout*), which crane, oras and skopeo read.

The directory is one repository. A manifest is what `index.json` lists, its tag the annotation beside it; a manifest whose tag
moves on stays in the list without one, as it would stay in a registry.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_automation.artifact.digest import Digest, InvalidDigest
from ci_automation.artifact.manifest import OCI_INDEX, Manifest
from ci_automation.errors import RegistryError, UsageError
from ci_automation.registry.port import (
    MAX_BLOB_BYTES,
    MAX_MANIFEST_BYTES,
    ContentMismatch,
    NotFound,
    OtherRegistry,
    UnexpectedAnswer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.artifact.manifest import Descriptor
    from ci_automation.artifact.reference import LayoutDirectory, Reference

TAG_ANNOTATION = "org.opencontainers.image.ref.name"
MARKER, MARKER_CONTENT = "oci-layout", b'{"imageLayoutVersion":"1.0.0"}'
INDEX = "index.json"
LOCK = ".flux-manifests.lock"
LOCK_SECONDS = 60


class NotALayout(UsageError):
    """A directory has other things in it than an image layout."""

    hint = "Name a new or an empty directory, or one that is an image layout."

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is not an OCI image layout: it is not empty, and has no {MARKER}")


class LayoutUnusable(RegistryError):
    """An image layout directory cannot be read or written."""

    hint = "Check its permissions, and the space on its disk. What was there before is unharmed."

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


class LayoutRegistry:
    """The registry that one image layout directory is. Its methods are the port's; threads and processes may share it."""

    def __init__(self, directory: LayoutDirectory) -> None:
        self.directory = directory
        self._path = Path(directory.path)

    def resolve(self, reference: Reference) -> Digest | None:
        """Return the digest of the manifest that `reference` names, or None where there is none."""
        return self._find(reference, self._entries())

    def manifest(self, reference: Reference) -> Manifest:
        """Return the manifest that `reference` names."""
        digest = self.resolve(reference)
        raw = None if digest is None else self._read(self._blob_path(digest), MAX_MANIFEST_BYTES)
        if digest is None or raw is None:
            raise NotFound(str(reference))
        if (found := Digest.of(raw)) != digest:
            raise ContentMismatch(f"the manifest of {reference}", digest, found)
        return Manifest.parse(raw)

    def blob(self, reference: Reference, descriptor: Descriptor) -> bytes:
        """Return the bytes of a blob."""
        self._check(reference)
        what = f"blob {descriptor.digest} of {self.directory}"
        if descriptor.size > MAX_BLOB_BYTES:
            raise UnexpectedAnswer(f"{what} has {descriptor.size} bytes; no more than {MAX_BLOB_BYTES} are read")
        data = self._read(self._blob_path(descriptor.digest), descriptor.size)
        if data is None:
            raise NotFound(what)
        if (found := Digest.of(data)) != descriptor.digest:
            raise ContentMismatch(what, descriptor.digest, found)
        if len(data) != descriptor.size:
            raise ContentMismatch(what, f"{descriptor.size} bytes", f"{len(data)} bytes")
        return data

    def put_blob(self, reference: Reference, data: bytes) -> Digest:
        """Store `data`, unless it is there, and return its digest."""
        self._check(reference)
        digest = Digest.of(data)
        with self._prepared():
            self._store(digest, data)
        return digest

    def put_manifest(self, reference: Reference, manifest: Manifest) -> Digest:
        """Store the bytes of `manifest` under the reference's digest or tag, and return their digest."""
        self._check(reference)
        digest = manifest.digest
        if reference.digest not in {None, digest}:
            raise ContentMismatch(f"the manifest for {reference}", reference.digest, digest)
        tag = None if reference.digest is not None else reference.name
        for descriptor in (manifest.config, *manifest.layers):
            if not self._blob_path(descriptor.digest).is_file():
                raise NotFound(f"blob {descriptor.digest} of {self.directory}, which the manifest needs,")
        with self._prepared(), self._locked():
            self._store(digest, manifest.raw)
            self._list(manifest, tag)
        return digest

    def tags(self, reference: Reference) -> tuple[str, ...]:
        """Return all tags, sorted."""
        self._check(reference)
        return tuple(sorted({tag for entry in self._entries() if (tag := _tag(entry)) is not None}))

    def _check(self, reference: Reference) -> None:
        if reference.repository != self.directory:
            raise OtherRegistry(str(self.directory), reference)

    def _find(self, reference: Reference, entries: list[dict[str, Any]]) -> Digest | None:
        self._check(reference)
        if reference.digest is not None:
            return reference.digest if any(_digest(entry) == reference.digest for entry in entries) else None
        return next((_digest(entry) for entry in entries if _tag(entry) == reference.name), None)

    def _entries(self) -> list[dict[str, Any]]:
        """Return the descriptors of the index; none where there is no directory, or an empty one."""
        return self._index()["manifests"]  # type: ignore[no-any-return]  # as `_index` made sure

    def _index(self) -> dict[str, Any]:
        raw = self._read(self._path / INDEX, MAX_MANIFEST_BYTES)
        if raw is None:
            return {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}
        try:
            value = json.loads(raw)
        except (ValueError, RecursionError):
            raise UnexpectedAnswer(f"{self._path / INDEX} is not JSON") from None
        match value:
            case {"manifests": list(entries)} if all(isinstance(entry, dict) for entry in entries):
                for entry in entries:
                    _digest(entry)
                return value  # type: ignore[no-any-return]  # a match does not tell what is in a dict
            case {"manifests": None}:
                return {**value, "manifests": []}
        raise UnexpectedAnswer(f"{self._path / INDEX} is not an image index")
