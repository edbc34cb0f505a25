"""`bootstrap` takes an empty cluster to one that follows its channel, verified; then a patch arrives on its own."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tests.real import program
from tests.real.peers import peer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.cluster import Cluster, Object
    from tests.real.registries import RealRegistry

SOON = 120
FIRST, PATCH = "v2.9.0", "v2.9.3"
CONTROLLERS = ("source-controller", "kustomize-controller", "helm-controller", "notification-controller")
KUSTOMIZATION = """\
resources:
- flux-system/gotk-components.yaml
- encrypted.yaml
patches:
- target: {kind: Deployment, name: source-controller}
  patch: |
    - {op: add, path: /metadata/labels/acme, value: patched}
"""
ENCRYPTED = "apiVersion: v1\nkind: Secret\nmetadata: {name: left-to-flux, namespace: flux-system}\nsops: {mac: x}\n"
NOBODY = "https://127.0.0.1:9"


def is_there(found: Object) -> bool:
    return bool(found["metadata"])


def run_controllers(cluster: Cluster) -> None:
    """Do what nodes do: run the controllers once their Deployments are there, and say that they are available."""
    for name in CONTROLLERS:
        found = cluster.wait_for("deployment", name, is_there, SOON)
        counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
        status = json.dumps({"status": {"observedGeneration": found["metadata"]["generation"], **counts}})
        how = ("--namespace=flux-system", "--subresource=status", "--type=merge", "--patch", status)
        cluster.kubectl("patch", "deployment", name, *how)
    cluster.start_controllers()


def generations(cluster: Cluster) -> dict[str, tuple[str, int]]:
    """Return uid and generation of each Deployment: a change or a new one has others."""
    found = (cluster.get("deployment", name) or {"metadata": {}} for name in CONTROLLERS)
    return {it["metadata"]["name"]: (it["metadata"]["uid"], it["metadata"]["generation"]) for it in found}


def test_an_empty_cluster_follows_its_channel_and_takes_the_next_patch_on_its_own(
    *,
    cluster: Cluster,
    distribution_registry: RealRegistry,
    repository: str,
    flux_releases: Path,
    tmp_path: Path,
) -> None:
    pair = program.elliptic_key(tmp_path / "key")
    channel = program.channel(distribution_registry.host, repository)
    overlay, kubeconfig = tmp_path / "overlay", cluster.folder / "kubeconfig"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(KUSTOMIZATION)
    (overlay / "encrypted.yaml").write_text(ENCRYPTED)
    path = os.pathsep.join(str(peer(name).parent) for name in ("kubectl", "kustomize"))
    config = program.configuration(tmp_path / "config.yaml", channel, flux_releases, range=f"<={PATCH}")
    written = json.loads(config.read_text())
    specs: dict[str, Any] = {"source": {"interval": "2s"}, "kustomization": {"interval": "2s", "retryInterval": "2s"}}
    written["artifacts"][0] |= {
        "sync": {**specs, "labels": {"team": "platform"}},
        "verify": {"publicKey": str(pair.public)},
    }
    config.write_text(json.dumps(written))
    begin = ("--flux-version", FIRST, "--overlay", overlay, "--releases", flux_releases, *pair.signing)
    digest = program.succeed("init", channel, *begin)["digest"]

    def bootstrap(*more: object, kubeconfig: Path = kubeconfig, path: str = path) -> program.Done:
        arguments = (
            "bootstrap",
            "production",
            "--config",
            config,
            "--kubeconfig",
            kubeconfig,
            "--output",
            "json",
            *more,
        )
        return program.flux_manifests(*arguments, PATH=path)

    # What stops before anything is applied.
    stranger = program.elliptic_key(tmp_path / "stranger")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(kubeconfig.read_text().replace(cluster_address(kubeconfig), NOBODY))
    stops = {
        "foreign-signature": bootstrap("--public-key", stranger.public),
        "cluster-unreachable": bootstrap(kubeconfig=elsewhere),
        "no-kubeconfig": bootstrap(kubeconfig=tmp_path / "nowhere"),
        "no-kubectl": bootstrap(path=str(peer("kustomize").parent)),
    }
    assert {name: (it.code, it.json["error"]["code"]) for name, it in stops.items()} == {
        "foreign-signature": (10, "foreign-signature"),
        "cluster-unreachable": (23, "cluster-unreachable"),
        "no-kubeconfig": (2, "no-kubeconfig"),
        "no-kubectl": (2, "no-kubectl"),
    }
    assert cluster.get("namespace", "flux-system", "default") is None

    # From nothing to a cluster that follows.
    with ThreadPoolExecutor(1) as beside:
        going = beside.submit(bootstrap)
        run_controllers(cluster)
        done = going.result()
    assert done.code == 0, done.errors
    assert done.json["revision"] == f"production@{digest}"
    assert done.json["digest"] == digest
    source = cluster.get("ocirepository", "flux-manifests")
    assert source is not None
    assert (source["spec"]["verify"]["provider"], source["metadata"]["labels"]["team"]) == ("cosign", "platform")
    assert (cluster.get("deployment", "source-controller") or {})["metadata"]["labels"]["acme"] == "patched"

    # Again, and by the commands that are printed for people without the program: nothing changes.
    before = generations(cluster)
    assert bootstrap().json["revision"] == f"production@{digest}"
    files = tmp_path / "files"
    order = program.succeed("bootstrap-manifests", "production", files, "--config", config, PATH=path)
    assert not [each for each in files.iterdir() if "left-to-flux" in each.read_text()]  # Flux alone can decrypt it
    for step in order["steps"]:
        for command in step["commands"]:
            cluster.shell(command)
    assert generations(cluster) == before

    # A patch arrives on its own.
    said = program.succeed("update", "production", "--config", config, *pair.signing)
    assert [step["to"] for step in said["published"]] == [PATCH]
    cluster.wait_until_applied(said["digest"], SOON, "flux-manifests")
    deployment = cluster.get("deployment", "source-controller") or {}
    assert deployment["metadata"]["labels"]["app.kubernetes.io/version"] == PATCH

    # A cluster that Git applies is left alone.
    labels = ("label", "deployment", "source-controller", "--namespace=flux-system", "--overwrite")
    cluster.kubectl(
        "patch",
        "kustomization",
        "flux-manifests",
        "--namespace=flux-system",
        "--type=merge",
        '-p={"spec":{"suspend":true}}',
    )
    cluster.kubectl(*labels, "kustomize.toolkit.fluxcd.io/name=flux-system")
    refused = bootstrap()
    assert (refused.code, refused.json["error"]["code"]) == (11, "applied-by-others")


def cluster_address(kubeconfig: Path) -> str:
    """Return the address of the API server."""
    address: str = json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    return address
