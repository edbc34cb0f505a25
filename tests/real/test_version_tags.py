"""Real clusters with `ref.semver` follow the version tags, through ranges and filters, and back with a rollback."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

from tests.real import program
from tests.real.cluster import AT_WORK, NAMESPACE, START, condition, manifest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.cluster import Cluster
    from tests.real.registries import RealRegistry

SOON = 60
FIRST, SECOND, THIRD = "v2.9.0", "v2.9.3", "v2.9.4"
PLAIN = r"^v[0-9]+\.[0-9]+\.[0-9]+$"
REFS: dict[str, dict[str, str]] = {
    "minor": {"semver": "2.9.x"},
    "any": {"semver": "*"},
    "from": {"semver": ">=2.0.0"},
    "prereleases": {"semver": ">=2.0.0-0"},
    "filtered": {"semver": ">=2.0.0-0", "semverFilter": PLAIN},
    "exact": {"semver": "2.9.4 || 2.9.3"},
    "below": {"semver": "<2.9.3"},
}


def follow(cluster: Cluster, url: str, public_key: str) -> None:
    """Let the cluster follow a repository by each of the ranges, verified with a key."""
    secret = manifest("v1", "Secret", {"name": "cosign", "namespace": NAMESPACE}, stringData={"cosign.pub": public_key})
    sources = [
        manifest(
            "source.toolkit.fluxcd.io/v1",
            "OCIRepository",
            {"name": name, "namespace": NAMESPACE},
            spec={
                "url": url,
                "ref": ref,
                "interval": "2s",
                "insecure": True,
                "verify": {"provider": "cosign", "secretRef": {"name": "cosign"}},
            },
        )
        for name, ref in REFS.items()
    ]
    cluster.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": [secret, *sources]}))


def expect(cluster: Cluster, wanted: dict[str, str]) -> None:
    """Wait until each source has the tag and digest that are wanted, and is ready."""

    def there(found: dict[str, Any]) -> bool:
        revision = found.get("status", {}).get("artifact", {}).get("revision", "")
        return condition(found)[0] == "True" and revision == wanted[found["metadata"]["name"]]

    for name in wanted:
        cluster.wait_for("ocirepository", name, there, SOON)


def test_ranges_find_what_the_channel_has(
    *,
    cluster: Cluster,
    distribution_registry: RealRegistry,
    repository: str,
    flux_releases: Path,
    golden: Path,
    tmp_path: Path,
) -> None:
    cluster.apply(gzip.decompress((golden / "text" / THIRD / "default.yaml.gz").read_bytes()).decode())
    cluster.start_source_controller().wait_for_line(AT_WORK, START)
    pair = program.elliptic_key(tmp_path / "key")
    channel = program.channel(distribution_registry.host, repository)

    def configuration(to: str) -> Path:
        config = program.configuration(tmp_path / "config.yaml", channel, flux_releases, range=f"<={to}")
        file = json.loads(config.read_text())
        file["artifacts"][0]["versionTags"] = True
        config.write_text(json.dumps(file))
        return config

    def run(command: str, to: str, *more: str) -> dict[str, Any]:
        return program.succeed(command, "production", *more, "--config", configuration(to), *pair.signing)

    first = run("init", FIRST, "--flux-version", FIRST)["digest"]
    second = run("update", SECOND)["digest"]
    follow(cluster, str(channel.repository), pair.public.read_text())
    newest = dict.fromkeys(REFS, f"{SECOND}@{second}")
    expect(cluster, newest | {"below": f"{FIRST}@{first}"})

    third = run("update", THIRD)["digest"]
    newest = dict.fromkeys(REFS, f"{THIRD}@{third}")
    expect(cluster, newest | {"below": f"{FIRST}@{first}"})

    # The tag of the release on hold stays, and leads to what the channel went back to: no range finds anything else.
    run("rollback", THIRD, "--to", SECOND, "--reason", "webhooks time out", "--yes")
    back = dict.fromkeys(REFS, f"{THIRD}@{second}")
    expect(cluster, back | {"below": f"{FIRST}@{first}"})
    assert run("update", THIRD)["digest"] == second
    for tag in (THIRD, SECOND, FIRST):
        program.succeed("verify", channel.at_tag(tag), "--public-key", pair.public)

    run("rollback", THIRD, "--to", FIRST, "--yes")
    back = dict.fromkeys(REFS, f"{THIRD}@{first}")
    expect(cluster, back | {"below": f"{FIRST}@{first}"})
