"""Past digests of a channel: found by tag, digest or version, and proven to be ours before a rollback to them."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, InvalidDigest
from ci_automation.errors import PolicyRefused, UsageError, VerificationFailed
from ci_automation.flows.history import immutable_references
from ci_automation.flux.artifact import immutable_tag, immutable_version
from ci_automation.flux.version import InvalidVersion, Version, near_misses
from ci_automation.records.attached import TooManyRecords, known_as
from ci_automation.records.ledger import HIDING, ImmutableTagMoved
from ci_automation.registry.port import NotAnIndex
from ci_automation.signing.verify import Unsigned, verify

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Ports

_SUFFIX = len("-1a2b3c4d5e6f")
_SHORT = _SUFFIX - 1
_SHORT_DIGEST = re.compile(rf"(?:sha256:)?([0-9a-f]{{{_SHORT}}})")
_BEGINNING = re.compile("[0-9a-f]{4,}")  # of a digest, as a person copies it
_SHOWN = 10  # tags in a hint
_LOOKED_AT = 50  # tags for a hint: each costs some requests


class NotInHistory(UsageError):
    """The digest to go back to is not in the repository, or not named."""

    def __init__(self, channel: Reference, wanted: str, present: Digest, ports: Ports) -> None:
        published = [str(it.tag) for it in immutable_references(channel, ports)]
        tags = list(_had(channel, published, present, ports)) if ports.trusted else []
        with suppress(*HIDING):
            last = ports.ledger(channel).last()
            tags = [*{last.tag: 0, **dict.fromkeys(tags)}] if last and last.digest != present else tags
        near = ""
        with suppress(InvalidVersion):
            near = near_misses(Version.parse(wanted), filter(None, map(immutable_version, tags)))
        begins = wanted.removeprefix("sha256:")[:_SHORT]
        begins = begins if _BEGINNING.fullmatch(begins) else ""
        what = f"nothing in the history of {channel} is {wanted!r}{near}"
        if begins and present.hex.startswith(begins):
            what = f"{channel} has {wanted} now"
        super().__init__(what if wanted else f"nothing says where {channel} goes back to")
        self.hint = "Nothing that this program published is in the repository. `update --adopt` begins a history."
        if published:
            self.hint = "The channel is at the oldest that it had. `history` lists what is there."
        if published and not ports.trusted:  # who reads no records cannot tell what other channels alone had
            self.hint = "`history` lists what the channel had, if you name a key or an identity to trust."
        if tags:
            newest = ", ".join(tags[:_SHOWN])
            self.hint = f"Give a version, or one of these tags: {newest}. `history` lists the digests."
        meant = [tag for tag in tags if begins and tag[-_SHORT:].startswith(begins)]
        series = f"v{wanted.removeprefix('v')}."
        meant += [str(it) for it in filter(None, map(immutable_version, tags)) if str(it).startswith(series)][:1]
        if len(meant) == 1:
            self.hint = f"Did you mean --to {meant[0]}? {self.hint}"
        if "@" in wanted:
            self.hint = f"The numbers of `history` move, so --to takes none. {self.hint}"


def _had(channel: Reference, tags: Sequence[str], present: Digest, ports: Ports) -> Iterator[str]:
    """Yield those of the newest tags that a rollback can go to: digests that are not newer, and the channel's own."""
    versions = {tag: version for tag in tags if (version := immutable_version(tag))}
    newest = next((version for tag, version in versions.items() if tag.endswith(present.short)), None)
    older = [tag for tag, version in versions.items() if newest is None or version <= newest]
    ledger = ports.ledger(channel)
    for tag in older[:_LOOKED_AT]:
        with suppress(TooManyRecords, NotAnIndex):  # of an attacker, who hides that tag alone
            digest = ports.registry.resolve(channel.at_tag(tag))
            if digest is None or digest == present or not tag.endswith(digest.short):
                continue
            found = ledger.all_records(digest)
            if not found or any(record.channel == ledger.name for record in found):
                yield tag


class AmbiguousVersion(UsageError):
    """Several digests have that version, and no record tells which the channel had last."""

    def __init__(self, channel: Reference, version: Version, tags: tuple[str, ...]) -> None:
        super().__init__(f"{len(tags)} digests in the repository of {channel} have {version}: {', '.join(tags)}")
        self.hint = f"Name one of them, such as --to {tags[0]}."


class NotOfThisChannel(PolicyRefused):
    """A digest was published on other channels alone."""

    hint = "A rollback goes back to a digest that the channel had. `promote` takes the digest of another channel."

    def __init__(self, channel: Reference, digest: Digest, others: tuple[str, ...]) -> None:
        super().__init__(f"{channel} never had {digest}, which was published as {', '.join(others)}")


class OtherVersion(VerificationFailed):
    """A tag says another version than its digest has."""

    hint = (
        "A writer of the registry made a misleading tag. Find out who, and delete it; name the digest to go back to it."
    )

    def __init__(self, channel: Reference, wanted: str, digest: Digest, found: Version) -> None:
        super().__init__(f"{wanted} leads to {channel.at_digest(digest)}, which is {found}")


class PastNotOurs(VerificationFailed):
    """The digest to go back to is unsigned, and no signed record names it."""

    hint = "Nothing was signed or moved. `history` lists the signed digests."

    def __init__(self, channel: Reference, digest: Digest) -> None:
        super().__init__(f"{channel.at_digest(digest)} is not signed, and no signed record says that {channel} had it")


class Past(Struct, frozen=True):
    """A digest that a channel can go back to; one that has lost its signature is signed again before."""

    digest: Digest
    signed: bool


def find_past(channel: Reference, wanted: str, present: Digest, ports: Ports) -> Digest:
    """Return the digest that `wanted` names: an immutable tag, a digest, its first 12 characters, or a version.

    Of several digests with a version it is the one that the channel has, or had last by its records.

    Raises:
        NotInHistory: there is none, or `wanted` is none of these.
        AmbiguousVersion: there are several.
        ImmutableTagMoved: a tag points at another digest than the one it is named after.
    """
    ports.say(f"looking for {wanted}")
    if immutable_version(wanted) is not None:
        return _named(channel.at_tag(wanted), channel, present, ports)
    if short := _SHORT_DIGEST.fullmatch(wanted):
        tags = (it for it in immutable_references(channel, ports) if str(it.tag).endswith(f"-{short[1]}"))
        begins = {_named(tag, channel, present, ports) for tag in tags}
        if len(begins) != 1:
            raise NotInHistory(channel, wanted, present, ports)
        return begins.pop()
    try:
        if wanted.startswith("sha256:"):
            digest = Digest.parse(wanted)
            if ports.registry.resolve(channel.at_digest(digest)) is None:
                raise NotInHistory(channel, wanted, present, ports)
            return digest
        version = Version.parse(wanted)
    except (InvalidDigest, InvalidVersion):
        raise NotInHistory(channel, wanted, present, ports) from None
    found = _of_version(channel, version, present, ports)
    if not found:
        raise NotInHistory(channel, str(version), present, ports)
    if present in found:
        return present
    return next(iter(found)) if len(found) == 1 else _last_of(channel, version, found, ports)


def other_tags(channel: Reference, version: Version, present: Digest, ports: Ports) -> tuple[str, ...]:
    """Return the immutable tags of a version in a channel's repository that lead to other digests than this one.

    Raises:
        ImmutableTagMoved: a tag points at another digest than the one it is named after.
    """
    return tuple(
        sorted(tag for digest, tag in _of_version(channel, version, present, ports).items() if digest != present)
    )


def _of_version(channel: Reference, version: Version, present: Digest, ports: Ports) -> dict[Digest, str]:
    return {
        _named(reference, channel, present, ports): str(reference.tag)
        for reference in immutable_references(channel, ports)
        if str(reference.tag)[:-_SUFFIX] == immutable_tag(version, present)[:-_SUFFIX]
    }


def require_version(channel: Reference, wanted: str, digest: Digest, found: Version) -> None:
    """Raise `OtherVersion` unless what `wanted` led to is of the version that it says; a digest says none."""
    if wanted.startswith("sha256:") or _SHORT_DIGEST.fullmatch(wanted):
        return
    if (immutable_version(wanted) or Version.parse(wanted)) != found:
        raise OtherVersion(channel, wanted, digest, found)


def _named(tag: Reference, channel: Reference, present: Digest, ports: Ports) -> Digest:
    digest = ports.registry.resolve(tag)
    if digest is None:
        raise NotInHistory(channel, str(tag.tag), present, ports)
    if not str(tag.tag).endswith(digest.short):
        raise ImmutableTagMoved(tag, digest)
    return digest


def _last_of(channel: Reference, version: Version, found: dict[Digest, str], ports: Ports) -> Digest:
    """Return the one of several digests that the channel had last."""
    ledger = replace(ports.ledger(channel), lenient=True)
    moves = [(record.at, digest) for digest in found for record in ledger.records(digest)]
    latest = max((at for at, _ in moves), default=None)
    last = {digest for at, digest in moves if at == latest}
    if len(last) != 1:
        raise AmbiguousVersion(channel, version, tuple(sorted(found.values())))
    return last.pop()


def prove_past(channel: Reference, digest: Digest, ports: Ports) -> Past:
    """Return that `digest` is ours: a trusted signer signed it, or its record says that it was published.

    The operator names the digest, so that an old one is no surprise; see ADR 0005 for what else it would take.

    Raises:
        NotOfThisChannel: it was published on other channels alone.
        PastNotOurs: no trusted signer signed it, and no record says that the channel had it.
        ForeignSignature: another signer signed it.
    """
    ledger = ports.ledger(channel)
    found = ledger.all_records(digest)
    here = any(record.channel == ledger.name for record in found)
    if found and not here:
        others = {known_as(ports.registry, channel, record.channel) for record in found}
        raise NotOfThisChannel(channel, digest, tuple(sorted(others)))
    try:
        verify(ports.registry, channel, digest, ports.require_trusted())
    except Unsigned:
        if not here:
            raise PastNotOurs(channel, digest) from None
        return Past(digest, signed=False)
    return Past(digest, signed=True)
