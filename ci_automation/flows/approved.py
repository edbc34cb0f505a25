"""Apply an approval: exactly that digest, from exactly that base, once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.approval.port import ApprovalRequest, GrantedApproval
from ci_automation.errors import Conflict, PolicyRefused
from ci_automation.flows.apply import StepRefused
from ci_automation.flows.carry_out import Owed, carry_out
from ci_automation.flows.observe import Observed, Placed, Trust, observe, observe_or_adopt
from ci_automation.flows.planning.base import Base, present_version, read_base
from ci_automation.flows.planning.plan import Outcome
from ci_automation.flows.planning.step import Rendered, Wanted, apart, render_step, wanted_content
from ci_automation.flows.publication.placement import in_place
from ci_automation.flows.publication.publish import require_signer
from ci_automation.policy.plan import Plan, PlannedStep
from ci_automation.records.content import is_same_approval
from ci_automation.records.notes import Approval

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.impact.change import Hazard
    from ci_automation.records.notes import Record

_SECOND = timedelta(seconds=1)


class ApprovalOutdated(Conflict):
    """The channel has left the base of an approval."""

    hint = (
        "The channel moved after the run asked for approval. The next run asks again; an approval counts only for "
        "what was reviewed."
    )

    def __init__(self, request: ApprovalRequest, found: Digest) -> None:
        super().__init__(f"{request.artifact} went on to {found}, and the approved step starts from {request.base}")


class ApprovedDiffers(Conflict):
    """Rendering again gives another digest than the one that was approved."""

    hint = "The release, the options in the configuration, or this program changed since then. The next run asks again."

    def __init__(self, request: ApprovalRequest, found: Digest) -> None:
        super().__init__(f"{request.target} was approved for {request.version}, which renders as {found} now")


class ApprovalUsed(PolicyRefused):
    """An approval has led to a publication before, and counts once."""

    hint = "To publish it again, let the next run ask for a new approval."

    def __init__(self, granted: GrantedApproval) -> None:
        super().__init__(f"the approval by {granted.approval.by} ({granted.approval.how}) was used before")


class CameBack(PolicyRefused):
    """A channel left a digest after an approval, and came back to it."""

    hint = "The approval does not count any more, and the next run asks again."

    def __init__(self, granted: GrantedApproval, channel: Reference, digest: Digest) -> None:
        super().__init__(f"{channel} has left {digest} since {granted.approval.by} approved it, and came back to it")


class ApprovedUnseen(Conflict):
    """The page of an approval did not show a hazard of its step."""

    hint = (
        "Nothing was published. The next run asks again, and shows the hazard; an approval counts for what was shown."
    )

    def __init__(self, granted: GrantedApproval, hazard: Hazard) -> None:
        super().__init__(
            f"{granted.approval.by} approved {granted.request.version} before it was known that {hazard.sentence}"
        )


def apply_granted(granted: GrantedApproval, ports: Ports, intent: Intent) -> Outcome:
    """Publish the approved step, and nothing else.

    The run renders and decides everything again: an approval lifts `approval` verdicts, not `refused` or `wait`.

    Raises:
        ApprovalOutdated: the channel is neither at the base nor at the target of the approval.
        ApprovedDiffers: the step renders to another digest now.
        ApprovalUsed: it was published before on this approval.
        CameBack: the channel left the base since the approval, and came back to it.
        StepRefused: the policy refuses it or holds it back now.
        ApprovedUnseen: it can break something that the approver was not shown.
    """
    require_signer(ports, intent)
    request = granted.request
    observed = observe_or_adopt(request.artifact, ports, intent)
    if observed.digest == request.target:
        return _finish(granted, observed, ports, intent)
    placed, rendered = _from_base(granted, observed, ports, intent)
    refuse_unseen(granted, rendered.step)
    carry_out(placed, [(rendered, granted.approval)], ports, intent)
    return Outcome(_plan_of(request, rendered), 1, str(placed.trust), approvals=(granted.approval,))


def look_at_request(request: ApprovalRequest, ports: Ports, intent: Intent) -> Outcome:
    """Return the step that an approval of `request` would publish, as it is decided now; nothing is written.

    Raises:
        ApprovalOutdated, ApprovedDiffers, StepRefused: as `apply_granted`.
    """
    observed = observe(request.artifact, ports)
    placed, rendered = _from_base(provisional(request, intent.now), observed, ports, intent)
    return Outcome(_plan_of(request, rendered), 0, str(placed.trust))


def provisional(request: ApprovalRequest, now: datetime) -> GrantedApproval:
    """Return an approval as one that is given now would be, to find out what it would lead to."""
    return GrantedApproval(request, Approval("the reviewer", "this run", now))


def _from_base(granted: GrantedApproval, observed: Observed, ports: Ports, intent: Intent) -> tuple[Placed, Rendered]:
    """Return a channel that is at the approved base, and the approved step from there."""
    if observed.digest != granted.request.base:
        raise ApprovalOutdated(granted.request, observed.digest)
    refuse_used(granted, ports)
    base = read_base(observed, ports, intent)
    placed = in_place(observed, base.version, ports, intent)
    # Of a base that is adopted in this run, no record says yet that the channel came back to it.
    last = ports.ledger(placed.channel).last() if placed.trust is Trust.ADOPTED else None
    if last and last.digest != placed.digest and last.at >= granted.since:
        raise CameBack(granted, placed.channel, placed.digest)
    return placed, _render(granted, replace(base, holds=placed.holds), placed.record, ports, intent)


def _plan_of(request: ApprovalRequest, rendered: Rendered) -> Plan:
    step = rendered.step
    return Plan(request.artifact, step.old_version, step.base, (step,))


def _finish(granted: GrantedApproval, observed: Observed, ports: Ports, intent: Intent) -> Outcome:
    """Return the outcome for a channel at its approved target, after writing a record that an interrupted run owes."""
    request = granted.request
    version = present_version(observed, ports, intent)
    placed = in_place(observed, version, ports, intent, approved=True)
    if placed.record is None:  # then a writer of the registry may have moved it there
        refuse_used(granted, ports)
        if went_to := ports.ledger(request.artifact).went_to(request.base):
            raise ApprovalOutdated(request, went_to)

    def again(base: Base) -> tuple[Rendered, Approval]:
        earlier = ports.ledger(request.artifact).records(base.digest)
        return _render(granted, base, earlier[-1] if earlier else None, ports, intent), granted.approval

    owed = Owed(request.base, again)
    carry_out(placed, (), ports, intent, owed)
    plan = Plan(request.artifact, request.version, request.target, ())
    return Outcome(plan, 0, str(placed.trust), approvals=(granted.approval,))


def _render(granted: GrantedApproval, base: Base, record: Record | None, ports: Ports, intent: Intent) -> Rendered:
    """Return the approved step as it is decided now, from a base with this record."""
    request, intent = granted.request, apart(record, intent)
    if any(hold.digest == request.target and hold.at >= granted.since for hold in base.holds):
        raise ApprovalUsed(granted)
    if intent.content_apart and request.version != base.version:
        wanted = Wanted(request.version, base.options, base.overlay, base.pinned)
        git = None
    else:
        wanted = replace(wanted_content(base, ports.with_overlay(intent)), version=request.version)
        git = ports.find_git()
    had = (record.content if record else None) or (ports.ledger(request.artifact).last_content() if git else None)
    rendered = render_step(base, wanted, ports, intent, judge=(lambda _: git.look(wanted, had)) if git else None)
    if rendered.step.target != request.target:
        raise ApprovedDiffers(request, rendered.step.target)
    if not rendered.step.decision.is_actionable:
        raise StepRefused(rendered.step, request.artifact)
    return rendered


def refuse_unseen(granted: GrantedApproval, step: PlannedStep) -> None:
    """Raise `ApprovedUnseen` if a step is known to have a hazard now that the approver was not shown."""
    for hazard in step.unseen(granted.shown):
        raise ApprovedUnseen(granted, hazard)


def refuse_used(granted: GrantedApproval, ports: Ports) -> None:
    """Check that the channel was not at the target since the approval, and stayed at the base.

    A crash may have lost the record that it was at the target.

    Raises:
        ApprovalUsed: it was.
        CameBack: the channel left the base, and came back to it.
    """
    request, approval, ledger = granted.request, granted.approval, ports.ledger(granted.request.artifact)
    for record in ledger.records(request.target):
        if is_same_approval(record.approval, approval) or record.at >= granted.since:
            raise ApprovalUsed(granted)
    came = ledger.records(request.base)  # the first may be of before the approval, and be made up for since
    again = [*(it.at for it in came[1:]), *(it.at for it in came[:1] if it.adopted)]
    again += [it.since for it in ledger.holds(request.base)]
    # Of a moment of GitHub the second is known alone, and within one no channel leaves its base and comes back.
    since = granted.since if granted.since.microsecond else granted.since + _SECOND
    if any(at >= since for at in again):
        raise CameBack(granted, request.artifact, request.base)
