"""The steps about clusters whose folders differ from the one that the artifact takes over, in the list of `setup`."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from ci_automation.artifact.yaml import yaml_of
from ci_automation.flows.setting_up.answers import CLUSTERS, CONFIGURATION, Answers
from ci_automation.flows.setting_up.cluster_folders import first_version
from ci_automation.flows.setting_up.cluster_names import ANY, patterns_for
from ci_automation.flows.setting_up.configuration import settings_with
from ci_automation.impact.change import some_of
from ci_automation.impact.overlay.bootstrapped import COMPONENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ci_automation.flows.setting_up.cluster_folder import ClusterFolder
    from ci_automation.flows.setting_up.cluster_folders import Migration
    from ci_automation.flux.version import Version

_SHORTEST = 3  # letters that tell a channel, as in prod-eu
_TAG = re.compile(r"\w[\w.-]*", re.ASCII)  # such as a channel can have


def left_to_settle(answers: Answers, migration: Migration) -> Iterator[str]:
    """Yield what to do about clusters that do not have the source's version and files, or have no channel yet."""
    names = migration.names
    if unnamed := [names.name(it.path) for it in migration.folders.get(ANY, ())]:
        yield _without_channel(answers, unnamed)
    older: dict[tuple[Version, bool], list[str]] = {}
    for channel, there in _of_channels(migration):
        begins = first_version(answers, channel)
        for it in there:
            if it.version < begins:
                moves = names.name(it.path) in migration.moving.get(channel, ())
                older.setdefault((begins, moves), []).append(f"{names.name(it.path)} ({it.version})")
    for (begins, moves), behind in sorted(older.items()):
        them = "them" if behind[1:] else "it"
        told = f"No step below moves {them} until then"
        if moves:
            told = f"Steps below move {them} all the same, since {CLUSTERS} names {them}"
        yield (
            f"Update to {begins} in Git, as until now, so that no cluster changes when it moves: {enumerated(behind)}. "
            f"{told}. Then run `setup` again."
        )
    yield from _differing(answers, migration)


def _of_channels(migration: Migration) -> Iterator[tuple[str, tuple[ClusterFolder, ...]]]:
    """Yield the channels with their folders, without those that have none yet."""
    yield from ((channel, there) for channel, there in migration.folders.items() if channel != ANY)


def _without_channel(answers: Answers, unnamed: Sequence[str]) -> str:
    """Return how clusters get a channel whose paths name none."""
    patterns = patterns_for(unnamed)
    counted = [f"{it} ({len(there)})" if len(there) > 1 else it for it, there in patterns.items()]
    liked = {it: {_like(name, answers.channels) for name in there} for it, there in patterns.items()}
    words = [f"{next(iter(it)) or ANY if len(it) == 1 else ANY}={pattern}" for pattern, it in liked.items()]
    chosen = f" Replace each {ANY}." if any(it.startswith(f"{ANY}=") for it in words) else ""
    guessed = " Look whether the channels are right." if any(not it.startswith(f"{ANY}=") for it in words) else ""
    return (
        f"Say which channels these clusters are for, whose paths name none: {enumerated(counted)}.{chosen}{guessed} "
        f"Then `setup` compares them, and lists how they move.\n"
        f"{answers.again} --clusters {shlex.quote(' '.join(words))}"
    )


def _differing(answers: Answers, migration: Migration) -> Iterator[str]:
    """Yield which clusters differ from the source in what, and whether they move all the same."""
    source, names, every = migration.source, migration.names, migration.every
    differing: dict[tuple[str | None, str, str], list[ClusterFolder]] = {}
    for channel, there in _of_channels(migration):
        for folder in there:
            if found := migration.lacking(folder, channel):
                by = channel if names.name(folder.path) in migration.moving.get(channel, ()) else None
                beside = str(migration.beside(folder))
                differing.setdefault((by, enumerated(found), beside), []).append(folder)
    is_folder = source in every
    same = sum(it.has_components_of(migration.usual(it)) and not any(it.differs(source)) for it in every)
    most = f"Unlike {same} of {len(every)} folders, " if is_folder else ""
    model = names.name(source.path) if is_folder else source.path
    page = answers.early_page("guides/migration.md#folders-that-differ")
    for (by, what, _), unlike in differing.items():
        told = _whether_moved(answers, migration, unlike, by)
        whole = [channel for channel, there in _of_channels(migration) if [*there] == unlike]
        if not by and whole and (own := migration.beside(unlike[0])).keys() and len(unlike) > 1:
            told += f". To keep it, {_below(answers, whole[0], own)}"
        elif not by and what.startswith(COMPONENTS):
            told += _edited(migration, unlike)
        elif not by and len(unlike) == 1 and _TAG.fullmatch(name := names.name(unlike[0].path)):
            channel = next(it for it, there in migration.folders.items() if unlike[0] in there)
            told += _own_channel(answers, name, channel, migration.beside(unlike[0]))
        elif not by and not whole and len(unlike) > 1 and (own := migration.beside(unlike[0])):
            told += _own_name(answers, migration, unlike, own)
        all_of = f" That is all of {whole[0]} in Git, and a channel can have patches of its own." if whole else ""
        differ = f"{_called(unlike, migration)} {'differ' if len(unlike) > 1 else 'differs'} from {model}: {what}"
        usual = [it.has_components_of(migration.usual(it)) or it.files[COMPONENTS] for it in unlike]
        one_each = {(it.overlay, it.options, its): it for it, its in zip(unlike, usual, strict=True)}.values()
        diffs = [command for it in one_each for command in _diffs(migration, it, is_there=answers.there is not None)]
        yield "\n".join((f"{most}{differ}.{all_of} {told}: {page}", *dict.fromkeys(diffs)))


def _whether_moved(answers: Answers, migration: Migration, unlike: Sequence[ClusterFolder], by: str | None) -> str:
    """Return whether steps move clusters that differ, by the list of a channel that names them."""
    they, them, keep, lose, names = "they", "them", "keep", "lose", "their names"
    if len(unlike) == 1:
        they, them, keep, lose, names = "it", "it", "keeps", "loses", "its name"
    if not by:
        return f"No step below moves {them} until that is settled, since no {CLUSTERS} names {them}"
    return (
        f"Steps below move {them} all the same, since {answers.objects}/{by}/{CLUSTERS} names {them}. Of what differs "
        f"{they} {keep} what `sync` of {by} gives {them}, and {lose} the rest{_lost(unlike, migration, by)}. To leave "
        f"{them} out, delete {names} there and run `setup` again"
    )


def _edited(migration: Migration, folders: Sequence[ClusterFolder]) -> str:
    """Return how clusters move whose components alone differ."""
    usual = _unedited(migration, folders[0])
    given_up = f", or give it up by a copy of {usual.path}/{COMPONENTS}" if usual else ""
    return f". Make what was edited by hand a patch in kustomization.yaml{given_up}. A name in {CLUSTERS} is not enough"


def _lost(folders: Iterable[ClusterFolder], migration: Migration, channel: str) -> str:
    """Return in which objects clusters lose what differs, if kustomize builds that."""
    every = sorted({it for each in folders for it in migration.unlike(each, migration.gets(each, channel)) or ()})
    return f", in {some_of(list(map(str, every)))}" if every else ""


def _unedited(migration: Migration, folder: ClusterFolder) -> ClusterFolder | None:
    """Return a folder in Git with the components that are usual for the version and the options of another one."""
    usual = migration.usual(folder)
    return next((it for it in migration.every if it.has_components_of(usual)), None)


def _diffs(migration: Migration, folder: ClusterFolder, *, is_there: bool) -> Iterator[str]:
    """Yield the commands that show how a folder differs from others in Git.

    What another version or other options make of Flux's components is no news. The source can be an artifact that
    `is_there`, or a folder without components.
    """
    source, usual, unedited = migration.source, migration.usual(folder), _unedited(migration, folder)
    is_edited = not folder.has_components_of(usual)
    of_components = is_edited and unedited and (usual is not source or source not in migration.every)
    if not is_there and (folder.overlay != source.overlay or (folder.options == source.options and not of_components)):
        without = "" if usual is source and not of_components else f"-x {COMPONENTS} "
        yield f"diff -ru {without}{source.path} {folder.path}"
    if of_components and unedited:
        yield f"diff -u {unedited.path}/{COMPONENTS} {folder.path}/{COMPONENTS}"


def _like(name: str, channels: Iterable[str]) -> str | None:
    """Return the only channel of which a part of a cluster's name is an abbreviation, or the reverse."""
    parts = [it for it in re.split(r"[-_./]", name) if len(it) >= _SHORTEST]
    found = [it for it in channels if any(it.startswith(part) or part.startswith(it) for part in parts)]
    return found[0] if len(found) == 1 else None


def _below(answers: Answers, channel: str, own: Mapping[str, list[Mapping[str, Any]]]) -> str:
    """Return how a channel gets patches and images that its clusters have beside what the others have."""
    written = (answers.migration.written.get(channel) if answers.migration else None) or {}
    settings = yaml_of({"sync": settings_with(written, own)}, flow=True).removeprefix("{").removesuffix("}")
    return f"write `{settings}` below `name: {channel}` in {CONFIGURATION}, and run `setup` again"


def _own_channel(answers: Answers, name: str, channel: str, beside: Mapping[str, list[Mapping[str, Any]]]) -> str:
    """Return how a cluster gets a channel of its own, or moves to that which it has, in place of the `channel`.

    It has the patches and images `beside` what the others have, if nothing else differs.
    """
    only = _only(beside)
    patches = "`sync: {kustomization: {patches: [...]}}`"
    if beside and name in answers.tags:
        return f". Only {only} differ, and it has the channel {name}: {_below(answers, name, beside)}"
    if beside:
        return (
            f". Only {only} differ: `flux-manifests setup {channel} {name}` gives it a channel of its own, promoted "
            f"from {channel}, with them in `sync`"
        )
    if name in answers.tags:
        return (
            f". It has the channel {name}: if a patch is all that differs, write it as {patches} below `name: {name}` "
            f"in {CONFIGURATION}. Then `echo {name} >> {answers.objects}/{name}/{CLUSTERS}`, and run `setup` again"
        )
    told = (
        f". `flux-manifests setup {name}` gives it a channel of its own, with its files, which is not promoted: it "
        "gets patches at once"
    )
    promoted = f"`flux-manifests setup {channel} {name}` gives it a promoted one, for {patches}"
    return f"{told}. If a patch is all that differs, {promoted}"


def _own_name(
    answers: Answers, migration: Migration, alike: Sequence[ClusterFolder], own: Mapping[str, list[Mapping[str, Any]]]
) -> str:
    """Return how several clusters that differ from the others of their channel get one of their own."""
    (channel, *others) = [name for name, there in migration.folders.items() if {*alike} & {*there}]
    if others:
        return ""
    names = " ".join(migration.names.name(it.path) for it in alike)
    at = f"{answers.objects}/NAME"
    return (
        f". Only {_only(own)} differ. To give them a channel of their own, promoted from {channel}, with them in "
        f"`sync`: choose its NAME, and run `mkdir {at} && printf '%s\\n' {names} > {at}/{CLUSTERS} && flux-manifests "
        f"setup {channel} NAME`"
    )


def _only(own: Mapping[str, list[Mapping[str, Any]]]) -> str:
    return "images" if "images" in own else "patches"


def _called(folders: Iterable[ClusterFolder], migration: Migration) -> str:
    return enumerated(migration.names.name(it.path) for it in folders)


def enumerated(names: Iterable[str]) -> str:
    """Return names as a sentence has them."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
