"""Flux alone, in the folders of an artifact with other files."""

from __future__ import annotations

import pytest

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.impact.assess import compare_with_flux_alone, flux_alone
from ci_automation.impact.check import Applied, Known
from ci_automation.impact.overlay import kustomization
from ci_automation.impact.overlay.folders import applied_folders
from ci_automation.impact.overlay.kustomization import Effort
from tests.unit.impact.overlay.trees import COMPONENTS, PATH
from tests.unit.impact.sample import DEPLOYMENT

OWN = b"resources: [flux-system/gotk-components.yaml, extra.yaml]\n"


def artifact(**files: bytes) -> Tree:
    return Tree(tuple(TreeFile(path, content) for path, content in {PATH: COMPONENTS.encode(), **files}.items()))


@pytest.mark.parametrize(
    ("files", "listed"),
    [
        pytest.param({}, {}, id="no other file"),
        pytest.param({"kustomization.yaml": OWN, "extra.yaml": b""}, {"kustomization.yaml": PATH}, id="the root"),
        pytest.param(
            {"flux-system/kustomization.yml": b"resources: [gotk-components.yaml]\n"},
            {},
            id="a folder that clusters gather from the root",
        ),
        pytest.param(
            {"clusters/a/kustomization.yaml": b"resources: [../../flux-system/gotk-components.yaml]\n"},
            {"clusters/a/kustomization.yaml": f"../../{PATH}"},
            id="a folder for each cluster",
        ),
    ],
)
def test_clusters_get_the_components_by_the_same_folders(files: dict[str, bytes], listed: dict[str, str]) -> None:
    tree = artifact(**files)
    alone = flux_alone(tree, PATH)
    assert {it.path: it.content.decode().splitlines()[-1] for it in alone.files} == {
        path: f"  - {to}" for path, to in listed.items()
    }
    before, after = (
        {each.folder for each in applied_folders(it, PATH, Effort())}
        for it in (tree, alone.replaced(PATH, COMPONENTS.encode()))
    )
    assert before == after


def test_what_is_too_much_to_follow_has_no_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kustomization, "MAX_STEPS", 10)
    assert flux_alone(artifact(**{"kustomization.yaml": OWN}), PATH) == Tree(())


def test_what_is_beside_flux_is_a_change() -> None:
    planted = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: planted, namespace: default}\n"
    files = (TreeFile("kustomization.yaml", OWN), TreeFile("extra.yaml", planted))
    found = compare_with_flux_alone(DEPLOYMENT, Applied(DEPLOYMENT, None, Tree(files), PATH), Known())
    assert [str(change.object) for change in found] == ["ConfigMap default/planted"]
    assert compare_with_flux_alone(DEPLOYMENT, Applied(DEPLOYMENT, None, Tree(()), PATH), Known()) == ()
