"""JSON patches and strategic merge patches, as far as index patches have to know."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_automation.artifact.yaml_events import Unreadable
from ci_automation.overlay import patching
from ci_automation.overlay.effort import Effort
from ci_automation.overlay.objects import copied
from ci_automation.overlay.patching import Inapplicable, apply, merged, parsed, touched

VALUE = {"spec": {"list": ["a", "b", "c"], "maps": [{"name": "x", "args": [1, 2]}], "a/b": {"~": 1}}}


def changed(*operations: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str, int]]]:
    """Return a value after operations, and what they mean by number."""
    value = copied(VALUE)
    touches = [(it.op, it.pointer, it.index) for it in apply(value, operations, Effort())]
    return value["spec"], touches


def op(name: str, path: str, value: object = None, **more: object) -> dict[str, Any]:
    """Return an operation."""
    return {"op": name, "path": path, "value": value} | more


@pytest.mark.parametrize(
    ("operation", "path", "expected", "touches"),
    [
        (op("add", "/spec/new", 1), "new", 1, []),
        (op("add", "/spec/list/-", "z"), "list", ["a", "b", "c", "z"], []),
        (op("add", "/spec/list/3", "z"), "list", ["a", "b", "c", "z"], []),
        (op("add", "/spec/list/0", "z"), "list", ["z", "a", "b", "c"], []),
        (op("add", "/spec/maps/0/args/-", 3), "maps", [{"name": "x", "args": [1, 2, 3]}], [("add", "/spec/maps/0", 0)]),
        (op("replace", "/spec/list/1", "z"), "list", ["a", "z", "c"], [("replace", "/spec/list/1", 1)]),
        (op("replace", "/spec/list/-1", "z"), "list", ["a", "b", "z"], [("replace", "/spec/list/-1", 2)]),
        (op("replace", "/spec/list", "z"), "list", "z", []),
        (op("replace", "/spec/none", "z"), "none", "z", []),
        (op("remove", "/spec/list/0"), "list", ["b", "c"], [("remove", "/spec/list/0", 0)]),
        (op("remove", "/spec/a~1b/~0"), "a/b", {}, []),
        (op("test", "/spec/list/0", "a"), "list", ["a", "b", "c"], []),
        (
            op("move", "/spec/list/0", **{"from": "/spec/list/2"}),
            "list",
            ["c", "a", "b"],
            [("move", "/spec/list/2", 2)],
        ),
        (
            op("copy", "/spec/maps/0/name", **{"from": "/spec/list/2"}),
            "maps",
            [{"name": "c", "args": [1, 2]}],
            [("copy", "/spec/list/2", 2), ("copy", "/spec/maps/0", 0)],
        ),
        (
            op("replace", "/spec/maps/0/args/1", 7),
            "maps",
            [{"name": "x", "args": [1, 7]}],
            [("replace", "/spec/maps/0", 0), ("replace", "/spec/maps/0/args/1", 1)],
        ),
    ],
    ids=lambda it: f"{it['op']} {it['path']}" if isinstance(it, dict) and "op" in it else "",
)
def test_a_json_patch(operation: dict[str, Any], path: str, expected: object, touches: list[object]) -> None:
    value, found = changed(operation)
    assert (value[path], found) == (expected, touches)


@pytest.mark.parametrize(
    "operation",
    [
        op("replace", "/nothing/there", 1),
        op("replace", "/spec/list/3", 1),
        op("replace", "/spec/list/x", 1),
        op("replace", "/spec/list/x/y", 1),
        op("replace", "/spec/list/-9", 1),
        op("replace", "/spec/list/0/x", 1),
        op("remove", "/spec/none"),
        op("remove", "/spec/list/3"),
        op("add", "/spec/list/4", 1),
        op("add", "/spec/list/0/x", 1),
        op("test", "/spec/list/0", "z"),
        op("move", "/x", **{"from": "/none"}),
        {"op": "replace"},
        {},
    ],
    ids=json.dumps,
)
def test_an_operation_that_finds_nothing_is_an_error(operation: dict[str, Any]) -> None:
    if operation in ({"op": "replace"}, {}):
        assert changed(operation)[1] == []  # the whole object is no place of it: kustomize says what it makes of that
        return
    with pytest.raises(Inapplicable):
        changed(operation)


def test_the_list_is_that_before_the_operation() -> None:
    value = copied(VALUE)
    touches = list(apply(value, [op("remove", "/spec/list/0"), op("replace", "/spec/list/0", "z")], Effort()))
    assert [touch.elements for touch in touches] == [("a", "b", "c"), ("b", "c")]


def test_copies_of_copies_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patching, "_MAX_NODES", 100)
    with pytest.raises(Inapplicable):
        changed(*[op("copy", f"/spec/{number}", **{"from": "/spec"}) for number in range(20)])


@pytest.mark.parametrize(
    ("text", "operations", "merges"),
    [
        ("[]", 0, 0),
        ("- {op: add, path: /a}", 1, 0),
        ("kind: A", 0, 1),
        ("kind: A\n---\nkind: B", 0, 2),
    ],
)
def test_the_kind_of_a_patch(text: str, operations: int, merges: int) -> None:
    found = parsed(text)
    assert (len(found.operations), len(found.merges)) == (operations, merges)


@pytest.mark.parametrize("text", ["", "a", "- a", "[{}]\n---\n[{}]", "[" + "{}," * 501 + "]", "a: ["])
def test_what_is_no_patch_is_an_error(text: str) -> None:
    with pytest.raises(Unreadable):
        parsed(text)


A = {"name": "a", "args": [1], "env": [{"name": "x", "value": 1}]}
POD: dict[str, Any] = {"containers": [A, {"name": "b"}], "c": {"d": 1}}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"c": {"e": 2}}, {"c": {"d": 1, "e": 2}}),
        ({"c": None}, {"c": None}),
        ({"c": {"$patch": "delete"}}, {"c": None}),
        ({"c": {"$patch": "replace", "e": {"f": None}}}, {"c": {"e": {}}}),
        ({"c": 7}, {"c": 7}),
        ({"new": {"$patch": "merge", "e": [None]}}, {"new": {"e": [None]}}),
        ({"containers": [{"name": "b", "x": 1}]}, {"containers": [A, {"name": "b", "x": 1}]}),
        ({"containers": [{"name": "z"}]}, {"containers": [{"name": "z"}, *POD["containers"]]}),
        (
            {"containers": [{"name": "a", "args": [2]}]},
            {"containers": [A | {"args": [2]}, {"name": "b"}]},
        ),
        ({"containers": [{"name": "a", "$patch": "delete"}]}, {"containers": [{"name": "b"}]}),
        ({"containers": [{"$patch": "replace"}, {"name": "z"}]}, {"containers": [{"name": "z"}]}),
        ({"containers": "none"}, {"containers": "none"}),
        (
            {"containers": [{"name": "a", "env": [{"name": "y"}]}]},
            {"containers": [A | {"env": [{"name": "y"}, {"name": "x", "value": 1}]}, {"name": "b"}]},
        ),
    ],
    ids=json.dumps,
)
def test_a_strategic_merge_patch(patch: dict[str, Any], expected: dict[str, Any]) -> None:
    wanted = {key: value for key, value in (POD | expected).items() if value is not None}
    before = copied(POD)
    assert merged(before, patch, "apps", Effort()) == wanted
    assert before == POD


def test_lists_of_other_kinds_are_replaced() -> None:
    assert merged(POD, {"containers": [{"name": "b"}]}, "acme.example", Effort()) == POD | {
        "containers": [{"name": "b"}]
    }


def test_items_that_are_no_mappings_are_known_by_themselves() -> None:
    assert merged({"ports": [1, 2]}, {"ports": [2, 3]}, "", Effort()) == {"ports": [3, 1, 2]}


def test_a_whole_object_is_deleted_or_replaced() -> None:
    assert merged(POD, {"$patch": "delete"}, "", Effort()) is None
    assert merged(POD, {"$patch": "replace", "a": 1, "b": None}, "", Effort()) == {"a": 1}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("spec.list.1", [("spec.list.1", 1)]),
        ("spec.maps.[name=x].args.0", [("spec.maps.[name=x].args.0", 0)]),
        ("spec.maps.0.args.1", [("spec.maps.0", 0), ("spec.maps.0.args.1", 1)]),
        ("spec.[a/b].~", []),
        ("spec.maps.[name=y].args.0", []),
        ("spec.maps.*.args.0", []),
        ("spec.list.9", []),
        ("spec.list.0.x", [("spec.list.0", 0)]),
        ("none.0", []),
        ("", []),
    ],
)
def test_what_a_field_path_means_by_number(path: str, found: list[tuple[str, int]]) -> None:
    assert [(it.pointer, it.index) for it in touched(copied(VALUE), path, Effort())] == found
