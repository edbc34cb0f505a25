"""A kustomization file as values that know where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.artifact.yaml_events import Unreadable
from ci_automation.impact.hazard import Place
from ci_automation.overlay.effort import Effort
from ci_automation.overlay.kustomization import Reference, Selector
from ci_automation.overlay.kustomization_file import joined, kustomization_file, read
from tests.unit.overlay.trees import tree

if TYPE_CHECKING:
    from ci_automation.overlay.kustomization import Kustomization

WHOLE = """\
resources:
- a.yaml
- 7
bases: [../base]
components: [part]
crds: [crd.yaml]
namespace: gitops
namePrefix: our-
nameSuffix: -x
commonLabels: {a: b}
commonAnnotations: {c: 1}
labels:
- pairs: {d: e}
- none
patches:
- path: p.yaml
  target: {kind: Deployment, name: x, labelSelector: a=b}
- patch: "[]"
- path: gone.yaml
- patch: "[]"
patchesStrategicMerge:
- p.yaml
- "{kind: A}"
- |
  kind: B
- {no: text}
patchesJson6902:
- target: {group: apps, version: v1, namespace: n, annotationSelector: c}
  path: p.yaml
replicas: [{name: r, count: 2}]
images: [{name: i, newName: j, newTag: k, digest: l}]
imageTags: [{name: m}]
replacements:
- source: {kind: ConfigMap}
  targets:
  - select: {kind: Deployment}
    reject: [{name: nope}, none]
    fieldPaths: [a.b, 7]
  - {fieldPaths: [a]}
  - none
- path: r.yaml
- path: gone.yaml
configMapGenerator: [{name: c, namespace: n}, {name: d, behavior: merge}]
secretGenerator: [{name: s, behavior: create}]
"""
FILES = {
    "k/kustomization.yaml": WHOLE,
    "k/p.yaml": "kind: P\n",
    "k/r.yaml": "- {targets: [{select: {name: y}}]}\n- none\n",
}


def kustomization(text: str, **files: str) -> Kustomization:
    """Return what a file says."""
    found = read(tree({"kustomization.yaml": text} | files), ".", Effort())
    assert found is not None
    return found


@pytest.fixture(scope="module")
def whole() -> Kustomization:
    """Return a kustomization with a bit of everything."""
    found = read(tree(FILES), "k", Effort())
    assert found is not None
    return found


class TestWhatItSays:
    def test_what_it_refers_to(self, whole: Kustomization) -> None:
        file = "k/kustomization.yaml"
        assert whole.resources == (Reference("a.yaml", Place(file, 2)), Reference("../base", Place(file, 4)))
        assert whole.components == (Reference("part", Place(file, 5)),)
        assert whole.files == (Reference("crd.yaml", Place(file, 6)),)

    def test_names_and_labels(self, whole: Kustomization) -> None:
        named = (whole.namespace, whole.prefix, whole.suffix, *whole.replicas)
        assert [each.value for each in named if each] == ["gitops", "our-", "-x", "r"]
        assert (whole.labels, whole.annotations) == ({"a": "b", "d": "e"}, {"c": "1"})

    def test_patches(self, whole: Kustomization) -> None:
        first, *others = whole.patches
        assert (first.text, first.target) == ("kind: P\n", Selector(kind="Deployment", name="x", labels="a=b"))
        assert first.rule.places == (Place("k/kustomization.yaml", 16), Place("k/p.yaml", 1))
        assert [(each.rule.field, each.text, each.target) for each in others] == [
            ("patches[1]", "[]", None),
            ("patches[2]", None, None),
            ("patches[3]", "[]", None),
        ]
        assert [each.text for each in whole.strategic] == ["kind: P\n", "{kind: A}", "kind: B\n"]
        (json,) = whole.json_patches
        assert json.target == Selector(group="apps", version="v1", namespace="n", annotations="c")

    def test_the_same_twice_is_told_apart(self, whole: Kustomization) -> None:
        marks = [each.rule.mark for each in whole.patches]
        assert marks[3] == f"{marks[1]}-2"
        assert len(set(marks)) == 4

    def test_images(self, whole: Kustomization) -> None:
        found = [(each.name, each.new_name, each.new_tag, each.digest) for each in whole.images]
        assert found == [("i", "j", "k", "l"), ("m", "", "", "")]

    def test_replacements(self, whole: Kustomization) -> None:
        found = [(each.select, each.reject, each.paths, each.rule.field) for each in whole.replacements]
        assert found == [
            (Selector(kind="Deployment"), (Selector(name="nope"),), ("a.b", "7"), "replacements[0].targets[0]"),
            (Selector(name="y"), (), (), "replacements[1].targets[0]"),
        ]
        assert [str(place) for place in whole.replacements[1].rule.places] == ["k/kustomization.yaml:41", "k/r.yaml:1"]

    def test_what_it_generates(self, whole: Kustomization) -> None:
        found = [(each.kind, each.namespace, each.name, each.merges) for each in whole.generated]
        assert found == [
            ("ConfigMap", "n", "c", False),
            ("ConfigMap", "", "d", True),
            ("Secret", "", "s", False),
        ]

    def test_a_single_replacement_in_a_file(self) -> None:
        found = kustomization("replacements: [{path: r}]", r="{targets: [{select: {name: y}}]}")
        assert [each.select for each in found.replacements] == [Selector(name="y")]

    @pytest.mark.parametrize(
        ("text", "is_component", "is_usual"),
        [
            ("resources: []", False, True),
            ("kind: Kustomization\napiVersion: kustomize.config.k8s.io/v1beta1\nresources: []", False, True),
            ("kind: Component\nresources: []", True, False),
            ("kind: Kustomisation\nresources: []", False, False),
            ("apiVersion: kustomize.config.k8s.io/v1\nresources: []", False, False),
        ],
    )
    def test_its_kind(self, text: str, is_component: bool, is_usual: bool) -> None:
        found = kustomization(text)
        assert (found.is_component, found.is_usual) == (is_component, is_usual)


class TestWhereItIs:
    @pytest.mark.parametrize("name", ["kustomization.yaml", "kustomization.yml", "Kustomization"])
    def test_all_names_count(self, name: str) -> None:
        files = tree({f"a/{name}": "resources: [b]"})
        assert kustomization_file(files, "a") == f"a/{name}"
        found = read(files, "a", Effort())
        assert found is not None
        assert found.resources[0].path == "b"

    def test_there_may_be_none(self) -> None:
        assert read(tree({}), ".", Effort()) is None
        assert kustomization_file(tree({}), ".") is None

    @pytest.mark.parametrize(
        ("folder", "path", "expected"),
        [
            (".", "a", "a"),
            ("a", "../b/", "b"),
            ("a/b", "../..", "."),
            (".", "../x", "../x"),
            ("a", "/etc/passwd", "/etc/passwd"),
        ],
    )
    def test_paths(self, folder: str, path: str, expected: str) -> None:
        assert joined(folder, path) == expected


class TestWhatIsNone:
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", "not one kustomization"),
            ("- a", "not one kustomization"),
            ("a: b\n---\nc: d\n", "not one kustomization"),
            ("kind: Kustomization", "it is empty"),
            ("a: [", "it is not YAML"),
            ("".join(f"a{number}: b\n" for number in range(101)), "more fields than kustomize knows"),
        ],
    )
    def test_is_an_error(self, text: str, reason: str) -> None:
        with pytest.raises(Unreadable, match=reason):
            kustomization(text)

    def test_two_in_a_folder_are_an_error(self) -> None:
        with pytest.raises(Unreadable, match="the folder has 2 kustomizations"):
            kustomization("resources: [a]", Kustomization="resources: [a]")

    def test_another_encoding_is_an_error(self) -> None:
        files = tree({}).replaced("kustomization.yaml", b"a: b\nc: \xff")
        with pytest.raises(Unreadable, match="not UTF-8") as caught:
            read(files, ".", Effort())
        assert caught.value.line == 2

    @given(
        st.dictionaries(
            st.sampled_from(sorted({line.partition(":")[0] for line in WHOLE.splitlines() if line[0].isalpha()})),
            st.recursive(
                st.none() | st.integers() | st.text("ab/.{}", max_size=3),
                lambda inner: (
                    st.lists(inner, max_size=3)
                    | st.dictionaries(
                        st.sampled_from(["name", "path", "patch", "target", "targets", "select", "kind"]), inner
                    )
                ),
                max_leaves=8,
            ),
            min_size=1,
        )
    )
    def test_fields_of_any_shape_are_read_or_an_error(self, fields: dict[str, Any]) -> None:
        try:
            found = read(tree({"kustomization.yaml": fields}), ".", Effort())
        except Unreadable:
            return
        assert found is not None
        assert found.fields == fields.keys()


class TestNamesInAnotherCase:
    """kustomize decodes its file with Go's `encoding/json`."""

    def test_are_the_same_fields(self, whole: Kustomization) -> None:
        def capital(value: Any) -> Any:  # a document holds anything
            if isinstance(value, list):
                return [capital(each) for each in value]
            if not isinstance(value, dict):
                return value
            free = {"commonLabels", "commonAnnotations", "pairs"}
            return {str(key).title(): each if key in free else capital(each) for key, each in value.items()}

        files = {name: yaml.safe_dump_all([capital(yaml.safe_load(text))]) for name, text in FILES.items()}
        found = read(tree(files | {"k/p.yaml": FILES["k/p.yaml"]}), "k", Effort())
        assert found is not None
        assert "Resources:" in files["k/kustomization.yaml"]
        assert (found.fields, found.unknown, found.labels) == (whole.fields, (), whole.labels)
        for one, other in (
            (found.resources, whole.resources),
            (found.components, whole.components),
            (found.files, whole.files),
        ):
            assert [it.path for it in one] == [it.path for it in other]
        for name in ("patches", "json_patches", "strategic"):
            assert [(it.text, it.target) for it in getattr(found, name)] == [
                (it.text, it.target) for it in getattr(whole, name)
            ]
        assert [it.rule.mark for it in found.patches] == [it.rule.mark for it in whole.patches]
        assert [(it.select, it.reject, it.paths) for it in found.replacements] == [
            (it.select, it.reject, it.paths) for it in whole.replacements
        ]
        assert [(it.kind, it.name, it.merges) for it in found.generated] == [
            (it.kind, it.name, it.merges) for it in whole.generated
        ]
        assert [it.new_tag for it in found.images] == [it.new_tag for it in whole.images]

    def test_stand_where_they_are(self) -> None:
        found = kustomization("kind: Kustomization\nRESOURCES:\n- a.yaml\nPatches:\n- Path: p.yaml\n")
        assert str(found.resources[0].place) == "kustomization.yaml:3"
        assert str(found.patches[0].rule.places[0]) == "kustomization.yaml:5"
        assert found.is_usual

    @pytest.mark.parametrize(
        "text", ["resources: [a]\nResources: [b]\n", "resources: [a]\npatches: [{path: a, PATH: b}]\n"]
    )
    def test_beside_their_own_are_an_error(self, text: str) -> None:
        with pytest.raises(Unreadable, match="twice, each in another case"):
            kustomization(text)

    def test_of_labels_are_labels(self) -> None:
        assert kustomization("commonLabels: {Name: a, name: b}").labels == {"Name": "a", "name": "b"}


def test_a_field_that_kustomize_does_not_know_is_named_and_those_in_another_case_are_not() -> None:
    found = read(tree({"kustomization.yaml": "Resources: []\npathces: []\nbuildMetadata: []\n"}), ".", Effort())
    assert found is not None
    assert [(it.path, str(it.place)) for it in found.unknown] == [("pathces", "kustomization.yaml:2")]


@pytest.mark.parametrize(
    "path",
    [
        "https://github.com/acme/x",
        "HTTP://acme.example/x.yaml",
        "github.com/acme/x//base?ref=v1",
        "git@github.com:acme/x.git",
        "git::https://acme.example/x",
        "ssh://git@acme.example/x",
        "oci://ghcr.io/acme/x",
        "user@acme.example/x",
        "file:///etc",
    ],
)
def test_what_is_elsewhere(path: str) -> None:
    assert Reference(path, Place("k")).is_remote


@pytest.mark.parametrize("path", ["a.yaml", "../base", "./github.com/x", "a@b", "c:/d", "githubxcom/a"])
def test_what_is_here(path: str) -> None:
    assert not Reference(path, Place("k")).is_remote


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        (Selector(), "objects"),
        (Selector(kind="Deployment", name="a", namespace="b"), "Deployment b/a"),
        (Selector(name="a", labels="x=y"), "objects a with x=y"),
        (Selector(kind="A", group="apps", version="v1", annotations="z"), "A with z of apps/v1"),
        (Selector(kind="A", version="v1"), "A v1"),
    ],
)
def test_a_selector_in_words(selector: Selector, words: str) -> None:
    assert str(selector) == words
