"""Which folders of an artifact clusters can apply, and what each gives them.

A Kustomization's path says the folder, and only the clusters know it; `./` is what this program's guide tells people.
Where the folder has no kustomization, kustomize-controller makes one before it builds: it lists every folder below that
has one, and every other YAML file (`Generator.WriteFile` of fluxcd/pkg/kustomize).
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.yaml import Unreadable
from ci_automation.overlay.gathered import gathered
from ci_automation.overlay.kustomization import NAMES, joined, kustomization

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.artifact.tree import Tree
    from ci_automation.overlay.gathered import Gathered
    from ci_automation.overlay.limits import Effort

ROOT = "."
_FILE = 10  # steps for each file, to look at its path
_YAML = frozenset({".yaml", ".yml"})


class AppliedFolder(Struct, frozen=True):
    """A folder that a cluster can apply: the files that it is built from, and what it gathers.

    `is_made` says that the folder has no kustomization, so that the one in `tree` is as kustomize-controller makes it.
    """

    folder: str
    tree: Tree
    is_made: bool
    gathered: Gathered


def entry(tree: Tree, folder: str, effort: Effort) -> AppliedFolder:
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


def entries(tree: Tree, components: str, effort: Effort) -> tuple[AppliedFolder, ...]:
    """Return the entries through which clusters can get the components; none where no cluster can.

    A kustomization that another one refers to is part of that one. Where the root has none, what kustomize-controller
    makes of the root counts, if it works: an artifact with a folder for each cluster is not applied as a whole.

    Raises:
        TooMuch: to find and to follow them is more than what is left of the effort.
    """
    effort.spend(_FILE * len(tree.files))
    own = folders(tree)
    explicit = tuple(entry(tree, folder, effort) for folder in _roots(tree, own, components, effort))
    others = explicit or _beside(tree, components, own, effort)
    if ROOT in own:
        return others
    whole = entry(tree, ROOT, effort)
    if components not in whole.gathered.files:
        return others
    if not whole.gathered.faults:
        return (whole, *(each for each in explicit if each.folder not in whole.gathered.folders))
    works = explicit or tuple(each for each in others if not each.gathered.faults)
    return works or (whole,)


def _beside(tree: Tree, components: str, own: tuple[str, ...], effort: Effort) -> tuple[AppliedFolder, ...]:
    """Return the folder of the components file alone, unless it has a kustomization that leaves them out."""
    folder = str(PurePosixPath(components).parent)
    return () if folder in own else (entry(tree, folder, effort),)


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
