"""The overlay that `setup` begins with: what is there, what a bootstrapped folder has, or one that adds nothing yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.tree import COMPONENTS_PATH, Tree
from ci_automation.flows.workspace import UnfitOverlayFile, read_overlay_folder, require_overlay_path
from ci_automation.impact.overlay.alone import kustomization_of
from ci_automation.impact.overlay.bootstrapped import COMPONENTS
from ci_automation.impact.overlay.kustomization import kustomization_file, lists

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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
