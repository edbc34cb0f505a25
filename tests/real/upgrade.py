"""What a real API server makes of Flux's releases: clusters with a past, each step tried, refused or taken."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import yaml

from ci_automation.flux.options import DEFAULT_COMPONENTS, EXTRA_COMPONENTS, Options
from ci_automation.flux.render import render
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.flux.text import SEPARATOR
from ci_automation.flux.version import Version
from tests.real.cluster import DEFINITIONS, manifest
from tests.real.processes import ProgramFailed, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from tests.real.cluster import Cluster, Object

    Refused = Mapping[str, frozenset[str]]

OWNER = "kustomize-controller"
WATCHER = "source-watcher"  # came with 2.7
SERVED = 20.0
_INVALID = re.compile(r'CustomResourceDefinition\.apiextensions\.k8s\.io "(?P<name>[^"]+)" is invalid: (?P<why>.*)')
_MISSING = re.compile(
    r'status\.storedVersions\[\d+\]: Invalid value: "(?P<version>[^"]+)": missing from spec\.versions; '
)
_SOURCE = {"kind": "GitRepository", "name": "nowhere"}
SPECS: Mapping[str, Object] = {
    "Alert": {"providerRef": {"name": "nobody"}, "eventSources": [_SOURCE]},
    "ArtifactGenerator": {
        "sources": [{"alias": "one", **_SOURCE}],
        "artifacts": [{"name": "made", "copy": [{"from": "@one/**", "to": "@artifact/"}]}],
    },
    "Bucket": {"interval": "1h", "endpoint": "127.0.0.1", "bucketName": "none", "suspend": True},
    "ExternalArtifact": {"sourceRef": _SOURCE},
    "GitRepository": {"interval": "1h", "url": "https://127.0.0.1/none", "suspend": True},
    "HelmChart": {
        "interval": "1h",
        "chart": "none",
        "sourceRef": {"kind": "HelmRepository", "name": "nowhere"},
        "suspend": True,
    },
    "HelmRelease": {
        "interval": "1h",
        "chart": {"spec": {"chart": "none", "sourceRef": {"kind": "HelmRepository", "name": "nowhere"}}},
    },
    "HelmRepository": {"interval": "1h", "url": "https://127.0.0.1/none", "suspend": True},
    "ImagePolicy": {"imageRepositoryRef": {"name": "none"}, "policy": {"semver": {"range": "*"}}},
    "ImageRepository": {"interval": "1h", "image": "127.0.0.1/none"},
    "ImageUpdateAutomation": {
        "interval": "1h",
        "sourceRef": _SOURCE,
        "git": {"commit": {"author": {"email": "nobody@acme.example"}}},
    },
    "Kustomization": {"interval": "1h", "prune": False, "sourceRef": _SOURCE, "suspend": True},
    "OCIRepository": {"interval": "1h", "url": "oci://127.0.0.1/none", "suspend": True},
    "Provider": {"type": "generic"},
    "Receiver": {"type": "generic", "resources": [_SOURCE], "secretRef": {"name": "none"}},
}


def components(releases: Path, tag: str, *, extras: bool = True) -> str:
    """Return the components file of a release, with all components that it has, or with the default ones alone."""
    version = Version.parse(tag)
    bundle = DirectorySource(releases).fetch(version).bundle
    since_watcher = version >= Version.parse("2.7.0")
    extra = [name for name in EXTRA_COMPONENTS if extras and (name != WATCHER or since_watcher)]
    return render(bundle, version, Options(components=(*DEFAULT_COMPONENTS, *extra)))


def definitions(text: str) -> list[Object]:
    """Return the custom resource definitions alone of a components file."""
    parts = (part for part in text.split(SEPARATOR) if "\nkind: CustomResourceDefinition\n" in part)
    return [yaml.load(part, yaml.CSafeLoader) for part in parts]


def listed(objects: Iterable[Object]) -> str:
    """Return objects as one text that kubectl takes."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


@dataclass(frozen=True, slots=True)
class Made:
    """An object that a team once made, and the version of its kind that the team wrote."""

    resource: str
    group: str
    kind: str
    version: str
    created: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return f"{'created' if self.created else 'made'}-as-{self.version}"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def manifest(self, version: str | None = None) -> Object:
        """Return it as the team writes it, in its own version or in another."""
        return manifest(
            f"{self.group}/{version or self.version}", self.kind, {"name": self.name}, spec=SPECS[self.kind]
        )


class Upgrades:
    """A cluster on which releases are installed one after another, by their definitions alone."""

    def __init__(self, cluster: Cluster, texts: Mapping[str, str]) -> None:
        self.cluster = cluster
        self.texts = texts
        self._definitions_of = {version: definitions(text) for version, text in texts.items()}
        self.made: list[Made] = []

    def begin(self, first: str, *later: str, objects: bool = True) -> None:
        """Be a new cluster: install `first`, make an object in each version that it serves, then install the others."""
        self._wipe()
        self.apply(first)
        if objects:
            self._make()
        for version in later:
            self.apply(version)

    def snapshot(self) -> bytes:
        """Return what the cluster says of its definitions."""
        return self.cluster.kubectl("get", "crd", "--output=json").encode()

    def apply(self, version: str) -> None:
        """Install a release, as kustomize-controller does it.

        Raises:
            ProgramFailed: the API server refused some of it.
        """
        if errors := self.cluster.define(self._definitions_of[version], OWNER):
            raise ProgramFailed("\n".join(errors))

    def refused(self, version: str) -> Refused:
        """Return what the API server would refuse of a release: by definition, the stored versions that it lacks.

        Raises:
            AssertionError: it refused something for another reason.
        """
        return refusals(self.cluster.define(self._definitions_of[version], OWNER, dry=True))

    def create(self, kind: str, version: str) -> None:
        """Let the team make one more object, not by server-side apply: nobody applies it, and somebody updated it."""
        made = replace(next(made for made in self.made if made.kind == kind), version=version, created=True)
        self.cluster.kubectl("create", "-f", "-", input=json.dumps(made.manifest()))
        self.made.append(made)

    def objects(self) -> bytes:
        """Return what the cluster says of all objects, and of who manages them."""
        how = ("--all-namespaces", "--output=json", "--show-managed-fields")
        return self.cluster.kubectl("get", self._resources(), *how).encode()

    def stored(self) -> dict[str, set[str]]:
        """Return the versions that the cluster says it has stored, by definition."""
        return {item["metadata"]["name"]: set(item["status"]["storedVersions"]) for item in self._definitions()}

    def storage(self) -> dict[str, str]:
        """Return the version that the cluster stores now, by definition."""
        return {
            item["metadata"]["name"]: next(
                version["name"] for version in item["spec"]["versions"] if version["storage"]
            )
            for item in self._definitions()
        }

    def read_back(self) -> list[str]:
        """Return the names of the objects that can be read in the version that is stored now, with their kinds."""
        items = json.loads(self.cluster.kubectl("get", self._resources(), "--all-namespaces", "--output=json"))["items"]
        return [f"{item['kind']} {item['metadata']['name']}" for item in items]

    def write_again(self) -> None:
        """Let the team apply all its objects in the version that is stored now.

        Raises:
            ProgramFailed: the API server refused one.
        """
        storage = self.storage()
        versions = {made: storage[f"{made.resource}.{made.group}"] for made in self.made}
        self._apply(made.manifest(version) for made, version in versions.items())

    def _definitions(self) -> list[Object]:
        found: list[Object] = json.loads(self.snapshot())["items"]
        return found

    def _resources(self) -> str:
        # By version too: kubectl would take the version from what it remembers of the definitions before.
        return ",".join(name.replace(".", f".{version}.", 1) for name, version in self.storage().items())

    def _make(self) -> None:
        self.made = [
            Made(item["spec"]["names"]["plural"], item["spec"]["group"], item["spec"]["names"]["kind"], version["name"])
            for item in self._definitions()
            for version in item["spec"]["versions"]
            if version["served"]
        ]
        wait_until(self._made_all, SERVED, lambda: f"the API server does not serve all of {self.made}")

    def _made_all(self) -> bool | None:
        try:
            self._apply(made.manifest() for made in self.made)
        except ProgramFailed as failed:
            if "no matches for kind" in str(failed) or "could not find the requested resource" in str(failed):
                return None
            raise
        return True

    def _apply(self, objects: Iterator[Object]) -> None:
        self.cluster.apply(listed(objects), "the team")

    def _wipe(self) -> None:
        if self.made:  # or some would outlive their definitions
            self.cluster.kubectl("delete", self._resources(), "--all", "--all-namespaces", "--wait=false")
        self.made = []
        self.cluster.kubectl("delete", "--raw", DEFINITIONS)
        wait_until(lambda: not self.stored() or None, SERVED, lambda: f"the API server keeps {self.stored()}")


def refusals(errors: Iterable[str]) -> Refused:
    """Return what an API server's errors refuse: by definition, the stored versions that are missing.

    Raises:
        AssertionError: one says something else.
    """
    found: dict[str, frozenset[str]] = {}
    for error in errors:
        match = _INVALID.match(error)
        assert match, error
        versions = _MISSING.findall(match["why"])
        assert len(versions) == match["why"].count("Invalid value"), error
        found[match["name"]] = frozenset(versions)
    return found
