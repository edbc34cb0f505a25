"""Public keys of each kind that cosign takes, the kinds that Flux cannot use, and the files that keys are read from."""

from __future__ import annotations

import os
import shlex
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from ci_automation.artifact.reference import Digest
from ci_automation.errors import SigningError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    AnyPublicKey = EllipticCurvePublicKey | RSAPublicKey | Ed25519PublicKey

MIN_RSA_BITS = 2048
PASSWORD_VARIABLE = "COSIGN_PASSWORD"  # noqa: S105  # the name of a variable, not a password
_MAX_KEY_BYTES = 64 << 10


class KeyKind(StrEnum):
    """Kind of a key. All kinds sign the message's SHA-256, except Ed25519, which signs the message itself."""

    P256 = "EC P-256"
    P384 = "EC P-384"
    RSA = "RSA"
    ED25519 = "Ed25519"


# tests/real/test_keys.py asks cosign 2.6 and 3.0 for each kind in both formats. source-controller's verifier
# (`internal/oci/cosign`), tried with 1.7.3 and 1.9.1, agrees.
WHERE_FLUX_CANNOT_VERIFY: Mapping[KeyKind, str] = MappingProxyType(
    {
        KeyKind.P384: (
            "Flux verifies signatures that this program makes with an EC P-384 key, but none that `cosign sign` or a "
            "KMS makes with it: they use SHA-384, and Flux uses SHA-256."
        ),
        KeyKind.ED25519: (
            "Flux verifies signatures that this program makes with an Ed25519 key, but none that `cosign sign` makes "
            "with it: cosign uses Ed25519ph, which hashes first, and Flux does not."
        ),
    }
)


class KeyUnreadable(SigningError):
    """A key cannot be read."""

    hint = "Give a key as PEM, or the cosign.key that `cosign generate-key-pair` wrote."

    def __init__(self, where: str, reason: str, hint: str = "") -> None:
        super().__init__(f"the key {where} cannot be read: {reason}")
        self.hint = hint or self.hint

    @classmethod
    def of(cls, data: bytes, where: str, error: Exception) -> Self:
        """Return the error for a text that a reader of PEM refused."""
        if b"-----BEGIN OPENSSH PRIVATE KEY-----" in data:
            return cls(where, "it is a key of OpenSSH", "Signing takes PEM: `cosign generate-key-pair` makes one.")
        return cls(where, str(error).split(",")[0] if b"-----BEGIN " in data else "it is no PEM")


class UnsupportedKey(SigningError):
    """A key is of a kind that this program does not support."""

    hint = "Make one with `cosign generate-key-pair`, or `openssl ecparam -genkey -name prime256v1`."

    def __init__(self, where: str) -> None:
        kinds = f"{KeyKind.P256}, {KeyKind.P384}, {KeyKind.RSA} of {MIN_RSA_BITS} bits or more, or {KeyKind.ED25519}"
        super().__init__(f"the key {where} is none of {kinds}")


class PublicKey(Struct, frozen=True):
    """Public half of a key pair, which clusters verify with."""

    key: AnyPublicKey

    @classmethod
    def of(cls, key: object, where: str) -> Self:
        """Return one of cryptography's public keys, if this program supports its kind.

        Raises:
            UnsupportedKey: its kind is not in `KeyKind`.
        """
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

        match key:
            case ec.EllipticCurvePublicKey(curve=ec.SECP256R1() | ec.SECP384R1()) | ed25519.Ed25519PublicKey():
                return cls(key)
            case rsa.RSAPublicKey() if key.key_size >= MIN_RSA_BITS:
                return cls(key)
        raise UnsupportedKey(where)

    @classmethod
    def from_pem(cls, data: bytes, where: str) -> Self:
        """Return the public key in `data`.

        Raises:
            KeyUnreadable: the data is not a PEM public key.
            UnsupportedKey: its kind is not in `KeyKind`.
        """
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            key = load_pem_public_key(data)
        except UnsupportedAlgorithm:
            raise UnsupportedKey(where) from None
        except (ValueError, TypeError) as error:
            raise KeyUnreadable.of(data, where, error) from None
        return cls.of(key, where)

    @property
    def kind(self) -> KeyKind:
        """Return the kind of key."""
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

        match self.key:
            case ec.EllipticCurvePublicKey(curve=ec.SECP256R1()):
                return KeyKind.P256
            case ec.EllipticCurvePublicKey():
                return KeyKind.P384
            case rsa.RSAPublicKey():
                return KeyKind.RSA
        return KeyKind.ED25519

    @property
    def limits(self) -> str | None:
        """Return what Flux cannot do with a key of this kind, as a warning for the operator."""
        return WHERE_FLUX_CANNOT_VERIFY.get(self.kind)

    @property
    def fingerprint(self) -> Digest:
        """Return the digest of the key's SubjectPublicKeyInfo, which identifies the key."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return Digest.of(self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))

    def to_pem(self) -> str:
        """Return the key as PEM, for a cluster's Secret."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def accepts(self, signature: bytes, message: bytes) -> bool:
        """Return whether this key made `signature` over `message`, in the way that cosign and Flux verify its kind."""
        from cryptography.exceptions import InvalidSignature

        try:
            self.key.verify(signature, message, *self.scheme)
        except InvalidSignature:
            return False
        return True

    @property
    def scheme(self) -> tuple[Any, ...]:
        """Return what a key of this kind signs and verifies with, beside the message.

        Cosign and Flux use SHA-256 for every curve (cosign, `pkg/signature/keys.go`, `LoadPublicKey`), PKCS #1 v1.5 for
        RSA, and no hash for Ed25519 (sigstore, `pkg/signature/verifier.go`, `LoadVerifier`).
        """
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.hashes import SHA256

        match self.kind:
            case KeyKind.ED25519:
                return ()
            case KeyKind.RSA:
                return PKCS1v15(), SHA256()
        return (ECDSA(SHA256()),)


class OtherHalf(UsageError):
    """A public key is given as the private one, or the other way round."""

    def __init__(self, where: str, reason: str, hint: str) -> None:
        super().__init__(f"the key {where} is {reason}")
        self.hint = hint


class KeyFileMissing(UsageError):
    """A file or variable with a key does not exist."""

    hint = "Give a file, or env://NAME for an environment variable with the key's text."

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"no key at {where}: {reason}")
        self.variable = where.removeprefix("env://") if where.startswith("env://") else ""  # its name

    def name_its_making(self, path: Path) -> None:
        """Say in the hint how a key in a file that is not there is made."""
        key, pub = (shlex.quote(str(path.with_suffix(suffix))) for suffix in (".key", ".pub"))
        self.hint += (
            f" To make one: `openssl ecparam -name prime256v1 -genkey -noout -out {key}`, then "
            f"`openssl ec -in {key} -pubout -out {pub}`; or `cosign generate-key-pair`, with a password."
        )


def load_public_key(location: str, environment: Mapping[str, str], folder: Path) -> PublicKey:
    """Return the public key at `location`, a file (relative to `folder`) or `env://NAME`.

    Raises:
        KeyFileMissing: the file or variable does not exist.
        OtherHalf: it is a private key.
        SigningError: the key cannot be read or used.
    """
    data = read_key(location, environment, folder)
    if b"PRIVATE KEY-----" in data:
        hint = "Give the file with its public half, such as cosign.pub; `public-key` prints it."
        raise OtherHalf(location, "a private key, and a public one is needed", hint)
    return PublicKey.from_pem(data, location)


def read_key(location: str, environment: Mapping[str, str], folder: Path) -> bytes:
    """Return what is at `location`, a file (relative to `folder`) or `env://NAME`.

    Raises:
        KeyFileMissing: the file or variable does not exist.
        KeyUnreadable: it is too large to be a key.
    """
    if "-----" in location or not location.isprintable():  # a key that was pasted here must not get into a log
        raise KeyFileMissing("the place given", "it is not a file name but looks like a key itself")
    if location.startswith("env://"):
        name = location.removeprefix("env://")
        if not (text := environment.get(name)):
            error = KeyFileMissing(location, "the variable is not set")
            error.hint = f'Set it to the text of the key, in a terminal with: export {name}="$(cat cosign.key)"'
            raise error
        return os.fsencode(text)
    try:
        with (folder / location).open("rb") as file:
            data = file.read(_MAX_KEY_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in it
        missing = KeyFileMissing(location, getattr(error, "strerror", None) or str(error))
        if isinstance(error, FileNotFoundError):
            missing.name_its_making(Path(location))
        raise missing from None
    if len(data) > _MAX_KEY_BYTES:
        raise KeyUnreadable(location, "it is too large to be a key")
    return data
