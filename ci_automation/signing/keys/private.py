"""Private keys: PEM or an encrypted `cosign.key` in a file or a variable, or a key in a KMS or HSM."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from ci_automation.errors import SigningError
from ci_automation.hiding import Hiding
from ci_automation.signing.keys.kms import KmsKey, is_kms, open_kms
from ci_automation.signing.keys.public import (
    PASSWORD_VARIABLE,
    KeyUnreadable,
    OtherHalf,
    PublicKey,
    UnsupportedKey,
    load_public_key,
    read_key,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    AnyPrivateKey = EllipticCurvePrivateKey | RSAPrivateKey | Ed25519PrivateKey

_MAX_SCRYPT_BYTES = 512 << 20
_NONCE_BYTES = 24
_COSIGN_PEM = re.compile(
    rb"\s*-----BEGIN ENCRYPTED (?P<kind>SIGSTORE|COSIGN) PRIVATE KEY-----(?P<body>[A-Za-z0-9+/=\s]+)"
    rb"-----END ENCRYPTED (?P=kind) PRIVATE KEY-----\s*"
)


class WrongPassword(SigningError):
    """The password does not open an encrypted key."""

    hint = (
        f"Put the key's password into {PASSWORD_VARIABLE}: `read -rs {PASSWORD_VARIABLE}; export {PASSWORD_VARIABLE}`."
    )

    def __init__(self, where: str, *, given: bool) -> None:
        super().__init__(
            f"the password does not open the key {where}"
            if given
            else f"the key {where} is encrypted, and {PASSWORD_VARIABLE} is not set"
        )


class SigningKey(Hiding, Struct, frozen=True):
    """Private half of a key pair, which never prints itself."""

    hides = ("key",)

    key: AnyPrivateKey

    @classmethod
    def from_bytes(cls, data: bytes, password: str | None, where: str) -> Self:
        """Return the private key in `data`: PEM (PKCS #8, SEC 1 or PKCS #1, encrypted or not), or a `cosign.key`.

        Raises:
            OtherHalf: it is a public key.
            KeyUnreadable: the data is neither.
            WrongPassword: the key is encrypted, and `password` is missing or wrong.
            UnsupportedKey: the key's kind is not in `KeyKind`.
        """
        if b"-----BEGIN PUBLIC KEY-----" in data:
            hint = "Give the private key, such as cosign.key. To verify with this file: --public-key."
            raise OtherHalf(where, "a public key, and signing needs the private one", hint)
        cosign = _COSIGN_PEM.fullmatch(data)
        # Decrypt before any import: this takes a fifth of a second, in which other threads may import.
        opened = _open_cosign_key(cosign["body"], password, where) if cosign else None
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
        from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key

        try:
            if opened is not None:
                key = load_der_private_key(opened, None)
            else:
                key = load_pem_private_key(data, _password_for(data, password, where))
        except UnsupportedAlgorithm:
            raise UnsupportedKey(where) from None
        except (ValueError, TypeError) as error:
            if b"ENCRYPTED" in data and not cosign:  # a cosign.key shows a wrong password earlier
                raise WrongPassword(where, given=True) from None
            raise KeyUnreadable.of(data, where, error) from None
        match key:
            case ec.EllipticCurvePrivateKey() | rsa.RSAPrivateKey() | ed25519.Ed25519PrivateKey():
                PublicKey.of(key.public_key(), where)
                return cls(key)
        raise UnsupportedKey(where)

    @property
    def public(self) -> PublicKey:
        """Return the public half."""
        return PublicKey(self.key.public_key())

    def sign(self, message: bytes) -> bytes:
        """Return a signature over `message` that `PublicKey.accepts`, in cosign's encoding."""
        return self.key.sign(message, *self.public.scheme)


def _password_for(data: bytes, password: str | None, where: str) -> bytes | None:
    """Return the password for the PEM reader, which refuses an unneeded one."""
    if b"ENCRYPTED" not in data:
        return None
    if password is None:
        raise WrongPassword(where, given=False)
    return os.fsencode(password)


def _open_cosign_key(body: bytes, password: str | None, where: str) -> bytes:
    """Return the PKCS #8 bytes in a `cosign.key`: scrypt and NaCl's secretbox (go-securesystemslib `encrypted`)."""
    if password is None:
        raise WrongPassword(where, given=False)
    envelope = _cosign_envelope(body, where)
    n, r, p = envelope["n"], envelope["r"], envelope["p"]
    try:
        derived = hashlib.scrypt(
            os.fsencode(password), salt=envelope["salt"], n=n, r=r, p=p, dklen=32, maxmem=_MAX_SCRYPT_BYTES
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
        raise KeyUnreadable(where, "it does not have the form that cosign writes") from None


def open_private_key(location: str, environment: Mapping[str, str], folder: Path) -> SigningKey | KmsKey:
    """Return the private key at `location`: a file (relative to `folder`), `env://NAME`, or a key in a KMS or HSM.

    Raises:
        UsageError: the file or variable does not exist, or the location does not have the form of its service.
        SigningError: the key cannot be read, opened or used, or its service refuses.
    """
    if is_kms(location):
        return open_kms(location, environment)
    return SigningKey.from_bytes(read_key(location, environment, folder), environment.get(PASSWORD_VARIABLE), location)


def load_public_half(location: str, environment: Mapping[str, str], folder: Path) -> PublicKey:
    """Return the public key at `location`, or the public half of the private key there.

    Raises:
        UsageError: the file or variable does not exist, or the location does not have the form of its service.
        SigningError: the key cannot be read, opened or used, or its service refuses.
    """
    if not is_kms(location) and b"PUBLIC KEY-----" in read_key(location, environment, folder):
        return load_public_key(location, environment, folder)
    return open_private_key(location, environment, folder).public
