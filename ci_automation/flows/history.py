"""What an artifact's repository holds: its immutable tags, where each channel stands, and what the records say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.artifact.digest import Digest
from ci_automation.errors import VerificationFailed
from ci_automation.flows.publication import records
from ci_automation.flux.artifact import stated_version
from ci_automation.flux.version import InvalidVersion, Version
from ci_automation.signing.evidence import gather
from ci_automation.signing.verify import Unsigned, verify

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Reference
    from ci_automation.attestation.record import Record
    from ci_automation.flows.ports import Ports

_IMMUTABLE = re.compile(r"(?P<version>v[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z._-]*)-[0-9a-f]{12}")
# Signatures, attestations, SBOMs, and the fallback index of referrers (`sha256-<hex>` without a suffix).
_ATTACHED = re.compile(r"sha256-[0-9a-f]{64}(\.[a-z]+)?|.*\.(sig|att|sbom)")


@dataclass(frozen=True, slots=True)
class Entry:
    """One digest: its immutable tag (none where somebody else published it), the channels on it, and its records."""

    digest: Digest
    version: Version | None
    tag: str | None
    signed: str
    channels: tuple[str, ...]
    records: tuple[Record, ...] = ()


def immutable_references(reference: Reference, ports: Ports) -> tuple[Reference, ...]:
    """Return the immutable tags of the reference's repository, the highest version first; nothing else is read."""
    found = []
    for tag in ports.registry.tags(reference):
        if match := _IMMUTABLE.fullmatch(tag):
            try:
                found.append((Version.parse(match["version"].replace("_", "+")), tag))
            except InvalidVersion:
                continue
    return tuple(reference.at_tag(tag) for _, tag in sorted(found, reverse=True))


def history(reference: Reference, ports: Ports) -> tuple[Entry, ...]:
    """Return every digest that an immutable tag or a channel names, the highest version first.

    Records are believed only where somebody trusted signed them; without anybody to trust there are none.
    """
    registry = ports.registry
    tags = [tag for tag in registry.tags(reference) if not _ATTACHED.fullmatch(tag)]
    digests: dict[Digest, list[str]] = {}
    for tag in tags:
        ports.say(f"reading {tag}")
        if (digest := registry.resolve(reference.at_tag(tag))) is not None:
            digests.setdefault(digest, []).append(tag)
    entries = [_entry(reference, digest, names, ports) for digest, names in digests.items()]
    return tuple(sorted(entries, key=_newest_first, reverse=True))


def _entry(reference: Reference, digest: Digest, names: list[str], ports: Ports) -> Entry:
    try:
        version = stated_version(ports.registry.manifest(reference.at_digest(digest)))
    except VerificationFailed:  # whatever else people keep in the repository
        version = None
    immutable = [name for name in names if _IMMUTABLE.fullmatch(name) and name.endswith(digest.short)]
    return Entry(
        digest=digest,
        version=version,
        tag=immutable[0] if immutable else None,
        signed=_signed(reference, digest, ports),
        channels=tuple(sorted(name for name in names if name not in immutable)),
        records=records.read(ports.registry, reference, digest, ports.trusted) if ports.trusted else (),
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


def _newest_first(entry: Entry) -> tuple[bool, Version, str]:
    return entry.version is not None, entry.version or Version.parse("0.0.0"), str(entry.digest)
