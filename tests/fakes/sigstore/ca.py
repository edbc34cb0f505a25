"""Fulcio's certificate authority with its certificate transparency log, and the authority behind a time stamper."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from tests.fakes.sigstore import der, tokens

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPublicKeyTypes

    from tests.fakes.sigstore.tokens import Claims

START, END = datetime(2020, 1, 1, tzinfo=UTC), datetime(2045, 1, 1, tzinfo=UTC)
LIFE = timedelta(minutes=10)
SCT_LIST = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a new key on P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def spki(key: CertificateIssuerPublicKeyTypes) -> bytes:
    """Return a public key as DER."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def pem(certificate: x509.Certificate) -> str:
    """Return a certificate as PEM."""
    return certificate.public_bytes(Encoding.PEM).decode()


@dataclass(frozen=True, slots=True)
class CtLog:
    """A certificate transparency log, as far as it signs for what it is shown (RFC 6962, section 3.2)."""

    key: ec.EllipticCurvePrivateKey = field(default_factory=new_key)

    @property
    def id(self) -> bytes:
        """The log's ID: the hash of its key."""
        return hashlib.sha256(spki(self.key.public_key())).digest()

    def sct_list(self, tbs: bytes, issuer: bytes, at: datetime) -> bytes:
        """Return the extension's value with one SCT for a certificate to be; `issuer` is the hash of the CA's key."""
        moment = int(at.timestamp() * 1000)
        entry = issuer + len(tbs).to_bytes(3, "big") + tbs
        signature = self.key.sign(struct.pack("!BBQH", 0, 0, moment, 1) + entry + b"\0\0", ec.ECDSA(SHA256()))
        # SHA-256 and ECDSA are 4 and 3 in TLS 1.2.
        sct = b"\0" + self.id + struct.pack("!QHBBH", moment, 0, 4, 3, len(signature)) + signature
        return der.octets(struct.pack("!HH", len(sct) + 2, len(sct)) + sct)


class Authority:
    """A root and the intermediate that issues, for code signing (Fulcio) or for time stamping."""

    def __init__(self, name: str, usage: ObjectIdentifier = ExtendedKeyUsageOID.CODE_SIGNING) -> None:
        root_key, self.key = new_key(), new_key()
        root = _authority(f"{name} root", root_key, None)
        self.intermediate = _authority(f"{name} intermediate", self.key, (root, root_key), usage)
        self.chain = (self.intermediate, root)

    @property
    def chain_pem(self) -> str:
        """The intermediate and the root, as Fulcio hands them out."""
        return "".join(pem(certificate) for certificate in self.chain)

    def certify(self, public: ec.EllipticCurvePublicKey, claims: Claims, at: datetime, log: CtLog) -> x509.Certificate:
        """Return Fulcio's certificate for ten minutes from `at`, its SCT by `log`, for whom the claims name."""
        at = at.replace(microsecond=0)
        subject = tokens.identity_of(claims).subject
        name = x509.UniformResourceIdentifier(subject) if "://" in subject else x509.RFC822Name(subject)
        builder = (
            self._begin(x509.Name([]), public, at, at + LIFE)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(x509.SubjectAlternativeName([name]), critical=True)
        )
        for identifier, value in tokens.extensions(claims).items():
            own = x509.UnrecognizedExtension(ObjectIdentifier(identifier), value)
            builder = builder.add_extension(own, critical=False)
        unlogged = builder.sign(self.key, SHA256())
        issuer = hashlib.sha256(spki(self.key.public_key())).digest()
        scts = log.sct_list(unlogged.tbs_certificate_bytes, issuer, at)
        return builder.add_extension(x509.UnrecognizedExtension(SCT_LIST, scts), critical=False).sign(
            self.key, SHA256()
        )

    def certify_stamper(self, public: ec.EllipticCurvePublicKey) -> x509.Certificate:
        """Return the certificate of a time stamper (RFC 3161, section 2.3)."""
        return (
            self._begin(_name("time stamper"), public, START, END)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
            .sign(self.key, SHA256())
        )

    def _begin(
        self, subject: x509.Name, public: ec.EllipticCurvePublicKey, start: datetime, end: datetime
    ) -> x509.CertificateBuilder:
        return _begin(subject, public, self.intermediate.subject, self.key.public_key(), start, end)


def _begin(
    subject: x509.Name,
    public: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePublicKey,
    start: datetime = START,
    end: datetime = END,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _authority(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None,
    usage: ObjectIdentifier | None = None,
) -> x509.Certificate:
    signer = issuer[1] if issuer else key
    above = issuer[0].subject if issuer else _name(name)
    builder = (
        _begin(_name(name), key.public_key(), above, signer.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0 if issuer else 1), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
    )
    if usage:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    return builder.sign(signer, SHA256())


def _name(name: str) -> x509.Name:
    attributes = {NameOID.ORGANIZATION_NAME: "sigstore.test", NameOID.COMMON_NAME: name}
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in attributes.items()])


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=key_cert_sign,
        encipher_only=False,
        decipher_only=False,
    )
