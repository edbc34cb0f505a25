"""What there is beside an artifact that speaks for it: read here, judged elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.policy.model import SignatureFormat
from ci_automation.signing import bundle, legacy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.registry.port import Registry
    from ci_automation.signing.bundle import Bundle
    from ci_automation.signing.finding import Finding
    from ci_automation.signing.trust import Trusted


class Evidence(Struct, frozen=True):
    """All signatures of one digest, nothing of them believed yet."""

    digest: Digest
    signatures: tuple[legacy.Signature, ...] = ()
    bundles: tuple[Bundle, ...] = ()


class Findings(Struct, frozen=True):
    """What all signatures of one digest turned out to be, for one who trusts somebody."""

    legacy: tuple[Finding, ...]
    bundles: tuple[Finding, ...]


def gather(
    registry: Registry, reference: Reference, digest: Digest, *, formats: SignatureFormat = SignatureFormat.BOTH
) -> Evidence:
    """Return the signatures of `digest` in these formats, as far as they can be read."""
    return Evidence(
        digest,
        tuple(legacy.read(registry, reference, digest)) if formats.has_legacy else (),
        tuple(bundle.read(registry, reference, digest)) if formats.has_bundle else (),
    )


def examine(evidence: Evidence, trusted: Trusted) -> Findings:
    """Return what each signature is worth to whoever trusts `trusted`; nothing is fetched for it."""
    return Findings(
        tuple(legacy.examine(each, evidence.digest, trusted) for each in evidence.signatures),
        tuple(bundle.examine(each, evidence.digest, trusted) for each in evidence.bundles),
    )


def find(
    registry: Registry,
    reference: Reference,
    digest: Digest,
    trusted: Trusted,
    formats: SignatureFormat = SignatureFormat.BOTH,
) -> Iterator[Finding]:
    """Yield what the signatures of `digest` are worth; each is read only when it is asked for, the cheapest first."""
    if formats.has_legacy:
        for signature in legacy.read(registry, reference, digest):
            yield legacy.examine(signature, digest, trusted)
    if formats.has_bundle:
        for each in bundle.read(registry, reference, digest):
            yield bundle.examine(each, digest, trusted)
