"""What a folder gives to clusters, as far as that shows without kustomize: its files, and the objects in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from ci_automation.artifact.yaml import Unreadable
from ci_automation.impact.hazard import Place
from ci_automation.overlay.kustomization import joined, kustomization, kustomization_file, text_of
from ci_automation.overlay.limits import to_read, to_skim
from ci_automation.overlay.objects import LARGE, objects

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.artifact.tree import Tree
    from ci_automation.impact.change import ObjectId
    from ci_automation.overlay.kustomization import Kustomization, Named
    from ci_automation.overlay.limits import Effort
    from ci_automation.overlay.objects import Listed

_MAX_VISITS = 500
_MAX_ABOVE = 100  # each is some calls within calls
_ADDED = 5  # steps for each object


class Fault(NamedTuple):
    """Why kustomize will not build something, as far as that shows without it."""

    sentence: str
    place: Place


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

    def fault(self, sentence: str, place: Place) -> None:
        """Note what is wrong."""
        self.faults.append(Fault(sentence, place))


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

    def kustomization(
        self, folder: str, known: dict[tuple[str, ...], Listed], place: Place, above: tuple[str, ...]
    ) -> dict[tuple[str, ...], Listed]:
        """Return what was known, with what the kustomization in a folder adds."""
        self._visits += 1
        self.result.folders.add(folder)
        if len(above) >= _MAX_ABOVE or folder in above or self._visits > _MAX_VISITS:
            self.result.fault(f"{folder} refers to itself, or to too many others", place)
            return known
        file = kustomization_file(self._tree, folder) or folder
        try:
            found = kustomization(self._tree, folder, self._effort)
        except Unreadable as error:
            self.result.files.add(file)
            self.result.fault(f"{file} cannot be read: {error}", Place(file, error.line))
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
            if joined(found.folder, reference.path) not in self._tree.by_path:
                self.result.fault(f"{reference.path} is not in the artifact", reference.place)
        for reference in found.unknown:
            self.result.fault(f"kustomize knows no field {reference.path}", reference.place)
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
            self._add(self._objects(path), known)
        elif path in self._directories:
            self._add(self.kustomization(path, {}, reference.place, above).values(), known)
        else:
            self.result.fault(f"{reference.path} is not in the artifact", reference.place)

    def _objects(self, path: str) -> tuple[Listed, ...]:
        self.result.files.add(path)
        try:
            written = text_of(self._tree[path])
            self._effort.spend(to_skim(written) if len(written) > LARGE else to_read(written))
            return objects(written, path)
        except Unreadable as error:
            self.result.fault(f"{path} cannot be read: {error}", Place(path, error.line))
            return ()

    def _add(self, new: Iterable[Listed], known: dict[tuple[str, ...], Listed]) -> None:
        for each in new:
            self._effort.spend(_ADDED)
            if each.key in known:
                where = f"{known[each.key].place} and {each.place}"
                self.result.fault(f"{each.id} is there twice: {where}", each.place)
            known.setdefault(each.key, each)
