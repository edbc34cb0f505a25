"""YAML of any origin as events: what is no YAML, or more than anybody writes, is an error that says where."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.artifact.yaml import MAX_DEPTH, Unreadable, events

DEEP = "[" * (MAX_DEPTH + 1)


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("a: b: c\n", "it is not YAML: ", 1),
        ("a: 1\n---\nb: [", "it is not YAML: ", 3),
        ("a: \x07", "it is not YAML: it has a control character", 1),
        ("a: \ud800", "it is not YAML: it has a control character", 0),
        ("a:\n  b: 1\n \tc: 2\n", "a tab character in column 2; YAML indents with blanks", 3),
        ("a:\n\tb: 1\n", "a tab character in column 1; YAML indents with blanks", 2),
        ("a: |\n\tb\n", "a tab character in column 1; YAML indents with blanks", 2),
        ("a: [\n\t1\n", "it is not YAML: while parsing a flow sequence", 2),
        (f"a:\n  {DEEP}", "nested deeper than 100 levels", 2),
        ("- 1\n" * 20, "more than 10 values", 9),
    ],
    ids=[
        "two colons",
        "no end",
        "control",
        "surrogate",
        "tab",
        "tab alone",
        "tab in a block",
        "tab elsewhere",
        "deep",
        "long",
    ],
)
def test_what_is_not_read_says_why_and_where(text: str, reason: str, line: int) -> None:
    with pytest.raises(Unreadable, match=reason) as caught:
        list(events(text, 10 if "values" in reason else 500_000))
    assert (caught.value.line, caught.value.reason) == (line, str(caught.value))


def test_what_is_within_the_limits_is_read() -> None:
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert sum(isinstance(event, yaml.SequenceStartEvent) for event in events(deepest)) == MAX_DEPTH
    assert len(list(events("- 1\n- 2\n", 7))) == 8


def test_a_long_text_takes_no_memory() -> None:
    text = "- x\n" * 100_000
    tracemalloc.start()
    try:
        assert sum(1 for _ in events(text)) > 100_000
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(Unreadable):
        assert isinstance(list(events(text))[-1], yaml.StreamEndEvent)
