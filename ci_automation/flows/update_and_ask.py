"""Scheduled run for one artifact: apply what was approved, publish or promote, and ask for approval of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.approval.port import GrantedApproval, NotCounted, Question, RequestKind
from ci_automation.errors import Conflict, Error, PolicyRefused
from ci_automation.flows.approved import (
    ApprovalOutdated,
    ApprovalUsed,
    ApprovedDiffers,
    ApprovedUnseen,
    CameBack,
    apply_granted,
    provisional,
    refuse_unseen,
    refuse_used,
)
from ci_automation.flows.observe import ChannelMoved
from ci_automation.flows.planning.promotion import Considered, Promotion, consider
from ci_automation.flows.promote import OtherDigest, Promoted, PromotionRefused, promote_considered
from ci_automation.flows.update import update
from ci_automation.flux.release import ReleaseNotFound
from ci_automation.policy.decision import Decision
from ci_automation.policy.plan import Plan, PlannedStep
from ci_automation.report.notes import notes_between

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.approval.port import ApprovalRequest, Approvals, Asked
    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.planning.plan import Outcome
    from ci_automation.flows.ports import Intent, Ports

    Desks = Mapping[RequestKind, Approvals]  # none for content where it is no step of its own

# Any other conflict is a later run's: asked anew, a yes would be void.
_COUNTS_NO_MORE = (PolicyRefused, ApprovalOutdated, ApprovedDiffers, ApprovedUnseen, ChannelMoved, ReleaseNotFound)


class ApprovalNotCounted(PolicyRefused):
    """Something that looks like an approval and is none."""

    hint = "Nothing was published. Have an allowed approver approve it again; the next run asks."

    def __init__(self, found: NotCounted) -> None:
        request = found.request
        super().__init__(f"the approval of {request.version} for {request.artifact} does not count: {found.reason}")


class Progress(Struct, frozen=True):
    """Result for one artifact: what was approved, what was published, and what was asked for."""

    outcome: Outcome | None = None
    granted: GrantedApproval | None = None
    applied: Outcome | None = None
    refused: tuple[NotCounted, ...] = ()
    asked: Mapping[Digest, Asked] = {}  # by the target of the step
    failed: Error | None = None  # what kept the rest from being done

    @property
    def changed(self) -> bool:
        """Return whether the channel moved in this run."""
        return any(did is not None and did.done > did.start for did in (self.applied, self.outcome))


def update_and_ask(
    channel: Reference, ports: Ports, intent: Intent, desks: Desks, *, thorough: bool = False
) -> Progress:
    """Bring `channel` as far as policy and approvals allow, and ask for the next step of each kind that waits.

    An approval that does not count, or not any more, keeps nothing from being done: it is told in `refused`. What goes
    wrong after something is known, or was done, is in `failed`. Where nothing waits, what was asked before is withdrawn
    if something was published, or if the run is `thorough`. What waits for a window or the end of a freeze stays asked.
    """
    progress = _apply(channel, ports, intent, desks, _COUNTS_NO_MORE)
    try:
        outcome = update(channel, ports, intent)
        progress = replace(progress, outcome=outcome)
        # Only a run that adopts leaves a step that needs no approval: the next one publishes that before it asks.
        adopted_only = [step.decision for step in outcome.waiting[:1]] == [Decision.AUTO]
        if progress.refused:  # maybe by outdated rules: what a run asks anew voids the approval
            ports.require_present()
        for kind in () if adopted_only else desks:
            if asked := _asked(kind, outcome, ports, desks, thorough=thorough or progress.changed):
                progress = replace(progress, asked={**progress.asked, **asked})
    except Error as error:
        if progress == Progress():
            raise
        progress = replace(progress, failed=error)
    return progress


def _asked(
    kind: RequestKind, outcome: Outcome, ports: Ports, desks: Desks, *, thorough: bool
) -> Mapping[Digest, Asked]:
    """Ask for the next step of one kind that waits, or take back what was asked; return where a person can answer."""
    steps = [step for step in outcome.waiting if _kind(step, desks) is kind]
    if waiting := next((step for step in steps if step.decision is Decision.APPROVAL), None):
        ports.say(f"asking for approval of {waiting.new_version}")
        said = notes_between(outcome.releases, waiting.old_version, waiting.new_version)
        return {waiting.target: desks[kind].ask(Question(outcome.plan, waiting, said))}
    later = steps and kind is RequestKind.CONTENT  # content that has to wait now is asked for later
    if thorough and not later and not any(_waits_for_a_time(step) for step in steps):
        desks[kind].withdraw(f"{outcome.plan.artifact} is at {outcome.digest} now, and no step needs approval")
    return {}


def _waits_for_a_time(step: PlannedStep) -> bool:
    """Return whether nothing but a window or a freeze holds a step back, so that what was asked stays as it is."""
    waits = {gate.gate for gate in step.gates if gate.decision is Decision.WAIT}
    return step.decision is Decision.WAIT and waits <= {"freeze", "window"}


def _kind(step: PlannedStep, desks: Desks) -> RequestKind:
    is_apart = step.kind == "content" and RequestKind.CONTENT in desks
    return RequestKind.CONTENT if is_apart else RequestKind.VERSION


def apply_approved(channel: Reference, ports: Ports, intent: Intent, desks: Desks) -> Progress:
    """Publish what was approved, if anything was, and nothing else.

    Raises:
        ApprovalNotCounted: what was found is no approval.
        PolicyRefused, Conflict: see `apply_granted`.
    """
    progress = _apply(channel, ports, intent, desks)
    if progress.refused and progress.granted is None:
        raise ApprovalNotCounted(progress.refused[0])
    return progress


def _apply(
    channel: Reference, ports: Ports, intent: Intent, desks: Desks, outdated: tuple[type[Error], ...] = ()
) -> Progress:
    """Publish the first approval that counts; one that does not, or ends with an error of `outdated`, is a value."""
    refused: tuple[NotCounted, ...] = ()
    for approvals in desks.values():
        ports.say("looking for an approval")
        base = ports.registry.resolve(channel)
        found = None if base is None else approvals.granted(base)
        if isinstance(found, GrantedApproval):
            try:
                return Progress(granted=found, applied=apply_granted(found, ports, intent), refused=refused)
            except outdated as error:
                found = NotCounted(found.request, str(error))
        refused += (found,) if found else ()
    return Progress(refused=refused)


class PromotionProgress(Struct, frozen=True):
    """Result for one promoted channel: whether it moved, on which approval, and what was asked for."""

    promoted: Promoted
    granted: GrantedApproval | None = None  # where it moved on that
    refused: NotCounted | None = None
    asked: Asked | None = None
    failed: Error | None = None  # what kept the rest from being done


def promote_and_ask(promotion: Promotion, approvals: Approvals | None, *, thorough: bool = False) -> PromotionProgress:
    """Promote what the source has if policy or an approval allows it, and else ask for an approval of exactly that.

    The first digest of a channel is not asked for: without a base, an approval would count again for an attacker who
    deletes the channel. While the digest of the source is too young, the open request is of an older one: it is closed.
    """
    considered = consider(promotion)
    found = _granted_promotion(considered, approvals)
    granted = found if isinstance(found, GrantedApproval) else None
    done = promote_considered(considered, granted.approval if granted else None)
    progress = PromotionProgress(done, granted, found if isinstance(found, NotCounted) else None)
    if approvals is None:
        return progress
    try:
        waits = done.waits and considered.decision is Decision.APPROVAL
        if waits and (step := considered.step):
            promotion.ports.say(f"asking for approval of {considered.version}")
            plan = Plan(promotion.target, step.old_version, step.base, (step,))
            return replace(progress, asked=approvals.ask(Question(plan, step, considered.notes)))
        soaks = any(gate.gate == "soak" and gate.decision is Decision.WAIT for gate in considered.gates)
        if thorough or soaks or done.done:
            approvals.withdraw(f"{considered.sentence} does not wait for approval now")
    except Error as error:
        if not done.done:
            raise
        return replace(progress, failed=error)
    return progress


def promote_approved(promotion: Promotion, approvals: Approvals) -> PromotionProgress:
    """Promote what was approved, if anything was, and nothing else.

    Raises:
        ApprovalNotCounted: what was found is no approval.
    """
    considered = consider(promotion)
    match _granted_promotion(considered, approvals):
        case NotCounted() as found:
            raise ApprovalNotCounted(found)
        case GrantedApproval() as granted:
            return PromotionProgress(promote_considered(considered, granted.approval), granted)
    return PromotionProgress(Promoted(considered, done=False))


def promote_granted(promotion: Promotion, granted: GrantedApproval) -> PromotionProgress:
    """Promote what was approved, or find that it is done.

    Raises:
        ApprovalOutdated, OtherDigest, ApprovalUsed, ApprovedUnseen, CameBack: the approval is of another
            promotion, or is over.
        PromotionRefused: a gate refuses it, or lets it wait.
    """
    considered = consider(promotion)
    if not considered.gates and considered.digest == granted.request.target:
        return PromotionProgress(Promoted(considered, done=False))
    _require_counts(granted, considered)
    done = promote_considered(considered, granted.approval)
    done.require_done()
    return PromotionProgress(done, granted)


def look_at_promotion(promotion: Promotion, request: ApprovalRequest) -> PromotionProgress:
    """Return what an approval of `request` would promote, as it is decided now; nothing is written.

    Raises:
        PromotionRefused: a gate refuses it, or lets it wait.
        ApprovalOutdated, OtherDigest, CameBack: the request is of another promotion.
    """
    considered = consider(promotion)
    _require_counts(provisional(request, promotion.intent.now), considered)
    if not considered.decision.is_actionable:
        raise PromotionRefused(considered)
    return PromotionProgress(Promoted(considered, done=False))


def _granted_promotion(considered: Considered, approvals: Approvals | None) -> GrantedApproval | NotCounted | None:
    """Return the approval of exactly this promotion, if it needs one, or why what was found is none."""
    if approvals is None or considered.step is None or considered.decision is not Decision.APPROVAL:
        return None
    considered.promotion.ports.say("looking for an approval")
    found = approvals.granted(considered.step.base)
    if isinstance(found, GrantedApproval):
        try:
            _require_counts(found, considered)
        except (PolicyRefused, Conflict) as error:
            return NotCounted(found.request, str(error))
    return found


def _require_counts(granted: GrantedApproval, considered: Considered) -> None:
    """Check that an approval is of all of this promotion, that it was not used, and that the source stayed in place."""
    promotion, request, step = considered.promotion, granted.request, considered.step
    if step is None or request.base != step.base:
        raise ApprovalOutdated(request, step.base if step else considered.digest)
    if (request.target, request.version) != (considered.digest, considered.version):
        raise OtherDigest(promotion, request.target, considered.digest)
    if any(it.digest == request.target and it.at >= granted.since for it in considered.holds):
        raise ApprovalUsed(granted)
    refuse_used(granted, promotion.ports)
    if not considered.interrupted:  # else the channel moved on this approval before, and owes the record of that
        refuse_unseen(granted, step)
    came = considered.came  # GitHub's times have whole seconds: what came back within that of the approval is later
    if len(came) > 1 and came[-1] >= granted.since:
        raise CameBack(granted, promotion.source, request.target)
