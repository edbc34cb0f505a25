"""A real control plane with Flux's own controllers follows a signed channel, and nothing else."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.real import program
from tests.real.cluster import condition
from tests.real.pipeline import KeyPair, push, tag
from tests.real.processes import NotInTime, ProgramFailed

if TYPE_CHECKING:
    from tests.real.cluster import Cluster
    from tests.real.registries import RealRegistry

SOON = 60
FLUX = "v2.9.4"
GUIDE = Path(__file__).parents[2] / "docs/guides/from-a-script.md"


def config_map(folder: Path, text: str) -> Path:
    """Write a folder with one ConfigMap that says `text`, and return the folder."""
    folder.mkdir()
    (folder / "map.yaml").write_text(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: said, namespace: default}}\ndata: {{text: {text}}}\n"
    )
    return folder


@pytest.fixture(scope="module")
def flux_cluster(cluster: Cluster, golden: Path) -> Cluster:
    """Return the cluster with a real release's components applied and the controllers running."""
    cluster.apply(gzip.decompress((golden / "text" / FLUX / "default.yaml.gz").read_bytes()).decode())
    cluster.start_controllers()
    return cluster


def test_the_control_plane_answers(cluster: Cluster) -> None:
    assert cluster.kubectl("get", "--raw", "/readyz") == "ok"
    assert "v1.34.2" in cluster.kubectl("version")
    cluster.kubectl("create", "configmap", "one", "--namespace=default")
    assert cluster.get("configmap", "one", "default") is not None
    assert cluster.get("configmap", "two", "default") is None


def test_kubectl_s_no_is_an_error_with_its_words(cluster: Cluster) -> None:
    with pytest.raises(ProgramFailed, match='"nowhere" not found'):
        cluster.kubectl("get", "namespace", "nowhere")


def test_a_wait_in_vain_ends_and_shows_the_status(cluster: Cluster) -> None:
    with pytest.raises(NotInTime, match=r'(?s)namespace flux-system/default did not come to be .*"phase": "Active"'):
        cluster.wait_for("namespace", "default", lambda _: False, timeout=0.5)


def test_a_cluster_follows_a_signed_channel_and_stays_where_it_is_when_the_next_is_unsigned(
    flux_cluster: Cluster, distribution_registry: RealRegistry, repository: str, cosign_key: KeyPair, tmp_path: Path
) -> None:
    home = f"{distribution_registry.host}/{repository}"

    def said() -> str:
        return str((flux_cluster.get("configmap", "said", "default") or {})["data"]["text"])

    first = push(f"{home}:first", config_map(tmp_path / "first", "first"), "v2.9.3@sha1:1111111")
    cosign_key.sign(f"{home}@{first}")
    tag(f"{home}@{first}", "production")
    flux_cluster.follow(f"oci://{home}", "production", cosign_key.public.read_text())
    flux_cluster.wait_until_applied(first, SOON)
    assert flux_cluster.applied() == (f"production@{first}", "v2.9.3@sha1:1111111")
    assert said() == "first"

    second = push(f"{home}:second", config_map(tmp_path / "second", "second"), "v2.9.4@sha1:2222222")
    tag(f"{home}@{second}", "production")
    assert second in flux_cluster.wait_until_refused("no matching signatures were found", SOON)
    assert flux_cluster.applied() == (f"production@{first}", "v2.9.3@sha1:1111111")
    assert said() == "first"

    cosign_key.sign(f"{home}@{second}")
    flux_cluster.wait_until_applied(second, SOON)
    assert flux_cluster.applied() == (f"production@{second}", "v2.9.4@sha1:2222222")
    assert said() == "second"
    assert flux_cluster.refusal() == ""


def of_the_list(folder: Path, channel: str, name: str) -> list[str]:
    """Return the commands that `setup` lists for clusters that follow a channel, for the object of that name."""
    place = ("--repository", "acme/fleet", "--branch", "main", "--action", "acme/ci-automation", "--signing", "key")
    done = program.flux_manifests("setup", channel, *place, folder=folder)
    assert done.code == 0, done.errors
    followed = done.output.partition("Clusters that follow a channel now, and do not verify it\n")[2]
    commands = re.findall(r"^    (.*)$", followed.partition("\nClusters\n")[0], re.MULTILINE)
    return [it.replace("NAMESPACE", "flux-system").replace(" NAME ", f" {name} ") for it in commands]


@pytest.mark.parametrize("by", ["guide", "list"])
def test_a_cluster_that_followed_an_unsigned_tag_verifies_it_by_the_commands(
    flux_cluster: Cluster,
    distribution_registry: RealRegistry,
    repository: str,
    cosign_key: KeyPair,
    tmp_path: Path,
    by: str,
) -> None:
    address, name = f"{distribution_registry.host}/{repository}", f"script-{by}"
    digest = push(f"{address}:production", config_map(tmp_path / "first", "by a script"), "v2.9.3@sha1:1111111")
    flux_cluster.follow(f"oci://{address}", "production", None, name=name)
    flux_cluster.wait_until_applied(digest, SOON, name)
    cosign_key.sign(f"{address}@{digest}")

    (tmp_path / "cosign.pub").write_bytes(cosign_key.public.read_bytes())
    shown = re.findall(r"^.*kubectl (?:(?!\\\n).|\\\n)*$", GUIDE.read_text(), re.MULTILINE)
    *verify, remove = (it.replace("ocirepository flux-system ", f"ocirepository {name} ") for it in shown)
    if by == "list":
        verify = of_the_list(tmp_path, f"oci://{address}:production", name)
    assert len(verify) == 3  # the Secret, the patch, and the wait
    for command in verify:
        flux_cluster.paste(command, tmp_path)
    flux_cluster.wait_until_applied(digest, SOON, name)
    assert condition(flux_cluster.get("ocirepository", name) or {}, "SourceVerified")[0] == "True"

    again = push(f"{address}:production", config_map(tmp_path / "second", "again"), "v2.9.4@sha1:2222222")
    assert again in flux_cluster.wait_until_refused("no matching signatures were found", SOON, name)
    flux_cluster.shell(remove)
    flux_cluster.wait_until_applied(again, SOON, name)


def test_a_cluster_with_another_key_takes_nothing(
    flux_cluster: Cluster, distribution_registry: RealRegistry, repository: str, cosign_key: KeyPair, tmp_path: Path
) -> None:
    home = f"{distribution_registry.host}/{repository}"
    digest = push(f"{home}:production", config_map(tmp_path / "manifests", "planted"))
    KeyPair.make(tmp_path / "another").sign(f"{home}@{digest}")
    flux_cluster.follow(f"oci://{home}", "production", cosign_key.public.read_text(), name="wary")
    assert digest in flux_cluster.wait_until_refused("no matching signatures were found", SOON, "wary")
    assert flux_cluster.applied("wary") == ("", "")
