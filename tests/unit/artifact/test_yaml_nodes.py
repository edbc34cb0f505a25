"""YAML as kustomize takes it, and nothing that harms."""

from __future__ import annotations

import contextlib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.artifact.yaml import Unreadable, line_of, nodes, plain, yaml_of

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(codec="utf-8", categories=("L", "N"))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc-/. ", min_size=1), inner, max_size=4),
    max_leaves=20,
)


def value(text: str) -> object:
    """Return the value of the only document."""
    (node,) = nodes(text)
    return plain(node)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1", {"a": 1}),
        ("a: [x, 1.5, true, ~]", {"a": ["x", 1.5, True, None]}),
        ("1: x", {"1": "x"}),
        ("a: 2026-01-01", {"a": "2026-01-01"}),
        ("a: !!binary aGk=", {"a": "aGk="}),
        ("a: !mine x", {"a": "x"}),
        ("a: !!int x", {"a": "x"}),
        ("a: !!bool x", {"a": "x"}),
        (f"a: {'9' * 40}", {"a": "9" * 40}),
        (f"a: {'9' * 5000}", {"a": "9" * 5000}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}),
        ("- &x {b: 1}\n- &y {b: 2, c: 3}\n- {<<: [*x, *y]}", [{"b": 1}, {"b": 2, "c": 3}, {"b": 1, "c": 3}]),
        ("!!str {a: b}", {"a": "b"}),
    ],
)
def test_values_are_plain(text: str, expected: object) -> None:
    assert value(text) == expected


def test_empty_documents_are_none() -> None:
    assert [plain(node) for node in nodes("---\n# only a comment\n---\na: 1\n---\n~\n")] == [{"a": 1}]
    assert nodes("") == ()


EIGHT = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]" for n in range(1, 9)]
BOMB = "\n".join(["a0: &a0 [x, x, x, x, x, x, x, x]", *EIGHT])


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("a: [", "it is not YAML: ", 1),
        ("a: b\nc: d: e", "it is not YAML: ", 2),
        ("a: *x", "it is not YAML: ", 1),
        ("a: \x01", "it has a control character", 1),
        ("[" * 200, "nested deeper than 100 levels", 1),
        ("- x\n" * 200_001, "more than 200000 values", 199_999),
        (BOMB, "unfolds to more than 200000 values", 0),
        ("a: &x [*x]", "unfolds to more than 200000 values", 0),
    ],
    ids=["no end", "two colons", "no anchor", "control", "deep", "long", "bomb", "itself"],
)
def test_what_harms_is_an_error(text: str, reason: str, line: int) -> None:
    with pytest.raises(Unreadable, match=reason) as caught:
        nodes(text)
    assert caught.value.line == line


@pytest.mark.parametrize("text", ["{[a]: b}", "a: &x 1\nb: {<<: *x}", "b: {<<: [{a: 1}, 2]}"])
def test_what_has_no_plain_value_is_an_error(text: str) -> None:
    (node,) = nodes(text)
    with pytest.raises(Unreadable, match=r"a key is not a text|<< merges a value that is not a mapping"):
        plain(node)


def test_lines() -> None:
    (node,) = nodes("a: 1\nb:\n- x\n- y: 1\n  z: 2\n")
    assert [line_of(node, *path) for path in ((), ("b",), ("b", 1), ("b", 1, "z"))] == [1, 2, 4, 5]
    assert [line_of(node, *path) for path in (("c",), ("b", 7), ("b", "x"), ("a", 0))] == [1, 2, 2, 1]


@given(VALUES)
def test_what_was_written_is_read(wanted: object) -> None:
    found = nodes(yaml.safe_dump(wanted))
    assert [plain(node) for node in found] == ([] if wanted is None else [wanted])


@given(st.text(max_size=60))
def test_anything_is_read_or_an_error(text: str) -> None:
    with contextlib.suppress(Unreadable):
        assert all(plain(node) is not None for node in nodes(text))


def test_yaml_is_written_with_its_lines_and_without_aliases() -> None:
    target = {"kind": "a"}
    value = [{"patch": "- op: add\n  path: b\n", "target": target}, {"patch": "c", "target": target}]
    assert yaml_of(value, flow=False) == (
        "- patch: |\n    - op: add\n      path: b\n  target:\n    kind: a\n- patch: c\n  target:\n    kind: a"
    )
    shown = yaml_of(value, flow=True)
    assert "\n" not in shown
    assert plain(nodes(shown)[0]) == value
