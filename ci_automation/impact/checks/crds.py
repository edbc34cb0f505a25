"""Check what the CRDs of another release break: versions that clusters store objects in, or that manifests use.

An API server refuses a definition without a version that its `status.storedVersions` has, whether objects are there or
not; and the apply of an object in whose managedFields such a version stands.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.tree import Tree
from ci_automation.impact.change import Certainty, Hazard, Place, all_of, some_of, within
from ci_automation.impact.check import Applied, Check, Clusters, Known, Seen
from ci_automation.impact.crds.managing import Managing, given_up
from ci_automation.impact.crds.manifests import GATE, Manifests
from ci_automation.impact.crds.remedies import SNAPSHOT, drop, out_of, stopovers
from ci_automation.impact.crds.versions import Crd, Snapshot, crds, newest_first

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ORDER = list(reversed(Certainty))


def guard(old: str, new: str, clusters: Clusters, overlay: Tree, former: Tree) -> tuple[Hazard, ...]:
    """Return what clusters with the components `old` break at when they get `new`; the surest first.

    It serves a way back too. Clusters are judged by their snapshots where they have the definition, by the old
    components otherwise; manifests as they are in `overlay`, which is the one of `new`, and in the given files. What
    `former`, the overlay of `old`, had in a version that goes away is expected in the managedFields of clusters.

    Raises:
        UnreadableCrds: `old` or `new` is not YAML, or has a definition that no cluster would take.
    """
    before, after = crds(old), crds(new)
    step = _Step(before, after, clusters)
    managing = Managing(before, after, clusters.snapshots, given_up(before, after, former, overlay))
    manifests = Manifests(before, after)
    given = [(file.name, file.content) for file in clusters.files]
    found = [
        *(hazard for name in sorted(before.keys() & after.keys()) for hazard in step.stored(before[name], after[name])),
        *step.returned(),
        *managing.known(),
        *managing.expected(),
        *step.gone(),
        *manifests.hazards([(file.path, file.content) for file in overlay.files], own=True),
        *manifests.hazards(given, own=False),
        *([] if given else manifests.elsewhere()),
    ]
    return tuple(sorted(found, key=lambda hazard: _ORDER.index(hazard.certainty)))


class _Step(Struct, frozen=True, dict=True):
    """The step from one set of definitions to another, in clusters as far as they are known."""

    before: Mapping[str, Crd]
    after: Mapping[str, Crd]
    clusters: Clusters

    @cached_property
    def way(self) -> tuple[int, ...] | None:
        return stopovers(self.before, self.after)

    def stored(self, old: Crd, new: Crd) -> Iterator[Hazard]:
        """Yield what the stored versions of one definition break."""
        known = [(it.name, self._versions(it, old)) for it in self.clusters.snapshots if old.name in it.stored]
        stored = frozenset(version for _, versions in known for version in versions) if known else {old.storage}
        for version in newest_first(stored - new.names):
            yield self._certain(old, new, version, [name for name, versions in known if version in versions])
        if not known:
            for version in newest_first(old.names - new.names - {old.storage}):
                yield self._possible(old, new, version)
        if old.storage in new.names and newest_first((old.storage, new.storage))[0] != new.storage:
            yield self._backwards(old, new)

    @staticmethod
    def _versions(snapshot: Snapshot, old: Crd) -> frozenset[str]:
        """Return the versions that a cluster has stored objects in before this step.

        One that has another definition than `old` gets that on its way; one that has it may have been changed by hand.
        """
        stored = frozenset(snapshot.stored[old.name])
        defined = {version.name for version in snapshot.defined.get(old.name, old.versions)}
        return stored if defined == old.names else stored | {old.storage}

    def _certain(self, old: Crd, new: Crd, version: str, names: list[str]) -> Hazard:
        where = f" of the cluster in {some_of(names)}" if names else ", for it is what objects are stored in now"
        return Hazard(
            GATE,
            Certainty.CERTAIN,
            f"{old.name} {version}{within(names)}",
            f"{version} of {old.kind} is removed, but is among the stored versions (status.storedVersions){where}: "
            f"the API server refuses the new definition, which has {all_of(newest_first(new.names))}",
            tuple(Place(name) for name in names),
            out_of(old, new, self.way),
            f"CRDs lose {{}}, which is among their stored versions (status.storedVersions){where}: the API server "
            "refuses the new definitions",
            f"{version} of {old.kind}",
        )

    def _possible(self, old: Crd, new: Crd, version: str) -> Hazard:
        return Hazard(
            GATE,
            Certainty.POSSIBLE,
            f"{old.name} {version}",
            f"{version} of {old.kind} is removed: clusters that once stored objects in it and were not migrated since "
            f"(status.storedVersions) refuse the new definition",
            (),
            (*out_of(old, new, self.way), SNAPSHOT),
            "CRDs lose {}: clusters that store these refuse the new CRDs",
            f"{version} of {old.kind}",
        )

    def _backwards(self, old: Crd, new: Crd) -> Hazard:
        return Hazard(
            GATE,
            Certainty.POSSIBLE,
            f"{old.name} {old.storage} to {new.storage}",
            f"{old.kind} would be stored as {new.storage} again, which is older than {old.storage}: fields that only "
            f"{old.storage} has are lost when an object is written",
        )

    def returned(self) -> Iterator[Hazard]:
        """Yield what definitions that come with the step lack of the ones that clusters have of them from before."""
        for name in sorted(self.after.keys() - self.before.keys()):
            new = self.after[name]
            there = [it for it in self.clusters.snapshots if name in it.stored]
            stored = {version for it in there for version in it.stored[name]}
            for version in newest_first(stored - new.names):
                yield self._returned(new, version, [it for it in there if version in it.stored[name]])

    @staticmethod
    def _returned(new: Crd, version: str, left: list[Snapshot]) -> Hazard:
        names = [it.name for it in left]
        own = [Crd(new.name, new.group, new.kind, it.defined[new.name]) for it in left]
        ways = [out_of(old, new, stopovers({old.name: old}, {new.name: new})) for old in own]
        return Hazard(
            GATE,
            Certainty.CERTAIN,
            f"{new.name} {version}{within(names)}",
            f"the definition of {new.kind} comes with this step, but the cluster in {some_of(names)} has it from "
            f"before, with {version} among its stored versions (status.storedVersions): the API server refuses the new "
            f"definition, which has {all_of(newest_first(new.names))}",
            tuple(Place(name) for name in names),
            (*dict.fromkeys(remedy for way in ways for remedy in way), drop(new)),
        )

    def gone(self) -> Iterator[Hazard]:
        """Yield the definitions that go away as a whole."""
        for name in sorted(self.before.keys() - self.after.keys()):
            crd = self.before[name]
            yield Hazard(
                GATE,
                Certainty.POSSIBLE,
                name,
                f"the definition of {crd.kind} is removed: a cluster that prunes it deletes every {crd.kind} with it",
                (),
                (
                    f"Look what there is: `kubectl get {name} -A`.",
                    f"To keep them: `kubectl annotate crd {name} kustomize.toolkit.fluxcd.io/prune=disabled`.",
                ),
            )


def _look(before: Applied | None, after: Applied, known: Known) -> Seen:
    old, former = (before.components, before.overlay) if before else ("", Tree(()))
    return Seen(guard(old, after.components, known.clusters, after.overlay, former))


def _clear(_after: Applied, known: Known) -> tuple[str, str]:
    snapshots, files = len(known.clusters.snapshots), len(known.clusters.files)
    looked_at = f"{snapshots} snapshots, {files} files of manifests, the overlay"
    return "no version goes away that clusters may need", looked_at


CHECK = Check(GATE, 1, _look, _clear)
