"""Entries of Rekor, the transparency log, in the forms of its API, of bundles and of annotations.

Pure: this module parses and builds entries. `root` and `instance` verify them.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from msgspec import Meta, Struct, ValidationError, field, json

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Digest

_MAX_ENTRY_BYTES = 4 << 20
_MAX_TIME = 1 << 37  # the year 6325; later ones have no `datetime`
_MAX_INDEX = (1 << 63) - 1

_Wanted = TypeVar("_Wanted")


class UnreadableEntry(ValueError):
    """Data is not an entry of the log; the text is the reason."""


class _Logged(Struct, frozen=True, rename="camel"):
    """The part of an entry that the log signs."""

    body: str
    integrated_time: Annotated[int, Meta(gt=0, lt=_MAX_TIME)]
    log_index: Annotated[int, Meta(ge=0, le=_MAX_INDEX)]
    log_id: str = field(name="logID")


class LogEntry(Struct, frozen=True):
    """An entry as the annotation `dev.sigstore.cosign/bundle` has it, with its fields in the order of cosign.

    `promise` is the log's signature over `payload` in base64 (the SignedEntryTimestamp).
    """

    promise: str = field(name="SignedEntryTimestamp")
    payload: _Logged = field(name="Payload")

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Return the entry in the annotation `dev.sigstore.cosign/bundle` (cosign's `pkg/cosign/bundle`).

        Raises:
            UnreadableEntry: the text is not an entry.
        """
        return _parsed(text, cls)

    def to_json(self) -> str:
        """Return the entry as `dev.sigstore.cosign/bundle` holds it."""
        return json.encode(self).decode()

    @property
    def signed_bytes(self) -> bytes:
        """Return what the log's promise is a signature over: canonical JSON (RFC 8785) of the payload."""
        return json.encode(self.payload, order="sorted")

    @property
    def record(self) -> Any:  # noqa: ANN401 - it is JSON, and looked at by match
        """Return the value in the body; raise `UnreadableEntry` if it is not JSON in base64."""
        return _parsed(base64_decoded(self.payload.body), Any)


class _InclusionProof(Struct, frozen=True, rename="camel"):
    checkpoint: str
    hashes: tuple[str, ...]
    log_index: int
    root_hash: str
    tree_size: int


class _Verification(Struct, frozen=True, rename="camel"):
    signed_entry_timestamp: str
    inclusion_proof: _InclusionProof | None = None


class _Answered(_Logged, frozen=True, kw_only=True, rename="camel"):
    """An entry as Rekor's v1 API answers it."""

    verification: _Verification

    @property
    def entry(self) -> LogEntry:
        """Return the entry without the proof that it is in the log."""
        logged = _Logged(self.body, self.integrated_time, self.log_index, self.log_id)
        return LogEntry(self.verification.signed_entry_timestamp, logged)


class _Recorded(Struct, frozen=True, rename="camel"):
    """The kind of record in an entry's body."""

    kind: str
    api_version: str


def entry_of_rekor_answer(raw: bytes) -> LogEntry:
    """Return the one entry in an answer of Rekor's v1 API, `{uuid: {...}}`.

    Raises:
        UnreadableEntry: the answer has no entry, or several.
    """
    return _only(_parsed(raw, dict[str, _Answered])).entry


def entries_of_rekor_answer(raw: bytes) -> tuple[LogEntry, ...]:
    """Return the entries that Rekor's v1 API found, `[{uuid: {...}}, ...]`.

    Raises:
        UnreadableEntry: the answer is not a list of entries.
    """
    return tuple(_only(each).entry for each in _parsed(raw, tuple[dict[str, _Answered], ...]))


def bundle_entry_of_answer(raw: bytes) -> dict[str, Any]:
    """Return the one entry in an answer of Rekor's v1 API as bundles hold it (protobuf-specs `sigstore_rekor.proto`).

    Raises:
        UnreadableEntry: the answer has no entry, or lacks the proof that the entry is in the log.
    """
    entry = _only(_parsed(raw, dict[str, _Answered]))
    record = _parsed(base64_decoded(entry.body), _Recorded)
    if (proof := entry.verification.inclusion_proof) is None:
        raise UnreadableEntry("it has no proof that the entry is in the log")
    return {
        "logIndex": str(entry.log_index),
        "logId": {"keyId": _base64_of_hex(entry.log_id)},
        "kindVersion": {"kind": record.kind, "version": record.api_version},
        "integratedTime": str(entry.integrated_time),
        "inclusionPromise": {"signedEntryTimestamp": entry.verification.signed_entry_timestamp},
        "inclusionProof": {
            "logIndex": str(proof.log_index),
            "rootHash": _base64_of_hex(proof.root_hash),
            "treeSize": str(proof.tree_size),
            "hashes": [_base64_of_hex(each) for each in proof.hashes],
            "checkpoint": {"envelope": proof.checkpoint},
        },
        "canonicalizedBody": entry.body,
    }


def hashedrekord_proposal(digest: Digest, signature: bytes, certificate_pem: str) -> bytes:
    """Return the request to Rekor v1 for a signature over data with this digest (rekor `hashedrekord` v0.0.1)."""
    spec = {
        "data": {"hash": {"algorithm": "sha256", "value": digest.hex}},
        "signature": {
            "content": base64_encoded(signature),
            "publicKey": {"content": base64_encoded(certificate_pem.encode())},
        },
    }
    return compact({"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": spec}).encode()


def dsse_proposal(envelope: str, certificate_pem: str) -> bytes:
    """Return the request to Rekor v1 for a DSSE envelope (rekor `dsse` v0.0.1)."""
    content = {"envelope": envelope, "verifiers": [base64_encoded(certificate_pem.encode())]}
    return compact({"apiVersion": "0.0.1", "kind": "dsse", "spec": {"proposedContent": content}}).encode()


def base64_encoded(data: bytes) -> str:
    """Return base64."""
    return base64.b64encode(data).decode()


def base64_decoded(text: str) -> bytes:
    """Return decoded base64; raise `UnreadableEntry` for other text."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise UnreadableEntry("a part of it is not base64") from None


def _base64_of_hex(text: str) -> str:
    try:
        return base64_encoded(bytes.fromhex(text))
    except ValueError:
        raise UnreadableEntry("a part of it is not hexadecimal") from None


def _only(entries: dict[str, _Answered]) -> _Answered:
    if len(entries) != 1:
        raise UnreadableEntry("it is not one entry")
    return next(iter(entries.values()))


def _parsed(text: str | bytes, wanted: type[_Wanted]) -> _Wanted:
    if len(text) > _MAX_ENTRY_BYTES:
        raise UnreadableEntry("it is too large")
    try:
        return json.decode(text, type=wanted)
    except ValidationError as error:
        raise UnreadableEntry(f"a part is missing or malformed: {error}") from None
    except (ValueError, RecursionError):
        raise UnreadableEntry("it is not JSON") from None


def compact(value: object) -> str:
    """Return JSON without blanks, as the services take it."""
    return json.encode(value).decode()
