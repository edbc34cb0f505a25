"""The own files of a channel: of an artifact that is there, of a folder of the clone, or new ones."""

from __future__ import annotations

import posixpath
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.archive import read_archive
from ci_automation.artifact.manifest import InvalidManifest
from ci_automation.artifact.tree import COMPONENTS_PATH, Tree
from ci_automation.flows.setting_up.cluster_folder import ClusterFolder
from ci_automation.flows.workspace import UnfitOverlayFile, read_overlay_folder, require_overlay_path
from ci_automation.flux.recover import recover
from ci_automation.flux.text import unpin
from ci_automation.impact.overlay.bootstrapped import COMPONENTS, AppliedPath, UnfitBootstrap, without_sync
from ci_automation.impact.overlay.kustomization import kustomization_file, kustomization_of, lists

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ci_automation.artifact.reference import Reference
    from ci_automation.flux.options import Options
    from ci_automation.flux.version import Version
    from ci_automation.registry.port import Registry


class Existing(Struct, frozen=True):
    """A channel that is there; `components` is the path of Flux's components among its files. No signature was read."""

    channel: Reference
    tree: Tree
    components: str
    version: Version
    options: Options

    @property
    def overlay(self) -> Tree:
        """Return the team's own files."""
        return self.tree.without(self.components)

    def unlike(self, top: Path, folder: str | None) -> tuple[str, ...]:
        """Return which of the team's own files are not the same in a folder of the clone."""
        ours = first_overlay(top, folder, self.overlay, complete=True).tree if folder else self.overlay
        return tuple(sorted({it.path for it in {*ours.files} ^ {*self.overlay.files}}))

    def as_folder(self, applied: tuple[AppliedPath, ...]) -> ClusterFolder:
        """Return the files as a cluster's folder that Git applies would have them, beside Flux's components."""
        above = f"{posixpath.dirname(self.components)}/"
        is_below = all(it.path.startswith(above) for it in self.tree.files)
        moved = {it.path: it.path.removeprefix(above if is_below else "") for it in self.tree.files}
        moved[self.components] = COMPONENTS
        files = Tree(tuple(replace(it, path=moved[it.path]) for it in self.tree.files))
        if (path := kustomization_file(files, ".")) and not is_below:
            files = files.replaced(path, files[path].replace(self.components.encode(), COMPONENTS.encode()))
        with suppress(UnfitBootstrap):
            files = without_sync(files)
        return ClusterFolder(str(self.channel), files, self.version, self.options, applied)


def read_existing(channel: Reference, registry: Registry) -> Existing:
    """Return what a channel has.

    Raises:
        Error: it cannot be read, or is no Flux.
    """
    tree = read_archive(registry.blob(channel, registry.manifest(channel).layers[0]))
    path = tree.components_path()
    try:
        recovered = recover(unpin(tree[path].decode())[0], path)
    except UnicodeDecodeError:
        raise InvalidManifest(f"{path} is not text") from None
    return Existing(channel, tree, path, recovered.version, recovered.options)


_NOTE = """\
# {components} is not in Git: each run renders it into the artifact. So `kustomize build` fails here.
# In your own CI leave this folder out, for preview.yaml builds it in each pull request; or build a copy that has the
# file, as docs/guides/overlay-from-git.md#your-own-ci in the action's repository shows.
"""


class FirstOverlay(Struct, frozen=True):
    """An overlay: all of its files, and those to write, by their paths in the repository."""

    tree: Tree
    new: Mapping[str, str]

    @property
    def components(self) -> str:
        """Return the path of Flux's components in the artifact: as `flux bootstrap` lists it, or else the usual one."""
        return COMPONENTS if lists(self.tree, COMPONENTS) else COMPONENTS_PATH


def first_overlay(top: Path, folder: str | None, taken: Tree | None, *, complete: bool = False) -> FirstOverlay:
    """Return the overlay of a folder of the clone; if it is not there, with the files that a channel has `taken` over.

    They get a kustomization if they have none, and are not the `complete` files of an artifact.

    Raises:
        UnfitOverlayFolder, UnfitOverlayFile, ConcealedOverlay: the folder cannot be an overlay.
    """
    if folder is None:
        return FirstOverlay(Tree(()), {})
    require_overlay_path(folder)
    if (top / folder).exists():
        return FirstOverlay(read_overlay_folder(top, folder).tree, {})
    tree = Tree(()) if taken is None else taken
    if not complete and kustomization_file(tree, ".") is None:
        components = COMPONENTS_PATH if taken is None else COMPONENTS
        note = _NOTE.format(components=components).encode()
        tree = tree.replaced("kustomization.yaml", note + kustomization_of(components))
    try:
        new = {f"{folder}/{it.path}": it.content.decode() for it in tree.files}
    except UnicodeDecodeError:
        raise UnfitOverlayFile(folder, "would get a file that is not text: make the folder by `pull`") from None
    return FirstOverlay(tree, dict(sorted(new.items())))
