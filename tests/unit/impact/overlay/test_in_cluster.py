"""A folder as clusters build it, with the patches and images of their own Kustomization."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ci_automation.impact.change import Certainty, Hazard
from ci_automation.impact.check import Applied, Known
from ci_automation.impact.checks.overlay import CHECK
from ci_automation.impact.objects import read_objects
from ci_automation.impact.overlay.folders import applied_folder
from ci_automation.impact.overlay.in_cluster import as_applied, unfit_in_cluster, unlike_in_cluster
from ci_automation.impact.overlay.kustomization import Effort
from tests.unit.impact.overlay.trees import COMPONENTS, LIST, MAP, PATH, Recorded, overlay, tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SOURCE, HELM = "source-controller", "helm-controller"
LISTED = {"kustomization.yaml": LIST}
NOTE = "- {op: add, path: /metadata/annotations, value: {note: 'yes'}}"
MORE = "- {op: add, path: /metadata/annotations/more, value: 'yes'}"
ON_SOURCE = {"kind": "Deployment", "name": SOURCE}
FLUX = "ghcr.io/fluxcd"
EDGE = {"name": f"{FLUX}/source-controller", "newName": "registry.edge.example/source"}


def built(files: Mapping[str, object], **spec: Any) -> dict[str, Any]:
    """Return the Deployments that clusters get, by their names."""
    made = as_applied(applied_folder(tree(files), ".", Effort()), spec, Effort())
    (said,) = Recorded().builds([(made.tree, ".")])
    assert isinstance(said, str), said
    return {it.id.name: it.value for it in read_objects(said) if it.id.kind == "Deployment"}


def image(found: Mapping[str, Any], name: str) -> str:
    """Return the image of a controller."""
    return str(found[name]["spec"]["template"]["spec"]["containers"][0]["image"])


@pytest.mark.parametrize("files", [{}, {"kustomization.yaml": LIST}], ids=["no kustomization", "one that lists"])
def test_a_folder_gets_the_patches_and_images_of_the_cluster(files: Mapping[str, object]) -> None:
    found = built(files, patches=[{"target": ON_SOURCE, "patch": NOTE}], images=[EDGE], interval="10m")
    assert found[SOURCE]["metadata"]["annotations"] == {"note": "yes"}
    assert "annotations" not in found[HELM]["metadata"]
    assert image(found, SOURCE).startswith("registry.edge.example/source:")
    assert not image(found, HELM).startswith("registry")


def test_patches_come_after_those_of_the_artifact_and_images_in_their_place() -> None:
    own = overlay(
        patches=[{"target": ON_SOURCE, "patch": NOTE, "options": {"allowNameChange": True}}],
        images=[
            {"name": f"{FLUX}/{SOURCE}", "newName": "own.example/source"},
            {"name": f"{FLUX}/{HELM}", "newName": "own.example/helm"},
        ],
    )
    found = built(own, patches=[{"target": ON_SOURCE, "patch": MORE}], images=[EDGE])
    assert found[SOURCE]["metadata"]["annotations"] == {"note": "yes", "more": "yes"}
    assert image(found, SOURCE).startswith("registry.edge.example/source:")
    assert image(found, HELM).startswith("own.example/helm:")


@pytest.mark.parametrize("new_tag", ["5", "1.5", "null"])
def test_the_fields_of_an_image_that_are_no_texts_stay_what_they_are(new_tag: str) -> None:
    text = f"resources: []\nimages: [{{name: own, newTag: {new_tag}}}]\n"
    folder = applied_folder(tree({"kustomization.yaml": text}), ".", Effort())
    written = yaml.safe_load(as_applied(folder, {"images": [EDGE]}, Effort()).tree["kustomization.yaml"])
    assert written["images"] == [{"name": "own", "newTag": yaml.safe_load(new_tag)}, EDGE]


@pytest.mark.parametrize("spec", [{"patches": [{"patch": MORE}]}, {"images": [EDGE]}], ids=["patches", "images"])
def test_what_a_merge_brings_into_the_kustomization_stays(spec: Mapping[str, Any]) -> None:
    text = "resources: []\n<<: {patches: [{patch: own}], images: [{name: own}]}\n"
    folder = applied_folder(tree({"kustomization.yaml": text}), ".", Effort())
    written = yaml.safe_load(as_applied(folder, spec, Effort()).tree["kustomization.yaml"])
    assert written["patches"] == [{"patch": "own"}, *spec.get("patches", [])]
    assert written["images"] == [{"name": "own"}, *spec.get("images", [])]
    assert "<<" not in written


@pytest.mark.parametrize(("given", "other"), [("patches", "images"), ("images", "patches")])
def test_only_what_is_given_is_written(given: str, other: str) -> None:
    folder = applied_folder(tree({"kustomization.yaml": LIST}), ".", Effort())
    written = as_applied(folder, {given: [EDGE]}, Effort()).tree["kustomization.yaml"].decode()
    assert given in written
    assert other not in written


def test_a_folder_stays_as_it_is_without_them_and_where_it_cannot_be_read() -> None:
    plain, broken = (
        applied_folder(tree({"kustomization.yaml": text}), ".", Effort()) for text in (LIST, "resources: [")
    )
    assert as_applied(plain, {"interval": "10m"}, Effort()) is plain
    assert as_applied(broken, {"images": [EDGE]}, Effort()) is broken


FLUXS = COMPONENTS.replace("{part-of: flux, component", "{app.kubernetes.io/part-of: flux, component")
TYPO = {"target": {"kind": "Deployment", "name": "kustomise-controller"}, "patch": NOTE}


CERTAIN, POSSIBLE, ADVICE = Certainty.CERTAIN, Certainty.POSSIBLE, Certainty.ADVICE
RENAMED = FLUXS.replace("  name: source-controller", "  name: fetch-controller")
MOVED = FLUXS.replace(f"{FLUX}/{HELM}", "registry.fluxcd.example/helm-controller")
BOTH = [EDGE, {"name": f"{FLUX}/{HELM}", "newName": "registry.edge.example:5000/helm"}]


def unfit(files: Mapping[str, object], components: str = FLUXS, *, before: str = "", **spec: Any) -> list[Hazard]:
    """Return what does not fit; nothing was there without components `before`."""
    old = tree(files, before) if before else None
    return list(unfit_in_cluster(old, tree(files, components), {"path": "./", **spec}, Recorded()))


def told(hazards: Iterable[Hazard]) -> list[tuple[Certainty, str]]:
    """Return what is said of hazards, and how sure it is."""
    return [(it.certainty, it.sentence) for it in hazards]


def test_a_patch_of_the_cluster_that_matches_nothing_is_told_and_no_other() -> None:
    own = overlay(patches=[TYPO, {"target": ON_SOURCE, "patch": NOTE}])  # `plan` tells of those in the artifact
    (found,) = unfit(own, patches=[{"target": ON_SOURCE, "patch": MORE}, TYPO])
    sentence = "the patch of Deployment kustomise-controller in `sync.kustomization` matches nothing"
    assert told([found]) == [(ADVICE, sentence)]
    assert found.remedies == ("sync.kustomization: remove patches[1], or name what it is meant for",)
    assert told(unfit(own, patches=[TYPO], before=FLUXS)) == [(ADVICE, sentence)]  # it is no worse than it was
    assert unfit(own, patches=[{"target": ON_SOURCE, "patch": MORE}]) == []


def test_a_patch_that_a_release_makes_dead_is_certain_and_says_what_is_there() -> None:
    (found,) = unfit(LISTED, RENAMED, before=FLUXS, patches=[{"target": ON_SOURCE, "patch": NOTE}])
    assert told([found]) == [
        (
            CERTAIN,
            (
                "the patch of Deployment source-controller in `sync.kustomization` matched Deployment "
                "flux-system/source-controller, and matches nothing of the new components"
            ),
        )
    ]
    assert found.remedies[0].endswith(
        "there is Deployment flux-system/fetch-controller and Deployment flux-system/helm-controller"
    )
    assert not found.final


def test_an_image_that_a_release_takes_from_elsewhere_is_certain() -> None:
    dead, left = unfit({"kustomization.yaml": {**LIST, "images": [EDGE]}}, MOVED, before=FLUXS, images=BOTH)
    assert told([dead, left]) == [
        (
            CERTAIN,
            (
                "the image ghcr.io/fluxcd/helm-controller in `sync.kustomization` matched Deployment "
                "flux-system/helm-controller, and matches nothing of the new components"
            ),
        ),
        (
            POSSIBLE,
            (
                "`images` in `sync.kustomization` renames 1 of 2 controllers, and leaves helm-controller at "
                "registry.fluxcd.example"
            ),
        ),
    ]
    assert dead.remedies[0].startswith("sync.kustomization: name what it is meant for, or remove images[1]")


def test_controllers_that_the_images_leave_out_are_told_with_their_registry() -> None:
    sentence = "`images` in `sync.kustomization` renames 1 of 2 controllers, and leaves helm-controller at ghcr.io"
    assert told(unfit(LISTED, images=[EDGE])) == [(POSSIBLE, sentence)]  # a person looks at the first digest
    assert told(unfit(LISTED, before=FLUXS, images=[EDGE])) == [(ADVICE, sentence)]
    assert unfit(LISTED, images=BOTH) == []
    assert unfit(LISTED, images=[{"name": f"{FLUX}/{HELM}", "newTag": "v2"}]) == []


def test_a_build_that_fails_is_told_in_the_words_of_kustomize() -> None:
    patches = [{"target": ON_SOURCE, "patch": "- {op: remove, path: /spec/none}"}]
    (found,) = unfit(LISTED, before=RENAMED, patches=patches)
    assert found.certainty is CERTAIN
    assert found.sentence.startswith(
        "no cluster can build the artifact with the patches and images of `sync.kustomization`: "
    )
    assert "/spec/none" in found.sentence
    (same,) = unfit(LISTED, before=FLUXS, patches=patches)
    assert same.sentence == f"{found.sentence}; it is broken already"
    assert same.fingerprint == found.fingerprint
    (first,) = unfit(LISTED, patches=patches)
    assert first == found


def test_a_patch_without_target_that_names_no_object_fails_the_build() -> None:
    value = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "typo"}}
    (found,) = unfit(LISTED, patches=[{"patch": json.dumps(value)}])
    assert (found.certainty, "no matches for Id" in found.sentence) == (CERTAIN, True)


def test_an_overlay_that_cannot_be_built_alone_is_told_elsewhere() -> None:
    broken = overlay(patches=[{"target": ON_SOURCE, "patch": "- {op: remove, path: /spec/none}"}])
    assert unfit(broken, patches=[TYPO]) == []
    assert unfit({"kustomization.yaml": "resources: ["}, patches=[TYPO]) == []


def test_a_folder_that_could_not_be_built_before_is_not_compared() -> None:
    patches = [{"target": ON_SOURCE, "patch": "- {op: remove, path: /metadata/labels/more}"}]
    with_more = FLUXS.replace("component: source}", "component: source, more: x}")
    assert unfit(LISTED, with_more, before=FLUXS, patches=patches) == []


def test_without_patches_and_images_nothing_is_built_and_without_kustomize_it_is_said() -> None:
    assert unfit(LISTED, interval="10m") == []
    (found,) = unfit_in_cluster(None, tree(LISTED), {"path": "./", "images": [EDGE]}, None)
    sentence = "the patches and images of `sync.kustomization` are not checked: there is no kustomize"
    assert told([found]) == [(Certainty.UNCHECKED, sentence)]


def test_what_is_too_much_work_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci_automation.impact.overlay.kustomization.MAX_STEPS", 1)
    (found,) = unfit(LISTED, images=[EDGE])
    assert found.sentence.endswith("are not checked: to follow them takes too many steps")


def test_the_check_of_the_overlay_has_them_too() -> None:
    before, after = (Applied(it, overlay=tree(LISTED).without(PATH), path=PATH) for it in (FLUXS, RENAMED))
    spec = {"path": "./", "patches": [{"target": ON_SOURCE, "patch": NOTE}]}
    found = CHECK.look(before, after, Known(kustomize=Recorded(), kustomization=spec)).hazards
    own = [it.certainty for it in found if "`sync.kustomization`" in it.sentence]
    assert own == [CERTAIN]
    assert CHECK.look(None, after, Known(kustomize=Recorded(), kustomization={"path": "./"})).hazards == ()


FIRST, SECOND = ({"target": ON_SOURCE, "patch": NOTE.replace("yes", value)} for value in ("one", "two"))


def unlike(own: Mapping[str, object], other: Mapping[str, object], **spec: Any) -> list[str] | None:
    """Return the objects that differ, as people read them."""
    found = unlike_in_cluster(tree(own), tree(other), spec, Recorded())
    return None if found is None else list(map(str, found))


def test_a_patch_of_the_cluster_replaces_one_of_the_artifact() -> None:
    own, other = overlay(patches=[SECOND]), overlay(patches=[FIRST])
    assert unlike(own, other, patches=[SECOND]) == []
    assert unlike(own, other) == ["Deployment flux-system/source-controller"]
    assert unlike(own, LISTED, images=[EDGE], patches=[SECOND]) == ["Deployment flux-system/source-controller"]


def test_objects_that_only_one_has_differ() -> None:
    own = {"kustomization.yaml": {"resources": [PATH, "map.yaml"]}, "map.yaml": MAP}
    assert unlike(own, LISTED) == unlike(LISTED, own) == ["ConfigMap flux-system/settings"]


def test_what_cannot_be_built_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unlike({"kustomization.yaml": {"resources": ["none.yaml"]}}, LISTED) is None
    assert unlike(LISTED, LISTED, namePrefix="a-") is None
    assert unlike(LISTED, LISTED, patches=[{"patch": json.dumps({**TYPO, "kind": "x"})}]) is None
    monkeypatch.setattr("ci_automation.impact.overlay.kustomization.MAX_STEPS", 1)
    assert unlike(LISTED, LISTED) is None
