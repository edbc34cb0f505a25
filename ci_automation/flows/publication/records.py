"""Publication records: written after a channel moved, believed only where their signature holds.

A record is a referrer of the digest (design section 5.1), with a media type of its own, so that Flux does not take it
for a signature; in it is a Sigstore bundle over the statement. No cluster needs it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_automation.attestation.record import MEDIA_TYPE, InvalidRecord, Record
from ci_automation.attestation.statement import subject_name
from ci_automation.errors import VerificationFailed
from ci_automation.flows.publication import holds, statements
from ci_automation.flux.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.manifest import Manifest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.publication.statements import Said
    from ci_automation.registry.port import Registry
    from ci_automation.signing.signer import Signer
    from ci_automation.signing.trust import Trusted

_IMMUTABLE = re.compile(r"(?P<version>v.+)-(?P<digest>[0-9a-f]{12})")


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
    bundle = statements.sign(record.to_statement(subject_name(channel)), signer)
    statements.attach(registry, channel, manifest, MEDIA_TYPE, bundle)


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


def superseded_by(
    registry: Registry, channel: Reference, digest: Digest, version: Version, trusted: Trusted, tags: Collection[str]
) -> Record | None:
    """Return the record of where `channel` was last, after it had been at `digest`, which is of `version`.

    If there is one, somebody without a key moved the channel back to what was signed once: nothing may be built on
    that. Only digests that immutable tags of the same or a higher version name are looked at, which is none in a
    repository whose channel has its newest. A move back of ours (`rollback`) has a newer record of its own, or, where
    the run had no time for that, at least the hold that it wrote before.

    Raises:
        ImmutableTagMoved: a tag hides such a digest.
        NotAnIndex, TooManyRecords: somebody hides the records of one.
    """
    later = {tag: found for tag in tags if (found := _stated(tag)) and found >= version}
    later = {tag: found for tag, found in later.items() if not tag.endswith(digest.short)}
    if not later:
        return None
    own, after = _latest(registry, channel, digest, trusted), []
    for tag, found in later.items():
        other = registry.resolve(channel.at_tag(tag))
        if other is None:
            continue
        if not tag.endswith(other.short):
            raise ImmutableTagMoved(channel.at_tag(tag), other)
        record = _latest(registry, channel, other, trusted)
        if record is not None and _is_later(record, own, digest, higher=found > version):
            after.append(record)
    if after and (held := holds.read(registry, channel, digest, trusted)):
        after = [record for record in after if record.at > held[-1].at]
    return max(after, key=lambda record: record.at, default=None)


def newest(registry: Registry, channel: Reference, trusted: Trusted) -> Record | None:
    """Return the record of where `channel` was put last, of all digests that immutable tags name; it reads them all.

    Raises:
        ImmutableTagMoved: a tag hides a digest.
        NotAnIndex, TooManyRecords: somebody hides the records of one.
    """
    found: list[Record] = []
    for tag in registry.tags(channel):
        if _stated(tag) is None or (digest := registry.resolve(channel.at_tag(tag))) is None:
            continue
        if not tag.endswith(digest.short):
            raise ImmutableTagMoved(channel.at_tag(tag), digest)
        if (record := _latest(registry, channel, digest, trusted)) is not None:
            found.append(record)
    followed = {record.previous for record in found}
    return max(found, key=lambda record: (record.at, record.digest not in followed), default=None)


def _is_later(record: Record, own: Record | None, digest: Digest, *, higher: bool) -> bool:
    """Return whether the channel was where `record` says after it was at `digest`, whose latest record is `own`.

    Without one of its own, only a higher version or the chain of previous digests tells: a run that published the same
    version anew, with other options, may have ended before it wrote its record.
    """
    follows = record.previous == digest
    if own is None:
        return follows or higher
    return record.at > own.at or (record.at == own.at and follows and own.previous != record.digest)


def _latest(registry: Registry, channel: Reference, digest: Digest, trusted: Trusted) -> Record | None:
    records = [record for record in read(registry, channel, digest, trusted) if record.is_for(channel)]
    return records[-1] if records else None


def _stated(tag: str) -> Version | None:
    """Return the version in an immutable tag, in which `_` stands for `+`, or None where it is another tag."""
    if (match := _IMMUTABLE.fullmatch(tag)) is None:
        return None
    try:
        return Version.parse(match["version"].replace("_", "+"))
    except InvalidVersion:
        return None
