"""Bringing one artifact to the newest Flux that its policy allows, and saying what needs approval."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.errors import VerificationFailed
from ci_automation.flows.carry_out import automatic, carry_out, settle_version_tags, take_over
from ci_automation.flows.observe import Observed, Placed, Trust, look_at, observe, observe_or_adopt
from ci_automation.flows.planning.base import read_contents
from ci_automation.flows.planning.plan import Outcome, look_ahead, plan_on
from ci_automation.flows.publication.placement import in_place, place
from ci_automation.flows.publication.publish import require_signer, vouch_for
from ci_automation.policy.plan import Plan
from ci_automation.signing.verify import Unsigned

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.records.notes import Record


class NotOurs(VerificationFailed):
    """A channel is unsigned, and no signed record says that we published it."""

    hint = (
        "Nothing was signed. Find out who published it: `history` lists the signed digests, and `rollback` goes back "
        "to one. "
        "If it is yours, adopt it with `update --adopt`, which shows every file first."
    )

    def __init__(self, observed: Observed) -> None:
        super().__init__(
            f"{observed.channel} is not signed, and no signed record says that {observed.digest} was published to it"
        )


def update(channel: Reference, ports: Ports, intent: Intent) -> Outcome:
    """Publish the steps of the plan that happen by themselves; the rest is left to ask for.

    A run in which a person adopts the base publishes nothing: the person saw the base, and said yes to that alone.

    Raises:
        VerificationFailed: the base is not signed by a trusted signer, or is not where the channel belongs, and was
            not adopted.
        Conflict: another run published at the same time.
    """
    observed, signed = _observe_or_heal(channel, ports, intent)
    planned = plan_on(observed, ports, intent)
    placed = planned.placed(ports, intent)
    steps = () if placed.trust is Trust.ADOPTED else automatic(planned)
    signed |= carry_out(placed, [(rendered, rendered.approval) for rendered in steps], ports, intent)
    return Outcome(
        planned.plan,
        len(steps),
        str(placed.trust),
        healed=signed,
        releases=planned.releases,
        unmade=planned.unmade,
        approvals=tuple(it.approval for it in steps if it.approval),
        holds=planned.holds(len(steps), intent.now),
    )


def heal(channel: Reference, ports: Ports, intent: Intent) -> Outcome:
    """Return the plan for `channel`, after signing again what it has, or taking over what is adopted; see `update`.

    Raises:
        VerificationFailed: see `update`.
    """
    observed, signed = _observe_or_heal(channel, ports, intent)
    planned = plan_on(observed, ports, intent)
    placed = planned.placed(ports, intent)
    signed |= take_over(placed, ports.later_than(placed.last), intent)
    settle_version_tags(placed, ports, intent)
    return Outcome(
        planned.plan,
        0,
        str(placed.trust),
        healed=signed,
        releases=planned.releases,
        unmade=planned.unmade,
        holds=planned.holds(0, intent.now),
    )


def adopt(channel: Reference, ports: Ports, intent: Intent) -> Outcome:
    """Take over what a person adopts, and do nothing else: a promoted channel is never planned; see `update`.

    Raises:
        VerificationFailed: see `update`.
    """
    require_signer(ports, intent)
    observed = observe_or_adopt(channel, ports, intent)
    version = read_contents(observed, ports, intent).version
    placed = in_place(observed, version, ports, intent)
    signed = take_over(placed, ports.later_than(placed.last), intent)
    settle_version_tags(placed, ports, intent)
    return Outcome(Plan(channel, version, placed.digest, (), ()), 0, str(placed.trust), healed=signed)


def _observe_or_heal(channel: Reference, ports: Ports, intent: Intent) -> tuple[Observed, bool]:
    """Return what `channel` has now, and whether it had lost its signature and this run signed it again (ADR 0005)."""
    require_signer(ports, intent)
    try:
        return observe_or_adopt(
            channel, ports, intent, partial(_place_and_look_ahead, ports=ports, intent=intent)
        ), False
    except Unsigned:
        observed = look_at(channel, ports)
        record = _record_of(observed, ports)
        if ports.signer is None or record is None:
            raise NotOurs(observed) from None
        ports.require_present()
        vouch_for(observed, record.version, ports, intent)
        return observe(channel, ports), True


def _place_and_look_ahead(observed: Observed, ports: Ports, intent: Intent) -> Placed:
    placed, ahead = ports.registry.at_once(
        partial(place, observed, ports), partial(look_ahead, observed, ports, intent)
    )
    return replace(placed, releases=ahead.releases, layer=ahead.layer)  # type: ignore[no-any-return]


def _record_of(observed: Observed, ports: Ports) -> Record | None:
    """Return the channel's newest record, if it is about what the channel has.

    Signing a digest that no record covers would publish it, past every gate. A directory without an identity has
    records that may be those of another directory.
    """
    if ports.registry.identity(observed.channel) is None:
        return None
    placed = place(observed, ports)
    if placed.record is None or placed.left is not None:
        return None
    last = ports.ledger(observed.channel).last()
    return last if last is not None and last.digest == observed.digest else None
