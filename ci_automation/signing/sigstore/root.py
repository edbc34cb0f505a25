"""Roots of trust of a Sigstore instance, the public one or another, and verification with them."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import Struct, field

from ci_automation.hiding import Hiding
from ci_automation.net.network import Network
from ci_automation.signing.sigstore import certified
from ci_automation.signing.sigstore.instance_files import MAX_CONFIG_BYTES, TrustConfigUnreadable, config, roots_in
from ci_automation.signing.sigstore.rekor import LogEntry, UnreadableEntry, base64_decoded
from ci_automation.signing.trust import Certified, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ci_automation.signing.sigstore.instance import Instance, Services


class TrustRoot(Hiding, Struct, frozen=True):
    """A Sigstore instance: the public one, or another that a file describes. It loads its roots on first use.

    What needs them raises `TrustConfigUnreadable` or `TrustRootUnavailable` if they are not available.
    """

    hides = ("content", "network")

    where: str
    content: bytes | None = None  # None: the public instance
    offline: bool = False
    folder: Path = Path()  # the cache of the public instance's roots
    network: Network = field(default_factory=Network)

    @classmethod
    def public(cls, *, offline: bool = False, environment: Mapping[str, str] = os.environ) -> Self:
        """Return the public instance; if `offline`, with the cached roots or those in the sigstore package."""
        cache = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME") or "~").expanduser() / ".cache")
        folder = Path(cache) / "flux-manifests" / "sigstore"
        return cls("the public instance", None, offline, folder, Network.from_environment(environment))

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """Return the instance that a client trust configuration or a trusted_root.json describes.

        Raises:
            TrustConfigUnreadable: the file cannot be read, or is neither.
        """
        try:
            with Path(path).open("rb") as file:
                content = file.read(MAX_CONFIG_BYTES + 1)
        except (OSError, ValueError) as error:
            raise TrustConfigUnreadable(str(path), getattr(error, "strerror", None) or str(error)) from None
        roots_in(content, str(path))
        return cls(str(path), content)

    @property
    def custom(self) -> bool:
        """Return whether this is not the public instance, so that a cluster needs its roots."""
        return self.content is not None

    @property
    def rekor_url(self) -> str:
        """Return the address of the instance's log with the API's first version, to search for entries."""
        return _instance(self).rekor_url

    @property
    def services(self) -> Services:
        """Return the services to sign with.

        Raises:
            NoSigningServices: the instance lacks a usable service.
        """
        return _instance(self).services

    def verify_bundle(self, raw: bytes) -> Certified:
        """Verify a Sigstore bundle v0.3 with a certificate and a DSSE envelope; see `CertificateRoot`."""
        instance = _instance(self)
        return _contained(lambda: instance.verify_bundle(raw))

    def verify_detached(self, message: bytes, signature: bytes, certificate_pem: str, entry_json: str) -> Certified:
        """Verify a signature with its certificate and its `dev.sigstore.cosign/bundle`; see `CertificateRoot`."""
        instance = _instance(self)
        return _contained(lambda: _verify_detached(instance, message, signature, certificate_pem, entry_json))


def _verify_detached(
    instance: Instance, message: bytes, signature: bytes, certificate_pem: str, entry_json: str
) -> Certified:
    """Verify `signature` over `message` without a bundle, like cosign's `pkg/cosign/verify.go`.

    The time comes from the promise of a log of Rekor v1, and everything else is checked as of that time.
    """
    certificate = certified.certificate_of_pem(certificate_pem)
    try:
        entry = LogEntry.parse(entry_json)
        promise, record = base64_decoded(entry.promise), entry.record
    except UnreadableEntry as reason:
        raise Rejected(f"its entry in the log cannot be read: {reason}") from None
    at = datetime.fromtimestamp(entry.payload.integrated_time, UTC)
    instance.verify_promise(entry.payload.log_id, promise, entry.signed_bytes, at)
    if not certificate.not_valid_before_utc <= at <= certificate.not_valid_after_utc:
        raise Rejected(f"its certificate was not valid when the log recorded it, {at:%Y-%m-%d %H:%M:%S} UTC")
    instance.verify_certificate(certificate, at)
    certified.require_code_signing(certificate)
    certified.require_bound(record, message, signature, certificate)
    certified.require_signed(certificate, signature, message)
    return Certified(certified.identity_of(certificate), message)


def _contained(verify: Callable[[], Certified]) -> Certified:
    """Return what `verify` returns; any error of a library means that the input is hostile."""
    try:
        return verify()
    except Rejected:
        raise
    except Exception as error:  # noqa: BLE001 - the libraries raise what they like
        raise Rejected(f"it is malformed ({type(error).__name__})") from None


@lru_cache(maxsize=8)
def _instance(root: TrustRoot) -> Instance:
    from ci_automation.signing.sigstore.instance import (
        Instance,  # what loads nothing of Sigstore may name a root at no cost
    )

    content = root.content
    return Instance(_public_config(root) if content is None else content, root.where)


def _public_config(root: TrustRoot) -> bytes:
    """Return the public instance's client trust configuration, by TUF."""
    from ci_automation.signing.sigstore.exchange import SigstoreExchange
    from ci_automation.signing.sigstore.instance import shipped
    from ci_automation.signing.sigstore.instance_files import TARGETS, TrustRootUnavailable, TufRepository

    try:
        repository = TufRepository(shipped("root.json"), root.folder, SigstoreExchange(root.network))
        found = repository.targets(offline=root.offline)
    except TrustRootUnavailable:
        if not root.offline:
            raise
        found = tuple(shipped(name) for name in TARGETS)
    return config(*(json.loads(each) for each in found))
