"""Sigstore bundles v0.3 as Flux reads them: JSON by Protobuf's rules, an envelope, entries of logs.

Flux ignores a bundle that sigstore-go refuses to read (`bundle.UnmarshalJSON`).
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from ci_automation.artifact.gojson import unique

if TYPE_CHECKING:
    from collections.abc import Mapping

PAYLOAD_TYPE = "application/vnd.in-toto+json"
# sigstore-go reads only this one of the versions that cosign asks for (0.3 and later).
_READ_BY_FLUX = re.compile(r"application/vnd\.dev\.sigstore\.bundle(\+json;version=0\.3|\.v0\.3(\.[0-9]+)?\+json)")
_HASHED: Mapping[str, Any] = {"messageDigest": {"algorithm": {}, "digest": {}}, "signature": {}}
_PROOF: Mapping[str, Any] = {
    "logIndex": {},
    "rootHash": {},
    "treeSize": {},
    "hashes": {},
    "checkpoint": {"envelope": {}},
}
_ENTRY: Mapping[str, Any] = {
    "logIndex": {},
    "logId": {"keyId": {}},
    "kindVersion": {"kind": {}, "version": {}},
    "integratedTime": {},
    "inclusionPromise": {"signedEntryTimestamp": {}},
    "inclusionProof": _PROOF,
    "canonicalizedBody": {},
}
# All members that a bundle may have (protobuf-specs, `sigstore_bundle.proto`).
_MEMBERS: Mapping[str, Any] = {
    "mediaType": {},
    "verificationMaterial": {
        "publicKey": {"hint": {}},
        "x509CertificateChain": {"certificates": {"rawBytes": {}}},
        "certificate": {"rawBytes": {}},
        "tlogEntries": _ENTRY,
        "timestampVerificationData": {"rfc3161Timestamps": {"signedTimestamp": {}}},
    },
    "messageSignature": _HASHED,
    "dsseEnvelope": {"payload": {}, "payloadType": {}, "signatures": {"sig": {}, "keyid": {}}},
}


class Envelope(Struct, frozen=True):
    """A DSSE envelope (secure-systems-lab/dsse `envelope.md`)."""

    payload_type: str
    payload: bytes
    signatures: tuple[bytes, ...]

    @property
    def message(self) -> bytes:
        """Return the signed bytes: DSSE's pre-authentication encoding (`protocol.md`)."""
        kind = self.payload_type.encode()
        return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(self.payload), self.payload)

    def signed(self, signature: bytes) -> dict[str, object]:
        """Return the envelope as bundles have it, with a signature over `message`."""
        payload, made = (base64.b64encode(data).decode() for data in (self.payload, signature))
        return {"payload": payload, "payloadType": self.payload_type, "signatures": [{"sig": made}]}


class Bundle(Struct, frozen=True):
    """One bundle; `problem` says why this program could not read a bundle that Flux may read.

    `later_page` says that it is not on the first page of the list of referrers.
    """

    raw: bytes
    envelope: Envelope | None = None
    has_certificate: bool = False
    only_rekor_2: bool = False
    envelope_in_rekor_2: bool = False
    problem: str | None = None
    later_page: bool = False

    @classmethod
    def parse(cls, raw: bytes) -> Self | None:
        """Return the bundle in `raw`, or None if Flux would ignore it."""
        try:
            value = json.loads(raw.decode(), object_pairs_hook=unique)
        except (ValueError, RecursionError):
            return None
        media_type, material = member(value, "mediaType"), member(value, "verificationMaterial")
        entries, envelope = member(material, "tlogEntries") or [], member(value, "dsseEnvelope")
        certificate, key = member(material, "certificate"), member(material, "publicKey")
        if (
            not (isinstance(media_type, str) and _READ_BY_FLUX.fullmatch(media_type))
            # Each of these is a `oneof`: Protobuf's JSON takes one of its members.
            or (envelope is None) == (member(value, "messageSignature") is None)
            or (certificate is None) == (key is None)
            or member(material, "x509CertificateChain") is not None
            or not isinstance(entries, list)
            or not _has_only(value, _MEMBERS)
            or (entries and not any(member(entry, "inclusionProof") for entry in entries))
        ):
            return None
        # A log of version 2 gives no time (sigstore-go); Flux before 2.8.6 knows no other clock.
        timed = any(member(entry, "integratedTime") not in (None, 0, "0") for entry in entries)
        return cls(
            raw,
            _envelope(envelope),
            certificate is not None,
            only_rekor_2=bool(entries) and not timed,
            envelope_in_rekor_2=any(_is_envelope_of_rekor_2(entry) for entry in entries),
        )


def member(value: object, name: str) -> Any:  # noqa: ANN401  # what JSON has
    """Return a member of a JSON object, in camelCase or snake_case, as Protobuf's JSON allows."""
    if not isinstance(value, dict):
        return None
    return value.get(name, value.get(_snake_case(name)))


def _has_only(value: object, members: Any) -> bool:  # noqa: ANN401  # a shape of any depth
    """Return whether every member in `value` is known and there once; Protobuf's JSON refuses anything else.

    Protobuf's JSON has no lists of lists, so this goes no deeper than `members`.
    """
    if isinstance(value, list):
        return all(not isinstance(each, list) and _has_only(each, members) for each in value)
    if not isinstance(value, dict):
        return True
    if len({_snake_case(name) for name in value}) < len(value):
        return False
    names = {name: within for each, within in members.items() for name in (each, _snake_case(each))}
    return all(name in names and _has_only(within, names[name]) for name, within in value.items())


def _snake_case(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


def _is_envelope_of_rekor_2(entry: object) -> bool:
    """Return whether a log of version 2 holds the envelope itself, as cosign 3 has it; this program logs its hash."""
    try:
        body = json.loads(base64.b64decode(member(entry, "canonicalizedBody")))
    except (TypeError, ValueError, RecursionError):
        return False
    return member(member(body, "spec"), "dsseV002") is not None


def _envelope(value: object) -> Envelope | None:
    payload_type, payload = member(value, "payloadType"), member(value, "payload")
    signatures = member(value, "signatures")
    try:
        return Envelope(
            payload_type.encode().decode(),
            base64.b64decode(payload, validate=True),
            tuple(base64.b64decode(member(each, "sig"), validate=True) for each in signatures),
        )
    except (AttributeError, TypeError, ValueError):
        return None
