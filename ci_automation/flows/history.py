"""History of a repository: its immutable tags, the digests of its channels, its records and holds."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.errors import Error, VerificationFailed
from ci_automation.flows.observe import Observed, Trust, look_at
from ci_automation.flows.planning.base import only_layer, present_version
from ci_automation.flows.ports import Intent, Ports
from ci_automation.flux.artifact import immutable_version, stated_origin, stated_version, tagged_version
from ci_automation.flux.version import Version
from ci_automation.records.attached import Said, TooManyRecords
from ci_automation.records.ledger import N, notes_in
from ci_automation.records.notes import HoldStatement, Record
from ci_automation.registry.port import NotAnIndex
from ci_automation.signing.verify import Unsigned, gather, verify

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ci_automation.artifact.reference import Reference

# Signatures, attestations, SBOMs, and the fallback index of referrers (`sha256-<hex>` without a suffix).
_ATTACHED = re.compile(r"sha256-[0-9a-f]{64}(\.[a-z]+)?|.*\.(sig|att|sbom)")
MAX_TAGS = 500  # each costs some requests
_NONE = Version.parse("0.0.0")
UNTRUSTED = ("unsigned", "another signer")


class HistoryEntry(Struct, frozen=True):
    """One digest: its immutable tag (none if another tool published it), the other tags on it, its records and holds.

    Without records its time and publisher are unknown; `problem` says why they cannot be read. The number counts from
    the newest version of the repository, trusted or not, and of one version from the newest publication; 0 of what only
    other channels had, and of several of one version where no record can be read.
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
    problem: str = ""

    @property
    def mark(self) -> str:
        """Return the number as a row begins with it."""
        return f"@{self.number}" if self.number else "-"

    @property
    def unrecorded(self) -> str:
        """Return what a row says without a record."""
        return f"its records cannot be read: {self.problem}" if self.problem else "no verified record"

    @property
    def last(self) -> datetime | None:
        """Return when a channel came to it last, if a record tells."""
        return self.records[-1].at if self.records else None

    @property
    def rank(self) -> tuple[object, ...]:
        """Return what its number goes by: version, then publication; rollbacks and promotions publish nothing."""
        made = (it.at.timestamp() for it in self.records if not (it.rolled_back or it.put_back or it.promoted_from))
        published = max(made, default=self.last.timestamp() if self.last else 0)
        return self.version is not None, self.version or _NONE, published, str(self.digest)


class History(Struct, frozen=True):
    """The digests of a channel, the number of tags left out because each costs requests, and of digests elsewhere.

    Signed records tell what a channel had that `is_deleted`.
    """

    entries: tuple[HistoryEntry, ...]
    left_out: int = 0
    elsewhere: int = 0
    is_deleted: bool = False


def immutable_references(reference: Reference, ports: Ports) -> tuple[Reference, ...]:
    """Return the immutable tags of the reference's repository, the highest version first; nothing else is read."""
    return tuple(reference.at_tag(tag) for _, tag in _versions(ports.registry.tags(reference)))


def history(reference: Reference, ports: Ports, *, every: bool = False) -> History:
    """Return the digests of a channel: by time as far as records tell, then by version.

    Only records and holds of trusted signers count. Without trusted signers there are none, so that nothing tells what
    belongs to the channel: each digest that a tag of the repository names is there, as with `every`.

    Raises:
        NotFound: there is no such channel, and no signed record speaks of one.
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
    ranked = sorted(entries, key=lambda it: it.rank, reverse=True)
    entries = [replace(entry, number=number) for number, entry in enumerate(ranked, 1)]
    shown = entries
    name = ports.ledger(reference).name
    is_gone = bool(reference.tag) and reference.tag not in tags
    if is_gone and not any(it.channel == name for entry in entries for it in entry.records):
        look_at(reference, ports)
    if ports.trusted is not None and reference.tag:
        own = {entry.digest: it for entry in entries if (it := _own(entry, str(reference.tag), name))}
        others = [replace(entry, number=0) for entry in entries if every and entry.digest not in own]
        shown = [*((entry for entry in entries if entry.digest in own) if every else own.values()), *others]
    shown.sort(key=lambda it: (it.last.timestamp() if it.last else 0, -it.number), reverse=True)
    if ports.trusted is None:  # then only records could tell which one of a version is newer
        versions = Counter(it.version for it in shown)
        shown = [it if versions[it.version] == 1 else replace(it, number=0) for it in shown]
    return History(tuple(shown), len(tags) - len(wanted), len(entries) - len(shown), is_gone)


def _own(entry: HistoryEntry, tag: str, name: str) -> HistoryEntry | None:
    """Return an entry without the notes of other channels of the repository; None if it belongs to those alone.

    A channel of another repository may be where this one was mirrored or promoted from, so its notes stay. Without
    any note, a digest that a trusted signer signed stays unless only another channel's tag names it.
    """
    home = name.rpartition(":")[0]

    def ours(notes: tuple[N, ...]) -> tuple[N, ...]:
        return tuple(it for it in notes if it.channel == name or it.channel.rpartition(":")[0] != home)

    records, holds = ours(entry.records), ours(entry.holds)
    is_noted = bool(entry.records or entry.holds)
    is_free = not is_noted and not entry.channels and entry.signed not in UNTRUSTED
    if records or holds or is_free or tag in (entry.tag, *entry.channels, *entry.version_tags):
        return replace(entry, records=records, holds=holds)
    return None


def _in_order(tags: list[str], reference: Reference) -> list[str]:
    """Return the tags in the order of reading: the channel that was named, the highest versions, and the others."""
    immutable = [tag for _, tag in _versions(tags)]
    own = [tag for tag in tags if tag == reference.tag]
    return list(dict.fromkeys([*own, *immutable, *tags]))


def _versions(tags: Iterable[str]) -> list[tuple[Version, str]]:
    """Return the immutable tags with their versions, the highest first."""
    return sorted(((version, tag) for tag in tags if (version := immutable_version(tag)) is not None), reverse=True)


def _entry(reference: Reference, digest: Digest, names: list[str], ports: Ports) -> HistoryEntry:
    manifest = None
    try:
        manifest = ports.registry.manifest(reference.at_digest(digest))
        version, origin = stated_version(manifest), stated_origin(manifest)
    except VerificationFailed:  # whatever else people keep in the repository
        version, origin = None, ""
    immutable = [name for name in names if immutable_version(name) and name.endswith(digest.short)]
    if version is None and immutable:  # another tool made it, and an adoption gave it a tag
        version = immutable_version(immutable[0])
    if version is None and manifest and reference.tag in names:
        version = _in_components(Observed(reference, manifest, Trust.UNCHECKED, None), ports)
    others = [name for name in names if name not in immutable]
    said, problem = _said(reference, digest, ports)
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
        problem=problem,
    )


def _in_components(observed: Observed, ports: Ports) -> Version | None:
    """Return the version that the components file of another tool's artifact states; None if nothing does."""
    with suppress(Error):
        only_layer(observed.manifest)
        return present_version(observed, ports, Intent(now=ports.clock()))
    return None


def _said(reference: Reference, digest: Digest, ports: Ports) -> tuple[tuple[Said, ...], str]:
    """Return the signed statements about a digest; where an attacker hides them, none, and how."""
    try:
        return ports.ledger(reference).said(digest), ""
    except (TooManyRecords, NotAnIndex) as error:
        return (), str(error)


def _signed(reference: Reference, digest: Digest, ports: Ports) -> str:
    if ports.trusted is None:
        found = gather(ports.registry, reference, digest)
        return "signed, not verified" if found.signatures or found.bundles else UNTRUSTED[0]
    try:
        by = verify(ports.registry, reference, digest, ports.trusted).by
        return f"key {by.short}" if isinstance(by, Digest) else str(by)
    except Unsigned:
        return UNTRUSTED[0]
    except VerificationFailed:
        return UNTRUSTED[1]
