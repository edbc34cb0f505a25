"""What goes into the logs: proposed entries, checked and canonicalised as Rekor 1 and Rekor 2 do it."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
    load_pem_public_key,
)

from tests.fakes.sigstore.tokens import Refused


@dataclass(frozen=True, slots=True)
class Body:
    """A canonical entry; `keys` are the digests that it is found by."""

    kind: str
    version: str
    spec: dict[str, Any]
    keys: frozenset[str] = field(default_factory=frozenset)

    @property
    def canonical(self) -> bytes:
        """Its bytes, by the JSON Canonicalization Scheme (RFC 8785; all that is in it is ASCII)."""
        return canonical({"apiVersion": self.version, "kind": self.kind, "spec": self.spec})


@dataclass(frozen=True, slots=True)
class Verifier:
    """What a signature is checked with: a certificate, or a bare public key."""

    key: ec.EllipticCurvePublicKey
    certificate: x509.Certificate | None

    @classmethod
    def read(cls, data: bytes) -> Verifier:
        """Return the certificate or key in `data`, PEM or DER.

        Raises:
            Refused: it is neither, or not an EC key, which is all that this double knows.
        """
        armoured = data.lstrip().startswith(b"-----")
        certificate, key = None, None
        try:
            certificate = x509.load_pem_x509_certificate(data) if armoured else x509.load_der_x509_certificate(data)
        except ValueError:
            try:
                key = load_pem_public_key(data) if armoured else load_der_public_key(data)
            except ValueError:
                raise Refused("the verifier is neither a certificate nor a public key") from None
        public = certificate.public_key() if certificate else key
        if not isinstance(public, ec.EllipticCurvePublicKey):
            raise Refused("the verifier has no EC key")
        return cls(public, certificate)

    def check(self, signature: bytes, digest: bytes) -> None:
        """Check a signature over a message of which only the SHA-256 is known.

        Raises:
            Refused: it is another key's, or over another message.
        """
        try:
            self.key.verify(signature, digest, ec.ECDSA(utils.Prehashed(SHA256())))
        except (InvalidSignature, ValueError):
            raise Refused("verifying signature: invalid signature when validating ASN.1 encoded signature") from None

    @property
    def pem(self) -> str:
        """It as Rekor 1 writes it: PEM, base64."""
        return encode(
            self.certificate.public_bytes(Encoding.PEM)
            if self.certificate
            else self.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )

    @property
    def proto(self) -> dict[str, Any]:
        """It as Rekor 2 writes it."""
        details = {"keyDetails": "PKIX_ECDSA_P256_SHA_256"}
        if self.certificate:
            return details | {"x509Certificate": {"rawBytes": encode(self.certificate.public_bytes(Encoding.DER))}}
        der = self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return details | {"publicKey": {"rawBytes": encode(der)}}


@dataclass(frozen=True, slots=True)
class Envelope:
    """A DSSE envelope with one signature."""

    kind: str
    payload: bytes
    signature: bytes

    @classmethod
    def read(cls, value: dict[str, Any]) -> Envelope:
        """Return the envelope in JSON."""
        (signature,) = value["signatures"]
        return cls(value["payloadType"], decode(value["payload"]), decode(signature["sig"]))

    @property
    def json(self) -> dict[str, Any]:
        """It as JSON."""
        signatures = [{"sig": encode(self.signature)}]
        return {"payload": encode(self.payload), "payloadType": self.kind, "signatures": signatures}

    @property
    def digest(self) -> bytes:
        """The hash of what is signed: the pre-authentication encoding."""
        return hashlib.sha256(pae(self.kind, self.payload)).digest()


def hashedrekord(signature: bytes, digest: bytes, verifier: Verifier) -> Body:
    """Return Rekor 1's entry of a signature over a message with that SHA-256."""
    verifier.check(signature, digest)
    key = {"content": verifier.pem}
    spec = {
        "data": {"hash": {"algorithm": "sha256", "value": digest.hex()}},
        "signature": {"content": encode(signature), "publicKey": key},
    }
    return Body("hashedrekord", "0.0.1", spec, frozenset({_named(digest), _key(verifier)}))


def dsse(envelope: Envelope, text: bytes, verifier: Verifier) -> Body:
    """Return Rekor 1's entry of an envelope that was sent as `text`."""
    verifier.check(envelope.signature, envelope.digest)
    payload, whole = hashlib.sha256(envelope.payload).digest(), hashlib.sha256(text).digest()
    spec = {
        "envelopeHash": {"algorithm": "sha256", "value": whole.hex()},
        "payloadHash": {"algorithm": "sha256", "value": payload.hex()},
        "signatures": [{"signature": encode(envelope.signature), "verifier": verifier.pem}],
    }
    subjects = frozenset(
        f"{name}:{value}"
        for subject in json.loads(envelope.payload).get("subject", [])
        for name, value in subject["digest"].items()
    )
    return Body("dsse", "0.0.1", spec, subjects | {_named(payload), _named(whole), _key(verifier)})


def hashedrekord_v2(signature: bytes, digest: bytes, verifier: Verifier) -> Body:
    """Return Rekor 2's entry of a signature over a message with that SHA-256."""
    verifier.check(signature, digest)
    data = {"algorithm": "SHA2_256", "digest": encode(digest)}
    spec = {"data": data, "signature": {"content": encode(signature), "verifier": verifier.proto}}
    return Body("hashedrekord", "0.0.2", {"hashedRekordV002": spec})


def dsse_v2(envelope: Envelope, verifier: Verifier) -> Body:
    """Return Rekor 2's entry of an envelope, which sigstore-go asks for and sigstore-python does not know."""
    verifier.check(envelope.signature, envelope.digest)
    data = {"algorithm": "SHA2_256", "digest": encode(hashlib.sha256(envelope.payload).digest())}
    signatures = [{"content": encode(envelope.signature), "verifier": verifier.proto}]
    return Body("dsse", "0.0.2", {"dsseV002": {"payloadHash": data, "signatures": signatures}})


def proposed(request: dict[str, Any]) -> Body:
    """Return the entry that a client of Rekor 1 proposes.

    Raises:
        Refused: it is not one, or its signature does not hold.
    """
    try:
        match request:
            case {"kind": "hashedrekord", "apiVersion": "0.0.1", "spec": {"data": {"hash": hash_}, "signature": made}}:
                verifier = Verifier.read(decode(made["publicKey"]["content"]))
                return hashedrekord(decode(made["content"]), bytes.fromhex(hash_["value"]), verifier)
            case {"kind": "dsse", "apiVersion": "0.0.1", "spec": {"proposedContent": content}}:
                verifier = Verifier.read(decode(content["verifiers"][0]))
                envelope = Envelope.read(json.loads(content["envelope"]))
                return dsse(envelope, content["envelope"].encode(), verifier)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise Refused(f"error processing entry: {error}") from None
    raise Refused(f"entry kind '{request.get('kind')}' is not supported")


def proposed_v2(request: dict[str, Any]) -> Body:
    """Return the entry that a client of Rekor 2 proposes.

    Raises:
        Refused: it is not one, or its signature does not hold.
    """
    try:
        match request:
            case {"hashedRekordRequestV002": {"signature": made, "digest": digest}}:
                return hashedrekord_v2(decode(made["content"]), decode(digest), _verifier(made["verifier"]))
            case {"dsseRequestV002": {"envelope": envelope, "verifiers": [verifier]}}:
                return dsse_v2(Envelope.read(envelope), _verifier(verifier))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise Refused(f"invalid request: {error}") from None
    raise Refused("invalid type, must be either hashedrekord or dsse")


def _verifier(value: dict[str, Any]) -> Verifier:
    return Verifier.read(decode((value.get("x509Certificate") or value["publicKey"])["rawBytes"]))


def pae(kind: str, payload: bytes) -> bytes:
    """Return what is signed for a payload (DSSE, protocol.md)."""
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(payload), payload)


def canonical(value: object) -> bytes:
    """Return JSON in canonical form."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def encode(data: bytes) -> str:
    """Return base64."""
    return base64.b64encode(data).decode()


def decode(text: str) -> bytes:
    """Return what is in base64."""
    return base64.b64decode(text, validate=True)


def _named(digest: bytes) -> str:
    return f"sha256:{digest.hex()}"


def _key(verifier: Verifier) -> str:
    return _named(hashlib.sha256(decode(verifier.pem)).digest())
