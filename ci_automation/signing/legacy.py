"""Cosign's legacy signatures, which every version of Flux verifies: a manifest at the tag `sha256-<hex>.sig`.

The format is cosign's `specs/SIGNATURE_SPEC.md`: each signature is one layer. The layer's blob is the signed payload,
and its annotations hold the signature and, for a keyless one, the certificate and the entry of the log.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact import gojson
from ci_automation.artifact.manifest import CONFIG_BLOB, MAX_LAYERS, Descriptor, InvalidManifest, Manifest, NoLayers
from ci_automation.artifact.reference import Digest, OciRepository, Reference
from ci_automation.errors import VerificationFailed
from ci_automation.registry.port import ContentMismatch, NotFound, Registry
from ci_automation.signing.trust import Finding, Rejected, Trusted, TrustedIdentities, TrustedKeys, distrust

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

PAYLOAD_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE_ANNOTATION = "dev.cosignproject.cosign/signature"
CERTIFICATE_ANNOTATION = "dev.sigstore.cosign/certificate"
CHAIN_ANNOTATION = "dev.sigstore.cosign/chain"
ENTRY_ANNOTATION = "dev.sigstore.cosign/bundle"
_CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_MAX_PAYLOAD_BYTES = 64 << 10
_NAMES = ("critical", "identity", "docker-reference", "image", "docker-manifest-digest", "type", "optional")


class SignaturesUnreadable(VerificationFailed):
    """The tag may hold others' signatures, which this run would overwrite."""

    hint = "Find out who wrote it, and delete the tag if you do not need the signatures in it."

    def __init__(self, reference: Reference, reason: str) -> None:
        super().__init__(f"{reference} cannot be read or added to, so nothing was written: {reason}")


class Signature(Struct, frozen=True):
    """One legacy signature: its annotations and its payload, or the problem with the payload."""

    annotations: Mapping[str, str]
    payload: bytes
    problem: str | None = None


def signature_reference(reference: Reference, digest: Digest) -> Reference:
    """Return the tag that holds the signatures of `digest`."""
    return reference.at_tag(f"sha256-{digest.hex}.sig")


def payload(reference: Reference, digest: Digest) -> bytes:
    """Return the payload to sign for `digest` in the reference's repository, byte for byte as cosign writes it."""
    repository = reference.repository
    # A layout has no host. Cosign parses this name but compares only the digest.
    name = f"{repository.host}/{repository.path}" if isinstance(repository, OciRepository) else "localhost/layout"
    critical = {
        "identity": {"docker-reference": name},
        "image": {"docker-manifest-digest": str(digest)},
        "type": "cosign container image signature",
    }
    return json.dumps({"critical": critical, "optional": None}, separators=(",", ":")).encode()


def signatures(registry: Registry, reference: Reference, digest: Digest) -> tuple[Descriptor, ...]:
    """Return the descriptors of all signatures of `digest`, not verified.

    Cosign and Flux take any layer that has a signature in its annotations, whatever its media type. They look a blob up
    by its digest, in the config first, and want the size and content that are stated there: each descriptor has these.

    Raises:
        InvalidManifest: the tag does not name a manifest, or Go would read the manifest differently.
    """
    try:
        manifest = registry.manifest(signature_reference(reference, digest))
    except (NotFound, NoLayers):
        return ()
    stated = {each.digest: (each.size, each.data) for each in reversed((manifest.config, *manifest.layers))}
    found = ((layer, *stated[layer.digest]) for layer in manifest.layers if is_signature(layer))
    return tuple(replace(layer, size=size, data=data) for layer, size, data in found)


def is_signature(layer: Descriptor) -> bool:
    """Return whether cosign and Flux take a layer for a signature: they look for one in its annotations too."""
    return layer.media_type == PAYLOAD_TYPE or SIGNATURE_ANNOTATION in layer.annotations


def read_signatures(
    registry: Registry, reference: Reference, digest: Digest, *, whole: bool = False
) -> Iterator[Signature]:
    """Yield the signatures of `digest` with their payloads; `whole` asks the registry for those that are known too."""
    try:
        found = signatures(registry, reference, digest)
    except InvalidManifest as error:
        yield Signature({}, b"", f"the .sig manifest cannot be read: {error}")
        return
    yield from _with_payloads(registry, reference, digest, found, whole=whole)


def _with_payloads(
    registry: Registry, reference: Reference, digest: Digest, found: Iterable[Descriptor], *, whole: bool = False
) -> Iterator[Signature]:
    """Yield signatures with their payloads, first those whose payload is already known."""
    expected = payload(reference, digest)
    known = Digest.of(expected)
    for layer in sorted(found, key=lambda layer: layer.digest != known):
        if not _is_whole(layer):
            yield Signature(layer.annotations, b"", "it embeds another payload than it names")
        elif not whole and layer.digest == known and layer.size == len(expected):
            yield Signature(layer.annotations, expected)
        # Not written for this repository: mirrored, or another signer's payload.
        elif layer.size > _MAX_PAYLOAD_BYTES:
            yield Signature(layer.annotations, b"", "its payload is too large")
        else:
            try:
                yield Signature(layer.annotations, registry.blob(reference, layer))
            except (NotFound, ContentMismatch):
                yield Signature(layer.annotations, b"", "its payload is not there")


def _is_whole(layer: Descriptor) -> bool:
    """Return whether a layer embeds what it names, or nothing."""
    return layer.data is None or layer.content is not None


def examine_signature(signature: Signature, digest: Digest, trusted: Trusted) -> Finding:
    """Check a signature against the trusted signers.

    Flux up to 2.9 takes any signed payload (source-controller sets no `ClaimVerifier`). So a payload about another
    digest is something that Flux leaves out.
    """
    if signature.problem:
        return Finding(None, signature.problem)
    try:
        made = base64.b64decode(signature.annotations.get(SIGNATURE_ANNOTATION, ""), validate=True)
    except ValueError:
        return Finding(None, "it is not base64")
    left_out = None if _signed_digest(signature.payload) == str(digest) else "it was made for another digest"
    if isinstance(trusted, TrustedKeys):
        for key in trusted.keys:
            if key.accepts(made, signature.payload):
                return Finding(key.fingerprint, None, left_out)
        return Finding(None, "another key made it", left_out)
    return _keyless(signature, made, trusted, left_out)


def _keyless(signature: Signature, made: bytes, trusted: TrustedIdentities, left_out: str | None) -> Finding:
    certificate = signature.annotations.get(CERTIFICATE_ANNOTATION)
    if not certificate:
        return Finding(None, "it was made with a key, and has no certificate", left_out)
    if not (entry := signature.annotations.get(ENTRY_ANNOTATION)):
        return Finding(None, "it has no entry in a transparency log", left_out)
    try:
        identity = trusted.root.verify_detached(signature.payload, made, certificate, entry).identity
    except Rejected as error:
        return Finding(None, error.reason, left_out)
    return Finding(identity, distrust(trusted, identity), left_out)


def _signed_digest(message: bytes) -> str | None:
    try:
        match gojson.parse_object(message, _NAMES, free="optional"):
            case {
                "critical": {
                    "image": {"docker-manifest-digest": str(digest)},
                    "type": "cosign container image signature",
                }
            }:
                return digest
    except ValueError:
        pass
    return None


def look(registry: Registry, reference: Reference, digest: Digest) -> tuple[Descriptor, ...]:
    """Return the present signatures of `digest`, not verified, to add another one to them.

    Raises:
        SignaturesUnreadable: this run could not keep the present content of the tag.
    """
    try:
        return signatures(registry, reference, digest)
    except InvalidManifest as error:
        raise SignaturesUnreadable(signature_reference(reference, digest), error.reason) from None


def add(
    registry: Registry,
    reference: Reference,
    digest: Digest,
    annotations: Mapping[str, str],
    unless: Trusted | None = None,
    there: tuple[Descriptor, ...] | None = None,
) -> bool:
    """Add the signature in `annotations`, which is over `payload(reference, digest)`, to the present ones.

    `there` are the present signatures, if the caller has just read them.

    If `unless` trusts the signer of a present signature, return False and write nothing. Other signatures stay. A
    registry cannot compare and swap, so one of two signatures that are written at the same moment can get lost: read
    the tag back afterwards.

    Raises:
        TagMoved: another signer wrote between the read and the write.
        SignaturesUnreadable: this run could not keep the present signatures, or Flux would not read one more.
    """
    at = signature_reference(reference, digest)
    message = payload(reference, digest)
    present = look(registry, reference, digest) if there is None else there
    if unless is not None:
        payloads = _with_payloads(registry, reference, digest, present)
        if any(examine_signature(each, digest, unless).counts for each in payloads):
            return False
    layer = Descriptor.of(PAYLOAD_TYPE, message, annotations)
    for blob in (message, CONFIG_BLOB):  # `publish` uploads them before: between the look and the write lies nothing
        registry.put_blob(reference, blob)
    layers = _with_layer(present, layer)
    if len(layers) > MAX_LAYERS:
        raise SignaturesUnreadable(
            at, f"it has {MAX_LAYERS} signatures, and with one more Flux would read none of them"
        )
    registry.put_manifest(at, Manifest.build(Descriptor.of(_CONFIG_TYPE, CONFIG_BLOB), layers))
    return True


def _with_layer(present: Sequence[Descriptor], layer: Descriptor) -> tuple[Descriptor, ...]:
    """Return the present layers with this one, but for those that state another size or content of its payload.

    They hide each signature over it.
    """
    readable = tuple(it for it in present if it.digest != layer.digest or (it.size == layer.size and _is_whole(it)))
    return readable if layer in readable else (*readable, layer)
