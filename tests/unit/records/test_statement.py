from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.artifact.reference import Digest, Reference
from ci_automation.records.content import InvalidStatement, Statement, subject_name

SUBJECT = Digest.of(b"artifact")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def written(**changes: Any) -> bytes:
    """Return a statement with some of its members changed; None takes one away."""
    value = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "here", "digest": {"sha256": SUBJECT.hex}}],
        "predicateType": "kind",
        "predicate": {"a": 1},
        **changes,
    }
    return json.dumps({key: member for key, member in value.items() if member is not None}).encode()


def test_the_bytes_are_sorted_and_without_spaces() -> None:
    statement = Statement("ghcr.io/acme/flux", SUBJECT, "kind", {"b": "ü", "a": [1, {"d": None, "c": True}]})
    assert (
        statement.to_bytes()
        == (
            '{"_type":"https://in-toto.io/Statement/v1","predicate":{"a":[1,{"c":true,"d":null}],"b":"ü"},'
            f'"predicateType":"kind","subject":[{{"digest":{{"sha256":"{SUBJECT.hex}"}},"name":"ghcr.io/acme/flux"}}]}}'
        ).encode()
    )


@given(TEXTS, TEXTS, st.dictionaries(TEXTS, VALUES, max_size=3))
def test_what_is_written_is_read(name: str, kind: str, predicate: dict[str, Any]) -> None:
    statement = Statement(name, SUBJECT, kind, predicate)
    assert Statement.parse(statement.to_bytes()) == statement


def test_a_number_that_is_none_is_not_signed() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        Statement("here", SUBJECT, "kind", {"a": float("nan")}).to_bytes()


def test_a_subject_needs_no_name() -> None:
    assert Statement.parse(written(subject=[{"digest": {"sha256": SUBJECT.hex}}])).name == ""


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"\xff", id="no text"),
        pytest.param(b'{"_type":' * 100_000, id="very deep"),
        pytest.param(written()[:-1] + b',"predicate":{"a":2}}', id="a key twice"),
        pytest.param(written(predicate={"a": float("nan")}), id="a number that is none"),
        pytest.param(written().replace(b'"here"', b'"\\ud800"'), id="half a surrogate pair"),
        pytest.param(written(_type="https://in-toto.io/Statement/v0.1"), id="another version"),
        pytest.param(written(_type=None), id="no type"),
        pytest.param(written(more=1), id="an unknown member"),
        pytest.param(written(predicate=None), id="no predicate"),
        pytest.param(written(predicate=[1]), id="a predicate that is a list"),
        pytest.param(written(predicateType=7), id="a type that is a number"),
        pytest.param(written(subject=[]), id="no subject"),
        pytest.param(written(subject=[{"digest": {"sha256": SUBJECT.hex}}] * 2), id="two subjects"),
        pytest.param(written(subject=[{"digest": {"sha256": "00"}}]), id="a short digest"),
        pytest.param(written(subject=[{"digest": {"sha256": SUBJECT.hex.upper()}}]), id="a digest in capitals"),
        pytest.param(written(subject=[{"digest": {"sha512": SUBJECT.hex}}]), id="another algorithm"),
        pytest.param(written(subject=[{"digest": {"sha256": SUBJECT.hex, "sha1": "0"}}]), id="two algorithms"),
        pytest.param(written(subject=[{"name": 7, "digest": {"sha256": SUBJECT.hex}}]), id="a name that is a number"),
        pytest.param(written(subject=[{"uri": "x", "digest": {"sha256": SUBJECT.hex}}]), id="another kind of subject"),
    ],
)
def test_anything_else_is_no_statement(raw: bytes) -> None:
    with pytest.raises(InvalidStatement) as caught:
        Statement.parse(raw)
    assert caught.value.exit_code == 10


@pytest.mark.parametrize(
    ("address", "name"),
    [("oci://127.0.0.1:5000/acme/flux:production", "127.0.0.1:5000/acme/flux"), ("layout:/home/me/r:edge", "layout")],
)
def test_the_subject_is_called_after_its_repository_and_not_after_a_folder(address: str, name: str) -> None:
    assert subject_name(Reference.parse(address)) == name
