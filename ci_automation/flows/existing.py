"""An artifact that is there before this program: its files, and the version and options that its components show."""

from __future__ import annotations

import posixpath
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.archive import read_archive
from ci_automation.artifact.manifest import InvalidManifest
from ci_automation.artifact.tree import Tree
from ci_automation.flows.cluster_folders import ClusterFolder
from ci_automation.flux.components import unpin
from ci_automation.flux.recover import recover
from ci_automation.impact.overlay.bootstrapped import COMPONENTS, UnfitBootstrap, without_sync
from ci_automation.impact.overlay.kustomization import kustomization_file

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Reference
    from ci_automation.flux.options import Options
    from ci_automation.flux.version import Version
    from ci_automation.impact.overlay.bootstrapped import AppliedPath
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
