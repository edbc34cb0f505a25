"""The objects that a file lists: the same whether a file is small, and read as a whole, or large."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.artifact.yaml import Unreadable
from ci_automation.impact import objects as module
from ci_automation.impact.objects import Listed, listed_objects
from tests.unit.impact.overlay.trees import COMPONENTS

FORMS = {
    "block": COMPONENTS,
    "flow": '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "1"}}}',
    "keys in any order": "metadata:\n  name: a\n  labels:\n    x: '1'\ndata: {a: b}\nkind: ConfigMap\napiVersion: v1\n",
    "a head over several lines": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a,\n  labels: {x: y}}\n",
    "quotes": "apiVersion: 'v1'\nkind: \"ConfigMap\"\nmetadata:\n  name: 'a'\n",
    "a list": "apiVersion: v1\nkind: List\nmetadata: {}\nitems:\n- {kind: ConfigMap, metadata: {name: a}}\n"
    "- apiVersion: v1\n  kind: Secret\n  metadata: {name: b}\n",
    "no list": "apiVersion: acme.example/v1\nkind: AllowList\nmetadata: {name: a}\nspec: none\n",
    "a comment beside the separator": "--- # one\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n",
    "a text with separators": "apiVersion: v1\nkind: A\nmetadata: {name: a}\ndata:\n  x: |\n    ---\n    kind: Y\n",
    "lists at the margin": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nsubjects:\n- kind: x\n",
    "windows": "apiVersion: v1\r\nkind: ConfigMap\r\nmetadata:\r\n  name: a\r\n",
}


def ids(found: tuple[Listed, ...]) -> list[tuple[object, ...]]:
    """Return what objects are known by, and where they are."""
    return [(each.id, each.version, each.place.line, each.is_local) for each in found]


@pytest.mark.parametrize("form", FORMS)
def test_a_large_file_is_read_like_a_small_one(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ids(listed_objects(FORMS[form], f"small {form}"))
    monkeypatch.setattr(module, "LARGE", 0)
    assert small
    assert ids(listed_objects(FORMS[form], f"large {form}")) == small


@pytest.mark.parametrize(
    "written",
    [
        "apiVersion: v1\nkind: A\nkind: ConfigMap\nmetadata: {name: a}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: b\n  x: c\n",
    ],
)
def test_a_key_that_is_there_twice_is_told_as_kustomize_does(written: str) -> None:
    with pytest.raises(Unreadable, match="there twice"):
        listed_objects(written, "file.yaml")


def test_where_they_are() -> None:
    found = [(each.id.kind, each.place.line) for each in listed_objects(COMPONENTS, "x.yaml")]
    assert found == [
        ("Namespace", 3),
        ("CustomResourceDefinition", 9),
        ("ClusterRole", 14),
        ("Deployment", 22),
        ("Deployment", 36),
    ]
    listed = listed_objects("\n" + FORMS["a list"], "x.yaml")
    assert [(each.id.name, str(each.place)) for each in listed] == [("a", "x.yaml:6"), ("b", "x.yaml:7")]


ITEM = "{kind: A, metadata: {name: %s}}"


@pytest.mark.parametrize(
    ("written", "names"),
    [
        pytest.param(
            f"kind: List\nitems:\n- kind: AList\n  items: [{ITEM % 'a'}]\n- {ITEM % 'b'}\n", "a:4 b:5", id="a list"
        ),
        pytest.param(
            f"kind: List\nitems:\n- kind: AList\n  metadata: {{name: l}}\n  items:\n  - {ITEM % 'a'}\n",
            "a:6",
            id="a list with a name",
        ),
        pytest.param(f"kind: List\nitems:\n- ~\n- {ITEM % 'a'}\n", "a:4", id="nothing, which is left out"),
        pytest.param(f"kind: List\nitems:\n---\n{ITEM % 'a'}\n", "a:4", id="no items"),
        pytest.param(f"kind: List\n<<: {{items: [{ITEM % 'a'}]}}\n", "a:1", id="items that are merged into it"),
        pytest.param(
            f"kind: Foo\nmetadata: {{name: f}}\nitems: [{ITEM % 'a'}]\n", "f:1", id="items of what is no list"
        ),
    ],
)
def test_lists_are_taken_apart_as_kustomize_does(written: str, names: str) -> None:
    found = listed_objects(written, "x.yaml")
    assert " ".join(f"{each.id.name}:{each.place.line}" for each in found) == names


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("kind: ConfigMap\nmetadata: {name: a}\n---\nkind: ConfigMap\n", "an object has no metadata.name", 4),
        ("metadata: {name: a}\n", "an object has no kind", 1),
        ("kind: A\nmetadata: x\n", "an object has no metadata.name", 1),
        ("apiVersion: v1\nkind: A\nmetadata:\n  name: ~\n", "an object has no metadata.name", 1),
        ("\n\n- a\n", "it is no object", 3),
        ("kind: List\nitems: [a]\n", "it is no object", 2),
        ("kind: AllowList\nmetadata: {name: a}\nitems: {a: b}\n", "its items are no list", 1),
        ("apiVersion: v1\nkind: [\nmetadata:\n  name: a\n", "it is not YAML", 4),
    ],
)
def test_what_is_no_object_is_an_error(
    text: str, reason: str, line: int, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(module, "LARGE", 0)
    listed_objects.cache_clear()
    with pytest.raises(Unreadable, match=reason) as caught:
        listed_objects(text, "x.yaml")
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("kind: ConfigMap\nmetadata: {name: a}\n", "kind: ConfigMap\nmetadata: {name: a, namespace: default}\n", True),
        ("kind: ConfigMap\nmetadata: {name: a}\n", "kind: ConfigMap\nmetadata: {name: a, namespace: b}\n", False),
        ("kind: Namespace\nmetadata: {name: a}\n", "kind: Namespace\nmetadata: {name: a, namespace: b}\n", True),
        ("apiVersion: a/v1\nkind: A\nmetadata: {name: a}\n", "apiVersion: a/v2\nkind: A\nmetadata: {name: a}\n", False),
    ],
)
def test_what_may_be_there_only_once(one: str, other: str, same: bool) -> None:
    ((first,), (second,)) = (listed_objects(text, "x.yaml") for text in (one, other))
    assert (first.key == second.key) is same


@given(st.text(st.sampled_from("a-: \n#{}[]'\"|&*kindmetadataapiVersionname"), max_size=80))
def test_anything_is_objects_or_an_error(text: str) -> None:
    for size in (0, 1 << 16):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "LARGE", size)
            listed_objects.cache_clear()
            with contextlib.suppress(Unreadable):
                assert all(each.id.name for each in listed_objects(text, "x.yaml"))
