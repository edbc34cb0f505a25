"""Image indexes (OCI image spec v1.1), which list the referrers of a digest."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact import gojson
from ci_automation.artifact.manifest import (
    DOCKER_LIST,
    OCI_INDEX,
    Descriptor,
    InvalidManifest,
    Manifest,
    parse_document,
)
from ci_automation.artifact.reference import Digest
from ci_automation.errors import VerificationFailed

if TYPE_CHECKING:
    from collections.abc import Collection

MAX_ENTRIES = 10_000
_MAX_EMBEDDING = 1 << 20  # bytes of an index; registries take 4 MiB


class InvalidIndex(VerificationFailed):
    """A registry returned an index that Flux would not read."""

    hint = "Find out what wrote it. The entries of an image index have a media type, a sha256 digest and a size each."

    def __init__(self, reason: str) -> None:
        super().__init__(f"the image index is invalid: {reason}")
        self.reason = reason


class Index(Struct, frozen=True):
    """One image index: the stored bytes, and the manifests in it; with a `subject` it is a referrer of that."""

    raw: bytes
    manifests: tuple[Descriptor, ...]
    media_type: str = OCI_INDEX
    subject: Descriptor | None = None

    @classmethod
    def parse(cls, raw: bytes, media_types: Collection[str] = (OCI_INDEX,)) -> Self:
        """Return the index in `raw`; as in Go, one bad entry makes it invalid.

        Raises:
            InvalidIndex: `raw` is not JSON or not an index of these types, has too many entries or an invalid one; or
                Go would read it differently.
        """
        try:
            value = parse_document(raw)
        except ValueError as error:
            raise InvalidIndex(str(error)) from None
        media_type = value.get("mediaType", OCI_INDEX)
        if media_type not in media_types or repr(value.get("schemaVersion")) != "2":
            raise InvalidIndex("it is not an OCI image index of schema version 2")
        entries = value.get("manifests", ...)
        if entries is not None and (not isinstance(entries, list) or len(entries) > MAX_ENTRIES):
            raise InvalidIndex("it has no list of manifests, or too long a one")
        try:
            found = None if (subject := value.get("subject")) is None else Descriptor.from_json(subject)
            return cls(raw, tuple(map(Descriptor.from_json, entries or ())), media_type, found)
        except InvalidManifest as error:
            raise InvalidIndex(error.reason) from None

    @classmethod
    def build(cls, manifests: tuple[Descriptor, ...] = ()) -> Self:
        """Return the index that lists these manifests."""
        value = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry.to_json() for entry in manifests]}
        return cls(gojson.written(value), manifests)

    @property
    def digest(self) -> Digest:
        """Return the digest of the index's bytes."""
        return Digest.of(self.raw)

    @property
    def parts(self) -> tuple[Descriptor, ...]:
        """Return what has to be there before the index."""
        return self.manifests

    def lists(self, digest: Digest) -> bool:
        """Return whether the index lists the manifest with that digest."""
        return any(entry.digest == digest for entry in self.manifests)

    def with_entry(self, entry: Descriptor) -> Self:
        """Return the index with `entry` at its end; everything else stays, including unknown keys.

        An entry whose embedded content would make the index large is listed without it.
        """
        if len(self.raw) + len(entry.data or b"") > _MAX_EMBEDDING:
            entry = replace(entry, data=None)
        value = {"schemaVersion": 2, "mediaType": OCI_INDEX, **parse_document(self.raw)}
        value["manifests"] = [*(value["manifests"] or ()), entry.to_json()]
        return replace(self, raw=gojson.written(value), manifests=(*self.manifests, entry))


def parse_stored(raw: bytes) -> Manifest | Index:
    """Return the manifest of an image, or the index of an image for several platforms.

    Raises:
        InvalidManifest, InvalidIndex: `raw` is neither.
    """
    with suppress(ValueError):
        if "manifests" in parse_document(raw):
            return Index.parse(raw, (OCI_INDEX, DOCKER_LIST))
    return Manifest.parse(raw)
