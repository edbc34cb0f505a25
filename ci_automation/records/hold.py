"""Holds: that a channel was moved back, from what, until when that waits, why, by whom, and in which run.

A hold is a statement about the digest that the channel was moved back to (design section 5.1). Its predicate type
carries the version of its form; a tag URI (RFC 4151) names it for ever and is no address.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from ci_automation.artifact.digest import Digest, InvalidDigest
from ci_automation.errors import VerificationFailed
from ci_automation.flux.version import InvalidVersion, Version
from ci_automation.records.publication import InvalidRecord, format_time, parse_time
from ci_automation.records.statement import Statement

if TYPE_CHECKING:
    from datetime import datetime

PREDICATE_TYPE = "tag:flux-manifests.github.io,2026:hold/v1"
# The referrer's type. A Sigstore bundle's would make Flux count the hold as a signature.
MEDIA_TYPE = "application/vnd.flux-manifests.hold.v1+json"
MAX_TEXT = 1024
_URL = re.compile(r"https?://[!-~]+")


class InvalidHold(VerificationFailed):
    """A hold has not the form that this version reads and writes."""

    hint = "Another version of this program may have written it; nothing of it was believed."

    def __init__(self, reason: str) -> None:
        super().__init__(f"the hold cannot be used: {reason}")


def is_fit(text: str) -> bool:
    """Return whether a hold can have a text: one that can be printed, in one line, and is not too long."""
    return len(text) <= MAX_TEXT and text.isprintable()


class HoldStatement(Struct, frozen=True):
    """That what `channel` had, `refused_digest` with `refused_version`, is not to be taken again.

    `digest` is what the channel was moved back to. `until` is None where a newer version than the refused one ends it.
    `by` is who signs it, as `Verified.by` prints itself. `moved` is when the channel was moved back, where that is not
    `at`: the hold was changed since.
    """

    channel: str
    digest: Digest
    refused_version: Version
    refused_digest: Digest
    until: datetime | None
    reason: str
    by: str
    at: datetime
    run: str | None = None
    moved: datetime | None = None

    def __post_init__(self) -> None:
        """Raise `InvalidHold` where a part could not be printed, or a time is of no zone."""
        for what, text in (("channel", self.channel), ("publisher", self.by), ("reason", self.reason or "-")):
            if not text or not is_fit(text):
                raise InvalidHold(f"its {what} is empty, too long, or cannot be printed")
        if self.run is not None and not (_URL.fullmatch(self.run) and len(self.run) <= MAX_TEXT):
            raise InvalidHold("its run is not the address of a page")
        if any(moment.tzinfo is None for moment in (self.at, self.until or self.at, self.moved or self.at)):
            raise InvalidHold("a time is of no zone")

    def to_statement(self, name: str) -> Statement:
        """Return what is to be signed."""
        return Statement(name, self.digest, PREDICATE_TYPE, self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the hold as its statement has it; the digest is the statement's subject."""
        return {
            "channel": self.channel,
            "refused": {"version": str(self.refused_version), "digest": str(self.refused_digest)},
            "until": None if self.until is None else format_time(self.until),
            "reason": self.reason,
            "by": self.by,
            "run": self.run,
            "at": format_time(self.at),
            "moved": None if self.moved is None else format_time(self.moved),
        }

    @classmethod
    def from_statement(cls, statement: Statement) -> Self:
        """Return the hold that a statement is; that its signature holds is for the caller to know.

        Raises:
            InvalidHold: it is another statement, of another version, or a part is missing, unknown or no such thing.
        """
        if statement.predicate_type != PREDICATE_TYPE:
            raise InvalidHold(f"its type is {statement.predicate_type[:80]!r}, and this version reads hold/v1")
        match dict(statement.predicate):
            case {
                "channel": str(channel),
                "refused": {"version": str(version), "digest": str(digest), **unknown},
                "until": None | str() as until,
                "reason": str(reason),
                "by": str(by),
                "run": None | str() as run,
                "at": str(at),
                "moved": None | str() as moved,
                **more,
            } if not unknown and not more:
                try:
                    refused = Version.parse(version), Digest.parse(digest)
                    end, back = (None if time is None else parse_time(time) for time in (until, moved))
                    said = parse_time(at)
                except (InvalidDigest, InvalidVersion, InvalidRecord) as error:
                    raise InvalidHold(str(error)) from None
                return cls(channel, statement.subject, *refused, end, reason, by, said, run, back)
        raise InvalidHold("it lacks a part, or has one that is unknown")
