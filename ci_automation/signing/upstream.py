"""Proof that Flux's own release workflow wrote a release's checksums (flux2's `.goreleaser.yml` and `release.yaml`).

Upstream signs the checksums file keyless, with `cosign sign-blob`: `.sig` has the signature, `.pem` the certificate,
and the transparency log the time of signing.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.errors import VerificationFailed
from ci_automation.flux.bundle import checksums_name
from ci_automation.signing.trust import Identity, IdentityMatch, Rejected, TrustedIdentities

if TYPE_CHECKING:
    from ci_automation.flux.bundle import ReleaseFiles
    from ci_automation.flux.version import Version
    from ci_automation.signing.sigstore.lookup import TransparencyLog
    from ci_automation.signing.sigstore.root import TrustRoot

ISSUER = "https://token.actions.githubusercontent.com"
WORKFLOW = "https://github.com/fluxcd/flux2/.github/workflows/release.yaml"
_PEM = b"-----BEGIN CERTIFICATE-----"


class UpstreamUnsigned(VerificationFailed):
    """A file of a release has no signature, so nothing proves that Flux published it."""

    hint = (
        "Flux signs every release: use releases from GitHub, or from a directory that `mirror` filled. "
        "`upstream: {verify: if-available}` in the configuration lets unsigned releases through."
    )

    def __init__(self, version: Version, what: str) -> None:
        super().__init__(f"{what} of {version} is not signed")


class UpstreamForged(VerificationFailed):
    """A file of a release is signed, but not by Flux's release workflow of exactly that version."""

    hint = (
        "This run used nothing of it. An attacker changed the source or a mirror, or the source does not have Flux's "
        "own releases."
    )

    def __init__(self, version: Version, what: str, reason: str) -> None:
        super().__init__(f"{what} of {version} is not signed by Flux: {reason}")


class Vouched(Struct, frozen=True):
    """Signer of a release's checksums, and the entry of the transparency log that proves the time."""

    identity: Identity
    log_entry: bytes


def upstream_identity(version: Version) -> Identity:
    """Return the one identity that signs the release of `version`: the release workflow of its tag."""
    return Identity(ISSUER, f"{WORKFLOW}@refs/tags/{version}")


def upstream_trust(version: Version, root: TrustRoot) -> TrustedIdentities:
    """Return the trusted signer for upstream's files of `version`."""
    return TrustedIdentities((IdentityMatch.exact(upstream_identity(version)),), root)


def verify_upstream(version: Version, files: ReleaseFiles, root: TrustRoot, log: TransparencyLog) -> Vouched:
    """Return the signer of a release's checksums; ask `log` for its entry if the files do not include it.

    Raises:
        UpstreamUnsigned: the files include neither a signature nor a certificate.
        UpstreamForged: the signature is invalid, or from another workflow, repository, issuer or version.
        RekorUnreachable: the log does not answer.
    """
    what = checksums_name(version)
    if not files.is_signed:
        raise UpstreamUnsigned(version, what)
    if files.signature is None or files.certificate is None:
        missing = "signature" if files.signature is None else "certificate"
        raise UpstreamForged(version, what, f"its {missing} is missing")
    signature = _decoded(files.signature)
    certificate = _text(files.certificate if files.certificate.startswith(_PEM) else _decoded(files.certificate))
    if not signature or not certificate.startswith(_PEM.decode()):
        raise UpstreamForged(version, what, "its signature or certificate does not have the form that cosign writes")
    stored = files.log_entry
    entry = log.find(files.checksums, signature, certificate) if stored is None else _text(stored)
    if entry is None:
        raise UpstreamForged(version, what, "the transparency log has no entry for its signature")
    try:
        certified = root.verify_detached(files.checksums, signature, certificate, entry)
    except Rejected as error:
        raise UpstreamForged(version, what, error.reason) from None
    if certified.identity != (wanted := upstream_identity(version)):
        raise UpstreamForged(version, what, f"{certified.identity} signed it, and not {wanted}")
    return Vouched(certified.identity, entry.encode())


def _decoded(data: bytes) -> bytes:
    """Return decoded base64, or nothing if the data is not base64."""
    try:
        return base64.b64decode(b"".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
