"""A real cluster follows a channel that we keep: verified by cosign's rules, applied, and told where it came from."""

from __future__ import annotations

import gzip
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.artifact.reference import Digest
from tests.real import program
from tests.real.pipeline import tag

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.cluster import Cluster
    from tests.real.registries import RealRegistry

SOON = 90
FIRST, SECOND, THIRD = "v2.9.0", "v2.9.3", "v2.9.4"
KUSTOMIZATION = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- flux-system/gotk-components.yaml
- about.yaml
patches:
- target: {kind: Deployment, name: source-controller}
  patch: |
    - op: add
      path: /metadata/annotations
      value: {acme.example/patched: "yes"}
"""
ABOUT = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: about, namespace: flux-system}
data: {text: %s}
"""


@pytest.fixture(scope="module")
def flux_cluster(cluster: Cluster, golden: Path) -> Cluster:
    """Return the cluster as `flux install` of the first release leaves it, with the controllers running."""
    text = gzip.decompress((golden / "text" / FIRST / "default.yaml.gz").read_bytes()).decode()
    cluster.apply(text)
    cluster.start_controllers()
    return cluster


def overlay(folder: Path, text: str) -> Path:
    """Return a folder with a team's own files: a patch of the components, and an object beside them."""
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(KUSTOMIZATION)
    (folder / "about.yaml").write_text(ABOUT % text)
    return folder


def images(text: str) -> dict[str, str]:
    """Return the images of the controllers in a release's components."""
    lines = (line.partition("image: ")[2].strip() for line in text.splitlines())
    return {line.rpartition("/")[2].partition(":")[0]: line for line in lines if line}


def test_a_cluster_follows_three_updates_of_ours(
    *,
    flux_cluster: Cluster,
    distribution_registry: RealRegistry,
    repository: str,
    flux_releases: Path,
    golden: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pair = program.elliptic_key(tmp_path / "key")
    channel = program.channel(distribution_registry.host, repository)
    home = str(channel.repository)
    commits = {found["name"]: found["commit"]["sha"] for found in json.loads((flux_releases / "tags.json").read_text())}
    seconds: dict[str, float] = {}

    def update(to: str, *more: object) -> dict[str, Any]:
        config = program.configuration(tmp_path / "config.yaml", channel, flux_releases, range=f"<={to}")
        return program.succeed("update", "production", "--config", config, *pair.signing, *more)

    def expect(version: str, digest: str, text: str) -> None:
        started = time.monotonic()
        flux_cluster.wait_until_applied(digest, SOON)
        seconds[f"{version} {text}"] = time.monotonic() - started
        assert flux_cluster.applied() == (f"production@{digest}", f"{version}@sha1:{commits[version]}")
        components = gzip.decompress((golden / "text" / version / "default.yaml.gz").read_bytes()).decode()
        for name, image in images(components).items():
            deployment = flux_cluster.get("deployment", name)
            assert deployment is not None
            assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == image
            assert deployment["metadata"]["labels"]["app.kubernetes.io/version"] == version
            patched = deployment["metadata"].get("annotations", {}).get("acme.example/patched")
            assert patched == ("yes" if name == "source-controller" else None)
        assert (flux_cluster.get("configmap", "about") or {})["data"] == {"text": text}

    begin = ("--flux-version", FIRST, "--overlay", overlay(tmp_path / "first", "one"), "--releases", flux_releases)
    base = program.succeed("init", channel, *begin, *pair.signing)["digest"]
    flux_cluster.follow(home, "production", pair.public.read_text())
    expect(FIRST, base, "one")

    for version in (SECOND, THIRD):
        said = update(version)
        assert [(step["to"], step["base"]) for step in said["published"]] == [(version, base)]
        base = said["digest"]
        expect(version, base, "one")

    # A change of the overlay takes an approval of its digest, and then reaches the cluster like all else.
    folder = overlay(tmp_path / "second", "two")
    waits = update(THIRD, "--overlay", folder)
    assert (waits["changed"], [step["decision"] for step in waits["waiting"]]) == (False, ["approval"])
    plan = tmp_path / "plan.json"
    common = ("--releases", flux_releases, "--overlay", folder)
    program.succeed("plan", channel, "--out", plan, "--public-key", pair.public, *common)
    (step,) = json.loads(plan.read_text())["steps"]
    base = program.succeed("apply", plan, "--approve", step["target"], *common, *pair.signing)["digest"]
    assert base == step["target"] == waits["waiting"][0]["target"]
    expect(THIRD, base, "two")

    # Whoever can write to the registry, and lacks the key, moves the channel and no cluster.
    ports = program.ports(channel, flux_releases, None)
    older = ports.registry.manifest(channel.at_digest(Digest.parse(base)))
    planted = program.planted(ports.registry, channel, older)
    tag(f"{home.removeprefix('oci://')}@{planted}", "production")
    assert str(planted) in flux_cluster.wait_until_refused("no matching signatures were found", SOON)
    assert flux_cluster.applied()[0] == f"production@{base}"

    with capsys.disabled():
        print("\nseconds from our publication to the cluster's word that it is applied")
        for what, passed in seconds.items():
            print(f"  {passed:6.1f}  {what}")
