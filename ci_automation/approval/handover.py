"""Outputs that a job of a run hands to a later one: an operation, or a request, as its reviewers saw it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Self

from msgspec import DecodeError, Struct, ValidationError, json
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, InvalidDigest
from ci_automation.errors import Conflict, UsageError

MAX_AGE = timedelta(days=7)
NOTHING = "none"  # in place of a digest; an empty text would look like a lost one
_MAX_CHARACTERS = 8192
_TEXT = re.compile(r"[!-~]{1,1024}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_START_AGAIN = "Nothing was changed. Start a new run: it shows what would happen now, and waits for a new approval."


class InvalidHandover(UsageError):
    """What the job `show` handed over is missing or malformed."""

    hint = f"GitHub drops an output that contains a masked secret. {_START_AGAIN}"

    def __init__(self, reason: str) -> None:
        super().__init__(f"what the job `show` handed over cannot be used: {reason}")


class HandoverVoid(Conflict):
    """The reviewers saw something else than what would be done now."""

    hint = _START_AGAIN

    def __init__(self, reason: str) -> None:
        super().__init__(f"the approval does not count any more: {reason}")


class ShownRequest(Struct, frozen=True):
    """The digest that the reviewers of a run were asked for, with the names of the hazards that they were shown."""

    target: str
    hazards: tuple[str, ...]

    def to_text(self) -> str:
        """Return it as one line of JSON."""
        return json.encode(self).decode()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what a job of the same run handed over.

        Raises:
            InvalidHandover: it is malformed.
        """
        try:
            return json.decode(text, type=cls)
        except (ValidationError, DecodeError):
            raise InvalidHandover("it is not what the command review hands over") from None


# Of a run that asks no reviewer. An empty output will not do: a run that cannot see the registry asks without a page.
NOTHING_SHOWN = ShownRequest("nothing", ()).to_text()


class Handover(Struct, frozen=True, forbid_unknown_fields=True):
    """One operation as reviewers saw it.

    `name` is the artifact's in the configuration. `base` and `target` are digests, `base` or NOTHING. `content` names
    the overlay and options, `rules` the configuration, `head` the commit of the default branch, `plan` what the page
    says.
    """

    command: str
    name: str
    artifact: str
    base: str
    target: str
    content: str
    rules: str
    head: str
    plan: str
    attempt: int
    at: datetime

    @property
    def code(self) -> str:
        """Return the 64 digits by which a person agrees to exactly this, in whatever run and whenever.

        Of fewer, who can put anything into a channel makes one that a person adopts and another with the same digits.
        """
        same = replace(self, attempt=1, at=datetime.min.replace(tzinfo=UTC), head="")
        return Digest.of(same.to_text().encode()).hex

    def to_text(self) -> str:
        """Return it as one line of JSON."""
        return json.encode(self).decode()

    @classmethod
    def parse(cls, text: str) -> Handover:
        """Return what `to_text` wrote.

        Raises:
            InvalidHandover: a part is missing, empty or malformed.
        """
        if not text or len(text) > _MAX_CHARACTERS:
            raise InvalidHandover("it is empty" if not text else "it is too long")
        try:
            found = json.decode(text, type=cls)
        except ValidationError as error:
            raise InvalidHandover(str(error)) from None
        except ValueError:
            raise InvalidHandover("it is not JSON") from None
        texts = {name: value for name in cls.__struct_fields__ if isinstance(value := getattr(found, name), str)}
        if wrong := next((name for name, value in texts.items() if not _TEXT.fullmatch(value)), ""):
            raise InvalidHandover(f"its {wrong} is empty or not printable")
        try:
            for value in (found.target, found.rules, found.plan, *({found.base} - {NOTHING})):
                Digest.parse(value)
        except InvalidDigest as error:
            raise InvalidHandover(str(error)) from None
        if not _COMMIT.fullmatch(found.head) or found.at.tzinfo is None:
            raise InvalidHandover("its commit or time is malformed")
        return found

    def require_same(self, anew: Handover) -> None:
        """Check that `anew`, computed now in any attempt, is what was shown in the first.

        The head of the default branch may have moved on: what counts of it is in `content` and `rules`.

        Raises:
            HandoverVoid: it is not, it is too old, or another attempt showed it.
        """
        if self.attempt != 1:
            raise HandoverVoid(f"attempt {self.attempt} of the run showed it, and an approval counts for the first")
        if not timedelta() <= anew.at - self.at <= MAX_AGE:
            raise HandoverVoid(f"it was shown at {self.at:%Y-%m-%d %H:%M} UTC, and counts for {MAX_AGE.days} days")
        if self == replace(anew, attempt=1, at=self.at, head=self.head):
            return
        changed = [
            f"{name} was {old}, and is {new}"
            for name in ("command", "name", "artifact", "base", "target", "content", "rules", "plan")
            if (old := getattr(self, name)) != (new := getattr(anew, name))
        ]
        raise HandoverVoid("; ".join(changed))
