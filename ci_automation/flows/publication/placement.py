"""Check that a channel is where it belongs, by signed records and holds."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from ci_automation.artifact.reference import OciRepository
from ci_automation.errors import VerificationFailed
from ci_automation.flows.observe import ChannelMoved, Observed, Placed, Trust, look_at
from ci_automation.flows.publication.adoption import confirm
from ci_automation.impact.change import in_shell
from ci_automation.records.attached import channel_name, known_as
from ci_automation.records.ledger import HIDING, Ledger, Position, holds_on, left_at, notes_in
from ci_automation.records.notes import Record

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.version import Version
    from ci_automation.policy.decision import Hold
    from ci_automation.records.attached import Said

_PROMOTE = "`promote` finishes an interrupted promotion while its source still has the digest"


class ChannelMovedBack(VerificationFailed):
    """A channel points at an old signed digest that it had left, and not at the `last` one that it had."""

    hint = (
        "Nothing was published on it. Its tag was moved without a record: find out who moved it. `rollback --to` with "
        "the digest in the message puts it back; `update --adopt` goes on from what it has."
    )

    def __init__(self, observed: Observed, later: Record | datetime, last: Record | None) -> None:
        self.last, channel = last, observed.channel
        if isinstance(later, datetime):
            moved = f"hold says that it was rolled back from there at {later:%Y-%m-%d %H:%M} UTC"
        else:
            moved = (
                f"record says that it was moved on to {later.digest} ({later.version}) at {later.at:%Y-%m-%d %H:%M} UTC"
            )
        super().__init__(f"{channel} is at {observed.digest}, and a signed {moved}")
        back = _way_back(observed, last) or f"{in_shell('history', str(channel))} shows what it had. "
        self.hint = (
            "Nothing was published on it. Its tag was moved without a record: find out who moved it. "
            f"{back}{_if_you(channel)}"
        )


class PublishedElsewhere(VerificationFailed):
    """A channel points at a digest that only other channels published."""

    def __init__(
        self, observed: Observed, others: tuple[str, ...], last: Record | None = None, finish: str = _PROMOTE
    ) -> None:
        super().__init__(
            f"{observed.channel} is at {observed.digest}, which was published to {', '.join(others)} and not to this "
            "channel"
        )
        self.hint = (
            f"Nothing was published or recorded on it. Find out who moved the channel there. {finish}. "
            f"{_way_back(observed, last)}{_if_you(observed.channel)}"
        )


def _way_back(observed: Observed, last: Record | None) -> str:
    if last is None or last.digest == observed.digest:
        return ""
    return f"To put it back at {last.version}: {putting_back(observed.channel, last)}. "


def putting_back(channel: Reference, last: Record) -> str:
    """Return how a person moves a channel back to what it had last."""
    command = in_shell("rollback", str(channel), "--to", str(last.digest))
    return f"{command} (in GitHub Actions: rollback, with that digest as `to`)"


def _if_you(channel: Reference) -> str:
    adopting = in_shell("update", str(channel), "--adopt")
    return f"If you moved it, use {adopting} (in GitHub Actions: adopt), which shows every file first."


def place(observed: Observed, ports: Ports, said: tuple[Said, ...] | None = None) -> Placed:
    """Return a channel with what trusted signers said of the digest that it has; nothing without a trusted signer.

    That is `said`, if the caller has read it.

    Raises:
        NotAnIndex, TooManyRecords: an attacker hides some of it.
    """
    placed = Placed(**asdict(observed))
    if ports.trusted is None:
        return placed
    registry, ledger = ports.registry, ports.ledger(observed.channel)
    name = ledger.name
    read = partial(ledger.said, observed.digest) if said is None else partial(tuple, said)
    said, tags = registry.at_once(read, partial(registry.tags, observed.channel))
    found = notes_in(said, Record)
    own = [record for record in found if record.channel == name]
    record = own[-1] if own else None
    held, left = holds_on(said, name), left_at(said, name)
    return replace(
        placed,
        record=record,
        others=() if own else tuple(sorted({record.channel for record in found})),
        rolled_back=_unrecorded(ledger, held, record),
        left=left if left and not (record and record.at > left) else None,
        holds=held,
        tags=tags,
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


def had_last(channel: Reference, ports: Ports) -> tuple[Record | None, tuple[Hold, ...]]:
    """Return what a channel had last, and the holds on that: deleting a tag ends no hold.

    Raises:
        ImmutableTagMoved: a tag hides a digest.
    """
    ledger = ports.ledger(channel)
    last = ledger.last()
    return last, ledger.holds(last.digest) if last else ()


def as_mirrored(placed: Placed, ports: Ports) -> Placed:
    """Return it without the channels of other repositories, unless a run published here: a mirror has no records.

    Raises:
        ImmutableTagMoved, NotAnIndex, TooManyRecords: an attacker hides a part of the channel's past.
    """
    if not placed.others or ports.ledger(placed.channel).newest() is not None:
        return placed
    here = channel_name(ports.registry, placed.channel).rpartition(":")[0]
    return replace(placed, others=tuple(name for name in placed.others if name.rpartition(":")[0] == here))


def problem_of(placed: Placed, version: Version, ports: Ports) -> VerificationFailed | None:
    """Return why a channel, which has `version`, is not where it belongs; None if nothing speaks against it.

    Raises:
        ImmutableTagMoved, NotAnIndex, TooManyRecords: an attacker hides a part of the channel's past.
    """
    if placed.others:
        others = (known_as(ports.registry, placed.channel, name) for name in placed.others)
        return PublishedElsewhere(placed, tuple(others), _last(placed.channel, ports))
    if placed.left is not None:
        return ChannelMovedBack(placed, placed.left, _last(placed.channel, ports))
    hold = max(placed.holds, key=lambda hold: hold.since, default=None)
    if hold and placed.record and placed.record.at < hold.since and not placed.rolled_back:
        hold = None  # its rollback ended before it moved the channel, which went elsewhere since
    position = Position(placed.digest, version, placed.record, hold)
    later = ports.ledger(placed.channel).superseded_by(position, placed.tags)
    return ChannelMovedBack(placed, later, _last(placed.channel, ports)) if later else None


def _last(channel: Reference, ports: Ports) -> Record | None:
    """Return the record of what a channel had last, None if an attacker hides a part of its past."""
    with suppress(*HIDING):
        return ports.ledger(channel).last()
    return None


def way_back_of_deleted(channel: Reference, ports: Ports) -> str:
    """Return how a person puts back a channel without its tag at what it had last; nothing if no record tells.

    What a rollback left, by the note on it, is nothing to go back to.
    """
    if (last := _last(channel, ports)) is None:
        return ""
    there = place(replace(look_at(channel.at_digest(last.digest), ports), channel=channel), ports)
    if there.left is not None:
        return ""
    goal = channel.at_digest(last.digest)
    how = f"let the tag point at {last.digest}"
    if isinstance(channel.repository, OciRepository):
        how = in_shell("flux", "tag", "artifact", str(goal), "--tag", str(channel.tag))
    return (
        f"The tag was deleted: its signed records say that it had {last.version} last. Find out who deleted it. To put "
        f"it back: {how}. `update` and `verify` look at its signature and at its records then."
    )


def in_place(observed: Observed, version: Version, ports: Ports, intent: Intent, *, approved: bool = False) -> Placed:
    """Return a channel, which has `version`, if it is where it belongs or a person adopts it.

    A person who `approved` this very digest for this channel is word enough that it belongs there.

    Raises:
        ChannelMovedBack: signed statements say that it had left this digest.
        PublishedElsewhere: signed records say that the digest is another channel's.
        NotAdopted: a person was asked, and did not say yes.
    """
    placed = observed if isinstance(observed, Placed) else place(observed, ports)
    if placed.trust is Trust.ADOPTED:
        return placed
    if approved:
        placed = replace(placed, others=())
    if (problem := problem_of(placed, version, ports)) is None:
        return placed
    require_still_there(placed, ports)
    if not intent.adopt:
        raise problem
    confirm(placed, str(problem), ports, intent)
    return replace(placed, trust=Trust.ADOPTED, others=())


def require_still_there(observed: Observed, ports: Ports) -> None:
    """Raise `ChannelMoved` if a problem is just that another run published while we looked."""
    if (now := ports.registry.resolve(observed.channel)) != observed.digest:
        raise ChannelMoved(observed.channel, observed.digest, now)
