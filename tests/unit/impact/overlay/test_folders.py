"""Which folders clusters can apply: with a kustomization, or with the one that kustomize-controller makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.impact.overlay.folders import applied_folder, applied_folders
from ci_automation.impact.overlay.kustomization import Effort
from tests.unit.impact.overlay.trees import LIST, MAP, PATH, tree

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = {"resources": ["gotk-components.yaml"]}
BASE = {"resources": ["../../flux-system"]}
UP = {"resources": ["../gotk-components.yaml"]}
OTHER = {"resources": ["map.yaml"]}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, [". made"], id="nothing else"),
        pytest.param(
            {"kustomization.yaml": {"Resources": LIST["resources"]}}, ["."], id="with a field in another case"
        ),
        pytest.param({"own.yaml": MAP, "readme.md": "#"}, [". made"], id="other objects"),
        pytest.param({"kustomization.yaml": LIST}, ["."], id="a kustomization at the root"),
        pytest.param({"flux-system/kustomization.yaml": HERE}, [". made"], id="a kustomization beside the components"),
        pytest.param(
            {"flux-system/kustomization.yaml": HERE, "apps/kustomization.yaml": OTHER, "apps/map.yaml": MAP},
            [". made"],
            id="and another one",
        ),
        pytest.param(
            {
                "flux-system/kustomization.yaml": HERE,
                "clusters/a/kustomization.yaml": BASE,
                "clusters/b/kustomization.yaml": BASE,
            },
            ["clusters/a", "clusters/b"],
            id="a folder for each cluster",
        ),
        pytest.param(
            {
                "kustomization.yaml": {"resources": ["flux-system"]},
                "flux-system/kustomization.yaml": HERE,
                "clusters/a/kustomization.yaml": BASE,
            },
            [".", "clusters/a"],
            id="the root and a cluster",
        ),
        pytest.param(
            {"kustomization.yaml": OTHER, "map.yaml": MAP, "flux-system/kustomization.yaml": HERE},
            ["flux-system"],
            id="a root without the components",
        ),
        pytest.param(
            {"kustomization.yaml": OTHER, "map.yaml": MAP},
            ["flux-system made"],
            id="a root without them, and no other",
        ),
        pytest.param(
            {"flux-system/kustomization.yaml": OTHER, "flux-system/map.yaml": MAP}, [], id="one that leaves them out"
        ),
        pytest.param(
            {"values.yaml": "a: b"}, ["flux-system made"], id="a root that does not work, for what is no object"
        ),
        pytest.param({"values.yaml": "a: b", "flux-system/bad.yaml": "a: b"}, [". made"], id="nothing that works"),
        pytest.param(
            {"flux-system/kustomization.yaml": HERE | {"patches": [{"path": "gone"}]}, "a.yaml": MAP},
            ["flux-system"],
            id="one that does not work, and is the only one",
        ),
        pytest.param(
            {"flux-system/kustomization.yaml": HERE, "flux-system/deep/kustomization.yaml": UP},
            [". made", "flux-system/deep"],
            id="one below another",
        ),
        pytest.param(
            {"kustomization.yaml": "a: [", "x/kustomization.yaml": "a: ["}, ["flux-system made"], id="no YAML"
        ),
        pytest.param(
            {
                "part/kustomization.yaml": {"kind": "Component", "resources": ["../" + PATH]},
                "kustomization.yaml": {"components": ["part"]},
            },
            ["."],
            id="by a component",
        ),
    ],
)
def test_where_clusters_get_the_components(files: Mapping[str, object], expected: list[str]) -> None:
    found = applied_folders(tree(files), PATH, Effort())
    assert [each.folder + (" made" if each.is_made else "") for each in found] == expected


def test_what_is_reached_in_several_ways_is_reached() -> None:
    files = {
        "kustomization.yaml": {"resources": ["a", "b"]},
        "a/kustomization.yaml": {"resources": ["../flux-system"]},
        "b/kustomization.yaml": {"resources": ["../flux-system"]},
        "flux-system/kustomization.yaml": HERE,
    }
    assert [each.folder for each in applied_folders(tree(files), PATH, Effort())] == ["."]


def test_what_kustomize_controller_makes() -> None:
    files = {
        "a.yml": MAP.replace("settings", "a"),
        "deep/er/b.yaml": MAP.replace("settings", "b"),
        "c.json": "{}",
        "apps/kustomization.yml": {"resources": ["x.yaml"]},
        "apps/x.yaml": MAP.replace("settings", "x"),
        "apps/not.yaml": MAP,
        "apps/more/kustomization.yaml": {"resources": ["y.yaml"]},
        "apps/more/y.yaml": MAP,
    }
    found = applied_folder(tree(files), ".", Effort())
    assert found.tree["kustomization.yaml"].decode().splitlines() == [
        "resources:",
        '- "./a.yml"',
        '- "./apps"',
        '- "./deep/er/b.yaml"',
        '- "./flux-system/gotk-components.yaml"',
    ]
    assert [each.id.name for each in found.gathered.listed][:3] == ["a", "x", "b"]
    assert found.gathered.faults == []


def test_what_it_makes_of_a_folder_below() -> None:
    found = applied_folder(tree({"own.yaml": MAP, "kustomization.yaml": LIST}), "flux-system", Effort())
    assert found.tree["flux-system/kustomization.yaml"] == b'resources:\n- "./gotk-components.yaml"\n'
    assert found.is_made
