"""Carry out steps: one way from the observed base to a record, for every flow that publishes."""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.errors import Conflict, PolicyRefused, UsageError, VerificationFailed
from ci_automation.flows.observe import Placed, Trust, observe_past
from ci_automation.flows.planning.base import Base, present_version, read_base, read_contents
from ci_automation.flows.planning.plan import Planned, plan_on
from ci_automation.flows.publication.publish import Publication, publish, vouch_for
from ci_automation.flows.publication.recording import record_adoption, record_interrupted_rollback
from ci_automation.flows.publication.tags import VersionTags, digests_before, tag_for_ever
from ci_automation.flux.artifact import immutable_tag
from ci_automation.flux.release import ReleaseNotFound
from ci_automation.policy.decision import Decision
from ci_automation.registry.port import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ci_automation.artifact.reference import Digest
    from ci_automation.flows.planning.step import Rendered
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.version import Version
    from ci_automation.records.notes import Approval

_CANNOT_BE_REPEATED = (VerificationFailed, PolicyRefused, UsageError, Conflict, ReleaseNotFound, NotFound)


class Owed(Struct, frozen=True):
    """A step from `base` that an earlier run may have published without a record.

    `render` gives the step as it is decided now, and raises an error if it may not be carried out.
    """

    base: Digest
    render: Callable[[Base], tuple[Rendered, Approval | None]]


def automatic(planned: Planned) -> tuple[Rendered, ...]:
    """Return the steps of a plan up to the first that needs approval."""
    return tuple(takewhile(lambda rendered: rendered.step.decision is Decision.AUTO, planned.rendered))


def carry_out(
    placed: Placed,
    steps: Sequence[tuple[Rendered, Approval | None]],
    ports: Ports,
    intent: Intent,
    owed: Owed | None = None,
) -> bool:
    """Publish these steps, the first from the observed digest; return whether a person adopted that digest.

    What was adopted is taken over first, and what an interrupted run owes is written: the step in `owed`, if it led to
    what was observed and there is no record of that, or else what `_finish_interrupted` finds.

    Raises:
        Conflict, VerificationFailed, SigningError: see `publish`.
    """
    ports = ports.later_than(placed.last)
    if placed.record is None and (had := ports.ledger(placed.channel).last()):
        ports = ports.later_than(had.at)
    adopted = take_over(placed, ports, intent)
    if ports.signer is not None and placed.trust is Trust.VERIFIED:
        if owed is not None and placed.record is None:
            _repeat(placed, owed, ports, intent)
        else:
            _finish_interrupted(placed, ports, intent)
    settle_version_tags(placed, ports, intent)
    if steps:
        _keep_base(placed, steps[0][0].step.old_version, ports)
    content = placed.record.content if placed.record and not adopted else None
    for rendered, approval in steps:
        publication, git = Publication.of(placed.channel, rendered, approval), None
        if _brings_content(rendered):
            content = rendered.judged.content if rendered.judged else None
            git = None if content is None else ports.find_git()
        if content is not None and git is not None:
            publication = replace(publication, look_again=partial(git.look_again, content, rendered.after))
        else:
            ports.require_present()
        publish(replace(publication, content=content, listed=placed.tags), ports, intent)
    return adopted


def _keep_base(placed: Placed, version: Version, ports: Ports) -> None:
    """Tag the digest of a channel if it has no immutable tag: another tool made it, or a run was interrupted.

    A rollback needs it.
    """
    if placed.trust is Trust.VERIFIED and immutable_tag(version, placed.digest) not in placed.tags:
        tag_for_ever(placed.channel, version, placed.manifest, ports)


def settle_version_tags(placed: Placed, ports: Ports, intent: Intent) -> None:
    """Let the version tags of a channel lead where they belong, if it has them and what it has is signed.

    Raises:
        ChannelMoved, TagMoved, VersionTagTaken: see `VersionTags.settle`.
    """
    if intent.version_tags and placed.trust is not Trust.UNCHECKED:
        had = digests_before(None, placed.holds)
        VersionTags(placed.channel, present_version(placed, ports, intent), ports, had).settle(placed.manifest)


def take_over(placed: Placed, ports: Ports, intent: Intent) -> bool:
    """Record, sign and tag the digest that a person adopted; return whether there was one.

    Raises:
        SigningError: it cannot be signed.
    """
    if placed.trust is not Trust.ADOPTED or ports.signer is None:
        return False
    contents = read_contents(placed, ports, intent)
    ports.require_present()
    record_adoption(placed, contents, ports, intent)  # first: what is signed is adopted no more
    vouch_for(placed, contents.version, ports, intent)
    return True


def _finish_interrupted(placed: Placed, ports: Ports, intent: Intent) -> None:
    """Write the record or the immutable tag that an interrupted run owes for the present digest.

    A rollback left its hold. Otherwise the newest record and today's policy have to lead to this very digest: then the
    step there is carried out again, which finds all of it done but the record. Nothing else is recorded.
    """
    if record_interrupted_rollback(placed, ports, intent):
        return
    if placed.record is not None:
        _keep_base(placed, placed.record.version, ports)  # an adoption may have ended before that
        return
    if (last := ports.ledger(placed.channel).last()) is None:
        return
    try:
        planned = plan_on(observe_past(placed.channel, last.digest, ports), ports, replace(intent, adopt=False))
    except _CANNOT_BE_REPEATED as error:
        _say_unproven(placed, error, ports)
        return
    content = last.content
    for rendered in automatic(planned):
        content = None if _brings_content(rendered) else content
        if rendered.step.target == placed.digest:
            publication = replace(Publication.of(placed.channel, rendered, recovered=True), content=content)
            publish(publication, ports.later_than(last.at), intent)


def _say_unproven(placed: Placed, why: object, ports: Ports) -> None:
    ports.say(f"who published {placed.digest} cannot be proven: {why}")


def _brings_content(rendered: Rendered) -> bool:
    return rendered.step.kind == "content" or rendered.step.changes_content


def _repeat(placed: Placed, owed: Owed, ports: Ports, intent: Intent) -> None:
    """Repeat the step to the observed digest, which an interrupted run did except for its record."""
    ledger = ports.ledger(placed.channel)
    if went_to := ledger.went_to(owed.base):
        _say_unproven(placed, f"the channel went from {owed.base} to {went_to}", ports)
        return
    try:
        base = read_base(observe_past(placed.channel, owed.base, ports), ports, intent)
        again = owed.render(replace(base, holds=ledger.holds(owed.base)))
    except _CANNOT_BE_REPEATED as error:
        _say_unproven(placed, error, ports)
        return
    earlier = ledger.records(owed.base)
    ports = ports.later_than(earlier[-1].at if earlier else None)
    content = earlier[-1].content if earlier and not _brings_content(again[0]) else None
    publish(replace(Publication.of(placed.channel, *again, recovered=True), content=content), ports, intent)
