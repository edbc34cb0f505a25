"""Cosign's legacy signatures, which every version of Flux verifies: a manifest at the tag `sha256-<hex>.sig`.

The format is cosign's `specs/SIGNATURE_SPEC.md`: one layer a signature, its blob the signed payload, the signature in
an annotation.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.artifact.digest import Digest
from ci_automation.artifact.manifest import CONFIG_BLOB, Descriptor, Manifest
from ci_automation.artifact.reference import OciRepository
from ci_automation.errors import VerificationFailed
from ci_automation.registry.port import ContentMismatch, NotFound

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Reference
    from ci_automation.registry.port import Registry
    from ci_automation.signing.keys import PublicKey, SigningKey

PAYLOAD_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE_ANNOTATION = "dev.cosignproject.cosign/signature"
_CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_MAX_PAYLOAD_BYTES = 64 << 10


class Unsigned(VerificationFailed):
    """A digest has no signature."""

    hint = "If it is yours and should be trusted, run `update` once with --adopt."

    def __init__(self, reference: Reference) -> None:
        super().__init__(f"{reference} is not signed")


class ForeignSignature(VerificationFailed):
    """A digest is signed, but by no key that is trusted here."""

    hint = "Give the key that it was signed with, or find out who signed it. `update --adopt` trusts it once."

    def __init__(self, reference: Reference, key: PublicKey, reasons: list[str]) -> None:
        super().__init__(f"{reference} has no valid signature of the key {key.fingerprint}: {'; '.join(reasons)}")


@dataclass(frozen=True, slots=True)
class Verified:
    """A valid signature that was found: whose key, and over which digest."""

    digest: Digest
    key: Digest


def signature_reference(reference: Reference, digest: Digest) -> Reference:
    """Return where the signatures of `digest` are."""
    return reference.at_tag(f"sha256-{digest.hex}.sig")


def payload(reference: Reference, digest: Digest) -> bytes:
    """Return what is signed for `digest` in the reference's repository, with cosign's bytes."""
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
    """Return the descriptors of all signatures of `digest`, nothing of them verified."""
    try:
        manifest = registry.manifest(signature_reference(reference, digest))
    except NotFound:
        return ()
    return tuple(layer for layer in manifest.layers if layer.media_type == PAYLOAD_TYPE)


def verify(registry: Registry, reference: Reference, digest: Digest, key: PublicKey) -> Verified:
    """Return the signature of `key` over `digest`.

    Unlike Flux up to 2.9, which takes any payload that the key signed, the digest in the payload is compared.

    Raises:
        Unsigned: there is no signature at all.
        ForeignSignature: there are signatures, and none is by `key` over this digest.
    """
    found = signatures(registry, reference, digest)
    if not found:
        raise Unsigned(reference.at_digest(digest))
    reasons = []
    for descriptor in found:
        reason = _why_not(registry, reference, digest, descriptor, key)
        if reason is None:
            return Verified(digest, key.fingerprint)
        reasons.append(reason)
    raise ForeignSignature(reference.at_digest(digest), key, sorted(set(reasons)))


def _why_not(
    registry: Registry, reference: Reference, digest: Digest, descriptor: Descriptor, key: PublicKey
) -> str | None:
    """Return why a signature does not count, or None if it does."""
    message = payload(reference, digest)
    if Digest.of(message) != descriptor.digest:  # not written for this repository: mirrored, or somebody else's payload
        if descriptor.size > _MAX_PAYLOAD_BYTES:
            return "its payload is too large"
        try:
            message = registry.blob(reference, descriptor)
        except (NotFound, ContentMismatch):
            return "its payload is not there"
        if _signed_digest(message) != str(digest):
            return "it was made for another digest"
    try:
        signature = base64.b64decode(descriptor.annotations.get(SIGNATURE_ANNOTATION, ""), validate=True)
    except (binascii.Error, ValueError):
        return "it is not base64"
    return None if key.accepts(signature, message) else "another key made it"


def _signed_digest(message: bytes) -> str | None:
    try:
        match json.loads(message):
            case {
                "critical": {
                    "image": {"docker-manifest-digest": str(digest)},
                    "type": "cosign container image signature",
                }
            }:
                return digest
    except (ValueError, RecursionError):
        pass
    return None


def ensure_signed(registry: Registry, reference: Reference, digest: Digest, key: SigningKey) -> Verified:
    """Return the valid signature of `key` over `digest`, made now unless it is there; others' signatures stay.

    Two signers at the same moment can lose one of the two signatures, since a registry cannot compare and swap: that
    is why what is in the registry afterwards is read back and verified. The blob `CONFIG_BLOB` must be in the
    repository.

    Raises:
        VerificationFailed: what was read back is not a valid signature.
    """
    message = payload(reference, digest)
    registry.put_blob(reference, message)  # first, so that between the look and the write below lies nothing
    present = signatures(registry, reference, digest)
    if any(_why_not(registry, reference, digest, found, key.public) is None for found in present):
        return Verified(digest, key.public.fingerprint)
    annotations = {SIGNATURE_ANNOTATION: base64.b64encode(key.sign(message)).decode()}
    layer = Descriptor.of(PAYLOAD_TYPE, message, annotations)
    config = Descriptor.of(_CONFIG_TYPE, CONFIG_BLOB)
    registry.put_manifest(signature_reference(reference, digest), Manifest.build(config, (*present, layer)))
    return verify(registry, reference, digest, key.public)
