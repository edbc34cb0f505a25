"""Bringing one artifact to the newest Flux that its policy allows, and saying what waits for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.flows.carry_out import automatic, carry_out, take_over
from ci_automation.flows.planning import plan_on
from ci_automation.flows.publication.placement import observe_or_heal
from ci_automation.policy.decision import Decision

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.release import Release
    from ci_automation.policy.plan import Plan, PlannedStep


class Outcome(Struct, frozen=True):
    """What a run did: of the plan's steps, those from `start` to `done`; how far the base is trusted; if it healed.

    `placed` says that signed records were read, which tell if the channel was moved back. `releases` are those that
    were listed, as far as anything newer is there: what they say is in their notes. `unmade` is as in `Planned`.
    """

    plan: Plan
    done: int
    trust: str
    start: int = 0
    healed: bool = False
    placed: bool = True
    releases: tuple[Release, ...] = ()
    unmade: bool = False

    @property
    def digest(self) -> Digest:
        """Return where the channel is after the run."""
        return self.plan.steps[self.done - 1].target if self.done else self.plan.current

    @property
    def waiting(self) -> tuple[PlannedStep, ...]:
        """Return the steps that were not published."""
        return self.plan.steps[self.done :]

    @property
    def left(self) -> Decision | None:
        """Return what keeps the rest from being published: an approval that a person can give, or else a refusal."""
        decisions = {step.decision for step in self.waiting} | ({Decision.REFUSED} if self.unmade else set())
        return next((it for it in (Decision.APPROVAL, Decision.REFUSED, Decision.HOLD) if it in decisions), None)


def update(channel: Reference, ports: Ports, intent: Intent) -> Outcome:
    """Publish the steps of the plan that happen by themselves; the rest is left to ask for.

    Raises:
        VerificationFailed: the base is not signed by a trusted signer, or is not where the channel belongs, and was
            not adopted.
        Conflict: somebody else published at the same time.
    """
    observed, signed = observe_or_heal(channel, ports, intent)
    planned = plan_on(observed, ports, intent)
    placed = planned.placed(ports, intent)
    steps = automatic(planned)
    signed |= carry_out(placed, [(rendered, None) for rendered in steps], ports, intent)
    trust, releases = str(placed.trust), planned.releases
    return Outcome(planned.plan, len(steps), trust, healed=signed, releases=releases, unmade=planned.unmade)


def heal(channel: Reference, ports: Ports, intent: Intent) -> Outcome:
    """Return the plan for `channel`, after signing again what it has, or taking over what a person adopts.

    Raises:
        VerificationFailed: see `update`.
    """
    observed, signed = observe_or_heal(channel, ports, intent)
    planned = plan_on(observed, ports, intent)
    placed = planned.placed(ports, intent)
    signed |= take_over(placed, ports.later_than(placed.last), intent)
    return Outcome(planned.plan, 0, str(placed.trust), healed=signed, unmade=planned.unmade)
