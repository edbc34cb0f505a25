"""History of a repository: its immutable tags, the digests of its channels, its records and holds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.digest import Digest
from ci_automation.errors import VerificationFailed
from ci_automation.flux.artifact import immutable_version, stated_origin, stated_version, tagged_version
from ci_automation.flux.version import Version
from ci_automation.records.ledger import notes_in
from ci_automation.records.notes import HoldStatement, Record
from ci_automation.signing.verify import Unsigned, gather, verify

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Ports

# Signatures, attestations, SBOMs, and the fallback index of referrers (`sha256-<hex>` without a suffix).
_ATTACHED = re.compile(r"sha256-[0-9a-f]{64}(\.[a-z]+)?|.*\.(sig|att|sbom)")
MAX_TAGS = 500  # each costs some requests
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_NONE = Version.parse("0.0.0")


class HistoryEntry(Struct, frozen=True):
    """One digest: its immutable tag (none if another tool published it), the other tags on it, its records and holds.

    Without records its time and publisher are unknown. The number counts from the newest version, whoever is trusted.
    """

    digest: Digest
    version: Version | None
    tag: str | None
    signed: str
    channels: tuple[str, ...]
    version_tags: tuple[str, ...] = ()
    records: tuple[Record, ...] = ()
    holds: tuple[HoldStatement, ...] = ()
    origin: str = ""  # what its manifest says of its making, besides the version
    number: int = 0

    @property
    def last(self) -> datetime | None:
        """Return when a channel came to it last, if a record tells."""
        return self.records[-1].at if self.records else None


class History(Struct, frozen=True):
    """Every digest, and the number of tags left out because each costs requests."""

    entries: tuple[HistoryEntry, ...]
    left_out: int = 0


def immutable_references(reference: Reference, ports: Ports) -> tuple[Reference, ...]:
    """Return the immutable tags of the reference's repository, the highest version first; nothing else is read."""
    return tuple(reference.at_tag(tag) for _, tag in _versions(ports.registry.tags(reference)))


def history(reference: Reference, ports: Ports) -> History:
    """Return every digest that an immutable tag or a channel names: by time as far as records tell, then by version.

    Only records and holds of trusted signers count; without trusted signers there are none.
    """
    registry = ports.registry
    tags = [tag for tag in registry.tags(reference) if not _ATTACHED.fullmatch(tag)]
    wanted = _in_order(tags, reference)[:MAX_TAGS]
    digests: dict[Digest, list[str]] = {}
    for tag in wanted:
        ports.say(f"reading {tag}")
        if (digest := registry.resolve(reference.at_tag(tag))) is not None:
            digests.setdefault(digest, []).append(tag)
    entries = [_entry(reference, digest, sorted(names), ports) for digest, names in digests.items()]
    by_version = enumerate(sorted(entries, key=_by_version, reverse=True), 1)
    entries = [replace(entry, number=number) for number, entry in by_version]
    return History(tuple(sorted(entries, key=_newest_first, reverse=True)), len(tags) - len(wanted))


def _in_order(tags: list[str], reference: Reference) -> list[str]:
    """Return the tags in the order of reading: the channel that was named, the highest versions, and the others."""
    immutable = [tag for _, tag in _versions(tags)]
    own = [tag for tag in tags if tag == reference.tag]
    return list(dict.fromkeys([*own, *immutable, *tags]))


def _versions(tags: Iterable[str]) -> list[tuple[Version, str]]:
    """Return the immutable tags with their versions, the highest first."""
    return sorted(((version, tag) for tag in tags if (version := immutable_version(tag)) is not None), reverse=True)


def _entry(reference: Reference, digest: Digest, names: list[str], ports: Ports) -> HistoryEntry:
    try:
        manifest = ports.registry.manifest(reference.at_digest(digest))
        version, origin = stated_version(manifest), stated_origin(manifest)
    except VerificationFailed:  # whatever else people keep in the repository
        version, origin = None, ""
    immutable = [name for name in names if immutable_version(name) and name.endswith(digest.short)]
    if version is None and immutable:  # another tool made it, and an adoption gave it a tag
        version = immutable_version(immutable[0])
    others = [name for name in names if name not in immutable]
    said = ports.ledger(reference).said(digest)
    return HistoryEntry(
        digest=digest,
        version=version,
        tag=immutable[0] if immutable else None,
        signed=_signed(reference, digest, ports),
        channels=tuple(sorted(name for name in others if tagged_version(name) is None)),
        version_tags=tuple(sorted(name for name in others if tagged_version(name) is not None)),
        records=notes_in(said, Record),
        holds=notes_in(said, HoldStatement),
        origin=origin,
    )


def _signed(reference: Reference, digest: Digest, ports: Ports) -> str:
    if ports.trusted is None:
        found = gather(ports.registry, reference, digest)
        return "signed, not verified" if found.signatures or found.bundles else "unsigned"
    try:
        by = verify(ports.registry, reference, digest, ports.trusted).by
        return f"key {by.short}" if isinstance(by, Digest) else str(by)
    except Unsigned:
        return "unsigned"
    except VerificationFailed:
        return "somebody else"


def _by_version(entry: HistoryEntry) -> tuple[bool, Version, str]:
    return entry.version is not None, entry.version or _NONE, str(entry.digest)


def _newest_first(entry: HistoryEntry) -> tuple[datetime, int]:
    return entry.last or _LONG_AGO, -entry.number
