"""What a kustomization gathers and what its rules hit, followed step by step as kustomize 5 does it.

The order is that of `KustTarget.accumulateTarget`: resources, generators, components, then the transformers. What
plugins and vars do is not followed. This tells which rule hits what; whether an overlay can be built, kustomize tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.artifact.yaml_events import Unreadable
from ci_automation.impact.hazard import Place
from ci_automation.overlay.kustomization_file import joined, kustomization_file, read, text_of
from ci_automation.overlay.objects import Id, Object, objects
from ci_automation.overlay.resource import Accumulated, Problem, Resource
from ci_automation.overlay.transform import Transformation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_automation.artifact.tree import Tree
    from ci_automation.overlay.effort import Effort
    from ci_automation.overlay.kustomization import Generated, Kustomization, Reference

_MAX_VISITS = 500
_MAX_ABOVE = 100  # each is some calls within calls
_ADDED = 5  # steps for each object
# A kustomization with nothing else only lists: what it gives is what it lists.
_LISTS = frozenset({"apiVersion", "kind", "resources"})


def accumulate(tree: Tree, folder: str, effort: Effort) -> Accumulated:
    """Return what the kustomization in `folder` (`.` for the root) gathers out of the tree.

    Raises:
        TooMuch: to follow it is more than what is left of the effort.
    """
    walk = _Walk(tree, effort)
    walk.result.resources = walk.kustomization(folder, [], Place(folder), ())
    return walk.result


class _Walk:
    """One way through a kustomization and all that it refers to."""

    def __init__(self, tree: Tree, effort: Effort) -> None:
        self.result = Accumulated()
        self._effort = effort
        self._tree, self._files, self._directories = tree, tree.by_path, tree.directories | {"."}
        self._visits = 0
        self._read: dict[str, tuple[Object, ...]] = {}

    def kustomization(
        self, folder: str, gathered: list[Resource], place: Place, above: tuple[str, ...]
    ) -> list[Resource]:
        """Return what was gathered, with what the kustomization in a folder adds, and does to it."""
        self._visits += 1
        self.result.folders.add(folder)
        if len(above) >= _MAX_ABOVE or folder in above or self._visits > _MAX_VISITS:
            self._problem(f"{folder} refers to itself, or to too many others", place)
            return gathered
        try:
            found = read(self._tree, folder, self._effort)
        except Unreadable as error:
            file = kustomization_file(self._tree, folder) or folder
            self.result.files.add(file)
            self._problem(f"{file} cannot be read: {error}", Place(file, error.line))
            return gathered
        if found is None:
            self._problem(f"{folder} has no kustomization", place)
            return gathered
        self.result.files.add(found.file)
        self._note(found)
        self._add(self._own(found, (*above, folder)), gathered)
        for reference in found.components:
            if not self._is_remote(found, reference):
                gathered = self.kustomization(
                    joined(folder, reference.path), gathered, reference.place, (*above, folder)
                )
        return Transformation(self.result, found, gathered, self._effort).run()

    def _note(self, found: Kustomization) -> None:
        self.result.only_lists &= found.is_usual and found.fields <= _LISTS
        for reference in found.files:
            self._is_remote(found, reference)
        for reference in found.unknown:
            self._problem(f"kustomize knows no field {reference.path}", reference.place)

    def _is_remote(self, found: Kustomization, reference: Reference) -> bool:
        """Return whether something is fetched; kustomize does so where the artifact has a folder that is called alike.

        A file comes before all but a download (`fileLoader.Load`, `fileLoader.New`).
        """
        is_file = joined(found.folder, reference.path) in self._files
        if not reference.is_remote or (is_file and not reference.is_download):
            return False
        self.result.remotes.append(reference)
        return True

    def _own(self, found: Kustomization, above: tuple[str, ...]) -> Iterator[Resource]:
        """Yield what a kustomization lists, and what it makes."""
        for reference in found.resources:
            yield from self._resource(found, reference, above)
        for each in found.generated:
            yield from _generated(each)

    def _resource(self, found: Kustomization, reference: Reference, above: tuple[str, ...]) -> Iterator[Resource]:
        path = joined(found.folder, reference.path)
        if self._is_remote(found, reference):
            return
        if path in self._files:
            yield from map(Resource, self._objects(path))
        elif path in self._directories:
            yield from self.kustomization(path, [], reference.place, above)
        else:
            self._problem(f"{reference.path} is not in the artifact", reference.place)

    def _objects(self, path: str) -> tuple[Object, ...]:
        self.result.files.add(path)
        if path not in self._read:
            try:
                self._read[path] = objects(text_of(self._files[path].content), path, self._effort)
            except Unreadable as error:
                self._problem(f"{path} cannot be read: {error}", Place(path, error.line))
                return ()
        return self._read[path]

    def _add(self, new: Iterable[Resource], gathered: list[Resource]) -> None:
        self._effort.spend(len(gathered))
        known = {each.current.key: each for each in gathered}
        for each in new:
            self._effort.spend(_ADDED)
            if (first := known.get(each.current.key)) is not None:
                where = f"{first.source.place} and {each.source.place}"
                self._problem(f"{each.current.object} is there twice: {where}", each.source.place)
                continue
            known[each.current.key] = each
            gathered.append(each)

    def _problem(self, sentence: str, place: Place) -> None:
        self.result.problems.append(Problem(sentence, place))


def _generated(each: Generated) -> Iterator[Resource]:
    """Yield a generated object; its name gets the hash of its content last of all, which no rule sees."""
    if not each.merges:
        value = {"apiVersion": "v1", "kind": each.kind, "metadata": {"name": each.name, "namespace": each.namespace}}
        yield Resource(Object(Id.of(value), each.place, {}, {}, whole=value))
