"""Our program as the tests of this tier run it: as a process with an environment of its own, or its flows in ours."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_automation.artifact.manifest import Manifest
from ci_automation.artifact.reference import Reference
from ci_automation.flows.ports import Intent, Ports
from ci_automation.flows.programs.kustomize import find_kustomize
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.flux.version import Version
from ci_automation.impact.check import Clusters
from ci_automation.impact.crds.remedies import served
from ci_automation.impact.crds.versions import Snapshot
from ci_automation.policy.model import BUMPS, Action, Policy
from ci_automation.policy.ranges import Range
from ci_automation.registry import open_registry
from ci_automation.signing.keys.private import SigningKey
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.trust import TrustedKeys
from tests.e2e.desk import of_one
from tests.real.peers import peer
from tests.real.pipeline import PASSWORD
from tests.real.processes import COMMAND, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.reference import Digest
    from ci_automation.flux.release import ReleaseSource
    from ci_automation.registry.port import Registry

# A day on which all the releases that the tests know are old.
NOW = datetime(2026, 11, 21, tzinfo=UTC)
# What a process of ours may see of the environment of whoever runs the tests: where docker's credentials are.
KEPT = ("DOCKER_CONFIG", "PATH", "TMPDIR")


@dataclass(frozen=True, slots=True)
class Done:
    """How a run of the program ended, and what it said."""

    code: int
    output: str
    errors: str

    @property
    def json(self) -> dict[str, Any]:
        """What it printed for programs; asked for with `--output json`."""
        value: dict[str, Any] = of_one(json.loads(self.output))
        return value

    @property
    def error(self) -> str:
        """The stable name of the error, as it stands behind the hint."""
        found = re.search(r"\(exit \d+, code ([a-z0-9-]+)\)", self.errors)
        return found[1] if found else ""


def command(*arguments: object, script: Path | None = None) -> list[str]:
    """Return the command line of the program; `script` runs in its place, and is given the arguments."""
    start = [sys.executable, str(script)] if script else [sys.executable, "-m", "ci_automation"]
    return [*start, *(str(argument) for argument in arguments)]


def environment(**more: str) -> dict[str, str]:
    """Return the environment that the program runs in."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    # A home without anything in it, and the password of every key that the tests make.
    own = {"HOME": "/nonexistent", "LANG": "C.UTF-8", "COSIGN_PASSWORD": PASSWORD}
    own["PATH"] = os.pathsep.join([str(peer("kustomize").parent), kept.pop("PATH", "")])
    return kept | own | more


def flux_manifests(*arguments: object, folder: Path = Path("/"), script: Path | None = None, **more: str) -> Done:
    """Return how the program ended; it runs in `folder`, so that no configuration is found by accident."""
    done = subprocess.run(
        command(*arguments, script=script),
        cwd=folder,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def succeed(*arguments: object, **settings: Any) -> dict[str, Any]:
    """Return what the program printed, as JSON, if it did its job."""
    done = flux_manifests(*arguments, "--output", "json", **settings)
    assert done.code == 0, done.errors
    return done.json


@dataclass(frozen=True, slots=True)
class Pair:
    """A key pair as files, and what our flows sign with."""

    private: Path
    public: Path
    key: SigningKey

    @classmethod
    def read(cls, private: Path, public: Path) -> Pair:
        """Return the pair in two files, the private one with the tests' password where it has any."""
        return cls(private, public, SigningKey.from_bytes(private.read_bytes(), PASSWORD, str(private)))

    @property
    def signing(self) -> tuple[str, ...]:
        """The options that sign with it."""
        return ("--signing", "key", "--key", str(self.private))


def elliptic_key(folder: Path) -> Pair:
    """Return a key pair as people have it who do not have cosign: PEM, made by openssl."""
    folder.mkdir(parents=True, exist_ok=True)
    private, public = folder / "ec.pem", folder / "ec.pub"
    run(["openssl", "ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", private])
    run(["openssl", "ec", "-in", private, "-pubout", "-out", public])
    return Pair.read(private, public)


def channel(host: str, repository: str, tag: str = "production") -> Reference:
    """Return the reference of a channel."""
    return Reference.parse_channel(f"oci://{host}/{repository}:{tag}")


# A cluster that has never stored an object of Flux.
_KINDS = {
    "source": ("gitrepositories", "buckets", "helmrepositories", "helmcharts", "ocirepositories"),
    "kustomize": ("kustomizations",),
    "helm": ("helmreleases",),
    "notification": ("alerts", "providers", "receivers"),
    "image": ("imagerepositories", "imagepolicies", "imageupdateautomations"),
}
_NAMES = [f"{kind}.{group}.toolkit.fluxcd.io" for group, kinds in _KINDS.items() for kind in kinds]
FRESH = Clusters(snapshots=(Snapshot("fresh", dict.fromkeys(_NAMES, ())),))


def ports(reference: Reference, releases: ReleaseSource | Path, pair: Pair | None) -> Ports:
    """Return the world of a flow that runs in this process."""
    source = DirectorySource(releases) if isinstance(releases, Path) else releases
    builder = find_kustomize(environment())
    if pair is None:
        return Ports(open_registry(reference), source, find_kustomize=lambda: builder)
    trusted = TrustedKeys((pair.key.public,))
    return Ports(open_registry(reference), source, KeySigner(pair.key), trusted, find_kustomize=lambda: builder)


def planted(registry: Registry, channel: Reference, manifest: Manifest, **annotations: str) -> Digest:
    """Return the digest of a manifest like another, which somebody without the key has pushed to its repository."""
    changed = dict(manifest.annotations) | {"planted": "yes"} | annotations
    other = Manifest.build(manifest.config, manifest.layers, changed)
    return registry.put_manifest(channel.at_digest(other.digest), other)


def everything_up_to(version: Version | str) -> Policy:
    """Return the policy that takes every release up to that version by itself."""
    return Policy(
        actions=dict.fromkeys(BUMPS, Action.AUTO),
        range=Range.parse(f"<={version}"),
        min_release_age=dict.fromkeys(BUMPS, timedelta()),
        escalate=frozenset(),
    )


def intent(version: Version | str = "v99.0.0", **more: Any) -> Intent:
    """Return the wish to have a channel at that version, as far as there is one."""
    wanted: dict[str, Any] = {"policy": everything_up_to(version), "clusters": FRESH}
    return Intent(NOW, **wanted | more)


def migrated(path: Path, minor: int) -> Path:
    """Return the file `path`, after writing into it what a cluster says that has Flux 2.`minor`, and was migrated."""
    known = {name: found for name in _NAMES if (found := served(name, minor))}
    definitions = [
        {
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": name.partition(".")[2],
                "versions": [{"name": it, "storage": it == found.storage} for it in sorted(found.versions)],
            },
            "status": {"storedVersions": [found.storage]},
        }
        for name, found in known.items()
    ]
    path.write_text(json.dumps({"kind": "List", "items": definitions}))
    return path


def configuration(path: Path, url: object, releases: Path, since: str = "", **policy: object) -> Path:
    """Return the file `path`, after writing into it a configuration of one artifact that takes all releases at once.

    `since` is the release that its clusters have, which were migrated to it.
    """
    ages = {"patch": "0", "minor": "0", "major": "0"}
    own = {"patch": "auto", "minor": "auto", "major": "auto", "minReleaseAge": ages, "escalate": []} | policy
    file: dict[str, Any] = {
        "version": 1,
        "source": f"dir:{releases}",
        "defaults": {"policy": own},
        "artifacts": [{"name": "production", "url": str(url)}],
    }
    if since:
        snapshot = migrated(path.with_suffix(".crds.json"), Version.parse(since).semver.minor)
        file["defaults"] |= {"clusters": {"snapshots": [str(snapshot)]}}
    # JSON is YAML.
    path.write_text(json.dumps(file, indent=1))
    return path


def versions(releases: Path) -> tuple[Version, ...]:
    """Return the versions of all releases that there is data of, the oldest first."""
    return tuple(sorted(Version.parse(found.parent.name) for found in releases.glob("v*/manifests.tar.gz")))


def flags(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags of an option set of the golden data, whose names are those of Flux's own code."""
    names = {name: re.sub(r"[A-Z]", lambda found: f"-{found[0].lower()}", name) for name in case if name != "name"}
    return {names[name]: case[name] for name in names}
