"""Carrying out steps: one way from the base that was observed to a record, for every flow that publishes."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB
from ci_automation.errors import Conflict, PolicyRefused, UsageError, VerificationFailed
from ci_automation.flows.base import read_base
from ci_automation.flows.contents import read_contents, read_shown
from ci_automation.flows.observe import Observed, Trust, look_at
from ci_automation.flows.planning import plan_on
from ci_automation.flows.publication.publish import Publication, publish, tag_for_ever
from ci_automation.flows.publication.recording import record_adoption, record_rollback
from ci_automation.flux.artifact import immutable_tag
from ci_automation.flux.release import ReleaseNotFound
from ci_automation.policy.decision import Decision
from ci_automation.registry.port import NotFound
from ci_automation.signing.verify import ensure_signed, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.base import Base
    from ci_automation.flows.planning import Planned
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flows.publication.placement import Placement
    from ci_automation.flows.step import Rendered
    from ci_automation.flux.version import Version
    from ci_automation.records.publication import Approval
    from ci_automation.signing.signer import Signer

_CANNOT_BE_REPEATED = (VerificationFailed, PolicyRefused, UsageError, Conflict, ReleaseNotFound, NotFound)


def automatic(planned: Planned) -> tuple[Rendered, ...]:
    """Return the steps of a plan that need nobody's approval, up to the first that does."""
    return tuple(takewhile(lambda rendered: rendered.step.decision is Decision.AUTO, planned.rendered))


def carry_out(
    observed: Observed,
    placement: Placement,
    steps: Sequence[tuple[Rendered, Approval | None]],
    ports: Ports,
    intent: Intent,
) -> None:
    """Publish these steps, the first of which begins at what was observed, and keep that for a rollback.

    Raises:
        Conflict, VerificationFailed, SigningError: see `publish`.
    """
    if steps:
        keep_base(observed, steps[0][0].step.old_version, placement, ports)
    for rendered, approval in steps:
        publish(Publication.of(observed.channel, rendered, approval), ports, intent)


def keep_base(observed: Observed, version: Version, placement: Placement, ports: Ports) -> None:
    """Give what a channel has an immutable tag, if it has none: another tool made it, or a run was interrupted.

    Raises:
        ImmutableTagTaken: the tag is there, with another digest.
    """
    if observed.trust is Trust.VERIFIED and immutable_tag(version, observed.digest) not in placement.tags:
        tag_for_ever(observed.channel, version, observed.manifest, ports)


def take_over(observed: Observed, ports: Ports, intent: Intent) -> bool:
    """Record, sign and tag what a person adopted; return whether that was to be done.

    Raises:
        SigningError: it cannot be signed.
    """
    if observed.trust is not Trust.ADOPTED or ports.signer is None:
        return False
    contents = read_contents(observed, ports, intent)
    record_adoption(observed, contents, ports.signer, ports, intent)  # first: what is signed is adopted no more
    vouch_for(observed, contents.version, ports.signer, ports, intent)
    return True


def vouch_for(observed: Observed, version: Version, signer: Signer, ports: Ports, intent: Intent) -> None:
    """Sign what a channel has, and give it an immutable tag.

    Raises:
        VerificationFailed: clusters could find something else in it than its list of files shows.
    """
    read_shown(observed, ports)
    ports.say(f"signing {observed.digest}")
    ports.registry.put_blob(observed.channel, CONFIG_BLOB)  # what another tool published may lack it
    ensure_signed(ports.registry, observed.channel, observed.digest, signer, intent.signature_format)
    tag_for_ever(observed.channel, version, observed.manifest, ports)


def finish_interrupted(observed: Observed, placement: Placement, ports: Ports, intent: Intent) -> None:
    """Write the record, or the immutable tag, that an interrupted run owes for where the channel is.

    A rollback left its hold. Otherwise the newest record and today's policy have to lead to this very digest: then the
    step there is carried out again, which finds all of it done but the record. Nothing else is recorded.
    """
    ledger = ports.ledger(observed.channel)
    if ports.signer is None or ledger is None or observed.trust is not Trust.VERIFIED:
        return
    if placement.rolled_back is not None:
        contents = read_contents(observed, ports, intent)
        record_rollback(observed, contents, placement.rolled_back, ports.signer, ports, intent)
        return
    if placement.record is not None:
        keep_base(observed, placement.record.version, placement, ports)  # an adoption may have ended before that
        return
    channel = observed.channel
    if (last := ledger.newest()) is None:
        return
    try:
        planned = plan_on(_verified(channel, last.digest, ports), ports, replace(intent, adopt=False))
    except _CANNOT_BE_REPEATED as error:
        ports.say(f"who published {observed.digest} cannot be proven: {error}")
        return
    for rendered in automatic(planned):
        if rendered.step.target == observed.digest:
            publish(Publication.of(channel, rendered, recovered=True), ports.later_than(last.at), intent)


def repeat(
    observed: Observed,
    base: Digest,
    render: Callable[[Base], tuple[Rendered, Approval | None]],
    ports: Ports,
    intent: Intent,
) -> None:
    """Carry out again a step from `base` to what was observed, which an interrupted run did but for its record.

    `render` gives the step as it is decided now, and raises an error if it may not be carried out.
    """
    ledger = ports.ledger(observed.channel)
    if ports.signer is None or ledger is None or observed.trust is not Trust.VERIFIED:
        return
    channel = observed.channel
    try:
        start = read_base(_verified(channel, base, ports), ports, intent)
        again = render(replace(start, holds=ledger.holds(base)))
    except _CANNOT_BE_REPEATED as error:
        ports.say(f"who published {observed.digest} cannot be proven: {error}")
        return
    earlier = ledger.records(base)
    ports = ports.later_than(earlier[-1].at if earlier else None)
    publish(Publication.of(channel, *again, recovered=True), ports, intent)


def _verified(channel: Reference, digest: Digest, ports: Ports) -> Observed:
    """Return what a channel had, as if it still had it.

    Raises:
        NotFound, VerificationFailed: it is gone, or no trusted signer signed it.
    """
    earlier = look_at(channel.at_digest(digest), ports)
    if ports.trusted is not None:
        verify(ports.registry, channel, digest, ports.trusted)
    return replace(earlier, channel=channel, trust=Trust.VERIFIED)
