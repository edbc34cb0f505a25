"""Notes: signed statements that a channel was moved to a digest (record), or moved back from one (hold).

A note is about the digest that is its subject (design section 5.1). Its predicate type carries the version of its form;
a tag URI (RFC 4151) names it for ever and is no address. Its media type is its referrer's; a Sigstore bundle's would
make Flux count the note as a signature.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Self

from msgspec import Struct, ValidationError, convert

from ci_automation.artifact.reference import Digest, InvalidDigest
from ci_automation.errors import VerificationFailed
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import InvalidVersion, Version
from ci_automation.records.content import OID, CountedRequest, FleetCommit, RecordedContent, Statement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_TEXT = 1024
_URL = re.compile(r"https?://[!-~]+")
# RFC 3339 in UTC; no leap second, and no year that Python lacks.
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z")


class InvalidTime(ValueError):
    """A text that is not a time in the form of notes."""


def format_time(moment: datetime) -> str:
    """Return a moment as RFC 3339 writes it, in UTC."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Return the moment that `format_time` wrote; raise `InvalidTime` for anything else."""
    with suppress(ValueError):
        if _TIME.fullmatch(text):
            return datetime.fromisoformat(text)
    raise InvalidTime("a time is not in the form of RFC 3339 in UTC")


_PARSERS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("digest", "previous", "options", "rest"), Digest.parse),
    **dict.fromkeys(("at", "until", "moved"), parse_time),
    "version": Version.parse,
}


class InvalidNote(VerificationFailed):
    """A note whose form this version does not know."""

    what: ClassVar[str]
    hint = "Another version of this program may have written it. This run ignored it."

    def __init__(self, reason: str) -> None:
        super().__init__(f"the {self.what} cannot be used: {reason}")


class Note(Struct, frozen=True):
    """Content of one of our statements: the members of its predicate, and the digest, which is its subject.

    What is read has to be what this version would write, to the last member. `omitted` are the members that are left
    out where they say nothing; `invalid` is raised for what is no such note.
    """

    predicate_type: ClassVar[str]
    media_type: ClassVar[str]
    invalid: ClassVar[type[InvalidNote]]
    omitted: ClassVar[frozenset[str]] = frozenset()

    digest: Digest

    def to_statement(self, name: str) -> Statement:
        """Return the statement to sign."""
        return Statement(name, self.digest, self.predicate_type, self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the note as its statement states it."""
        return {name: member for name, member in as_json(self).items() if name != "digest"}

    @classmethod
    def from_statement(cls, statement: Statement) -> Self:
        """Return the note that a statement is; that its signature holds is for the caller to know.

        Raises:
            InvalidNote: of the class `invalid`; it is another statement, of another version, or a part is missing,
                unknown or no such thing.
        """
        if statement.predicate_type != cls.predicate_type:
            reads = cls.predicate_type.rpartition(":")[2]
            raise cls.invalid(f"its type is {statement.predicate_type[:80]!r}, and this version reads {reads}")
        try:
            note = convert({**_parsed_members(statement.predicate), "digest": statement.subject}, cls)
        except ValidationError:
            note = None
        except (InvalidDigest, InvalidVersion, InvalidTime) as error:
            raise cls.invalid(str(error)) from None
        if note is None or note.to_json() != statement.predicate:
            raise cls.invalid("a part is missing or unknown")
        return note


def _require_printable(invalid: type[InvalidNote], **texts: str) -> None:
    """Raise `invalid` for texts that are empty, too long, or could control a terminal."""
    for what, text in texts.items():
        if not text or not is_fit(text):
            raise invalid(f"its {what} is empty, too long or not printable")


def _require_page(invalid: type[InvalidNote], run: str | None) -> None:
    """Raise `invalid` for a run that is not the address of a page."""
    if run is not None and not (_URL.fullmatch(run) and len(run) <= MAX_TEXT):
        raise invalid("its run is not the address of a page")


def _require_zone(invalid: type[InvalidNote], *moments: datetime | None) -> None:
    """Raise `invalid` for times without a time zone."""
    if any(moment is not None and moment.tzinfo is None for moment in moments):
        raise invalid("a time has no time zone")


def is_fit(text: str) -> bool:
    """Return whether a note can have a text: one that can be printed, in one line, and is not too long."""
    return len(text) <= MAX_TEXT and text.isprintable()


def as_json(value: object) -> Any:  # noqa: ANN401  # what JSON has
    """Return a value as JSON has it; the members that its class has as `omitted` are left out if they say nothing."""
    match value:
        case datetime():
            return format_time(value)
        case Digest() | Version() | Enum():
            return str(value)
        case Struct():
            names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
            members = ((encoded, as_json(getattr(value, name))) for name, encoded in names)
            omitted = getattr(value, "omitted", ())
            return {name: member for name, member in members if member or name not in omitted}
        case tuple():
            return [as_json(each) for each in value]
    return value


def _parsed_members(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a note, those parsed whose name says what they are."""
    return {
        name: _PARSERS[name](member)
        if isinstance(member, str) and name in _PARSERS
        else _parsed_members(member)
        if isinstance(member, dict)
        else member
        for name, member in members.items()
    }


class InvalidRecord(InvalidNote):
    """A publication record whose form this version does not know."""

    what = "publication record"


class Approval(Struct, frozen=True):
    """A person's approval: by whom, how (`pull request 7`, `--approve`), and when."""

    omitted: ClassVar[frozenset[str]] = frozenset({"requests"})

    by: str
    how: str
    at: datetime
    requests: tuple[CountedRequest, ...] = ()  # that approved by their merge

    @property
    def told(self) -> tuple[tuple[str, str], ...]:
        """Return who approved and how, the address at its end: once for each request that counted, else once."""
        return tuple(request.told for request in self.requests) or ((self.by, self.how),)

    def __post_init__(self) -> None:
        """Raise `InvalidRecord` where a part could not be printed, or the time is of no zone."""
        _require_printable(InvalidRecord, approver=self.by, approval=self.how)
        _require_zone(InvalidRecord, self.at)
        for request in self.requests:
            _require_page(InvalidRecord, request.url)
            for person in request.people:
                _require_printable(InvalidRecord, approver=person.login)


class Record(Note, frozen=True, rename="camel"):
    """One move of one channel.

    `previous` is None for the first publication. A record is `recovered` if a later run wrote it, since the run that
    moved the channel had no time to. `by` is who signs it, as `Verified.by` prints itself. `promoted_from` is the
    channel that the digest was promoted from, as a record names it. `rolled_back` says that the channel was moved back
    to the digest, from `previous`, and had had it before. `put_back` says that its tag was moved from the digest to
    `previous` without a record, and is back. `adopted` says that no run published the digest: the person
    in `approval` adopted it, and there is no `proof` of its rendering. `content` is what Git had, if the channel's
    content is from there. `source` is the commit that `run` was started for, if an action published.
    """

    predicate_type = "tag:flux-manifests.github.io,2026:publication/v1"
    media_type = "application/vnd.flux-manifests.publication.v1+json"
    invalid = InvalidRecord
    omitted = frozenset({"promotedFrom", "rolledBack", "putBack", "adopted", "content", "source"})

    channel: str
    previous: Digest | None
    version: Version
    tag: str
    by: str
    at: datetime
    proof: Proof | None
    options: Digest
    run: str | None = None
    approval: Approval | None = None
    recovered: bool = False
    promoted_from: str | None = None
    rolled_back: bool = False
    adopted: bool = False
    content: RecordedContent | None = None
    source: FleetCommit | None = None
    put_back: bool = False

    def __post_init__(self) -> None:
        """Raise `InvalidRecord` where a part could not be printed, or the time is of no zone."""
        source = "-" if self.promoted_from is None else self.promoted_from
        _require_printable(InvalidRecord, channel=self.channel, tag=self.tag, publisher=self.by, source=source)
        _require_page(InvalidRecord, self.run)
        _require_zone(InvalidRecord, self.at)
        if self.source is not None:
            _require_page(InvalidRecord, self.source.repository)
            if not OID.fullmatch(self.source.commit):
                raise InvalidRecord("its source is no commit of Git")
        if (content := self.content) is not None:
            _require_printable(InvalidRecord, repository=content.repository, team=content.rules.team or "-")
            _require_zone(InvalidRecord, content.at)
            if not (OID.fullmatch(content.commit) and OID.fullmatch(content.overlay)):
                raise InvalidRecord("its content names no commit or no folder of Git")


class InvalidHold(InvalidNote):
    """A hold whose form this version does not know."""

    what = "hold"


class RefusedRelease(Struct, frozen=True):
    """The release that a channel was moved back from."""

    version: Version
    digest: Digest


class HoldStatement(Note, frozen=True):
    """Hold: the refused release of `channel` must not be published again.

    `digest` is what the channel was moved back to. `until` is None where a newer version than the refused one ends it.
    `by` is who signs it, as `Verified.by` prints itself. `moved` is when the channel was moved back, where that is not
    `at`: the hold was changed since. `alone` says that the digest is refused, and not its release.
    """

    predicate_type = "tag:flux-manifests.github.io,2026:hold/v1"
    media_type = "application/vnd.flux-manifests.hold.v1+json"
    invalid = InvalidHold
    omitted = frozenset({"alone"})

    channel: str
    refused: RefusedRelease
    until: datetime | None
    reason: str
    by: str
    at: datetime
    run: str | None = None
    moved: datetime | None = None
    alone: bool = False

    def __post_init__(self) -> None:
        """Raise `InvalidHold` where a part could not be printed, or a time has no time zone."""
        _require_printable(InvalidHold, channel=self.channel, publisher=self.by, reason=self.reason or "-")
        _require_page(InvalidHold, self.run)
        _require_zone(InvalidHold, self.at, self.until, self.moved)
