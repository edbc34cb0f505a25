"""Image manifests and descriptors (OCI image spec v1.1), as Flux writes and reads them."""

from __future__ import annotations

import base64
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, field
from msgspec.structs import replace

from ci_automation.artifact import gojson
from ci_automation.artifact.reference import Digest, InvalidDigest
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
# Keys of manifests, indexes, descriptors and platforms in go-containerregistry, and so in Flux and cosign.
_NAMES = frozenset(
    (
        *("schemaVersion", "mediaType", "artifactType", "config", "layers", "manifests", "subject", "annotations"),
        *("size", "digest", "data", "urls", "platform"),
        *("architecture", "os", "os.version", "os.features", "variant", "features"),
    )
)
MAX_LAYERS = 1000  # as many signatures as cosign reads (`pkg/oci/remote/signatures.go`)
_MAX_SIZE = (1 << 63) - 1  # Go keeps it in an int64


class InvalidManifest(VerificationFailed):
    """A registry returned a manifest that Flux would not read."""

    hint = "Check that the address names a Flux artifact, one image manifest with a layer."

    def __init__(self, reason: str) -> None:
        super().__init__(f"the manifest is not a Flux artifact: {reason}")
        self.reason = reason


class NoLayers(InvalidManifest):
    """A manifest has no layers, so no reader finds anything in it."""

    def __init__(self) -> None:
        super().__init__("it has no layers")


def parse_document(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in the bytes of a manifest or an index, if Go reads the same in it.

    Raises:
        ValueError: Go would read it differently, or `raw` is not a JSON object.
    """
    return gojson.parse_object(raw, _NAMES, free="annotations")


class Descriptor(Struct, frozen=True):
    """Description of a blob or a manifest: its media type, digest and size in bytes (OCI image spec, *Descriptors*).

    In lists of referrers, `artifact_type` is the kind of a manifest's artifact, and `later_page` says that it is not on
    the first page. `data` claims to be the content.
    """

    media_type: str
    digest: Digest
    size: int
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    artifact_type: str | None = None
    data: bytes | None = None
    later_page: bool = False

    @classmethod
    def of(cls, media_type: str, data: bytes, annotations: Mapping[str, str] | None = None) -> Self:
        """Return the descriptor of `data`."""
        return cls(media_type, Digest.of(data), len(data), MappingProxyType(dict(annotations or {})))

    @classmethod
    def embedding(cls, media_type: str, data: bytes) -> Self:
        """Return the descriptor of `data` that has it too, so that its reader need not ask for it."""
        return replace(cls.of(media_type, data), data=data)

    @property
    def content(self) -> bytes | None:
        """Return the embedded content if it has this digest and size, else None: only the registry may have it."""
        data = self.data
        return data if data is not None and (len(data), Digest.of(data)) == (self.size, self.digest) else None

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
                    parsed = Digest.parse(digest)
                except InvalidDigest as error:
                    raise InvalidManifest(str(error)) from None
                return cls(
                    media_type,
                    parsed,
                    size,
                    _annotations(rest.get("annotations")),
                    _artifact_type(rest.get("artifactType")),
                    _data(rest.get("data")),
                )
        raise InvalidManifest("a descriptor lacks mediaType, digest or size")

    def to_json(self) -> dict[str, Any]:
        """Return the descriptor as go-containerregistry orders it."""
        value: dict[str, Any] = {"mediaType": self.media_type, "size": self.size, "digest": str(self.digest)}
        if self.annotations:
            value["annotations"] = dict(sorted(self.annotations.items()))
        if self.artifact_type:
            value["artifactType"] = self.artifact_type
        if self.data is not None:
            value["data"] = base64.b64encode(self.data).decode()
        return value


class Manifest(Struct, frozen=True):
    """One image manifest: the stored bytes, and their content.

    A manifest with a `subject` is a referrer of that other manifest.
    """

    raw: bytes
    media_type: str
    config: Descriptor
    layers: tuple[Descriptor, ...]
    annotations: Mapping[str, str]
    artifact_type: str | None = None
    subject: Descriptor | None = None

    @classmethod
    def parse(cls, raw: bytes) -> Self:
        """Return the manifest in `raw`.

        Raises:
            NoLayers: the manifest has no layers.
            InvalidManifest: `raw` is not JSON, is an index, has another schema version, or lacks a config; or Go would
                read it differently.
        """
        try:
            value = parse_document(raw)
        except ValueError as error:
            raise InvalidManifest(str(error)) from None
        media_type = value.get("mediaType", OCI_MANIFEST)
        if "manifests" in value or media_type in (OCI_INDEX, DOCKER_LIST):
            raise InvalidManifest("it is an index of several images, of which a cluster would take any")
        if (layers := value.get("layers")) in (None, []):
            raise NoLayers
        if media_type not in (OCI_MANIFEST, DOCKER_MANIFEST) or repr(value.get("schemaVersion")) != "2":
            raise InvalidManifest("it is not an OCI image manifest of schema version 2")
        if not isinstance(layers, list) or len(layers) > MAX_LAYERS:
            raise InvalidManifest("its layers are not a list, or it has too many layers")
        subject = value.get("subject")
        return cls(
            raw,
            media_type,
            Descriptor.from_json(value.get("config")),
            tuple(Descriptor.from_json(layer) for layer in layers),
            _annotations(value.get("annotations")),
            _artifact_type(value.get("artifactType")),
            None if subject is None else Descriptor.from_json(subject),
        )

    @classmethod
    def build(
        cls,
        config: Descriptor,
        layers: tuple[Descriptor, ...],
        annotations: Mapping[str, str] | None = None,
        *,
        artifact_type: str | None = None,
        subject: Descriptor | None = None,
    ) -> Self:
        """Return the manifest of these parts, its keys in the order of Go's `ocispec.Manifest`.

        Without artifact type and subject these are the bytes that go-containerregistry, and so Flux, would write.
        """
        value: dict[str, Any] = {"schemaVersion": 2, "mediaType": OCI_MANIFEST}
        if artifact_type:
            value["artifactType"] = artifact_type
        value["config"] = config.to_json()
        value["layers"] = [layer.to_json() for layer in layers]
        if subject is not None:
            value["subject"] = subject.to_json()
        if annotations:
            value["annotations"] = dict(sorted(annotations.items()))
        return cls(
            gojson.written(value),
            OCI_MANIFEST,
            config,
            layers,
            MappingProxyType(dict(annotations or {})),
            artifact_type or None,
            subject,
        )

    @property
    def digest(self) -> Digest:
        """Return the digest of the manifest's bytes."""
        return Digest.of(self.raw)

    @property
    def parts(self) -> tuple[Descriptor, ...]:
        """Return what has to be there before the manifest."""
        return (self.config, *self.layers)

    @property
    def referral(self) -> tuple[Digest, Descriptor]:
        """Return the digest of the manifest's subject, and the manifest's entry in the list of referrers.

        The entry has the artifact type and the annotations (OCI distribution spec v1.1, *Listing Referrers*).

        Raises:
            InvalidManifest: the manifest has no subject.
        """
        if self.subject is None:
            raise InvalidManifest("it has no subject, so it refers to nothing")
        kind = self.artifact_type or self.config.media_type or None
        return self.subject.digest, Descriptor(self.media_type, self.digest, len(self.raw), self.annotations, kind)


def _annotations(value: object) -> Mapping[str, str]:
    if value is None:
        return MappingProxyType({})
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise InvalidManifest("an annotation is not a text")
    return MappingProxyType(dict(value))


def _artifact_type(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    raise InvalidManifest("an artifact type is not a text")


def _data(value: object) -> bytes | None:
    try:
        return None if value is None else base64.b64decode(value, validate=True)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InvalidManifest("the data of a descriptor is not base64") from None
