"""A kustomization file as it is read: what it refers to, and where."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.artifact.yaml import Unreadable
from ci_automation.impact.change import Place
from ci_automation.impact.overlay.folders import applied_folder
from ci_automation.impact.overlay.kustomization import (
    Effort,
    Kustomization,
    Named,
    joined,
    kustomization,
    kustomization_file,
    lists,
)
from ci_automation.impact.overlay.marking import marked
from tests.unit.impact.overlay.trees import tree

if TYPE_CHECKING:
    from ci_automation.impact.overlay.marking import Marked

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


def read(text: str, **files: str) -> Kustomization:
    """Return what a file says."""
    found = kustomization(tree({"kustomization.yaml": text} | files), ".", Effort())
    assert found is not None
    return found


@pytest.fixture(scope="module")
def whole() -> Kustomization:
    """Return a kustomization with a bit of everything."""
    found = kustomization(tree(FILES), "k", Effort())
    assert found is not None
    return found


def marks(files: dict[str, str]) -> Marked:
    """Return the files with marks."""
    found = applied_folder(tree(files), "k", Effort())
    return marked(found.tree, found.gathered.kustomizations, Effort())


class TestWhatItSays:
    def test_what_it_refers_to(self, whole: Kustomization) -> None:
        file = "k/kustomization.yaml"
        assert whole.resources == (Named("a.yaml", Place(file, 2)), Named("../base", Place(file, 4)))
        assert whole.components == (Named("part", Place(file, 5)),)
        assert whole.files == (Named("crd.yaml", Place(file, 6)),)

    def test_the_files_of_its_patches(self, whole: Kustomization) -> None:
        assert [f"{it.path} {it.place.line}" for it in whole.patch_files] == [
            "p.yaml 16",
            "gone.yaml 19",
            "p.yaml 28",
            "r.yaml 41",
            "gone.yaml 42",
            "p.yaml 22",
        ]

    def test_its_rules(self) -> None:
        assert [(it.name, it.what, [str(place) for place in it.places]) for it in marks(FILES).rules] == [
            ("patches[0]", "the patch of Deployment x with a=b", ["k/kustomization.yaml:16", "k/p.yaml:1"]),
            ("namespace", "namespace gitops", ["k/kustomization.yaml:7"]),
            ("namePrefix", "namePrefix our-", ["k/kustomization.yaml:8"]),
            ("nameSuffix", "nameSuffix -x", ["k/kustomization.yaml:9"]),
            (
                "patchesJson6902[0]",
                "the patch of objects n/ with c of apps/v1",
                ["k/kustomization.yaml:28", "k/p.yaml:1"],
            ),
            ("images[0]", "the image i", ["k/kustomization.yaml:31"]),
            ("imageTags[0]", "the image m", ["k/kustomization.yaml:32"]),
            ("replacements[0].targets[0]", "the replacement in Deployment", ["k/kustomization.yaml:36"]),
            ("replacements[1].targets[0]", "the replacement in objects y", ["k/kustomization.yaml:41", "k/r.yaml:1"]),
        ]

    @pytest.mark.parametrize(
        ("text", "only_lists"),
        [
            ("resources: []", True),
            ("kind: Kustomization\napiVersion: kustomize.config.k8s.io/v1beta1\nresources: []", True),
            ("kind: Component\nresources: []", False),
            ("kind: Kustomisation\nresources: []", False),
            ("apiVersion: kustomize.config.k8s.io/v1\nresources: []", False),
        ],
    )
    def test_its_kind(self, text: str, only_lists: bool) -> None:
        assert read(text).only_lists is only_lists


class TestWhereItIs:
    @pytest.mark.parametrize("name", ["kustomization.yaml", "kustomization.yml", "Kustomization"])
    def test_all_names_count(self, name: str) -> None:
        files = tree({f"a/{name}": "resources: [b]"})
        assert kustomization_file(files, "a") == f"a/{name}"
        found = kustomization(files, "a", Effort())
        assert found is not None
        assert found.resources[0].path == "b"

    def test_there_may_be_none(self) -> None:
        assert kustomization(tree({}), ".", Effort()) is None
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
            read(text)

    def test_two_in_a_folder_are_an_error(self) -> None:
        with pytest.raises(Unreadable, match="the folder has 2 kustomizations"):
            read("resources: [a]", Kustomization="resources: [a]")

    def test_another_encoding_is_an_error(self) -> None:
        files = tree({}).replaced("kustomization.yaml", b"a: b\nc: \xff")
        with pytest.raises(Unreadable, match="not UTF-8") as caught:
            kustomization(files, ".", Effort())
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
            files = tree({"kustomization.yaml": fields})
            found = kustomization(files, ".", Effort())
        except Unreadable:
            return
        assert found is not None
        assert found.value.keys() == fields.keys()
        with contextlib.suppress(Unreadable):
            marked(files, {found.file: found}, Effort())


class TestNamesInAnotherCase:
    """kustomize decodes its file with Go's `encoding/json`."""

    def test_are_the_same_fields(self, whole: Kustomization) -> None:
        def capital(value: Any) -> Any:  # a document holds anything
            if isinstance(value, list):
                return [capital(each) for each in value]
            if not isinstance(value, dict):
                return value
            free = {"commonLabels", "commonAnnotations", "pairs", "configMapGenerator", "secretGenerator", "labels"}
            return {str(key).title(): each if key in free else capital(each) for key, each in value.items()}

        files = {name: yaml.safe_dump_all([capital(yaml.safe_load(text))]) for name, text in FILES.items()}
        files |= {"k/p.yaml": FILES["k/p.yaml"]}
        found = kustomization(tree(files), "k", Effort())
        assert found is not None
        assert "Resources:" in files["k/kustomization.yaml"]
        assert (found.value.keys(), found.unknown) == (whole.value.keys(), ())
        for one, other in ((found.resources, whole.resources), (found.components, whole.components)):
            assert [it.path for it in one] == [it.path for it in other]
        assert [it.what for it in marks(files).rules] == [it.what for it in marks(FILES).rules]
        assert [it.key for it in marks(files).rules[:5]] == [it.key for it in marks(FILES).rules[:5]]

    def test_stand_where_they_are(self) -> None:
        found = read("kind: Kustomization\nRESOURCES:\n- a.yaml\nPatches:\n- Path: p.yaml\n")
        assert str(found.resources[0].place) == "kustomization.yaml:3"
        assert str(found.patch_files[0].place) == "kustomization.yaml:5"

    @pytest.mark.parametrize(
        "text", ["resources: [a]\nResources: [b]\n", "resources: [a]\npatches: [{path: a, PATH: b}]\n"]
    )
    def test_beside_their_own_are_an_error(self, text: str) -> None:
        with pytest.raises(Unreadable, match=r"it has the field \w+ twice"):
            read(text)

    def test_of_labels_are_labels(self) -> None:
        assert read("commonLabels: {Name: a, name: b}").value["commonLabels"] == {"Name": "a", "name": "b"}


def test_a_field_that_kustomize_does_not_know_is_named_and_those_in_another_case_are_not() -> None:
    found = read("Resources: []\npathces: []\nbuildMetadata: []\n")
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
    assert Named(path, Place("k")).is_remote


@pytest.mark.parametrize("path", ["a.yaml", "../base", "./github.com/x", "a@b", "c:/d", "githubxcom/a"])
def test_what_is_here(path: str) -> None:
    assert not Named(path, Place("k")).is_remote


@pytest.mark.parametrize(
    "text",
    [
        "images: [none, {name: a}]",
        "replacements: [none, {targets: none}, {targets: [none, {select: none}]}]",
        "patches: [none, {target: none}, {target: {}, patch: '[none]'}, {target: {}, patch: none}]",
        "patchesJson6902: {a: b}",
        "namespace: true",
        "images: [{[a]: b}]",
    ],
)
def test_what_is_no_rule_is_no_trouble(text: str) -> None:
    files = tree({"kustomization.yaml": text})
    with contextlib.suppress(Unreadable):
        found = kustomization(files, ".", Effort())
        assert found is not None
        assert len(marked(files, {found.file: found}, Effort()).rules) <= 2


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("resources:\n- gotk-components.yaml\n- gotk-sync.yaml\n", True),
        ("resources: [./gotk-components.yaml]\n", True),
        ("resources: [flux-system/gotk-components.yaml]\n", False),
        ("resources: [", False),
        (None, False),
    ],
)
def test_a_kustomization_lists_a_file_beside_it(written: str | None, expected: bool) -> None:
    files = () if written is None else (TreeFile("kustomization.yaml", written.encode()),)
    assert lists(Tree(files), "gotk-components.yaml") is expected
