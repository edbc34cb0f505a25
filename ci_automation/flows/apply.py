"""Apply a plan: exactly what it says, or nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.errors import Conflict, PolicyRefused
from ci_automation.flows.carry_out import Owed, carry_out
from ci_automation.flows.files import beside_components
from ci_automation.flows.observe import Placed, observe_or_adopt
from ci_automation.flows.planning.base import Base, present_version, read_base
from ci_automation.flows.planning.plan import Outcome
from ci_automation.flows.planning.step import Rendered, Wanted, render_step
from ci_automation.flows.publication.placement import in_place
from ci_automation.flows.publication.publish import require_signer
from ci_automation.impact.change import Hazard, in_shell
from ci_automation.impact.overlay.targets import GATE as OVERLAY
from ci_automation.policy.decision import Decision, is_held

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.policy.plan import Plan, PlannedStep
    from ci_automation.records.notes import Approval

_TOLD = 2  # reasons in an error: each can be a long sentence
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class PlanOutdated(Conflict):
    """The channel is not where any step of the plan begins."""

    hint = "The channel moved after the plan was made. Make a new plan; an approval counts only for what was reviewed."

    def __init__(self, plan: Plan, found: Digest) -> None:
        super().__init__(f"{plan.artifact} is at {found}, where no step of the plan begins")


class PlanUsed(PolicyRefused):
    """The channel was at the plan's target, or left its base, since the plan was made."""

    hint = "An approval counts once. Make a new plan, and have it approved."

    def __init__(self, plan: Plan, found: Digest) -> None:
        super().__init__(f"{plan.artifact} has moved since the plan was made, and came back to {found}")


class TargetDiffers(Conflict):
    """Rendering again gives another digest than the plan has."""

    hint = (
        "The release, the options or the overlay changed. Give the same --overlay as for the plan, or make a new plan "
        "and have it approved."
    )

    def __init__(self, step: PlannedStep, found: Digest) -> None:
        what = f"renders as {found}" if found != step.target else "does not make the changes that the plan lists"
        super().__init__(f"the step to {step.new_version} was planned as {step.target}, and {what} now")


class NewHazard(Conflict):
    """A step has a hazard that its plan does not list."""

    hint = "Make a new plan with the snapshots and manifests of this run, and have it approved."

    def __init__(self, step: PlannedStep, hazard: Hazard, *, builds: bool) -> None:
        super().__init__(f"the step to {step.new_version} was planned without knowing that {hazard.sentence}")
        if hazard.gate == OVERLAY and not builds:
            self.hint = (
                "Install kustomize or kubectl: the plan was made with one. Or make a new plan, and have it approved."
            )


class NotApproved(PolicyRefused):
    """The next step of a plan needs an approval that was not given."""

    def __init__(self, step: PlannedStep) -> None:
        super().__init__(f"the step to {step.new_version} needs approval: {_why(step, Decision.APPROVAL)}")
        self.target = step.target
        self.hint = f"To approve it, add --approve {step.target}"


class StepRefused(PolicyRefused):
    """The next step of a plan is refused or has to wait now."""

    def __init__(self, step: PlannedStep, channel: Reference) -> None:
        word = "is refused" if step.decision is Decision.REFUSED else "has to wait"
        super().__init__(f"the step to {step.new_version} {word}: {_why(step, step.decision)}")
        held = step.decision is Decision.WAIT
        if held and is_held(step.gates):
            self.hint = f"Nothing was published. {in_shell('rollback', str(channel), '--lift')} ends the hold."
        elif held:
            self.hint = "Nothing was published. Wait until the time that the reason names, or change the policy."
        else:
            self.hint = (
                "Nothing was published. `plan` lists what to do about each reason, and the lines to add to "
                "acknowledge a finding."
            )


def _why(step: PlannedStep, decision: Decision) -> str:
    """Return two reasons of the gates that decided so, or of a plan from an older version, and how many more."""
    reasons = [gate.reason for gate in step.gates if gate.decision is decision] or step.reasons
    more = (f"and {len(reasons) - _TOLD} more that `plan` lists",) if len(reasons) > _TOLD else ()
    return "; ".join((*reasons[:_TOLD], *more))


class NoSuchStep(PolicyRefused):
    """An approval for a digest that no step of the plan leads to."""

    hint = "Copy the target from the plan that was reviewed; an approval counts for exactly one digest."

    def __init__(self, approved: Digest, plan: Plan) -> None:
        leads = f"; its steps lead to {', '.join(str(it.target) for it in plan.steps)}" if plan.steps else ""
        super().__init__(f"no step of the plan leads to {approved}{leads}")


class ApprovedTwice(PolicyRefused):
    """Two approved steps of a plan start from the same digest."""

    hint = "Nothing was published from there on. Approve one of them; then make a new plan for the other."

    def __init__(self, base: Digest) -> None:
        super().__init__(f"two of the approved steps start from {base}, and only one can be published")


def apply(plan: Plan, approved: Collection[Digest], ports: Ports, intent: Intent) -> Outcome:
    """Publish the automatic and approved steps of a plan, from the step whose base the channel has.

    The run renders and decides everything again: a plan only says what was reviewed.

    Raises:
        PlanOutdated: no step begins where the channel is.
        PlanUsed: the channel moved since the plan was made, and came back.
        TargetDiffers: a step no longer renders to the plan's target.
        NewHazard: a step has a hazard that its plan does not list.
        NotApproved: the first step to do needs an approval.
        StepRefused: the first step to do is refused, or has to wait, now.
        NoSuchStep: an approval is for none of the plan's targets.
        ApprovedTwice: two approvals are for steps from the same digest.
    """
    require_signer(ports, intent)
    for digest in approved:
        if digest not in {step.target for step in plan.steps}:
            raise NoSuchStep(digest, plan)
    intent = ports.with_overlay(intent)
    observed = observe_or_adopt(plan.artifact, ports, intent)
    if (path := plan.path_to(observed.digest)) is None:
        raise PlanOutdated(plan, observed.digest)
    version = present_version(observed, ports, intent)
    placed = in_place(observed, version, ports, intent, approved=observed.digest in approved)
    doing = _Doing(plan.artifact, approved, ports.later_than(placed.last), intent)
    steps = doing.rendered(placed, plan.going(path).steps[len(path) :])
    _refuse_used(plan, placed, [rendered.step.target for rendered, _ in steps], ports, begun=bool(path))
    owed = Owed(path[-1].base, partial(doing.again, path[-1])) if path else None  # by an earlier run of this plan
    adopted = carry_out(placed, steps, ports, intent, owed)
    done = {rendered.step.target for rendered, _ in steps} | {step.target for step in path}
    gone = plan.going([step for step in plan.steps if step.target in done])
    return Outcome(gone, len(done), str(placed.trust), len(path), healed=adopted)


def _refuse_used(plan: Plan, placed: Placed, targets: Sequence[Digest], ports: Ports, *, begun: bool) -> None:
    """Check that the channel was at none of these targets since the plan was made, and has not come back.

    Where no record led to the plan's base, one of a target may be older than the plan; a rollback still tells. Where
    the plan was begun, or the record of its base was made up for since, the channel came once to what it has.
    """
    if not targets:
        return
    ledger, since = ports.ledger(plan.artifact), plan.since or _LONG_AGO
    here = ledger.records(placed.digest)
    came = [record.at for record in here if record.at > since]
    moves = [*came[1 if begun or len(came) == len(here) else 0 :], *(it.since for it in ledger.holds(placed.digest))]
    if plan.since is not None:
        moves += [record.at for target in targets for record in ledger.records(target)]
    if any(at > since for at in moves):
        raise PlanUsed(plan, placed.digest)


class _Doing(Struct, frozen=True):
    """Means of applying a plan to a channel: the digests that a person approved, and the ports."""

    channel: Reference
    approved: Collection[Digest]
    ports: Ports
    intent: Intent

    def rendered(self, placed: Placed, steps: Sequence[PlannedStep]) -> list[tuple[Rendered, Approval | None]]:
        """Return the steps up to the first that must not be done, each rendered and decided again.

        Raises:
            ApprovedTwice: two approved steps start from the same digest.
        """
        done: list[tuple[Rendered, Approval | None]] = []
        if not steps:
            return done
        # An option that left no trace in the components file is in the plan; the annotation says whether it is the one.
        base = read_base(placed, self.ports, replace(self.intent, flags=steps[0].options.differing()))
        base = replace(base, holds=placed.holds)
        while here := [step for step in steps if step.base == base.digest]:
            chosen = [it for it in here if it.target in self.approved]
            if len(chosen) > 1:
                raise ApprovedTwice(base.digest)
            step = (chosen or here)[0]
            try:
                done.append(self.again(step, base))
            except (NotApproved, StepRefused):
                if not done or step.target in self.approved:
                    raise
                break
            base = done[-1][0].after
        return done

    def again(self, step: PlannedStep, base: Base) -> tuple[Rendered, Approval | None]:
        """Return a step rendered and decided again, and who approved it."""
        rendered = _render_again(base, step, self.ports, self.intent)
        self._require_allowed(step, rendered.step)
        if step.target not in self.approved:
            return rendered, None
        return rendered, self.intent.approval_by("--approve", self.ports.clock())

    def _require_allowed(self, step: PlannedStep, now: PlannedStep) -> None:
        """Check that neither the plan nor this run stops the step: the graver decision counts."""
        for either in (now, step):
            if not either.decision.is_actionable:
                raise StepRefused(either, self.channel)
        asks = [it for it in (now, step) if it.decision is Decision.APPROVAL]
        if asks and step.target not in self.approved:
            raise NotApproved(asks[0])


def _render_again(base: Base, step: PlannedStep, ports: Ports, intent: Intent) -> Rendered:
    overlay = base.overlay
    if intent.overlay is not None and step.overlay != base.overlay.digest():
        overlay = beside_components(intent.overlay, base.path)
    rendered = render_step(base, Wanted(step.new_version, step.options, overlay, step.pinned), ports, intent)
    # All that a person was shown must be so, but for what the passing of time decides, and for where it is looked at.
    found = rendered.step
    if replace(found, decision=step.decision, reasons=step.reasons, gates=step.gates, hazards=step.hazards) != step:
        raise TargetDiffers(step, found.target)
    for hazard in found.unseen(frozenset(it.named for it in step.hazards)):
        raise NewHazard(step, hazard, builds=ports.kustomize is not None)
    return rendered
