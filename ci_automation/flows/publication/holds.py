"""Holds: signed and read back before a channel moves back, and honoured by every way that leads on from there.

A hold is a referrer of the digest that the channel was moved back to (design section 5.1). What is published on top of
that digest, and still is no newer version than the refused one, gets the same hold before the channel moves to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.attestation.hold import MEDIA_TYPE, HoldStatement, InvalidHold
from ci_automation.attestation.statement import subject_name
from ci_automation.errors import VerificationFailed
from ci_automation.flows.publication import statements
from ci_automation.policy.hold import Hold

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.manifest import Manifest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flows.publication.statements import Said
    from ci_automation.registry.port import Registry
    from ci_automation.signing.signer import Signer
    from ci_automation.signing.trust import Trusted


class HoldNotKept(VerificationFailed):
    """A hold was written, and the registry does not show it, so that the channel did not move."""

    hint = (
        "Without it the next scheduled run would undo the rollback. Check that the registry keeps referrers; run again."
    )

    def __init__(self, reference: Reference) -> None:
        super().__init__(f"the hold on {reference} was written, and cannot be read back")


class Keeping(Struct, frozen=True):
    """Which holds what a channel is about to point at must have, and who signs them."""

    channel: Reference
    manifest: Manifest
    holds: tuple[Hold, ...]
    signer: Signer


def read(registry: Registry, channel: Reference, digest: Digest, trusted: Trusted) -> tuple[Hold, ...]:
    """Return the holds of `channel` on `digest` that somebody trusted signed, the oldest first.

    Others are as if not there. Of several about the same refused digest the newest counts. Also those are among them
    whose date has passed.

    Raises:
        NotAnIndex: somebody put something else where the list of referrers has to be.
        TooManyRecords: somebody attached very many.
    """
    said = statements.read(registry, channel, digest, trusted, (MEDIA_TYPE,))
    return believed(said, statements.channel_name(registry, channel))


def believed(said: Iterable[Said], channel: str) -> tuple[Hold, ...]:
    """Return the holds of the channel with this name among what somebody trusted said; see `read`."""
    found = [it for it in stated(said) if it.channel == channel and it.digest != it.refused_digest]
    newest = {it.refused_digest: it for it in found}
    holds = (
        Hold(it.refused_version, it.refused_digest, it.at, it.until, it.reason, it.moved) for it in newest.values()
    )
    return tuple(sorted(holds, key=lambda hold: hold.at))


def stated(said: Iterable[Said]) -> tuple[HoldStatement, ...]:
    """Return the holds of all channels among what somebody trusted said, the oldest first, each by whoever is named."""
    found = []
    for each in said:
        if each.kind == MEDIA_TYPE:
            try:
                hold = HoldStatement.from_statement(each.statement)
            except InvalidHold:
                continue
            if hold.by == each.by:
                found.append(hold)
    return tuple(sorted(found, key=lambda hold: hold.at))


def left_at(said: Iterable[Said], channel: str) -> datetime | None:
    """Return when a rollback last moved the channel with this name away from the digest, None if none did."""
    found = [it for it in stated(said) if it.channel == channel and it.digest == it.refused_digest]
    return max((it.moved or it.at for it in found), default=None)


def on_base(channel: Reference, digest: Digest | None, ports: Ports) -> tuple[Hold, ...]:
    """Return the holds that whoever moves `channel` on from `digest` has to honour; none where nobody is trusted."""
    if digest is None or ports.trusted is None:
        return ()
    return read(ports.registry, channel, digest, ports.trusted)


def keep(keeping: Keeping, ports: Ports, intent: Intent) -> None:
    """Attach to a manifest each of its holds that it lacks, and read them back.

    The blob `CONFIG_BLOB` must be in the repository.

    Raises:
        SigningError: it cannot be signed.
        HoldNotKept: the registry does not show what was written.
    """
    registry, channel, digest, signer = ports.registry, keeping.channel, keeping.manifest.digest, keeping.signer
    if not keeping.holds:
        return
    present = read(registry, channel, digest, signer.trusted)
    missing = [hold for hold in keeping.holds if not _has(present, hold)]
    for hold in missing:
        ports.say(f"holding {hold.version}")
        _attach(keeping.channel, keeping.manifest, hold, signer, ports, intent)
    if missing:
        kept = read(registry, channel, digest, signer.trusted)
        if not all(_has(kept, hold) for hold in missing):
            raise HoldNotKept(channel.at_digest(digest))


def mark_left(channel: Reference, left: Manifest, hold: Hold, signer: Signer, ports: Ports, intent: Intent) -> None:
    """Attach to the digest that a rollback moved `channel` away from that it did, unless that is there.

    Without it only the older digest would tell, and no run reads those: an attacker could move the channel up again.

    Raises:
        SigningError: it cannot be signed.
    """
    said = statements.read(ports.registry, channel, left.digest, signer.trusted, (MEDIA_TYPE,))
    known = left_at(said, statements.channel_name(ports.registry, channel))
    if known is None or known < hold.since:
        _attach(channel, left, hold, signer, ports, intent)


def _attach(channel: Reference, manifest: Manifest, hold: Hold, signer: Signer, ports: Ports, intent: Intent) -> None:
    statement = HoldStatement(
        channel=statements.channel_name(ports.registry, channel),
        digest=manifest.digest,
        refused_version=hold.version,
        refused_digest=hold.digest,
        until=hold.until,
        reason=hold.reason,
        by=str(signer.who),
        at=hold.at,
        run=intent.run.url or None,
        moved=hold.moved,
    )
    bundle = statements.sign(statement.to_statement(subject_name(channel)), signer)
    statements.attach(ports.registry, channel, manifest, MEDIA_TYPE, bundle)


def _has(present: Sequence[Hold], wanted: Hold) -> bool:
    """Return whether a hold is there, or a later word about the same digest."""
    return any(hold == wanted or (hold.digest == wanted.digest and hold.at > wanted.at) for hold in present)
