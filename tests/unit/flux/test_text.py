"""Edits on the text of a document as kustomize writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.flux.text import TemplateDocument, TemplateMismatch, documents

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = """\
apiVersion: v1
kind: Thing
metadata:
  annotations:
    a: b
  name: one
spec:
  list:
  - name: x
    value: y
  template:
    args:
    - --one=1
    - --two
  z: 1"""


@pytest.fixture
def document() -> TemplateDocument:
    return TemplateDocument(TEXT, "thing.yaml")


def added(document: TemplateDocument) -> list[str]:
    """Return the lines that the document has now and had not."""
    return [line for line in document.lines if line not in TEXT.split("\n")]


def test_an_untouched_document_has_its_text(document: TemplateDocument) -> None:
    assert str(document) == TEXT
    assert document.kind == "Thing"


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        pytest.param((), (0, 15), id="the whole"),
        pytest.param(("metadata",), (3, 6), id="a mapping"),
        pytest.param(("metadata", "annotations"), (4, 5), id="a mapping in it"),
        pytest.param(("spec", "template"), (11, 14), id="a mapping with a list"),
    ],
)
def test_where_a_block_is(document: TemplateDocument, path: tuple[str, ...], lines: tuple[int, int]) -> None:
    assert document.body(*path) == lines


@pytest.mark.parametrize(
    ("path", "key", "after"),
    [
        pytest.param((), "alpha", None, id="first of all"),
        pytest.param(("metadata",), "a", "metadata:", id="first"),
        pytest.param(("metadata",), "labels", "    a: b", id="between, behind what is nested"),
        pytest.param(("metadata",), "namespace", "  name: one", id="last"),
        pytest.param(("spec",), "m", "    value: y", id="behind a list"),
        pytest.param(("spec", "template"), "b", "    - --two", id="behind a list at the end"),
    ],
)
def test_a_key_is_inserted_at_its_sorted_place(
    document: TemplateDocument, path: tuple[str, ...], key: str, after: str | None
) -> None:
    document.insert(path, key, [" 1", "more"])
    at = document.lines.index("  " * len(path) + f"{key}: 1")
    assert document.lines[at - 1] == after if after else at == 0
    assert document.lines[at + 1] == "  " * len(path) + "more"


def test_there_is_no_place_among_keys_that_are_not_sorted() -> None:
    document = TemplateDocument("kind: Thing\nspec:\n  b: 1\n  a: 2", "x.yaml")
    with pytest.raises(TemplateMismatch, match=r"x.yaml: spec.c has no place among keys that are not sorted"):
        document.insert(("spec",), "c", [" 3"])


class TestLabels:
    def test_are_made_where_there_are_none(self, document: TemplateDocument) -> None:
        document.label(("metadata",), {"b": "2", "a": "1"})
        assert added(document) == ["  labels:", "    a: 1", "    b: 2"]

    def test_are_set_among_those_that_are_there(self) -> None:
        document = TemplateDocument('kind: Thing\nmetadata:\n  labels:\n    b: old\n    d: "true"\n  name: x', "x")
        document.label(("metadata",), {"a": "1", "b": "2", "c": "3"})
        assert document.lines[3:7] == ["    a: 1", "    b: 2", "    c: 3", '    d: "true"']

    def test_that_are_no_scalars_are_not_touched(self) -> None:
        document = TemplateDocument("kind: Thing\nmetadata:\n  labels:\n    b:\n      c: d", "x.yaml")
        with pytest.raises(TemplateMismatch, match=r"x.yaml: a label of the Thing is no scalar"):
            document.label(("metadata",), {"a": "1"})


class TestScalars:
    def test_are_read(self, document: TemplateDocument) -> None:
        assert document.scalar(("metadata",), "name") == "one"

    def test_are_replaced(self, document: TemplateDocument) -> None:
        document.set_scalar(("metadata",), "name", "two")
        assert str(document) == TEXT.replace("name: one", "name: two")

    def test_of_the_same_name_further_down_are_others(self, document: TemplateDocument) -> None:
        document.set_scalar((), "kind", "Other")
        assert added(document) == ["kind: Other"]


def test_the_items_of_a_list_of_scalars(document: TemplateDocument) -> None:
    assert document.items("    args:") == (12, 14)


def test_the_items_of_a_list_in_a_list() -> None:
    document = TemplateDocument("kind: x\nspec:\n  - args:\n    - a\n    - b\n    image: c", "x")
    assert document.items("  - args:") == (3, 5)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        pytest.param(lambda document: document.body("spec", "nothing"), "no spec.nothing in the Thing", id="no block"),
        pytest.param(lambda document: document.body("spec", "z"), "no spec.z in the Thing", id="a scalar is no block"),
        pytest.param(
            lambda document: document.insert(("metadata",), "name", [" x"]),
            "metadata.name is there already",
            id="a key",
        ),
        pytest.param(
            lambda document: document.insert(("status",), "a", [" x"]), "no status in the Thing", id="a key nowhere"
        ),
        pytest.param(
            lambda document: document.scalar(("spec",), "name"),
            "spec.name is not there once in the Thing",
            id="no scalar",
        ),
        pytest.param(
            lambda document: document.set_scalar(("spec",), "a", "b"), "spec.a is not there once", id="no scalar to set"
        ),
        pytest.param(lambda document: document.items("  args:"), "args: is not there once in the Thing", id="no list"),
    ],
)
def test_another_shape_is_refused(
    document: TemplateDocument, edit: Callable[[TemplateDocument], object], words: str
) -> None:
    with pytest.raises(TemplateMismatch, match=f"^thing.yaml: {words}") as error:
        edit(document)
    assert error.value.exit_code == 10
    assert str(document) == TEXT


def test_a_document_has_a_kind() -> None:
    with pytest.raises(TemplateMismatch, match=r"x.yaml: a document without kind"):
        TemplateDocument("metadata:\n  kind: x", "x.yaml")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        pytest.param("a: 1\n", ["a: 1"], id="one"),
        pytest.param("a: 1\n---\nb: 2\n", ["a: 1", "b: 2"], id="two"),
        pytest.param("a: |\n  ---\n  b\n", ["a: |\n  ---\n  b"], id="dashes in a text"),
    ],
)
def test_the_documents_of_a_text(text: str, parts: list[str]) -> None:
    assert documents(text) == parts
