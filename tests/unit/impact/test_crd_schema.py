"""What a schema takes now and took before, keyword by keyword."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.impact.change import Change, ChangeKind, ObjectId, Severity
from ci_automation.impact.schema import schema_changes
from ci_automation.impact.values import Pair

if TYPE_CHECKING:
    from collections.abc import Iterator

    Schema = dict[str, Any]

ID = ObjectId("apiextensions.k8s.io", "CustomResourceDefinition", "", "buckets.source.toolkit.fluxcd.io")
LESS, MORE, TEXT = ChangeKind.VALIDATION_TIGHTENED, ChangeKind.VALIDATION_LOOSENED, ChangeKind.TEXT
OTHER = ChangeKind.OTHER
RULE = {"rule": "self.a > 0", "message": "a is positive"}
OTHER_RULE = {"rule": "self.b > 0"}


def changes(old: Schema, new: Schema, path: str = "v1.spec") -> list[Change]:
    return list(schema_changes(Pair(ID, old, new, path)))


def one(old: Schema, new: Schema, path: str = "v1.spec") -> Change:
    (change,) = changes(old, new, path)
    return change


@pytest.mark.parametrize(
    ("keyword", "old", "new", "kind"),
    [
        ("type", "integer", "number", MORE),
        ("type", "number", "integer", LESS),
        ("type", "string", "object", LESS),
        ("type", None, "string", LESS),
        ("type", "string", None, MORE),
        ("format", None, "int64", LESS),
        ("format", "int64", None, MORE),
        ("format", "int64", "int32", LESS),
        ("pattern", None, "^a", LESS),
        ("pattern", "^a", "^[ab]", LESS),
        ("pattern", "^a", None, MORE),
        ("maximum", None, 5, LESS),
        ("maximum", 5, None, MORE),
        ("maximum", 5, 4, LESS),
        ("maximum", 5, 5.5, MORE),
        ("maximum", 5, 5.0, TEXT),
        ("maximum", 5, "5", OTHER),
        ("maximum", 1, True, OTHER),
        ("maxItems", 5, 4, LESS),
        ("maxLength", 253, 1024, MORE),
        ("maxProperties", 1, 2, MORE),
        ("minimum", 1, 2, LESS),
        ("minItems", 2, 1, MORE),
        ("minLength", None, 1, LESS),
        ("minProperties", 1, None, MORE),
        ("multipleOf", None, 2, LESS),
        ("multipleOf", 4, 2, MORE),
        ("multipleOf", 4, 3, LESS),
        ("multipleOf", 4, 0, LESS),
        ("multipleOf", 4, 4.0, TEXT),
        ("multipleOf", 4, "2", OTHER),
        ("exclusiveMaximum", None, True, LESS),
        ("exclusiveMinimum", True, False, MORE),
        ("uniqueItems", None, False, TEXT),
        ("uniqueItems", None, "yes", OTHER),
        ("nullable", None, True, MORE),
        ("nullable", True, False, LESS),
        ("x-kubernetes-int-or-string", True, None, LESS),
        ("x-kubernetes-embedded-resource", None, True, LESS),
        ("x-kubernetes-preserve-unknown-fields", True, None, LESS),
        ("x-kubernetes-preserve-unknown-fields", None, True, MORE),
        ("enum", ["a", "b"], ["a"], LESS),
        ("enum", ["a"], ["a", "b"], MORE),
        ("enum", ["a"], ["b"], LESS),
        ("enum", ["a", "b"], ["b", "a"], TEXT),
        ("enum", None, ["a"], LESS),
        ("enum", ["a"], None, MORE),
        ("enum", ["a"], "a", OTHER),
        ("enum", [1], [True], LESS),
        ("anyOf", [{"required": ["a"]}], [{"required": ["a"]}, {"required": ["b"]}], MORE),
        ("allOf", [{"required": ["a"]}], [{"required": ["a"]}, {"required": ["b"]}], LESS),
        ("allOf", [{"required": ["a"]}, {"required": ["b"]}], [{"required": ["a"]}], MORE),
        ("oneOf", [{"required": ["a"]}], [{"required": ["a"]}, {"required": ["b"]}], LESS),
        ("not", {"required": ["a"]}, None, MORE),
        ("required", None, ["a"], LESS),
        ("required", ["a"], [], MORE),
        ("required", ["a", "b"], ["b", "a"], TEXT),
        ("required", None, [], TEXT),
        ("required", ["a"], [1], OTHER),
        ("required", ["a"], "a", OTHER),
        ("additionalProperties", None, True, MORE),
        ("additionalProperties", None, {"type": "string"}, LESS),
        ("additionalProperties", {"type": "string"}, None, LESS),
        ("additionalProperties", {"type": "string"}, True, MORE),
        ("additionalProperties", True, False, LESS),
        ("additionalProperties", True, "no", OTHER),
        ("items", None, {"type": "string"}, LESS),
        ("items", {"type": "string"}, None, MORE),
        ("items", {"type": "string"}, "string", OTHER),
        ("x-kubernetes-list-type", None, "map", LESS),
        ("x-kubernetes-list-type", "set", "atomic", MORE),
        ("x-kubernetes-list-map-keys", ["a"], ["b"], LESS),
        ("x-kubernetes-map-type", None, "atomic", OTHER),
        ("x-kubernetes-validations", None, [RULE], LESS),
        ("x-kubernetes-validations", [RULE], [], MORE),
        ("x-kubernetes-validations", [RULE], [RULE | {"message": "b"}], TEXT),
        ("x-kubernetes-validations", [RULE], [RULE | {"optionalOldSelf": True}], LESS),
        ("x-kubernetes-validations", [RULE, OTHER_RULE], [OTHER_RULE, RULE], TEXT),
        ("x-kubernetes-validations", [RULE, RULE], [RULE], OTHER),
        ("x-kubernetes-validations", [RULE], [{"message": "no rule"}], OTHER),
        ("x-kubernetes-validations", [RULE], "self.a", OTHER),
        ("default", None, "a", ChangeKind.DEFAULT_CHANGED),
        ("default", {"a": 1}, {"a": 2}, ChangeKind.DEFAULT_CHANGED),
        ("default", False, None, ChangeKind.DEFAULT_CHANGED),
        ("description", "one", "another", TEXT),
        ("title", None, "it", TEXT),
        ("properties", {"a": {"type": "string"}}, None, ChangeKind.FIELD_REMOVED),
        ("properties", {"a": {}}, "a", OTHER),
        ("$ref", None, "#/definitions/a", OTHER),
    ],
)
def test_each_keyword_is_weighed(keyword: str, old: object, new: object, kind: ChangeKind) -> None:
    before, after = ({} if value is None else {keyword: value} for value in (old, new))
    assert one(before, after).kind is kind


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({}, {"maxLength": 1024}, "accepts less in v1.spec: maxLength is 1024"),
        ({"maxLength": 9}, {"maxLength": 8}, "accepts less in v1.spec: maxLength is 8 (was: 9)"),
        ({"pattern": "^a"}, {}, "accepts more in v1.spec: pattern removed (was: ^a)"),
        ({"enum": ["a", "b"]}, {"enum": ["b", "c"]}, 'accepts less in v1.spec: enum no longer has "a" and adds "c"'),
        ({"enum": ["a"]}, {"enum": ["a", "c"]}, 'accepts more in v1.spec: enum adds "c"'),
        ({}, {"required": ["url"]}, "accepts less in v1.spec: url is now required"),
        ({"required": ["url"]}, {}, "accepts more in v1.spec: url is no longer required"),
        ({}, {"properties": {"a": {"type": "string"}}}, "adds field v1.spec.a, string"),
        ({}, {"properties": {"a": {}}}, "adds field v1.spec.a"),
        ({"properties": {"a": {}}}, {}, "removes field v1.spec.a: clusters drop its values"),
        ({}, {"default": 5}, "changes the default of v1.spec to 5 (was: none)"),
        ({}, {"x-kubernetes-validations": [RULE]}, "accepts less in v1.spec: new rule self.a > 0"),
    ],
)
def test_a_sentence_says_what_was_and_what_is(old: Schema, new: Schema, said: str) -> None:
    assert one(old, new).sentence == f"{ID} {said}"


def test_changes_are_found_however_deep_they_are() -> None:
    def schema(**leaf: object) -> Schema:
        inner = {"type": "object", "additionalProperties": {"type": "string", **leaf}}
        return {"properties": {"list": {"type": "array", "items": {"properties": {"map": inner}}}}}

    change = one(schema(), schema(maxLength=3))
    assert (change.kind, change.path, change.old, change.new) == (LESS, "v1.spec.list[].map.* maxLength", "", "3")


@pytest.mark.parametrize(
    ("path", "severity"),
    [("v1.spec", Severity.WARNING), ("v1.status", Severity.NOTICE), ("v1.spec.status", Severity.WARNING)],
)
def test_what_only_controllers_write_is_less_grave(path: str, severity: Severity) -> None:
    assert one({}, {"minLength": 1}, path).severity is severity
    assert one({"properties": {"a": {}}}, {}, path).severity is severity


def test_each_required_field_and_each_rule_is_a_change_of_its_own() -> None:
    found = changes({"required": ["a", "b"]}, {"required": ["b", "c", "d"]})
    assert [(change.kind, change.old, change.new) for change in found] == [
        (LESS, "", "c"),
        (LESS, "", "d"),
        (MORE, "a", ""),
    ]
    found = changes({"x-kubernetes-validations": [RULE]}, {"x-kubernetes-validations": [OTHER_RULE]})
    assert [change.kind for change in found] == [LESS, MORE]


def test_a_field_that_is_no_schema_any_more_is_reported() -> None:
    assert one({"properties": {"a": {"type": "string"}}}, {"properties": {"a": "string"}}).kind is OTHER
    (change,) = schema_changes(Pair(ID, None, {}, "v1"))
    assert change.kind is OTHER


def test_another_value_or_place_is_another_fingerprint() -> None:
    found = [
        one({}, {"maxLength": 8}),
        one({}, {"maxLength": 9}),
        one({}, {"maxLength": 8}, "v1beta1.spec"),
        one({"maxLength": 10}, {"maxLength": 8}),
        one({}, {"pattern": "a" * 200 + "b"}),
        one({}, {"pattern": "a" * 200 + "c"}),
    ]
    assert len({change.fingerprint for change in found}) == len(found)


LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=3)
LISTS = st.lists(st.text(max_size=2), max_size=3)
KEYWORDS: dict[str, st.SearchStrategy[Any]] = {
    "additionalProperties": st.booleans(),
    "default": LEAVES,
    "description": st.text(max_size=3),
    "enum": st.lists(LEAVES, max_size=3),
    "format": st.text(max_size=3),
    "maxLength": st.integers(0, 3),
    "minimum": st.integers(-2, 2) | st.floats(-2, 2),
    "nullable": st.booleans(),
    "pattern": st.text(max_size=3),
    "required": LISTS,
    "type": st.sampled_from(["string", "integer", "number", "object", "array"]),
    "x-kubernetes-list-map-keys": LISTS,
    "x-kubernetes-validations": st.lists(st.fixed_dictionaries({"rule": st.text(max_size=3)}), max_size=3),
    "x-someone-else": LEAVES,
}
FLAT = st.fixed_dictionaries({}, optional=KEYWORDS)
SCHEMAS = st.recursive(
    FLAT,
    lambda deeper: st.builds(
        lambda flat, nested: {**flat, **nested},
        FLAT,
        st.fixed_dictionaries(
            {},
            optional={
                "allOf": st.lists(deeper, max_size=2),
                "items": deeper,
                "not": deeper,
                "properties": st.dictionaries(st.text(max_size=2), deeper, max_size=3),
            },
        ),
    ),
    max_leaves=8,
)


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Return the path of everything in a value but the value itself."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


@pytest.mark.often
@given(SCHEMAS)
def test_a_schema_does_not_differ_from_itself(schema: Schema) -> None:
    assert changes(schema, copy.deepcopy(schema)) == []


@given(SCHEMAS, st.data())
def test_whatever_is_changed_or_removed_is_reported(schema: Schema, data: st.DataObject) -> None:
    paths = list(places(schema))
    if not paths:
        return
    changed = copy.deepcopy(schema)
    *above, last = data.draw(st.sampled_from(paths))
    around: Any = changed
    for key in above:
        around = around[key]
    if data.draw(st.booleans()):
        del around[last]
    else:
        around[last] = data.draw(
            LEAVES.filter(lambda value: type(value) is not type(around[last]) or value != around[last])
        )
    assert changes(schema, changed), (schema, changed)
    assert changes(changed, schema), (schema, changed)


def test_fields_with_the_same_beginning_have_fingerprints_of_their_own() -> None:
    names = ["x" * 200 + end for end in ("a", "b")]
    empty: Schema = {"type": "object"}
    found = [changes(empty, empty | {"properties": {name: {"type": "string"}}}) for name in names]
    assert len({change.fingerprint for each in found for change in each}) == 2
