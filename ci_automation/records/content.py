"""Statements about a digest, and the parts of records about commits and content in Git, and who approved these.

A statement has the form that DSSE envelopes carry (in-toto Attestation Framework, *Statement* v1).
"""

from __future__ import annotations

import json
import re
from datetime import datetime  # noqa: TC003  # msgspec reads it
from typing import TYPE_CHECKING, Any, ClassVar, Self

from msgspec import Struct

from ci_automation.artifact.gojson import unique
from ci_automation.artifact.reference import Digest, InvalidDigest, OciRepository, Reference
from ci_automation.errors import VerificationFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.records.notes import Approval

_RUN = re.compile(r"run [!-~]+/actions/runs/([0-9]+)")
OID = re.compile(r"[0-9a-f]{40}")  # of an object of Git


def is_same_approval(recorded: Approval | None, given: Approval) -> bool:
    """Return whether a record names this approval: a run keeps its number if its repository gets another name."""
    if recorded is None:
        return False
    one, other = _RUN.fullmatch(recorded.how), _RUN.fullmatch(given.how)
    return one[1] == other[1] if one and other else recorded.how == given.how


class CountedPerson(Struct, frozen=True):
    """Person whose word counted for a request: the login at that time, and the account's number if GitHub told it."""

    omitted: ClassVar[frozenset[str]] = frozenset({"id"})

    login: str
    id: int = 0


class CountedRequest(Struct, frozen=True):
    """Merged request that approved content, and everyone whose word counted; `own` if its author merged it."""

    omitted: ClassVar[frozenset[str]] = frozenset({"own"})

    url: str
    people: tuple[CountedPerson, ...]
    own: bool = False

    @property
    def told(self) -> tuple[str, str]:
        """Return who counted, and how they approved, the address at its end."""
        own = "merged by its author " if self.own else ""
        return ", ".join(person.login for person in self.people), f"pull request {own}{self.url}"


class ApprovedRules(Struct, frozen=True):
    """Rules of an artifact when its content was approved; `rest` is a digest of those that have no member here."""

    omitted: ClassVar[frozenset[str]] = frozenset({"team"})

    approvals: int
    rest: Digest
    team: str | None = None

    @property
    def name(self) -> str:
        """Return what the page of a request names them by; `rest` is also of those with a member here."""
        return self.rest.hex[:16]

    def after(self, last: ApprovedRules) -> ApprovedRules:
        """Return the rules for older content that is back: those of `last`, with the higher number of approvals."""
        return ApprovedRules(max(self.approvals, last.approvals), last.rest, last.team or self.team)


class FleetCommit(Struct, frozen=True):
    """Commit of the fleet repository that a run was started for; `repository` is the address of its page."""

    repository: str
    commit: str


class RecordedContent(Struct, frozen=True):
    """Content of a channel that a commit of the default branch has, since when, and under which rules.

    `overlay` is the tree id that Git gives to the folder, `repository` the number or name of the repository. `at` is by
    GitHub's clock: a merge before it approves nothing any more.
    """

    repository: str
    commit: str
    overlay: str
    options: Digest
    at: datetime
    rules: ApprovedRules


STATEMENT_TYPE = "https://in-toto.io/Statement/v1"


class InvalidStatement(VerificationFailed):
    """A signed text that is not a statement about one digest."""

    hint = "This run ignored it. Its signer used another tool, or another version of this program."

    def __init__(self, reason: str) -> None:
        super().__init__(f"the signed statement cannot be read: {reason}")


class Statement(Struct, frozen=True):
    """Statement about one digest; `name` is only for people, the digest counts."""

    name: str
    subject: Digest
    predicate_type: str
    predicate: Mapping[str, Any]

    def to_bytes(self) -> bytes:
        """Return the statement as JSON, keys sorted, without spaces: same statement, same bytes."""
        value = {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": self.name, "digest": {"sha256": self.subject.hex}}],
            "predicateType": self.predicate_type,
            "predicate": self.predicate,
        }
        return json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=dict
        ).encode()

    @classmethod
    def parse(cls, raw: bytes) -> Self:
        """Return the statement in `raw`.

        Raises:
            InvalidStatement: it is not JSON, has a key twice, or is not about exactly one digest.
        """
        match _parsed(raw):
            case {
                "_type": "https://in-toto.io/Statement/v1",
                "subject": [{"digest": {"sha256": str(digest), **others}, **named}],
                "predicateType": str(predicate_type),
                "predicate": dict(predicate),
                **unknown,
            } if not others and not unknown and named.keys() <= {"name"}:
                if not isinstance(name := named.get("name", ""), str):
                    raise InvalidStatement("its subject's name is not a text")
                try:
                    return cls(name, Digest.parse(f"sha256:{digest}"), predicate_type, predicate)
                except InvalidDigest as error:
                    raise InvalidStatement(str(error)) from None
        raise InvalidStatement("it is not an in-toto statement about one SHA-256 digest")


def subject_name(reference: Reference) -> str:
    """Return the name of the artifact in a statement: its repository, or one word for every layout directory."""
    repository = reference.repository
    return f"{repository.host}/{repository.path}" if isinstance(repository, OciRepository) else "layout"


def _parsed(raw: bytes) -> object:
    try:
        value: object = json.loads(raw.decode(), parse_constant=_no_number, object_pairs_hook=unique)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        raise InvalidStatement("it is not JSON, or has a duplicate key") from None
    return value


def _no_number(name: str) -> None:
    raise ValueError(name)
