"""Signing a channel again that has lost its signature, if it is provably ours (design section 7, ADR 0005)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ci_automation.artifact.manifest import CONFIG_BLOB
from ci_automation.errors import PolicyRefused, UsageError, VerificationFailed
from ci_automation.flows.base import read_base
from ci_automation.flows.contents import read_shown
from ci_automation.flows.observe import Observed, Trust, look_at
from ci_automation.flows.planning import Planned, make_plan
from ci_automation.flows.publication import records
from ci_automation.flows.publication.publish import require_signer
from ci_automation.flows.step import Wanted, render_step
from ci_automation.flux.release import ReleaseNotFound
from ci_automation.policy.decision import Decision
from ci_automation.signing.verify import Unsigned, ensure_signed, verify

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.base import Base
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.signing.signer import Signer


class NotOurs(VerificationFailed):
    """A channel is not signed, and nothing proves that we published what it has."""

    hint = (
        "Nothing was signed. Find out who wrote it: `history` lists what is signed. "
        "If it is yours, take it over with --adopt, which shows every file first."
    )

    def __init__(self, observed: Observed) -> None:
        super().__init__(
            f"{observed.channel} is not signed, and nothing proves that {observed.digest} was published by you"
        )


def plan_healed(channel: Reference, ports: Ports, intent: Intent) -> tuple[Planned, bool]:
    """Return the plan for `channel`, and whether its present digest had to be signed before.

    Raises:
        NotOurs: it is not signed, and not provably ours.
        ForeignSignature: somebody else signed it.
        NotAdopted: a person was asked, and did not say yes.
    """
    require_signer(ports, intent)
    try:
        planned = make_plan(channel, ports, intent)
    except Unsigned:
        observed = look_at(channel, ports)
        if ports.signer is None or not _is_ours(observed, ports, intent):
            raise NotOurs(observed) from None
        _sign(observed, ports.signer, ports, intent)
        return make_plan(channel, ports, intent), True
    replaced = any(rendered.step.decision is Decision.AUTO for rendered in planned.rendered[:1])
    if planned.observed.trust is Trust.ADOPTED and not replaced and ports.signer is not None:
        _sign(planned.observed, ports.signer, ports, intent)
        return planned, True
    return planned, False


def _sign(observed: Observed, signer: Signer, ports: Ports, intent: Intent) -> None:
    read_shown(observed, ports)
    ports.say(f"signing {observed.digest} again")
    ports.registry.put_blob(observed.channel, CONFIG_BLOB)  # what another tool published may lack it
    ensure_signed(ports.registry, observed.channel, observed.digest, signer, intent.signature_format)


def _is_ours(observed: Observed, ports: Ports, intent: Intent) -> bool:
    """Return whether we must have published what is there, whoever can write to the registry (ADR 0005).

    The newest record of the channel has to be about it, or about a digest from which the policy would have published
    exactly this one by itself. Proven components and a known overlay alone do not do: an older release, or another
    channel's, has them too.
    """
    channel, trusted = observed.channel, ports.trusted
    if trusted is None or (last := records.newest(ports.registry, channel, trusted)) is None:
        return False
    if last.digest == observed.digest:
        return True
    earlier = look_at(channel.at_digest(last.digest), ports)
    # Signing publishes nothing, so neither a freeze nor a pause is in its way.
    intent = replace(intent, paused=False, policy=replace(intent.policy, freeze=()))
    try:
        verify(ports.registry, channel, earlier.digest, trusted)
        return _leads_to(replace(earlier, channel=channel), read_base(observed, ports, intent), ports, intent)
    except (VerificationFailed, PolicyRefused, UsageError, ReleaseNotFound) as error:
        # Whatever is wrong with the files is their author's doing, who need not be us.
        ports.say(f"it cannot be proven: {error}")
        return False


def _leads_to(earlier: Observed, base: Base, ports: Ports, intent: Intent) -> bool:
    """Return whether the policy lets the step from `earlier` to the digest of `base` happen by itself."""
    before = read_base(earlier, ports, intent)
    wanted = Wanted(base.version, before.options, before.overlay, before.pinned)
    step = render_step(before, wanted, ports, intent).step
    return step.target == base.digest and step.decision is Decision.AUTO
