"""Verification of a digest: its trusted signer, and the clusters that would accept it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.errors import VerificationFailed
from ci_automation.flows.observe import look_at, observe
from ci_automation.flows.planning.contents import present_version, read_tree
from ci_automation.flows.publication.placement import as_mirrored, place, problem_of
from ci_automation.flows.publication.tags import version_tag_problem
from ci_automation.flux.artifact import immutable_version, tagged_version
from ci_automation.signing.cluster import cluster_table, judge_cluster
from ci_automation.signing.verify import examine, gather, refusal

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.observe import Observed
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.version import Version
    from ci_automation.signing.cluster import Row
    from ci_automation.signing.trust import Identity, Trusted


class ClusterRefuses(VerificationFailed):
    """A digest is signed by somebody trusted, and the clusters with the Flux that is in it refuse it all the same."""

    hint = "See the table. `update` writes missing signatures; delete a bundle that another signer wrote."

    def __init__(self, reference: Reference, flux: Version, reason: str) -> None:
        super().__init__(f"a cluster with Flux {flux} refuses {reference}: {reason}")


class Verification(Struct, frozen=True):
    """Result of a verification: the trusted signer (or None), the clusters that accept the digest, and the problem."""

    digest: Digest
    version: Version | None
    by: Digest | Identity | None
    clusters: tuple[Row, ...]
    problem: VerificationFailed | None


def verify_channel(reference: Reference, ports: Ports, intent: Intent) -> Verification:
    """Return whether somebody trusted signed what `reference` names, and what clusters make of it.

    Of a channel or a version tag it also says whether signed records have it where it belongs.

    Raises:
        NobodyTrusted: there is nobody to ask for.
        NotFound: there is no such artifact.
    """
    trusted = ports.require_trusted()
    found = _verify(reference, trusted, ports, intent)
    if found.problem is not None and ports.registry.resolve(reference) != found.digest:  # a run published meanwhile
        found = _verify(reference, trusted, ports, intent)
    return found


def _verify(reference: Reference, trusted: Trusted, ports: Ports, intent: Intent) -> Verification:
    observed = look_at(reference, ports)
    ports.say("reading its signatures")
    evidence = gather(ports.registry, reference, observed.digest)
    findings = examine(evidence, trusted)
    found = (*findings.legacy, *findings.bundles)
    by = next((finding.by for finding in found if finding.counts), None)
    version = observed.version
    if version is None and by is not None:  # another tool made it, and an adoption recorded its version
        version = next((record.version for record in ports.ledger(reference).all_records(observed.digest)), None)
    problem: VerificationFailed | None = None
    at = reference.at_digest(observed.digest)
    if by is None:
        problem = refusal(at, trusted, found)
    elif version and not (judgement := judge_cluster(findings, trusted, version)).accepted:
        problem = ClusterRefuses(at, version, judgement.reason)
    elif reference.tag is not None and not immutable_version(reference.tag):
        problem = misplaced(observed, present_version(observed, ports, intent), ports)
    return Verification(observed.digest, version, by, cluster_table(evidence, trusted), problem)


def misplaced(observed: Observed, version: Version, ports: Ports) -> VerificationFailed | None:
    """Return why signed records say that a tag, which leads to `version`, does not belong there; None if none does."""
    tag = observed.channel.tag
    if tag is None or immutable_version(tag):
        return None
    placed = as_mirrored(place(observed, ports), ports)
    is_version = tagged_version(tag) is not None and placed.record is None
    return (version_tag_problem if is_version else problem_of)(placed, version, ports)


def pull(reference: Reference, ports: Ports) -> tuple[Tree, Digest, str]:
    """Return the files of the artifact, its digest, and how far its signature is trusted."""
    observed = observe(reference, ports)
    return read_tree(observed, ports), observed.digest, str(observed.trust)
