"""Keys in a KMS or HSM, which signs and never hands out the private half. Locations have cosign's form."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from ci_automation.errors import Error, SigningError, UsageError
from ci_automation.hiding import Hiding
from ci_automation.net.network import Network
from ci_automation.net.waiting import TOLD_AFTER, Overdue, Watch, watched
from ci_automation.signing.keys import services

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ci_automation.signing.keys.public import PublicKey

T = TypeVar("T")

_CODE = re.compile(r"[A-Za-z0-9_.]{1,64}")
_SILENT = logging.NullHandler()  # without one, Python prints what a library logs as a warning


class _Service(Struct, frozen=True):
    """One kind of service: the form of its keys' locations, a hint for refusals, and the function that opens a key."""

    name: str
    form: str
    pattern: re.Pattern[str]
    hint: str
    open: Callable[[services.Place, Mapping[str, str]], services.Opened]
    extra: str = "kms"


class KmsLocationInvalid(UsageError):
    """The location of a key does not have the form of its service."""

    def __init__(self, service: _Service) -> None:
        # The message does not repeat the location, because it may contain a PIN or a password.
        super().__init__(f"this is not the location of a key in {service.name}")
        self.hint = f"Write it as {service.form}."


class KmsClientMissing(SigningError):
    """The client library of a service is not installed."""

    def __init__(self, service: _Service) -> None:
        super().__init__(f"{service.name} needs a client library that is not installed")
        self.hint = (
            f"Install it in the sources with pip install '.[{service.extra}]', or use the image that ends in -kms."
        )


class KmsFailed(SigningError):
    """A service does not show a key, or does not sign with it."""

    def __init__(self, service: _Service, location: str, reason: str) -> None:
        super().__init__(f"{service.name} did not provide the key {location}: {reason}")
        self.hint = service.hint


class KmsKeyUnsuitable(SigningError):
    """A service has the key, but Flux cannot verify its signatures."""

    hint = "Make a key for signing with ECDSA on P-256, or RSA with PKCS #1 v1.5, and SHA-256: Flux verifies these."

    def __init__(self, service: _Service, location: str, reason: str) -> None:
        super().__init__(f"the key {location} of {service.name} cannot be used: {reason}")


class KmsKey(Hiding, Struct, frozen=True):
    """A private key in a service that signs with it."""

    hides = ("public", "_service", "_sign", "_watch")

    location: str
    public: PublicKey
    _service: _Service
    _sign: Callable[[bytes], bytes]
    _watch: Watch

    def sign(self, message: bytes) -> bytes:
        """Return the service's signature over `message`, once `public` accepts it.

        Raises:
            KmsFailed: the service refuses, cannot be reached, or signed with another key than it showed.
        """
        with _failures(self._service, self.location):
            signature = _awaited(lambda: self._sign(message), self._service, self._watch)
            accepted = self.public.accepts(signature, message)
        if not accepted:  # an alias was moved, or a key rotated: no cluster would accept it
            raise KmsFailed(self._service, self.location, "it signed with another key than the one it showed before")
        return signature


def is_kms(location: str) -> bool:
    """Return whether `location` names a key in a KMS or HSM."""
    return location.partition(":")[0] in _SERVICES


def open_kms(location: str, environment: Mapping[str, str]) -> KmsKey:
    """Return the key at `location`, after asking the service for its public half.

    Vault's address and token and an HSM's PIN are taken from `environment`; the libraries of AWS, Google and Azure find
    their credentials by themselves.

    Raises:
        KmsLocationInvalid: the location does not have the form of its service.
        KmsClientMissing: the service's client library is not installed.
        KmsFailed: the service refuses, or cannot be reached.
        KmsKeyUnsuitable: the key exists, but Flux would not verify its signatures.
        UnsupportedKey: the key exists, but no version of cosign or Flux verifies its kind.
    """
    service = _SERVICES[location.partition(":")[0]]
    if not (found := service.pattern.fullmatch(location)):
        raise KmsLocationInvalid(service)
    watch = Network.from_environment(environment).watch
    with _failures(service, location):
        public, sign = _awaited(lambda: service.open(found.groupdict(""), environment), service, watch)
    return KmsKey(location, public, service, sign, watch)


def _awaited(work: Callable[[], T], service: _Service, watch: Watch) -> T:
    """Return a service's answer within our time limit, whatever limits and retries its library has."""
    try:
        return watched(
            work, watch.seconds, lambda: watch.say(f"still waiting for {service.name} after {TOLD_AFTER:.0f} s")
        )
    except Overdue:
        raise services.Refused(f"it did not answer within {watch.seconds:.0f} seconds") from None


@contextmanager
def _failures(service: _Service, location: str) -> Iterator[None]:
    """Turn every error of a client library into one of our errors, without any text from the service."""
    for name in ("securesystemslib", "azure", "google"):
        logging.getLogger(name).addHandler(_SILENT)
    try:
        yield
    except Error:
        raise
    except ImportError:
        raise KmsClientMissing(service) from None
    except services.Refused as error:
        raise KmsFailed(service, location, str(error)) from None
    except services.Unsuitable as error:
        raise KmsKeyUnsuitable(service, location, str(error)) from None
    except Exception as error:  # noqa: BLE001  # five libraries, each with errors of its own
        match type(error).__name__:
            case "UnsupportedLibraryError":  # securesystemslib's word for a client library that is not there
                raise KmsClientMissing(service) from None
            case "UnsupportedAlgorithmError" | "UnsupportedKeyType":  # securesystemslib's, too
                raise KmsKeyUnsuitable(service, location, "its kind is unknown") from None
        raise KmsFailed(service, location, _code(error)) from None


def _code(error: Exception) -> str:
    """Return the service's name for an error, without the text, which may contain anything."""
    if isinstance(error, (LookupError, TypeError, ValueError)):
        return "its answer is not understood"
    response = getattr(error, "response", None)
    named = response.get("Error", {}).get("Code") if isinstance(response, dict) else type(error).__name__
    return named if isinstance(named, str) and _CODE.fullmatch(named) else "an error without a name"


_AWS_KEY = r"(?:mrk-[0-9a-f]{32}|[0-9A-Fa-f-]{36})"
_SERVICES = {
    "awskms": _Service(
        "AWS KMS",
        "awskms:///KEY, where KEY is an ID, alias/NAME or the ARN of either; or as awskms://HOST/KEY",
        re.compile(
            rf"awskms://(?P<host>[\w.:-]*)/(?P<key>arn:[a-z-]+:kms:(?P<region>[a-z0-9-]+):\d{{12}}:"
            rf"(?:key/{_AWS_KEY}|alias/[\w/-]+)|{_AWS_KEY}|alias/[\w/-]+)",
            re.ASCII,
        ),
        "Check the key's name and region, and that the credentials allow kms:GetPublicKey and kms:Sign.",
        services.open_aws,
    ),
    "gcpkms": _Service(
        "Google Cloud KMS",
        "gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K/cryptoKeyVersions/N; without the version, a rotation "
        "would lock your clusters out",
        re.compile(
            r"gcpkms://(?P<key>projects/[\w.:-]+/locations/[\w-]+/keyRings/[\w-]+/cryptoKeys/[\w-]+)"
            r"/(?:cryptoKeyVersions|versions)/(?P<version>\d+)",
            re.ASCII,
        ),
        "Check the key's name, and that the credentials have roles/cloudkms.signerVerifier.",
        services.open_google,
    ),
    "azurekms": _Service(
        "Azure Key Vault",
        "azurekms://VAULT.vault.azure.net/KEY, with /VERSION if you like",
        re.compile(
            r"azurekms://(?P<vault>[A-Za-z0-9-]+)\.vault\.azure\.net/(?P<key>[A-Za-z0-9-]+)(?:/(?P<version>[a-z0-9]+))?"
        ),
        "Check the key's name, and that the credentials have the role Key Vault Crypto User.",
        services.open_azure,
    ),
    "hashivault": _Service(
        "Vault",
        "hashivault://KEY",
        re.compile(r"hashivault://(?P<key>\w(?:[\w.-]*\w)?)", re.ASCII),
        "Check VAULT_ADDR and VAULT_TOKEN, and that the token may read transit/keys/KEY and update transit/sign/KEY.",
        services.open_vault,
    ),
    "hsm": _Service(
        "the PKCS #11 token",
        "hsm:ID?label=TOKEN, where ID is the key's number; 2 is the signing key of a YubiKey",
        re.compile(r"hsm:(?P<id>\d{0,9})(?:\?label=(?P<label>[\w.%+-]{1,128}))?", re.ASCII),
        "PYKCS11LIB is the file of the token's PKCS #11 library, and COSIGN_PKCS11_PIN its PIN.",
        services.open_hsm,
        extra="hsm",
    ),
}
_SERVICES["pkcs11"] = _SERVICES["hsm"]  # its URIs are refused, with the form to write
