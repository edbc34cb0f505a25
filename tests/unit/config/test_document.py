from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.config.document import MAX_BYTES, InvalidConfig, Problem, read_document

FILE = "flux.yaml"


def problems(text: str | bytes) -> list[str]:
    """Return what is wrong in a file, whether it ends the reading or not."""
    try:
        document = read_document(text if isinstance(text, bytes) else text.encode(), FILE)
    except InvalidConfig as error:
        return str(error).splitlines()
    return [str(problem) for problem in document.problems]


def test_values_and_where_they_are() -> None:
    document = read_document(b"a: 1\nb:\n  - c: x\n  - {d: true}\n", FILE)
    assert document.value == {"a": 1, "b": [{"c": "x"}, {"d": True}]}
    assert str(document.problem(("b", 1, "d"), "wrong")) == "flux.yaml:4:9: b[1].d: wrong"
    assert str(document.problem(("b", 1, "d"), "wrong", at_key=True)) == "flux.yaml:4:6: b[1].d: wrong"
    assert str(document.problem(("b", 0, "e"), "missing")) == "flux.yaml:3:5: b[0].e: missing"
    assert str(document.problem((), "wrong")) == "flux.yaml:1:1: wrong"


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    assert read_document(b"\xef\xbb\xbfa: 1\n", FILE).value == {"a": 1}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "flux.yaml:1:1: it is empty", id="nothing"),
        pytest.param("# only a comment\n", "flux.yaml:1:1: it is empty", id="a comment"),
        pytest.param(b"a: 1\nb: \xff\n", "flux.yaml:2: it is not UTF-8 text", id="not UTF-8"),
        pytest.param('a: 1\nb: "\x07"\n', "flux.yaml:2: it is not YAML: it has a control character", id="a bell"),
        pytest.param(
            'ä: "ä"\nb: "\x07"\n', "flux.yaml:2: it is not YAML: it has a control character", id="a bell behind umlauts"
        ),
        pytest.param(
            "a:\n\tb: 1\n",
            "flux.yaml:2:1: it is not YAML: a tab character in column 1; YAML indents with blanks",
            id="a tab",
        ),
        pytest.param(
            "a: 1\nb: [",
            "flux.yaml:2:1: it is not YAML: while parsing a flow node did not find expected node content",
            id="cut off",
        ),
        pytest.param(
            "range: >=2.0.0\n",
            "flux.yaml:1:9: it is not YAML: while scanning a block scalar did not find expected comment or line break; "
            'a value that begins so needs quotes, as in range: ">=2.0.0"',
            id="a range without quotes",
        ),
        pytest.param(
            "a: 1\n---\nb: 2\n",
            "flux.yaml:3:1: it has more than one document",
            id="two documents",
        ),
        pytest.param("a: {b: 1, b: 2}", "flux.yaml:1:11: a.b: the key is there twice, first in line 1", id="twice"),
        pytest.param("1: x", "flux.yaml:1:1: a key must be a text", id="a number for a key"),
        pytest.param("on: x", "flux.yaml:1:1: a key must be a text", id="a key that YAML reads as a switch"),
        pytest.param("? [a]\n: x", "flux.yaml:1:3: a key must be a text", id="a list for a key"),
        pytest.param("a: {<<: {b: 1}}", "flux.yaml:1:5: a: << is not supported", id="a merge"),
        pytest.param("a:\n", "flux.yaml:1:3: a: it has no value; give it one, or remove the key", id="no value"),
        pytest.param("a: [~]", "flux.yaml:1:5: a[0]: it has no value; give it one, or remove the key", id="null"),
        pytest.param(
            "a: !!python/name:os.system x",
            "flux.yaml:1:4: a: the tag !!python/name:os.system is not supported",
            id="a tag of Python",
        ),
        pytest.param("a: !!binary eA==", "flux.yaml:1:4: a: the tag !!binary is not supported", id="binary"),
        pytest.param("a: !!set {b}", "flux.yaml:1:4: a: the tag !!set is not supported", id="a set"),
        pytest.param("a: !mine [b]", "flux.yaml:1:4: a: the tag !mine is not supported", id="a tag of one's own"),
        pytest.param("a: !!int x", "flux.yaml:1:4: a: it is not a valid int", id="no number"),
        pytest.param("a: !!bool x", "flux.yaml:1:4: a: it is not a valid bool", id="neither true nor false"),
        pytest.param("a: 0x_", "flux.yaml:1:4: a: it is not a valid int", id="what only looks like a number"),
        pytest.param("a: 2026-02-30", "flux.yaml:1:4: a: it is not a valid timestamp", id="no day"),
        pytest.param("a: " + "9" * 5000, "flux.yaml:1:4: a: it is not a valid int", id="a number of 5000 digits"),
        pytest.param("a: 0x" + "f" * 5000, "flux.yaml:1:4: a: it is not a valid int", id="of 5000 hexadecimal digits"),
        pytest.param(
            "a: &b 1", "flux.yaml:1:4: anchors and aliases are not supported; write the value out", id="anchor"
        ),
        pytest.param("a: *b", "flux.yaml:1:4: anchors and aliases are not supported; write the value out", id="alias"),
        pytest.param("[" * 20, "flux.yaml:1:13: it is nested deeper than 12 levels", id="nesting"),
    ],
)
def test_what_is_no_plain_yaml_is_named_with_its_place(text: str | bytes, problem: str) -> None:
    assert problems(text) == [problem]


def test_all_that_is_wrong_with_single_values_is_told_at_once() -> None:
    assert len(problems("a:\nb: 1\nb: 2\n1: x\nc: !t x\n")) == 4


@pytest.mark.parametrize(
    ("bomb", "problem"),
    [
        pytest.param(
            "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 20)),
            "anchors and aliases are not supported",
            id="a billion laughs",
        ),
        pytest.param("a: &a [*a]", "anchors and aliases are not supported", id="a list in itself"),
        pytest.param("[" * (MAX_BYTES - 1), "nested deeper than 12 levels", id="a million brackets"),
        pytest.param("{a: " * (MAX_BYTES // 4 - 1), "nested deeper than 12 levels", id="mappings in mappings"),
        pytest.param("[" + "1," * (MAX_BYTES // 2 - 2) + "]", "more than 50000 values", id="half a million values"),
        pytest.param("x" * (MAX_BYTES + 1), "larger than 1 MiB", id="too large"),
    ],
)
def test_a_bomb_is_refused_before_it_takes_memory(bomb: str, problem: str) -> None:
    data = bomb.encode()
    tracemalloc.start()
    try:
        with pytest.raises(InvalidConfig, match=problem):
            read_document(data, FILE)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_message_is_one_line_a_problem_and_ends_somewhere() -> None:
    """What is in a file must not become a line of its own: a workflow's log reads some lines as commands."""
    wrong = Problem(FILE, 1, 1, ("\n::set-env name=x::y", "k" * 200), "\r\x1b[31m is bad")
    assert str(wrong) == rf"flux.yaml:1:1: \n::set-env name=x::y.{'k' * 80}: \r\x1b[31m is bad"
    error = InvalidConfig([Problem(FILE, line, 1, (), "bad") for line in range(70, 0, -1)])
    lines = str(error).splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("flux.yaml:1:1: bad", "and 20 more", 51)
    assert len(error.problems) == 70
    assert (error.exit_code, error.code) == (2, "invalid-config")


@given(st.text(alphabet=st.sampled_from(list("ab:-[]{},&*!|>'\"#%@? \n\t0x~<=.\x00\ufeff")), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for problem in problems(text):
        assert problem.startswith(FILE)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for problem in problems(data):
        assert problem.startswith(FILE)
