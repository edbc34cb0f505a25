"""Certificates of Fulcio: the identity in a certificate, and what its key signed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.artifact.reference import Digest
from ci_automation.signing.sigstore.rekor import base64_decoded
from ci_automation.signing.trust import Identity, Rejected

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

# Fulcio's `docs/oid-info.md`
_ISSUER_V1, _OTHER_NAME, _ISSUER_V2 = (f"1.3.6.1.4.1.57264.1.{number}" for number in (1, 7, 8))
_UTF8_STRING = 0x0C
_SHORT_LENGTHS = 0x80
_MAX_PEM_BYTES = 64 << 10


def certificate_of_pem(pem: str) -> Certificate:
    """Return the one certificate in `pem`; raise `Rejected` for anything else."""
    from cryptography.x509 import load_pem_x509_certificates

    try:
        found = load_pem_x509_certificates(pem.encode()) if len(pem) <= _MAX_PEM_BYTES else []
    except ValueError:
        found = []
    if len(found) != 1:
        raise Rejected("its certificate cannot be read")
    return found[0]


def identity_of(certificate: Certificate) -> Identity:
    """Return the identity in a certificate of Fulcio (Fulcio's `docs/oid-info.md`; version 2 of the issuer before 1).

    Raises:
        Rejected: the certificate does not name exactly one identity.
    """
    from cryptography import x509

    try:
        names = list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        extensions = {
            each.oid.dotted_string: each.value.value
            for each in certificate.extensions
            if isinstance(each.value, x509.UnrecognizedExtension)
        }
        found = [_subject(name) for name in names]
        newer, older = extensions.get(_ISSUER_V2), extensions.get(_ISSUER_V1)
        issuers = {text for text in (newer and _utf8_string(newer), older and older.decode()) if text}
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension):
        raise Rejected("its certificate does not name a signer the way Fulcio does") from None
    if len(found) != 1 or not found[0] or len(issuers) != 1:
        raise Rejected("its certificate does not name exactly one signer and one issuer")
    identity = Identity(issuers.pop(), found[0])
    if not (identity.issuer.isprintable() and identity.subject.isprintable()):  # it goes to terminals and workflow logs
        raise Rejected("its certificate names a signer in characters that are not printable")
    return identity


def _subject(name: object) -> str:
    from cryptography import x509

    match name:
        case x509.UniformResourceIdentifier() | x509.RFC822Name():
            return name.value
        case x509.OtherName() if name.type_id.dotted_string == _OTHER_NAME:
            return _utf8_string(name.value)
    raise ValueError


def _utf8_string(der: bytes) -> str:
    """Return the text in a DER UTF8String."""
    tag, length, value = der[0:1], der[1:2], der[2:]
    if tag != bytes([_UTF8_STRING]) or not length:
        raise ValueError
    size = length[0]
    if size > _SHORT_LENGTHS:
        octets = size - _SHORT_LENGTHS
        size, value = int.from_bytes(value[:octets], "big"), value[octets:]
    if size != len(value):
        raise ValueError
    return value.decode()


def require_code_signing(certificate: Certificate) -> None:
    """Raise `Rejected` unless a certificate is for signing code."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
        extended = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension):
        raise Rejected("its certificate does not state its purpose") from None
    if not usage.digital_signature or ExtendedKeyUsageOID.CODE_SIGNING not in extended:
        raise Rejected("its certificate is not for signing code")


def require_bound(record: object, message: bytes, signature: bytes, certificate: Certificate) -> None:
    """Raise `Rejected` unless a log's entry names exactly this signature, certificate and message (CVE-2022-36056)."""
    match record:
        case {
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": {"hash": {"algorithm": "sha256", "value": str(value)}},
                "signature": {"content": str(content), "publicKey": {"content": str(pem)}},
            },
        }:
            try:
                logged, owner = base64_decoded(content), certificate_of_pem(base64_decoded(pem).decode())
            except (ValueError, Rejected):
                raise Rejected("its entry in the log is about another certificate, or a bare key") from None
            if value != Digest.of(message).hex:
                raise Rejected("its entry in the log is about something else")
            if logged != signature:
                raise Rejected("its entry in the log is about another signature")
            if owner != certificate:
                raise Rejected("its entry in the log is about another certificate")
            return
    raise Rejected("its entry in the log is not about a signature over a digest")


def require_signed(certificate: Certificate, signature: bytes, message: bytes) -> None:
    """Raise `Rejected` unless a certificate's key signed `message`."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.hashes import SHA256

    key = certificate.public_key()
    if not isinstance(key, EllipticCurvePublicKey):
        raise Rejected("its certificate's key is not an EC key, as keyless signatures need")
    try:
        key.verify(signature, message, ECDSA(SHA256()))
    except InvalidSignature:
        raise Rejected("the certificate's key did not sign this") from None
