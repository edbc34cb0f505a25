"""A folder as clusters build it, with the patches and images of their own Kustomization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.impact.objects import read_objects
from ci_automation.impact.overlay.folders import applied_folder
from ci_automation.impact.overlay.in_cluster import as_applied, unfit_in_cluster
from ci_automation.impact.overlay.kustomization import Effort
from tests.unit.impact.overlay.trees import COMPONENTS, LIST, Recorded, overlay, tree

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def unfit(files: Mapping[str, object], components: str = FLUXS, **spec: Any) -> list[str]:
    """Return what does not fit."""
    folder = applied_folder(tree(files, components), ".", Effort())
    return list(unfit_in_cluster(folder, spec, Recorded(), Effort()))


def test_a_patch_of_the_cluster_that_matches_nothing_is_told_and_no_other() -> None:
    own = overlay(patches=[TYPO, {"target": ON_SOURCE, "patch": NOTE}])  # `plan` tells of those in the artifact
    assert unfit(own, patches=[{"target": ON_SOURCE, "patch": MORE}, TYPO]) == [
        "the patch of Deployment kustomise-controller matches nothing"
    ]
    assert unfit(own, patches=[{"target": ON_SOURCE, "patch": MORE}]) == []


def test_controllers_that_the_images_leave_out_are_told_with_their_registry() -> None:
    assert unfit(LISTED, images=[EDGE]) == ["images renames 1 of 2 controllers, and leaves helm-controller at ghcr.io"]
    both = [EDGE, {"name": f"{FLUX}/{HELM}", "newName": "registry.edge.example:5000/helm"}]
    assert unfit(LISTED, images=both) == []
    assert unfit(LISTED, images=[{"name": f"{FLUX}/{HELM}", "newTag": "v2"}]) == []


def test_a_build_that_fails_is_told_in_the_words_of_kustomize() -> None:
    (said,) = unfit(LISTED, patches=[{"target": ON_SOURCE, "patch": "- {op: remove, path: /spec/none}"}])
    assert said.startswith("no cluster can build the artifact with its patches and images: ")
    assert "/spec/none" in said


def test_without_patches_and_images_nothing_is_built_and_without_kustomize_it_is_said() -> None:
    assert unfit(LISTED, interval="10m") == []
    folder = applied_folder(tree(LISTED), ".", Effort())
    (said,) = unfit_in_cluster(folder, {"images": [EDGE]}, None, Effort())
    assert said == "its patches and images are not checked: there is no kustomize"
