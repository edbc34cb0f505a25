"""Signatures of a digest: read, verified, and made if they are missing."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.errors import VerificationFailed
from ci_automation.policy.model import SignatureFormat
from ci_automation.registry.port import Registry, TagMoved
from ci_automation.signing import bundle, legacy
from ci_automation.signing.bundle_format import Bundle
from ci_automation.signing.signer import SignatureUnusable, Signer
from ci_automation.signing.trust import Finding, Identity, Trusted, TrustedIdentities, Verified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ci_automation.artifact.manifest import Descriptor
    from ci_automation.artifact.reference import Digest, Reference

    Examine = Callable[[Trusted], Iterable[Finding]]

_SHOWN = 5


class Unsigned(VerificationFailed):
    """A digest has no signature."""

    hint = (
        "If it is yours, adopt it with `update --adopt`, which shows every file first. If it lost a signature, and "
        "records prove that it is yours, `update` and `check --heal` sign it again without a question."
    )

    def __init__(self, reference: Reference) -> None:
        super().__init__(f"{reference} is not signed")


class ForeignSignature(VerificationFailed):
    """A digest is signed, but not by a trusted signer; `signers` has who did."""

    hint = (
        "Find out who signed it. If you signed it, trust that key or identity: --public-key, or --identity with "
        "--issuer."
    )

    def __init__(
        self, reference: Reference, trusted: Trusted, findings: Sequence[Finding], again: Examine | None = None
    ) -> None:
        self.signers = signers(findings)
        self.again = again or (lambda _: ())  # examines it for other signers
        reasons = sorted({reason for each in findings if (reason := each.problem or each.left_out)})
        more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
        super().__init__(f"{reference} has no valid signature of {trusted}: {'; '.join(reasons[:_SHOWN])}{more}")


class Signatures(Struct, frozen=True):
    """All signatures of one digest, not yet verified."""

    digest: Digest
    signatures: tuple[legacy.Signature, ...] = ()
    bundles: tuple[Bundle, ...] = ()


class SignatureFindings(Struct, frozen=True):
    """Results of the check of all signatures of one digest against the trusted signers."""

    legacy: tuple[Finding, ...]
    bundles: tuple[Finding, ...]


def gather(
    registry: Registry,
    reference: Reference,
    digest: Digest,
    *,
    formats: SignatureFormat = SignatureFormat.BOTH,
    whole: bool = False,
) -> Signatures:
    """Return the readable signatures of `digest` in these formats; for `whole` see `read_signatures`."""
    return Signatures(
        digest,
        tuple(legacy.read_signatures(registry, reference, digest, whole=whole)) if formats.has_legacy else (),
        tuple(bundle.read_bundles(registry, reference, digest)) if formats.has_bundle else (),
    )


def examine(evidence: Signatures, trusted: Trusted) -> SignatureFindings:
    """Check each signature against the trusted signers, without a request."""
    return SignatureFindings(
        tuple(legacy.examine_signature(each, evidence.digest, trusted) for each in evidence.signatures),
        tuple(
            replace(bundle.examine_bundle(each, evidence.digest, trusted), later_page=each.later_page)
            for each in evidence.bundles
        ),
    )


def _find_signatures(
    registry: Registry,
    reference: Reference,
    digest: Digest,
    trusted: Trusted,
    formats: SignatureFormat = SignatureFormat.BOTH,
) -> Iterator[Finding]:
    """Yield the result for each signature of `digest`, the cheapest first; read each only when it is needed."""
    if formats.has_legacy:
        for signature in legacy.read_signatures(registry, reference, digest):
            yield legacy.examine_signature(signature, digest, trusted)
    if formats.has_bundle:
        for each in bundle.read_bundles(registry, reference, digest):
            yield bundle.examine_bundle(each, digest, trusted)


def verify(
    registry: Registry,
    reference: Reference,
    digest: Digest,
    trusted: Trusted,
    formats: SignatureFormat = SignatureFormat.BOTH,
) -> Verified:
    """Return a signature over exactly this `digest` by a trusted signer, in any of these formats.

    This check is stricter than Flux's: it also compares the content of a payload or a statement. One case is laxer: if
    a bundle that does not match makes Flux 2.8 ignore a valid `.sig`, the `.sig` still counts here.
    `cluster.cluster_table` shows that case. A `reference` with a tag and this digest is named with its tag in errors.

    Raises:
        Unsigned: the digest has no signature; an attestation is not a signature.
        ForeignSignature: the digest has signatures, but none counts.
    """
    findings = []
    for finding in _find_signatures(registry, reference, digest, trusted, formats):
        if finding.counts and finding.by is not None:
            return Verified(digest, finding.by)
        findings.append(finding)
    named = reference if reference.digest == digest else reference.at_digest(digest)
    raise refusal(named, trusted, findings, lambda other: _find_signatures(registry, reference, digest, other, formats))


def refusal(
    reference: Reference, trusted: Trusted, findings: Sequence[Finding], again: Examine | None = None
) -> Unsigned | ForeignSignature:
    """Return the error if no finding counts: unsigned, or signed by others. Attestations are ignored."""
    found = [finding for finding in findings if not finding.attestation]
    return ForeignSignature(reference, trusted, found, again) if found else Unsigned(reference)


def signers(findings: Sequence[Finding]) -> tuple[Identity, ...]:
    """Return the identities that have validly signed, trusted or not."""
    found = {each.by for each in findings if not each.left_out and isinstance(each.by, Identity)}
    return tuple(sorted(found, key=str))


def ensure_signed(
    registry: Registry,
    reference: Reference,
    digest: Digest,
    signer: Signer,
    formats: SignatureFormat,
    there: tuple[Descriptor, ...] | None = None,
) -> Verified:
    """Return the valid signature of `signer` over `digest`; sign now in each format that lacks one.

    Signatures of others stay. The run reads each new signature back and verifies it. `there` is the content of the
    `.sig` a moment ago, if the caller has just read it.

    Raises:
        SigningError: the signer failed, or the new signature does not verify.
        NotFound: the registry does not have `digest`.
        VerificationFailed: the signature that the registry returns does not verify.
        Conflict: other writers kept overwriting the signature.
    """
    verified = None
    if formats.has_legacy:
        verified = _ensure_legacy(registry, reference, digest, signer, there)
    if formats.has_bundle:
        try:
            verified = verify(registry, reference, digest, signer.trusted, SignatureFormat.BUNDLE)
        except (Unsigned, ForeignSignature):
            verified = _write_bundle(registry, reference, digest, signer)
    assert verified is not None  # noqa: S101  # for the type checker: every format has one of the two
    return verified


def _ensure_legacy(
    registry: Registry, reference: Reference, digest: Digest, signer: Signer, there: tuple[Descriptor, ...] | None
) -> Verified:
    """Return our signature, read back. Sign once; write again if another signer overwrote ours.

    A keyless signature stays in a public log, so the run looks for an existing one before it signs, and again seconds
    later, before it writes. A signature with a key leaves no trace and takes no time, so one look is enough.
    """
    message, trusted = legacy.payload(reference, digest), signer.trusted
    if isinstance(trusted, TrustedIdentities):
        if there != ():
            with suppress(Unsigned, ForeignSignature):
                return verify(registry, reference, digest, trusted, SignatureFormat.LEGACY)
        there = None
    annotations = signer.sign_payload(message)
    _check(legacy.examine_signature(legacy.Signature(annotations, message), digest, trusted))
    for last in (False, False, True):
        try:
            if not legacy.add(registry, reference, digest, annotations, trusted, there):
                return Verified(digest, signer.who)
            return verify(registry, reference, digest, trusted, SignatureFormat.LEGACY)
        except (TagMoved, Unsigned, ForeignSignature):
            if last:
                raise
            there = None
    raise AssertionError  # pragma: no cover - the last attempt returned, or raised


def _write_bundle(registry: Registry, reference: Reference, digest: Digest, signer: Signer) -> Verified:
    raw, trusted = signer.sign_statement(bundle.statement(digest)), signer.trusted
    found = Bundle.parse(raw)
    _check(bundle.examine_bundle(found, digest, trusted) if found else Finding(None, "it is not a bundle"))
    bundle.attach_bundle(registry, reference, digest, raw, bundle.SIGNATURE_PREDICATE)
    return verify(registry, reference, digest, trusted, SignatureFormat.BUNDLE)


def _check(made: Finding) -> None:
    """Check our own signature before it is written: a bundle that does not match would hide a valid `.sig`."""
    if not made.counts:
        raise SignatureUnusable(made.problem or str(made.left_out))
