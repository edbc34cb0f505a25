"""Keys and certificates of every kind that people come with."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import ssl
from datetime import UTC, datetime
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from nacl.secret import SecretBox

from tests.fakes.world import signing_key

if TYPE_CHECKING:
    from pathlib import Path

_NAMES = [x509.DNSName("registry.test"), x509.IPAddress(IPv4Address("127.0.0.1"))]
N, R, P = 16, 1, 1  # what cosign writes (65536, 8, 1) takes 64 MiB


def cosign_key(password: str, *, claimed_n: int = N, kind: str = "SIGSTORE") -> bytes:
    """Return our key as `cosign generate-key-pair` writes it, but for the cost of opening it."""
    value = envelope(password)
    value["kdf"]["params"]["N"] = claimed_n
    return armoured(json.dumps(value).encode(), kind)


def envelope(password: str, content: bytes | None = None) -> dict[str, Any]:
    """Return what is inside a `cosign.key` (go-securesystemslib, `encrypted`): our key, or `content`."""
    salt, nonce = b"s" * 32, b"n" * 24
    derived = hashlib.scrypt(os.fsencode(password), salt=salt, n=N, r=R, p=P, dklen=32)
    der = signing_key().key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    ciphertext = SecretBox(derived).encrypt(der if content is None else content, nonce).ciphertext
    return {
        "kdf": {"name": "scrypt", "params": {"N": N, "r": R, "p": P}, "salt": _text(salt)},
        "cipher": {"name": "nacl/secretbox", "nonce": _text(nonce)},
        "ciphertext": _text(ciphertext),
    }


def armoured(content: bytes, kind: str = "SIGSTORE") -> bytes:
    """Return any bytes as the inside of a `cosign.key`."""
    head = f"ENCRYPTED {kind} PRIVATE KEY"
    return f"-----BEGIN {head}-----\n{base64.encodebytes(content).decode()}-----END {head}-----\n".encode()


def unsupported_key() -> bytes:
    """Return a key of a kind that nothing here signs with: EC on P-521."""
    key = ec.generate_private_key(ec.SECP521R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def self_signed(folder: Path) -> ssl.SSLContext:
    """Return a server's side of TLS, with a certificate for registry.test and 127.0.0.1 that nobody vouches for.

    It is `server.pem` in the folder, for those who are to trust it.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry.test")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName(_NAMES), critical=False)
        .sign(key, SHA256())
    )
    pem = folder / "server.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem.write_bytes(certificate.public_bytes(Encoding.PEM) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context
