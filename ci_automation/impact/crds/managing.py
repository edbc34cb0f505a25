"""Hazards of a removed version in the managedFields of objects: the API server refuses to apply them.

Snapshots tell where such versions stand. Of what the overlay itself had in one it is to be expected, for
kustomize-controller leaves it there: it applies only what differs in the version that it reads. Nor does it find what
it is to prune in a version that is gone; all measured with real clusters.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.impact.change import Certainty, Hazard, Place, some_of, within
from ci_automation.impact.crds.manifests import GATE, PROSE, How, Use, uses
from ci_automation.impact.crds.remedies import MIGRATE, TAKE, edit_first, forget_managers
from ci_automation.impact.crds.versions import Crd, Managed, Snapshot, newest_first

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ci_automation.artifact.tree import Tree

_FLUX = b".fluxcd.io"


class GivenUp(Struct, frozen=True):
    """One of them: how the overlay of before had it, and where the new one has it, which is nowhere if it left it out.

    `crd` is its definition of before. Its namespace is not known: kustomize may set it.
    """

    crd: Crd
    was: Use
    now: tuple[Use, ...]

    @property
    def identity(self) -> tuple[str, str, str]:
        """Return group, kind and name."""
        return _identity(self.was)


def given_up(before: Mapping[str, Crd], after: Mapping[str, Crd], former: Tree, overlay: Tree) -> tuple[GivenUp, ...]:
    """Return what `former` had in a version that the definition loses, and `overlay` has in others, or not at all."""
    lost = {
        (crd.group, crd.kind, version): crd
        for name, crd in before.items()
        if name in after
        for version in crd.names - after[name].names
    }
    had = [use for use in _objects(former, {version for _, _, version in lost}) if _version(use) in lost]
    has: dict[tuple[str, str, str], list[Use]] = {}
    for use in _objects(overlay, {""}) if had else ():
        has.setdefault(_identity(use), []).append(use)
    found = [GivenUp(lost[_version(use)], use, tuple(has.get(_identity(use), ()))) for use in had]
    return tuple(it for it in found if it.was.version not in {use.version for use in it.now})


def _objects(tree: Tree, words: set[str]) -> Iterator[Use]:
    """Yield Flux's objects in the files that have one of the words."""
    for file in tree.files:
        if PurePosixPath(file.path).suffix.lower() in PROSE or _FLUX not in file.content:
            continue
        if any(word.encode() in file.content for word in words):
            yield from (use for use in uses(file.content, file.path) if use.how is How.OBJECT)


def _identity(use: Use) -> tuple[str, str, str]:
    return use.group, use.kind, use.name


def _version(use: Use) -> tuple[str, str, str]:
    return use.group, use.kind, use.version


class Managing(Struct, frozen=True):
    """The definitions of before and of after a step, what clusters say of their objects, what the overlay gives up."""

    before: Mapping[str, Crd]
    after: Mapping[str, Crd]
    snapshots: Sequence[Snapshot]
    edits: Sequence[GivenUp]

    def known(self) -> Iterator[Hazard]:
        """Yield what the snapshots prove, for each definition and version."""
        for new in (self.after[name] for name in sorted(self.after)):
            stale = [
                (snapshot.name, it)
                for snapshot in self.snapshots
                for it in snapshot.managed
                if (it.group, it.kind) == (new.group, new.kind) and it.version not in new.names
            ]
            for version in newest_first({it.version for _, it in stale}):
                yield from self._stale(new, version, [(name, it) for name, it in stale if it.version == version])

    def _stale(self, new: Crd, version: str, stale: list[tuple[str, Managed]]) -> Iterator[Hazard]:
        edited = {(*it.identity, it.was.version) for it in self.edits if it.now}
        for certainty, next_apply in (
            (Certainty.CERTAIN, "its next server-side apply"),
            (Certainty.POSSIBLE, "a server-side apply of it, which has not happened yet,"),
        ):
            chosen = [
                (name, it)
                for name, it in stale
                if (it.applied or _key(it) in edited) == (certainty is Certainty.CERTAIN)
            ]
            files = sorted({name for name, _ in chosen})
            objects = sorted({it.object for _, it in chosen})
            if chosen:
                yield Hazard(
                    GATE,
                    certainty,
                    f"{new.name} {version} managedFields{within(files)}",
                    f"{version} stands in the managedFields of {new.kind} {some_of(objects)} ({some_of(files)}): "
                    f"{next_apply} is refused ({_refusal(new, version)})",
                    tuple(Place(file) for file in files),
                    self._remedies(new, edited=any(_key(it) in edited for _, it in chosen)),
                )

    def expected(self) -> Iterator[Hazard]:
        """Yield what the overlay gives up, for each definition and version: written anew where no snapshot knows it."""
        known = {_key(it)[:3] for snapshot in self.snapshots for it in snapshot.managed}
        found: dict[tuple[bool, str, str], list[GivenUp]] = {}
        for it in self.edits:
            if not it.now or it.identity not in known:
                found.setdefault((bool(it.now), it.crd.name, it.was.version), []).append(it)
        for (kept, name, version), edits in sorted(found.items(), key=lambda item: item[0]):
            yield (self._rewritten if kept else self._left_out)(self.after[name], version, edits)

    def _rewritten(self, new: Crd, version: str, edits: list[GivenUp]) -> Hazard:
        return Hazard(
            GATE,
            Certainty.POSSIBLE,
            f"{new.name} {version} formerly{within(_files(edits))}",
            f"{_had(new, version, edits)}, and has it in another version now: in clusters {version} is still in its "
            f"managedFields, and the API server refuses this step as soon as that version is gone "
            f"({_refusal(new, version)})",
            tuple(sorted({Place(use.file, use.line) for it in edits for use in it.now})),
            self._remedies(new, edited=True),
        )

    def _left_out(self, new: Crd, version: str, edits: list[GivenUp]) -> Hazard:
        return Hazard(
            GATE,
            Certainty.POSSIBLE,
            f"{new.name} {version} left out{within(_files(edits))}",
            f"{_had(new, version, edits)}, and leaves it out now: kustomize-controller looks for it in {version} to "
            f"prune it, takes it for deleted where that version is gone, and leaves it in the cluster",
            (),
            ("Publish the edit of the overlay first, without the release: it is pruned then.", TAKE),
        )

    def _remedies(self, new: Crd, *, edited: bool) -> tuple[str, ...]:
        old = self.before.get(new.name, new)
        if old.storage not in new.names:  # the command writes what is stored
            return (forget_managers(new),)
        return (*(edit_first(old, new) if edited else (f"{MIGRATE} before this step.",)), forget_managers(new))


def _files(edits: Sequence[GivenUp]) -> list[str]:
    return sorted({it.was.file for it in edits})


def _had(crd: Crd, version: str, edits: Sequence[GivenUp]) -> str:
    names = list(dict.fromkeys(it.was.name for it in edits))
    return f"the overlay had {crd.kind} {version} ({some_of(names)}) in {some_of(_files(edits))}"


def _key(it: Managed) -> tuple[str, str, str, str]:
    return it.group, it.kind, it.name, it.version


def _refusal(crd: Crd, version: str) -> str:
    return f"request to convert CR to an invalid group/version: {crd.group}/{version}"
