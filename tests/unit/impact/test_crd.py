"""What another definition of a custom resource changes, besides its schemas."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.impact.change import Change, ChangeKind, ObjectId, Severity
from ci_automation.impact.permissions import Room
from ci_automation.impact.rules import changed
from ci_automation.impact.values import Pair

if TYPE_CHECKING:
    from collections.abc import Callable

    Value = dict[str, Any]

ID = ObjectId("apiextensions.k8s.io", "CustomResourceDefinition", "", "buckets.source.toolkit.fluxcd.io")


def version(name: str, *, storage: bool = False, **more: object) -> Value:
    schema = {"openAPIV3Schema": {"type": "object", "description": "A bucket."}}
    return {"name": name, "served": True, "storage": storage, "schema": schema, **more}


def definition(*versions: Value, **spec: object) -> Value:
    names = {"kind": "Bucket", "listKind": "BucketList", "plural": "buckets", "singular": "bucket"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": ID.name},
        "spec": {
            "group": "source.toolkit.fluxcd.io",
            "names": names,
            "scope": "Namespaced",
            "versions": list(versions) or [version("v1", storage=True), version("v1beta2")],
            **spec,
        },
    }


def changes(old: Value, new: Value) -> list[Change]:
    return list(changed(Pair(ID, old, new), Room()))


def one(old: Value, new: Value) -> Change:
    (change,) = changes(old, new)
    return change


def edited(edit: Callable[[Value], object]) -> Value:
    made = definition()
    edit(made["spec"])
    return made


def test_a_definition_does_not_differ_from_itself() -> None:
    assert changes(definition(), copy.deepcopy(definition())) == []


def test_its_metadata_changes_like_that_of_all_objects() -> None:
    change = one(definition(), definition() | {"metadata": {"name": ID.name, "labels": {"a": "b"}}})
    assert (change.kind, change.path) == (ChangeKind.METADATA, "metadata.labels.a")


@pytest.mark.parametrize(
    ("edit", "kind", "severity", "said"),
    [
        (
            lambda spec: spec["versions"].pop(),
            ChangeKind.VERSION_REMOVED,
            Severity.DANGER,
            "removes version v1beta2: clusters refuse objects that use it",
        ),
        (
            lambda spec: spec["versions"].append(version("v2")),
            ChangeKind.VERSION_ADDED,
            Severity.INFO,
            "adds version v2",
        ),
        (
            lambda spec: spec["versions"].append(version("v2", served=False)),
            ChangeKind.VERSION_ADDED,
            Severity.INFO,
            "adds version v2, which is not served",
        ),
        (
            lambda spec: spec["versions"][1].update(served=False),
            ChangeKind.VERSION_NOT_SERVED,
            Severity.DANGER,
            "stops serving v1beta2: clusters refuse objects that use it",
        ),
        (
            lambda spec: spec["versions"][1].update(served="no"),
            ChangeKind.OTHER,
            Severity.NOTICE,
            "changes v1beta2.served",
        ),
        (
            lambda spec: spec["versions"][1].update(deprecated=True),
            ChangeKind.VERSION_DEPRECATED,
            Severity.NOTICE,
            "marks v1beta2 as deprecated",
        ),
        (
            lambda spec: spec["versions"][1].update(deprecated="maybe"),
            ChangeKind.OTHER,
            Severity.NOTICE,
            "adds v1beta2.deprecated",
        ),
        (
            lambda spec: spec["versions"][1].update(deprecationWarning="soon"),
            ChangeKind.TEXT,
            Severity.INFO,
            "changes v1beta2.deprecationWarning",
        ),
        (
            lambda spec: spec["versions"][0].update(additionalPrinterColumns=[{"name": "Age"}, {"name": "Ready"}]),
            ChangeKind.PRINTER_COLUMNS,
            Severity.INFO,
            "changes the columns that kubectl lists in v1: Age and Ready",
        ),
        (
            lambda spec: spec["versions"][0].update(subresources={"status": {}}),
            ChangeKind.OTHER,
            Severity.NOTICE,
            "adds v1.subresources",
        ),
        (
            lambda spec: spec["versions"][0]["schema"]["openAPIV3Schema"].update(description="Another."),
            ChangeKind.TEXT,
            Severity.INFO,
            "changes v1 description",
        ),
        (
            lambda spec: spec["versions"][0]["schema"]["openAPIV3Schema"].update(required=["spec"]),
            ChangeKind.VALIDATION_TIGHTENED,
            Severity.WARNING,
            "accepts less in v1: spec is now required",
        ),
        (
            lambda spec: spec["versions"][0]["schema"].update(another={}),
            ChangeKind.OTHER,
            Severity.NOTICE,
            "adds v1.schema.another",
        ),
        (
            lambda spec: spec["versions"].reverse(),
            ChangeKind.TEXT,
            Severity.INFO,
            "has its versions in another order",
        ),
        (
            lambda spec: spec.update(scope="Cluster"),
            ChangeKind.OTHER,
            Severity.DANGER,
            "changes spec.scope to Cluster (was: Namespaced): clusters refuse that",
        ),
        (
            lambda spec: spec["names"].update(kind="Pail"),
            ChangeKind.OTHER,
            Severity.DANGER,
            "changes spec.names.kind to Pail (was: Bucket): clusters refuse that",
        ),
        (
            lambda spec: spec["names"].update(listKind="Pails"),
            ChangeKind.OTHER,
            Severity.NOTICE,
            "changes spec.names.listKind",
        ),
        (
            lambda spec: spec["names"].update(categories=["all", "fluxcd"]),
            ChangeKind.TEXT,
            Severity.INFO,
            "changes its categories for kubectl to all and fluxcd",
        ),
        (
            lambda spec: spec.update(conversion={"strategy": "Webhook"}),
            ChangeKind.OTHER,
            Severity.NOTICE,
            "adds spec.conversion",
        ),
        (
            lambda spec: spec.update(preserveUnknownFields=True),
            ChangeKind.VALIDATION_LOOSENED,
            Severity.NOTICE,
            "keeps fields that its schema does not have",
        ),
        (
            lambda spec: spec.update(preserveUnknownFields=False),
            ChangeKind.OTHER,
            Severity.NOTICE,
            "adds spec.preserveUnknownFields",
        ),
        (
            lambda spec: spec["versions"].append(version("v1")),
            ChangeKind.OTHER,
            Severity.NOTICE,
            "changes spec.versions",
        ),
        (lambda spec: spec.update(versions="v1"), ChangeKind.OTHER, Severity.NOTICE, "changes spec.versions"),
    ],
)
def test_each_part_has_its_own_word(
    edit: Callable[[Value], object], kind: ChangeKind, severity: Severity, said: str
) -> None:
    change = one(definition(), edited(edit))
    assert (change.kind, change.severity, change.sentence) == (kind, severity, f"{ID} {said}")
    assert change.object == ID


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda spec: spec["versions"][1].update(served=False), "serves v1beta2 again"),
        (lambda spec: spec["versions"][1].update(deprecated=True), "no longer marks v1beta2 as deprecated"),
        (lambda spec: spec.update(preserveUnknownFields=True), "drops fields that its schema does not have"),
        (
            lambda spec: spec["versions"][0].update(additionalPrinterColumns=[{"name": "Age"}]),
            "changes the columns that kubectl lists in v1: none",
        ),
        (lambda spec: spec["names"].update(shortNames=["bk"]), "changes its shortNames for kubectl to nothing"),
    ],
)
def test_the_way_back_has_its_own_word(edit: Callable[[Value], object], said: str) -> None:
    assert one(edited(edit), definition()).sentence == f"{ID} {said}"


def test_where_objects_are_stored_is_one_change_and_not_two() -> None:
    change = one(definition(), definition(version("v1"), version("v1beta2", storage=True)))
    assert (change.kind, change.old, change.new) == (ChangeKind.STORAGE_MOVED, "v1", "v1beta2")
    assert change.sentence == f"{ID} stores objects as v1beta2 instead of v1"


def test_a_version_that_is_gone_and_another_that_is_stored_now_are_both_told() -> None:
    found = changes(definition(version("v1beta1", storage=True)), definition(version("v1", storage=True)))
    assert [change.kind for change in found] == [
        ChangeKind.STORAGE_MOVED,
        ChangeKind.VERSION_ADDED,
        ChangeKind.VERSION_REMOVED,
    ]


def test_two_stored_versions_are_reported_though_no_cluster_takes_them() -> None:
    change = one(definition(), definition(version("v1", storage=True), version("v1beta2", storage=True)))
    assert (change.kind, change.path) == (ChangeKind.OTHER, "v1beta2.storage")


def test_the_texts_of_a_version_are_one_change_that_knows_them_all() -> None:
    def schema(*texts: str) -> Value:
        properties = {f"field{number}": {"description": text} for number, text in enumerate(texts)}
        return definition(version("v1", storage=True, schema={"openAPIV3Schema": {"properties": properties}}))

    old = schema("a", "b", "c")
    change = one(old, schema("x", "y", "z"))
    assert change.kind is ChangeKind.TEXT
    assert change.sentence == (
        f"{ID} changes 3 texts of v1, without effect: v1.field0 description, v1.field1 description and 1 more"
    )
    assert one(old, schema("x", "y", "Z")).fingerprint != change.fingerprint
    assert one(old, schema("x", "y", "z")).fingerprint == change.fingerprint


@pytest.mark.parametrize("placeholder", [None, "left out", {"left": "out"}], ids=["null", "a text", "a mapping"])
def test_what_is_left_out_of_both_counts_as_equal(placeholder: object) -> None:
    def cut(kept: Value) -> Value:
        return {"spec": {"versions": [placeholder, kept]}}

    change = one(cut({"name": "v1", "deprecated": False}), cut({"name": "v1", "deprecated": True}))
    assert change.kind is ChangeKind.VERSION_DEPRECATED


def test_a_placeholder_that_becomes_a_version_is_reported() -> None:
    old = {"spec": {"versions": [None, version("v1")]}}
    new = {"spec": {"versions": ["null", version("v1")]}}
    assert {change.kind for change in changes(old, new)} == {ChangeKind.VERSION_ADDED, ChangeKind.VERSION_REMOVED}
    named = {"spec": {"versions": [version("null", storage=True), version("v1")]}}
    moved = {"spec": {"versions": [None, version("v1", storage=True)]}}
    assert [change.kind for change in changes(named, moved)] == [ChangeKind.STORAGE_MOVED, ChangeKind.OTHER]


def test_values_of_no_use_are_reported_as_a_whole() -> None:
    assert one(definition(), definition() | {"spec": None}).kind is ChangeKind.OTHER
    assert one(definition(), definition() | {"status": {}}).kind is ChangeKind.OTHER
    old = definition()
    old["spec"]["versions"][0]["schema"] = None
    assert one(old, definition()).kind is ChangeKind.OTHER


RICH = definition(
    version(
        "v1",
        storage=True,
        additionalPrinterColumns=[{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
        selectableFields=[{"jsonPath": ".spec.url"}],
        subresources={"status": {}},
    ),
    version("v1beta2", deprecated=True, deprecationWarning="v1beta2 is old"),
    conversion={"strategy": "None"},
    preserveUnknownFields=False,
)
VALUES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["v1", "v1beta2", "x"]) | st.just([]) | st.just({})
)


def places(value: object) -> list[tuple[Any, Any]]:
    """Return everything in a value: what it stands in, and under which key or number."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in items for place in ((value, key), *places(item))]


@given(st.data())
def test_whatever_is_changed_or_removed_is_reported(data: st.DataObject) -> None:
    changed = copy.deepcopy(RICH)
    around, key = data.draw(st.sampled_from(places(changed["spec"])))
    if data.draw(st.booleans()):
        del around[key]
    else:
        now = around[key]
        around[key] = data.draw(VALUES.filter(lambda value: type(value) is not type(now) or value != now))
    assert changes(RICH, changed), changed
    assert changes(changed, RICH), changed
