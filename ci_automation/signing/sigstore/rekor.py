"""Entries of Rekor, the transparency log: as its API takes and answers them, as bundles and annotations hold them.

Pure: it parses and builds, and believes nothing; who verifies an entry is `certified`.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest

_MAX_ENTRY_BYTES = 4 << 20
_MAX_TIME = 1 << 37  # the year 6325; later ones have no `datetime`


class UnreadableEntry(ValueError):
    """Something is not an entry of the log; the text is the reason."""


class LogEntry(Struct, frozen=True):
    """What the log signs when it takes something in, and its promise (the SignedEntryTimestamp), in base64."""

    body: str
    integrated_time: int
    log_index: int
    log_id: str
    promise: str

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Return the entry in the annotation `dev.sigstore.cosign/bundle` (cosign's `pkg/cosign/bundle`).

        Raises:
            UnreadableEntry: it is none.
        """
        match _json(text):
            case {
                "SignedEntryTimestamp": str(promise),
                "Payload": {
                    "body": str(body),
                    "integratedTime": int(time),
                    "logIndex": int(index),
                    "logID": str(log),
                },
            }:
                return cls._checked(body, time, index, log, promise)
        raise UnreadableEntry("it lacks a part that an entry has")

    @classmethod
    def _checked(cls, body: str, time: int, index: int, log: str, promise: str) -> Self:
        if isinstance(time, bool) or isinstance(index, bool) or not (0 < time < _MAX_TIME and 0 <= index < 1 << 63):
            raise UnreadableEntry("its time or its place in the log cannot be")
        return cls(body, time, index, log, promise)

    def to_json(self) -> str:
        """Return the entry as `dev.sigstore.cosign/bundle` holds it, in the order that cosign writes."""
        payload = {
            "body": self.body,
            "integratedTime": self.integrated_time,
            "logIndex": self.log_index,
            "logID": self.log_id,
        }
        return compact({"SignedEntryTimestamp": self.promise, "Payload": payload})

    @property
    def signed_bytes(self) -> bytes:
        """Return what the log's promise is a signature over: canonical JSON (RFC 8785) of all but the promise."""
        payload = {
            "body": self.body,
            "integratedTime": self.integrated_time,
            "logID": self.log_id,
            "logIndex": self.log_index,
        }
        return json.dumps(payload, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()

    @property
    def record(self) -> Any:  # noqa: ANN401 - it is JSON, and looked at by match
        """Return the value in the body.

        Raises:
            UnreadableEntry: it is not JSON in base64.
        """
        return _json(base64_decoded(self.body))


def entry_of_rekor_answer(raw: bytes) -> str:
    """Return the one entry in an answer of Rekor's v1 API, `{uuid: {...}}`, as `dev.sigstore.cosign/bundle` holds it.

    Raises:
        UnreadableEntry: the answer has none, or several.
    """
    value = _only_value(raw)
    match value:
        case {
            "body": str(body),
            "integratedTime": int(time),
            "logIndex": int(index),
            "logID": str(log),
            "verification": {"signedEntryTimestamp": str(promise)},
        }:
            return LogEntry._checked(body, time, index, log, promise).to_json()  # noqa: SLF001 - the same module
    raise UnreadableEntry("it lacks a part that an entry in Rekor has")


def bundle_entry_of_answer(raw: bytes) -> dict[str, Any]:
    """Return the one entry in an answer of Rekor's v1 API as bundles hold it (protobuf-specs `sigstore_rekor.proto`).

    Raises:
        UnreadableEntry: the answer has none, or lacks the proof that the entry is in the log.
    """
    entry = LogEntry.parse(entry_of_rekor_answer(raw))
    match _only_value(raw), entry.record:
        case (
            {
                "verification": {
                    "inclusionProof": {
                        "checkpoint": str(checkpoint),
                        "hashes": [*hashes],
                        "logIndex": int(index),
                        "rootHash": str(root),
                        "treeSize": int(size),
                    }
                }
            },
            {"kind": str(kind), "apiVersion": str(version)},
        ):
            proof = {
                "logIndex": str(index),
                "rootHash": _base64_of_hex(root),
                "treeSize": str(size),
                "hashes": [_base64_of_hex(each) for each in hashes],
                "checkpoint": {"envelope": checkpoint},
            }
            return {
                "logIndex": str(entry.log_index),
                "logId": {"keyId": _base64_of_hex(entry.log_id)},
                "kindVersion": {"kind": kind, "version": version},
                "integratedTime": str(entry.integrated_time),
                "inclusionPromise": {"signedEntryTimestamp": entry.promise},
                "inclusionProof": proof,
                "canonicalizedBody": entry.body,
            }
    raise UnreadableEntry("it has no proof that the entry is in the log")


def bundle_entry_of_v2_answer(raw: bytes) -> dict[str, Any]:
    """Return the entry in an answer of Rekor's v2 API, which has the form that bundles want.

    Raises:
        UnreadableEntry: the answer has none.
    """
    entry: dict[str, Any] = _json(raw)
    match entry:
        case {"logId": {}, "inclusionProof": {}, "canonicalizedBody": str()}:
            return entry
    raise UnreadableEntry("it lacks a part that an entry in Rekor has")


def hashedrekord_proposal(digest: Digest, signature: bytes, certificate_pem: str) -> bytes:
    """Return what is sent to Rekor v1 for a signature over something of this digest (rekor `hashedrekord` v0.0.1)."""
    spec = {
        "data": {"hash": {"algorithm": "sha256", "value": digest.hex}},
        "signature": {
            "content": base64_encoded(signature),
            "publicKey": {"content": base64_encoded(certificate_pem.encode())},
        },
    }
    return compact({"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": spec}).encode()


def dsse_proposal(envelope: str, certificate_pem: str) -> bytes:
    """Return what is sent to Rekor v1 for a DSSE envelope (rekor `dsse` v0.0.1)."""
    content = {"envelope": envelope, "verifiers": [base64_encoded(certificate_pem.encode())]}
    return compact({"apiVersion": "0.0.1", "kind": "dsse", "spec": {"proposedContent": content}}).encode()


def v2_proposal(digest: Digest, signature: bytes, certificate_der: bytes) -> bytes:
    """Return what is sent to Rekor v2 for a P-256 signature over something of this digest (rekor-tiles' API)."""
    verifier = {
        "x509Certificate": {"rawBytes": base64_encoded(certificate_der)},
        "keyDetails": "PKIX_ECDSA_P256_SHA_256",
    }
    request = {
        "digest": base64_encoded(bytes.fromhex(digest.hex)),
        "signature": {"content": base64_encoded(signature), "verifier": verifier},
    }
    return compact({"hashedRekordRequestV002": request}).encode()


def base64_encoded(data: bytes) -> str:
    """Return base64."""
    return base64.b64encode(data).decode()


def base64_decoded(text: str) -> bytes:
    """Return what a base64 text stands for.

    Raises:
        UnreadableEntry: it is none.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UnreadableEntry("a part of it is not base64") from None


def _base64_of_hex(text: object) -> str:
    try:
        return base64_encoded(bytes.fromhex(text))  # type: ignore[arg-type]  # another type is the TypeError below
    except (ValueError, TypeError):
        raise UnreadableEntry("a part of it is not hexadecimal") from None


def _only_value(raw: bytes) -> object:
    value = _json(raw)
    if not isinstance(value, dict) or len(value) != 1:
        raise UnreadableEntry("it is not one entry")
    return next(iter(value.values()))


def _json(text: str | bytes) -> Any:  # noqa: ANN401 - it is JSON, and looked at by match
    if len(text) > _MAX_ENTRY_BYTES:
        raise UnreadableEntry("it is too large")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableEntry("it is not JSON") from None


def compact(value: object) -> str:
    """Return JSON without a blank, as the services take it."""
    return json.dumps(value, separators=(",", ":"))
