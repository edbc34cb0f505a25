"""Whether a channel is where it belongs: what signed records and holds say of the digest that it has."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.errors import VerificationFailed
from ci_automation.flows.observe import ChannelMoved, Trust
from ci_automation.flows.publication.adopt import adopt
from ci_automation.records.attached import channel_name
from ci_automation.records.ledger import Position, holds_on, left_at, records_in

if TYPE_CHECKING:
    from ci_automation.flows.observe import Observed
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.version import Version
    from ci_automation.policy.hold import Hold
    from ci_automation.records.ledger import Ledger
    from ci_automation.records.publication import Record

_ADOPT = "If it was you, use --adopt, which shows every file first."


class ChannelMovedBack(VerificationFailed):
    """A channel points at a digest that it had left: an old one that is signed, and no longer wanted."""

    def __init__(self, observed: Observed, later: Record | datetime) -> None:
        channel = observed.channel
        if isinstance(later, datetime):
            moved = f"hold says that it was rolled back from there at {later:%Y-%m-%d %H:%M} UTC"
            back = "`history` shows where the rollback led"
        else:
            moved = (
                f"record says that it was moved on to {later.digest} ({later.version}) at {later.at:%Y-%m-%d %H:%M} UTC"
            )
            back = f"to go on from where it was, let {channel.tag} point at {later.digest} again"
        super().__init__(f"{channel} is at {observed.digest}, and a signed {moved}")
        self.hint = f"Nothing was built on it. Find out who moved the channel back; {back}. {_ADOPT}"


class PublishedElsewhere(VerificationFailed):
    """A channel points at a digest that was published to other channels, and never to this one."""

    def __init__(self, observed: Observed, others: tuple[str, ...]) -> None:
        super().__init__(
            f"{observed.channel} is at {observed.digest}, which was published to {', '.join(others)} and not to this "
            "channel"
        )
        self.hint = (
            "Nothing was built on it or recorded. Find out who moved the channel there. `promote` finishes a promotion "
            f"that was interrupted. {_ADOPT}"
        )


class Placement(Struct, frozen=True):
    """What trusted signers said of the digest that a channel has.

    `record` is the newest record of this channel about it, `others` the channels that it was published to if there is
    none. `rolled_back` is the newest hold on it if no record of the channel is as new: its rollback wrote no record.
    `left` is when a rollback moved the channel away from it, if no record is newer. `tags` are the repository's.
    """

    record: Record | None = None
    others: tuple[str, ...] = ()
    rolled_back: Hold | None = None
    left: datetime | None = None
    holds: tuple[Hold, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def last(self) -> datetime | None:
        """Return when the channel was last said to come to the digest, or to leave it."""
        own = (self.record.at if self.record else None, self.left, *(hold.since for hold in self.holds))
        return max((at for at in own if at is not None), default=None)


def placement_of(observed: Observed, ports: Ports) -> Placement:
    """Return what trusted signers said of the digest that a channel has; nothing if nobody is trusted.

    Raises:
        NotAnIndex, TooManyRecords: an attacker hides some of it.
    """
    if (ledger := ports.ledger(observed.channel)) is None:
        return Placement()
    said, name = ledger.said(observed.digest), ledger.name
    found = records_in(said)
    own = [record for record in found if record.channel == name]
    record = own[-1] if own else None
    others = () if own else tuple(sorted({record.channel for record in found}))
    held, left = holds_on(said, name), left_at(said, name)
    return Placement(
        record=record,
        others=others,
        rolled_back=_unrecorded(ledger, held, record),
        left=left if left and not (record and record.at > left) else None,
        holds=held,
        tags=ports.registry.tags(observed.channel),
    )


def _unrecorded(ledger: Ledger, held: tuple[Hold, ...], record: Record | None) -> Hold | None:
    """Return the hold of a rollback that no record of the channel is as new as, if that led here.

    A hold that was only carried on, by a publication that ended before its own record, is older than the record of the
    rollback that wrote it.
    """
    hold = max(held, key=lambda hold: hold.since, default=None)
    if hold is None or (record is not None and record.at >= hold.since):
        return None
    last = ledger.newest()
    return hold if last is None or last.at < hold.since else None


def as_mirrored(placement: Placement, observed: Observed, ports: Ports) -> Placement:
    """Return the placement without the channels of other repositories: a mirror copies the records of its source."""
    here = channel_name(ports.registry, observed.channel).rpartition(":")[0]
    return replace(placement, others=tuple(name for name in placement.others if name.rpartition(":")[0] == here))


def problem_of(observed: Observed, version: Version, placement: Placement, ports: Ports) -> VerificationFailed | None:
    """Return why a channel, which has `version`, is not where it belongs; None if nothing speaks against it.

    Raises:
        ImmutableTagMoved, NotAnIndex, TooManyRecords: an attacker hides a part of the channel's past.
    """
    if (ledger := ports.ledger(observed.channel)) is None:
        return None
    if placement.others:
        return PublishedElsewhere(observed, placement.others)
    if placement.left is not None:
        return ChannelMovedBack(observed, placement.left)
    hold = max(placement.holds, key=lambda hold: hold.since, default=None)
    position = Position(observed.digest, version, placement.record, hold)
    later = ledger.superseded_by(position, placement.tags)
    return ChannelMovedBack(observed, later) if later else None


def in_place(
    observed: Observed, version: Version, ports: Ports, intent: Intent, *, approved: bool = False
) -> tuple[Observed, Placement]:
    """Return a channel, which has `version`, with its placement, if it is where it belongs or a person adopts it.

    A person who `approved` this very digest for this channel is word enough that it belongs there.

    Raises:
        ChannelMovedBack: signed statements say that it had left this digest.
        PublishedElsewhere: signed records say that the digest is another channel's.
        NotAdopted: a person was asked, and did not say yes.
    """
    placement = placement_of(observed, ports)
    if observed.trust is Trust.ADOPTED:
        return observed, placement
    if approved:
        placement = replace(placement, others=())
    problem = problem_of(observed, version, placement, ports)
    if problem is None:
        return observed, placement
    require_still_there(observed, ports)
    if not intent.adopt:
        raise problem
    return adopt(observed, str(problem), ports, intent), replace(placement, others=())


def require_still_there(observed: Observed, ports: Ports) -> None:
    """Check that a problem is not just that somebody published while we looked.

    Raises:
        ChannelMoved: it is.
    """
    if (now := ports.registry.resolve(observed.channel)) != observed.digest:
        raise ChannelMoved(observed.channel, observed.digest, now)
