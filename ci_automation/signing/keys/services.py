"""Clients of each KMS and HSM: they fetch the public key, and sign in the way that Flux verifies.

Google's, Azure's and PKCS #11's keys go through securesystemslib. Its signer for AWS takes no endpoint and prefers
RSA-PSS, and its signer for Vault knows only Ed25519, so AWS and Vault go through their own client libraries.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from ci_automation.net.network import Origin, UnsafeAddress
from ci_automation.signing.keys.public import KeyKind, PublicKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from securesystemslib.signer import Signer, SSlibKey

    Place = Mapping[str, str]  # the named parts of a location, empty where it leaves one out
    Opened = tuple[PublicKey, Callable[[bytes], bytes]]

_CONNECT_SECONDS, _ANSWER_SECONDS, _ATTEMPTS = 10, 30, 4
_PIN_VARIABLE, _MODULE_VARIABLE = "COSIGN_PKCS11_PIN", "PYKCS11LIB"
_AWS_ALGORITHMS = {KeyKind.P256: "ECDSA_SHA_256", KeyKind.RSA: "RSASSA_PKCS1_V1_5_SHA_256"}
_SCHEMES = ("ecdsa-sha2-nistp256", "rsa-pkcs1v15-sha256")  # those of securesystemslib's that Flux verifies


class Unsuitable(Exception):
    """A key cannot be used; the text says why."""


class Refused(Exception):
    """A service cannot be used; the text says why, without any text from the service."""


def open_aws(place: Place, environment: Mapping[str, str]) -> Opened:
    """Return a key of AWS KMS, which gets only the digest of each message. A key's ARN names its region."""
    from boto3.session import Session
    from botocore.config import Config
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    key, host = place["key"], place["host"]
    patience = Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_ANSWER_SECONDS,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
    )
    endpoint = f"https://{host}" if host else None
    # boto3 finds credentials and endpoint, in its own order; of the two names for a region it knows the other one.
    region = place["region"] or environment.get("AWS_REGION") or None
    client = Session().client("kms", region_name=region, endpoint_url=endpoint, config=patience)
    _require_safe(client.meta.endpoint_url)
    answer = client.get_public_key(KeyId=key)
    public = PublicKey.of(load_der_public_key(answer["PublicKey"]), key)
    algorithm = _AWS_ALGORITHMS.get(public.kind, "")
    if algorithm not in answer.get("SigningAlgorithms", ()):
        raise Unsuitable(f"it is {public.kind}, and does not sign with {' or '.join(_AWS_ALGORITHMS.values())}")

    def sign(message: bytes) -> bytes:
        digest = hashlib.sha256(message).digest()
        answer = client.sign(KeyId=key, Message=digest, MessageType="DIGEST", SigningAlgorithm=algorithm)
        signature: bytes = answer["Signature"]
        return signature

    return public, sign


def open_vault(place: Place, environment: Mapping[str, str]) -> Opened:
    """Return the newest version of a key in Vault's transit engine, with the variables of the `vault` command."""
    from hvac import Client

    if not (address := environment.get("VAULT_ADDR")):
        raise Refused("VAULT_ADDR is not set")
    _require_safe(address)
    client = Client(
        url=address,
        token=environment.get("VAULT_TOKEN"),  # else the file ~/.vault-token
        namespace=environment.get("VAULT_NAMESPACE"),
        timeout=_ANSWER_SECONDS,
        allow_redirects=False,  # a redirect would send the token to any host
    )
    transit, name = client.secrets.transit, place["key"]
    mount = environment.get("TRANSIT_SECRET_ENGINE_PATH") or "transit"  # as cosign calls it
    match transit.read_key(name=name, mount_point=mount):
        case {"data": {"type": str(kind), "latest_version": int(version), "keys": dict(versions)}}:
            public = _vault_key(kind, versions.get(str(version)), name)
        case _:
            raise ValueError("not an answer of Vault's")

    def sign(message: bytes) -> bytes:
        match transit.sign_data(
            name=name,
            mount_point=mount,
            key_version=version,
            hash_input=base64.b64encode(message).decode(),
            hash_algorithm="sha2-256",
            signature_algorithm="pkcs1v15",
            marshaling_algorithm="asn1",
            prehashed=False,
        ):
            case {"data": {"signature": str(signature)}}:
                return base64.b64decode(signature.rpartition(":")[2])
        raise ValueError("not an answer of Vault's")

    return public, sign


def _vault_key(kind: str, version: object, name: str) -> PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    match version:
        case {"public_key": str(text)} if kind == "ed25519":
            return PublicKey(Ed25519PublicKey.from_public_bytes(base64.b64decode(text)))
        case {"public_key": str(text)}:
            return PublicKey.from_pem(text.encode(), name)
    raise Unsuitable(f"it is of the type {kind[:40]!r}")


def open_google(place: Place, environment: Mapping[str, str]) -> Opened:
    """Return one version of a key of Google Cloud KMS."""
    del environment  # Application Default Credentials
    from securesystemslib.signer import GCPSigner

    uri, key = GCPSigner.import_(f"{place['key']}/cryptoKeyVersions/{place['version']}")
    return _through(key, lambda: GCPSigner.from_priv_key_uri(uri, key))


def open_azure(place: Place, environment: Mapping[str, str]) -> Opened:
    """Return the newest version of a key in Azure Key Vault; a version in the location must be the newest."""
    del environment  # DefaultAzureCredential
    from securesystemslib.signer import AzureSigner

    uri, key = AzureSigner.import_(place["vault"], place["key"])
    if place["version"] and place["version"] != uri.rpartition("/")[2]:
        raise Unsuitable("it has a newer version, and only the newest version signs")
    return _through(key, lambda: AzureSigner.from_priv_key_uri(uri, key))


def open_hsm(place: Place, environment: Mapping[str, str]) -> Opened:
    """Return a key of a PKCS #11 token, such as a YubiKey."""
    from urllib.parse import unquote_plus

    from securesystemslib.signer import HSMSigner

    for variable in (_MODULE_VARIABLE, _PIN_VARIABLE):
        if not environment.get(variable):
            raise Refused(f"{variable} is not set")

    def pin(_: str) -> str:
        return environment[_PIN_VARIABLE]

    number = int(place["id"]) if place["id"] else None
    label = unquote_plus(place["label"]) if place["label"] else None
    try:
        uri, key = HSMSigner.import_(number, label, pin)
    except ValueError as error:  # securesystemslib's own words, such as that there is no such token
        raise Refused(str(error)[:200]) from None
    return _through(key, lambda: HSMSigner.from_priv_key_uri(uri, key, pin))


def _through(key: SSlibKey, signer: Callable[[], Signer]) -> Opened:
    """Return a key that one of securesystemslib's signers signs with."""
    if key.scheme not in _SCHEMES:
        raise Unsuitable(f"it signs with {key.scheme}")
    signs = signer()

    def sign(message: bytes) -> bytes:
        return bytes.fromhex(signs.sign(message).signature)

    return PublicKey.from_pem(key.keyval["public"].encode(), key.keyid), sign


def _require_safe(address: str) -> None:
    """Refuse an address that would send credentials without encryption."""
    try:
        origin = Origin.of(address)
    except UnsafeAddress as error:
        raise Refused(f"its address cannot be used: {error}") from None
    if origin.scheme != "https" and not origin.is_loopback:
        raise Refused("its address is not https://")
