"""The signed records and holds of one channel, as far as trusted signers wrote them.

Each is a referrer of a digest (design section 5.1), with a media type of its own, so that Flux does not take it for a
signature; in it is a Sigstore bundle over the statement. No cluster needs it.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.errors import VerificationFailed
from ci_automation.flux.artifact import immutable_version
from ci_automation.policy.decision import Hold
from ci_automation.records import attached
from ci_automation.records.notes import HoldStatement, InvalidNote, Record
from ci_automation.registry.port import NotAnIndex, Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from ci_automation.artifact.reference import Reference
    from ci_automation.flux.version import Version
    from ci_automation.records.attached import Said
    from ci_automation.records.content import RecordedContent
    from ci_automation.signing.trust import Trusted

RECORD, HOLD = Record.media_type, HoldStatement.media_type
_AT_ONCE = 16  # tags: each takes a thread, and all who can write to the registry can make tags
N = TypeVar("N", Record, HoldStatement)
T = TypeVar("T")


class ImmutableTagMoved(VerificationFailed):
    """An immutable tag points at another digest than the one in its name."""

    hint = "A writer of the registry moved a tag that must never move. Find out who, and point it back or delete it."

    def __init__(self, reference: Reference, found: Digest) -> None:
        super().__init__(f"{reference} points at {found}, and its name says another digest")
        self.hint = f"{reference.tag} must never move. Find out who moved it, and point it back or delete it."


HIDING = (ImmutableTagMoved, attached.TooManyRecords, NotAnIndex)  # raised where an attacker hides records


class Position(Struct, frozen=True):
    """Position of a channel: its digest and version, and its newest record and hold there."""

    digest: Digest
    version: Version
    record: Record | None
    hold: Hold | None


class Ledger(Struct, frozen=True):
    """Records and holds of `channel` signed by `trusted` signers; others are ignored. Without such signers it is empty.

    Each method that reads raises `NotAnIndex` if an attacker put something else where the list of referrers has to be,
    `TooManyRecords` if an attacker attached very many, and `ImmutableTagMoved` if a tag by which it looks hides a
    digest. A `lenient` one raises none of them: what is hidden so is not there.
    """

    registry: Registry
    channel: Reference
    trusted: Trusted | None
    lenient: bool = False

    @property
    def name(self) -> str:
        """Return the name of the channel in records and holds."""
        return attached.channel_name(self.registry, self.channel)

    def said(self, digest: Digest, *kinds: str) -> tuple[Said, ...]:
        """Return the statements about `digest`, of these kinds or else all, whatever channel they name."""
        if self.trusted is None:
            return ()
        try:
            return attached.read_statements(self.registry, self.channel, digest, self.trusted, kinds or (RECORD, HOLD))
        except (attached.TooManyRecords, NotAnIndex):
            if self.lenient:
                return ()
            raise

    def all_records(self, digest: Digest) -> tuple[Record, ...]:
        """Return the records of `digest`, of whatever channel, the oldest first."""
        return notes_in(self.said(digest, RECORD), Record)

    def records(self, digest: Digest) -> tuple[Record, ...]:
        """Return the records that say that this channel moved to `digest`, the oldest first."""
        return self._own(self.all_records(digest))

    def holds(self, digest: Digest) -> tuple[Hold, ...]:
        """Return the holds of this channel on `digest`, the oldest first; see `holds_on`."""
        return holds_on(self.said(digest, HOLD), self.name)

    def named_holds(self, digest: Digest) -> tuple[tuple[Digest, Hold], ...]:
        """Return the holds of this channel on `digest`, each after the digest of its statement, the oldest first."""
        found = _newest_holds(self.said(digest, HOLD), self.name)
        return tuple((Digest.of(it.to_statement("").to_bytes()), _hold(it)) for it in found)

    def all_holds(self) -> Iterator[tuple[Digest, Hold]]:
        """Yield the holds of this channel, each after a digest that an immutable tag names: the channel may come there.

        A run that was killed before it moved the channel left copies too, and no record.
        """
        for digest in dict.fromkeys(filter(None, self._each(self._named, self._immutable_tags()))):
            for hold in self.holds(digest):
                yield digest, hold

    def newest(self) -> Record | None:
        """Return the record of the channel's last move; reads the records of all digests with immutable tags."""
        return _newest(self.all_moves())

    def went_to(self, digest: Digest) -> Digest | None:
        """Return what the channel had last, if its records say that it had `digest` before that."""
        last = self.last() if self.records(digest) else None
        return last.digest if last is not None and last.digest != digest else None

    def last(self) -> Record | None:
        """Return the record of what the channel had last; a rollback that wrote none yet is known by its hold."""
        moves = self.all_moves()
        if (newest := _newest(moves)) is None:
            return None
        found = {record.digest: record for record in moves}.values()
        back = [replace(it, at=hold.since) for it in found for hold in self.holds(it.digest)]
        return max((newest, *back), key=lambda record: record.at)

    def all_moves(self) -> tuple[Record, ...]:
        """Return the records of this channel about each digest that an immutable tag names, its oldest first."""
        return self._own(self._of_repository())

    def has_own_repository(self) -> bool:
        """Return whether any record is about a channel of this repository; a mirror has records of other ones alone."""
        home = self.name.rpartition(":")[0]
        return any(record.channel.rpartition(":")[0] == home for record in self._of_repository())

    def last_content(self) -> RecordedContent | None:
        """Return the content from Git that the channel had last, by what any of its records says."""
        found = [record for record in self.all_moves() if record.content]
        return max(found, key=lambda record: record.at).content if found else None

    def superseded_by(self, position: Position, tags: Collection[str]) -> Record | None:
        """Return the record of the channel's last move after it was at `position`.

        If there is one, an attacker without a key moved the channel back to what was signed once: nothing may be built
        on that. Only digests that immutable tags of the same or a higher version name are looked at, which is none in
        a repository whose channel has its newest. A move back of ours (`rollback`) has a newer record of its own, or,
        if the run had no time for that, at least the hold that it wrote before.

        Raises:
            ImmutableTagMoved: a tag hides such a digest.
        """
        known = {tag: found for tag in tags if (found := immutable_version(tag)) and found >= position.version}
        versions = {tag: found for tag, found in known.items() if not tag.endswith(position.digest.short)}
        after = [
            records[-1]
            for found, said in zip(versions.values(), self._each(self._tagged, list(versions)), strict=True)
            if (records := self._own(said)) and _is_later(records[-1], position, higher=found > position.version)
        ]
        if position.hold is not None:
            after = [record for record in after if record.at > position.hold.since]
        return max(after, key=lambda record: record.at, default=None)

    def _own(self, records: Iterable[Record]) -> tuple[Record, ...]:
        name = self.name
        return tuple(record for record in records if record.channel == name)

    def _of_repository(self) -> Iterator[Record]:
        """Yield the records of all channels about each digest that an immutable tag names."""
        return (record for records in self._each(self._tagged, self._immutable_tags()) for record in records)

    def _immutable_tags(self) -> list[str]:
        tags = self.registry.tags(self.channel) if self.trusted else ()
        return [tag for tag in tags if immutable_version(tag) is not None]

    def _each(self, read: Callable[[str], T], tags: Sequence[str]) -> Iterator[T]:
        """Yield what `read` returns for each of these tags, a few at a time."""
        work = [partial(read, tag) for tag in tags]
        for start in range(0, len(work), _AT_ONCE):
            yield from self.registry.at_once(*work[start : start + _AT_ONCE])

    def _tagged(self, tag: str) -> tuple[Record, ...]:
        """Return the records of what an immutable tag names, of whatever channel; none if the tag is gone."""
        digest = self._named(tag)
        return self.all_records(digest) if digest else ()

    def _named(self, tag: str) -> Digest | None:
        """Return the digest that an immutable tag names, None if the tag is gone."""
        at = self.channel.at_tag(tag)
        digest = self.registry.resolve(at)
        if digest is None or tag.endswith(digest.short):
            return digest
        if self.lenient:
            return None
        raise ImmutableTagMoved(at, digest)


def _newest(moves: Iterable[Record]) -> Record | None:
    found = {record.digest: record for record in moves}.values()
    followed = {record.previous for record in found}
    return max(found, key=lambda record: (record.at, record.digest not in followed), default=None)


def notes_in(said: Iterable[Said], kind: type[N]) -> tuple[N, ...]:
    """Return the records, or the holds, among signed statements, each signed by the publisher that it names.

    The oldest comes first.
    """
    found: list[N] = []
    for each in said:
        if each.kind == kind.media_type:
            with suppress(InvalidNote):
                note = kind.from_statement(each.statement)
                found += [note] if note.by == each.by else []
    return tuple(sorted(found, key=lambda note: note.at))


def holds_on(said: Iterable[Said], channel: str) -> tuple[Hold, ...]:
    """Return the holds of the channel with this name among signed statements, the oldest first.

    Of several about one refused digest that of the last rollback counts. Holds whose date has passed are among them.
    """
    return tuple(map(_hold, _newest_holds(said, channel)))


def _newest_holds(said: Iterable[Said], channel: str) -> tuple[HoldStatement, ...]:
    """Return the last word on each refused digest: that of the later rollback, whatever the clock of a lifting said."""
    found = [it for it in notes_in(said, HoldStatement) if it.channel == channel and it.digest != it.refused.digest]
    newest = {it.refused.digest: it for it in sorted(found, key=lambda it: _hold(it).order)}
    return tuple(sorted(newest.values(), key=lambda it: it.at))


def _hold(it: HoldStatement) -> Hold:
    return Hold(it.refused.version, it.refused.digest, it.at, it.until, it.reason, it.moved, it.alone)


def last_digests(said: Iterable[Said]) -> dict[str, frozenset[Digest]]:
    """Return what each channel had last by signed statements.

    That is what its newest record is about, and where a later rollback led, which ended before its record or its move.
    """
    each = tuple(said)
    moves = ((note.at, note.channel, note.digest, True) for note in notes_in(each, Record))
    held = (note for note in notes_in(each, HoldStatement) if note.digest != note.refused.digest)
    back = ((note.moved or note.at, note.channel, note.digest, False) for note in held)
    found: dict[str, frozenset[Digest]] = {}
    for _, channel, digest, ends in sorted((*moves, *back)):
        found[channel] = frozenset({digest}) | (frozenset() if ends else found.get(channel, frozenset()))
    return found


def left_at(said: Iterable[Said], channel: str) -> datetime | None:
    """Return when a rollback last moved the channel with this name away from the digest, None if none did."""
    found = [it for it in notes_in(said, HoldStatement) if it.channel == channel and it.digest == it.refused.digest]
    return max((it.moved or it.at for it in found), default=None)


def _is_later(record: Record, position: Position, *, higher: bool) -> bool:
    """Return whether the channel was where `record` says after it was at `position`.

    Without a record of the position, only a higher version or the chain of previous digests tells: a run that published
    the same version anew, with other options, may have ended before it wrote its record.
    """
    own, follows = position.record, record.previous == position.digest
    if own is None:
        return follows or higher
    return record.at > own.at or (record.at == own.at and follows and own.previous != record.digest)
