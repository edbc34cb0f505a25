"""Signing a channel again that has lost its signature, if a record says that we published what it has (ADR 0005)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.errors import VerificationFailed
from ci_automation.flows.carry_out import take_over, vouch_for
from ci_automation.flows.observe import look_at
from ci_automation.flows.planning import Planned, make_plan
from ci_automation.flows.publication.placement import in_place, placement_of
from ci_automation.flows.publication.publish import require_signer
from ci_automation.signing.verify import Unsigned

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.observe import Observed
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flows.publication.placement import Placement
    from ci_automation.records.publication import Record


class NotOurs(VerificationFailed):
    """A channel is not signed, and no signed record says that we published what it has."""

    hint = (
        "Nothing was signed. Find out who wrote it: `history` lists what is signed. "
        "If it is yours, take it over with --adopt, which shows every file first."
    )

    def __init__(self, observed: Observed) -> None:
        super().__init__(
            f"{observed.channel} is not signed, and no signed record says that {observed.digest} was published to it"
        )


class Healed(Struct, frozen=True):
    """A plan, its base where it belongs and signed; `signed` says that this run had to sign it."""

    planned: Planned
    observed: Observed
    placement: Placement
    signed: bool


def plan_healed(channel: Reference, ports: Ports, intent: Intent) -> Healed:
    """Return the plan for `channel`, after signing again what it has, or taking over what a person adopts.

    Raises:
        NotOurs: it is not signed, and the channel's newest record is not about it.
        ForeignSignature: another signer signed it.
        ChannelMovedBack, PublishedElsewhere: it is not where the channel belongs.
        NotAdopted: a person was asked, and did not say yes.
    """
    require_signer(ports, intent)
    planned, signed = _plan(channel, ports, intent)
    observed, placement = planned.observed, planned.placement
    if placement is None:
        observed, placement = in_place(observed, planned.plan.current_version, ports, intent)
    signed |= take_over(observed, ports.later_than(placement.last), intent)
    return Healed(planned, observed, placement, signed)


def _plan(channel: Reference, ports: Ports, intent: Intent) -> tuple[Planned, bool]:
    """Return the plan for `channel`, and whether its present digest had to be signed again before."""
    try:
        return make_plan(channel, ports, intent), False
    except Unsigned:
        observed = look_at(channel, ports)
        record = _record_of(observed, ports)
        if ports.signer is None or record is None:
            raise NotOurs(observed) from None
        vouch_for(observed, record.version, ports.signer, ports, intent)
        return make_plan(channel, ports, intent), True


def _record_of(observed: Observed, ports: Ports) -> Record | None:
    """Return the channel's newest record, if it is about what the channel has.

    Signing a digest that no record covers would publish it, past every gate. A directory without an identity has
    records that may be those of another directory.
    """
    ledger = ports.ledger(observed.channel)
    if ledger is None or ports.registry.identity(observed.channel) is None:
        return None
    placement = placement_of(observed, ports)
    if placement.record is None or placement.left is not None:
        return None
    last = ledger.newest()
    return last if last is not None and last.digest == observed.digest else None
