"""Verification of a digest: its trusted signer, the clusters that would accept it, and what it was made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.errors import VerificationFailed
from ci_automation.flows.observe import Observed, look_at, observe
from ci_automation.flows.planning.base import present_version, read_base, read_tree
from ci_automation.flows.publication.placement import as_mirrored, place, problem_of
from ci_automation.flows.publication.tags import version_tag_problem
from ci_automation.flows.rendering import fetch, recipe_of, rendering
from ci_automation.flux.artifact import compose, immutable_version, tagged_version
from ci_automation.flux.proof import Proof
from ci_automation.flux.text import pin
from ci_automation.records.ledger import notes_in
from ci_automation.records.notes import Record
from ci_automation.signing.cluster import Row, cluster_table, judge_cluster
from ci_automation.signing.verify import examine, gather, refusal

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.version import Version
    from ci_automation.records.attached import Said
    from ci_automation.signing.trust import Finding, Identity, Trusted
    from ci_automation.signing.verify import SignatureFindings


_FOREIGN = "the files are those above; another tool packed them, so no rebuilding gives its digest"


class ClusterRefuses(VerificationFailed):
    """A digest has a trusted signature, but clusters with its Flux refuse it."""

    hint = "See the table. `update` writes missing signatures; delete a bundle that another signer wrote."

    def __init__(self, reference: Reference, flux: Version, reason: str) -> None:
        super().__init__(f"a cluster with Flux {flux} refuses {reference}: {reason}")


class Verification(Struct, frozen=True):
    """Result of a verification: the trusted signer (or None), the clusters that accept the digest, and the problem.

    `unproven` says that a record of the digest, of whatever channel, has no proof of its rendering.
    """

    digest: Digest
    version: Version | None
    by: Digest | Identity | None
    clusters: tuple[Row, ...]
    problem: VerificationFailed | None
    unproven: bool = False


def verify_channel(reference: Reference, ports: Ports, intent: Intent) -> Verification:
    """Return whether a trusted signer signed what `reference` names, and what clusters make of it.

    Of a channel or a version tag it also says whether signed records have it where it belongs.

    Raises:
        NobodyTrusted: there is no signer to ask for.
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
    evidence = gather(ports.registry, reference, observed.digest, whole=True)
    findings = examine(evidence, trusted)
    found = _every(findings)
    by = next((finding.by for finding in found if finding.counts), None)
    version = observed.version
    said = ports.ledger(reference).said(observed.digest) if by is not None else ()
    records = notes_in(said, Record)
    if version is None:  # another tool made it, and an adoption recorded its version
        version = next((record.version for record in records), None)
    problem: VerificationFailed | None = None
    at = reference.at_digest(observed.digest)
    if by is None:
        problem = refusal(at, trusted, found, lambda other: _every(examine(evidence, other)))
    elif version and not (judgement := judge_cluster(findings, trusted, version)).accepted:
        problem = ClusterRefuses(at, version, judgement.reason)
    elif reference.tag is not None and not immutable_version(reference.tag):
        problem = misplaced(observed, present_version(observed, ports, intent), ports, said)
    unproven = any(record.proof is Proof.NONE for record in records)
    return Verification(observed.digest, version, by, cluster_table(evidence, trusted), problem, unproven)


def _every(findings: SignatureFindings) -> tuple[Finding, ...]:
    return (*findings.legacy, *findings.bundles)


def misplaced(
    observed: Observed, version: Version, ports: Ports, said: tuple[Said, ...] | None = None
) -> VerificationFailed | None:
    """Return why signed records say that a tag, which leads to `version`, does not belong there; None if none does.

    `said` is as for `place`.
    """
    tag = observed.channel.tag
    if tag is None or immutable_version(tag):
        return None
    placed = place(observed, ports, said)
    if tagged_version(tag) is not None and placed.record is None:
        return version_tag_problem(placed, version, ports)
    return problem_of(as_mirrored(placed, ports), version, ports)


def pull(reference: Reference, ports: Ports) -> tuple[Tree, Digest, str]:
    """Return the files of the artifact, its digest, and how far its signature is trusted."""
    observed = observe(reference, ports)
    return read_tree(observed, ports), observed.digest, str(observed.trust)


class NotRederived(VerificationFailed):
    """The same inputs give another digest: its maker, or what it says of itself, is another."""

    hint = "Flux renders the same components, see above; their packing or their description differs."

    def __init__(self, reference: Reference, found: Digest, made: Digest) -> None:
        super().__init__(f"{reference} is {found}, and rebuilding it from its inputs gives {made}")


class Derivation(Struct, frozen=True):
    """The inputs of an artifact in the order in which they come in, each with what proves it, and what they give.

    What another tool packed (`foreign`) has the same files, and never the digest that they get from this program.
    """

    steps: tuple[tuple[str, str], ...]
    found: Digest
    made: Digest
    foreign: bool = False

    def check(self, reference: Reference) -> None:
        """Raise `NotRederived` unless the digest is the same, or another tool packed the files."""
        if self.found != self.made and not self.foreign:
            raise NotRederived(reference, self.found, self.made)


def rederive(reference: Reference, ports: Ports, intent: Intent) -> Derivation:
    """Return how the artifact that `reference` names comes from upstream's release and its overlay.

    Raises:
        EditedByHand, MadeByAnotherTool: its components are not what the release and its options give.
        UpstreamUnsigned, UpstreamForged: the release is not proven to be Flux's.
    """
    observed = look_at(reference, ports)
    base = read_base(observed, ports, intent)
    release = fetch(base.version, ports)
    rendered = rendering(release, base.options, ports)
    made = compose(recipe_of(release, base.options, pin(rendered.text, base.pins), base.overlay, base.path))
    foreign = observed.version is None and made.digest != observed.digest
    pinned = f"it pins {_counted(len(base.pins), 'image')}, to digests that this run did not look up"  # unproven
    proof = f", and {rendered.doubt}" if rendered.doubt else f" ({rendered.proof})"
    steps = (
        ("artifact", f"{reference.repository} has {observed.digest}"),
        ("release", f"{base.version}, its manifests {release.bundle.digest}, commit {release.commit}"),
        ("upstream", release.vouched or "nothing proves the release: its checksums are not signed"),
        ("options", " ".join(base.options.to_arguments()) or "Flux's own"),
        (
            "rendering",
            f"{base.path} is byte for byte what the release renders to with these options{proof}",
        ),
        *((("images", pinned),) if base.pins else ()),
        ("overlay", f"{_counted(len(base.overlay.files), 'other file')}: {base.overlay.digest()}"),
        ("result", _FOREIGN if foreign else f"rebuilding it gives {made.digest}"),
    )
    return Derivation(steps, observed.digest, made.digest, foreign)


def _counted(many: int, what: str) -> str:
    return f"{many or 'no'} {what}{'s' if many > 1 else ''}"
