"""A folder that `flux bootstrap` made for a cluster, and how it differs from another one."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.errors import UsageError
from ci_automation.flows.files import read_folder
from ci_automation.flows.setting_up.configuration import added_patches, changed_file
from ci_automation.flux.options import DEFAULT_COMPONENTS, Options, as_arguments
from ci_automation.flux.recover import recover
from ci_automation.impact.overlay.bootstrapped import (
    COMPONENTS,
    SYNC,
    AppliedPath,
    covering,
    outside,
    without_sync,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ci_automation.flux.version import Version

_PLAIN = re.compile(r"[\w.][\w./+@-]*")  # what a shell reads as it is


class UnfitClusterFolder(UsageError):
    """A folder that `flux bootstrap` made cannot be taken over."""

    hint = "Nothing was written. In the action's repository, docs/guides/migration.md says what a folder must be."


class ClusterFolder(Struct, frozen=True, dict=True):
    """A folder that `flux bootstrap` made for a cluster; its files are without gotk-sync.yaml, which `applied` is of.

    Version and options are what gotk-components.yaml shows, not proven by a rendering.
    """

    path: str
    files: Tree
    version: Version
    options: Options
    applied: tuple[AppliedPath, ...]

    @cached_property
    def overlay(self) -> Tree:
        """Return the team's own files."""
        return self.files.without(COMPONENTS)

    @property
    def flags(self) -> dict[str, Any]:
        """Return the flags of `flux install` that made the components, as a person would write them."""
        found, usual = self.options.differing(), len(DEFAULT_COMPONENTS)
        if self.options.components[:usual] != DEFAULT_COMPONENTS or "components" not in found:
            return found
        return {"components-extra": found.pop("components")[usual:], **found}

    def is_as(self, other: ClusterFolder) -> bool:
        """Return whether at most the version and the bytes of the components differ."""
        alike = self.overlay.by_path == other.overlay.by_path and self.options == other.options
        return alike and self.applies_as(other)

    def has_components_of(self, other: ClusterFolder) -> bool:
        """Return whether the components are the same to the byte."""
        return self.version == other.version and self.files[COMPONENTS] == other.files[COMPONENTS]

    def differs(self, other: ClusterFolder) -> Iterator[str]:
        """Yield what else than the version differs from another folder."""
        ours, theirs = self.overlay.by_path, other.overlay.by_path
        for path in sorted(path for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path)):
            has, other_has = ours.get(path), theirs.get(path)
            yield (
                f"{path} (added)" if not other_has else f"{path} (missing)" if not has else changed_file(has, other_has)
            )
        if not self.applies_as(other):
            yield SYNC
        if self.options != other.options:
            yield f"options of `flux install` ({self._flags_beside(other)})"
        elif self.version == other.version and self.files[COMPONENTS] != other.files[COMPONENTS]:
            yield COMPONENTS

    def _flags_beside(self, other: ClusterFolder) -> str:
        ours, theirs = as_arguments(self.flags), as_arguments(other.flags)
        lacks = sorted(f"no --{it}" for it in other.flags.keys() - self.flags.keys())
        return ", and ".join(filter(None, (" ".join(it for it in ours if it not in theirs), ", ".join(lacks))))

    def applies_as(self, other: ClusterFolder) -> bool:
        """Return whether the objects by which Git applies a folder are called as those of another one."""
        return [it.names for it in self.applied] == [it.names for it in other.applied]

    def patches_beside(self, other: ClusterFolder) -> tuple[Mapping[str, Any], ...]:
        """Return the patches that this folder has and another one lacks, if nothing else differs."""
        without = replace(self, files=other.overlay.replaced(COMPONENTS, self.files[COMPONENTS]))
        return () if any(without.differs(other)) else added_patches(self.overlay, other.overlay)


def read_cluster_folder(top: Path, path: str) -> ClusterFolder:
    """Return a folder of a clone that `flux bootstrap` made.

    Raises:
        UnfitClusterFolder: it cannot be taken over.
    """
    if not is_plain(path):
        raise UnfitClusterFolder(f"{path} cannot be taken over: its path has characters that a shell would read")
    try:
        tree = read_folder(top / path)
        texts = {file.path: file.content.decode() for file in tree.files}
        made, found = recover(texts[COMPONENTS], COMPONENTS), outside(tree)
        folder = ClusterFolder(path, without_sync(tree), made.version, made.options, covering(tree, path))
    except UnicodeDecodeError:
        raise UnfitClusterFolder(f"{path} has a file that is not text in UTF-8") from None
    except UsageError as error:
        raise UnfitClusterFolder(f"{path} cannot be taken over: {error}") from None
    if found:
        raise UnfitClusterFolder(f"{path} refers to what is outside of it: {', '.join(found)}")
    return folder


def read_cluster_folders(top: Path, paths: Sequence[str]) -> tuple[dict[str, ClusterFolder], dict[str, str]]:
    """Return folders of a clone by their paths, and why others cannot be read.

    Raises:
        UnfitClusterFolder: the first of them cannot be.
    """
    read, unfit = {paths[0]: read_cluster_folder(top, paths[0])}, {}
    for path in paths[1:]:
        try:
            read[path] = read_cluster_folder(top, path)
        except UnfitClusterFolder as error:
            unfit[path] = str(error)
    return read, unfit


def is_plain(path: str) -> bool:
    """Return whether a shell reads a path as it is."""
    return _PLAIN.fullmatch(path) is not None


def prunes(top: Path, path: str) -> bool:
    """Return whether Git prunes for the cluster that has a folder."""
    tree = Tree((TreeFile(SYNC, (top / path / SYNC).read_bytes()),))
    return all(it.prune for it in covering(tree, path))
