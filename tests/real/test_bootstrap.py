"""`bootstrap` takes an empty cluster to one that follows its channel, verified; then a patch arrives on its own."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

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


@dataclass(frozen=True, slots=True)
class Scene:
    """A signed channel with an overlay, its configuration, and a cluster without Flux."""

    cluster: Cluster
    pair: program.Pair
    config: Path
    digest: str

    def run(self, command: str, *more: object, path: str = "") -> program.Done:
        """Run a command on the channel."""
        arguments = (command, "production", *more, "--config", self.config, "--output", "json")
        programs = os.pathsep.join(str(peer(name).parent) for name in ("kubectl", "kustomize"))
        home = str(self.config.parent)  # kubectl keeps a cache there
        return program.flux_manifests(*arguments, PATH=path or programs, HOME=home)

    def bootstrap(self, *more: object, kubeconfig: Path | None = None, path: str = "") -> program.Done:
        """Run `bootstrap` for the cluster."""
        return self.run("bootstrap", "--kubeconfig", kubeconfig or self.kubeconfig, *more, path=path)

    @property
    def kubeconfig(self) -> Path:
        """The cluster's kubeconfig."""
        return self.cluster.folder / "kubeconfig"


@pytest.fixture(scope="module")
def scene(
    cluster: Cluster,
    distribution_registry: RealRegistry,
    flux_releases: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Scene:
    """Return the scene, with the first release published."""
    folder = tmp_path_factory.mktemp("scene")
    pair = program.elliptic_key(folder / "key")
    channel = program.channel(distribution_registry.host, "tests/bootstrap")
    overlay = folder / "overlay"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(KUSTOMIZATION)
    (overlay / "encrypted.yaml").write_text(ENCRYPTED)
    config = program.configuration(folder / "config.yaml", channel, flux_releases, range=f"<={PATCH}")
    written = json.loads(config.read_text())
    sync: dict[str, Any] = {
        "labels": {"team": "platform"},
        "source": {"interval": "2s", "secretRef": {"name": "pull"}},
        "kustomization": {"interval": "2s", "retryInterval": "2s"},
    }
    written["artifacts"][0] |= {"sync": sync, "verify": {"publicKey": str(pair.public)}}
    config.write_text(json.dumps(written))
    begin = ("--flux-version", FIRST, "--overlay", overlay, "--releases", flux_releases, *pair.signing)
    return Scene(cluster, pair, config, program.succeed("init", channel, *begin)["digest"])


def test_what_cannot_be_trusted_or_reached_stops_before_anything_is_applied(scene: Scene, tmp_path: Path) -> None:
    stranger = program.elliptic_key(tmp_path / "stranger")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(scene.kubeconfig.read_text().replace(cluster_address(scene.kubeconfig), NOBODY))
    stops = {
        "foreign-signature": scene.bootstrap("--public-key", stranger.public),
        "cluster-unreachable": scene.bootstrap(kubeconfig=elsewhere),
        "no-kubeconfig": scene.bootstrap(kubeconfig=tmp_path / "nowhere"),
        "no-kubectl": scene.bootstrap(path=str(peer("kustomize").parent)),
    }
    assert {name: (it.code, it.json["error"]["code"]) for name, it in stops.items()} == {
        "foreign-signature": (10, "foreign-signature"),
        "cluster-unreachable": (23, "cluster-unreachable"),
        "no-kubeconfig": (2, "no-kubeconfig"),
        "no-kubectl": (2, "no-kubectl"),
    }
    assert scene.cluster.get("namespace", "flux-system", "default") is None


def test_an_empty_cluster_follows_its_channel_and_takes_the_next_patch_on_its_own(scene: Scene, tmp_path: Path) -> None:
    cluster = scene.cluster
    # A Secret that the objects name can be made once the namespace is there; the command is printed.
    missing = scene.bootstrap()
    assert (missing.code, missing.json["error"]["code"]) == (23, "secrets-missing")
    cluster.shell(missing.json["error"]["hint"].partition(": ")[2])
    assert cluster.get("deployment", "source-controller") is None

    # From nothing to a cluster that follows.
    with ThreadPoolExecutor(1) as beside:
        going = beside.submit(scene.bootstrap)
        run_controllers(cluster)
        done = going.result()
    assert done.code == 0, done.errors
    assert done.json["revision"] == f"production@{scene.digest}"
    assert done.json["digest"] == scene.digest
    source = cluster.get("ocirepository", "flux-manifests")
    assert source is not None
    assert (source["spec"]["verify"]["provider"], source["metadata"]["labels"]["team"]) == ("cosign", "platform")
    assert (cluster.get("deployment", "source-controller") or {})["metadata"]["labels"]["acme"] == "patched"

    # Again, and by the commands that are printed for people without the program: nothing changes.
    before = generations(cluster)
    assert scene.bootstrap().json["revision"] == f"production@{scene.digest}"
    files = tmp_path / "files"
    order = scene.run("bootstrap-manifests", files).json
    assert not [each for each in files.iterdir() if "left-to-flux" in each.read_text()]  # Flux alone can decrypt it
    for step in order["steps"]:
        for command in step["commands"]:
            cluster.shell(command)
    assert generations(cluster) == before

    # A patch arrives on its own.
    said = scene.run("update", *scene.pair.signing).json
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
    refused = scene.bootstrap()
    assert (refused.code, refused.json["error"]["code"]) == (11, "applied-by-others")


def cluster_address(kubeconfig: Path) -> str:
    """Return the address of the API server."""
    address: str = json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    return address


def test_settings_of_a_cluster_that_miss_the_controllers_are_warned_of(
    distribution_registry: RealRegistry, flux_releases: Path, tmp_path: Path
) -> None:
    pair = program.elliptic_key(tmp_path / "key")
    channel = program.channel(distribution_registry.host, "tests/edge")
    config = program.configuration(tmp_path / "config.yaml", channel, flux_releases, range=f"<={PATCH}")
    written = json.loads(config.read_text())
    new = {"name": "ghcr.io/fluxcd/source-controller", "newName": "registry.edge.example/fluxcd/source-controller"}
    typo = {"target": {"kind": "Deployment", "name": "kustomise-controller"}, "patch": "- {op: remove, path: /spec}"}
    sync = {"kustomization": {"images": [new], "patches": [typo]}}
    written["artifacts"][0] |= {"sync": sync, "verify": {"publicKey": str(pair.public)}}
    config.write_text(json.dumps(written))
    program.succeed("init", channel, "--flux-version", FIRST, "--releases", flux_releases, *pair.signing)
    path = str(peer("kustomize").parent)
    for command in (("sync-manifests", "production"), ("bootstrap-manifests", "production", tmp_path / "first")):
        done = program.flux_manifests(*command, "--config", config, PATH=path, HOME=str(tmp_path))
        assert done.code == 0, done.errors
        assert done.errors.splitlines() == [
            "warning: the patch of Deployment kustomise-controller in `sync.kustomization` matches nothing",
            (
                "warning: `images` in `sync.kustomization` renames 1 of 4 controllers, and leaves helm-controller, "
                "kustomize-controller and notification-controller at ghcr.io"
            ),
        ]
    assert "image: registry.edge.example/fluxcd/" in (tmp_path / "first/2-controllers.yaml").read_text()
    plan = program.flux_manifests("plan", "production", "--config", config, PATH=path, HOME=str(tmp_path))
    assert plan.code == 0, plan.errors
    said = " ".join(plan.output.split())
    assert "the patch of Deployment kustomise-controller in `sync.kustomization` matches nothing" in said
    assert "`images` in `sync.kustomization` renames 1 of 4 controllers" in said
