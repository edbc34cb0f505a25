# ruff: noqa: E501 - the tables have a row a line
"""Changes of what clusters get: what an overlay's rules do to objects is told by class, with the file that causes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.impact.assess import assess
from ci_automation.impact.change import Certainty, ChangeClass, Severity
from ci_automation.impact.check import Applied, Known
from ci_automation.impact.overlay.builder import BuildFailed
from tests.unit.impact.overlay.trees import CHANGED, COMPONENTS, MAP, PATH, Builder, check, failing, overlay, tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.impact.overlay.preflight import Preflight

ANY = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
CONTAINER = "/spec/template/spec/containers/0"
ROLE = {"kind": "ClusterRole", "name": "crd-controller"}
SOURCE = {"kind": "Deployment", "name": "source-controller"}
MERGED = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "helm-controller", "namespace": "flux-system"},
}


def add(path: str, value: object) -> str:
    """Return a JSON patch."""
    return json.dumps([{"op": "add", "path": path, "value": value}])


def patched(target: Mapping[str, str], content: str, **fields: Any) -> dict[str, object]:
    """Return an overlay with a patch in a file."""
    patches = [{"target": target, "path": "patches/own.yaml"}]
    return {**overlay(patches=patches, **fields), "patches/own.yaml": content}


def limited(value: str) -> dict[str, object]:
    return patched(SOURCE, add(f"{CONTAINER}/resources", {"limits": {"memory": value}}))


def labeled(team: str) -> dict[str, object]:
    return overlay(labels=[{"pairs": {"team": team}}])


def generated(value: str) -> dict[str, object]:
    files = [
        {"name": "own", "namespace": "flux-system", "files": ["a.txt"], "options": {"disableNameSuffixHash": True}}
    ]
    return {**overlay(configMapGenerator=files), "a.txt": value}


INLINE = [{"target": {"kind": "Deployment", "name": "sorce-controller"}, "patch": add("/spec/replicas", 2)}]
LISTING = overlay()
BARE = "---\n".join(part for part in COMPONENTS.split("---\n") if "CustomResource" not in part)  # it is not complete
RBAC, SECURITY, RESOURCES = ChangeClass.RBAC, ChangeClass.SECURITY_CONTEXT, ChangeClass.RESOURCES
OWN = {**overlay(resources=[PATH, "own.yaml"], namePrefix="a-"), "own.yaml": MAP}


def told(found: Preflight) -> list[tuple[str, str]]:
    return [(change.belongs_to, change.sentence) for change in found.changes]


@pytest.mark.parametrize(
    ("old", "new", "belongs_to", "ends"),
    [
        pytest.param(LISTING, patched(ROLE, add("/rules/-", ANY)), RBAC, "by kustomization.yaml and patches/own.yaml", id="a patch grants everything"),
        pytest.param(LISTING, overlay(patches=[{"target": ROLE, "patch": add("/rules/-", ANY)}]), RBAC, "by kustomization.yaml", id="a patch within"),
        pytest.param(limited("1Gi"), limited("2Gi"), RESOURCES, "by patches/own.yaml", id="a limit is raised"),
        pytest.param(LISTING, patched(SOURCE, add(f"{CONTAINER}/securityContext", {"privileged": True})), SECURITY, "by kustomization.yaml and patches/own.yaml", id="privileged"),
        pytest.param(LISTING, {**overlay(patches=[{"path": "p.yaml"}]), "p.yaml": MERGED | {"spec": {"replicas": 2}}}, ChangeClass.OTHER, "by p.yaml", id="a patch without a target"),
        pytest.param(labeled("a"), labeled("b"), ChangeClass.METADATA, "by kustomization.yaml", id="a label of all objects"),
        pytest.param({**labeled("a"), "x.txt": "a"}, {**labeled("b"), "x.txt": "b"}, ChangeClass.METADATA, "on 5 objects", id="two files, of which either may be the cause"),
        pytest.param(generated("a"), generated("b"), ChangeClass.OTHER, "by a.txt", id="a file in a ConfigMap"),
        pytest.param(OWN, {**OWN, "own.yaml": MAP + "data: {a: b}\n"}, ChangeClass.OTHER, "by own.yaml", id="a renamed object"),
    ],
)  # fmt: skip
def test_what_rules_change_has_its_class_and_its_file(
    old: Mapping[str, object], new: Mapping[str, object], belongs_to: ChangeClass, ends: str
) -> None:
    found = check(old, COMPONENTS, then=new)
    assert [(kind, sentence.endswith(ends)) for kind, sentence in told(found)] == [(belongs_to, True)], told(found)


def test_what_a_new_release_changes_is_told_by_the_components_alone() -> None:
    assert check(limited("1Gi")).changes == ()


def test_content_of_files_is_not_shown() -> None:
    (change,) = check(generated("secret-a"), COMPONENTS, then=generated("secret-b")).changes
    assert "secret" not in repr(change)


@pytest.mark.parametrize("broken", ["old", "new"])
def test_nothing_is_told_of_what_is_not_built(broken: str) -> None:
    found = check(limited("1Gi"), CHANGED, failing(**{broken: "no"}), then=limited("2Gi"))
    assert found.changes == ()


def test_without_kustomize_the_files_tell_and_it_says_so() -> None:
    before, after = (Applied(BARE, None, tree(files).without(PATH), PATH) for files in (LISTING, limited("1Gi")))
    impact = assess(before, after, Known())
    assert {change.belongs_to for change in impact.changes} == {ChangeClass.OVERLAY}
    (hazard,) = impact.hazards
    assert hazard.certainty is Certainty.UNCHECKED
    assert hazard.sentence.endswith("there is no kustomize; what its rules change is not told, only which files differ")


def test_a_change_that_files_show_is_told_once() -> None:
    new = overlay(resources=[PATH, "own.yaml"], labels=[{"pairs": {"a": "b"}}])
    before, after = (
        Applied(BARE, None, tree(files).without(PATH), PATH) for files in (LISTING, {**new, "own.yaml": MAP})
    )
    found = assess(before, after, Known(kustomize=Builder())).changes
    assert sum("ConfigMap flux-system/settings is new" in change.sentence for change in found) == 2
    assert len({change.fingerprint for change in found}) == len(found)


def test_a_new_patch_that_matches_nothing_is_possible_and_an_old_one_is_advice() -> None:
    mistyped = patched({"kind": "Deployment", "name": "sorce-controller"}, add("/spec/replicas", 2))
    apart = {**LISTING, "a/kustomization.yaml": {"resources": ["../flux-system/gotk-components.yaml"]}}
    moved = {"b/kustomization.yaml": {"resources": ["../flux-system/gotk-components.yaml"], "patches": INLINE}}
    for old, new in ((LISTING, mistyped), (limited("1Gi"), mistyped), (apart, {**apart, **moved})):
        (hazard,) = check(old, COMPONENTS, then=new).hazards
        assert hazard.certainty is Certainty.POSSIBLE
        assert hazard.sentence == "the patch of Deployment sorce-controller is new, and matches nothing"
    (hazard,) = check(mistyped).hazards
    assert hazard.certainty is Certainty.ADVICE


def test_of_a_folder_that_could_not_be_built_nobody_knows_which_rules_are_new() -> None:
    mistyped = patched({"kind": "Deployment", "name": "sorce-controller"}, add("/spec/replicas", 2))
    broken = Builder({COMPONENTS.encode(): BuildFailed("no")})
    (hazard,) = check(limited("1Gi"), CHANGED, broken, then=mistyped).hazards
    assert hazard.certainty is Certainty.ADVICE


def test_an_object_that_no_folder_lists_any_more_is_a_warning_at_least() -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "own", "namespace": "flux-system"}}
    old = {**overlay(resources=[PATH, "own.yaml"]), "own.yaml": account}
    found = check(old, COMPONENTS, then={**overlay(resources=[PATH]), "own.yaml": account})
    assert [(str(it), it.name) for it in found.pruned] == [("ServiceAccount flux-system/own", "own")]
    assert [(str(it.object), it.severity) for it in found.changes] == [(str(found.pruned[0]), Severity.WARNING)]
