"""Which objects each rule selects, and what it means by number, as kustomize says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_automation.impact.overlay.outcome import read_marks, unmarked
from tests.unit.impact.overlay.trees import COMPONENTS, LIST, MAP, PATH, hits, overlay, rules

REPLICAS = json.dumps([{"op": "add", "path": "/spec/replicas", "value": 2}])
COMPONENT = {"kind": "Component", "apiVersion": "kustomize.config.k8s.io/v1alpha1"}
DELETE = "$patch: delete\nkind: Any\nmetadata: {name: any}\n"
NOTE = json.dumps([{"op": "add", "path": "/metadata/annotations", "value": {"note": "yes"}}])
SOURCE = {"kind": "Namespace", "name": "flux-system", "fieldPath": "metadata.name"}
PATHS = {"fieldPaths": ["metadata.annotations.home"], "options": {"create": True}}


def target(patch: str = NOTE, **fields: Any) -> dict[str, Any]:
    """Return a patch with a target."""
    return {"target": fields, "patch": patch}


def replacing(*targets: dict[str, Any]) -> dict[str, Any]:
    """Return a replacement."""
    return {"source": SOURCE, "targets": [PATHS | each for each in targets]}


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        pytest.param(
            {}, "flux-system buckets.source crd-controller source-controller helm-controller", id="everything"
        ),
        pytest.param({"name": ".*-controller"}, "crd-controller source-controller helm-controller", id="a pattern"),
        pytest.param({"name": "source"}, "", id="a part of a name"),
        pytest.param({"kind": "deployment"}, "", id="another case"),
        pytest.param({"kind": "Deployment", "labelSelector": "component in (helm)"}, "helm-controller", id="a label"),
        pytest.param({"namespace": "flux-system"}, "source-controller helm-controller", id="a namespace"),
        pytest.param(
            {"group": "apps|apiextensions.*"}, "buckets.source source-controller helm-controller", id="groups"
        ),
        pytest.param({"annotationSelector": "note"}, "", id="an annotation"),
    ],
)
def test_a_patch_selects_by_its_target(selector: dict[str, str], names: str) -> None:
    found = hits(rules(overlay(patches=[target(**selector)])))
    assert sorted(found["patches[0]"]) == sorted(names.split())


def test_transformers_in_their_order() -> None:
    found = rules(
        overlay(
            namespace="gitops",
            namePrefix="our-",
            nameSuffix="-x",
            commonLabels={"team": "a"},
            commonAnnotations={"note": "b"},
            patches=[target(namespace="gitops"), target(labelSelector="team")],
            patchesJson6902=[
                target(REPLICAS, kind="Deployment", name="our-.*", namespace="gitops", labelSelector="team=a"),
                target(kind="Deployment", name="source-controller", annotationSelector="note=b"),
            ],
        )
    )
    source, helm, role = "source-controller", "helm-controller", "crd-controller"
    assert {name: set(names) for name, names in hits(found).items()} == {
        "namespace": {"flux-system", source, helm},
        "namePrefix": {role, source, helm},
        "nameSuffix": {role, source, helm},
        "patches[0]": set(),
        "patches[1]": set(),
        "patchesJson6902[0]": {source, helm},
        "patchesJson6902[1]": {source},
    }
    assert sorted(str(each) for each in found.ids) == [
        "ClusterRole our-crd-controller-x",
        "CustomResourceDefinition buckets.source",
        "Deployment gitops/our-helm-controller-x",
        "Deployment gitops/our-source-controller-x",
        "Namespace gitops",
    ]


def test_patches_see_what_patches_before_them_did() -> None:
    label = json.dumps([{"op": "add", "path": "/metadata/labels", "value": {"team": "a"}}])
    merge = "kind: Any\nmetadata: {name: any, labels: {team: b}}\n"
    found = rules(
        overlay(
            patches=[
                target(label, kind="Deployment", name="source-.*"),
                target(merge, kind="Deployment", name="helm-.*"),
                target(labelSelector="team=a"),
                target(labelSelector="team=b"),
                target(DELETE, labelSelector="team=b"),
                target(DELETE, name="ghost"),
                target(kind="Deployment"),
                target(name=".*-controller"),
            ]
        )
    )
    source, helm = ["source-controller"], ["helm-controller"]
    assert list(hits(found).values()) == [source, helm, source, helm, helm, [], source, ["crd-controller", *source]]
    assert "helm-controller" not in {each.name for each in found.ids | found.present}


def test_a_patch_without_a_target_is_kustomize_s_to_judge() -> None:
    patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: helm-controller, namespace: flux-system}\n"
    assert hits(rules(overlay(patches=[{"patch": patch}], patchesStrategicMerge=[patch]))) == {}


def test_what_is_generated_is_known_by_the_name_that_it_was_given() -> None:
    found = rules(
        overlay(configMapGenerator=[{"name": "made", "literals": ["a=b"]}], patches=[target(kind="ConfigMap")])
    )
    assert hits(found) == {"patches[0]": ["made"]}


def test_a_component_s_rules_hit_what_was_gathered_before() -> None:
    found = rules(
        {
            "kustomization.yaml": LIST | {"components": ["part"], "patches": [target(labelSelector="of=part")]},
            "part/kustomization.yaml": COMPONENT | {"commonLabels": {"of": "part"}, "patches": [target(kind="D.*")]},
        }
    )
    assert {key.partition(" ")[0]: len(each.objects) for key, each in found.effects.items()} == {
        "part/kustomization.yaml": 2,
        "kustomization.yaml": 5,
    }


def test_a_name_of_a_base_is_the_first_one() -> None:
    found = rules(
        {
            "kustomization.yaml": {"resources": ["base"], "namePrefix": "a-", "patches": [target(kind="Deployment")]},
            "base/kustomization.yaml": {"resources": [f"../{PATH}"], "namePrefix": "b-"},
        }
    )
    assert sorted(hits(found)["patches[0]"]) == ["helm-controller", "source-controller"]


class TestImages:
    def test_are_known_by_the_name_that_they_have_by_then(self) -> None:
        found = rules(
            overlay(
                images=[
                    {"name": "ghcr.io/fluxcd/source-controller", "newName": "a/b"},
                    {"name": "a/b", "newTag": "v7"},
                    {"name": "a/b"},
                    {"name": "ghcr.io/fluxcd/source-controller"},
                ]
            )
        )
        source = ["source-controller"]
        assert list(hits(found).values()) == [source, source, source, []]

    @pytest.mark.parametrize("name", ["ghcr.io/fluxcd/.*", "[^:]*/source-controller", "ghcr.io/fluxcd/source"])
    def test_are_known_by_a_pattern(self, name: str) -> None:
        found = hits(rules(overlay(images=[{"name": name, "digest": "sha256:0f"}])))
        assert len(found["images[0]"]) == {"[": 1, "g": 2 if name.endswith("*") else 0}[name[0]]

    def test_that_a_patch_brought_count(self) -> None:
        patch = "kind: Any\nmetadata: {name: any}\nspec: {containers: [{name: a, image: side}]}\n"
        found = rules(overlay(patches=[target(patch, kind="Namespace")], images=[{"name": "side", "newTag": "x"}]))
        assert hits(found)["images[0]"] == ["flux-system"]


class TestReplacements:
    def test_select_and_reject(self) -> None:
        reject = {"reject": [{"name": "helm-.*"}]}
        selects: tuple[dict[str, Any], ...] = ({"kind": "Deployment"}, {"name": "ghost"})
        targets: list[dict[str, Any]] = [{"select": selects[0], **reject}, {"select": selects[1]}]
        found = hits(rules(overlay(replacements=[replacing(*targets)])))
        assert found == {
            "replacements[0].targets[0]": ["source-controller"],
            "replacements[0].targets[1]": [],
        }

    @pytest.mark.parametrize("several", [False, True], ids=["one", "a list"])
    def test_may_be_in_a_file(self, several: bool) -> None:
        its: object = replacing({"SELECT": {"kind": "Deployment"}})
        found = rules(overlay(replacements=[{"path": "r.yaml"}]) | {"r.yaml": json.dumps([its] if several else its)})
        assert {name: len(names) for name, names in hits(found).items()} == {"replacements[0].targets[0]": 2}
        assert [str(each.rule.places[-1]) for each in found.effects.values()] == ["r.yaml:1"]

    @pytest.mark.parametrize(
        ("path", "means"),
        [
            ("rules.1.verbs.0", [("rules.1", 1), ("rules.1.verbs.0", 0)]),
            ("rules.[resources=x].verbs.0", []),
            ("rules.0", [("rules.0", 0)]),
            ("metadata.annotations.0", []),
            ("rules.9", []),
            ("rules.*.verbs.0", []),
            ("metadata.name.0", []),
        ],
    )
    def test_what_a_field_path_means_by_number(self, path: str, means: list[tuple[str, int]]) -> None:
        """The list is the one before the replacement."""
        found = rules(
            overlay(replacements=[replacing({"select": {"kind": "ClusterRole"}, "fieldPaths": [path, "kind"]})])
        )
        (effect,) = found.effects.values()
        assert [(it.pointer, it.index) for it in effect.touches] == means
        assert [it.name for it in effect.objects] == ["crd-controller"]

    def test_of_an_item_by_its_key(self) -> None:
        path = "spec.template.spec.containers.[name=manager].args.1"
        found = rules(overlay(replacements=[replacing({"select": {"name": "source-.*"}, "fieldPaths": [path]})]))
        (effect,) = found.effects.values()
        assert [(it.pointer, it.elements) for it in effect.touches] == [
            (path, ("--log-level=info", "--storage-path=/data"))
        ]


@pytest.mark.parametrize(
    ("operation", "means"),
    [
        ({"op": "replace", "path": "/list/1", "value": "z"}, [("/list/1", 1)]),
        ({"op": "replace", "path": "/list/-1", "value": "z"}, [("/list/-1", 2)]),
        ({"op": "replace", "path": "/list", "value": "z"}, []),
        ({"op": "remove", "path": "/list/0"}, [("/list/0", 0)]),
        ({"op": "add", "path": "/list/-", "value": "z"}, []),
        ({"op": "add", "path": "/list/0", "value": "z"}, []),
        ({"op": "add", "path": "/maps/0/args/-", "value": 3}, [("/maps/0", 0)]),
        ({"op": "test", "path": "/list/0", "value": "a"}, []),
        ({"op": "move", "path": "/list/0", "from": "/list/2"}, [("/list/2", 2)]),
        ({"op": "copy", "path": "/maps/0/name", "from": "/list/2"}, [("/list/2", 2), ("/maps/0", 0)]),
        ({"op": "replace", "path": "/maps/0/args/1", "value": 7}, [("/maps/0", 0), ("/maps/0/args/1", 1)]),
        ({"op": "replace", "path": "/numbers/0", "value": "z"}, []),
    ],
    ids=json.dumps,
)
def test_what_an_operation_means_by_number(operation: dict[str, Any], means: list[tuple[str, int]]) -> None:
    own: dict[str, Any] = {"apiVersion": "v1", "kind": "Own", "metadata": {"name": "own"}, "list": ["a", "b", "c"]}
    own |= {"maps": [{"name": "x", "args": [1, 2]}], "numbers": {"0": "a"}}
    files: dict[str, object] = {
        "kustomization.yaml": {"resources": ["own.yaml"], "patches": [target(json.dumps([operation]), kind="Own")]},
        "own.yaml": json.dumps(own),
    }
    (effect,) = rules(files).effects.values()
    assert [(it.pointer, it.index) for it in effect.touches] == means


def test_the_list_is_that_before_the_operation() -> None:
    path = "/spec/template/spec/containers/0/args/0"
    patch = json.dumps([{"op": "remove", "path": path}, {"op": "replace", "path": path, "value": "z"}])
    found = rules(overlay(patches=[target(patch, name="source-controller")]))
    (effect,) = found.effects.values()
    assert [touch.elements for touch in effect.touches if touch.pointer == path] == [
        ("--log-level=info", "--storage-path=/data"),
        ("--storage-path=/data",),
    ]


def test_the_same_rule_twice_is_told_apart() -> None:
    found = rules(overlay(patches=[target(kind="Deployment"), target(kind="Deployment")]))
    one, other = (each.rule.key for each in found.effects.values())
    assert other == f"{one}-2"


def test_what_is_no_rule_is_left_alone() -> None:
    assert rules(overlay(sortOptions={"order": "fifo"}, images=[], patches=[])).effects == {}


@pytest.mark.parametrize("forged", ["fluxManifestsHit-x", "fluxManifestsHit-7", "fluxManifestsOrigin-0"])
def test_a_mark_that_an_object_brought_harms_nothing(forged: str) -> None:
    own = f"{MAP}{forged}: x\n"
    found = read_marks(f"{own}---\n{COMPONENTS}", ())
    assert found.effects == {}
    assert len(found.ids) == 6


def test_a_text_about_a_mark_takes_no_object_away() -> None:
    built = f"{MAP}data:\n  note: fluxManifestsGone-0\n"
    deleted = "apiVersion: ConfigMap\nfluxManifestsGone-0: x\nkind: v1\nmetadata: {name: gone}\n"
    assert unmarked(f"{deleted}---\n{built}") == built


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ({}, "objects"),
        ({"kind": "Deployment", "name": "a", "namespace": "b"}, "Deployment b/a"),
        ({"name": "a", "labelSelector": "x=y"}, "objects a with x=y"),
        ({"kind": "A", "group": "apps", "version": "v1", "annotationSelector": "z"}, "A with z of apps/v1"),
        ({"kind": "A", "version": "v1"}, "A v1"),
    ],
)
def test_a_selector_in_words(selector: dict[str, str], words: str) -> None:
    found = rules(overlay(patches=[target(**selector)]))
    assert [each.rule.what for each in found.effects.values()] == [f"the patch of {words}"]
