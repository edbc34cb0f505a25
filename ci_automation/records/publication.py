"""Publication records: that a channel was moved to a digest, by whom, in which run, approved by whom, and when.

A record is a statement about the digest (design section 5.1). Its predicate type carries the version of its form; a
tag URI (RFC 4151) names it for ever and is no address.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from ci_automation.artifact.digest import Digest, InvalidDigest
from ci_automation.errors import VerificationFailed
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import InvalidVersion, Version
from ci_automation.records.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Mapping

PREDICATE_TYPE = "tag:flux-manifests.github.io,2026:publication/v1"
# The referrer's type. A Sigstore bundle's would make Flux count the record as a signature.
MEDIA_TYPE = "application/vnd.flux-manifests.publication.v1+json"
_MAX_TEXT = 1024
_URL = re.compile(r"https?://[!-~]+")
# RFC 3339 in UTC; no leap second, and no year that Python lacks.
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z")
_KEYS = frozenset(
    {"channel", "previous", "version", "tag", "by", "run", "approval", "at", "proof", "options", "recovered"}
)
_MAY_BE_MISSING = frozenset({"promotedFrom", "rolledBack", "adopted"})
_APPROVAL_KEYS = frozenset({"by", "how", "at"})


class InvalidRecord(VerificationFailed):
    """A publication record has not the form that this version reads and writes."""

    hint = "Another version of this program may have written it; nothing of it was believed."

    def __init__(self, reason: str) -> None:
        super().__init__(f"the publication record cannot be used: {reason}")


class Approval(Struct, frozen=True):
    """A person's yes: whose, how it was given (`pull request 7`, `--approve`), and when."""

    by: str
    how: str
    at: datetime

    def __post_init__(self) -> None:
        """Raise `InvalidRecord` where a part could not be printed, or the time is of no zone."""
        _check(approver=self.by, approval=self.how)
        _check_time(self.at)

    def to_json(self) -> dict[str, str]:
        """Return the approval as documents have it."""
        return {"by": self.by, "how": self.how, "at": format_time(self.at)}


class Record(Struct, frozen=True):
    """One move of one channel.

    `previous` is None for the first publication. A record is `recovered` if a later run wrote it, since the run that
    moved the channel had no time to. `by` is who signs it, as `Verified.by` prints itself. `promoted_from` is the
    channel that the digest was promoted from, as a record names it. `rolled_back` says that the channel was moved back
    to the digest, from `previous`, and had had it before. `adopted` says that nobody published the digest: the person
    in `approval` adopted it, and there is no `proof` of its rendering.
    """

    channel: str
    digest: Digest
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

    def __post_init__(self) -> None:
        """Raise `InvalidRecord` where a part could not be printed, or the time is of no zone."""
        _check(channel=self.channel, tag=self.tag, publisher=self.by)
        if self.promoted_from is not None:
            _check(source=self.promoted_from)
        if self.run is not None and not (_URL.fullmatch(self.run) and len(self.run) <= _MAX_TEXT):
            raise InvalidRecord("its run is not the address of a page")
        _check_time(self.at)

    def to_statement(self, name: str) -> Statement:
        """Return what is to be signed."""
        return Statement(name, self.digest, PREDICATE_TYPE, self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the record as its statement has it; the digest is the statement's subject."""
        promoted = {} if self.promoted_from is None else {"promotedFrom": self.promoted_from}
        rolled_back = {"rolledBack": True} if self.rolled_back else {}
        adopted = {"adopted": True} if self.adopted else {}
        return {
            "channel": self.channel,
            "previous": None if self.previous is None else str(self.previous),
            "version": str(self.version),
            "tag": self.tag,
            "by": self.by,
            "run": self.run,
            "approval": None if self.approval is None else self.approval.to_json(),
            "at": format_time(self.at),
            "proof": None if self.proof is None else str(self.proof),
            "options": str(self.options),
            "recovered": self.recovered,
            **promoted,
            **rolled_back,
            **adopted,
        }

    @classmethod
    def from_statement(cls, statement: Statement) -> Self:
        """Return the record that a statement is; that its signature holds is for the caller to know.

        Raises:
            InvalidRecord: it is another statement, of another version, or a part is missing, unknown or no such thing.
        """
        if statement.predicate_type != PREDICATE_TYPE:
            raise InvalidRecord(f"its type is {statement.predicate_type[:80]!r}, and this version reads publication/v1")
        value = _with_keys(statement.predicate, _KEYS, "it", _MAY_BE_MISSING)
        approval, recovered = value["approval"], value["recovered"]
        if not isinstance(recovered, bool):
            raise InvalidRecord("whether it was recovered is not true or false")
        if value.get("rolledBack", True) is not True or value.get("adopted", True) is not True:
            raise InvalidRecord("that it was rolled back, or adopted, is not true")
        try:
            return cls(
                channel=_text(value, "channel"),
                digest=statement.subject,
                previous=None if value["previous"] is None else Digest.parse(_text(value, "previous")),
                version=Version.parse(_text(value, "version")),
                tag=_text(value, "tag"),
                by=_text(value, "by"),
                run=None if value["run"] is None else _text(value, "run"),
                approval=None if approval is None else _approval(approval),
                at=parse_time(_text(value, "at")),
                proof=None if value["proof"] is None else Proof(_text(value, "proof")),
                options=Digest.parse(_text(value, "options")),
                recovered=recovered,
                promoted_from=_text(value, "promotedFrom") if "promotedFrom" in value else None,
                rolled_back="rolledBack" in value,
                adopted="adopted" in value,
            )
        except (InvalidDigest, InvalidVersion, ValueError) as error:  # ValueError: a proof of another version
            raise InvalidRecord(str(error)) from None


def format_time(moment: datetime) -> str:
    """Return a moment as RFC 3339 writes it, in UTC."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Return the moment that `format_time` wrote.

    Raises:
        InvalidRecord: it is none.
    """
    try:
        if _TIME.fullmatch(text):
            return datetime.fromisoformat(text)
    except ValueError:
        pass
    raise InvalidRecord("a time is not one of RFC 3339 in UTC")


def _approval(value: object) -> Approval:
    checked = _with_keys(value, _APPROVAL_KEYS, "its approval")
    return Approval(_text(checked, "by"), _text(checked, "how"), parse_time(_text(checked, "at")))


def _with_keys(
    value: object, keys: frozenset[str], what: str, may_be_missing: frozenset[str] = frozenset()
) -> Mapping[str, Any]:
    if not isinstance(value, dict) or value.keys() - may_be_missing != keys:
        raise InvalidRecord(f"{what} lacks a part, or has one that is unknown")
    return value


def _text(value: Mapping[str, Any], key: str) -> str:
    if not isinstance(text := value[key], str):
        raise InvalidRecord(f"{key} is not a text")
    return text


def _check(**texts: str) -> None:
    """Refuse what is empty, endless, or could control a terminal."""
    for what, text in texts.items():
        if not text or len(text) > _MAX_TEXT or not text.isprintable():
            raise InvalidRecord(f"its {what} is empty, too long, or cannot be printed")


def _check_time(moment: datetime) -> None:
    if moment.tzinfo is None:
        raise InvalidRecord("a time is of no zone")
