"""What the guard says of a step is what the real controllers of a cluster that follows a channel make of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.tree import COMPONENTS_PATH, Tree, TreeFile
from ci_automation.impact.change import Certainty, Hazard, Place
from ci_automation.impact.check import Clusters
from ci_automation.impact.checks.crds import guard
from ci_automation.impact.crds.versions import Snapshot
from tests.real.cluster import POLL
from tests.real.pipeline import push, tag
from tests.real.processes import wait_until
from tests.real.upgrade import OWNER, components

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.cluster import Cluster
    from tests.real.registries import RealRegistry

SOON = 90
STEPS = ("v2.6.4", "v2.7.5", "v2.8.8", "v2.9.4")
SNAPSHOT, OBJECTS = "production.json", "objects.json"
KINDS = "ocirepositories.v1.source.toolkit.fluxcd.io,alerts.v1beta3.notification.toolkit.fluxcd.io"
ALERT = "Alert/flux-system/on-call"
STALE = "request to convert CR to an invalid group/version: notification.toolkit.fluxcd.io/v1beta2"
IMAGES = {
    f"{name}.image.toolkit.fluxcd.io" for name in ("imagepolicies", "imagerepositories", "imageupdateautomations")
}
NONE = Tree(())
_LOST = re.compile(r'Invalid value: "([^"]+)": missing from spec\.versions')
ALERTS = """\
apiVersion: v1
kind: ConfigMap
metadata: {{name: about, namespace: flux-system}}
---
apiVersion: notification.toolkit.fluxcd.io/{version}
kind: Alert
metadata: {{name: on-call, namespace: flux-system}}
spec:
  providerRef: {{name: nobody}}
  eventSources: [{{kind: GitRepository, name: nowhere}}]
"""


@dataclass
class Channel:
    """A channel, the cluster that follows it, and what is in it now."""

    cluster: Cluster
    home: str
    folder: Path
    texts: dict[str, str]
    version: str = STEPS[0]
    overlay: Tree = NONE

    def says(self, version: str, overlay: Tree = NONE) -> list[Hazard]:
        """Return what the guard says is certain to break in this cluster."""
        objects = self.cluster.kubectl("get", KINDS, "--all-namespaces", "--output=json", "--show-managed-fields")
        found = self._guard(version, overlay, self._definitions(), Snapshot.parse(objects.encode(), OBJECTS))
        return [hazard for hazard in found if hazard.certainty is Certainty.CERTAIN]

    def expects(self, version: str, overlay: Tree = NONE) -> list[Hazard]:
        """Return what the guard says may break in this cluster, given nothing of its objects."""
        found = self._guard(version, overlay, self._definitions())
        assert Certainty.CERTAIN not in {hazard.certainty for hazard in found}
        return [hazard for hazard in found if hazard.certainty is Certainty.POSSIBLE]

    def _definitions(self) -> Snapshot:
        return Snapshot.parse(self.cluster.kubectl("get", "crd", "--output=json").encode(), SNAPSHOT)

    def _guard(self, version: str, overlay: Tree, *snapshots: Snapshot) -> tuple[Hazard, ...]:
        return guard(
            self.texts[self.version], self.texts[version], Clusters(snapshots=snapshots), overlay, self.overlay
        )

    def publish(self, version: str, overlay: Tree = NONE) -> str:
        """Let the channel have a release and an overlay, and return the digest."""
        name = f"{version}-{len(list(self.folder.iterdir()))}"
        for file in overlay.replaced(COMPONENTS_PATH, self.texts[version].encode()).files:
            path = self.folder / name / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.content)
        digest = push(f"{self.home}:{name}", self.folder / name, f"{version}@sha1:1111111")
        tag(f"{self.home}@{digest}", "production")
        return digest

    def taken(self, version: str, overlay: Tree = NONE) -> None:
        """Publish a step that the guard lets pass, and wait until the cluster has it."""
        assert self.says(version, overlay) == []
        self.cluster.wait_until_applied(self.publish(version, overlay), SOON)
        self.version, self.overlay = version, overlay

    def refused(self, version: str, names: set[str], lost: str) -> list[Hazard]:
        """Publish a step that lacks a stored version of some definitions, and wait until the cluster refuses it."""
        hazards = self.says(version)
        assert {tuple(hazard.subject.split()[:2]) for hazard in hazards} == {(name, lost) for name in names}
        before = self.cluster.applied()
        self.publish(version)
        said = self.cluster.wait_until_refused("status.storedVersions", SOON)
        assert any(f"CustomResourceDefinition/{name} dry-run failed" in said for name in names)
        assert set(_LOST.findall(said)) == {lost}
        assert self.cluster.applied() == before
        return hazards


def alerts(version: str) -> Tree:
    """Return an overlay with an alert."""
    return Tree((TreeFile("apps/alerts.yaml", ALERTS.format(version=version).encode()),))


@pytest.fixture(scope="module")
def texts(flux_releases: Path) -> dict[str, str]:
    """Return the components file of each release, with all components."""
    return {name: components(flux_releases, name) for name in STEPS}


@pytest.fixture(scope="module")
def flux_cluster(cluster: Cluster, texts: dict[str, str]) -> Cluster:
    """Return the cluster as the first release leaves it, with the controllers running."""
    cluster.apply(texts[STEPS[0]], OWNER)
    cluster.start_controllers()
    return cluster


@pytest.fixture
def channel(
    flux_cluster: Cluster, distribution_registry: RealRegistry, repository: str, texts: dict[str, str], tmp_path: Path
) -> Channel:
    """Return a channel of this test's own."""
    return Channel(flux_cluster, f"{distribution_registry.host}/{repository}", tmp_path, texts)


def test_each_step_is_taken_or_refused_as_the_guard_says_and_taken_once_migrated(channel: Channel) -> None:
    cluster = channel.cluster
    channel.publish("v2.6.4")
    cluster.follow(f"oci://{channel.home}", "production", None)
    channel.taken("v2.6.4")

    channel.refused("v2.9.4", IMAGES, "v1beta2")
    channel.taken("v2.7.5")
    channel.taken("v2.8.8")

    hazards = channel.refused("v2.9.4", IMAGES, "v1beta2")
    assert all("`flux migrate`" in hazard.remedies[0] for hazard in hazards)
    cluster.flux("migrate")
    channel.taken("v2.9.4")

    channel.taken("v2.8.8")
    channel.refused("v2.6.4", IMAGES, "v1")


def migrated(channel: Channel) -> Cluster:
    """Return the cluster once it has 2.8 from this channel, and stores nothing in old versions."""
    channel.version = "v2.8.8"
    channel.publish("v2.8.8")
    channel.cluster.follow(f"oci://{channel.home}", "production", None)
    channel.taken("v2.8.8")
    channel.cluster.flux("migrate")
    return channel.cluster


def test_an_object_in_a_version_that_goes_away_is_refused_by_its_name_and_taken_once_it_is_written_anew(
    channel: Channel,
) -> None:
    cluster = migrated(channel)
    channel.taken("v2.8.8", alerts("v1beta2"))

    found = {hazard.places: hazard for hazard in channel.says("v2.9.4", alerts("v1beta2"))}
    hazard = found.pop((Place("apps/alerts.yaml", 5),))
    assert "Alert v1beta2 (on-call)" in hazard.sentence
    assert found.keys() == {(Place(OBJECTS),)}
    channel.publish("v2.9.4", alerts("v1beta2"))
    assert ALERT in cluster.wait_until_refused(ALERT, SOON)

    # kustomize-controller does not apply what it finds to be the same: the edit alone leaves who manages it as it was.
    edit, *_, follow = hazard.remedies
    assert "v1beta3` instead, before this step" in edit
    assert "`flux migrate`" in follow
    channel.taken("v2.8.8", alerts("v1beta3"))
    (hazard,) = channel.says("v2.9.4", alerts("v1beta3"))
    assert hazard.places == (Place(OBJECTS),)
    channel.publish("v2.9.4", alerts("v1beta3"))
    assert ALERT in cluster.wait_until_refused(STALE, SOON)
    channel.taken("v2.8.8", alerts("v1beta3"))
    cluster.flux("migrate")
    channel.taken("v2.9.4", alerts("v1beta3"))


def test_an_object_that_was_applied_in_a_version_that_goes_away_is_refused_until_it_is_migrated(
    channel: Channel,
) -> None:
    cluster = migrated(channel)
    channel.taken("v2.8.8", alerts("v1beta2"))

    (expected,) = channel.expects("v2.9.4", alerts("v1beta3"))
    assert expected.places == (Place("apps/alerts.yaml", 5),)
    (hazard,) = channel.says("v2.9.4", alerts("v1beta3"))
    assert hazard.places == (Place(OBJECTS),)
    assert "flux-system/on-call" in hazard.sentence
    digest = channel.publish("v2.9.4", alerts("v1beta3"))
    assert STALE in hazard.sentence
    assert STALE in expected.sentence
    assert ALERT in cluster.wait_until_refused(STALE, SOON)

    assert any("`flux migrate`" in remedy for remedy in hazard.remedies)
    cluster.flux("migrate")
    cluster.wait_until_applied(digest, SOON)


def test_an_object_that_leaves_the_overlay_as_its_version_goes_away_is_pruned_only_if_it_leaves_first(
    channel: Channel,
) -> None:
    cluster = migrated(channel)
    channel.taken("v2.8.8", alerts("v1beta2"))

    (hazard,) = channel.expects("v2.9.4")
    assert "(on-call)" in hazard.sentence
    cluster.wait_until_applied(channel.publish("v2.9.4"), SOON)
    cluster.wait_until_applied(channel.publish("v2.9.4"), SOON)
    kind = KINDS.rpartition(",")[2]
    assert "on-call" in cluster.kubectl("get", kind, "--all-namespaces", "--output=name")

    cluster.kubectl("delete", kind, "on-call", "--namespace=flux-system")
    cluster.wait_until_applied(channel.publish("v2.8.8", alerts("v1beta2")), SOON)
    edit, then = hazard.remedies
    assert "first, without the release" in edit
    assert "release" in then
    channel.taken("v2.8.8")
    wait_until(
        lambda: "on-call" not in cluster.kubectl("get", kind, "--all-namespaces", "--output=name") or None,
        SOON,
        lambda: "it is not pruned",
        POLL,
    )
    assert channel.expects("v2.9.4") == []
    channel.taken("v2.9.4")
