"""Sigstore bundles v0.3 as referrers of what they sign, which Flux verifies since 2.8.

The layout is cosign 3's (`pkg/oci/remote/write.go`), the statement that of its `specs/BUNDLE_SPEC.md`; what counts as
a bundle is what source-controller takes for one (cosign's `GetBundles`, sigstore-go's `bundle.UnmarshalJSON`).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ci_automation.artifact.manifest import Descriptor, InvalidManifest, Manifest
from ci_automation.registry.port import ContentMismatch, NotAnIndex, NotFound
from ci_automation.signing.certified import Rejected
from ci_automation.signing.finding import Finding, distrust
from ci_automation.signing.trust import TrustedKeys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.registry.port import Registry
    from ci_automation.signing.signer import PrivateKey
    from ci_automation.signing.trust import Identity, Trusted, TrustedIdentities

BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
EMPTY_TYPE, EMPTY_BLOB = "application/vnd.oci.empty.v1+json", b"{}"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
SIGNATURE_PREDICATE = "https://sigstore.dev/cosign/sign/v1"
PREDICATE_ANNOTATION = "dev.sigstore.bundle.predicateType"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_LAYER_PREFIX = "application/vnd.dev.sigstore.bundle"
# Of the versions that cosign asks for (0.3 and later), sigstore-go reads no other.
_READ_BY_FLUX = re.compile(r"application/vnd\.dev\.sigstore\.bundle(\+json;version=0\.3|\.v0\.3(\.[0-9]+)?\+json)")
_HASHED: Mapping[str, Any] = {"messageDigest": {"algorithm": {}, "digest": {}}, "signature": {}}
_PROOF: Mapping[str, Any] = {
    "logIndex": {},
    "rootHash": {},
    "treeSize": {},
    "hashes": {},
    "checkpoint": {"envelope": {}},
}
_ENTRY: Mapping[str, Any] = {
    "logIndex": {},
    "logId": {"keyId": {}},
    "kindVersion": {"kind": {}, "version": {}},
    "integratedTime": {},
    "inclusionPromise": {"signedEntryTimestamp": {}},
    "inclusionProof": _PROOF,
    "canonicalizedBody": {},
}
# All that a bundle may have (protobuf-specs, `sigstore_bundle.proto`).
_MEMBERS: Mapping[str, Any] = {
    "mediaType": {},
    "verificationMaterial": {
        "publicKey": {"hint": {}},
        "x509CertificateChain": {"certificates": {"rawBytes": {}}},
        "certificate": {"rawBytes": {}},
        "tlogEntries": _ENTRY,
        "timestampVerificationData": {"rfc3161Timestamps": {"signedTimestamp": {}}},
    },
    "messageSignature": _HASHED,
    "dsseEnvelope": {"payload": {}, "payloadType": {}, "signatures": {"sig": {}, "keyid": {}}},
}
_EPOCH = "1970-01-01T00:00:00Z"
_MAX_BUNDLE_BYTES = 2 << 20
_MAX_REFERRERS = 50
_MAX_SUBJECTS = 1024  # sigstore-go's limit


@dataclass(frozen=True, slots=True)
class Envelope:
    """A DSSE envelope (secure-systems-lab/dsse `envelope.md`)."""

    payload_type: str
    payload: bytes
    signatures: tuple[bytes, ...]

    @property
    def message(self) -> bytes:
        """Return what is signed: DSSE's pre-authentication encoding (`protocol.md`)."""
        kind = self.payload_type.encode()
        return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(self.payload), self.payload)


@dataclass(frozen=True, slots=True)
class Bundle:
    """One bundle as it was found; `problem` says why it could not be read although it counts as one."""

    raw: bytes
    envelope: Envelope | None = None
    has_certificate: bool = False
    only_rekor_2: bool = False
    envelope_in_rekor_2: bool = False
    problem: str | None = None

    @classmethod
    def parse(cls, raw: bytes) -> Self | None:
        """Return the bundle in `raw`, or None where it is none that Flux would take notice of."""
        try:
            value = json.loads(raw.decode())
        except (ValueError, RecursionError):
            return None
        media_type, material = _member(value, "mediaType"), _member(value, "verificationMaterial")
        entries, envelope = _member(material, "tlogEntries") or [], _member(value, "dsseEnvelope")
        certificate, key = _member(material, "certificate"), _member(material, "publicKey")
        if (
            not (isinstance(media_type, str) and _READ_BY_FLUX.fullmatch(media_type))
            or (envelope is None and _member(value, "messageSignature") is None)
            or (certificate is None and key is None)
            or not isinstance(entries, list)
            or not _has_only(value, _MEMBERS)
            or (entries and not any(_member(entry, "inclusionProof") for entry in entries))
        ):
            return None
        # A log of version 2 gives no time (sigstore-go); Flux before 2.8.6 knows no other clock.
        timed = any(_member(entry, "integratedTime") not in (None, 0, "0") for entry in entries)
        return cls(
            raw,
            _envelope(envelope),
            certificate is not None,
            only_rekor_2=bool(entries) and not timed,
            envelope_in_rekor_2=any(_is_envelope_of_rekor_2(entry) for entry in entries),
        )


def _member(value: object, name: str) -> Any:  # noqa: ANN401  # what JSON has
    """Return a member of a JSON object, under either of the names that Protobuf's JSON may give it."""
    if not isinstance(value, dict):
        return None
    return value.get(name, value.get(_snake_case(name)))


def _has_only(value: object, members: Any) -> bool:  # noqa: ANN401  # a shape of any depth
    """Return whether nothing in `value` has a member that `members` lacks: Protobuf's JSON refuses those."""
    if isinstance(value, list):
        return all(_has_only(each, members) for each in value)
    if not isinstance(value, dict):
        return True
    names = {name: within for each, within in members.items() for name in (each, _snake_case(each))}
    return all(name in names and _has_only(within, names[name]) for name, within in value.items())


def _snake_case(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


def _is_envelope_of_rekor_2(entry: object) -> bool:
    """Return whether a log of version 2 took the envelope itself: cosign 3 asks for that, and we for its hash."""
    try:
        body = json.loads(base64.b64decode(_member(entry, "canonicalizedBody")))
    except (TypeError, ValueError, RecursionError):
        return False
    return _member(_member(body, "spec"), "dsseV002") is not None


def _envelope(value: object) -> Envelope | None:
    payload_type, payload = _member(value, "payloadType"), _member(value, "payload")
    signatures = _member(value, "signatures")
    try:
        return Envelope(
            payload_type.encode().decode(),
            base64.b64decode(payload, validate=True),
            tuple(base64.b64decode(_member(each, "sig"), validate=True) for each in signatures),
        )
    except (AttributeError, TypeError, ValueError, binascii.Error):
        return None


def statement(digest: Digest, predicate_type: str = SIGNATURE_PREDICATE, predicate: object = None) -> bytes:
    """Return the in-toto statement v1 about `digest`; without more it says that the artifact is signed."""
    value = {
        "_type": STATEMENT_TYPE,
        "subject": [{"digest": {"sha256": digest.hex}}],
        "predicateType": predicate_type,
        "predicate": {} if predicate is None else predicate,
    }
    return json.dumps(value, separators=(",", ":")).encode()


def signed_with_key(payload: bytes, key: PrivateKey) -> bytes:
    """Return the bundle of a key's signature over an in-toto statement, as cosign 3 writes it: no log entry is needed.

    Raises:
        SigningError: the key cannot sign.
    """
    unsigned = Envelope(PAYLOAD_TYPE, payload, ())
    made = key.sign(unsigned.message)
    hint = base64.b64encode(bytes.fromhex(key.public.fingerprint.hex)).decode()
    value = {
        "mediaType": BUNDLE_TYPE,
        "verificationMaterial": {"publicKey": {"hint": hint}},
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(made).decode()}],
        },
    }
    return json.dumps(value, separators=(",", ":")).encode()


def attach(registry: Registry, reference: Reference, digest: Digest, raw: bytes, predicate_type: str) -> Digest:
    """Attach a bundle to `digest` as its referrer, and return the digest of the referrer.

    Raises:
        NotFound: `digest` is not there.
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


def read(registry: Registry, reference: Reference, digest: Digest) -> Iterator[Bundle]:
    """Yield the bundles that are attached to `digest`.

    As source-controller does, every referrer is looked at, whatever its artifact type: one layer that says it is a
    bundle makes it one, and what cannot be read is passed over, the list of referrers among it.
    """
    try:
        found = registry.referrers(reference, digest)
    except NotAnIndex:
        return
    for descriptor in found[:_MAX_REFERRERS]:
        try:
            manifest = registry.manifest(reference.at_digest(descriptor.digest))
        except (NotFound, ContentMismatch, InvalidManifest):
            continue
        if len(manifest.layers) != 1 or not manifest.layers[0].media_type.startswith(_LAYER_PREFIX):
            continue
        (layer,) = manifest.layers
        if layer.size > _MAX_BUNDLE_BYTES:
            yield Bundle(b"", problem=f"it has {layer.size} bytes, too many to be read")
            continue
        try:
            raw = registry.blob(reference, layer)
        except (NotFound, ContentMismatch):
            continue
        if (parsed := Bundle.parse(raw)) is not None:
            yield parsed


def examine(bundle: Bundle, digest: Digest, trusted: Trusted) -> Finding:
    """Return what a bundle is worth to whoever trusts `trusted`.

    Flux asks for an envelope, one valid signature on it, and the digest among the statement's subjects; it does not
    ask what the statement says, so that an attestation counts as a signature there.
    """
    if bundle.problem:
        return Finding(None, bundle.problem)
    if bundle.envelope is None:
        return Finding(None, "it holds no DSSE envelope")
    by, stated, problem = _who_said_what(bundle, bundle.envelope, trusted)
    # What nobody has proven is good enough for saying what it would be.
    subjects, predicate = _read_statement(bundle.envelope.payload if by is None else stated)
    if digest.hex not in subjects:
        by, problem = None, problem or "it was made for another digest"
    left_out = None if predicate == SIGNATURE_PREDICATE else f"it is no signature but says {predicate[:100]!r}"
    attestation = bool(left_out and predicate)
    return Finding(by, problem, left_out, attestation, bundle.only_rekor_2, bundle.envelope_in_rekor_2)


def proven(bundle: Bundle, trusted: Trusted) -> tuple[Digest | Identity, bytes] | None:
    """Return who signed a bundle and what, as its verifier has read it; None where it was nobody who is trusted."""
    if bundle.envelope is None:
        return None
    by, stated, problem = _who_said_what(bundle, bundle.envelope, trusted)
    return None if by is None or problem is not None else (by, stated)


def _who_said_what(
    bundle: Bundle, envelope: Envelope, trusted: Trusted
) -> tuple[Digest | Identity | None, bytes, str | None]:
    if isinstance(trusted, TrustedKeys):
        return _by_key(bundle, envelope, trusted)
    return _by_identity(bundle, trusted)


def _by_key(bundle: Bundle, envelope: Envelope, trusted: TrustedKeys) -> tuple[Digest | None, bytes, str | None]:
    """Return whose key it was, what it signed, and why that does not count."""
    if bundle.has_certificate:
        return None, b"", "it was made with a certificate, not with a key"
    if len(envelope.signatures) == 1 and envelope.payload_type == PAYLOAD_TYPE:
        for key in trusted.keys:
            if key.accepts(envelope.signatures[0], envelope.message):
                return key.fingerprint, envelope.payload, None
    return None, b"", "another key made it"


def _by_identity(bundle: Bundle, trusted: TrustedIdentities) -> tuple[Identity | None, bytes, str | None]:
    """Return who it was, what was signed as the verifier has read it, and why that does not count."""
    if not bundle.has_certificate:
        return None, b"", "it was made with a key, and has no certificate"
    try:
        certified = trusted.root.verify_bundle(_complete(bundle.raw))
    except Rejected as error:
        return None, b"", error.reason
    return certified.identity, certified.statement, distrust(trusted, certified.identity)


def _complete(raw: bytes) -> bytes:
    """Return a bundle with what Protobuf's JSON leaves out and sigstore asks for: the 0 of the first entry of a log."""
    value = json.loads(raw.decode())
    for entry in _member(_member(value, "verificationMaterial"), "tlogEntries") or ():
        proof = _member(entry, "inclusionProof")
        if isinstance(proof, dict):
            entry.setdefault("logIndex", "0")
            proof.setdefault("logIndex", "0")
            proof.setdefault("hashes", [])
    return json.dumps(value).encode()


def _read_statement(payload: bytes) -> tuple[frozenset[str], str]:
    """Return the digests that an in-toto statement is about, and its predicate's type; nothing where it is none."""
    try:
        value = json.loads(payload.decode())
    except (ValueError, RecursionError):
        value = None
    subjects, predicate = _member(value, "subject"), _member(value, "predicateType")
    if not isinstance(subjects, list) or len(subjects) > _MAX_SUBJECTS:
        return frozenset(), ""
    found = (_member(_member(subject, "digest"), "sha256") for subject in subjects)
    return frozenset(each for each in found if isinstance(each, str)), predicate if isinstance(predicate, str) else ""
