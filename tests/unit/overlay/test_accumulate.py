"""What a kustomization gathers, and what its rules hit, through bases and components."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ci_automation.overlay import accumulate as module
from ci_automation.overlay import objects
from ci_automation.overlay.effort import Effort
from tests.unit.overlay.trees import COMPONENTS, LIST, MAP, PATH, gathered, hits, overlay

REPLICAS = json.dumps([{"op": "add", "path": "/spec/replicas", "value": 2}])
SIDECAR = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: source-controller, namespace: flux-system}\n"
COMPONENT = {"kind": "Component", "apiVersion": "kustomize.config.k8s.io/v1alpha1"}


def target(patch: str = REPLICAS, **fields: str) -> dict[str, Any]:
    """Return a patch with a target."""
    return {"target": fields, "patch": patch}


NESTED: dict[str, object] = {
    "kustomization.yaml": {"resources": ["flux-system"]},
    "flux-system/kustomization.yml": {"resources": ["gotk-components.yaml"]},
}
LOCAL = """\
apiVersion: v1
kind: A
metadata: {name: a, annotations: {config.kubernetes.io/local-config: 'true'}}
"""


class TestWhatItGathers:
    def test_files_folders_and_components(self) -> None:
        found = gathered(
            {
                "kustomization.yaml": {"resources": ["base", "own.yaml"], "components": ["part"]},
                "base/kustomization.yaml": {"bases": ["../flux-system"]},
                "flux-system/kustomization.yaml": {"resources": ["./gotk-components.yaml"]},
                "part/kustomization.yaml": COMPONENT | {"resources": ["../extra.yaml"]},
                "own.yaml": MAP,
                "extra.yaml": MAP.replace("settings", "extra"),
            }
        )
        assert found.problems == []
        assert [each.current.name for each in found.resources][-2:] == ["settings", "extra"]
        assert found.folders == {".", "base", "flux-system", "part"}
        assert found.files >= {PATH, "own.yaml", "extra.yaml", "base/kustomization.yaml"}
        assert not found.only_lists

    @pytest.mark.parametrize(
        ("files", "only"),
        [
            (overlay(), True),
            (overlay(kind="Kustomization"), True),
            (overlay(sortOptions={"order": "of mine"}), False),
            (overlay(metadata={"name": 5}), False),
            ({"kustomization.yaml": {"resources": [PATH, 5]}}, False),
            ({"kustomization.yaml": {"resources": [PATH, ""]}}, False),
            (NESTED, True),
            (overlay(namespace="x"), False),
            (overlay(unknown="x"), False),
            (overlay(kind="Other"), False),
        ],
    )
    def test_it_may_only_list(self, files: dict[str, object], only: bool) -> None:
        assert gathered(files).only_lists is only

    def test_what_it_generates_is_hit_too(self) -> None:
        found = gathered(
            overlay(
                configMapGenerator=[{"name": "made", "namespace": "x"}, {"name": "made", "behavior": "merge"}],
                patches=[target("kind: A\nmetadata: {name: a}", kind="ConfigMap", name="made", namespace="x")],
            )
        )
        assert hits(found) == {"patches[0]": ["made"]}
        assert found.problems == []

    def test_what_is_for_kustomize_alone_is_not_applied(self) -> None:
        found = gathered({"kustomization.yaml": {"resources": [PATH, "a.yaml"]}, "a.yaml": LOCAL})
        assert len(found.ids) == len(found.resources) - 1


K = "kustomization.yaml"
NAMESPACE = COMPONENTS.partition("---\napiVersion: apiext")[0]
WRONG: dict[str, tuple[dict[str, object], str, str]] = {
    "nothing": ({}, ". has no kustomization", "."),
    "no YAML": ({K: "a: ["}, f"{K} cannot be read: it is not YAML", f"{K}:1"),
    "a file that is gone": ({K: "resources:\n- gone.yaml\n"}, "gone.yaml is not in the artifact", f"{K}:2"),
    "outside": ({K: "resources:\n- ../../etc/x\n"}, "../../etc/x is not in the artifact", f"{K}:2"),
    "a folder without": ({K: {"resources": ["a"]}, "a/x.txt": ""}, "a has no kustomization", f"{K}:1"),
    "itself": ({K: {"resources": ["."]}}, ". refers to itself", f"{K}:1"),
    "no object": (
        {K: {"resources": ["bad.yaml"]}, "bad.yaml": "\na: b"},
        "bad.yaml cannot be read: an object has no kind",
        "bad.yaml:2",
    ),
    "an object twice": (
        {K: {"resources": [PATH, "a.yaml"]}, "a.yaml": NAMESPACE},
        "Namespace flux-system is there twice: flux-system/gotk-components.yaml:3 and a.yaml:3",
        "a.yaml:3",
    ),
    "a patch that is gone": (overlay(patches=[{"path": "p.yaml"}]), "p.yaml is not in the artifact", f"{K}:1"),
    "no patch": (overlay(patches=[{"patch": "a"}]), "the patch cannot be read: ", f"{K}:1"),
    "no target": (overlay(patches=[{"patch": REPLICAS}]), "a JSON patch has no target", f"{K}:1"),
    "no such object": (
        overlay(patches=[{"patch": SIDECAR.replace("source", "ghost")}]),
        "the patch of Deployment flux-system/ghost-controller hits nothing",
        f"{K}:1",
    ),
    "no such path": (
        overlay(patches=[target(REPLICAS.replace("/spec", "/specs"), kind="Namespace")]),
        "the patch of Namespace finds no /specs/replicas in Namespace flux-system",
        f"{K}:1",
    ),
}


class TestWhatIsWrong:
    @pytest.mark.parametrize("name", WRONG)
    def test_is_told(self, name: str) -> None:
        files, sentence, place = WRONG[name]
        (problem,) = gathered(files).problems
        assert problem.sentence.startswith(sentence)
        assert str(problem.place) == place

    def test_a_patch_of_what_is_there_twice(self) -> None:
        found = gathered(
            {
                "kustomization.yaml": {"resources": ["a", "b"], "patches": [{"patch": MAP}]},
                "a/kustomization.yaml": {"resources": ["../own.yaml"], "namePrefix": "a-"},
                "b/kustomization.yaml": {"resources": ["../own.yaml"], "namePrefix": "b-"},
                "own.yaml": MAP,
            }
        )
        assert [each.sentence for each in found.problems] == [
            "the patch of ConfigMap flux-system/settings hits several objects"
        ]

    def test_a_maze_comes_to_an_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_MAX_VISITS", 20)
        files = {f"{n}/kustomization.yaml": {"resources": [f"../{n + 1}", f"../{n + 1}"]} for n in range(30)}
        found = gathered(files, "0")
        assert any("too many others" in each.sentence for each in found.problems)

    def test_what_is_elsewhere_is_noted_and_not_missed(self) -> None:
        found = gathered(
            {
                "kustomization.yaml": {
                    "resources": [PATH, "https://acme.example/x"],
                    "components": ["github.com/acme/part"],
                    "transformers": ["git@acme.example:x", "here.yaml"],
                }
            }
        )
        assert sorted(each.path for each in found.remotes) == [
            "git@acme.example:x",
            "github.com/acme/part",
            "https://acme.example/x",
        ]
        assert found.problems == []

    def test_what_looks_like_elsewhere_and_is_here_is_taken(self) -> None:
        found = gathered({"kustomization.yaml": {"resources": ["github.com/x.yaml"]}, "github.com/x.yaml": MAP})
        assert (found.remotes, len(found.resources)) == ([], 1)

    @pytest.mark.parametrize(
        ("listed", "local"),
        [
            ("github.com/acme/part", "github.com/acme/part/kustomization.yaml"),
            ("git@github.com:acme/part", "git@github.com:acme/part/kustomization.yaml"),
            ("https://acme.example/x.yaml", "https:/acme.example/x.yaml"),
        ],
    )
    def test_what_is_fetched_is_not_what_is_here_under_that_name(self, listed: str, local: str) -> None:
        content = {"resources": ["own.yaml"]} if local.endswith("kustomization.yaml") else MAP
        files = {"kustomization.yaml": {"resources": [listed]}, local: content}
        found = gathered({**files, f"{local.rpartition('/')[0]}/own.yaml": MAP})
        assert ([each.path for each in found.remotes], found.resources) == ([listed], [])


class TestWhatItsRulesHit:
    def test_patches(self) -> None:
        found = gathered(
            overlay(
                patches=[
                    target(kind="Deployment"),
                    target(name="helm-.*"),
                    target(name="ghost"),
                    {"patch": SIDECAR},
                    {"patch": SIDECAR + "---\n" + SIDECAR.replace("source", "helm")},
                ],
                patchesStrategicMerge=[SIDECAR],
                patchesJson6902=[target(kind="Deployment", name="source-controller")],
            )
        )
        source, helm = "source-controller", "helm-controller"
        assert [[it.name for it in each.objects] for each in found.effects.values()] == [
            [source],
            [source, helm],
            [helm],
            [],
            [source],
            [source],
            [helm],
            [source],
        ]
        assert found.problems == []

    def test_transformers_in_their_order(self) -> None:
        found = gathered(
            overlay(
                namespace="gitops",
                namePrefix="our-",
                nameSuffix="-x",
                commonLabels={"team": "a"},
                commonAnnotations={"note": "b"},
                patches=[target(namespace="gitops"), target(labelSelector="team")],
                patchesJson6902=[
                    target(kind="Deployment", name="our-.*", namespace="gitops", labelSelector="team=a"),
                    target(kind="Deployment", name="source-controller", annotationSelector="note=b"),
                ],
                replicas=[{"name": "source-controller"}, {"name": "our-helm-controller-x"}, {"name": "ghost"}],
            )
        )
        assert hits(found) == {
            "namespace": ["flux-system", "source-controller", "helm-controller"],
            "namePrefix": ["crd-controller", "source-controller", "helm-controller"],
            "nameSuffix": ["crd-controller", "source-controller", "helm-controller"],
            "patches[0]": [],
            "patches[1]": [],
            "patchesJson6902[0]": ["source-controller", "helm-controller"],
            "patchesJson6902[1]": ["source-controller"],
            "replicas[0]": ["source-controller"],
            "replicas[1]": ["helm-controller"],
            "replicas[2]": [],
        }
        assert sorted(str(each) for each in found.ids) == [
            "ClusterRole our-crd-controller-x",
            "CustomResourceDefinition buckets.source",
            "Deployment gitops/our-helm-controller-x",
            "Deployment gitops/our-source-controller-x",
            "Namespace gitops",
        ]

    def test_a_name_that_stays_is_no_new_one(self) -> None:
        found = gathered(overlay(namespace="flux-system"))
        assert all(len(each.ids) == 1 for each in found.resources)

    def test_patches_see_what_patches_before_them_did(self) -> None:
        label = json.dumps([{"op": "add", "path": "/metadata/labels", "value": {"team": "a"}}])
        merge = "kind: Any\nmetadata: {name: any, labels: {team: b, part-of: null}}\n"
        found = gathered(
            overlay(
                patches=[
                    target(label, kind="Deployment", name="source-.*"),
                    target(merge, kind="Deployment", name="helm-.*"),
                    target(labelSelector="team=a"),
                    target(labelSelector="team=b"),
                    target(labelSelector="part-of=null"),
                    target("$patch: delete\nkind: Any\nmetadata: none\n", labelSelector="team=b"),
                    target(kind="Deployment"),
                ],
                commonLabels={"more": "c"},
                patchesJson6902=[target(labelSelector="team=a,more=c", name=".*")],
            )
        )
        names = [[it.name for it in each.objects] for each in found.effects.values()]
        source, helm = ["source-controller"], ["helm-controller"]
        assert names == [source, helm, source, helm, helm, helm, source, source]

    def test_an_image_by_the_name_that_it_has_by_then(self) -> None:
        found = gathered(
            overlay(
                images=[
                    {"name": "ghcr.io/fluxcd/source-controller", "newName": "a/b"},
                    {"name": "a/b", "newTag": "v7"},
                    {"name": "ghcr.io/fluxcd/source-controller"},
                ]
            )
        )
        assert hits(found) == {"images[0]": ["source-controller"], "images[1]": ["source-controller"], "images[2]": []}

    def test_an_image_that_a_patch_brought(self) -> None:
        patch = "kind: Any\nmetadata: {name: any}\nspec: {containers: [{image: side}]}\n"
        found = gathered(overlay(patches=[target(patch, kind="Namespace")], images=[{"name": "side"}]))
        assert hits(found)["images[0]"] == ["flux-system"]

    def test_a_replacement(self) -> None:
        found = gathered(
            overlay(
                replacements=[
                    {
                        "source": {"kind": "Namespace"},
                        "targets": [
                            {"select": {"kind": "ClusterRole"}, "fieldPaths": ["rules.1.verbs.0"]},
                            {"select": {"name": "ghost"}},
                        ],
                    }
                ]
            )
        )
        assert hits(found) == {
            "replacements[0].targets[0]": ["crd-controller"],
            "replacements[0].targets[1]": [],
        }
        first, _ = found.effects.values()
        assert [(str(it.object), it.touch.pointer) for it in first.touches] == [
            ("ClusterRole crd-controller", "rules.1"),
            ("ClusterRole crd-controller", "rules.1.verbs.0"),
        ]

    def test_a_component_s_rules_hit_what_was_gathered_before(self) -> None:
        found = gathered(
            {
                "kustomization.yaml": LIST | {"components": ["part"], "patches": [target(labelSelector="of=part")]},
                "part/kustomization.yaml": COMPONENT
                | {"commonLabels": {"of": "part"}, "patches": [target(kind="D.*")]},
            }
        )
        assert len(hits(found)["patches[0]"]) == 5
        assert len(found.effects) == 2

    def test_a_replacement_leaves_alone_what_it_rejects(self) -> None:
        reject = [{"name": "helm-.*"}, {"labelSelector": "of=none"}]
        targets = [{"select": {"kind": "Deployment"}, "reject": reject, "fieldPaths": ["spec.replicas"]}]
        found = gathered(overlay(replacements=[{"source": {"kind": "Namespace"}, "targets": targets}]))
        assert hits(found) == {"replacements[0].targets[0]": ["source-controller"]}

    def test_labels_stay_on_what_is_read_later(self) -> None:
        found = gathered(overlay(commonLabels={"a": "b"}))
        assert [each.value(Effort())["metadata"]["labels"]["a"] for each in found.resources] == ["b"] * 5

    def test_an_object_of_which_only_the_head_can_be_read_has_no_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(objects, "_LARGE", 0)
        files = {"kustomization.yaml": {"resources": ["a.yaml"], "patches": [target(kind="ConfigMap")]}}
        found = gathered(files | {"a.yaml": MAP + "data: {a: b: c}\n"})
        assert [each.value(Effort()) for each in found.resources] == [{}]
        assert "finds no /spec/replicas" in found.problems[0].sentence
