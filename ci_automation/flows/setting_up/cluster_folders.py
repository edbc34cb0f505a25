"""The folders that `flux bootstrap` made for clusters: what the artifact takes over, and which channel is for whom."""

from __future__ import annotations

import posixpath
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.errors import UsageError
from ci_automation.flows.files import read_folder
from ci_automation.flows.setting_up.patches import added_patches
from ci_automation.flux.options import DEFAULT_COMPONENTS, Options
from ci_automation.flux.recover import recover
from ci_automation.impact.overlay.bootstrapped import (
    COMPONENTS,
    SYNC,
    AppliedPath,
    UnfitBootstrap,
    covering,
    documents_in,
    outside,
    without_sync,
)
from ci_automation.impact.overlay.kustomization import NAMES, listed_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ci_automation.flows.workspace import OverlayFolder
    from ci_automation.flux.version import Version

ANY = "CHANNEL"  # the placeholder for the channel that a person chooses for a cluster
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
            yield f"{path} (added)" if not other_has else f"{path} (missing)" if not has else _changed(has, other_has)
        if [it.names for it in self.applied] != [it.names for it in other.applied]:
            yield SYNC
        if self.options != other.options:
            yield f"options of `flux install` ({self._flags_beside(other)})"
        elif self.version == other.version and self.files[COMPONENTS] != other.files[COMPONENTS]:
            yield COMPONENTS

    def _flags_beside(self, other: ClusterFolder) -> str:
        ours, theirs = as_arguments(self.flags), as_arguments(other.flags)
        lacks = sorted(f"no --{it}" for it in other.flags.keys() - self.flags.keys())
        return ", and ".join(filter(None, (" ".join(it for it in ours if it not in theirs), ", ".join(lacks))))

    def is_elsewhere(self, other: ClusterFolder) -> bool:
        """Return whether the registry of the images, or its Secret, is all that differs from another folder."""
        differing = {it for it in self.flags.keys() | other.flags.keys() if self.flags.get(it) != other.flags.get(it)}
        return self.overlay == other.overlay and bool(differing) and differing <= {"registry", "image-pull-secret"}

    def patches_beside(self, other: ClusterFolder) -> tuple[Mapping[str, Any], ...]:
        """Return the patches that this folder has and another one lacks, if nothing else differs."""
        without = replace(self, files=other.overlay.replaced(COMPONENTS, self.files[COMPONENTS]))
        return () if any(without.differs(other)) else added_patches(self.overlay, other.overlay)


def as_arguments(flags: Mapping[str, Any]) -> list[str]:
    """Return flags of `flux install` as a command has them."""
    return [f"--{flag}={_written(value)}" for flag, value in flags.items()]


def _written(value: object) -> object:
    return ",".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else value


class ClusterNames(Struct, frozen=True):
    """How clusters are called: by what differs in the paths of their folders, between `head` and `tail`."""

    head: str
    tail: str

    @classmethod
    def of(cls, paths: Sequence[str]) -> Self:
        """Return how the clusters of these folders are called."""
        tail = "/flux-system" if all(path.endswith("/flux-system") for path in paths) else ""
        above = posixpath.commonpath([posixpath.dirname(path.removesuffix(tail)) for path in paths])
        return cls(f"{above}/" if above else "", tail)

    def name(self, path: str) -> str:
        """Return the name of the cluster that has a folder."""
        return path.removeprefix(self.head).removesuffix(self.tail)

    def path(self, name: str) -> str:
        """Return the folder of a cluster."""
        return f"{self.head}{name}{self.tail}"


class Migration(Struct, frozen=True):
    """The folders of clusters by the channels that they are for, and why others cannot be read.

    The artifact takes over the files and the options of `source`, from which the fewest folders differ, or is it, if it
    is there already. `moving` are the names of clusters that come to a channel as the source does: those whose folders
    do not differ from it, or only by patches that the channel's objects have, and those that a person has listed. Of
    each channel `written` is `sync.kustomization`; None: the channel is new, and gets the patches of all its folders.
    """

    source: ClusterFolder
    folders: Mapping[str, tuple[ClusterFolder, ...]]
    unfit: Mapping[str, str]
    names: ClusterNames
    moving: Mapping[str, tuple[str, ...]]
    written: Mapping[str, Mapping[str, Any] | None]

    @property
    def every(self) -> tuple[ClusterFolder, ...]:
        """Return the folders of all channels."""
        return tuple(it for each in self.folders.values() for it in each)

    @property
    def version(self) -> Version:
        """Return the newest version of a cluster or the source: channels begin with it, so no cluster goes back."""
        return max(it.version for it in (self.source, *self.every))

    def patches(self, channel: str) -> Sequence[Mapping[str, Any]]:
        """Return the patches that the objects of a channel have for its clusters alone."""
        if (written := self.written.get(channel, {})) is not None:
            return listed_at(written, "patches")
        first, *others = [it.patches_beside(self.source) for it in self.folders.get(channel, ())] or [()]
        return first if all(it == first for it in others) else ()

    def lacking(self, folder: ClusterFolder, channel: str) -> list[str]:
        """Return what a folder has, beside another version, that neither the source nor the channel's objects have."""
        own, there = folder.patches_beside(self.source), self.patches(channel)
        return [] if own and all(it in there for it in own) else [*folder.differs(self.source)]

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
) -> Migration | None:
    """Return what the folders of a clone that `flux bootstrap` made have for these channels; None: there are none.

    Of these, `channels` has what `Migration.written` has. `synced` are also those that Git has left to the artifact.
    For each channel of the clone, `every` has the clusters that a person or an earlier run has listed. One of them
    stays as long as Git does not prune for it. A folder with the files that were `taken` over stays the source; without
    one they are it, unless a listed cluster has yet to move.
    """
    if not (paths := [it for it in synced if (top / it / COMPONENTS).is_file()]):
        return None
    names = ClusterNames.of(synced)
    named = {name: it for name, it in _by_channel(paths, names, every).items() if name in (*channels, ANY)}
    order = [path for there in named.values() for path in there]
    if not order:
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
    return Migration(source, folders, unfit, names, kept, channels).to_move_to(source, kept)


def _source(read: Mapping[str, ClusterFolder], taken: OverlayFolder | None, *, have_moved: bool) -> ClusterFolder:
    """Return the folder with what was `taken` over, else the overlay if the listed `have_moved`, else one like most."""
    alike = {path: sum(not any(other.differs(it)) for other in read.values()) for path, it in read.items()}
    own = taken.tree.by_path if taken else None
    source = max(read.values(), key=lambda it: (it.overlay.by_path == own, alike[it.path]))
    if taken and have_moved and source.overlay.by_path != own:
        return replace(source, path=taken.path, files=taken.tree.replaced(COMPONENTS, source.files[COMPONENTS]))
    return source


def _changed(file: TreeFile, other: TreeFile) -> str:
    """Return the path of a file that another folder has too, of a kustomization with the fields that differ."""
    if file.path not in NAMES:
        return file.path
    ours, theirs = _fields(file), _fields(other)
    fields = sorted(it for it in ours.keys() | theirs.keys() if ours.get(it) != theirs.get(it))
    told = [f"{'adds' if it not in theirs else 'other' if it in ours else 'lacks'} {it}" for it in fields]
    return f"{file.path} ({', '.join(told)})" if told else file.path


def _fields(file: TreeFile) -> Mapping[str, Any]:
    with suppress(UnfitBootstrap):
        return {key: value for it in documents_in(file.path, file.content) for key, value in it.items()}
    return {}


def _prunes(top: Path, path: str) -> bool:
    tree = Tree((TreeFile(SYNC, (top / path / SYNC).read_bytes()),))
    return all(it.prune for it in covering(tree, path))


def _by_channel(paths: Iterable[str], names: ClusterNames, listed: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the folders for each channel: as listed, or by its name in their paths, as for clusters/production-eu.

    The others are for any of several channels. One channel has those with its name, or all if none has it.
    """
    channels = tuple(listed)
    named: dict[str, list[str]] = {name: [] for name in (*channels, ANY)}
    for path in paths:
        told = next((channel for channel, there in listed.items() if names.name(path) in there), None)
        named[told or _channel(path, channels) or ANY].append(path)
    if len(channels) > 1:
        return {name: there for name, there in named.items() if there}
    return {channels[0]: there} if (there := named[channels[0]] or named[ANY]) else {}


def _channel(path: str, channels: Sequence[str]) -> str | None:
    parts, longest = path.split("/"), sorted(channels, key=len, reverse=True)
    exact = (name for name in longest if name in parts)
    parted = (name for name in longest if any(_parted(name) in _parted(part) for part in parts))
    return next(exact, None) or next(parted, None)


def _parted(name: str) -> str:
    """Return a name with the same sign at both ends and between its words."""
    return f"-{name}-".replace("_", "-").replace(".", "-")


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
