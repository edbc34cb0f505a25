"""Publication: push by digest, sign, verify, compare, tag, read back, record (design section 7).

Every step finds out by itself that it was done, so that a run after a crash ends as if there had been no crash; and
the channel moves last, so that clusters see nothing but what is signed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB, Descriptor, Manifest
from ci_automation.errors import VerificationFailed
from ci_automation.flows.observe import ChannelMoved, Observed, accept_both
from ci_automation.flows.planning.base import read_shown
from ci_automation.flows.ports import Intent, NoSigner, Ports
from ci_automation.flows.publication.recording import attest_publication, sign_publication
from ci_automation.flows.publication.tags import VersionTags, digests_before, tag_for_ever, tag_unless_taken
from ci_automation.flux.artifact import Composed, immutable_tag
from ci_automation.policy.model import SignatureFormat
from ci_automation.signing.cluster import require_accepted
from ci_automation.signing.legacy import look, payload
from ci_automation.signing.trust import Finding, Trusted, TrustedIdentities
from ci_automation.signing.verify import Signatures, ensure_signed, examine, gather

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.planning.step import Rendered
    from ci_automation.flux.proof import Proof
    from ci_automation.flux.release import FetchedRelease
    from ci_automation.flux.version import Version
    from ci_automation.policy.decision import Hold
    from ci_automation.records.content import RecordedContent
    from ci_automation.records.notes import Approval
    from ci_automation.records.writer import RecordWriter
    from ci_automation.signing.signer import Signer

_ACCEPT = "--accept-identity-change"


class IdentityChange(VerificationFailed):
    """This run signs as another signer than clusters trust."""

    def __init__(self, signing: Trusted, trusted: Trusted) -> None:
        super().__init__(
            f"this run signs as {signing}, and the trusted signer is {trusted}: clusters would refuse what it publishes"
        )
        workflow = (
            " A job that calls a reusable workflow signs as that workflow, not as the one that calls it."
            if isinstance(signing, TrustedIdentities)
            else ""
        )
        way = f"first let the clusters accept both ({accept_both(signing, trusted)}), then run once with {_ACCEPT}"
        if isinstance(signing, TrustedIdentities) is not isinstance(trusted, TrustedIdentities):
            way = (
                f"run once with {_ACCEPT}, then change the verify block of the clusters; it takes a key or an "
                "identity, never both, and until then clusters stay at their present digest"
            )
        self.hint = f"Check that you meant both. To change the signer: {way}.{workflow}"


class SignerNotTrusted(VerificationFailed):
    """A hold, or its end, would be signed by a signer that is not trusted, and count for no run."""

    hint = (
        "Nothing was written. Trust the new signer beside the old one (--public-key for each, or `verify`), then run "
        "again."
    )

    def __init__(self, signing: Trusted, trusted: Trusted) -> None:
        super().__init__(
            f"this run signs as {signing}, and the trusted signer is {trusted}: no run would count what it says of a "
            "hold"
        )


class Publication(Struct, frozen=True):
    """A publication to make: a composed artifact, its base, and the approval of it."""

    channel: Reference
    base: Digest | None
    version: Version
    composed: Composed
    release: FetchedRelease | None  # None: a team's own manifests
    proof: Proof | None
    clusters_run: Version | None = None  # the Flux that will read it first: that of the base
    approval: Approval | None = None
    holds: tuple[Hold, ...] = ()  # on the base, and still of weight
    recovered: bool = False  # an earlier run moved the channel, and wrote no record
    content: RecordedContent | None = None  # that the channel has then, if it is from Git
    listed: tuple[str, ...] = ()  # the tags of the repository, if this run has listed them (ADR 0016)
    look_again: Callable[[], None] = lambda: None  # checks that it still is what was judged

    @classmethod
    def of(
        cls, channel: Reference, rendered: Rendered, approval: Approval | None = None, *, recovered: bool = False
    ) -> Self:
        """Return the publication of a planned step."""
        step = rendered.step
        return cls(
            channel=channel,
            base=step.base,
            version=step.new_version,
            composed=rendered.composed,
            release=rendered.release,
            proof=step.proof,
            clusters_run=step.old_version,
            approval=approval,
            holds=rendered.after.holds,
            recovered=recovered,
        )

    def version_tags(self, ports: Ports) -> VersionTags:
        """Return the version tags that lead to it afterwards."""
        return VersionTags(self.channel, self.version, ports, digests_before(self.base, self.holds))


def require_signer(ports: Ports, intent: Intent) -> None:
    """Check, before anything is read, that a trusted signer can sign what is to be published.

    Raises:
        NoSigner: there is none, and signing is not switched off.
        IdentityChange: another signer is trusted, and the user does not accept that.
    """
    if ports.signer is None:
        if not intent.unsafe_unsigned:
            raise NoSigner
    elif ports.trusted is not None and not (
        intent.accept_identity_change or ports.trusted is ports.signer.trusted or ports.trusted.names(ports.signer.who)
    ):
        raise IdentityChange(ports.signer.trusted, ports.trusted)


def require_counted(ports: Ports) -> None:
    """Raise `SignerNotTrusted` if no run would count what this one signs of a hold."""
    signer, trusted = ports.own_signer(), ports.require_trusted()
    if not (trusted is signer.trusted or trusted.names(signer.who)):
        raise SignerNotTrusted(signer.trusted, trusted)


def publish(publication: Publication, ports: Ports, intent: Intent) -> None:
    """Let the channel point at the composed artifact, signed, if it still points at the base (None: at nothing).

    A registry cannot compare and swap a tag: between the last look and the move lies one request, and the read-back
    reports a race that was lost in it.

    Raises:
        NoSigner, IdentityChange: there is nothing to sign with, or another signer is trusted than the one who signs.
        ChannelMoved, ContentMoved: the channel is not at the base any more, or Git does not have the judged content.
        HoldNotKept: the registry does not show the holds of the base that were written beside it.
        ImmutableTagTaken: the immutable tag is there, with another digest.
        VersionTagTaken: a version tag leads to a digest of another channel.
        VerificationFailed: what was read back does not verify, or a cluster would not accept it.
    """
    require_signer(ports, intent)
    registry, channel, composed = ports.registry, publication.channel, publication.composed
    version_tags = publication.version_tags(ports) if intent.version_tags else None
    if version_tags:
        version_tags.require_free(composed.digest)
    if publication.base is None:
        registry.give_identity(channel)
    tag = channel.at_tag(immutable_tag(publication.version, composed.digest))
    named, there = _push(publication, tag, ports, intent)
    record = None
    if ports.signer is not None:
        ports.say("signing it and verifying the signature as a cluster would")
        _sign(publication, there, ports, intent)
        writer = ports.writer(channel, intent.run)
        record = (writer, sign_publication(publication, writer, ports, intent))
    if publication.holds:
        ports.writer(channel, intent.run).keep(composed.manifest, publication.holds)
    publication.look_again()
    tag_unless_taken(tag, composed.manifest, named, ports)
    move(channel, publication.base, composed.manifest, ports, record)
    if version_tags:
        version_tags.settle(composed.manifest)


def _push(
    publication: Publication, tag: Reference, ports: Ports, intent: Intent
) -> tuple[Digest | None, tuple[Descriptor, ...] | None]:
    """Push the artifact by digest; return what has its immutable tag, and the `.sig` that is there, if it is to be."""
    registry, channel, composed = ports.registry, publication.channel, publication.composed
    ports.say(f"pushing {composed.digest}")
    signs = ports.signer is not None and intent.signature_format.has_legacy
    blobs = (composed.recipe.layer, CONFIG_BLOB, *((payload(channel, composed.digest),) if signs else ()))
    registry.at_once(*(partial(registry.put_blob, channel, blob) for blob in blobs))
    _, named, *there = registry.at_once(
        partial(registry.put_manifest, channel.at_digest(composed.digest), composed.manifest),
        partial(registry.resolve, tag) if not publication.listed or tag.tag in publication.listed else lambda: None,
        *((partial(look, registry, channel, composed.digest),) if signs else ()),
    )
    return named, there[0] if there else None


def _sign(publication: Publication, there: tuple[Descriptor, ...] | None, ports: Ports, intent: Intent) -> None:
    """Sign what was pushed, and check what clusters make of it; `there` are its `.sig` of a moment ago.

    What others put beside it is read while it is signed, or after that if this run puts bundles there too.
    """
    registry, channel, target = ports.registry, publication.channel, publication.composed.digest
    signer = ports.own_signer()
    beside = partial(gather, registry, channel, target, formats=SignatureFormat.BUNDLE)
    sign = partial(ensure_signed, registry, channel, target, signer, intent.signature_format, there)
    if intent.signature_format.has_bundle or intent.attestations:
        sign()
        release, proof = publication.release, publication.proof
        if intent.attestations and release is not None and proof is not None:
            attest_publication(publication, release, proof, ports, intent)
        _check_clusters(publication, signer, beside(), intent)
    else:
        _, evidence = registry.at_once(sign, beside)
        _check_clusters(publication, signer, evidence, intent)


def vouch_for(observed: Observed, version: Version, ports: Ports, intent: Intent) -> None:
    """Sign what a channel has, and give it an immutable tag.

    Raises:
        VerificationFailed: clusters could find something else in it than its list of files shows.
    """
    read_shown(observed, ports)
    ports.say(f"signing {observed.digest}")
    ports.registry.put_blob(observed.channel, CONFIG_BLOB)  # what another tool published may lack it
    ensure_signed(ports.registry, observed.channel, observed.digest, ports.own_signer(), intent.signature_format)
    tag_for_ever(observed.channel, version, observed.manifest, ports)


def _check_clusters(publication: Publication, signer: Signer, evidence: Signatures, intent: Intent) -> None:
    """Check that the clusters which read the channel will accept what it is about to point at.

    What we wrote was verified; what remains is what others put beside it: since Flux 2.8 a bundle hides the `.sig`.
    """
    channel, target, trusted = publication.channel, publication.composed.digest, signer.trusted
    findings = examine(evidence, trusted)
    if intent.signature_format.has_legacy:
        findings = replace(findings, legacy=(Finding(signer.who, None),))
    versions = (publication.clusters_run or publication.version, publication.version)
    require_accepted(channel.at_digest(target), findings, trusted, versions)


def move(
    channel: Reference,
    base: Digest | None,
    manifest: Manifest,
    ports: Ports,
    record: tuple[RecordWriter, bytes] | None = None,
) -> None:
    """Let the channel point at what is signed and tagged by now, if it still points at the base (None: at nothing).

    The signed record of the move is uploaded meanwhile, and attached if the read-back shows the move.

    Raises:
        ChannelMoved: it points at something else, or was moved at the same moment.
    """
    registry, target = ports.registry, manifest.digest

    def put() -> bool:
        if (now := registry.resolve(channel)) == target:
            return False  # an earlier run, or a faster one with the same target, moved it
        if now != base:
            raise ChannelMoved(channel, base, now)
        ports.say(f"moving {channel}")
        registry.put_manifest(channel, manifest)
        return True

    def read_back() -> None:
        if has_moved and (now := registry.resolve(channel)) != target:
            raise ChannelMoved(channel, target, now)

    has_moved, *_ = registry.at_once(put, *((partial(registry.put_blob, channel, record[1]),) if record else ()))
    if record is None:
        read_back()
    else:
        ports.say("recording it")
        record[0].attach(manifest, record[1], read_back)
