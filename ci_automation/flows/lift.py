"""Lift the holds of a channel: a signed statement beside the present digest ends each; the channel stays."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB
from ci_automation.errors import UsageError
from ci_automation.flows.observe import ChannelMoved, Observed, look_at
from ci_automation.flows.planning.base import present_version
from ci_automation.flows.publication.placement import place, problem_of, require_still_there
from ci_automation.flows.publication.publish import require_counted
from ci_automation.flux.artifact import immutable_tag
from ci_automation.records.ledger import ImmutableTagMoved, Ledger
from ci_automation.records.writer import HoldNotKept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.policy.decision import Hold
    from ci_automation.records.writer import RecordWriter

_LATER = timedelta(seconds=1)
_NEVER = datetime.min.replace(tzinfo=UTC)


class NoSuchHold(UsageError):
    """The hold to lift is not there, or not clear."""

    def __init__(self, channel: Reference, to: str, on: Sequence[str], left: Sequence[str]) -> None:
        found = "; ".join(on)
        wanted = f"no single hold that {to} names" if to else "several holds"
        super().__init__(f"{channel} has {wanted if on else 'no hold now'}{': ' if found else ''}{found}")
        nothing = " ".join(("There is nothing to lift.", *left))
        self.hint = (
            "Give the digest of one of these holds as `to`, or the version or digest that it is on." if on else nothing
        )


class Lifted(Struct, frozen=True):
    """Position of the channel, and the holds that ended; if there were none, those on digests that it has left."""

    channel: Reference
    digest: Digest
    holds: tuple[Hold, ...]
    elsewhere: tuple[tuple[Digest, Hold], ...] = ()


def lift(
    channel: Reference,
    reason: str,
    ports: Ports,
    intent: Intent,
    only: Digest | None = None,
    ask: Callable[[Sequence[Hold]], None] = lambda _: None,
) -> Lifted:
    """End the holds on what `channel` has now, or the one whose statement has the digest `only`; return what ended.

    If none is on, nothing is written. Else `ask` gets them; its error prevents that.

    Raises:
        ChannelMoved: the channel moved meanwhile, and took its holds along.
        HoldNotKept: the registry does not keep the end.
        NoSigner, IdentityChange: the end could not be signed by a trusted signer.
        NobodyTrusted: there are no trusted signers, so no hold counts.
        ChannelMovedBack, PublishedElsewhere: the channel is not where it belongs, and its hold is elsewhere.
    """
    require_counted(ports)
    writer, ledger = ports.writer(channel, intent.run), ports.ledger(channel)
    observed = look_at(channel, ports)
    on = [hold for each, hold in ledger.named_holds(observed.digest) if hold.is_on(intent.now) and only in {None, each}]
    if not on:
        return Lifted(channel, observed.digest, (), elsewhere=tuple(_left_behind(observed, ledger, intent)))
    version = present_version(observed, ports, intent)
    if problem := problem_of(place(observed, ports), version, ports):
        require_still_there(observed, ports)
        raise problem
    ended = tuple(ended_hold(hold, reason, ports.clock(), intent.now) for hold in on)
    ask(on)
    ports.registry.put_blob(channel, CONFIG_BLOB)  # what another tool published may lack it
    _lift_copies(observed, on, reason, writer, ports, intent)
    writer.keep(observed.manifest, ended)
    refused = {hold.digest for hold in ended}
    if any(hold.is_on(intent.now) and hold.digest in refused for hold in ledger.holds(observed.digest)):
        raise HoldNotKept(channel.at_digest(observed.digest), ends=True)
    if (found := ports.registry.resolve(channel)) != observed.digest:
        raise ChannelMoved(channel, observed.digest, found)
    return Lifted(channel, observed.digest, ended)


def _lift_copies(
    observed: Observed, on: Sequence[Hold], reason: str, writer: RecordWriter, ports: Ports, intent: Intent
) -> None:
    """End the same holds, and older ones on the same digests, where the channel was before: it may come there again.

    This is first, so that a run that ends early is repeated. What an attacker hides stays held.
    """
    lifted = {hold.digest: hold.since for hold in on}
    for digest, hold in _left_behind(observed, replace(ports.ledger(observed.channel), lenient=True), intent):
        if hold.since <= lifted.get(hold.digest, _NEVER):
            there = ports.registry.manifest(observed.channel.at_digest(digest))
            writer.keep(there, (ended_hold(hold, reason, ports.clock(), intent.now),))


def _left_behind(observed: Observed, ledger: Ledger, intent: Intent) -> Iterator[tuple[Digest, Hold]]:
    """Yield the holds on digests that the channel has left, each after the digest; those on older releases are over."""
    with suppress(ImmutableTagMoved):
        for digest, hold in ledger.all_holds():
            if digest != observed.digest and hold.goes_on(observed.version or hold.version, intent.now):
                yield digest, hold


def left_hold(digest: Digest, hold: Hold) -> str:
    """Return the sentence for people that a hold is on a digest that the channel has left."""
    return f"A hold on {hold.version} is on {digest}, which the channel has left: it counts when the channel is there."


def hold_to_lift(observed: Observed, to: str, ports: Ports, intent: Intent) -> tuple[Digest, Hold]:
    """Return the only hold on what a channel has, or the one that `to` names, and the digest of its statement.

    `to` is that digest, or the digest, the immutable tag or the version that the hold is on.

    Raises:
        NoSuchHold: it is not there, or not clear.
    """
    ledger = ports.ledger(observed.channel)
    on = tuple((name, hold) for name, hold in ledger.named_holds(observed.digest) if hold.is_on(intent.now))
    found = [it for it in on if to in {"", *_names(*it)}]
    if len(found) != 1:
        left = () if on else _left_behind(observed, ledger, intent)
        told = [f"{name} is on {hold.told} {hold.end}" for name, hold in on]
        raise NoSuchHold(observed.channel, to, told, [left_hold(*it) for it in left])
    return found[0]


def _names(name: Digest, hold: Hold) -> set[str]:
    """Return what a person may call a hold: a version only if the hold is on that."""
    version = str(hold.version)
    on = {str(hold.digest), hold.digest.short, str(immutable_tag(hold.version, hold.digest))}
    return {str(name), *on} | (set() if hold.alone else {version, version.removeprefix("v")})


def ended_hold(hold: Hold, reason: str, at: datetime, now: datetime) -> Hold:
    """Return the later word that a hold is over since it began, whatever the clocks of other machines show."""
    at, until = max(at, hold.at + _LATER), min(now, hold.since)
    return replace(hold, at=at, until=until, reason=reason, moved=hold.since)
