"""Holds: signed and read back before a channel moves back, and honoured by every way that leads on from there.

A hold is a referrer of the digest that the channel was moved back to (design section 5.1). What is published on top of
that digest, and still is no newer version than the refused one, gets the same hold before the channel moves to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.attestation.hold import MEDIA_TYPE, HoldStatement, InvalidHold
from ci_automation.attestation.record import channel_name
from ci_automation.attestation.statement import subject_name
from ci_automation.errors import VerificationFailed
from ci_automation.flows.publication import statements
from ci_automation.policy.hold import Hold

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


@dataclass(frozen=True, slots=True)
class Keeping:
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
    return believed(statements.read(registry, channel, digest, trusted, (MEDIA_TYPE,)), channel)


def believed(said: Iterable[Said], channel: Reference) -> tuple[Hold, ...]:
    """Return the holds of `channel` among what somebody trusted said; see `read`."""
    found = sorted((it for it in stated(said) if it.is_for(channel)), key=lambda it: it.at)
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
        statement = HoldStatement(
            channel=channel_name(channel),
            digest=digest,
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
        statements.attach(registry, channel, keeping.manifest, MEDIA_TYPE, bundle)
    if missing:
        kept = read(registry, channel, digest, signer.trusted)
        if not all(_has(kept, hold) for hold in missing):
            raise HoldNotKept(channel.at_digest(digest))


def _has(present: Sequence[Hold], wanted: Hold) -> bool:
    """Return whether a hold is there, or a later word about the same digest."""
    return any(hold == wanted or (hold.digest == wanted.digest and hold.at > wanted.at) for hold in present)
