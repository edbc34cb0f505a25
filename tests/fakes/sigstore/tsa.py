"""A time stamper (RFC 3161): answers with a signed moment, as CMS SignedData (RFC 5652) in DER."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import random_serial_number
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.fakes.sigstore import der
from tests.fakes.sigstore.ca import Authority, new_key
from tests.fakes.sigstore.tokens import Refused

if TYPE_CHECKING:
    from datetime import datetime

SHA256_NAME = der.sequence(der.oid("2.16.840.1.101.3.4.2.1"))
ECDSA_NAME = der.sequence(der.oid("1.2.840.10045.4.3.2"))
SIGNED_DATA = der.oid("1.2.840.113549.1.7.2")
TST_INFO = der.oid("1.2.840.113549.1.9.16.1.4")
POLICY = der.oid("1.3.6.1.4.1.57264.2")
CONTENT_TYPE, MESSAGE_DIGEST = der.oid("1.2.840.113549.1.9.3"), der.oid("1.2.840.113549.1.9.4")
SIGNING_TIME, SIGNING_CERTIFICATE = der.oid("1.2.840.113549.1.9.5"), der.oid("1.2.840.113549.1.9.16.2.47")


def query(message: bytes) -> bytes:
    """Return the request for a stamp over a message, with certificates in the answer, as sigstore-python asks."""
    imprint = der.sequence(SHA256_NAME, der.octets(hashlib.sha256(message).digest()))
    nonce = der.integer(random_serial_number())
    return der.sequence(der.integer(1), imprint, nonce, der.tlv(der.BOOLEAN, b"\xff"))


class Stamper:
    """A time stamper with an authority of its own."""

    def __init__(self) -> None:
        authority = Authority("time stamping", ExtendedKeyUsageOID.TIME_STAMPING)
        self._key = new_key()
        self.certificate = authority.certify_stamper(self._key.public_key())
        self.chain = (self.certificate, *authority.chain)

    def answer(self, request: bytes, at: datetime) -> bytes:
        """Return the answer to a request: granted, at that moment.

        Raises:
            Refused: it is not a request.
        """
        try:
            version, imprint, *more = der.read(request).children
            if version.content != b"\1" or len(imprint.children[1].content) < hashlib.sha256().digest_size:
                raise Refused("badRequest")
        except (IndexError, ValueError):
            raise Refused("badDataFormat") from None
        nonce = b"".join(node.encoded for node in more if node.tag == der.INTEGER)
        info = der.sequence(
            der.integer(1),
            POLICY,
            imprint.encoded,
            der.integer(random_serial_number()),
            der.moment(at),
            der.sequence(der.integer(1)),  # accurate to a second
            nonce,
        )
        with_certificate = any(node.tag == der.BOOLEAN and node.content != b"\0" for node in more)
        token = der.sequence(SIGNED_DATA, der.tagged(0, self._signed(info, at, with_certificate=with_certificate)))
        return der.sequence(der.sequence(der.integer(0)), token)

    def _signed(self, info: bytes, at: datetime, *, with_certificate: bool) -> bytes:
        encoded = self.certificate.public_bytes(Encoding.DER)
        attributes = [
            _attribute(CONTENT_TYPE, TST_INFO),
            _attribute(SIGNING_TIME, der.tlv(0x17, at.strftime("%y%m%d%H%M%SZ").encode())),
            _attribute(MESSAGE_DIGEST, der.octets(hashlib.sha256(info).digest())),
            # ESSCertIDv2 (RFC 5035); its hash algorithm is SHA-256 where it names none.
            _attribute(
                SIGNING_CERTIFICATE,
                der.sequence(der.sequence(der.sequence(der.octets(hashlib.sha256(encoded).digest())))),
            ),
        ]
        signed = der.set_of(*attributes)
        issuer = der.sequence(self.certificate.issuer.public_bytes(), der.integer(self.certificate.serial_number))
        signer = der.sequence(
            der.integer(1),
            issuer,
            SHA256_NAME,
            der.tagged(0, der.read(signed).content),
            ECDSA_NAME,
            der.octets(self._key.sign(signed, ec.ECDSA(SHA256()))),
        )
        certificates = der.tagged(0, encoded) if with_certificate else b""
        content = der.sequence(TST_INFO, der.tagged(0, der.octets(info)))
        return der.sequence(der.integer(3), der.set_of(SHA256_NAME), content, certificates, der.set_of(signer))


def _attribute(name: bytes, value: bytes) -> bytes:
    return der.sequence(name, der.set_of(value))
