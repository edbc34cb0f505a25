"""Image manifests and descriptors (OCI image spec v1.1), as Flux writes and reads them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from ci_automation.artifact.digest import Digest, InvalidDigest
from ci_automation.errors import VerificationFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
FLUX_CONFIG = "application/vnd.cncf.flux.config.v1+json"
FLUX_LAYER = "application/vnd.cncf.flux.content.v1.tar+gzip"

# The constant that the CLI of v2.9 emits; no consumer reads it. One blob for all artifacts, and for their signatures.
CONFIG_BLOB = (
    b'{"architecture":"","created":"0001-01-01T00:00:00Z","os":"",'
    b'"rootfs":{"type":"layers","diff_ids":null},"config":{}}'
)
_MAX_LAYERS = 64
_MAX_SIZE = (1 << 63) - 1  # Go keeps it in an int64


class InvalidManifest(VerificationFailed):
    """What a registry calls a manifest is none that Flux would read."""

    hint = "Check that the address names a Flux artifact, one image manifest with a layer."

    def __init__(self, reason: str) -> None:
        super().__init__(f"the manifest is not a Flux artifact: {reason}")


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What a manifest says about a blob: its media type, digest and size in bytes (OCI image spec, *Descriptors*)."""

    media_type: str
    digest: Digest
    size: int
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, media_type: str, data: bytes, annotations: Mapping[str, str] | None = None) -> Self:
        """Return the descriptor of `data`."""
        return cls(media_type, Digest.of(data), len(data), MappingProxyType(dict(annotations or {})))

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Return the descriptor in a parsed manifest.

        Raises:
            InvalidManifest: a part is missing or of the wrong type.
        """
        match value:
            case {"mediaType": str(media_type), "digest": str(digest), "size": int(size), **rest} if (
                0 <= size <= _MAX_SIZE and not isinstance(size, bool)
            ):
                try:
                    return cls(media_type, Digest.parse(digest), size, _annotations(rest.get("annotations")))
                except InvalidDigest as error:
                    raise InvalidManifest(str(error)) from None
        raise InvalidManifest("a descriptor lacks mediaType, digest or size")

    def to_json(self) -> dict[str, Any]:
        """Return the descriptor as go-containerregistry orders it."""
        value: dict[str, Any] = {"mediaType": self.media_type, "size": self.size, "digest": str(self.digest)}
        if self.annotations:
            value["annotations"] = dict(sorted(self.annotations.items()))
        return value


@dataclass(frozen=True, slots=True)
class Manifest:
    """One image manifest: the bytes as they are stored, and what they say."""

    raw: bytes
    media_type: str
    config: Descriptor
    layers: tuple[Descriptor, ...]
    annotations: Mapping[str, str]

    @classmethod
    def parse(cls, raw: bytes) -> Self:
        """Return the manifest in `raw`.

        Raises:
            InvalidManifest: it is not JSON, an index, of another schema version, or lacks config or layers.
        """
        value = _parsed(raw)
        media_type = value.get("mediaType", OCI_MANIFEST)
        if "manifests" in value or media_type in (OCI_INDEX, DOCKER_LIST):
            raise InvalidManifest("it is an index of several images, of which a cluster would take any")
        if media_type not in (OCI_MANIFEST, DOCKER_MANIFEST) or repr(value.get("schemaVersion")) != "2":
            raise InvalidManifest("it is not an OCI image manifest of schema version 2")
        layers = value.get("layers")
        if not isinstance(layers, list) or not 0 < len(layers) <= _MAX_LAYERS:
            raise InvalidManifest("it has no layers, or too many")
        return cls(
            raw,
            media_type,
            Descriptor.from_json(value.get("config")),
            tuple(Descriptor.from_json(layer) for layer in layers),
            _annotations(value.get("annotations")),
        )

    @classmethod
    def build(
        cls, config: Descriptor, layers: tuple[Descriptor, ...], annotations: Mapping[str, str] | None = None
    ) -> Self:
        """Return the manifest of these parts, with the bytes that go-containerregistry, and so Flux, would write."""
        value: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": config.to_json(),
            "layers": [layer.to_json() for layer in layers],
        }
        if annotations:
            value["annotations"] = dict(sorted(annotations.items()))
        return cls(_go_json(value), OCI_MANIFEST, config, layers, MappingProxyType(dict(annotations or {})))

    @property
    def digest(self) -> Digest:
        """Return the digest of the manifest's bytes."""
        return Digest.of(self.raw)


def _parsed(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in `raw`, as far as Go would read it too: UTF-8, no numbers that are none."""
    try:
        value = json.loads(raw.decode(), parse_constant=_no_number)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        raise InvalidManifest("it is not JSON") from None
    if not isinstance(value, dict):
        raise InvalidManifest("it is not a JSON object")
    return value


def _no_number(name: str) -> None:
    raise ValueError(name)


def _annotations(value: object) -> Mapping[str, str]:
    if value is None:
        return MappingProxyType({})
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise InvalidManifest("an annotation is not a text")
    return MappingProxyType(dict(value))


def _go_json(value: object) -> bytes:
    """Return `value` as Go's encoding/json writes it: no spaces, UTF-8, and HTML's characters escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode()
