"""The folders that `flux bootstrap` made for clusters: what the artifact takes over, and which channel is for whom."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.errors import UsageError
from ci_automation.flows.files import read_folder
from ci_automation.flows.setting_up.cluster_names import ANY, ClusterNames, folders_by_channel
from ci_automation.flows.setting_up.configuration import (
    added_patches,
    changed_file,
    changed_patches,
    images_beside,
)
from ci_automation.flux.options import DEFAULT_COMPONENTS, Options, as_arguments
from ci_automation.flux.recover import recover
from ci_automation.impact.change import some_of
from ci_automation.impact.overlay.bootstrapped import (
    COMPONENTS,
    SYNC,
    AppliedPath,
    covering,
    outside,
    without_sync,
)
from ci_automation.impact.overlay.in_cluster import unfit_in_cluster, unlike_in_cluster
from ci_automation.impact.overlay.kustomization import listed_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ci_automation.flows.workspace import OverlayFolder
    from ci_automation.flux.version import Version
    from ci_automation.impact.change import ObjectId
    from ci_automation.impact.overlay.builder import Kustomize

_PLAIN = re.compile(r"[\w.][\w./+@-]*")  # what a shell reads as it is


class UnfitClusterFolder(UsageError):
    """A folder that `flux bootstrap` made cannot be taken over."""

    hint = "Nothing was written. In the action's repository, docs/guides/migration.md says what a folder must be."


class ClusterFolder(Struct, frozen=True):
    """A folder that `flux bootstrap` made for a cluster; its files are without gotk-sync.yaml, which `applied` is of.

    Version and options are what gotk-components.yaml shows, not proven by a rendering.
    """

    path: str
    files: Tree
    version: Version
    options: Options
    applied: tuple[AppliedPath, ...]

    @property
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


class Migration(Struct, frozen=True):
    """The folders of clusters by the channels that they are for, and why others cannot be read.

    The artifact takes over the files and the options of `source`, from which the fewest folders differ, or is it, if it
    is there already. `moving` are the names of clusters that come to a channel as the source does: those whose folders
    do not differ from it, or give the same objects as it does with `sync` of the channel, and those that a person has
    listed. Of each channel `written` is `sync.kustomization`; None: the channel is new, and gets the patches of all its
    folders. Of `all_there` clusters of `flux bootstrap`, also of other channels, `have_moved` are done.
    """

    source: ClusterFolder
    folders: Mapping[str, tuple[ClusterFolder, ...]]
    unfit: Mapping[str, str]
    names: ClusterNames
    moving: Mapping[str, tuple[str, ...]]
    written: Mapping[str, Mapping[str, Any] | None]
    all_there: int
    have_moved: int
    kustomize: Kustomize | None
    say: Callable[[str], None]
    _beside: dict[tuple[str, str], Mapping[str, list[Mapping[str, Any]]]] = field(default_factory=dict)
    _unlike: dict[tuple[Tree, Tree, str], tuple[ObjectId, ...] | None] = field(default_factory=dict)

    @property
    def every(self) -> tuple[ClusterFolder, ...]:
        """Return the folders of all channels."""
        return tuple(it for each in self.folders.values() for it in each)

    @property
    def version(self) -> Version:
        """Return the newest version of a cluster or the source: channels begin with it, so no cluster goes back."""
        return max(it.version for it in (self.source, *self.every))

    def beside(self, folder: ClusterFolder) -> Mapping[str, list[Mapping[str, Any]]]:
        """Return the patches and images with which clusters get of the source what a folder gives them.

        Patches that replace others count only if kustomize builds the same. Without an answer it takes more than that.
        """
        key = folder.path, self.source.path
        if key not in self._beside:
            self._beside[key] = self._found_beside(folder)
        return self._beside[key]

    def _found_beside(self, folder: ClusterFolder) -> Mapping[str, list[Mapping[str, Any]]]:
        if found := folder.patches_beside(self.source):
            return {"patches": [*found]}
        if folder.overlay == self.source.overlay and folder.applies_as(self.source):
            return {} if self.edited(folder) else images_beside(folder.options, self.source.options)
        changed = {"patches": [*changed_patches(folder.overlay, self.source.overlay)]}
        return changed if changed["patches"] and self.unlike(folder, changed) == () else {}

    def edited(self, folder: ClusterFolder) -> tuple[ObjectId, ...]:
        """Return the objects of Flux that other images alone do not explain, as kustomize builds them."""
        images = images_beside(folder.options, self.source.options) if folder.overlay == self.source.overlay else {}
        return (self.unlike(folder, images) or ()) if images else ()

    def kustomization(self, channel: str) -> Mapping[str, Any]:
        """Return what `sync.kustomization` of a channel has, or gets."""
        if (written := self.written.get(channel, {})) is not None:
            return written
        every = [self.beside(it) for it in self.folders.get(channel, ()) if not self.edited(it)]
        first, *others = every or [{}]
        return first if all(it == first for it in others) else {}

    def unlike(self, folder: ClusterFolder, kustomization: Mapping[str, Any]) -> tuple[ObjectId, ...] | None:
        """Return the objects that a cluster gets otherwise by a folder than by the source and a Kustomization.

        None says that kustomize did not build them, or that other versions and options cannot be told apart.
        """
        other_version, source = folder.version != self.source.version, self.source
        if self.kustomize is None or not folder.applies_as(source):
            return None
        if other_version and folder.options != source.options:
            return None
        files = source.overlay.replaced(COMPONENTS, (folder if other_version else source).files[COMPONENTS])
        key = folder.files, files, json.dumps(kustomization, sort_keys=True, default=str)
        if key not in self._unlike:
            self.say(f"building {folder.path} with kustomize")
            self._unlike[key] = unlike_in_cluster(folder.files, files, kustomization, self.kustomize)
        return self._unlike[key]

    def not_fitting(self, channel: str) -> tuple[str, ...]:
        """Return what of `sync.kustomization` of a channel does not fit the source, if there is kustomize to say so."""
        if self.kustomize is None:
            return ()
        self.say(f"building {self.source.path} with `sync` of {channel}")
        spec = {"path": "./", **self.kustomization(channel)}
        return tuple(it.sentence for it in unfit_in_cluster(None, self.source.files, spec, self.kustomize))

    def lacking(self, folder: ClusterFolder, channel: str) -> list[str]:
        """Return what a folder has, beside another version, that neither the source nor the channel's objects have."""
        own, there = self.beside(folder), self.kustomization(channel)
        has = own and all(it in listed_at(there, key) for key, items in own.items() for it in items)
        found = [] if has else [*folder.differs(self.source)]
        if found and (edited := self.edited(folder)):
            found.append(f"{COMPONENTS} beside that, in {some_of([*map(str, edited)])}")
        to_build = found and channel != ANY and (there or not own)  # else it has what it takes, and the channel not
        return [] if to_build and self.unlike(folder, there) == () else found

    def to_move_to(self, source: ClusterFolder, listed: Mapping[str, Sequence[str]]) -> Migration:
        """Return the same with another source: clusters move that do not differ from it, and those `listed` before."""
        its, moving = replace(self, source=source), {}
        for channel, there in listed.items():
            same = {self.names.name(it.path) for it in self.folders.get(channel, ()) if not its.lacking(it, channel)}
            if found := same.union(self.moving.get(channel, ())) & same.union(there):
                moving[channel] = tuple(sorted(found))
        return replace(its, moving=moving)

    def oldest(self, channel: str) -> Version:
        """Return the oldest version of a channel's clusters, which has to know the objects that follow the channel."""
        return min(it.version for it in self.folders.get(channel) or self.folders.get(ANY) or self.every)


def read_migration(
    top: Path,
    synced: Sequence[str],
    every: Mapping[str, Sequence[str]],
    channels: Mapping[str, Mapping[str, Any] | None],
    taken: OverlayFolder | None,
    kustomize: Kustomize | None,
    say: Callable[[str], None],
) -> Migration | None:
    """Return what the folders of a clone that `flux bootstrap` made have for these channels; None: there are none.

    Of these, `channels` has what `Migration.written` has. `synced` are also those that Git has left to the artifact.
    For each channel of the clone, `every` has the clusters that a person or an earlier run has listed. One of them
    stays as long as Git does not prune for it. A folder with the files that were `taken` over stays the source; without
    one they are it, unless a listed cluster has yet to move.

    Raises:
        UnfitClusterFolder: the folder that the artifact would take over cannot be read.
    """
    if not (paths := [it for it in synced if (top / it / COMPONENTS).is_file()]):
        return None
    names = ClusterNames.of(synced)
    named = {name: it for name, it in folders_by_channel(paths, names, every).items() if name in (*channels, ANY)}
    if not (order := [path for there in named.values() for path in there]):
        return None
    read, unfit = {order[0]: _read(top, order[0])}, {}
    for path in order[1:]:
        try:
            read[path] = _read(top, path)
        except UnfitClusterFolder as error:
            unfit[path] = str(error)
    listed = {names.path(name) for there in every.values() for name in there}
    source = _source(read, taken, have_moved=listed.isdisjoint(read))
    found = {name: tuple(read[path] for path in there if path in read) for name, there in named.items()}
    left = {path for path in synced if path not in paths and _PLAIN.fullmatch(path) and not _prunes(top, path)}
    kept = {
        channel: tuple(name for name in every[channel] if (path := names.path(name)) in read or path in left)
        for channel in channels
    }
    folders = {name: there for name, there in found.items() if there}
    done = {*synced} - {*paths} - (left & listed)
    made = Migration(source, folders, unfit, names, kept, channels, len(synced), len(done), kustomize, say)
    return made.to_move_to(source, kept)


def _source(read: Mapping[str, ClusterFolder], taken: OverlayFolder | None, *, have_moved: bool) -> ClusterFolder:
    """Return the folder with what was `taken` over, else the overlay if the listed `have_moved`, else one like most."""
    alike = {path: sum(not any(other.differs(it)) for other in read.values()) for path, it in read.items()}
    own = taken.tree.by_path if taken else None
    source = max(read.values(), key=lambda it: (it.overlay.by_path == own, alike[it.path]))
    if taken and have_moved and source.overlay.by_path != own:
        return replace(source, path=taken.path, files=taken.tree.replaced(COMPONENTS, source.files[COMPONENTS]))
    return source


def _prunes(top: Path, path: str) -> bool:
    tree = Tree((TreeFile(SYNC, (top / path / SYNC).read_bytes()),))
    return all(it.prune for it in covering(tree, path))


def _read(top: Path, path: str) -> ClusterFolder:
    if not _PLAIN.fullmatch(path):
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
