"""Deleting old artifacts of a repository: looked at first, and only what nothing needs.

An artifact goes first, then what refers to it, the list of that, and its signature last: by the signature the next run
knows what a crash left over. Tags that are not ours are never touched, nor is a digest that one of them names.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.index import Index, InvalidIndex
from ci_automation.artifact.manifest import InvalidManifest
from ci_automation.artifact.reference import Digest
from ci_automation.errors import UsageError, VerificationFailed
from ci_automation.flux.artifact import immutable_version, stated_version
from ci_automation.policy.retention import Kept, Stored, Window, named_by_others, retain
from ci_automation.records.attached import Said, TooManyRecords
from ci_automation.records.ledger import last_digests, notes_in
from ci_automation.records.notes import HoldStatement, Record
from ci_automation.registry.port import NotAnIndex, NotFound, Registry
from ci_automation.signing.legacy import is_signature
from ci_automation.signing.verify import verify

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Ports
    from ci_automation.flux.version import Version
    from ci_automation.signing.trust import Trusted

_ATTACHED = re.compile(r"sha256-(?P<hex>[0-9a-f]{64})(?P<suffix>(\.[A-Za-z0-9]+)?)")


class ChannelRemains(UsageError):
    """A channel that is said to be gone is in use, or never was."""

    hint = "Name only channels that you deleted: take them out of the configuration, and delete their tags, first."

    def __init__(self, channel: Reference, why: str) -> None:
        super().__init__(f"{channel} is not gone: {why}")


class Survey(Struct, frozen=True):
    """What a repository holds: what stays and why, what goes, and the digests that are gone and left something over.

    `said` are the records and holds of all that is signed.
    """

    repository: Reference
    kept: tuple[Kept, ...]
    goes: tuple[Stored, ...]
    leftovers: tuple[Digest, ...]
    said: Mapping[Digest, tuple[Said, ...] | None]


class Deleted(Struct, frozen=True):
    """One manifest that was deleted, or that was not, since a tag names it by now."""

    digest: Digest
    what: str
    kept_by: tuple[str, ...] = ()


def survey(repository: Reference, window: Window, ports: Ports, now: datetime, gone: Collection[str] = ()) -> Survey:
    """Return what would go; nothing is written. What the channels that are `gone` had last is kept no more.

    Raises:
        ChannelRemains: one of them has its tag, or no signed record names it.
        NobodyTrusted: no trusted signer tells what is ours.
    """
    trusted = ports.require_trusted()
    tags = _tags(repository, ports)
    led_to = _led_to(repository, tags, ports)
    said = {digest: _said(repository, digest, ports, trusted) for tag, digest in tags.items() if _version(tag, digest)}
    moves = {digest: None if it is None else notes_in(it, Record) for digest, it in said.items()}
    home = ports.ledger(repository).name.rpartition(":")[0]
    last, ends = _last_moments(moves), _ends(said, home)
    for name in gone:
        if name in tags or ends.pop(name, None) is None:
            why = "its tag is there" if name in tags else "no signed record in this repository names it"
            raise ChannelRemains(repository.at_tag(name), why)
    artifacts = [
        Stored(
            digest,
            tag,
            version,
            moves[digest] is not None,
            _others(tag, tags, led_to),
            last.get(digest),
            any(record.channel.rpartition(":")[0] == home for record in moves[digest] or ()),
            tuple(sorted(name for name, last_ones in ends.items() if digest in last_ones)),
        )
        for tag, digest in tags.items()
        if digest in moves and (version := _own_version(repository, tag, digest, moves[digest], ports)) is not None
    ]
    retention = retain(artifacts, window, now)
    leftovers = tuple(_leftovers(repository, tags, ports, trusted))
    return Survey(repository, retention.kept, retention.goes, leftovers, said)


def _tags(repository: Reference, ports: Ports) -> dict[str, Digest]:
    """Return where every tag is now."""
    found = {}
    for tag in ports.registry.tags(repository):
        ports.say(f"reading {tag}")
        if (digest := ports.registry.resolve(repository.at_tag(tag))) is not None:
            found[tag] = digest
    return found


def _version(tag: str, digest: Digest) -> Version | None:
    """Return the version in the immutable tag of a digest, in which `_` stands for `+`; None where it is another."""
    return immutable_version(tag) if tag.endswith(digest.short) else None


def _own_version(
    repository: Reference, tag: str, digest: Digest, moves: tuple[Record, ...] | None, ports: Ports
) -> Version | None:
    """Return the version in the immutable tag of a digest; None where what is signed says that it has another one.

    All who can write to the registry make tags: an old digest with a high version would push the newest ones out.
    """
    version = _version(tag, digest)
    if version is None or moves is None:
        return version
    stated = moves[-1].version if moves else stated_version(ports.registry.manifest(repository.at_digest(digest)))
    return version if stated in {None, version} else None


def _led_to(repository: Reference, tags: Mapping[str, Digest], ports: Ports) -> dict[str, Digest | None]:
    """Return what each channel, or foreign tag, refers to besides the digest it names; None if unknown.

    A referrer leads to its subject. What an index lists could be anything.
    """
    found: dict[str, Digest | None] = {}
    for tag, digest in tags.items():
        if _version(tag, digest) or _ATTACHED.fullmatch(tag):
            continue
        try:
            subject = ports.registry.manifest(repository.at_digest(digest)).subject
        except NotFound:
            continue
        except InvalidManifest:
            found[tag] = None
        else:
            if subject is not None:
                found[tag] = subject.digest
    return found


def _said(repository: Reference, digest: Digest, ports: Ports, trusted: Trusted) -> tuple[Said, ...] | None:
    """Return the records and holds of a digest that is signed; None if no trusted signer signed it."""
    try:
        verify(ports.registry, repository, digest, trusted)
    except VerificationFailed:
        return None
    return ports.ledger(repository).said(digest)


def _last_moments(moves: Mapping[Digest, tuple[Record, ...] | None]) -> dict[Digest, datetime]:
    """Return when a channel came to each digest last, or left it."""
    found: dict[Digest, datetime] = {}
    for record in (record for each in moves.values() for record in each or ()):
        for digest in filter(None, (record.digest, record.previous)):
            found[digest] = max(record.at, found.get(digest, record.at))
    return found


def _ends(said: Mapping[Digest, tuple[Said, ...] | None], home: str) -> dict[str, frozenset[Digest]]:
    """Return what each channel of the repository had last by its records: its holds and its past are on that."""
    found = last_digests(chain.from_iterable(each or () for each in said.values()))
    named = ((name.rpartition(":"), digests) for name, digests in found.items())
    return {channel: digests for (repository, _, channel), digests in named if repository == home}


def _others(tag: str, tags: Mapping[str, Digest], led_to: Mapping[str, Digest | None]) -> tuple[str, ...]:
    """Return the tags that lead to what a tag names, besides it; those count that cannot be seen through."""
    digest = tags[tag]
    leading = (other for other, found in led_to.items() if found in {digest, None})
    return tuple(sorted({*named_by_others(digest, {tag}, tags), *leading}))


def _leftovers(repository: Reference, tags: Mapping[str, Digest], ports: Ports, trusted: Trusted) -> Iterator[Digest]:
    """Yield what was attached to digests of ours that are gone."""
    named = set(tags.values())
    found = {Digest(match["hex"]): None for tag in tags if (match := _ATTACHED.fullmatch(tag))}
    for digest in found:
        if digest in named or ports.registry.resolve(repository.at_digest(digest)) is not None:
            continue
        if _was_ours(repository, digest, ports, trusted):
            yield digest


def _was_ours(repository: Reference, digest: Digest, ports: Ports, trusted: Trusted) -> bool:
    """Return whether what is left of a digest shows that it was ours, or nothing is left but an empty list."""
    with suppress(VerificationFailed):
        verify(ports.registry, repository, digest, trusted)
        return True
    with suppress(TooManyRecords, NotAnIndex):
        if ports.ledger(repository).all_records(digest):
            return True
        signature = ports.registry.resolve(_attached(repository, digest, ".sig"))
        listed = ports.registry.referrers(repository, digest)
        gone = (ports.registry.resolve(repository.at_digest(each.digest)) is None for each in listed)
        return signature is None and all(gone)
    return False


def _attached(repository: Reference, digest: Digest, suffix: str = "") -> Reference:
    return repository.at_tag(f"sha256-{digest.hex}{suffix}")


def prune(found: Survey, ports: Ports) -> Iterator[Deleted]:
    """Delete what goes, one after the other, and yield what was done; all tags are looked at again right before.

    Raises:
        DeletionRefused: the registry does not do that.
    """
    repository = found.repository
    deletion = _Deletion(repository, _tags(repository, ports), ports)
    for artifact in found.goes:
        deletion.look_again()
        coming = deletion.coming_to(artifact.digest, found.said[artifact.digest] or ())
        what = artifact.digest, "artifact"
        yield (done := Deleted(*what, coming) if coming else deletion.delete(*what, artifact.tag))
        if not done.kept_by:
            yield from deletion.delete_attached(artifact.digest)
    for digest in found.leftovers:
        if ports.registry.resolve(repository.at_digest(digest)) is None:  # the same content may be there again by now
            yield from deletion.delete_attached(digest)


class _Deletion(Struct, frozen=True):
    """A repository from which something is deleted, and where its tags are."""

    repository: Reference
    tags: dict[str, Digest]
    ports: Ports

    def look_again(self) -> None:
        """Find out where the tags are now that may move."""
        moving = (tag for tag in self.ports.registry.tags(self.repository) if immutable_version(tag) is None)
        for tag in [tag for tag in moving if not _ATTACHED.fullmatch(tag)]:
            if (digest := self.ports.registry.resolve(self.repository.at_tag(tag))) is not None:
                self.tags[tag] = digest

    def coming_to(self, digest: Digest, said: Sequence[Said]) -> tuple[str, ...]:
        """Return the channels that come to a digest by what was not `said` before: a rollback holds before it moves."""
        new = [it for it in self.ports.ledger(self.repository).said(digest) if it not in said]
        names = {it.channel for it in notes_in(new, Record)} | {it.channel for it in notes_in(new, HoldStatement)}
        return tuple(sorted(name.rpartition(":")[2] for name in names))

    def delete(self, digest: Digest, what: str, *own: str) -> Deleted:
        """Delete a manifest, unless a tag names it besides its own ones."""
        if others := named_by_others(digest, own, self.tags):
            return Deleted(digest, what, others)
        self.ports.say(f"deleting {digest}")
        self.ports.registry.delete_manifest(self.repository.at_digest(digest))
        for tag in own:
            self.tags.pop(tag, None)
        return Deleted(digest, what)

    def delete_attached(self, digest: Digest) -> Iterator[Deleted]:
        """Delete what speaks for a digest that is gone: what refers to it, the list of that, its signature last."""
        registry = self.ports.registry
        with suppress(NotAnIndex):  # what is there instead is of others, and stays
            for each in registry.referrers(self.repository, digest):
                if _refers_to(self.repository, each.digest, digest, self.ports):
                    yield self.delete(each.digest, "referrer")
        for suffix, what in (("", "list of referrers"), (".sig", "signature")):
            at = _attached(self.repository, digest, suffix)
            if (named := _list_or_signature(at, registry)) is not None:
                yield self.delete(named, what, str(at.tag))


def _list_or_signature(at: Reference, registry: Registry) -> Digest | None:
    """Return the list of referrers or the signature at one of their tags; such a tag can name anything."""
    try:
        found = registry.stored(at)
    except (NotFound, InvalidManifest, InvalidIndex):
        return None
    if isinstance(found, Index):
        return found.digest
    return found.digest if all(is_signature(layer) for layer in found.layers) else None


def _refers_to(repository: Reference, referrer: Digest, digest: Digest, ports: Ports) -> bool:
    """Return whether a manifest is there and says itself what it refers to: a list of referrers can name anything."""
    try:
        subject = ports.registry.manifest(repository.at_digest(referrer)).subject
    except (NotFound, InvalidManifest):
        return False
    return subject is not None and subject.digest == digest
