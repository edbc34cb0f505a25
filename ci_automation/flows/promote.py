"""Promotion: the digest that one channel has, and that has proven itself there, goes to another as it is.

Nothing is rendered and no artifact signed: clusters of the target accept the signature that it has, or it does not go
there. What is signed is the record of the move. Every step finds out by itself that it was done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB
from ci_automation.errors import PolicyRefused, VerificationFailed
from ci_automation.flows.planning.promotion import Considered, Promotion, consider, require_signed_for_target
from ci_automation.flows.publication.copy import copy
from ci_automation.flows.publication.placement import PublishedElsewhere, require_still_there
from ci_automation.flows.publication.publish import move
from ci_automation.flows.publication.recording import record_interrupted_rollback, record_of
from ci_automation.flows.publication.tags import VersionTags, digests_before, tag_for_ever
from ci_automation.impact.change import in_shell
from ci_automation.policy.decision import Decision, is_held, still_on
from ci_automation.records.attached import channel_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from ci_automation.artifact.reference import Digest
    from ci_automation.flux.version import Version
    from ci_automation.records.notes import Approval, Record
    from ci_automation.records.writer import RecordWriter
    from ci_automation.signing.signer import Signer
    from ci_automation.signing.trust import Trusted


class PromotionNotApproved(PolicyRefused):
    """A promotion needs an approval that was not given."""

    hint = "Nothing was changed."

    def __init__(self, considered: Considered, *, told: bool = False) -> None:
        super().__init__(f"{considered.sentence} needs approval{_unless(considered, told=told)}")
        if not told:
            self.hint = f"To approve it, add --approve {considered.digest}"


class PromotionRefused(PolicyRefused):
    """A promotion is refused, or has to wait."""

    hint = "Nothing was changed. Wait until the time that the reason names, or change what the reason names."

    def __init__(self, considered: Considered, *, told: bool = False) -> None:
        word = "is refused" if considered.decision is Decision.REFUSED else "has to wait"
        super().__init__(f"{considered.sentence} {word}{_unless(considered, told=told)}")
        if told:
            self.hint = "Nothing was changed."
        elif is_held(considered.gates):
            lifting = in_shell("rollback", considered.promotion.target_name, "--lift")
            self.hint = f"Nothing was changed. {lifting} ends the hold."


def _unless(considered: Considered, *, told: bool) -> str:
    return "" if told else f": {'; '.join(considered.reasons)}"


class OtherDigest(PolicyRefused):
    """An approval is for another digest than the one that would be promoted."""

    hint = "An approval counts for exactly one digest. Review the digest that the source has now, and approve that one."

    def __init__(self, promotion: Promotion, approved: Digest, found: Digest) -> None:
        super().__init__(f"{approved} was approved, and {promotion.source_name} has {found}")


class RecordNotBelieved(VerificationFailed):
    """This run would sign the record of the promotion as an untrusted signer."""

    hint = (
        "Clusters are not affected, but the next promotion would not find the record. Name who signs it in `verify` "
        "of the channel: identityRegexp takes a pattern for several workflows, publicKey several keys."
    )

    def __init__(self, promotion: Promotion, signer: Signer, trusted: Trusted) -> None:
        signs = f"this run signs its record for {promotion.target_name} as {signer.trusted}"
        super().__init__(f"{signs}, and the trusted signer is {trusted}")


class Promoted(Struct, frozen=True):
    """Result of a promotion: whether this run moved the channel."""

    considered: Considered
    done: bool

    @property
    def waits(self) -> bool:
        """Return whether something is left to do."""
        return bool(self.considered.gates) and not self.done and not self.considered.interrupted

    def require_done(self, *, told: bool = False) -> None:
        """Check that the target has the digest now.

        Raises:
            PromotionNotApproved, PromotionRefused: it has not; unless people were `told`, that says why and what to do.
        """
        if self.waits:
            needs_approval = self.considered.decision is Decision.APPROVAL
            raise (PromotionNotApproved if needs_approval else PromotionRefused)(self.considered, told=told)


def promote(promotion: Promotion, approved: Collection[Digest] = ()) -> Promoted:
    """Promote what the source has, if every gate lets it through by itself, or a person approved this very digest.

    Raises:
        OtherDigest: a person approved another.
        SourceEmpty: there is no such source.
        VerificationFailed: no trusted signer of that end signed what is at either end, or clusters of the
            target would refuse it.
        Conflict: another run published at the same time, or a version tag leads to a digest of another channel.
    """
    considered = consider(promotion)
    for digest in approved:
        if digest != considered.digest:
            raise OtherDigest(promotion, digest, considered.digest)
    approval = promotion.intent.approval_by("--approve", promotion.ports.clock()) if approved else None
    return promote_considered(considered, approval)


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
        _require_believed(promotion)
        _carry_out(considered, approval if needs_approval else None)
        return Promoted(considered, done=not considered.interrupted)
    if considered.interrupted:
        raise _unfinished(considered)
    return Promoted(considered, done=False)


def _unfinished(considered: Considered) -> PublishedElsewhere:
    """Return the error about a target that has the digest, where this promotion must not record that."""
    promotion, why = considered.promotion, "; ".join(considered.reasons)
    finish = f"An interrupted promotion is not finished now: {why}"
    if considered.decision is Decision.APPROVAL:
        way = ("--from", promotion.source_name, "--to", promotion.target_name)
        approving = in_shell("promote", *way, "--approve", str(considered.digest))
        finish = f"If a promotion was interrupted, {approving} finishes it"
    there = replace(considered.observed, channel=promotion.target)
    return PublishedElsewhere(there, (str(promotion.source),), finish=finish)


def _settle_present(considered: Considered) -> None:
    """Finish what was interrupted where the target is: the record of a rollback, or where its version tags lead."""
    before, version, promotion = considered.before, considered.old_version, considered.promotion
    if before and before.rolled_back is not None and promotion.ports.signer is not None:
        _require_believed(promotion)
        record_interrupted_rollback(before, promotion.ports, promotion.intent)
    if promotion.intent.version_tags and before and version and not considered.interrupted:
        _version_tags(considered, version).settle(before.manifest)


def _version_tags(considered: Considered, version: Version) -> VersionTags:
    before, promotion = considered.before, considered.promotion
    had = digests_before(before.digest if before else None, considered.holds)
    return VersionTags(promotion.target, version, promotion.ports, had)


def _require_believed(promotion: Promotion) -> None:
    """Check that this run can sign the record of a promotion, and that trusted signers' records are such."""
    signer, trusted = promotion.ports.own_signer(), promotion.ports.require_trusted()
    if not trusted.names(signer.who):
        raise RecordNotBelieved(promotion, signer, trusted)


def _carry_out(considered: Considered, approval: Approval | None) -> None:
    """Copy, verify as the clusters would, tag, compare both ends, move, read back, and record."""
    promotion, digest = considered.promotion, considered.digest
    ports, target, manifest = promotion.ports, promotion.target, considered.observed.manifest
    ports.require_present()
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
    writer = ports.writer(target, promotion.intent.run)
    writer.keep(manifest, kept)
    tag_for_ever(target, considered.version, manifest, ports)
    record = (writer, writer.sign(_record(considered, approval, writer)))
    require_still_there(considered.observed, promotion.origin)  # a rollback may have refused the digest meanwhile
    move(target, considered.before.digest if considered.before else None, manifest, ports, record)
    if version_tags:
        version_tags.settle(manifest)


def _record(considered: Considered, approval: Approval | None, writer: RecordWriter) -> Record:
    """Return what is to be written down: that the target moved, and where from."""
    promotion, made_at_source = considered.promotion, considered.moves[-1]
    keeps = considered.step is not None and not considered.step.changes_content
    now = promotion.ports.later_than(considered.last).clock()
    return replace(
        record_of(writer, promotion.intent, considered.digest, considered.version, made_at_source.options, now),
        previous=considered.before.digest if considered.before else None,
        proof=made_at_source.proof,
        approval=approval,
        promoted_from=channel_name(promotion.origin.registry, promotion.source),
        recovered=considered.interrupted,
        content=considered.had if keeps else None,
    )
