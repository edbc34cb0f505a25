"""Keys: EC P-256 as PEM, and the encrypted `cosign.key`; what signs with one half is verified with the other."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ci_automation.artifact.digest import Digest
from ci_automation.errors import SigningError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

PASSWORD_VARIABLE = "COSIGN_PASSWORD"  # noqa: S105  # the name of a variable, not a password
_MAX_KEY_BYTES = 64 << 10
_MAX_SCRYPT_BYTES = 512 << 20
_NONCE_BYTES = 24
_COSIGN_PEM = re.compile(
    rb"\s*-----BEGIN ENCRYPTED (?P<kind>SIGSTORE|COSIGN) PRIVATE KEY-----(?P<body>[A-Za-z0-9+/=\s]+)"
    rb"-----END ENCRYPTED (?P=kind) PRIVATE KEY-----\s*"
)


class KeyUnreadable(SigningError):
    """A key cannot be read."""

    hint = "Give an EC P-256 key as PEM, or the cosign.key that `cosign generate-key-pair` wrote."

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"the key {where} cannot be read: {reason}")


class WrongPassword(SigningError):
    """The password does not open an encrypted key."""

    hint = f"Put the key's password into {PASSWORD_VARIABLE}."

    def __init__(self, where: str, *, given: bool) -> None:
        super().__init__(
            f"the password in {PASSWORD_VARIABLE} does not open the key {where}"
            if given
            else f"the key {where} is encrypted, and {PASSWORD_VARIABLE} is not set"
        )


class UnsupportedKey(SigningError):
    """A key is of a kind that we do not sign or verify with."""

    hint = "Make one with `cosign generate-key-pair`, or `openssl ecparam -genkey -name prime256v1`."

    def __init__(self, where: str) -> None:
        super().__init__(f"the key {where} is not an EC key on the curve P-256")


class KeyFileMissing(UsageError):
    """The file or variable that should hold a key does not."""

    hint = "Give a file, or env://NAME for an environment variable with the key's text."

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"no key at {where}: {reason}")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The half of a key pair that clusters verify with."""

    key: EllipticCurvePublicKey

    @classmethod
    def from_pem(cls, data: bytes, where: str) -> Self:
        """Return the public key in `data`.

        Raises:
            KeyUnreadable: it is not a PEM public key.
            UnsupportedKey: it is not on P-256.
        """
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            key = load_pem_public_key(data)
        except (ValueError, TypeError) as error:
            raise KeyUnreadable(where, str(error).split(",")[0]) from None
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
            raise UnsupportedKey(where)
        return cls(key)

    @property
    def fingerprint(self) -> Digest:
        """Return the digest of the key's SubjectPublicKeyInfo, by which two keys are told apart."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return Digest.of(self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))

    def to_pem(self) -> str:
        """Return the key as PEM, as a cluster's Secret wants it."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def accepts(self, signature: bytes, message: bytes) -> bool:
        """Return whether `signature` is this key's ECDSA signature with SHA-256 over `message`."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        try:
            self.key.verify(signature, message, ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True, repr=False)
class SigningKey:
    """The private half of a key pair. It never prints itself."""

    key: EllipticCurvePrivateKey

    @classmethod
    def from_bytes(cls, data: bytes, password: str | None, where: str) -> Self:
        """Return the private key in `data`: PEM (PKCS #8 or SEC 1, encrypted or not) or an encrypted `cosign.key`.

        Raises:
            KeyUnreadable: it is neither.
            WrongPassword: it is encrypted, and `password` is missing or does not open it.
            UnsupportedKey: it is not on P-256.
        """
        cosign = _COSIGN_PEM.fullmatch(data)
        # Opened before anything is loaded: this takes a fifth of a second in which others may load what they need.
        opened = _open_cosign_key(cosign["body"], password, where) if cosign else None
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key

        try:
            if opened is not None:
                key = load_der_private_key(opened, None)
            else:
                key = load_pem_private_key(data, _password_for(data, password, where))
        except (ValueError, TypeError) as error:
            if b"ENCRYPTED" in data and not cosign:  # cosign's tells a wrong password from all else
                raise WrongPassword(where, given=True) from None
            raise KeyUnreadable(where, str(error).split(",")[0]) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise UnsupportedKey(where)
        return cls(key)

    @property
    def public(self) -> PublicKey:
        """Return the half that verifies."""
        return PublicKey(self.key.public_key())

    def sign(self, message: bytes) -> bytes:
        """Return an ECDSA signature with SHA-256 over `message`, ASN.1 encoded as cosign's are."""
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        return self.key.sign(message, ECDSA(SHA256()))

    def __repr__(self) -> str:
        return "SigningKey(...)"


def _password_for(data: bytes, password: str | None, where: str) -> bytes | None:
    """Return the password to hand to the PEM reader, which refuses one that is not needed."""
    if b"ENCRYPTED" not in data:
        return None
    if password is None:
        raise WrongPassword(where, given=False)
    return password.encode()


def _open_cosign_key(body: bytes, password: str | None, where: str) -> bytes:
    """Return the PKCS #8 bytes in a `cosign.key`: scrypt and NaCl's secretbox (go-securesystemslib `encrypted`)."""
    if password is None:
        raise WrongPassword(where, given=False)
    envelope = _cosign_envelope(body, where)
    n, r, p = envelope["n"], envelope["r"], envelope["p"]
    try:
        derived = hashlib.scrypt(
            password.encode(), salt=envelope["salt"], n=n, r=r, p=p, dklen=32, maxmem=_MAX_SCRYPT_BYTES
        )
    except ValueError as error:
        raise KeyUnreadable(where, str(error)) from None
    from nacl.exceptions import CryptoError
    from nacl.secret import SecretBox

    try:
        return SecretBox(derived).decrypt(envelope["ciphertext"], envelope["nonce"])
    except CryptoError:
        raise WrongPassword(where, given=True) from None


def _cosign_envelope(body: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(base64.b64decode(body))
        params = value["kdf"]["params"]
        if value["kdf"]["name"] != "scrypt" or value["cipher"]["name"] != "nacl/secretbox":
            raise KeyUnreadable(where, "it is encrypted in a way that cosign does not use")
        n, r, p = params["N"], params["r"], params["p"]
        # A hostile file must not make us fill the memory.
        if not all(type(number) is int and number > 0 for number in (n, r, p)) or 128 * n * r * p > _MAX_SCRYPT_BYTES:
            raise KeyUnreadable(where, "its scrypt parameters are out of bounds")
        nonce = base64.b64decode(value["cipher"]["nonce"])
        if len(nonce) != _NONCE_BYTES:
            raise KeyUnreadable(where, "its nonce has another length than cosign's")
        return {
            "n": n,
            "r": r,
            "p": p,
            "salt": base64.b64decode(value["kdf"]["salt"]),
            "nonce": nonce,
            "ciphertext": base64.b64decode(value["ciphertext"]),
        }
    except (ValueError, KeyError, TypeError, RecursionError):
        raise KeyUnreadable(where, "it is not what cosign writes") from None


def load_signing_key(location: str, environment: Mapping[str, str], folder: Path) -> SigningKey:
    """Return the private key at `location`, a file (relative to `folder`) or `env://NAME`.

    Raises:
        KeyFileMissing: there is no such file or variable.
        SigningError: it cannot be read, opened or used.
    """
    return SigningKey.from_bytes(_read(location, environment, folder), environment.get(PASSWORD_VARIABLE), location)


def load_public_key(location: str, environment: Mapping[str, str], folder: Path) -> PublicKey:
    """Return the public key at `location`, a file (relative to `folder`) or `env://NAME`.

    Raises:
        KeyFileMissing: there is no such file or variable.
        SigningError: it cannot be read or used.
    """
    return PublicKey.from_pem(_read(location, environment, folder), location)


def _read(location: str, environment: Mapping[str, str], folder: Path) -> bytes:
    if "-----" in location or not location.isprintable():  # whoever pastes a key must not find it in a log
        raise KeyFileMissing("the place given", "it is no file name but looks like a key itself")
    if location.startswith("env://"):
        if not (text := environment.get(location.removeprefix("env://"))):
            raise KeyFileMissing(location, "the variable is not set")
        return text.encode()
    try:
        with (folder / location).open("rb") as file:
            data = file.read(_MAX_KEY_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in it
        raise KeyFileMissing(location, getattr(error, "strerror", None) or str(error)) from None
    if len(data) > _MAX_KEY_BYTES:
        raise KeyUnreadable(location, "it is too large to be a key")
    return data
