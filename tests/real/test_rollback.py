"""Rolling back and pruning in a real registry, with real releases: what is shown, held, verified and deleted."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.reference import Digest
from tests.real import program
from tests.real.peers import peer
from tests.real.pipeline import KeyPair
from tests.real.processes import run

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.artifact.reference import Reference
    from tests.real.registries import RealRegistry

OLD, BETWEEN, NEW, NEXT = "v2.8.8", "v2.9.3", "v2.9.4", "v2.9.5"
LISTS = {"releases.json": "tag_name", "tags.json": "name"}
KUSTOMIZATION = b"""\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- flux-system/gotk-components.yaml
"""


@pytest.fixture
def releases(flux_releases: Path, tmp_path: Path) -> Path:
    """Return a folder with three releases of Flux, to which another can be added."""
    folder, known = tmp_path / "releases", (OLD, BETWEEN, NEW)
    folder.mkdir()
    for version in known:
        shutil.copytree(flux_releases / version, folder / version)
    for name, key in LISTS.items():
        listed = json.loads((flux_releases / name).read_bytes())
        (folder / name).write_text(json.dumps([each for each in listed if each[key] in known]))
    return folder


def come_out(releases: Path, version: str) -> None:
    """Let a release come out that is like the newest one."""
    shutil.copytree(releases / NEW, releases / version)
    new, old = version.removeprefix("v"), NEW.removeprefix("v")
    (releases / version / f"flux_{old}_checksums.txt").rename(releases / version / f"flux_{new}_checksums.txt")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for name, key in LISTS.items():
        listed = json.loads((releases / name).read_bytes())
        newest = next(each for each in listed if each[key] == NEW)
        added = json.loads(json.dumps({**newest, "published_at": now}).replace(old, new))
        (releases / name).write_text(json.dumps([*listed, added]))


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """Return the overlay of a team."""
    folder = tmp_path / "overlay"
    folder.mkdir()
    (folder / "kustomization.yaml").write_bytes(KUSTOMIZATION)
    return folder


@dataclass(frozen=True, slots=True)
class Grown:
    """A channel that went from the old release to the new one: its configuration, and both digests by version."""

    channel: Reference
    config: Path
    digests: dict[str, str]
    plan: Path


@pytest.fixture
def grown(
    distribution_registry: RealRegistry,
    repository: str,
    releases: Path,
    overlay: Path,
    pair: program.Pair,
    tmp_path: Path,
) -> Grown:
    """Return a channel with a past; its configuration takes every release by itself, whatever it changes."""
    channel = program.channel(distribution_registry.host, repository)
    config = program.configuration(tmp_path / "config.yaml", channel, releases)
    own = ("--releases", releases, *pair.signing)
    begun = program.succeed("init", channel, "--flux-version", OLD, "--overlay", overlay, *own)
    plan = tmp_path / "plan.json"
    planned = program.succeed("plan", "production", "--out", plan, "--config", config, "--public-key", pair.public)
    target = planned["plan"]["steps"][-1]["target"]
    done = program.succeed("apply", plan, "--approve", target, "--config", config, *pair.signing)
    assert done["version"] == NEW
    return Grown(channel, config, {OLD: begun["digest"], NEW: done["digest"]}, plan)


def test_a_rollback_over_a_minor(grown: Grown, releases: Path, pair: program.Pair, cosign_key: KeyPair) -> None:
    channel, config, digests = grown.channel, grown.config, grown.digests
    ports = program.ports(channel, releases, pair)

    # It says what breaks, and without a yes it does nothing.
    back = ("rollback", "production", "--to", OLD, "--config", config, "--reason", "webhooks time out", *pair.signing)
    shown = program.flux_manifests(*back, "-v")  # alike changes of several objects share a row without it
    assert (shown.code, shown.error) == (11, "not-confirmed"), shown.errors
    assert f"goes back from {NEW} to {OLD}" in shown.output
    assert "v2.9.4 will be on hold until the channel takes a newer release (webhooks time out)" in shown.output
    said = [
        'accepts less in v1.spec.provider: enum no longer has "aws"',
        "removes field v1.spec.oidcProviders: clusters drop its values",
        "allows more ingress: from all pods of all namespaces on any port",
    ]
    assert [sentence for sentence in said if sentence not in shown.output] == []
    assert str(ports.registry.resolve(channel)) == digests[NEW]

    done = program.succeed(*back, "--yes")
    assert (done["changed"], done["from"]["version"], done["to"]["digest"]) == (True, NEW, digests[OLD])
    assert {change["class"] for change in done["changes"]} >= {"image", "networkPolicy", "crdTightened"}
    assert str(ports.registry.resolve(channel)) == digests[OLD]
    keys = KeyPair(pair.private, pair.public, cosign_key.trusted_root)
    assert len(keys.verify(str(channel.at_digest(Digest.parse(digests[OLD]))).removeprefix("oci://"))) == 1

    # The next scheduled run leaves it alone, whatever the policy takes by itself.
    run = ("update", "production", "--config", config, *pair.signing)
    again = program.succeed(*run)
    assert (again["changed"], again["digest"]) == (False, digests[OLD])
    (waiting,) = again["waiting"]
    assert (waiting["to"], waiting["decision"]) == (NEW, "wait")
    assert "webhooks time out" in waiting["reasons"][0]

    # What was approved before does not count again.
    refused = program.flux_manifests("apply", grown.plan, "--approve", digests[NEW], "--config", config, *pair.signing)
    assert (refused.code, refused.error) == (11, "step-refused"), refused.errors

    # A release after that is offered again.
    come_out(releases, NEXT)
    unproven = "--unsafe-unproven-rendering"
    check = ("check", "production", unproven, "--config", config, "--public-key", pair.public)
    offered = program.succeed(*check)
    assert [step["to"] for step in offered["waiting"]] == [NEXT]
    assert offered["waiting"][0]["decision"] in {"auto", "approval"}
    assert "hold" not in {gate["gate"] for gate in offered["plan"]["steps"][0]["gates"] if gate["verdict"] != "auto"}

    listed = program.flux_manifests("history", channel, "--public-key", pair.public)
    rows = re.findall(r"^(?:@[0-9]+)? +(v[0-9.]+)-[0-9a-f]{12} ", listed.output, re.MULTILINE)
    assert rows == [OLD, OLD, NEW, OLD]  # the rollback, its hold, and both publications
    assert f"{channel.tag} went back to this from {NEW}" in listed.output
    assert "v2.9.4 on hold until a newer release" in listed.output


def test_a_tag_that_crane_moved_back_is_put_back_by_the_printed_command(
    grown: Grown, releases: Path, pair: program.Pair, cosign_key: KeyPair
) -> None:
    channel, digests = grown.channel, grown.digests
    registry = program.ports(channel, releases, pair).registry
    older = str(channel.at_digest(Digest.parse(digests[OLD]))).removeprefix("oci://")
    run([peer("crane"), "tag", older, str(channel.tag)])
    told = program.flux_manifests("update", "production", "--config", grown.config, *pair.signing)
    assert (told.code, told.error) == (10, "channel-moved-back"), told.errors
    (printed,) = re.findall(rf"To put it back at {NEW}: `([^`]*)`", told.errors)
    done = program.succeed(*shlex.split(printed), "--yes")
    assert (done["putsBack"], done["hold"], done["from"]["digest"]) == (True, None, digests[OLD])
    assert str(registry.resolve(channel)) == digests[NEW]
    keys = KeyPair(pair.private, pair.public, cosign_key.trusted_root)
    assert len(keys.verify(str(channel).removeprefix("oci://"))) == 1
    again = program.succeed("update", "production", "--config", grown.config, *pair.signing)
    assert (again["changed"], again["digest"], again["signature"]) == (False, digests[NEW], "verified")


def test_a_channel_whose_tag_was_deleted_is_put_back_by_the_printed_command_of_flux(
    grown: Grown, releases: Path, pair: program.Pair
) -> None:
    channel, digests = grown.channel, grown.digests
    registry = program.ports(channel, releases, pair).registry
    run([peer("crane"), "delete", str(channel).removeprefix("oci://")])
    assert registry.resolve(channel) is None
    assert str(registry.resolve(channel.at_digest(Digest.parse(digests[NEW])))) == digests[NEW]
    told = program.flux_manifests("update", "production", "--config", grown.config, *pair.signing)
    assert (told.code, told.error) == (20, "not-found"), told.errors
    (printed,) = re.findall(r"To put it back: `flux ([^`]*)`", told.errors)
    run([peer("flux"), *shlex.split(printed)])
    again = program.succeed("update", "production", "--config", grown.config, *pair.signing)
    assert (again["changed"], again["digest"], again["signature"]) == (False, digests[NEW], "verified")


def test_old_artifacts_are_deleted_where_the_registry_lets_them(
    grown: Grown, releases: Path, pair: program.Pair, cosign_key: KeyPair
) -> None:
    channel, digests = grown.channel, grown.digests
    ports = program.ports(channel, releases, pair)
    before = ports.registry.tags(channel)
    look = ("prune", channel, "--keep-last", "1", "--public-key", pair.public)
    found = program.succeed(*look)
    assert [each["version"] for each in found["goes"]] == [OLD]
    assert (found["applied"], ports.registry.tags(channel)) == (False, before)

    done = program.succeed(*look, "--apply")
    assert {each["what"] for each in done["deleted"]} == {"artifact", "referrer", "list of referrers", "signature"}
    left = program.ports(channel, releases, pair).registry
    short = digests[NEW].removeprefix("sha256:")
    assert [tag for tag in left.tags(channel) if short[:12] not in tag and short not in tag] == ["production"]
    assert str(left.resolve(channel)) == digests[NEW]
    program.succeed("verify", channel, "--public-key", pair.public)
    keys = KeyPair(pair.private, pair.public, cosign_key.trusted_root)
    assert len(keys.verify(f"{str(channel.repository).removeprefix('oci://')}@{digests[NEW]}")) == 1
    again = program.succeed(*look, "--apply")
    assert (again["goes"], again["leftovers"], again["deleted"]) == ([], [], [])
