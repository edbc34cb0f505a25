"""Bringing one artifact to the newest Flux that its policy allows, and saying what waits for a person."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from ci_automation.flows.publication.heal import plan_healed
from ci_automation.flows.publication.publish import Publication, publish
from ci_automation.flows.publication.settle import settle_record
from ci_automation.policy.decision import Decision

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.release import Release
    from ci_automation.policy.plan import Plan, PlannedStep


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did: of the plan's steps, those from `start` to `done`; how far the base is trusted; if it healed.

    `releases` are those that were listed, as far as anything newer is there: what they say is in their notes. `unmade`
    is as in `Planned`.
    """

    plan: Plan
    done: int
    trust: str
    start: int = 0
    healed: bool = False
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
        VerificationFailed: the base is not signed by anybody who is trusted, not provably ours, and not adopted.
        Conflict: somebody else published at the same time.
    """
    planned, healed = plan_healed(channel, ports, intent)
    automatic = list(takewhile(lambda rendered: rendered.step.decision is Decision.AUTO, planned.rendered))
    if not automatic:
        settle_record(planned.observed, ports, intent)
    for rendered in automatic:
        publish(Publication.of(channel, rendered), ports, intent)
    done = len(automatic)
    trust = str(planned.observed.trust)
    return Outcome(planned.plan, done, trust, healed=healed, releases=planned.releases, unmade=planned.unmade)
