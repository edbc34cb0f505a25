"""A trust root for tests of what is made of a verifier's word: whose certificate is good is written into it."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.signing import legacy
from ci_automation.signing.bundle import BUNDLE_TYPE
from ci_automation.signing.bundle_format import PAYLOAD_TYPE
from ci_automation.signing.trust import Certified, Identity, IdentityMatch, Rejected, TrustedIdentities
from ci_automation.signing.verify import ForeignSignature, Unsigned, verify

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.registry.port import Registry
    from ci_automation.signing.trust import CertificateRoot

US = Identity("https://token.example", "https://git.example/acme/fleet/.github/workflows/flux.yaml@refs/heads/main")
THEM = Identity("https://token.example", "https://git.example/evil/fleet/.github/workflows/flux.yaml@refs/heads/main")
BAD = "bad"


@dataclass(frozen=True, slots=True)
class WrittenRoot:
    """Believes a certificate that is an identity as JSON, and rejects one that is not."""

    custom: bool = False

    def verify_bundle(self, raw: bytes) -> Certified:
        """Return what the bundle says of itself."""
        value = json.loads(raw)
        material = value["verificationMaterial"]
        if any("logIndex" not in entry for entry in material.get("tlogEntries", ())):
            raise Rejected("an entry has no index")  # as sigstore does
        written = base64.b64decode(material["certificate"]["rawBytes"]).decode()
        envelope = value["dsseEnvelope"]
        payload = base64.b64decode(envelope["payload"])
        return Certified(_identity(written), payload, envelope["payloadType"])

    def verify_detached(self, message: bytes, signature: bytes, certificate_pem: str, entry_json: str) -> Certified:
        """Return what the certificate says, if the signature is the message itself."""
        assert json.loads(entry_json)
        if signature != message:
            raise Rejected("the certificate's key did not sign this")
        return Certified(_identity(certificate_pem), message)


def _identity(written: str) -> Identity:
    if written == BAD:
        raise Rejected("its certificate was not valid when the log recorded it")
    return Identity(*json.loads(written))


def _written(identity: Identity | None) -> str:
    return json.dumps([identity.issuer, identity.subject]) if identity else BAD


def trust(*identities: Identity, custom: bool = False) -> TrustedIdentities:
    """Return the trust in exactly these identities."""
    root = WrittenRoot(custom)
    return TrustedIdentities(tuple(IdentityMatch.exact(identity) for identity in identities), root)


def sig_annotations(message: bytes, identity: Identity | None) -> dict[str, str]:
    """Return the annotations of a keyless `.sig`; None is a certificate that is rejected."""
    return {
        legacy.SIGNATURE_ANNOTATION: base64.b64encode(message).decode(),
        legacy.CERTIFICATE_ANNOTATION: _written(identity),
        legacy.ENTRY_ANNOTATION: "[1]",
    }


def bundle(statement: bytes, identity: Identity | None, rekor: int = 1, **changes: Any) -> bytes:
    """Return a keyless bundle, with `changes` at its top; None is a certificate that is rejected."""
    entry = {"kindVersion": {"kind": "dsse", "version": f"0.0.{rekor}"}, "inclusionProof": {"logIndex": "1"}}
    value = {
        "mediaType": BUNDLE_TYPE,
        "verificationMaterial": {
            "certificate": {"rawBytes": base64.b64encode(_written(identity).encode()).decode()},
            "tlogEntries": [entry | ({"integratedTime": "1795300000"} if rekor == 1 else {})],
        },
        "dsseEnvelope": {
            "payload": base64.b64encode(statement).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": "AAAA"}],
        },
    }
    return json.dumps(value | changes).encode()


@dataclass(frozen=True, slots=True)
class WrittenSigner:
    """Signs as an identity in whose certificates `WrittenRoot` believes; `broken` has one that it rejects."""

    identity: Identity = US
    broken: bool = False

    @property
    def who(self) -> Identity:
        """Return the identity."""
        return self.identity

    @property
    def trusted(self) -> TrustedIdentities:
        """Return the trust in this identity alone."""
        return trust(self.identity)

    def sign_payload(self, payload: bytes) -> dict[str, str]:
        """Return the annotations of a keyless signature."""
        return sig_annotations(payload, None if self.broken else self.identity)

    def sign_statement(self, statement: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
        """Return a keyless bundle."""
        envelope = json.loads(bundle(statement, US))["dsseEnvelope"] | {"payloadType": payload_type}
        return bundle(statement, None if self.broken else self.identity, dsseEnvelope=envelope)


def signed_by(registry: Registry, reference: Reference, digest: Digest, root: CertificateRoot) -> tuple[Identity, ...]:
    """Return who is told to have signed, where none of them is trusted."""
    nobody = TrustedIdentities((IdentityMatch("^$", "^$"),), root)
    with pytest.raises((Unsigned, ForeignSignature)) as refusal:
        verify(registry, reference, digest, nobody)
    return refusal.value.signers if isinstance(refusal.value, ForeignSignature) else ()
