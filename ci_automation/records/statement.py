"""Statements about a digest, in the form that DSSE envelopes carry (in-toto Attestation Framework, *Statement* v1)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from ci_automation.artifact.gojson import unique
from ci_automation.artifact.reference import Digest, InvalidDigest, OciRepository, Reference
from ci_automation.errors import VerificationFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

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
