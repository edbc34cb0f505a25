"""Publication records: written after a channel moved, believed only where their signature holds.

A record is a referrer of the digest (design section 5.1), with a media type of its own, so that Flux does not take it
for a signature; in it is a Sigstore bundle over the statement. No cluster needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.attestation.record import MEDIA_TYPE, InvalidRecord, Record
from ci_automation.attestation.statement import subject_name
from ci_automation.errors import VerificationFailed
from ci_automation.flows.publication import statements
from ci_automation.flux.artifact import immutable_version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.manifest import Manifest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.publication.statements import Said
    from ci_automation.flux.version import Version
    from ci_automation.policy.hold import Hold
    from ci_automation.registry.port import Registry
    from ci_automation.signing.signer import Signer
    from ci_automation.signing.trust import Trusted


class ImmutableTagMoved(VerificationFailed):
    """An immutable tag points at another digest than the one it is named after, so that the one it had is hidden."""

    hint = "Somebody moved a tag that must never move. Find out who, and point it back or delete it."

    def __init__(self, reference: Reference, found: Digest) -> None:
        super().__init__(f"{reference} points at {found}, which it is not named after")


def write(registry: Registry, channel: Reference, manifest: Manifest, record: Record, signer: Signer) -> None:
    """Attach `record` to the artifact with this manifest. The blob `CONFIG_BLOB` must be in the repository.

    Raises:
        SigningError: it cannot be signed.
    """
    attach_record(registry, channel, manifest, sign_record(record, channel, signer))


def sign_record(record: Record, channel: Reference, signer: Signer) -> bytes:
    """Return a signed record.

    Raises:
        SigningError: it cannot be signed.
    """
    return statements.sign(record.to_statement(subject_name(channel)), signer)


def attach_record(registry: Registry, channel: Reference, manifest: Manifest, signed: bytes) -> None:
    """Attach a signed record to the artifact with this manifest. The blob `CONFIG_BLOB` must be in the repository."""
    statements.attach(registry, channel, manifest, MEDIA_TYPE, signed)


def read(registry: Registry, reference: Reference, digest: Digest, trusted: Trusted) -> tuple[Record, ...]:
    """Return the records of `digest` that somebody trusted signed, the oldest first; others are as if not there.

    Raises:
        NotAnIndex: somebody put something else where the list of referrers has to be.
        TooManyRecords: somebody attached very many.
    """
    return believed(statements.read(registry, reference, digest, trusted, (MEDIA_TYPE,)))


def believed(said: Iterable[Said]) -> tuple[Record, ...]:
    """Return the records among what somebody trusted said, the oldest first, each by whoever is named in it."""
    found = []
    for each in said:
        if each.kind == MEDIA_TYPE:
            try:
                record = Record.from_statement(each.statement)
            except InvalidRecord:
                continue
            if record.by == each.by:
                found.append(record)
    return tuple(sorted(found, key=lambda record: record.at))


def of_channel(registry: Registry, channel: Reference, digest: Digest, trusted: Trusted) -> tuple[Record, ...]:
    """Return the records of `digest` that say that `channel` moved there, the oldest first; see `read`."""
    name = statements.channel_name(registry, channel)
    return tuple(record for record in read(registry, channel, digest, trusted) if record.channel == name)


class Position(Struct, frozen=True):
    """Where a channel is: its digest and version, the newest record of it there, and the newest hold on it there."""

    channel: Reference
    digest: Digest
    version: Version
    record: Record | None
    hold: Hold | None


def superseded_by(registry: Registry, position: Position, tags: Collection[str], trusted: Trusted) -> Record | None:
    """Return the record of where the channel was last, after it had been at this position.

    If there is one, an attacker without a key moved the channel back to what was signed once: nothing may be built on
    that. Only digests that immutable tags of the same or a higher version name are looked at, which is none in a
    repository whose channel has its newest. A move back of ours (`rollback`) has a newer record of its own, or, if the
    run had no time for that, at least the hold that it wrote before.

    Raises:
        ImmutableTagMoved: a tag hides such a digest.
        NotAnIndex, TooManyRecords: an attacker hides the records of one.
    """
    after = []
    for tag in tags:
        found = immutable_version(tag)
        if found is None or found < position.version or tag.endswith(position.digest.short):
            continue
        other = _named(registry, position.channel.at_tag(tag))
        record = _latest(registry, position.channel, other, trusted) if other else None
        if record is not None and _is_later(record, position, higher=found > position.version):
            after.append(record)
    if position.hold is not None:
        after = [record for record in after if record.at > position.hold.since]
    return max(after, key=lambda record: record.at, default=None)


def newest(registry: Registry, channel: Reference, trusted: Trusted) -> Record | None:
    """Return the record of where `channel` was put last, of all digests that immutable tags name; it reads them all.

    Raises:
        ImmutableTagMoved: a tag hides a digest.
        NotAnIndex, TooManyRecords: an attacker hides the records of one.
    """
    found: list[Record] = []
    for tag in registry.tags(channel):
        if immutable_version(tag) is None or (digest := _named(registry, channel.at_tag(tag))) is None:
            continue
        if (record := _latest(registry, channel, digest, trusted)) is not None:
            found.append(record)
    followed = {record.previous for record in found}
    return max(found, key=lambda record: (record.at, record.digest not in followed), default=None)


def _named(registry: Registry, tag: Reference) -> Digest | None:
    """Return the digest behind an immutable tag, None if the tag is gone."""
    digest = registry.resolve(tag)
    if digest is not None and not str(tag.tag).endswith(digest.short):
        raise ImmutableTagMoved(tag, digest)
    return digest


def _is_later(record: Record, position: Position, *, higher: bool) -> bool:
    """Return whether the channel was where `record` says after it was at `position`.

    Without a record of the position, only a higher version or the chain of previous digests tells: a run that published
    the same version anew, with other options, may have ended before it wrote its record.
    """
    own, follows = position.record, record.previous == position.digest
    if own is None:
        return follows or higher
    return record.at > own.at or (record.at == own.at and follows and own.previous != record.digest)


def _latest(registry: Registry, channel: Reference, digest: Digest, trusted: Trusted) -> Record | None:
    found = of_channel(registry, channel, digest, trusted)
    return found[-1] if found else None
