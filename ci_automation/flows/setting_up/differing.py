"""The steps about clusters whose folders differ from the one that the artifact takes over, in the list of `setup`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ci_automation.artifact.yaml import yaml_of
from ci_automation.flows.setting_up.answers import CLUSTERS, CONFIGURATION, Answers
from ci_automation.flows.setting_up.cluster_folders import ANY, ClusterFolder, Migration
from ci_automation.flows.setting_up.patches import settings_with
from ci_automation.impact.overlay.bootstrapped import COMPONENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_SHORTEST = 3  # letters that tell a channel, as in prod-eu
_TAG = re.compile(r"\w[\w.-]*", re.ASCII)  # such as a channel can have


def left_to_settle(answers: Answers, migration: Migration) -> Iterator[str]:
    """Yield what to do about clusters that do not have the source's version and files, or have no channel yet."""
    names, newest = migration.names, migration.version
    found: dict[str | None, list[str]] = {}
    for name in (names.name(it.path) for it in migration.folders.get(ANY, ()) if not any(it.differs(migration.source))):
        found.setdefault(_like(name, answers.channels), []).append(name)
    for channel, alike in found.items():
        told = f"Choose a CHANNEL for each NAME of {enumerated(alike)}: their paths name none. Then run `setup` again."
        command = f"echo NAME >> {answers.objects}/CHANNEL/{CLUSTERS}"
        if channel:
            verb = "look" if len(alike) > 1 else "looks"
            told = f"{enumerated(alike)} {verb} like {channel}. If so, run this, which has `setup` list how they move."
            command = f"for it in {' '.join(alike)}; do echo $it >> {answers.objects}/{channel}/{CLUSTERS}; done"
        yield f"{told}\n{command}\n{answers.again}"
    if older := [f"{names.name(it.path)} ({it.version})" for it in migration.every if it.version < newest]:
        yield f"Update to {newest} in Git, as until now, so that no cluster changes when it moves: {enumerated(older)}."
    yield from _differing(answers, migration)


def _differing(answers: Answers, migration: Migration) -> Iterator[str]:
    """Yield which clusters differ from the source in what, and whether they move all the same."""
    source, names, every = migration.source, migration.names, migration.every
    differing: dict[tuple[str | None, str, str], list[ClusterFolder]] = {}
    for channel, there in migration.folders.items():
        for folder in there:
            if found := migration.lacking(folder, channel):
                by = channel if names.name(folder.path) in migration.moving.get(channel, ()) else None
                beside = str(folder.patches_beside(source))
                differing.setdefault((by, enumerated(found), beside), []).append(folder)
    is_folder, same = source in every, sum(not any(it.differs(source)) for it in every)
    most = f"Unlike {same} of {len(every)} folders, " if is_folder else ""
    model = names.name(source.path) if is_folder else source.path
    page = f"{answers.docs}/guides/migration.md#folders-that-differ"
    for (by, what, _), unlike in differing.items():
        told = (
            f"Steps below move them all the same, since {answers.objects}/{by}/{CLUSTERS} names them. Of what differs "
            f"they keep what `sync` of {by} gives them, and lose the rest. To leave them out, delete their names there "
            "and run `setup` again"
            if by
            else f"No step below moves them until that is settled, since no {CLUSTERS} names them"
        )
        whole = [channel for channel, there in migration.folders.items() if channel != ANY and [*there] == unlike]
        if not by and whole and all(it.is_elsewhere(source) for it in unlike):
            told += _own_images(answers, whole[0], [names.name(it.path) for it in unlike])
        elif not by and len(unlike) == 1 and _TAG.fullmatch(name := names.name(unlike[0].path)):
            channel = next(it for it, there in migration.folders.items() if unlike[0] in there)
            told += _own_channel(answers, name, channel, unlike[0].patches_beside(source))
        all_of = f" That is all of {whole[0]} in Git, and a channel can have patches of its own." if whole else ""
        differ = f"{_called(unlike, migration)} {'differ' if len(unlike) > 1 else 'differs'} from {model}: {what}"
        one_each = {(it.overlay, it.options): it for it in unlike if not answers.there}.values()
        diffs = [_diff(source, it) for it in one_each if it.overlay != source.overlay or it.options == source.options]
        yield "\n".join((f"{most}{differ}.{all_of} {told}: {page}", *diffs))


def _diff(source: ClusterFolder, other: ClusterFolder) -> str:
    """Return the command that shows how folders differ; what other options make of Flux's components is no news."""
    without = "" if source.options == other.options else f"-x {COMPONENTS} "
    return f"diff -ru {without}{source.path} {other.path}"


def _like(name: str, channels: Iterable[str]) -> str | None:
    """Return the only channel of which a part of a cluster's name is an abbreviation, or the reverse."""
    parts = [it for it in re.split(r"[-_./]", name) if len(it) >= _SHORTEST]
    found = [it for it in channels if any(it.startswith(part) or part.startswith(it) for part in parts)]
    return found[0] if len(found) == 1 else None


def _own_images(answers: Answers, channel: str, clusters: Sequence[str]) -> str:
    """Return how a promoted channel, whose clusters have another registry of images, gets that."""
    names, page = " ".join(clusters), f"{answers.docs}/guides/one-cluster-differs.md#images-from-another-registry"
    listed = f"for it in {names}; do echo $it >> {answers.objects}/{channel}/{CLUSTERS}; done"
    return (
        f". Write their registry and Secret as {page} says, below `name: {channel}` in {CONFIGURATION}. Then "
        f"`{listed}`, and run `setup` again"
    )


def _own_channel(answers: Answers, name: str, channel: str, beside: Sequence[Mapping[str, Any]]) -> str:
    """Return how a cluster gets a channel of its own, or moves to that which it has, in place of the `channel`.

    It has the patches `beside` what the others have, if nothing else differs.
    """
    patches = "`sync: {kustomization: {patches: [...]}}`"
    if beside and name in answers.tags:
        written = (answers.migration.written.get(name) if answers.migration else None) or {}
        own = yaml_of({"sync": settings_with(written, beside)}, flow=True).removeprefix("{").removesuffix("}")
        return (
            f". Only patches differ, and it has the channel {name}: write `{own}` below `name: {name}` in "
            f"{CONFIGURATION}, and run `setup` again"
        )
    if beside and channel != ANY:
        return (
            f". Only patches differ: `flux-manifests setup {channel} {name}` gives it a channel of its own, promoted "
            f"from {channel}, with these patches in `sync`"
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
    return told if channel == ANY else f"{told}. If a patch is all that differs, {promoted}"


def _called(folders: Iterable[ClusterFolder], migration: Migration) -> str:
    return enumerated(migration.names.name(it.path) for it in folders)


def enumerated(names: Iterable[str]) -> str:
    """Return names as a sentence has them."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
