"""One Sigstore instance with its roots loaded. Only this module imports sigstore, including private parts of it.

sigstore verifies bundles. This module adds a check that sigstore-go, and so cosign and Flux, make: that the authorities
and logs were in service at that time.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import Struct

from ci_automation.errors import SigningError
from ci_automation.signing.bundle_format import Envelope
from ci_automation.signing.sigstore import certified
from ci_automation.signing.sigstore.instance_files import (
    PUBLIC_TUF,
    SIGNING_TYPE,
    Term,
    TrustConfigUnreadable,
    config,
    roots_in,
)
from ci_automation.signing.sigstore.rekor import base64_decoded, base64_encoded
from ci_automation.signing.trust import Certified, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import Certificate
    from sigstore.models import Bundle, ClientTrustConfig

_BUNDLE_TYPES = frozenset(
    {"application/vnd.dev.sigstore.bundle.v0.3+json", "application/vnd.dev.sigstore.bundle+json;version=0.3"}
)
_OTHER_INSTANCE = "its certificate is not from this Sigstore instance, or was not valid at that time"
_DSSE_V2, _P256 = ("dsse", "0.0.2"), "PKIX_ECDSA_P256_SHA_256"
_MAX_BUNDLE_BYTES = 32 << 20


class NoSigningServices(SigningError):
    """The trust configuration lacks a service that signing needs."""

    hint = (
        "Give a client trust configuration, whose signingConfig names Fulcio and Rekor; a trusted_root.json does not."
    )

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"the signing services of {where} are unknown: {reason}")


class Services(Struct, frozen=True):
    """Addresses of an instance's services: Fulcio, and the log's entries."""

    fulcio: str
    entries: str


def shipped(name: str) -> bytes:
    """Return a file from the sigstore package: the public instance's roots at the time of its release."""
    return (resources.files("sigstore") / "_store" / quote(PUBLIC_TUF, safe="") / name).read_bytes()


class Instance:
    """Roots of a Sigstore instance, and verification with them."""

    def __init__(self, content: bytes, where: str) -> None:
        from cryptography.x509 import load_der_x509_certificate
        from sigstore._internal.trust import KeyringPurpose
        from sigstore.models import ClientTrustConfig
        from sigstore.verify import Verifier

        self._where = where
        roots, self._can_sign = roots_in(content, where)
        text = content if self._can_sign else config(roots, {"mediaType": SIGNING_TYPE})
        try:
            self._config: ClientTrustConfig = ClientTrustConfig.from_json(text.decode())
            root = self._config.trusted_root
            self._verifier = Verifier(trusted_root=root)
            self._log_keys = root.rekor_keyring(KeyringPurpose.VERIFY)
            self._certificate_log_keys = root.ct_keyring(KeyringPurpose.VERIFY)
            self._authorities = [
                ([load_der_x509_certificate(each) for each in _chain(authority)], Term.of(authority["validFor"]))
                for authority in roots["certificateAuthorities"]
            ]
            self._logs = {
                base64_decoded(log["logId"]["keyId"]).hex(): Term.of(log["publicKey"].get("validFor", {}))
                for log in roots["tlogs"]
            }
            self._first_log: str = roots["tlogs"][0]["baseUrl"]
        except Exception as error:  # noqa: BLE001 - the libraries raise what they like
            reason = f"it is malformed ({type(error).__name__}), or newer than this program"
            raise TrustConfigUnreadable(where, reason) from None

    @property
    def rekor_url(self) -> str:
        """Return the address of the log with the API's first version."""
        try:
            return self.services.entries.removesuffix("/api/v1/log/entries")
        except NoSigningServices:
            return self._first_log.rstrip("/")

    @property
    def services(self) -> Services:
        """Return the services to sign with, of the log those of its API's first version.

        Raises:
            NoSigningServices: the instance lacks a usable service.
        """
        from sigstore.errors import Error

        if not self._can_sign:
            raise NoSigningServices(self._where, "it has no signingConfig")
        self._config.force_tlog_version = 1
        try:
            chosen = self._config.signing_config
            log: Any = chosen.get_tlogs()[0]  # its type does not tell that it has an address
            return Services(chosen.get_fulcio().url, f"{log.url}/log/entries")
        except (Error, ValueError) as error:
            raise NoSigningServices(self._where, f"{error} (Rekor v1)") from None

    def verify_bundle(self, raw: bytes) -> Certified:
        """Return the proven signer and content of a bundle.

        Raises:
            Rejected: the bundle is invalid. Other errors of the libraries mean the same.
        """
        from sigstore.errors import CertValidationError, Error
        from sigstore.models import Bundle

        _check_kind(raw)
        try:
            bundle = Bundle.from_json(raw)
            seen = json.loads(bundle.to_json())  # as sigstore has read it, which is what is verified
            entry = seen["verificationMaterial"]["tlogEntries"][0]
            kind = (entry["kindVersion"]["kind"], entry["kindVersion"]["version"])
            envelope = _envelope(seen["dsseEnvelope"])
            if kind == _DSSE_V2:
                self._verify_dsse_v2(bundle, envelope, entry)
            else:
                self._verifier.verify_dsse(bundle, _AnyIdentity())
        except CertValidationError:
            raise Rejected(_OTHER_INSTANCE) from None
        except Error as error:
            raise Rejected(str(error).splitlines()[0][:300] or "it does not verify") from None
        certificate = bundle.signing_certificate
        at = certificate.not_valid_before_utc  # a certificate lives for minutes
        if kind[1] == "0.0.1" and "integratedTime" in entry and "inclusionPromise" in entry:
            at = datetime.fromtimestamp(int(entry["integratedTime"]), UTC)
        self._require_log(base64_decoded(entry["logId"]["keyId"]).hex(), at)
        self.verify_certificate(certificate, at)
        identity = certified.identity_of(certificate)
        return Certified(identity, envelope.payload, envelope.payload_type)

    def _verify_dsse_v2(self, bundle: Bundle, envelope: Envelope, entry: Mapping[str, Any]) -> None:
        """Verify a bundle with the kind of log entry that cosign 3 makes in Rekor v2, which sigstore does not know.

        sigstore checks everything except that the entry is about the signature. That check follows sigstore-go's
        `validateDsseV2`.
        """
        self._verifier._verify_common_signing_cert(bundle, _AnyIdentity())  # noqa: SLF001 - sigstore has no public way
        certificate = bundle.signing_certificate
        (signature,) = envelope.signatures
        certified.require_signed(certificate, signature, envelope.message)
        verifier = {
            "keyDetails": _P256,
            "x509Certificate": {"rawBytes": base64_encoded(certificate.public_bytes(_der()))},
        }
        expected = {
            "payloadHash": {
                "algorithm": "SHA2_256",
                "digest": base64_encoded(hashlib.sha256(envelope.payload).digest()),
            },
            "signatures": [{"content": base64_encoded(signature), "verifier": verifier}],
        }
        match json.loads(base64_decoded(entry["canonicalizedBody"])):
            case {"apiVersion": "0.0.2", "kind": "dsse", "spec": {"dsseV002": found}} if found == expected:
                return
        raise Rejected("its entry in the log is about another signature")

    def verify_certificate(self, certificate: Certificate, at: datetime) -> None:
        """Raise `Rejected` unless this instance's Fulcio, in service at that time, issued and logged a certificate."""
        from cryptography import x509
        from cryptography.x509 import verification as x509_verification
        from sigstore._internal.sct import verify_sct
        from sigstore.errors import VerificationError

        trusted = [each for chain, term in self._authorities if term.covers(at) for each in chain]
        optional = (x509.ExtendedKeyUsage, x509_verification.Criticality.NON_CRITICAL, None)  # it is for code signing
        policy = x509_verification.ExtensionPolicy
        try:
            verifier = (
                x509_verification.PolicyBuilder()
                .store(x509_verification.Store(trusted))
                .time(at)
                .extension_policies(
                    ca_policy=policy.webpki_defaults_ca().may_be_present(*optional),
                    ee_policy=policy.webpki_defaults_ee().may_be_present(*optional),
                )
                .build_client_verifier()
            )
            chain = verifier.verify(certificate, []).chain[1:]
        except (x509_verification.VerificationError, x509.UnsupportedGeneralNameType, ValueError):
            raise Rejected(_OTHER_INSTANCE) from None
        try:
            verify_sct(certificate, chain, self._certificate_log_keys)
        except VerificationError as error:
            raise Rejected(f"its certificate is not in the certificate log: {error}") from None

    def verify_promise(self, log_id: str, promise: bytes, data: bytes, at: datetime) -> None:
        """Raise `Rejected` unless the log with this id, in service at that time, signed `data`."""
        from sigstore._utils import KeyID
        from sigstore.errors import VerificationError

        self._require_log(log_id, at)
        try:
            self._log_keys.verify(key_id=KeyID(bytes.fromhex(log_id)), signature=promise, data=data)
        except VerificationError:
            raise Rejected("its entry is not signed by the log") from None

    def _require_log(self, log_id: str, at: datetime) -> None:
        term = self._logs.get(log_id)
        if term is None:
            raise Rejected("its entry is in a log that does not belong to this Sigstore instance")
        if not term.covers(at):
            raise Rejected("its entry is in a log that was not in service at that time")


def _chain(authority: Mapping[str, Any]) -> Iterable[bytes]:
    return (base64_decoded(each["rawBytes"]) for each in authority["certChain"]["certificates"])


class _AnyIdentity:
    """A policy for sigstore that accepts every identity; the caller compares the identity with the trusted ones."""

    def verify(self, cert: Certificate) -> None:
        certified.identity_of(cert)


def _envelope(seen: Mapping[str, Any]) -> Envelope:
    signatures = tuple(base64_decoded(each["sig"]) for each in seen["signatures"])
    return Envelope(seen["payloadType"], base64_decoded(seen["payload"]), signatures)


def _der() -> Encoding:
    from cryptography.hazmat.primitives.serialization import Encoding

    return Encoding.DER


def _check_kind(raw: bytes) -> None:
    """Raise `Rejected` for all but a bundle that Flux verifies by certificate, before the libraries read it."""
    if len(raw) > _MAX_BUNDLE_BYTES:
        raise Rejected("it is too large")
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        raise Rejected("it is not JSON") from None
    match value:
        case {"mediaType": str(media)} if media not in _BUNDLE_TYPES:
            raise Rejected("it is not a Sigstore bundle of version 0.3")
        case {"verificationMaterial": {"publicKey": _}}:
            raise Rejected("it is signed by a key, and names no identity")
        case {"verificationMaterial": {"certificate": _}, "dsseEnvelope": _}:
            return
        case {"verificationMaterial": {"certificate": _}}:
            raise Rejected("it holds no DSSE envelope")
    raise Rejected("it is not a Sigstore bundle with a certificate")
