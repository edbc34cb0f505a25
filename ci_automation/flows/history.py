"""What an artifact's repository holds: its immutable tags, and where each channel stands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.errors import VerificationFailed
from ci_automation.flux.artifact import stated_version
from ci_automation.flux.version import Version
from ci_automation.signing import legacy

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Ports

_IMMUTABLE = re.compile(r"v[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z._-]*-[0-9a-f]{12}")
# Signatures, attestations, SBOMs, and the fallback index of referrers (`sha256-<hex>` without a suffix).
_ATTACHED = re.compile(r"sha256-[0-9a-f]{64}(\.[a-z]+)?|.*\.(sig|att|sbom)")


@dataclass(frozen=True, slots=True)
class Entry:
    """One digest: its immutable tag (none where somebody else published it), and the channels on it."""

    digest: Digest
    version: Version | None
    tag: str | None
    signed: str
    channels: tuple[str, ...]


def history(reference: Reference, ports: Ports) -> tuple[Entry, ...]:
    """Return every digest that an immutable tag or a channel names, the highest version first."""
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
    channels = tuple(sorted(name for name in names if name not in immutable))
    return Entry(digest, version, immutable[0] if immutable else None, _signed(reference, digest, ports), channels)


def _signed(reference: Reference, digest: Digest, ports: Ports) -> str:
    if ports.trusted_key is None:
        return "signed, not verified" if legacy.signatures(ports.registry, reference, digest) else "unsigned"
    try:
        return f"key {legacy.verify(ports.registry, reference, digest, ports.trusted_key).key.short}"
    except legacy.Unsigned:
        return "unsigned"
    except VerificationFailed:
        return "another key"


def _newest_first(entry: Entry) -> tuple[bool, Version, str]:
    return entry.version is not None, entry.version or Version.parse("0.0.0"), str(entry.digest)
