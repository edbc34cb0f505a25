"""What the preflight says of an overlay is what a real cluster makes of it, with the real kustomize-controller."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.tree import COMPONENTS_PATH
from ci_automation.impact.change import Certainty
from ci_automation.impact.overlay.preflight import preflight
from tests.real.overlays import components, grave, kustomize, told, tree
from tests.real.pipeline import push, tag

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.artifact.tree import Tree
    from tests.real.cluster import Cluster
    from tests.real.registries import RealRegistry

SOON = 90
ROLE = "crd-controller-flux-system"
EXTRA = "externalartifacts.source.toolkit.fluxcd.io"
CRD = f"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {EXTRA}}}\n"
SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: flux-system}\ndata: {level: debug}\n"


def patched(*patches: dict[str, Any], **more: Any) -> dict[str, object]:
    """Return the files of an overlay with patches."""
    return {"kustomization.yaml": {"resources": [COMPONENTS_PATH, "settings.yaml"], "patches": patches} | more} | {
        "settings.yaml": SETTINGS
    }


def rules(number: int) -> dict[str, Any]:
    """Return a patch of a rule by its number."""
    change = [{"op": "replace", "path": f"/rules/{number}/verbs", "value": ["create", "patch"]}]
    return {"target": {"kind": "ClusterRole", "name": ROLE}, "patch": json.dumps(change)}


REPLICAS = {
    "patch": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: source-controller, namespace: flux-system}\n"
    "spec: {replicas: 2}"
}
# Beside what the preflight passes, each kind of thing that it says is broken: which fails on Flux 2.6, not on 2.9.
BROKEN: dict[str, tuple[dict[str, object], str]] = {
    "a patch without a target": (patched({"patch": CRD + "spec: {preserveUnknownFields: false}"}), EXTRA),
    "a patch of a path": (patched(rules(12)), "/rules/12/verbs"),
    "replicas": (patched(replicas=[{"name": "source-watcher", "count": 1}]), "source-watcher"),
    "a replacement's source": (
        patched(
            replacements=[
                {
                    "source": {"kind": "CustomResourceDefinition", "name": EXTRA},
                    "targets": [{"select": {"name": "settings"}, "fieldPaths": ["data.level"]}],
                }
            ]
        ),
        EXTRA,
    ),
}


@pytest.fixture(scope="module")
def flux_cluster(cluster: Cluster, golden: Path) -> Cluster:
    """Return the cluster as `flux install` of the first release leaves it, with the controllers running."""
    cluster.apply(components(golden, "v2.6.4").decode())
    cluster.start_controllers()
    return cluster


def written(files: Tree, folder: Path) -> Path:
    """Return a folder with the files."""
    for file in files.files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
    return folder


def verbs(cluster: Cluster, resource: str) -> list[str]:
    """Return what the role of Flux's controllers may do with a kind of object."""
    role = cluster.get("clusterrole", ROLE)
    assert role is not None
    (found,) = (rule["verbs"] for rule in role["rules"] if resource in rule.get("resources", []))
    return sorted(found)


def test_a_cluster_makes_of_an_overlay_what_the_preflight_says(
    flux_cluster: Cluster, distribution_registry: RealRegistry, repository: str, golden: Path, tmp_path: Path
) -> None:
    home = f"{distribution_registry.host}/{repository}"

    def publish(files: Tree, name: str) -> str:
        digest = push(f"{home}:{name}", written(files, tmp_path / name))
        tag(f"{home}@{digest}", "production")
        return digest

    def says(old: Tree, new: Tree) -> Any:
        return preflight(old, new, COMPONENTS_PATH, kustomize())

    begun = tree(golden, "v2.6.4", patched(rules(10), REPLICAS))
    publish_first = publish(begun, "first")
    flux_cluster.follow(f"oci://{home}", "production", None)
    flux_cluster.wait_until_applied(publish_first, SOON)
    leases = verbs(flux_cluster, "leases")
    assert verbs(flux_cluster, "serviceaccounts/token") == ["create", "patch"]
    assert leases != ["create", "patch"]

    # A number that means something else: the cluster takes it, and gives what was meant for tokens to leases.
    moved = tree(golden, "v2.7.0", patched(rules(10), REPLICAS))
    (hazard,) = grave(says(begun, moved))
    assert hazard.certainty is Certainty.CERTAIN
    assert "/rules/10" in hazard.sentence
    assert '"leases"' in hazard.sentence
    flux_cluster.wait_until_applied(publish(moved, "moved"), SOON)
    assert verbs(flux_cluster, "leases") == ["create", "patch"]
    assert verbs(flux_cluster, "serviceaccounts/token") == ["create"]

    # What the remedy says is applied, and so is the next release: the preflight lets both pass.
    assert hazard.remedies[0].endswith("change the number 10 in /rules/10 to 11")
    mended = tree(golden, "v2.7.0", patched(rules(11), REPLICAS))
    newest = tree(golden, "v2.9.4", patched(rules(11), REPLICAS))
    assert grave(says(moved, mended)) == grave(says(mended, newest)) == []
    flux_cluster.wait_until_applied(publish(mended, "mended"), SOON)
    assert (verbs(flux_cluster, "leases"), verbs(flux_cluster, "serviceaccounts/token")) == (
        leases,
        ["create", "patch"],
    )
    digest = publish(newest, "newest")
    flux_cluster.wait_until_applied(digest, SOON)
    deployment = flux_cluster.get("deployment", "source-controller")
    assert deployment is not None
    assert (deployment["spec"]["replicas"], deployment["metadata"]["labels"]["app.kubernetes.io/version"]) == (
        2,
        "v2.9.4",
    )

    for number, (name, (files, names)) in enumerate(BROKEN.items()):
        old, new = tree(golden, "v2.9.4", files), tree(golden, "v2.6.4", files)
        if name != "replicas":
            assert told(says(old, old)) == [], name
        sentence = " | ".join(told(says(old, new)))
        assert names in sentence, name
        publish(new, f"broken-{number}")
        assert names in flux_cluster.wait_until_refused(names, SOON), name
        assert flux_cluster.applied()[0] == f"production@{digest}"
