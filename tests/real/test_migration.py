"""A cluster that `flux bootstrap` set up from Git moves to an artifact, and no object of Flux is deleted on the way."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from ci_automation.impact.overlay.bootstrapped import edits_as_patches
from ci_automation.report.cluster_objects import secret_yaml
from tests.real import program
from tests.real.cluster import condition, manifest
from tests.real.git_server import Checkout, served
from tests.real.peers import peer
from tests.real.processes import ProgramFailed, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.real.cluster import Cluster, Object
    from tests.real.program import Pair
    from tests.real.registries import RealRegistry

TUTORIAL = (Path(__file__).parents[2] / "docs/tutorials/from-bootstrap.md").read_text()
SOON = 120
VERSION, PATCH = "v2.9.0", "v2.9.4"
FOLDER = "clusters/production/flux-system"
KINDS = "namespace,crd,deployment,service,serviceaccount,clusterrole,clusterrolebinding,networkpolicy,resourcequota"
KUSTOMIZATION = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- gotk-components.yaml
- gotk-sync.yaml
patches:
- target: {kind: Deployment, name: source-controller}
  patch: |
    - {op: add, path: /metadata/labels/acme, value: patched}
"""
ONLY_SYNC = "resources: [gotk-sync.yaml]\n"  # as `setup` says
APP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app, namespace: flux-system}\n"


def sync_objects(url: str, *, prune: bool) -> str:
    """Return gotk-sync.yaml."""
    metadata = {"name": "flux-system", "namespace": "flux-system"}
    git = {"interval": "2s", "url": url, "ref": {"branch": "main"}}
    applied = {
        "interval": "2s",
        "path": "./clusters/production",
        "prune": prune,
        "sourceRef": {"kind": "GitRepository", "name": "flux-system"},
    }
    objects = (
        manifest("source.toolkit.fluxcd.io/v1", "GitRepository", metadata, spec=git),
        manifest("kustomize.toolkit.fluxcd.io/v1", "Kustomization", metadata, spec=applied),
    )
    return yaml.safe_dump_all(objects)


def of_flux(cluster: Cluster) -> dict[tuple[str, str], str]:
    """Return the uid of each object of Flux; one that was deleted and made again has another."""
    selected = ("get", KINDS, "--all-namespaces", "--selector=app.kubernetes.io/part-of=flux", "--output=json")
    items: list[Object] = json.loads(cluster.kubectl(*selected))["items"]
    assert [it["metadata"]["name"] for it in items if "deletionTimestamp" in it["metadata"]] == []
    return {(it["kind"], it["metadata"]["name"]): it["metadata"]["uid"] for it in items}


def belongs_to_artifact(deployment: Object) -> bool:
    """Return whether the artifact's Kustomization applied a Deployment, with the overlay's patch."""
    labels = deployment["metadata"]["labels"]
    return (labels["acme"], labels["kustomize.toolkit.fluxcd.io/name"]) == ("patched", "flux-manifests")


def wait_for_patch(cluster: Cluster, digest: str) -> None:
    """Wait until the artifact is applied, and check that the cluster has its version."""
    cluster.wait_until_applied(digest, SOON, "flux-manifests")
    assert version_of(cluster) == PATCH


def version_of(cluster: Cluster) -> str:
    """Return the version of Flux in the labels of the namespace, which Git's folder has too."""
    found = cluster.get("namespace", "flux-system")
    assert found
    return str(found["metadata"]["labels"]["app.kubernetes.io/version"])


def wait_for_commit(cluster: Cluster, commit: str) -> Object:
    """Return Git's Kustomization once it has applied a commit."""

    def applied(found: Object) -> bool:
        revision = str(found.get("status", {}).get("lastAppliedRevision", ""))
        return condition(found)[0] == "True" and revision.endswith(commit)

    return cluster.wait_for("kustomization", "flux-system", applied, SOON)


@pytest.fixture(scope="module")
def flux_cluster(cluster: Cluster, golden: Path) -> Cluster:
    """Return the cluster with the definitions of a release and its controllers at work, for all tests."""
    cluster.apply(components_of(golden))
    cluster.start_controllers()
    return cluster


def components_of(golden: Path) -> str:
    """Return gotk-components.yaml."""
    return gzip.decompress((golden / "text" / VERSION / "default.yaml.gz").read_bytes()).decode()


def bootstrapped(cluster: Cluster, checkout: Checkout, url: str, golden: Path) -> dict[tuple[str, str], str]:
    """Let Git apply Flux and an application, as `flux bootstrap` leaves it, and return the objects of Flux."""
    components = components_of(golden)
    files = {"gotk-components.yaml": components, "kustomization.yaml": KUSTOMIZATION}
    files["gotk-sync.yaml"] = sync_objects(url, prune=True)
    commit = checkout.commit(
        {f"{FOLDER}/{name}": text for name, text in files.items()} | {"clusters/production/app.yaml": APP}
    )
    cluster.apply(components)  # the test before left a later version
    cluster.apply(files["gotk-sync.yaml"])
    wait_for_commit(cluster, commit)
    found = of_flux(cluster)
    assert len(found) > 20
    return found


def copy_cluster(cluster: Cluster, checkout: Checkout, names: Iterable[str]) -> None:
    """Give Git and kubectl clusters with these names, whose steps are the same as those of the one that is there."""
    for name in names:
        shutil.copytree(checkout.folder / "clusters/production", checkout.folder / "clusters" / name)
        sync = checkout.folder / "clusters" / name / "flux-system/gotk-sync.yaml"
        sync.write_text(sync.read_text().replace("clusters/production", f"clusters/{name}"))
        cluster.kubectl("config", "set-context", name, "--cluster=real", "--user=admin")


def leave(cluster: Cluster) -> None:
    """Delete what applies Flux, and nothing of Flux: the next test has the same cluster."""
    for name in ("flux-manifests", "flux-system"):
        cluster.flux("--namespace=flux-system", "suspend", "kustomization", name)
    of_artifact = ("kustomization/flux-manifests", "ocirepository/flux-manifests", "kustomization/flux-system")
    cluster.kubectl("delete", "--namespace=flux-system", *of_artifact)


def published_from_folder(channel: object, checkout: Checkout, releases: Path, pair: Pair) -> str:
    """Publish by `init --from`, and return the objects that it prints."""
    arguments = ("init", channel, "--from", FOLDER, "--releases", releases, *pair.signing)
    refused = program.flux_manifests(*arguments, folder=checkout.folder)
    assert (refused.code, "Git applies this unsigned" in refused.errors) == (11, True)
    done = program.flux_manifests(*arguments, "--still-in-git", folder=checkout.folder)
    assert done.code == 0, done.errors
    assert ("gotk-sync.yaml" in done.errors, "gotk-sync.yaml" in done.output) == (True, False)
    return done.output


def published_after_setup(
    channel: object, checkout: Checkout, releases: Path, pair: Pair, promoted: Sequence[str] = ()
) -> str:
    """Let `setup` take the folder over, publish as its workflow does, and return the objects that it wrote."""
    place = ("--repository", "acme/fleet", "--branch", "main", "--action", "acme/ci-automation")
    done = program.flux_manifests("setup", channel, *promoted, *place, "--signing", "key", folder=checkout.folder)
    assert done.code == 0, done.errors
    assert f"to {VERSION}. A reviewer approves. Without one, in a terminal: `flux-manifests init prod" in done.output
    artifact, *_ = yaml.safe_load((checkout.folder / ".github/flux-manifests.yaml").read_text())["artifacts"]
    own = ("--overlay", checkout.folder / artifact["overlay"], "--components-file", artifact["componentsFile"])
    program.succeed("init", channel, "--flux-version", VERSION, *own, "--releases", releases, *pair.signing)
    return (checkout.folder / f"flux-manifests/{artifact['name']}/sync.yaml").read_text()


def test_the_patch_that_is_printed_for_a_hand_edit_makes_that_edit(golden: Path, tmp_path: Path) -> None:
    rendered = components_of(golden)
    edited = (
        rendered.replace("replicas: 1", "replicas: 2", 1)
        .replace("- --log-level=info", "- --log-level=info\n        - --feature-gates=A=true", 1)
        .replace("        fsGroup: 1337\n", "", 1)
        .replace("memory: 64Mi", "memory: 128Mi")
    )
    patch = edits_as_patches(rendered, edited)
    (tmp_path / "gotk-components.yaml").write_text(rendered)
    (tmp_path / "kustomization.yaml").write_text(f"resources: [gotk-components.yaml]\n{patch}\n")
    built = yaml.safe_load_all(run([peer("kustomize"), "build", tmp_path]))
    by_name = {(it["kind"], it["metadata"]["name"]): it for it in built}
    assert by_name == {(it["kind"], it["metadata"]["name"]): it for it in yaml.safe_load_all(edited)}
    assert patch.count("- target:") == 4


def test_an_overlay_in_git_builds_in_the_own_ci_of_a_team_as_the_guide_says(
    flux_releases: Path, tmp_path: Path
) -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/overlay-from-git.md").read_text()
    (commands,) = re.findall(r"^```sh\n(flux-manifests pull production .*?)^```", guide, re.MULTILINE | re.DOTALL)
    pair, own = program.elliptic_key(tmp_path / "key"), tmp_path / FOLDER
    first = ("setup", "oci://ghcr.io/acme/flux-manifests:production", "--repository", "acme/fleet", "--signing", "key")
    made = program.flux_manifests(*first, "--action", "acme/ci-automation", folder=tmp_path)
    assert made.code == 0, made.errors
    with pytest.raises(ProgramFailed, match="flux-system/gotk-components"):
        run([peer("kustomize"), "build", own])
    trusted = f"verify: {{publicKey: {pair.public}}}, signing: {{mode: key, key: {pair.private}}}"
    listed = f"artifacts: [{{name: production, url: 'layout:r:production', {trusted}}}]"
    (tmp_path / ".github/flux-manifests.yaml").write_text(f"version: 1\n{listed}\n")
    begun = ("init", "production", "--flux-version", VERSION, "--overlay", own, "--releases", flux_releases)
    done = program.flux_manifests(*begun, folder=tmp_path)
    assert done.code == 0, done.errors
    (own / "kustomization.yaml").write_text((own / "kustomization.yaml").read_text() + "namePrefix: changed-\n")
    shown = commands.replace("flux-manifests", shlex.join(program.command()))
    built = subprocess.check_output(["sh", "-ec", shown], cwd=tmp_path, env=program.environment(), text=True)
    assert "name: changed-source-controller\n" in built


@pytest.mark.parametrize("promoted", [(), ("other",)], ids=["one channel", "several channels"])
def test_the_commands_of_the_list_move_a_cluster_and_those_of_the_tutorial_give_it_back(
    *,
    promoted: tuple[str, ...],
    flux_cluster: Cluster,
    distribution_registry: RealRegistry,
    repository: str,
    flux_releases: Path,
    golden: Path,
    tmp_path: Path,
) -> None:
    cluster = flux_cluster
    checkout, pair = Checkout(tmp_path / "fleet"), program.elliptic_key(tmp_path / "key")
    channel = program.channel(distribution_registry.host, repository)
    (checkout.folder / "cosign.pub").write_text(pair.key.public.to_pem())
    checkout.git("remote", "add", "origin", ".")

    def paste(step: str) -> None:
        """Run the commands below a step of the list."""
        page = (checkout.folder / ".github/flux-manifests.todo.md").read_text()
        (commands,) = re.findall(
            rf"^- \[ \] \d+\. {re.escape(step)}.*\n  ```sh\n((?:  .*\n)*?)  ```$", page, re.MULTILINE
        )
        commands = commands.partition(" &&\n  git add .github")[0]  # there is no GitHub
        cluster.paste(f"CHANNEL=production\n{commands}", checkout.folder)  # as the first step of a section sets it

    move = "Do this section for production, then with CHANNEL=other here." if promoted else "Move production."

    def is_suspended() -> bool:
        return bool((cluster.get("kustomization", "flux-system") or {})["spec"].get("suspend"))

    with served(checkout) as url:
        before = bootstrapped(cluster, checkout, url, golden)
        copy_cluster(cluster, checkout, promoted)
        published_after_setup(channel, checkout, flux_releases, pair, promoted)
        digest = str(program.succeed("update", channel, "--releases", flux_releases, *pair.signing)["digest"])
        cluster.kubectl("config", "rename-context", "real", "production")
        try:
            paste("Where kubectl and flux know")
            paste("In each cluster, make the Secret")
            paste("Careful: set `prune: false`")
            checkout.commit({})
            paste(move)
            wait_for_patch(cluster, digest)
            assert (of_flux(cluster), is_suspended()) == (before, True)

            (back,) = re.findall(r"^To give a cluster back.*\n\n```sh\n(.*?)^```", TUTORIAL, re.MULTILINE | re.DOTALL)
            cluster.paste(back.replace("staging", "production"), checkout.folder)
            assert (of_flux(cluster), version_of(cluster)) == (before, VERSION)
            assert cluster.get("kustomization", "flux-manifests") is None

            paste(move)
            wait_for_patch(cluster, digest)
            paste("In Git, delete Flux")
            with pytest.raises(ProgramFailed):
                paste("Let Git apply the rest")
            assert is_suspended()  # main has Flux still
            checkout.commit({})
            paste("Let Git apply the rest")
            left = cluster.get("kustomization", "flux-system") or {}
            held = [it["id"] for it in left["status"]["inventory"]["entries"]]
            assert any("_app_" in each for each in held)
            assert not any("Deployment" in each for each in held)
            paste("Careful: only after the step before")
            wait_for_commit(cluster, checkout.commit({}))
            assert (of_flux(cluster), version_of(cluster)) == (before, PATCH)
        finally:
            cluster.kubectl("config", "rename-context", "production", "real")
            leave(cluster)


@pytest.mark.parametrize("publish", [published_from_folder, published_after_setup])
def test_a_cluster_moves_from_git_to_the_artifact_and_nothing_of_flux_is_deleted(
    *,
    flux_cluster: Cluster,
    distribution_registry: RealRegistry,
    repository: str,
    flux_releases: Path,
    golden: Path,
    tmp_path: Path,
    publish: Callable[[object, Checkout, Path, Pair], str],
) -> None:
    cluster = flux_cluster
    checkout, pair = Checkout(tmp_path / "fleet"), program.elliptic_key(tmp_path / "key")
    channel = program.channel(distribution_registry.host, repository)
    with served(checkout) as url:
        before = bootstrapped(cluster, checkout, url, golden)
        objects = publish(channel, checkout, flux_releases, pair)
        hourly = ("update", channel, "--releases", flux_releases, *pair.signing)
        digest = str(program.succeed(*hourly)["digest"])

        # The steps that it prints, one after the other.
        commit = checkout.commit({f"{FOLDER}/gotk-sync.yaml": sync_objects(url, prune=False)})
        wait_for_commit(cluster, commit)
        assert version_of(cluster) == VERSION
        cluster.flux("--namespace=flux-system", "suspend", "kustomization", "flux-system")
        cluster.apply(secret_yaml("flux-manifests-keys", "flux-system", [pair.key.public.to_pem()]))
        cluster.apply(objects)
        wait_for_patch(cluster, digest)
        assert of_flux(cluster) == before
        commit = checkout.commit({f"{FOLDER}/gotk-components.yaml": None, f"{FOLDER}/kustomization.yaml": ONLY_SYNC})
        cluster.wait_for("gitrepository", "flux-system", lambda it: commit in str(it.get("status")), SOON)
        cluster.flux("--namespace=flux-system", "resume", "kustomization", "flux-system")
        left = wait_for_commit(cluster, commit)
        held = [it["id"] for it in left["status"]["inventory"]["entries"]]
        assert any("_app_" in each for each in held)
        assert not any("Deployment" in each or "CustomResourceDefinition" in each for each in held)
        assert of_flux(cluster) == before
        commit = checkout.commit({f"{FOLDER}/gotk-sync.yaml": sync_objects(url, prune=True)})
        wait_for_commit(cluster, commit)
        assert of_flux(cluster) == before

        # From now on the artifact alone decides: Git prunes its own, and the patch of the overlay stays.
        commit = checkout.commit(
            {"clusters/production/app.yaml": None, "clusters/production/b.yaml": APP.replace("app", "b")}
        )
        wait_for_commit(cluster, commit)
        assert cluster.get("configmap", "app") is None
        assert of_flux(cluster) == before
        now = ("kustomization", "flux-manifests", "--overwrite", f"reconcile.fluxcd.io/requestedAt={commit}")
        cluster.kubectl("annotate", "--namespace=flux-system", *now)
        cluster.wait_for("deployment", "source-controller", belongs_to_artifact, SOON)
        assert (of_flux(cluster), version_of(cluster)) == (before, PATCH)

        leave(cluster)
