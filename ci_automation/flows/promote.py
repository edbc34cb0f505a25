"""Promotion: the digest that one channel has, and that has proven itself there, goes to another as it is.

Nothing is rendered and no artifact signed: clusters of the target accept the signature that it has, or it does not go
there. What is signed is the record of the move. Every step finds out by itself that it was done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB
from ci_automation.errors import PolicyRefused
from ci_automation.flows.planning.promotion import consider, recorder, require_signed_for_target
from ci_automation.flows.publication.copy import copy
from ci_automation.flows.publication.placement import PublishedElsewhere
from ci_automation.flows.publication.publish import move
from ci_automation.flows.publication.tags import VersionTags, digests_before, tag_for_ever
from ci_automation.flux.artifact import immutable_tag
from ci_automation.policy.decision import Decision
from ci_automation.policy.hold import still_on
from ci_automation.records.attached import channel_name
from ci_automation.records.notes import Approval, Record

if TYPE_CHECKING:
    from collections.abc import Collection

    from ci_automation.artifact.digest import Digest
    from ci_automation.flows.planning.promotion import Considered, Promotion
    from ci_automation.flux.version import Version
    from ci_automation.signing.signer import Signer


class PromotionNotApproved(PolicyRefused):
    """A promotion needs an approval that was not given."""

    def __init__(self, considered: Considered) -> None:
        super().__init__(f"{considered.sentence} needs approval: {'; '.join(considered.reasons)}")
        self.hint = f"To approve it, add --approve {considered.digest}"


class PromotionRefused(PolicyRefused):
    """A promotion is refused, or has to wait."""

    hint = "Nothing was changed. Wait until the time that the reason names, or change what the reason names."

    def __init__(self, considered: Considered) -> None:
        word = "is refused" if considered.decision is Decision.REFUSED else "has to wait"
        super().__init__(f"{considered.sentence} {word}: {'; '.join(considered.reasons)}")


class OtherDigest(PolicyRefused):
    """An approval is for another digest than the one that would be promoted."""

    hint = "An approval counts for exactly one digest. Review the digest that the source has now, and approve that one."

    def __init__(self, promotion: Promotion, approved: Digest, found: Digest) -> None:
        super().__init__(f"{approved} was approved, and {promotion.source} has {found}")


class Promoted(Struct, frozen=True):
    """Result of a promotion: whether this run moved the channel."""

    considered: Considered
    done: bool

    @property
    def waits(self) -> bool:
        """Return whether something is left to do."""
        return bool(self.considered.gates) and not self.done and not self.considered.interrupted

    def require_done(self) -> None:
        """Check that the target has the digest now.

        Raises:
            PromotionNotApproved, PromotionRefused: it has not, and that says why.
        """
        if self.waits:
            needs_approval = self.considered.decision is Decision.APPROVAL
            raise PromotionNotApproved(self.considered) if needs_approval else PromotionRefused(self.considered)


def promote(promotion: Promotion, approved: Collection[Digest] = ()) -> Promoted:
    """Promote what the source has, if every gate lets it through by itself, or a person approved this very digest.

    Raises:
        OtherDigest: a person approved another.
        SourceEmpty: there is no such source.
        VerificationFailed: what is at either end is not signed by somebody who is trusted there, or clusters of the
            target would refuse it.
        Conflict: somebody else published at the same time, or a version tag leads to a digest of another channel.
    """
    considered = consider(promotion)
    for digest in approved:
        if digest != considered.digest:
            raise OtherDigest(promotion, digest, considered.digest)
    return promote_considered(considered, _approval(promotion) if approved else None)


def promote_considered(considered: Considered, approval: Approval | None) -> Promoted:
    """Do a promotion, if every gate lets it through by itself, or `approval` is a person's, of exactly this.

    Raises:
        VerificationFailed, Conflict: as `promote`.
    """
    promotion = considered.promotion
    _settle_present(considered)
    if not considered.gates:
        return Promoted(considered, done=False)
    needs_approval = considered.decision is Decision.APPROVAL
    if considered.decision is Decision.AUTO or (needs_approval and approval):
        _carry_out(considered, recorder(promotion), approval if needs_approval else None)
        return Promoted(considered, done=not considered.interrupted)
    if considered.interrupted:
        raise PublishedElsewhere(replace(considered.observed, channel=promotion.target), (str(promotion.source),))
    return Promoted(considered, done=False)


def _settle_present(considered: Considered) -> None:
    """Let the version tags of the target lead to what it has, which an interrupted promotion may not have done."""
    before, version, promotion = considered.before, considered.old_version, considered.promotion
    if promotion.intent.version_tags and before and version and not considered.interrupted:
        _version_tags(considered, version).settle(before.manifest)


def _version_tags(considered: Considered, version: Version) -> VersionTags:
    before, promotion = considered.before, considered.promotion
    had = digests_before(before.digest if before else None, considered.holds)
    return VersionTags(promotion.target, version, promotion.ports, had)


def _approval(promotion: Promotion) -> Approval:
    return promotion.intent.approval or Approval(
        promotion.intent.run.actor or "command line", "--approve", promotion.ports.clock()
    )


def _carry_out(considered: Considered, signer: Signer, approval: Approval | None) -> None:
    """Copy, verify as the clusters would, tag, compare, move, read back, and record."""
    promotion, digest = considered.promotion, considered.digest
    ports, target, manifest = promotion.ports, promotion.target, considered.observed.manifest
    version_tags = _version_tags(considered, considered.version) if promotion.intent.version_tags else None
    if version_tags:
        version_tags.require_free(digest)
    if considered.before is None:
        ports.registry.give_identity(target)
    ports.say(f"copying {digest} from {promotion.source.repository} to {target.repository}")
    copy(promotion.origin.registry, promotion.source, ports.registry, target.at_digest(digest), digest)
    ports.say("verifying the copy as a cluster would")
    for layer in manifest.layers:
        ports.registry.blob(target, layer)
    ports.registry.put_blob(target, CONFIG_BLOB)  # of the record; what another tool made may lack it
    require_signed_for_target(considered, ports.registry, target)
    kept = still_on(considered.holds, considered.version, promotion.intent.now)
    writer = ports.writer(target, signer, promotion.intent.run)
    writer.keep(manifest, kept)
    tag_for_ever(target, considered.version, manifest, ports)
    record = (writer, writer.sign(_record(considered, approval, signer)))
    move(target, considered.before.digest if considered.before else None, manifest, ports, record)
    if version_tags:
        version_tags.settle(manifest)


def _record(considered: Considered, approval: Approval | None, signer: Signer) -> Record:
    """Return what is to be written down: that the target moved, and where from."""
    promotion, ports, made_at_source = considered.promotion, considered.promotion.ports, considered.moves[-1]
    keeps = considered.step is not None and not considered.step.changes_content
    return Record(
        channel=channel_name(ports.registry, promotion.target),
        digest=considered.digest,
        previous=considered.before.digest if considered.before else None,
        version=considered.version,
        tag=immutable_tag(considered.version, considered.digest),
        by=str(signer.who),
        at=ports.later_than(considered.last).clock(),
        proof=made_at_source.proof,
        options=made_at_source.options,
        run=promotion.intent.run.url or None,
        source=promotion.intent.run.source,
        approval=approval,
        promoted_from=channel_name(promotion.origin.registry, promotion.source),
        recovered=considered.interrupted,
        content=considered.record.content if considered.record and keeps else None,
    )
