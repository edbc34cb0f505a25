"""Which versions custom resources have is read from a few lines, and is what a parser of YAML finds."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_automation.impact import parts
from ci_automation.impact.crds.versions import Crd, CrdVersion, UnreadableCrds, crds, newest_first
from tests.unit.impact.crds.definitions import components

BUCKETS = "buckets.source.toolkit.fluxcd.io"
TWO = components(buckets="v1* v1beta2! v1beta1-", receivers="v1*")
FOUND = {
    BUCKETS: Crd(
        BUCKETS,
        "source.toolkit.fluxcd.io",
        "Bucket",
        (
            CrdVersion("v1", served=True, storage=True),
            CrdVersion("v1beta2", served=True, storage=False),
            CrdVersion("v1beta1", served=False, storage=False),
        ),
    ),
    "receivers.notification.toolkit.fluxcd.io": Crd(
        "receivers.notification.toolkit.fluxcd.io",
        "notification.toolkit.fluxcd.io",
        "Receiver",
        (CrdVersion("v1", served=True, storage=True),),
    ),
}


@pytest.fixture
def without_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(part: str) -> None:
        pytest.fail(f"it was parsed: {part[:200]}")

    monkeypatch.setattr(parts, "read", refuse)


@pytest.mark.usefixtures("without_parser")
def test_what_kustomize_writes_is_read_without_a_parser() -> None:
    assert crds(TWO) == FOUND


def test_a_definition_knows_what_it_serves_and_stores() -> None:
    crd = crds(TWO)[BUCKETS]
    assert crd.names == {"v1", "v1beta2", "v1beta1"}
    assert (crd.served, crd.storage) == (("v1", "v1beta2"), "v1")


def test_no_definition_is_no_error() -> None:
    assert crds("") == crds(components()) == {}


def as_json(text: str) -> str:
    return "\n---\n".join(json.dumps(document) for document in yaml.safe_load_all(text))


def as_list(text: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(yaml.safe_load_all(text))})


@pytest.mark.parametrize(
    "text",
    [
        as_json(TWO),
        as_list(TWO),
        TWO.replace("\n", "\r\n"),
        TWO.replace("\n---\n", "\n--- # another\n"),
        TWO.replace("\n---\n", "\n...\n---\n"),
        TWO.replace("\nkind: Custom", '\nkind: "Custom').replace("Definition\n", 'Definition"\n'),
        TWO.replace("    served: true", '    "served": true'),
        TWO.replace("    storage: true", "    # it is\n    storage: true"),
        TWO.replace("    storage: true", "    storage: yes"),
        TWO.replace("  versions:\n", "  conversion:\n    strategy: None\n  versions:\n"),
        TWO.replace("    kind: Bucket\n", "    kind: 'Bucket'\n"),
        TWO.replace("    deprecated: true\n", "    deprecated: !!bool true\n"),
        TWO.replace("    deprecated: true\n", "    deprecated: true\n    deprecated: true\n"),
        TWO.replace("metadata:\n", "spec_of_old: {}\nmetadata:\n"),
        TWO.replace("  name: buckets", "  name: &name buckets"),
        TWO.replace("\nspec:\n  group", '\n"spec":\n  group'),
        yaml.safe_dump_all(yaml.safe_load_all(TWO), indent=4),
    ],
    ids=[
        "JSON",
        "a list",
        "CRLF",
        "marks with comments",
        "ends of documents",
        "a quoted kind",
        "a quoted key",
        "a comment",
        "another word for true",
        "another part before",
        "a quoted name",
        "a tag",
        "a key twice",
        "another key before",
        "an anchor",
        "a quoted spec",
        "four spaces",
    ],
)
def test_what_is_written_otherwise_is_parsed(text: str) -> None:
    assert crds(text) == FOUND


@settings(max_examples=500)
@given(st.data())
def test_lines_that_are_lost_or_changed_never_make_it_read_something_else_than_a_parser(data: st.DataObject) -> None:
    lines = TWO.split("\n")
    number = data.draw(st.integers(0, len(lines) - 1))
    other = data.draw(
        st.sampled_from([None, "", "  ", *sorted(set(lines)), "    storage: true", "spec:", "---", "- a"])
    )
    lines[number : number + 1] = [] if other is None else [other]
    text = "\n".join(lines)

    try:
        expected = crds(json.dumps({"kind": "List", "items": list(yaml.safe_load_all(text))}))
    except (UnreadableCrds, yaml.YAMLError):
        return
    assert crds(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{TWO}\n\t- [", "not YAML"),
        (TWO.replace("storage: true", "storage: false"), "not exactly one"),
        (components(buckets="v1* v1"), "a version twice"),
        (components(buckets="v1* v1beta1*"), "not exactly one"),
        (f"{TWO}{TWO}", "is there twice"),
        (TWO.replace("  name: buckets.", "  name: Buckets;"), "no proper names"),
        (TWO.replace("    name: v1beta2", "    name: $(v1)"), "no proper names"),
        (TWO.replace("    kind: Bucket\n", "    kind: a|b\n"), "no proper names"),
        (TWO.replace("    served: false", "    served: maybe"), "no proper names"),
        (TWO.replace("  versions:\n", "  versions: 5\n  others:\n"), "not complete"),
        ("kind: CustomResourceDefinition\nspec:\n- a\n", "not complete"),
        ("kind: CustomResourceDefinition\nmetadata: 5\n", "not complete"),
        (
            '{"kind": "CustomResourceDefinition", "spec": {"group": "a", "names": {"kind": "A"}, "versions": [5]}}',
            "not",
        ),
        ("{" * 200, "levels"),
        ("a: \x01", "control character"),
        pytest.param("[" + "a," * 600_000 + "]", "values", marks=pytest.mark.often),
    ],
)
def test_what_no_cluster_would_take_is_an_error_that_says_why(text: str, reason: str) -> None:
    with pytest.raises(UnreadableCrds, match=reason) as raised:
        crds(text)
    assert raised.value.exit_code == 2
    assert raised.value.hint


def test_a_tag_constructs_nothing() -> None:
    assert crds(f"a: !!python/object:os.system {{}}\nb: !!timestamp 2026-99-99\n---\n{TWO}") == FOUND


def test_other_documents_and_empty_ones_are_passed_over() -> None:
    assert crds(f"--- 5\n---\n---\nitems: 5\nkind: List\n{TWO}") == FOUND


def test_versions_are_ordered_as_kubernetes_orders_them() -> None:
    names = ["v1beta1", "v2", "alpha", "v1", "v1alpha3", "v2beta2", "v10", "v1beta2"]
    expected = ("v10", "v2", "v1", "v2beta2", "v1beta2", "v1beta1", "v1alpha3", "alpha")
    assert newest_first(names) == newest_first(reversed(names)) == expected
