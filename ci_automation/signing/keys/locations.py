"""Where keys are: in a file, in a variable, or in a KMS or HSM that signs for us."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.errors import UsageError
from ci_automation.signing.keys.kms import is_kms, open_kms
from ci_automation.signing.keys.private import PASSWORD_VARIABLE, SigningKey, WrongPassword
from ci_automation.signing.keys.public import KeyKind, KeyUnreadable, PublicKey, UnsupportedKey

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ci_automation.signing.signer import PrivateKey

__all__ = [
    "PASSWORD_VARIABLE",
    "KeyFileMissing",
    "KeyKind",
    "KeyUnreadable",
    "PublicKey",
    "SigningKey",
    "UnsupportedKey",
    "WrongPassword",
    "load_public_half",
    "load_public_key",
    "load_signing_key",
    "open_private_key",
]
_MAX_KEY_BYTES = 64 << 10


class KeyFileMissing(UsageError):
    """The file or variable that should hold a key does not."""

    hint = "Give a file, or env://NAME for an environment variable with the key's text."

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"no key at {where}: {reason}")


def open_private_key(location: str, environment: Mapping[str, str], folder: Path) -> PrivateKey:
    """Return what signs at `location`: a file (relative to `folder`), `env://NAME`, or a key of a KMS or HSM.

    Raises:
        UsageError: there is no such file or variable, or the location is none that a service can have.
        SigningError: the key cannot be read, opened or used, or its service says no.
    """
    if is_kms(location):
        return open_kms(location, environment)
    return load_signing_key(location, environment, folder)


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
    data = _read(location, environment, folder)
    if b"PRIVATE KEY-----" in data:
        raise KeyUnreadable(location, "it is a private key, of which `public-key` prints the public half")
    return PublicKey.from_pem(data, location)


def load_public_half(location: str, environment: Mapping[str, str], folder: Path) -> PublicKey:
    """Return the public key at `location`, which may also be what signs: its public half.

    Raises:
        UsageError: there is no such file or variable, or the location is none that a service can have.
        SigningError: the key cannot be read, opened or used, or its service says no.
    """
    if not is_kms(location) and b"PUBLIC KEY-----" in _read(location, environment, folder):
        return load_public_key(location, environment, folder)
    return open_private_key(location, environment, folder).public


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
