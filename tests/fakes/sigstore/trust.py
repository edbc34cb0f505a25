"""What the outside is told about a Sigstore: its trusted root, and the addresses of its services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.serialization import Encoding

from tests.fakes.sigstore.ca import START, spki
from tests.fakes.sigstore.entries import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cryptography import x509

    from tests.fakes.sigstore.signing import Services

SINCE = {"start": START.strftime("%Y-%m-%dT%H:%M:%SZ")}
OPERATOR = "sigstore.test"


def trusted_root(services: Services, url: str) -> dict[str, Any]:
    """Return the trusted root (protobuf-specs, sigstore_trustroot.proto) as JSON."""
    ecdsa, ed25519 = "PKIX_ECDSA_P256_SHA_256", "PKIX_ED25519"
    one, two, ct = services.rekor1, services.rekor2, services.ct
    return {
        "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
        "tlogs": [
            _log(url, spki(one.key.public_key()), ecdsa, one.id),
            _log(url, spki(two.key.public_key()), ed25519, two.id),
        ],
        "certificateAuthorities": [_authority(url, "fulcio", services.authority.chain)],
        "ctlogs": [_log(f"{url}/ct", spki(ct.key.public_key()), ecdsa, ct.id)],
        "timestampAuthorities": [_authority(f"{url}/api/v1/timestamp", "time stamping", services.stamper.chain)],
    }


def signing_config(url: str, rekor: int) -> dict[str, Any]:
    """Return the signing configuration v0.2: where to sign, with which of the two Rekors."""
    return {
        "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
        "caUrls": [_service(url)],
        "oidcUrls": [_service(f"{url}/oidc")],
        "rekorTlogUrls": [_service(url, rekor)],
        "rekorTlogConfig": {"selector": "ANY"},
        "tsaUrls": [_service(f"{url}/api/v1/timestamp")],
        "tsaConfig": {"selector": "ANY"},
    }


def trust_config(services: Services, url: str, rekor: int) -> dict[str, Any]:
    """Return the client trust configuration: both of them in one."""
    return {
        "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
        "trustedRoot": trusted_root(services, url),
        "signingConfig": signing_config(url, rekor),
    }


def _service(url: str, version: int = 1) -> dict[str, Any]:
    return {"url": url, "majorApiVersion": version, "validFor": SINCE, "operator": OPERATOR}


def _log(url: str, key: bytes, details: str, identity: bytes) -> dict[str, Any]:
    return {
        "baseUrl": url,
        "hashAlgorithm": "SHA2_256",
        "publicKey": {"rawBytes": encode(key), "keyDetails": details, "validFor": SINCE},
        "logId": {"keyId": encode(identity)},
    }


def _authority(url: str, name: str, chain: Iterable[x509.Certificate]) -> dict[str, Any]:
    certificates = [{"rawBytes": encode(found.public_bytes(Encoding.DER))} for found in chain]
    return {
        "subject": {"organization": OPERATOR, "commonName": name},
        "uri": url,
        "certChain": {"certificates": certificates},
        "validFor": SINCE,
    }
