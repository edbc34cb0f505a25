"""Doing what a person approved: exactly that digest, from exactly that base, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.errors import Conflict, PolicyRefused
from ci_automation.flows.apply import StepRefused
from ci_automation.flows.base import read_base
from ci_automation.flows.carry_out import Owed, carry_out
from ci_automation.flows.contents import present_version
from ci_automation.flows.observe import observe_or_adopt
from ci_automation.flows.planning import Outcome
from ci_automation.flows.publication.placement import in_place
from ci_automation.flows.publication.publish import require_signer
from ci_automation.flows.step import Wanted, render_step, wants_pins
from ci_automation.policy.plan import Plan

if TYPE_CHECKING:
    from ci_automation.approval.port import ApprovalRequest, GrantedApproval
    from ci_automation.artifact.digest import Digest
    from ci_automation.flows.base import Base
    from ci_automation.flows.observe import Observed
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flows.step import Rendered


class ApprovalOutdated(Conflict):
    """An approval is for a step from a digest that the channel has left."""

    hint = (
        "Somebody published since it was asked for. The next run asks anew; a yes counts for what was reviewed alone."
    )

    def __init__(self, request: ApprovalRequest, found: Digest) -> None:
        super().__init__(f"{request.artifact} is at {found}, and approved was a step from {request.base}")


class ApprovedDiffers(Conflict):
    """Rendering again gives another digest than the one that was approved."""

    hint = "The release, the options in the configuration, or this program changed since. The next run asks anew."

    def __init__(self, request: ApprovalRequest, found: Digest) -> None:
        super().__init__(f"approved was {request.target} for {request.version}, which renders as {found} now")


class ApprovalUsed(PolicyRefused):
    """An approval led to a publication before; the channel was moved back since, and a yes counts once."""

    hint = "If it shall be published again, let it be asked for again."

    def __init__(self, granted: GrantedApproval) -> None:
        super().__init__(f"the approval by {granted.approval.by} ({granted.approval.how}) was used before")


def apply_granted(granted: GrantedApproval, ports: Ports, intent: Intent) -> Outcome:
    """Publish what was approved, and nothing else.

    All is rendered and decided again: an approval lifts what needs an approval, not what is refused or has to wait.

    Raises:
        ApprovalOutdated: the channel is neither at the base nor at the target of the approval.
        ApprovedDiffers: the step renders to another digest now.
        ApprovalUsed: it was published before on this approval.
        StepRefused: the policy refuses it or holds it back now.
    """
    require_signer(ports, intent)
    request = granted.request
    observed = observe_or_adopt(request.artifact, ports, intent)
    if observed.digest == request.target:
        return _finish(granted, observed, ports, intent)
    if observed.digest != request.base:
        raise ApprovalOutdated(request, observed.digest)
    _refuse_used(granted, ports)
    base = read_base(observed, ports, intent)
    placed = in_place(observed, base.version, ports, intent)
    rendered = _render(granted, replace(base, holds=placed.holds), ports, intent)
    carry_out(placed, [(rendered, granted.approval)], ports, intent)
    plan = Plan(request.artifact, base.version, base.digest, (rendered.step,))
    return Outcome(plan, 1, str(placed.trust))


def _finish(granted: GrantedApproval, observed: Observed, ports: Ports, intent: Intent) -> Outcome:
    """Return that what was approved is there, after writing the record that an interrupted run owes for it."""
    request = granted.request
    version = present_version(observed, ports, intent)
    placed = in_place(observed, version, ports, intent, approved=True)
    owed = Owed(request.base, lambda base: (_render(granted, base, ports, intent), granted.approval))
    carry_out(placed, (), ports, intent, owed)
    return Outcome(Plan(request.artifact, request.version, request.target, ()), 0, str(placed.trust))


def _render(granted: GrantedApproval, base: Base, ports: Ports, intent: Intent) -> Rendered:
    """Return the step that was approved, as it is decided now.

    Raises:
        ApprovalUsed: it was published and rolled back, or is not wanted any more.
        ApprovedDiffers, StepRefused: see `apply_granted`.
    """
    request = granted.request
    if any(hold.digest == request.target and hold.at >= granted.approval.at for hold in base.holds):
        raise ApprovalUsed(granted)
    options = base.options.with_flags(intent.flags)
    wanted = Wanted(request.version, options, base.overlay, wants_pins(base, intent))
    rendered = render_step(base, wanted, ports, intent)
    _refuse_other(request, rendered)
    return rendered


def _refuse_other(request: ApprovalRequest, rendered: Rendered) -> None:
    if rendered.step.target != request.target:
        raise ApprovedDiffers(request, rendered.step.target)
    if not rendered.step.decision.is_actionable:
        raise StepRefused(rendered.step)


def _refuse_used(granted: GrantedApproval, ports: Ports) -> None:
    """Check that the channel was not at the target since the approval, whose record may have been lost in a crash."""
    request, approval = granted.request, granted.approval
    if (ledger := ports.ledger(request.artifact)) is None:
        return
    for record in ledger.records(request.target):
        same = record.approval is not None and record.approval.how == approval.how
        if same or record.at >= approval.at:
            raise ApprovalUsed(granted)
