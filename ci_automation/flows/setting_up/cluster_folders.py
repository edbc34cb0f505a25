"""The folders that `flux bootstrap` made for clusters: what the artifact takes over, and which channel is for whom."""

from __future__ import annotations

import json
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from ci_automation.flows.setting_up.cluster_folder import is_plain, prunes, read_cluster_folders
from ci_automation.flows.setting_up.cluster_names import ANY, ClusterNames, KnownClusters, folders_by_channel
from ci_automation.flows.setting_up.configuration import changed_patches, images_beside
from ci_automation.flows.setting_up.own_values import OwnValues, own_values
from ci_automation.flux.following import SyncSettings
from ci_automation.impact.change import some_of
from ci_automation.impact.overlay.bootstrapped import COMPONENTS
from ci_automation.impact.overlay.in_cluster import unfit_in_cluster, unlike_in_cluster
from ci_automation.impact.overlay.kustomization import listed_at

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from ci_automation.artifact.reference import Reference
    from ci_automation.artifact.tree import Tree
    from ci_automation.config.sections import Artifact
    from ci_automation.flows.setting_up.answers import Family, OwnFiles
    from ci_automation.flows.setting_up.cluster_folder import ClusterFolder
    from ci_automation.flows.setting_up.overlays import Existing
    from ci_automation.flows.workspace import OverlayFolder
    from ci_automation.flux.options import Options
    from ci_automation.flux.version import Version
    from ci_automation.impact.change import ObjectId
    from ci_automation.impact.overlay.builder import Kustomize


class Migration(Struct, frozen=True, dict=True):
    """The folders of clusters by the channels that they are for, and why others cannot be read.

    The artifact takes over the files and the options of `source`, from which the fewest folders differ, or is it, if it
    is there already. `moving` are the names of clusters that come to a channel as the source does: those whose folders
    do not differ from it, or give the same objects as it does with `sync` of the channel, and those that are listed,
    but for those whose components were edited while Git prunes, as before a move. Of each channel `written` is
    `sync.kustomization`; None: the channel is new, and gets the patches of all its folders. By cluster, `settled` are
    the patches that its own objects have already. Of `all_there` clusters of `flux bootstrap`, also of other channels,
    `have_moved` are done.
    """

    source: ClusterFolder
    folders: Mapping[str, tuple[ClusterFolder, ...]]
    unfit: Mapping[str, str]
    names: ClusterNames
    moving: Mapping[str, tuple[str, ...]]
    written: Mapping[str, Mapping[str, Any] | None]
    settled: Mapping[str, Sequence[Mapping[str, Any]]]
    all_there: int
    have_moved: int
    kustomize: Kustomize | None
    say: Callable[[str], None]
    _beside: dict[tuple[str, str], Mapping[str, list[Mapping[str, Any]]]] = field(default_factory=dict)
    _values: dict[str, Mapping[str, OwnValues]] = field(default_factory=dict)
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
        if values := self.values.get(folder.path):
            return {"patches": [*values.patches]} if self._is_proven(folder) else {}
        changed = {"patches": [*changed_patches(folder.overlay, self.source.overlay)]}
        return changed if changed["patches"] and self.unlike(folder, changed) == () else {}

    @property
    def values(self) -> Mapping[str, OwnValues]:
        """Return by their paths the folders that differ from the source only in values, as several do."""
        if (key := self.source.path) not in self._values:
            source, name = self.source.overlay, self.names.name
            found = {it.path: values for it in self.every if (values := own_values(it.overlay, source))}
            self._values[key] = {
                path: it
                for path, it in found.items()
                if name(path) in self.settled or any(map(it.is_like, found.values()))
            }
        return self._values[key]

    def _is_proven(self, folder: ClusterFolder) -> bool:
        """Return whether clusters keep such values, as kustomize builds the first folder of the kind, if it can."""
        first = next(it for it in self.every if self._kind(it) == self._kind(folder))
        if self.kustomize is None:
            files = self.source.overlay.replaced(COMPONENTS, first.files[COMPONENTS])
            return not any(replace(first, files=files).differs(self.source))
        return self.unlike(first, {"patches": [*self.values[first.path].patches]}) == ()

    def _kind(self, folder: ClusterFolder) -> tuple[object, ...]:
        """Return what folders have in common of which one is built for all."""
        values = self.values.get(folder.path)
        applied = tuple(it.names for it in folder.applied)
        return values and values.places, folder.options, applied, folder.files[COMPONENTS]

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

    def own(self, folder: ClusterFolder, channel: str) -> Sequence[Mapping[str, Any]]:
        """Return the patches that the objects of this cluster alone get, after those of its channel."""
        settled = self.settled.get(self.names.name(folder.path), ())
        found = self.beside(folder).get("patches", ()) if folder.path in self.values and channel != ANY else ()
        lacking = [it for it in found if it not in listed_at(self.kustomization(channel), "patches")]
        return settled if all(it in settled for it in lacking) else lacking

    def gets(self, folder: ClusterFolder, channel: str) -> Mapping[str, Any]:
        """Return what the Kustomization has by which a cluster follows a channel."""
        there = self.kustomization(channel)
        own = self.own(folder, channel)
        return {**there, "patches": [*listed_at(there, "patches"), *own]} if own else there

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

    @cached_property
    def _usual(self) -> dict[tuple[Version, Options], ClusterFolder]:
        """Return by version and options the source, or else a folder with the components that most of these have."""
        count = Counter((it.version, it.options, it.files[COMPONENTS]) for it in self.every)
        falling = sorted(self.every, key=lambda it: -count[it.version, it.options, it.files[COMPONENTS]])
        return {(it.version, it.options): it for it in (*reversed(falling), self.source)}

    def usual(self, folder: ClusterFolder) -> ClusterFolder:
        """Return what has the components that are usual for the version and the options of a folder."""
        return self._usual.get((folder.version, folder.options), folder)

    def lacking(self, folder: ClusterFolder, channel: str) -> list[str]:
        """Return what a folder has, beside another version, that neither the source nor the channel's objects have."""
        own, there = self.beside(folder), self.gets(folder, channel)
        has = own and all(it in listed_at(there, key) for key, items in own.items() for it in items)
        found = [] if has else [*folder.differs(self.source)]
        if found and (edited := self.edited(folder)):
            found.append(f"{COMPONENTS} beside that, in {some_of([*map(str, edited)])}")
        to_build = found and channel != ANY and (there or not own)  # else it has what it takes, and the channel not
        found = [] if to_build and self.unlike(folder, there) == () else found
        usual = self.usual(folder)  # without the source's version and options, no build shows an edit
        is_edited = usual is not self.source and not folder.has_components_of(usual)
        if is_edited and not any(it.startswith(COMPONENTS) for it in found):
            found.append(f"{COMPONENTS} (beside {self.names.name(usual.path)})")
        return found

    def is_held(self, folder: ClusterFolder, channel: str) -> bool:
        """Return whether the components of a folder were edited, and no move of its cluster has begun."""
        prunes = any(it.prune for it in folder.applied)
        return prunes and any(it.startswith(COMPONENTS) for it in self.lacking(folder, channel))

    def of_family(self, family: Family, existing: Existing | None, listed: Mapping[str, Collection[str]]) -> Migration:
        """Return how a family's clusters move, to the artifact that is there; the files of others are not written."""
        its = self.to_move_to(existing.as_folder(self.source.applied), listed) if existing else self
        moving = {name: it for name, it in its.moving.items() if name in family.named or listed[name]}
        return replace(its, moving=moving)

    def to_move_to(self, source: ClusterFolder, listed: Mapping[str, Collection[str]]) -> Migration:
        """Return the same with another source: clusters move that do not differ from it, and those `listed` before."""
        its, moving, name = replace(self, source=source), {}, self.names.name
        for channel, there in listed.items():
            folders = self.folders.get(channel, ())
            same = {name(it.path) for it in folders if not its.lacking(it, channel)}
            held = {name(it.path) for it in folders if its.is_held(it, channel)}
            if found := (same.union(self.moving.get(channel, ())) & same.union(there)) - held:
                moving[channel] = tuple(sorted(found))
        return replace(its, moving=moving)

    def oldest(self, channel: str) -> Version:
        """Return the oldest version of a channel's clusters, which has to know the objects that follow the channel."""
        return min(it.version for it in self.folders.get(channel) or self.folders.get(ANY) or self.every)


def first_version(answers: OwnFiles, channel: str) -> Version:
    """Return the version that a channel has, or begins with, as far as it is known."""
    there = answers.existing.get(answers.holder(channel))
    return there.version if there else answers.version


def with_fitting(answers: OwnFiles, listed: Mapping[str, Collection[str]]) -> OwnFiles:
    """Return the same without clusters that move to a channel with another version, but for those `listed` before."""
    if (it := answers.migration) is None:
        return answers
    moving = {}
    for channel, names in it.moving.items():
        begins = first_version(answers, channel)
        unfit = {it.names.name(folder.path) for folder in it.folders.get(channel, ()) if folder.version != begins}
        if fitting := [name for name in names if name in listed[channel] or name not in unfit]:
            moving[channel] = tuple(fitting)
    return replace(answers, migration=replace(it, moving=moving))


def own_patches(answers: OwnFiles, channel: str) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return by the names of clusters the patches that their own objects get, after those of the channel."""
    found = dict(answers.settled.get(channel, {}))
    if it := answers.migration:
        there = {it.names.name(folder.path): it.own(folder, channel) for folder in it.folders.get(channel, ())}
        found |= {name: patches for name, patches in there.items() if patches}
    return found


def written_kustomizations(
    family: Family, configured: Mapping[Reference, Artifact]
) -> dict[str, Mapping[str, Any] | None]:
    """Return `sync.kustomization` of each channel, as `Migration.written` has it."""
    found: dict[str, Mapping[str, Any] | None] = {}
    for name, channel in family.channels.items():
        known = configured.get(channel)
        found[name] = (known.sync or SyncSettings()).kustomization if known else None if name in family.sources else {}
    return found


def read_migration(
    top: Path,
    synced: Sequence[str],
    told: KnownClusters,
    channels: Mapping[str, Mapping[str, Any] | None],
    taken: OverlayFolder | None,
    kustomize: Kustomize | None,
    say: Callable[[str], None],
) -> Migration | None:
    """Return what the folders of a clone that `flux bootstrap` made have for these channels; None: there are none.

    Of these, `channels` has what `Migration.written` has. `synced` are also those that Git has left to the artifact.
    A cluster that a list of the clone has stays as long as Git does not prune for it. A folder with the files that were
    `taken` over stays the source; see `_source` without one.

    Raises:
        UnfitClusterFolder: the folder that the artifact would take over cannot be read.
    """
    if not (paths := [it for it in synced if (top / it / COMPONENTS).is_file()]):
        return None
    names, every = ClusterNames.of(synced), told.contexts
    named = {name: it for name, it in folders_by_channel(paths, names, told).items() if name in (*channels, ANY)}
    if not (order := [path for there in named.values() for path in there]):
        return None
    read, unfit = read_cluster_folders(top, order)
    listed = {names.path(name) for there in every.values() for name in there}
    source = _source(read, taken, have_moved=listed.isdisjoint(read))
    found = {name: tuple(read[path] for path in there if path in read) for name, there in named.items()}
    left = {path for path in synced if path not in paths and is_plain(path) and not prunes(top, path)}
    kept = {
        channel: tuple(name for name in every[channel] if (path := names.path(name)) in read or path in left)
        for channel in channels
    }
    folders = {name: there for name, there in found.items() if there}
    done = {*synced} - {*paths} - (left & listed)
    made = Migration(
        source, folders, unfit, names, kept, channels, told.patches, len(synced), len(done), kustomize, say
    )
    return made.to_move_to(source, kept)


def _source(read: Mapping[str, ClusterFolder], taken: OverlayFolder | None, *, have_moved: bool) -> ClusterFolder:
    """Return the folder with what was `taken` over, else the overlay, else one that most are like.

    Of those that are alike it has the newest version, and the components that most folders of that version have. It is
    the overlay if the listed clusters `have_moved`, or if folders differ from it only in values.
    """
    alike = {path: sum(map(it.is_as, read.values())) for path, it in read.items()}
    own = taken.tree.by_path if taken else None
    exact = {path: sum(map(it.has_components_of, read.values())) for path, it in read.items()}
    source = max(read.values(), key=lambda it: (it.overlay.by_path == own, alike[it.path], it.version, exact[it.path]))
    is_left = have_moved or (taken and any(own_values(it.overlay, taken.tree) for it in read.values()))
    if taken and is_left and source.overlay.by_path != own:
        return replace(source, path=taken.path, files=taken.tree.replaced(COMPONENTS, source.files[COMPONENTS]))
    return source
