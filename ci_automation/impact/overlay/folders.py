"""The folders of an artifact that clusters can apply, and the objects in each.

A Kustomization's path says the folder, and only the clusters know it; `./` is what this program's guide tells people.
Where the folder has no kustomization, kustomize-controller makes one before it builds: it lists every folder below that
has one, and every other YAML file (`Generator.WriteFile` of fluxcd/pkg/kustomize).
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import Struct, field

from ci_automation.artifact.yaml import NOT_YAML, BeyondLimits, Unreadable, nodes
from ci_automation.impact.change import ObjectId, Place
from ci_automation.impact.objects import LARGE, Listed, listed_objects
from ci_automation.impact.overlay.kustomization import (
    NAMES,
    Effort,
    Kustomization,
    Named,
    joined,
    kustomization,
    kustomization_file,
    text_of,
    to_read,
    to_skim,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ci_automation.artifact.tree import Tree

_T = TypeVar("_T")
ROOT = "."
_FILE = 10  # steps for each file, to look at its path
_YAML = frozenset({".yaml", ".yml"})
_MAX_VISITS = 500
_MAX_ABOVE = 100  # each is some calls within calls
_ADDED = 5  # steps for each object


class Fault(NamedTuple):
    """Why kustomize will not build something, as far as that shows without it; `is_sure` says that no cluster will."""

    sentence: str
    place: Place
    is_sure: bool


class Gathered(Struct):
    """What a folder gathers: its objects, what is wrong, what is elsewhere, and the files and folders it is made of.

    `kustomizations` are in the order in which kustomize carries out their rules; `only_lists` says that none has any.
    """

    listed: list[Listed] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    remotes: list[Named] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    kustomizations: dict[str, Kustomization] = field(default_factory=dict)
    only_lists: bool = True

    @property
    def ids(self) -> frozenset[ObjectId]:
        """Return what clusters know the objects by, where no rule changes that; those for kustomize alone are out."""
        return frozenset(each.id for each in self.listed if not each.is_local)

    @property
    def garbled(self) -> tuple[Fault, ...]:
        """Return the files that are not YAML; any other that no kustomization lists may be there for something else."""
        return tuple(fault for fault in self.faults if NOT_YAML in fault.sentence)

    def fault(self, sentence: str, place: Place, *, is_sure: bool = True) -> None:
        """Note what is wrong."""
        self.faults.append(Fault(sentence, place, is_sure))

    def unreadable(self, file: str, error: Unreadable) -> None:
        """Note a file that cannot be read."""
        place = Place(file, error.line)
        self.fault(f"{place} cannot be read: {error}", place, is_sure=not isinstance(error, BeyondLimits))


def gathered(tree: Tree, folder: str, effort: Effort) -> Gathered:
    """Return what the kustomization in `folder` (`.` for the root) gathers out of the tree.

    Raises:
        TooMuch: to follow it is more than what is left of the effort.
    """
    walk = _Walk(tree, effort)
    walk.result.listed = list(walk.kustomization(folder, {}, Place(folder), ()).values())
    return walk.result


class _Walk:
    """One way through a kustomization and all that it refers to."""

    def __init__(self, tree: Tree, effort: Effort) -> None:
        self.result = Gathered()
        self._tree, self._effort, self._directories = tree, effort, tree.directories | {"."}
        self._visits = 0
        self._patches: set[str] = set()

    def kustomization(
        self, folder: str, known: dict[tuple[str, ...], Listed], place: Place, above: tuple[str, ...]
    ) -> dict[tuple[str, ...], Listed]:
        """Return what was known, with what the kustomization in a folder adds."""
        self._visits += 1
        self.result.folders.add(folder)
        if len(above) >= _MAX_ABOVE or folder in above or self._visits > _MAX_VISITS:
            self.result.fault(f"{folder} refers to itself, or to too many others", place, is_sure=folder in above)
            return known
        file = kustomization_file(self._tree, folder) or folder
        try:
            found = kustomization(self._tree, folder, self._effort)
        except Unreadable as error:
            self.result.files.add(file)
            self.result.unreadable(file, error)
            return known
        if found is None:
            self.result.fault(f"{folder} has no kustomization", place)
        else:
            self.result.files.add(file)
            self._follow(found, known, (*above, folder))
        return known

    def _follow(self, found: Kustomization, known: dict[tuple[str, ...], Listed], above: tuple[str, ...]) -> None:
        self.result.only_lists &= found.only_lists
        for reference in found.files:
            self._is_remote(found, reference)
        for reference in found.patch_files:
            path = joined(found.folder, reference.path)
            if path not in self._tree.by_path:
                self.result.fault(self._tree.absent(found.folder, reference.path), reference.place)
            elif path not in self._patches:
                self._patches.add(path)
                self._read(path, nodes)
        for reference in found.unknown:
            self.result.fault(f"kustomize knows no field {reference.path}", reference.place, is_sure=False)
        for reference in found.resources:
            self._resource(found, reference, known, above)
        for reference in found.components:
            if not self._is_remote(found, reference):
                self.kustomization(joined(found.folder, reference.path), known, reference.place, above)
        self.result.kustomizations.setdefault(found.file, found)

    def _is_remote(self, found: Kustomization, reference: Named) -> bool:
        """Return whether something is fetched; kustomize does so where the artifact has a folder that is called alike.

        A file comes before all but a download (`fileLoader.Load`, `fileLoader.New`).
        """
        is_file = joined(found.folder, reference.path) in self._tree.by_path
        if not reference.is_remote or (is_file and not reference.is_download):
            return False
        self.result.remotes.append(reference)
        return True

    def _resource(
        self, found: Kustomization, reference: Named, known: dict[tuple[str, ...], Listed], above: tuple[str, ...]
    ) -> None:
        path = joined(found.folder, reference.path)
        if self._is_remote(found, reference):
            return
        if path in self._tree.by_path:
            self.result.files.add(path)
            self._add(self._read(path, lambda written: listed_objects(written, path)) or (), known)
        elif path in self._directories:
            self._add(self.kustomization(path, {}, reference.place, above).values(), known)
        else:
            self.result.fault(self._tree.absent(found.folder, reference.path), reference.place)

    def _read(self, path: str, read: Callable[[str], _T]) -> _T | None:
        """Return what a file says, or None where it cannot be read, which is told."""
        try:
            written = text_of(self._tree[path])
            self._effort.spend(to_skim(written) if len(written) > LARGE else to_read(written))
            return read(written)
        except Unreadable as error:
            self.result.unreadable(path, error)
            return None

    def _add(self, new: Iterable[Listed], known: dict[tuple[str, ...], Listed]) -> None:
        for each in new:
            self._effort.spend(_ADDED)
            if each.key in known:
                where = f"{known[each.key].place} and {each.place}"
                sure = self.result.only_lists  # rules can give one of them another name
                self.result.fault(f"{each.id} is there twice: {where}", each.place, is_sure=sure)
            known.setdefault(each.key, each)


class AppliedFolder(Struct, frozen=True):
    """A folder that a cluster can apply: the files that it is built from, and what it gathers.

    `is_made` says that the folder has no kustomization, so that the one in `tree` is as kustomize-controller makes it.
    """

    folder: str
    tree: Tree
    is_made: bool
    gathered: Gathered


def applied_folder(tree: Tree, folder: str, effort: Effort) -> AppliedFolder:
    """Return what a cluster gets whose Kustomization has this path.

    Raises:
        TooMuch: to follow it is more than what is left of the effort.
    """
    effort.spend(_FILE * len(tree.files))
    is_made = not any(joined(folder, name) in tree.by_path for name in NAMES)
    built = tree.replaced(joined(folder, NAMES[0]), _made(tree, folder)) if is_made else tree
    return AppliedFolder(folder, built, is_made, gathered(built, folder, effort))


def folders(tree: Tree) -> tuple[str, ...]:
    """Return the folders that have a kustomization."""
    found = (PurePosixPath(path) for path in tree.by_path)
    return tuple(sorted({str(path.parent) for path in found if path.name in NAMES}))


def applied_folders(tree: Tree, components: str, effort: Effort) -> tuple[AppliedFolder, ...]:
    """Return the folders through which clusters can get the components; none where no cluster can.

    A kustomization that another one refers to is part of that one. Where the root has none, what kustomize-controller
    makes of the root counts, if it works: an artifact with a folder for each cluster is not applied as a whole.

    Raises:
        TooMuch: to find and to follow them is more than what is left of the effort.
    """
    effort.spend(_FILE * len(tree.files))
    own = folders(tree)
    explicit = tuple(applied_folder(tree, folder, effort) for folder in _roots(tree, own, components, effort))
    others = explicit or _beside(tree, components, own, effort)
    if ROOT in own:
        return others
    whole = applied_folder(tree, ROOT, effort)
    if components not in whole.gathered.files:
        return others
    if not whole.gathered.faults:
        return (whole, *(each for each in explicit if each.folder not in whole.gathered.folders))
    works = explicit or tuple(each for each in others if not each.gathered.faults)
    return works or (whole,)


def _beside(tree: Tree, components: str, own: tuple[str, ...], effort: Effort) -> tuple[AppliedFolder, ...]:
    """Return the folder of the components file alone, unless it has a kustomization that leaves them out."""
    folder = str(PurePosixPath(components).parent)
    return () if folder in own else (applied_folder(tree, folder, effort),)


def _roots(tree: Tree, own: tuple[str, ...], components: str, effort: Effort) -> Iterator[str]:
    """Yield the folders whose kustomization reaches the components file and that no other one refers to."""
    graph = {folder: _refers_to(tree, folder, effort) for folder in own}
    referred = {each for folder, each_refers in graph.items() for each in each_refers if each != folder}
    for folder in own:
        if folder not in referred and components in _reached(graph, folder, effort):
            yield folder


def _refers_to(tree: Tree, folder: str, effort: Effort) -> frozenset[str]:
    try:
        found = kustomization(tree, folder, effort)
    except Unreadable:
        return frozenset()
    assert found is not None  # noqa: S101  # for the type checker: the folder has one
    return frozenset(joined(folder, reference.path) for reference in (*found.resources, *found.components))


def _reached(graph: dict[str, frozenset[str]], folder: str, effort: Effort) -> set[str]:
    reached: set[str] = set()
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        if here not in reached:
            reached.add(here)
            waiting += graph.get(here, ())
            effort.spend(1 + len(graph.get(here, ())))
    return reached


def _made(tree: Tree, folder: str) -> bytes:
    """Return the kustomization that kustomize-controller makes for a folder without one."""
    own = {PurePosixPath(each) for each in folders(tree)}
    listed = set()
    for path in map(PurePosixPath, tree.by_path):
        if not path.is_relative_to(folder):
            continue
        above = [each for each in reversed(path.parents) if each in own and each != PurePosixPath(folder)]
        inside = [each for each in above if each.is_relative_to(folder)]
        if inside:
            listed.add(inside[0])
        elif path.suffix in _YAML:
            listed.add(path)
    names = (f"./{path.relative_to(folder)}" for path in sorted(listed, key=lambda each: each.parts))
    return "".join(["resources:\n", *(f"- {json.dumps(name)}\n" for name in names)]).encode()
