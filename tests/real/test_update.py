"""A channel is kept current over all releases that there is data of, and the flux CLI unpacks each as Flux made it."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.flows.files import read_overlay
from ci_automation.flows.init import init
from ci_automation.flows.update import update
from ci_automation.flux.artifact import immutable_tag
from tests.real import program
from tests.real.peers import peer
from tests.real.pipeline import KeyPair
from tests.real.processes import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ci_automation.artifact.reference import Reference
    from tests.real.registries import RealRegistry

COMPONENTS = "flux-system/gotk-components.yaml"
OVERLAY: dict[str, bytes] = {
    "kustomization.yaml": b"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
    b"resources:\n- flux-system/gotk-components.yaml\n",
    "flux-system/kustomization.yaml": b"# no newline at the end, and an odd\r\nline",
    "logo.bin": bytes(range(256)) * 300,
    "empty": b"",
    "docs/\u00dcberblick \u2013 \u6982\u8981.md": "gr\u00fc\u00dfe\n".encode(),
    "hooks/check.sh": b"#!/bin/sh\nexit 0\n",
    "/".join(["a-folder"] * 12) + "/deep.yaml": b"deep: true\n",
    "/".join(["a-folder-with-a-longer-name"] * 12) + "/deeper.yaml": b"deeper: true\n",
}
EXECUTABLE = "hooks/check.sh"


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with whatever people put beside their components."""
    folder = tmp_path_factory.mktemp("overlay")
    for path, content in OVERLAY.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    (folder / EXECUTABLE).chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def cases(golden: Path) -> dict[str, dict[str, Any]]:
    """Return the flags of each option set."""
    return {case["name"]: program.flags(case) for case in json.loads((golden / "cases.json").read_text())}


@pytest.fixture(scope="module")
def hashes(golden: Path) -> dict[str, dict[str, str]]:
    """Return the hashes of what ``flux install --export`` prints, by tag and option set."""
    found: dict[str, dict[str, str]] = json.loads((golden / "golden.json").read_text())
    return found


@pytest.fixture
def pulled(tmp_path: Path) -> Callable[[Reference], dict[str, tuple[bytes, bool]]]:
    """Return the function that lets the flux CLI unpack an artifact, and reads what it left: contents and the x bit."""
    numbers = itertools.count()

    def pull(reference: Reference) -> dict[str, tuple[bytes, bool]]:
        folder = tmp_path / f"pulled-{next(numbers)}"
        folder.mkdir()
        run([peer("flux"), "pull", "artifact", reference, f"--output={folder}", "--insecure-registry"])
        return {
            path.relative_to(folder).as_posix(): (path.read_bytes(), bool(path.stat().st_mode & 0o100))
            for path in folder.rglob("*")
            if path.is_file()
        }

    return pull


def expect(files: dict[str, tuple[bytes, bool]], components: str) -> None:
    """Check that an artifact has the components of that hash and the overlay, every byte of it, and nothing else."""
    assert hashlib.sha256(files.pop(COMPONENTS)[0]).hexdigest() == components
    assert files == {path: (content, path == EXECUTABLE) for path, content in OVERLAY.items()}


@pytest.mark.parametrize("case", ["default", "all-six", "everything-six", "everything"])
def test_each_release_is_reached_from_the_one_before_it(
    *,
    case: str,
    distribution_registry: RealRegistry,
    repository: str,
    flux_releases: Path,
    cases: dict[str, dict[str, Any]],
    hashes: dict[str, dict[str, str]],
    overlay: Path,
    pair: program.Pair,
    cosign_key: KeyPair,
    pulled: Callable[[Reference], dict[str, tuple[bytes, bool]]],
) -> None:
    known = [version for version in program.versions(flux_releases) if case in hashes[str(version)]]
    assert len(known) == (15 if case == "everything" else 23)
    channel = program.channel(distribution_registry.host, repository)
    ports = program.ports(channel, flux_releases, pair)
    keys = KeyPair(pair.private, pair.public, cosign_key.trusted_root)
    wish = program.intent(known[0], flags=cases[case], overlay=read_overlay(overlay))
    digest = init(channel, known[0], ports, wish).digest
    expect(pulled(channel), hashes[str(known[0])][case])
    for before, version in itertools.pairwise(known):
        outcome = update(channel, ports, program.intent(version))
        (step,) = outcome.plan.steps
        assert (step.old_version, step.new_version, step.base, outcome.done) == (before, version, digest, 1)
        digest = step.target
        assert ports.registry.resolve(channel) == digest
        assert ports.registry.resolve(channel.at_tag(immutable_tag(version, digest))) == digest
        assert len(keys.verify(str(channel.at_digest(digest)).removeprefix("oci://"))) == 1
        expect(pulled(channel), hashes[str(version)][case])
        assert update(channel, ports, program.intent(version)).plan.steps == ()


def test_a_schedule_of_processes_follows_the_releases_as_they_came_out(
    *,
    distribution_registry: RealRegistry,
    repository: str,
    flux_releases: Path,
    hashes: dict[str, dict[str, str]],
    overlay: Path,
    pair: program.Pair,
    pulled: Callable[[Reference], dict[str, tuple[bytes, bool]]],
    tmp_path: Path,
) -> None:
    channel = program.channel(distribution_registry.host, repository)
    start, *rest = ("v2.8.5", "v2.8.6", "v2.8.7", "v2.8.8", "v2.9.0", "v2.9.3", "v2.9.4")
    begin = ("--flux-version", start, "--releases", flux_releases, "--overlay", overlay, *pair.signing)
    base = program.succeed("init", channel, *begin)["digest"]
    for before, version in pairwise((start, *rest)):
        config = program.configuration(tmp_path / "config.yaml", channel, flux_releases, before, range=f"<={version}")
        said = program.succeed("update", "production", "--config", config, *pair.signing)
        (step,) = said["published"]
        assert (step["to"], step["base"], said["version"], said["signature"]) == (version, base, version, "verified")
        base = said["digest"]
        expect(pulled(channel), hashes[version]["default"])
    listed = program.flux_manifests("history", channel, "--public-key", pair.public)
    assert listed.code == 0, listed.errors
    assert re.findall(r"^@[0-9]+ +(v[0-9.]+)-", listed.output, re.MULTILINE) == [*reversed(rest), start]


def test_by_default_the_patch_is_published_and_the_minor_waits_for_its_approval(
    *,
    distribution_registry: RealRegistry,
    repository: str,
    flux_releases: Path,
    hashes: dict[str, dict[str, str]],
    overlay: Path,
    pair: program.Pair,
    pulled: Callable[[Reference], dict[str, tuple[bytes, bool]]],
    tmp_path: Path,
) -> None:
    channel = program.channel(distribution_registry.host, repository)
    common = ("--releases", flux_releases, *pair.signing)
    program.succeed("init", channel, "--flux-version", "v2.8.5", "--overlay", overlay, *common)
    said = program.succeed("update", channel, *common)
    assert [step["to"] for step in said["published"]] == ["v2.8.8"]
    (waiting,) = said["waiting"]
    assert (waiting["from"], waiting["to"], waiting["decision"]) == ("v2.8.8", "v2.9.4", "approval")
    expect(pulled(channel), hashes["v2.8.8"]["default"])

    plan = tmp_path / "plan.json"
    program.succeed("plan", channel, "--out", plan, "--releases", flux_releases, "--public-key", pair.public)
    refused = program.flux_manifests("apply", plan, *common)
    assert (refused.code, refused.error) == (11, "not-approved")
    done = program.succeed("apply", plan, "--approve", waiting["target"], *common)
    assert (done["version"], done["digest"]) == ("v2.9.4", waiting["target"])
    expect(pulled(channel), hashes["v2.9.4"]["default"])
    again = program.succeed("apply", plan, "--approve", waiting["target"], *common)
    assert (again["digest"], again["waiting"]) == (waiting["target"], [])
