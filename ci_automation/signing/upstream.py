"""Proof that Flux's own release workflow wrote a release's checksums (flux2's `.goreleaser.yml` and `release.yaml`).

Upstream signs the checksums file keyless, with `cosign sign-blob`: `.sig` has the signature, `.pem` the certificate,
and Rekor, the transparency log, the time of signing. Like cosign (`FindTlogEntry`), the search in it asks for exactly
the entry that the signature must have. A search by the file's digest would also return any number of entries that
others log about a public file. The trusted root verifies the entry.
"""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.reference import Digest
from ci_automation.errors import ReleaseSourceError, VerificationFailed
from ci_automation.flux.bundle import ReleaseFiles, checksums_name
from ci_automation.signing.trust import Identity, IdentityMatch, Rejected, TrustedIdentities

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.flux.version import Version
    from ci_automation.signing.sigstore.exchange import SigstoreExchange
    from ci_automation.signing.sigstore.root import TrustRoot

ISSUER = "https://token.actions.githubusercontent.com"
WORKFLOW = "https://github.com/fluxcd/flux2/.github/workflows/release.yaml"
_PEM = b"-----BEGIN CERTIFICATE-----"
_MAX_ANSWER_BYTES = 1 << 20  # an entry over a file has 10 KB
_OK = 200
_NO_SUCH = frozenset({400, 404, 422})  # of what no log takes, the signature of something else for example


class UpstreamUnsigned(VerificationFailed):
    """A file of a release has no signature of Flux."""

    hint = (
        "Flux signs every release: use releases from GitHub, or from a directory that `mirror` filled. "
        "`upstream: {verify: if-available}` in the configuration lets unsigned releases through."
    )

    def __init__(self, version: Version, what: str) -> None:
        super().__init__(f"{what} of {version} is not signed")


class UpstreamForged(VerificationFailed):
    """Another signer than Flux's release workflow of that version signed a file."""

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


def verify_upstream(version: Version, files: ReleaseFiles, root: TrustRoot, log: RekorLog) -> Vouched:
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
    except ValueError:
        return b""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class RekorUnreachable(ReleaseSourceError):
    """The transparency log does not say when a release was signed."""

    hint = (
        "Run again. A directory that `mirror` filled has the log's entries beside the signatures, and needs no Rekor."
    )


class RekorLog:
    """A log that is searched over HTTP; the first search asks `where` for its address."""

    def __init__(self, where: Callable[[], str], exchange: SigstoreExchange | None = None) -> None:
        self._where, self._exchange = where, exchange

    def find(self, message: bytes, signature: bytes, certificate: str) -> str | None:
        """Return the entry of a signature, not verified, as `LogEntry` writes it, or None if the log has no entry.

        Raises:
            RekorUnreachable: the log does not answer.
        """
        from ci_automation.net.network import Network  # only a release whose entry is not beside it needs all this
        from ci_automation.net.values import Call
        from ci_automation.signing.sigstore.exchange import JSON, RekorFailed, SigstoreExchange, UnsafeService
        from ci_automation.signing.sigstore.rekor import UnreadableEntry, entries_of_rekor_answer, hashedrekord_proposal

        exchange = self._exchange or SigstoreExchange(Network.from_environment(os.environ))
        body = b'{"entries":[%b]}' % hashedrekord_proposal(Digest.of(message), signature, certificate)
        call = Call("POST", f"{self._where()}/api/v1/log/entries/retrieve", JSON, body, cap=_MAX_ANSWER_BYTES)
        try:
            answer = exchange.ask(call, RekorFailed)
        except (RekorFailed, UnsafeService) as error:
            raise RekorUnreachable(str(error)) from None
        if answer.status in _NO_SUCH:
            return None
        try:
            entries = entries_of_rekor_answer(answer.body if answer.status == _OK else b"")
        except UnreadableEntry:
            described = answer.described()
            raise RekorUnreachable(f"the transparency log at {answer.host} answered {described}") from None
        # The same may be logged again, in a later shard: what counts is when the log first saw it.
        first = min(entries, key=lambda entry: entry.payload.integrated_time, default=None)
        return None if first is None else first.to_json()
