"""Bringing one artifact to the newest Flux that its policy allows, and saying what waits for a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.flows.planning import make_plan
from ci_automation.flows.publish import publish, require_key
from ci_automation.policy.decision import Decision

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.policy.plan import Plan, PlannedStep


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did: of the plan's steps, those from `start` to `done`; and how far the base is trusted."""

    plan: Plan
    done: int
    trust: str
    start: int = 0

    @property
    def waiting(self) -> tuple[PlannedStep, ...]:
        """Return the steps that were not published."""
        return self.plan.steps[self.done :]


def update(channel: Reference, ports: Ports, intent: Intent) -> Outcome:
    """Publish the steps of the plan that happen by themselves; the rest is left to ask for.

    Raises:
        VerificationFailed: the base is not signed by a trusted key, and not adopted.
        Conflict: somebody else published at the same time.
    """
    require_key(ports, intent)
    planned = make_plan(channel, ports, intent)
    done = 0
    for rendered in planned.rendered:
        step = rendered.step
        if step.decision is not Decision.AUTO:
            break
        publish(channel, step.base, step.new_version, rendered.composed, ports, intent)
        done += 1
    return Outcome(planned.plan, done, str(planned.observed.trust))
