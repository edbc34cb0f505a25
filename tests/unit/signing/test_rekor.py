from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from ci_automation.signing.sigstore.rekor import (
    LogEntry,
    UnreadableEntry,
    bundle_entry_of_answer,
    entry_of_rekor_answer,
)

BODY = base64.b64encode(b'{"apiVersion":"0.0.1","kind":"hashedrekord","spec":{}}').decode()
PAYLOAD = {"body": BODY, "integratedTime": 1_795_248_211, "logIndex": 7, "logID": "c0" * 32}
ANNOTATION = {"SignedEntryTimestamp": "MEUC", "Payload": PAYLOAD}
PROOF: dict[str, Any] = {
    "checkpoint": "log\n7\n",
    "hashes": ["ab" * 32],
    "logIndex": 3,
    "rootHash": "cd" * 32,
    "treeSize": 4,
}
VERIFICATION: dict[str, Any] = {"signedEntryTimestamp": "MEUC", "inclusionProof": PROOF}
ANSWER: dict[str, Any] = PAYLOAD | {"verification": VERIFICATION}


def answer(**changes: Any) -> bytes:
    return json.dumps({"24296fb24b8ad77a": ANSWER | changes}).encode()


def test_an_answer_of_rekor_becomes_the_annotation_that_cosign_writes() -> None:
    assert entry_of_rekor_answer(answer()).to_json() == json.dumps(ANNOTATION, separators=(",", ":"))


def test_an_entry_is_read_as_it_is_written() -> None:
    text = entry_of_rekor_answer(answer()).to_json()
    assert LogEntry.parse(text).to_json() == text
    assert LogEntry.parse(text).record == {"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": {}}


def test_the_log_signs_canonical_json_without_its_promise() -> None:
    assert LogEntry.parse(json.dumps(ANNOTATION)).signed_bytes == (
        f'{{"body":"{BODY}","integratedTime":1795248211,"logID":"{"c0" * 32}","logIndex":7}}'.encode()
    )


def test_an_answer_of_rekor_becomes_the_entry_of_a_bundle() -> None:
    assert bundle_entry_of_answer(answer()) == {
        "logIndex": "7",
        "logId": {"keyId": base64.b64encode(b"\xc0" * 32).decode()},
        "kindVersion": {"kind": "hashedrekord", "version": "0.0.1"},
        "integratedTime": "1795248211",
        "inclusionPromise": {"signedEntryTimestamp": "MEUC"},
        "inclusionProof": {
            "logIndex": "3",
            "rootHash": base64.b64encode(b"\xcd" * 32).decode(),
            "treeSize": "4",
            "hashes": [base64.b64encode(b"\xab" * 32).decode()],
            "checkpoint": {"envelope": "log\n7\n"},
        },
        "canonicalizedBody": BODY,
    }


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("[" * 100_000, id="nested without end"),
        pytest.param("[]", id="a list"),
        pytest.param(json.dumps({"Payload": PAYLOAD}), id="no promise"),
        pytest.param(
            json.dumps(ANNOTATION | {"Payload": PAYLOAD | {"integratedTime": "1795248211"}}), id="time as text"
        ),
        pytest.param(json.dumps(ANNOTATION | {"Payload": PAYLOAD | {"integratedTime": True}}), id="time as a boolean"),
        pytest.param(json.dumps(ANNOTATION | {"Payload": PAYLOAD | {"integratedTime": 0}}), id="no time"),
        pytest.param(
            json.dumps(ANNOTATION | {"Payload": PAYLOAD | {"integratedTime": 1 << 40}}), id="time out of reach"
        ),
        pytest.param(json.dumps(ANNOTATION | {"Payload": PAYLOAD | {"logIndex": -1}}), id="negative place"),
        pytest.param(json.dumps(ANNOTATION | {"Payload": PAYLOAD | {"body": 1}}), id="body as a number"),
        pytest.param(" " * (5 << 20), id="too large"),
    ],
)
def test_what_is_no_entry_is_refused(text: str) -> None:
    with pytest.raises(UnreadableEntry):
        LogEntry.parse(text)


@pytest.mark.parametrize("body", ["???", base64.b64encode(b"{").decode(), base64.b64encode(b"\xff").decode()])
def test_a_body_that_is_not_json_in_base64_is_refused(body: str) -> None:
    entry = LogEntry.parse(json.dumps(ANNOTATION | {"Payload": PAYLOAD | {"body": body}}))
    with pytest.raises(UnreadableEntry):
        _ = entry.record


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"{}", id="no entry"),
        pytest.param(b'{"code": 404, "message": "no"}', id="a complaint"),
        pytest.param(json.dumps({"a": ANSWER, "b": ANSWER}).encode(), id="two entries"),
        pytest.param(answer(verification={}), id="no promise"),
        pytest.param(answer(verification=None), id="nothing to verify by"),
        pytest.param(answer(logIndex=None), id="no place"),
    ],
)
def test_an_answer_without_one_entry_is_refused(raw: bytes) -> None:
    with pytest.raises(UnreadableEntry):
        entry_of_rekor_answer(raw)
    with pytest.raises(UnreadableEntry):
        bundle_entry_of_answer(raw)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"verification": {"signedEntryTimestamp": "MEUC"}}, id="no proof"),
        pytest.param({"verification": VERIFICATION | {"inclusionProof": PROOF | {"rootHash": "xy"}}}, id="no hex"),
        pytest.param({"verification": VERIFICATION | {"inclusionProof": PROOF | {"hashes": [1]}}}, id="numbers"),
        pytest.param({"body": base64.b64encode(b"[]").decode()}, id="a body without a kind"),
        pytest.param({"logID": "not hex"}, id="a log without an id"),
    ],
)
def test_an_answer_without_a_proof_makes_no_entry_of_a_bundle(changes: dict[str, Any]) -> None:
    with pytest.raises(UnreadableEntry):
        bundle_entry_of_answer(answer(**changes))
