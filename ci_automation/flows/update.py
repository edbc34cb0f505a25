"""Bringing one artifact to the newest Flux that its policy allows, and saying what waits for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.flows.carry_out import automatic, carry_out, finish_interrupted
from ci_automation.flows.heal import plan_healed
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
    healed = plan_healed(channel, ports, intent)
    planned, observed, placement = healed.planned, healed.observed, healed.placement
    ports = ports.later_than(placement.last)
    finish_interrupted(observed, placement, ports, intent)
    steps = [(rendered, None) for rendered in automatic(planned)]
    carry_out(observed, placement, steps, ports, intent)
    trust, releases = str(observed.trust), planned.releases
    return Outcome(planned.plan, len(steps), trust, healed=healed.signed, releases=releases, unmade=planned.unmade)
