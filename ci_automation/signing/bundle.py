"""Sigstore bundles v0.3, attached as referrers to the signed digest. Flux verifies them since 2.8.

The layout is cosign 3's (`pkg/oci/remote/write.go`), and the statement that of its `specs/BUNDLE_SPEC.md`. A referrer
counts as a bundle if source-controller takes it for one (cosign's `GetBundles`, sigstore-go's `bundle.UnmarshalJSON`).
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.artifact.gojson import unique
from ci_automation.artifact.manifest import Descriptor, InvalidManifest, Manifest, NoLayers, parse_document
from ci_automation.registry.port import ContentMismatch, NotAnIndex, NotFound, Registry
from ci_automation.signing.bundle_format import PAYLOAD_TYPE, Bundle, Envelope, member
from ci_automation.signing.trust import Finding, Rejected, TrustedKeys, distrust

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.signing.trust import Identity, PrivateKey, Trusted, TrustedIdentities

BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
EMPTY_TYPE, EMPTY_BLOB = "application/vnd.oci.empty.v1+json", b"{}"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
SIGNATURE_PREDICATE = "https://sigstore.dev/cosign/sign/v1"
PREDICATE_ANNOTATION = "dev.sigstore.bundle.predicateType"
_LAYER_PREFIX = "application/vnd.dev.sigstore.bundle"
_EPOCH = "1970-01-01T00:00:00Z"
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")  # gzip and Zstandard, which go-containerregistry unpacks
_MAX_BUNDLE_BYTES = 2 << 20
_MAX_REFERRERS = 256  # each costs a request
_MAX_SUBJECTS = 1024  # sigstore-go's limit


def statement(digest: Digest, predicate_type: str = SIGNATURE_PREDICATE, predicate: object = None) -> bytes:
    """Return an in-toto statement v1 about `digest`; by default it states that the artifact is signed."""
    value = {
        "_type": STATEMENT_TYPE,
        "subject": [{"digest": {"sha256": digest.hex}}],
        "predicateType": predicate_type,
        "predicate": {} if predicate is None else predicate,
    }
    return json.dumps(value, separators=(",", ":")).encode()


def signed_with_key(payload: bytes, key: PrivateKey, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """Return the bundle of a key's signature over an in-toto statement, as cosign 3 writes it: no log entry is needed.

    Raises:
        SigningError: the key cannot sign.
    """
    unsigned = Envelope(payload_type, payload, ())
    hint = base64.b64encode(bytes.fromhex(key.public.fingerprint.hex)).decode()
    value = {
        "mediaType": BUNDLE_TYPE,
        "verificationMaterial": {"publicKey": {"hint": hint}},
        "dsseEnvelope": unsigned.signed(key.sign(unsigned.message)),
    }
    return json.dumps(value, separators=(",", ":")).encode()


def attach_bundle(registry: Registry, reference: Reference, digest: Digest, raw: bytes, predicate_type: str) -> Digest:
    """Attach a bundle to `digest` as its referrer, and return the digest of the referrer.

    Raises:
        NotFound: the registry does not have `digest`.
    """
    subject = registry.manifest(reference.at_digest(digest))
    for blob in (EMPTY_BLOB, raw):
        registry.put_blob(reference, blob)
    manifest = Manifest.build(
        Descriptor.of(EMPTY_TYPE, EMPTY_BLOB),
        (Descriptor.of(BUNDLE_TYPE, raw),),
        {
            "dev.sigstore.bundle.content": "dsse-envelope",
            PREDICATE_ANNOTATION: predicate_type,
            "org.opencontainers.image.created": _EPOCH,
        },
        artifact_type=BUNDLE_TYPE,
        subject=Descriptor(subject.media_type, digest, len(subject.raw)),
    )
    return registry.put_referrer(reference, manifest)


def read_bundles(registry: Registry, reference: Reference, digest: Digest) -> Iterator[Bundle]:
    """Yield the bundles that are attached to `digest`.

    Like source-controller, look at every referrer, whatever its artifact type: a referrer whose one layer has the media
    type of bundles is a bundle, and all others are ignored. A referrer that source-controller may take for a bundle,
    but that cannot be read here, is a bundle with a problem, because it may hide a valid `.sig`.
    """
    try:
        found = registry.referrers(reference, digest)
    except NotAnIndex as error:
        yield _unread(str(error))
        return
    for descriptor in found[:_MAX_REFERRERS]:
        try:
            manifest = registry.manifest(reference.at_digest(descriptor.digest))
            parsed = _only_layer(registry, reference, manifest) if len(manifest.layers) == 1 else None
        except (NotFound, ContentMismatch, NoLayers):
            continue
        except InvalidManifest as error:
            parsed = _unread(f"it may be a bundle, but cannot be read: {error}")
        if parsed is not None:
            yield replace(parsed, later_page=descriptor.later_page)
    if len(found) > _MAX_REFERRERS:
        yield _unread(f"there are {len(found)} referrers, more than the limit of {_MAX_REFERRERS}")


def _only_layer(registry: Registry, reference: Reference, manifest: Manifest) -> Bundle | None:
    """Return the bundle in the only layer, as go-containerregistry finds it (`pkg/v1/partial`, `pkg/v1/remote`)."""
    (layer,) = manifest.layers
    if layer.digest == manifest.config.digest:  # it is looked up by digest, in the config first
        layer = manifest.config
    if not layer.media_type.startswith(_LAYER_PREFIX):
        return None
    if layer.size > _MAX_BUNDLE_BYTES:
        return _unread(f"it has {layer.size} bytes, more than the limit")
    try:
        raw = registry.blob(reference, layer)
    except NotFound:
        value = parse_document(manifest.raw)
        if not any({"data", "urls"} & each.keys() for each in (value["config"], *value["layers"])):
            raise
        return _unread("it is not in this registry, but may be elsewhere")
    return _unread("it is compressed, and cannot be read") if raw.startswith(_COMPRESSED) else Bundle.parse(raw)


def _unread(problem: str) -> Bundle:
    return Bundle(b"", problem=problem)


def examine_bundle(bundle: Bundle, digest: Digest, trusted: Trusted) -> Finding:
    """Check a bundle against the trusted signers.

    Flux wants an envelope with one valid signature, and the digest among the statement's subjects. It ignores the
    statement's predicate, so Flux also counts an attestation as a signature.
    """
    if bundle.problem:
        return Finding(None, bundle.problem)
    if bundle.envelope is None:
        return Finding(None, "it holds no DSSE envelope")
    by, stated, problem = _who_said_what(bundle, bundle.envelope, trusted, PAYLOAD_TYPE)
    # An unproven statement is good enough to describe the bundle.
    subjects, predicate = _read_statement(bundle.envelope.payload if by is None else stated)
    if digest.hex not in subjects:
        by, problem = None, problem or "it was made for another digest"
    left_out = (
        None
        if predicate == SIGNATURE_PREDICATE
        else f"it is not a signature but a statement of type {predicate[:100]!r}"
    )
    attestation = bool(left_out and predicate)
    return Finding(by, problem, left_out, attestation, bundle.only_rekor_2, bundle.envelope_in_rekor_2)


def proven(
    bundle: Bundle, trusted: Trusted, payload_type: str = PAYLOAD_TYPE
) -> tuple[Digest | Identity, bytes] | None:
    """Return the signer and the statement of a bundle as verified, or None if no trusted signer signed that type."""
    if bundle.envelope is None:
        return None
    by, stated, problem = _who_said_what(bundle, bundle.envelope, trusted, payload_type)
    return None if by is None or problem is not None else (by, stated)


def _who_said_what(
    bundle: Bundle, envelope: Envelope, trusted: Trusted, payload_type: str
) -> tuple[Digest | Identity | None, bytes, str | None]:
    if isinstance(trusted, TrustedKeys):
        return _by_key(bundle, envelope, trusted, payload_type)
    return _by_identity(bundle, trusted, payload_type)


def _by_key(
    bundle: Bundle, envelope: Envelope, trusted: TrustedKeys, payload_type: str
) -> tuple[Digest | None, bytes, str | None]:
    """Return the fingerprint of the key, the statement that it signed, and why the signature does not count."""
    if bundle.has_certificate:
        return None, b"", "it was made with a certificate, not with a key"
    if len(envelope.signatures) == 1 and envelope.payload_type == payload_type:
        for key in trusted.keys:
            if key.accepts(envelope.signatures[0], envelope.message):
                return key.fingerprint, envelope.payload, None
    return None, b"", "another key made it"


def _by_identity(
    bundle: Bundle, trusted: TrustedIdentities, payload_type: str
) -> tuple[Identity | None, bytes, str | None]:
    """Return the identity, the statement as the verifier read it, and why the signature does not count."""
    if not bundle.has_certificate:
        return None, b"", "it was made with a key, and has no certificate"
    try:
        certified = trusted.root.verify_bundle(_complete(bundle.raw))
    except Rejected as error:
        return None, b"", error.reason
    if certified.payload_type != payload_type:
        return None, b"", f"its envelope holds no {payload_type}"
    return certified.identity, certified.statement, distrust(trusted, certified.identity)


def _complete(raw: bytes) -> bytes:
    """Return a bundle with the zeros that Protobuf's JSON leaves out and sigstore wants: the first entry of a log."""
    value = json.loads(raw.decode())
    for entry in member(member(value, "verificationMaterial"), "tlogEntries") or ():
        proof = member(entry, "inclusionProof")
        if isinstance(proof, dict):
            entry.setdefault("logIndex", "0")
            proof.setdefault("logIndex", "0")
            proof.setdefault("hashes", [])
    return json.dumps(value).encode()


def _read_statement(payload: bytes) -> tuple[frozenset[str], str]:
    """Return the digests and the predicate type of an in-toto statement, both empty for anything else."""
    try:
        value = json.loads(payload.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        value = None
    subjects, predicate = member(value, "subject"), member(value, "predicateType")
    if not isinstance(subjects, list) or len(subjects) > _MAX_SUBJECTS:
        return frozenset(), ""
    found = (member(member(subject, "digest"), "sha256") for subject in subjects)
    return frozenset(each for each in found if isinstance(each, str)), predicate if isinstance(predicate, str) else ""
