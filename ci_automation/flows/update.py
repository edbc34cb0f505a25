"""Bringing one artifact to the newest Flux that its policy allows, and saying what waits for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.flows.carry_out import automatic, carry_out, take_over
from ci_automation.flows.planning import Outcome, plan_on
from ci_automation.flows.publication.placement import observe_or_heal

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Intent, Ports


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
