"""Acceptance of an artifact by clusters, for each version of Flux.

The source is source-controller's `internal/oci/cosign/cosign.go` and cosign's library. Versions up to 1.7 (Flux 2.7)
read only `.sig`. From 1.8 on they read bundles, and `.sig` only if there is no bundle. 1.8.3 (Flux 2.8.6) is the first
that knows the time without Rekor 1. 1.9 (Flux 2.9) has `trustedRootSecretRef`, and ignores bundles whose envelope is in
Rekor 2, as cosign 3.0 writes them (sigstore-go 1.2, `pkg/tlog/entry.go`). tests/real/test_judge.py asks 1.7.3, 1.8.0
and 1.9.1 themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.errors import VerificationFailed
from ci_automation.flux.artifact import PUSHED
from ci_automation.flux.version import Version
from ci_automation.signing.trust import Finding, Trusted, TrustedIdentities
from ci_automation.signing.verify import SignatureFindings, Signatures, examine, gather

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ci_automation.artifact.reference import Reference
    from ci_automation.registry.port import Registry

_READS_BUNDLES = Version.parse("2.8.0")
_READS_REKOR_2 = Version.parse("2.8.6")
_READS_NO_ENVELOPES = Version.parse("2.9.0")
FIRST_WITH_OWN_ROOT = Version.parse("2.9.0")
# The first version of each group that behaves alike within a minor.
_TABLE = (
    *((f"2.{minor}", f"2.{minor}.0") for minor in range(2, 8)),
    ("2.8.0 - 2.8.5", "2.8.0"),
    ("2.8.6 and later 2.8", "2.8.6"),
    ("2.9", "2.9.0"),
)


class ClusterWouldRefuse(VerificationFailed):
    """Clusters would refuse a correctly signed artifact, so the channel does not move."""

    hint = (
        "Since Flux 2.8 a bundle of another identity hides the .sig: find out who signed it, and delete that referrer. "
        "Clusters too old for bundles need --signature-format legacy; clusters too old for a Sigstore of your own "
        "need --signing key."
    )

    def __init__(self, reference: Reference, flux: Version, reason: str) -> None:
        super().__init__(f"a cluster with Flux {flux} would refuse {reference}: {reason}")


class Judgement(Struct, frozen=True):
    """Acceptance of an artifact by Flux, with the reason; `strict` is the result of our stricter check."""

    accepted: bool
    strict: bool
    reason: str


class Row(Struct, frozen=True):
    """Judgement of clusters that run one of these versions of Flux."""

    flux: str
    judgement: Judgement


def cluster_table(evidence: Signatures, trusted: Trusted) -> tuple[Row, ...]:
    """Return whether clusters with these trusted signers accept the artifact, for every minor of Flux from 2.2 on."""
    findings = examine(evidence, trusted)
    return tuple(Row(name, judge_cluster(findings, trusted, Version.parse(first))) for name, first in _TABLE)


def judge_cluster(findings: SignatureFindings, trusted: Trusted, flux: Version) -> Judgement:
    """Return whether a cluster with this version of Flux accepts the artifact.

    Its `OCIRepository` names the trusted signers: all keys in one Secret, or the identities as `matchOIDCIdentity`. A
    team's own manifests, whose version is none of Flux's, have to be accepted by each Flux that reads bundles.
    """
    has_own_root = isinstance(trusted, TrustedIdentities) and trusted.root.custom
    of_pushed = (FIRST_WITH_OWN_ROOT,) if has_own_root else (_READS_REKOR_2, _READS_NO_ENVELOPES)
    versions = of_pushed if flux == PUSHED else (flux,)
    judged = [_judged_with_pages(findings, trusted, each) for each in versions]
    return next((it for it in judged if not it.accepted), judged[-1])


def _judged_with_pages(findings: SignatureFindings, trusted: Trusted, flux: Version) -> Judgement:
    """Return the judgement of a cluster that reads the first page of the list of referrers, and of one that reads all.

    go-containerregistry turns no page, and so no Flux up to 2.9 (google/go-containerregistry#2446).
    """
    first = tuple(it for it in findings.bundles if not it.later_page)
    if later := len(findings.bundles) - len(first):
        judgement = _judged(replace(findings, bundles=first), trusted, flux)
        if not judgement.accepted:
            unread = f"it reads the first page of the list of referrers, and {later} of the bundles are on later ones"
            return _refused(f"{judgement.reason}; {unread}")
    return _judged(findings, trusted, flux)


def _judged(findings: SignatureFindings, trusted: Trusted, flux: Version) -> Judgement:
    bundles = tuple(each for each in findings.bundles if _is_read(each, flux))
    if isinstance(trusted, TrustedIdentities):
        if trusted.root.custom and flux < FIRST_WITH_OWN_ROOT:
            return _refused("it knows only the public Sigstore; trustedRootSecretRef came with Flux 2.9")
        if bundles and len(trusted.matches) != 1:
            return _refused(f"with bundles it takes one matchOIDCIdentity, not {len(trusted.matches)}")
        if flux < _READS_REKOR_2 and bundles:
            bundles = tuple(_without_clock(each) for each in bundles)
    if bundles:
        judgement = _any_of(bundles, "bundle", findings)
        if not judgement.accepted and any(finding.problem is None for finding in findings.legacy):
            return _refused(f"a bundle that does not match hides the .sig: {judgement.reason}")
        return judgement
    if not findings.legacy:
        which = "bundles" if flux < _READS_BUNDLES else "bundle whose envelope is in Rekor 2"
        unread = f"it reads no {which}, and there is no .sig"
        return _refused(unread if findings.bundles else "there is no signature")
    return _any_of(findings.legacy, "cosign signature (.sig)", findings)


def _is_read(finding: Finding, flux: Version) -> bool:
    return flux >= _READS_BUNDLES and not (finding.envelope_in_rekor_2 and flux >= _READS_NO_ENVELOPES)


def _without_clock(finding: Finding) -> Finding:
    if finding.problem is None and finding.only_rekor_2:
        return replace(finding, problem="it has an entry of Rekor 2 only, which Flux takes since 2.8.6")
    return finding


def _any_of(read: Sequence[Finding], kind: str, findings: SignatureFindings) -> Judgement:
    """Return the judgement if one valid signature among `read` is enough."""
    taken = sorted((finding for finding in read if finding.problem is None), key=lambda finding: not finding.counts)
    if not taken:
        return _refused("; ".join(sorted({str(finding.problem) for finding in read})))
    but = f", although {taken[0].left_out}: Flux does not check that" if taken[0].left_out else ""
    strict = any(finding.counts for finding in (*findings.legacy, *findings.bundles))
    return Judgement(accepted=True, strict=strict, reason=f"the {kind} of {taken[0].by}{but}")


def _refused(reason: str) -> Judgement:
    return Judgement(accepted=False, strict=False, reason=reason)


def require_accepted(at: Reference, found: SignatureFindings, trusted: Trusted, versions: Iterable[Version]) -> None:
    """Raise `ClusterWouldRefuse` unless clusters with each of these versions accept an artifact so signed."""
    for flux in dict.fromkeys(versions):
        if not (judgement := judge_cluster(found, trusted, flux)).accepted:
            raise ClusterWouldRefuse(at, flux, judgement.reason)


def require_accepted_there(registry: Registry, at: Reference, trusted: Trusted, versions: Iterable[Version]) -> None:
    """Do the same for the signatures that a digest has in a registry now.

    Raises:
        ClusterWouldRefuse: a version refuses it.
    """
    assert at.digest is not None  # noqa: S101  # for the type checker
    require_accepted(at, examine(gather(registry, at, at.digest), trusted), trusted, versions)
