"""The settings of docs/guides/one-cluster-differs.md, built with real kustomize as kustomize-controller does."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.config.load import parse_config
from ci_automation.flows.programs.kustomize import Confined
from ci_automation.impact.overlay.in_cluster import unlike_in_cluster
from tests.real import program
from tests.real.peers import peer
from tests.real.processes import run

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = (Path(__file__).parents[2] / "docs/guides/one-cluster-differs.md").read_text()
VERSION = "v2.9.4"
MIRROR = ("--registry", "registry.edge.example/fluxcd", "--image-pull-secret", "pull-images")


def section(title: str) -> dict[str, Any]:
    """Return the fields of the Kustomization that a section of the page has below its channel."""
    below = PAGE.partition(f"## {title}\n")[2].partition("```yaml\n")[2]
    block = below.partition("```")[0]
    channel = block if block.startswith("  - ") else f"  - name: edge\n    url: oci://h/r:edge\n{block}"
    value = f"version: 1\nartifacts:\n{channel}  - {{name: production, url: oci://h/r:production}}\n"
    assert parse_config(value.encode(), "page").artifacts
    fields: dict[str, Any] = yaml.safe_load(value)["artifacts"][0]["sync"]["kustomization"]
    return fields


def built(rendered: str, fields: dict[str, Any], folder: Path) -> dict[tuple[str, str], Any]:
    """Return what Flux applies of a rendering, with fields of its Kustomization."""
    (folder / "gotk-components.yaml").write_text(rendered)
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"resources": ["gotk-components.yaml"], **fields}))
    return by_name(yaml.safe_load_all(run([peer("kustomize"), "build", folder])))


def by_name(objects: Iterable[Any]) -> dict[tuple[str, str], Any]:
    return {(it["kind"], it["metadata"]["name"]): it for it in objects}


def test_images_from_another_registry_are_those_of_the_options(
    golden: Path, flux_releases: Path, tmp_path: Path
) -> None:
    rendered = gzip.decompress((golden / "text" / VERSION / "default.yaml.gz").read_bytes()).decode()
    options = program.flux_manifests("render", "--flux-version", VERSION, *MIRROR, "--releases", flux_releases)
    expected = by_name(yaml.safe_load_all(options.output))
    assert expected != by_name(yaml.safe_load_all(rendered))
    assert built(rendered, section("Images from another registry"), tmp_path) == expected


def bootstrapped(rendered: str, memory: str = "") -> Tree:
    """Return a folder of `flux bootstrap`, with a patch of the memory if that is given."""
    limit = [{"op": "replace", "path": "/spec/template/spec/containers/0/resources/limits/memory", "value": memory}]
    patch = {"target": {"kind": "Deployment", "name": "source-controller"}, "patch": yaml.safe_dump(limit)}
    fields = {"resources": ["gotk-components.yaml"], **({"patches": [patch]} if memory else {})}
    files = {"gotk-components.yaml": rendered, "kustomization.yaml": yaml.safe_dump(fields)}
    return Tree(tuple(TreeFile(path, text.encode()) for path, text in files.items()))


def test_setup_sees_that_a_cluster_gets_the_same_objects_by_its_channel(golden: Path, flux_releases: Path) -> None:
    kustomize = Confined(peer("kustomize"))
    rendered = gzip.decompress((golden / "text" / VERSION / "default.yaml.gz").read_bytes()).decode()
    others, own = bootstrapped(rendered, "2Gi"), bootstrapped(rendered, "4Gi")
    assert unlike_in_cluster(own, others, section("A patch"), kustomize) == ()
    assert list(map(str, unlike_in_cluster(own, others, {}, kustomize) or ())) == [
        "Deployment flux-system/source-controller"
    ]
    options = program.flux_manifests("render", "--flux-version", VERSION, *MIRROR, "--releases", flux_releases)
    edge, fields = bootstrapped(options.output), section("Images from another registry")
    assert unlike_in_cluster(edge, bootstrapped(rendered), fields, kustomize) == ()
    less = {**fields, "images": fields["images"][1:]}
    assert list(map(str, unlike_in_cluster(edge, bootstrapped(rendered), less, kustomize) or ())) == [
        "Deployment flux-system/source-controller"
    ]


def test_the_patch_of_one_cluster_fits_the_present_release(golden: Path, tmp_path: Path) -> None:
    rendered = gzip.decompress((golden / "text" / VERSION / "default.yaml.gz").read_bytes()).decode()
    before = by_name(yaml.safe_load_all(rendered))
    after = built(rendered, section("A patch"), tmp_path)
    assert {name for name, it in after.items() if it != before[name]} == {("Deployment", "source-controller")}
    (container,) = after["Deployment", "source-controller"]["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["memory"] == "4Gi"
