# ruff: noqa: E501 - the tables have a row a line
"""YAML as values: the quick reader says what the whole one says, or nothing; objects have their lines."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from ci_automation.impact.change import ObjectId
from ci_automation.impact.objects import read_objects
from ci_automation.impact.parts import Text
from ci_automation.impact.plain import NotPlain, read_plain
from ci_automation.impact.reading import UnreadableObjects, read, scalar_value
from tests.unit.impact.sample import ALL, HEADER, TEXT

LINES = st.lists(
    st.tuples(
        st.sampled_from(["", "  ", "    ", "- ", "  - ", "      ", " "]),
        st.sampled_from(
            ["a:", "b:", "a: 1", "b: x y", "c: 'it''s'", "d: 'goes", "on'", "e: |-", "f: |", 'g: "x"', 'h: "x\\', 'y"',
             "i: {}", "j: []", "k: [x]", "x", "x: y: z", "# c", "", "l: true", "m: 0x1", "'n': 1", "- x", "o: &p q", "p: *p",
             "it's", "x #y", "x # y", "q: ''", "r: -1", "s: - 1", "t: 'a ' # b'", 'u: "a" b', "'", "v: '", "w: >-", "z: ~"]
        ),
    ),
    min_size=1,
    max_size=7,
)  # fmt: skip


@given(LINES)
@example([("", "a: 'goes"), ("  ", "on'")])
@example([("", "e: |"), ("  ", "x"), ("  ", ""), ("", "")])
@example([("", 'a: "x\\'), ("  ", 'y"')])
@example([("", "a:"), ("- ", "x"), ("  ", "x")])
def test_the_quick_reader_says_what_the_whole_one_says(lines: list[tuple[str, str]]) -> None:
    text = "\n".join(indent + line for indent, line in lines)
    try:
        quick = read_plain(text)
    except NotPlain:
        return
    assert [quick] == read(text)


@pytest.mark.parametrize("text", [part.removesuffix("\n") for part in ALL])
def test_what_kustomize_writes_is_read_quickly(text: str) -> None:
    assert [read_plain(text)] == read(text)
    assert read_plain(text).value == yaml.safe_load(text)
    assert not read_plain(text).odd


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('a: "x\n  y\\tz"', id="quotes over lines"),
        pytest.param("a: 'x''\n  y'", id="a quote over lines"),
        pytest.param("a: x\n  y\n  z", id="words over lines"),
        pytest.param("a:\n- x\n  y", id="an item over lines"),
        pytest.param("a: |\n  x\n\n    y\nb: 1", id="a text with an end"),
        pytest.param("a: ''\nb: ''", id="nothing in quotes"),
        pytest.param("a: 2\nb: -1.50\nc: null\nd: 'ü'", id="numbers and letters"),
        pytest.param("b: 1\na: 2\nc:\n  z: 1\n  y: 2", id="keys that are not sorted"),
        pytest.param("a: {}\nb:\n- {}\n- []\n- {}", id="what is empty"),
        pytest.param("a:\n- b: 1\n  c:\n  - d\n- b: 2", id="lists in lists"),
    ],
)
def test_more_of_what_is_read_quickly(text: str) -> None:
    assert [read_plain(text)] == read(text)


@pytest.mark.parametrize(
    "text",
    ["", "a", "a:", "- a", "a: b\na: c", "a: 'x' y", 'a: "x" y', "a: 'x", 'a: "x', "a: '\n  x'", "a: 'x\n  '", "a: 'x \n  y'",
     "a: b:", "a: b #c", "a: b\n  c: d", "a: b\n  #c", "a: b \n  c", "a: |", "a: |\n  x\n", "a: |\n\n  x", "a: |\n    x", "a: |\n  x ",
     "a: |\n  x\nb: |+\n  x", "a:\n- |\n  x", "a:\n   b: c", "a:\n  b: c\n d: e", "a: b\n  - c: d\n c", "- a: b\n   c: d", "a: {b: c}",
     "a: \tb", "a: b\rc", "a: ü\u2028b", "a: &b c", "a: *b", "a: !c d", "? a", "<<: a", "a:\n  <<:\n    b: c", "a:\n- <<: c",
     "a:\n- <<:\n    b: c", "items:\n- a: b", "a: b\nitems: []", "items:\n- b\nkind: C", "'a': b", 'a: "\\z"', "a: 'x\ny'",
     "\n".join(f"{'  ' * depth}a:" for depth in range(70)) + " x", "a: 1\n" * 100_001, "a:\n- b\nc", "a: 'x\n  y\n  z' q"],
)  # fmt: skip
def test_anything_else_is_left_to_the_whole_reader(text: str) -> None:
    with pytest.raises(NotPlain):
        read_plain(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("No", False), ("ON", True), ("y", "y"), ("", None), ("~", None), ("Null", None), ("12", 12), ("-3", -3),
     ("007", 7), ("0o17", 15), ("0o0", 0), ("0x1F", 31), ("1.50", 1.5), ("1e3", "1e3"), ("1:30", "1:30"), ("9" * 30, "9" * 30), (".inf", ".inf"),
     ("2020-01-01", "2020-01-01"), ("v1", "v1")],
)  # fmt: skip
def test_a_scalar_means_what_it_means_to_kubernetes(text: str, value: object) -> None:
    assert scalar_value(text) == value
    assert type(scalar_value(text)) is type(value)


def test_all_documents_together_are_the_text() -> None:
    text = f"# top\n{TEXT}...\n# end\n"
    found = read(text)
    assert "".join(text[document.start : document.end] for document in found) == text
    assert found[-1].odd


def test_a_document_may_be_a_scalar_or_a_list() -> None:
    assert [document.value for document in read("x\n---\n- 1\n- [2]\n---\n{a: b}\n")] == ["x", [1, [2]], {"a": "b"}]
    assert read("") == []


def test_objects_have_the_lines_of_their_first_keys() -> None:
    lines = TEXT.split("\n")
    found = read_objects(TEXT)
    assert [lines[it.line - 1] for it in found] == [part.partition("\n")[0] for part in ALL]
    assert found == read_objects(TEXT.replace("v2.9.3\n    pod", '"v2.9.3"\n    pod'))[:0] + found
    assert found[0].id == ObjectId("", "Namespace", "", "flux-system")
    assert found[4].value["apiVersion"] == "rbac.authorization.k8s.io/v1"


def test_objects_are_the_same_however_a_text_is_cut() -> None:
    assert read_objects(f"%YAML 1.1\n{TEXT}")[1].line == read_objects(TEXT)[1].line + 1
    marked = TEXT.replace("---\napiVersion: v1\nkind: Service\n", "---\n# a remark\napiVersion: v1\nkind: Service\n")
    assert [it.id for it in read_objects(marked)] == [it.id for it in read_objects(TEXT)]
    assert read_objects(marked)[-1].line == read_objects(TEXT)[-1].line + 1


def test_the_objects_of_a_list_are_objects() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- kind: A\n  metadata: {name: b}\n- 1\n"
    assert [str(it.id) for it in read_objects(f"{text}---\nno object\n---\n# nothing\n")] == ["A b"]


@pytest.mark.parametrize("kind", ["List", "RoleList", "ServiceAccount"])
def test_the_objects_within_any_object_are_objects_in_its_place(kind: str) -> None:
    inner = "{kind: A, metadata: {name: b}, items: [{kind: C, metadata: {name: d}}]}"
    text = f"apiVersion: v1\nitems: [{inner}]\nkind: {kind}\nmetadata:\n  name: x\n"
    assert [str(it.id) for it in read_objects(f"{text}---\n{text}")] == ["C d"] * 2
    assert not read_objects(text.replace(f"[{inner}]", "[]"))
    assert [str(it.id) for it in read_objects(text.replace(f"[{inner}]", "2"))] == [f"{kind} x"]


@pytest.mark.parametrize(
    "text", ["<<: {a: b}", "a:\n  b:\n  - <<:\n      c: d", "{a: {<<: b}}", "a: [<<: b]", "? <<\n: a"]
)
def test_a_merge_key_is_refused(text: str) -> None:
    with pytest.raises(UnreadableObjects, match="merge keys"):
        read_objects(text)


def test_what_only_looks_like_a_merge_key_is_read() -> None:
    assert read("'<<': a\nb: <<\nc: [<<]\n<<d: e")[0].value == {"<<": "a", "b": "<<", "c": ["<<"], "<<d": "e"}


@pytest.mark.parametrize(
    ("text", "line"), [("a: b: c\n", 1), (f"{HEADER}a: 1\n---\na: b: c\n", 7), (f"%YAML 1.1\n{HEADER}a: *b\n", 6), ("a: \x07", 1)]
)  # fmt: skip
def test_what_is_no_yaml_says_its_line(text: str, line: int) -> None:
    with pytest.raises(
        UnreadableObjects, match=f"^line {line}: " if line else "^it is not YAML: it has a control"
    ) as caught:
        read_objects(text)
    assert caught.value.exit_code == 2


def test_documents_are_cut_only_where_nothing_else_may_be_meant() -> None:
    assert not Text.of(TEXT).whole
    assert len(Text.of(TEXT).parts) == len(ALL)
    for odd in ("--- x\n", "...\n", "%TAG ! x\n", "\ufeff"):
        assert Text.of(f"a: 1\n{odd}b: 1\n").whole
