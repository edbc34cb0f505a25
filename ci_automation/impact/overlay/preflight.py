"""A check that the team's own files still fit the components: built with the old and the new ones, and compared.

What is built is what clusters can apply (see `folders.py`), without what a cluster's own Kustomization adds to it: its
names and substitutions are not in the artifact, and `in_cluster.py` looks at its patches and images.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.tree import Tree
from ci_automation.flux.text import inventory
from ci_automation.impact.change import Certainty, Change, Hazard, ObjectId, printable_hazard, printable_line
from ci_automation.impact.overlay.builder import BuiltSide, Kustomize, built_changes
from ci_automation.impact.overlay.folders import ROOT, AppliedFolder, applied_folder, applied_folders, folders
from ci_automation.impact.overlay.kustomization import MAX_STEPS, Effort, TooMuch
from ci_automation.impact.overlay.outcome import NO_RULES, FolderOutcome, Followed, looked_into
from ci_automation.impact.overlay.secrets import built_secrets
from ci_automation.impact.overlay.targets import GATE, lost_targets
from ci_automation.impact.overlay.unbuilt import Edit, failures, not_built, path_of, unread
from ci_automation.impact.rights import FolderRights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_NEEDED = frozenset({"source-controller", "kustomize-controller"})  # without them a cluster takes no update any more
_DEPLOYMENT = "Deployment/"
_CONTENT = {
    "CustomResourceDefinition": "every object of its kind",
    "Namespace": "everything in it",
}


class Built(Struct, frozen=True):
    """What kustomize makes of a folder before a step and after it; None where nothing is built, or it only lists.

    `old` and `new` are the files to build it from; None where there was no such folder.
    """

    folder: str
    before: str | None
    after: str | None
    old: Tree | None = None
    new: Tree | None = None


class Preflight(Struct, frozen=True):
    """Hazards of the overlay, changes of what clusters get, objects that a prune would delete, and rights."""

    hazards: tuple[Hazard, ...] = ()
    pruned: tuple[ObjectId, ...] = ()
    changes: tuple[Change, ...] = ()
    builds: tuple[Built, ...] = ()
    rights: tuple[FolderRights, ...] = ()


def preflight(old: Tree, new: Tree, components: str, kustomize: Kustomize | None, folder: str = "") -> Preflight:
    """Return what becomes of the overlay when a step replaces the files of `old` by those of `new`.

    `components` is the path of the components file in both; an `old` without files says that nothing was there before.
    `folder` is the one that a person named for the new overlay, if any.
    A kustomization that only lists files needs no kustomize. What is too much work to be looked into is not checked.
    """
    try:
        return _preflight(old, new, components, kustomize, Effort(), folder)
    except TooMuch:
        sentence = f"the overlay was not looked into: to follow what it does takes more than {MAX_STEPS:,} steps"
        remedy = "split it into artifacts of their own, or look at the build yourself"
        rights = (_rights(new[components], ROOT, "it was not looked into"),)
        return Preflight((Hazard(GATE, Certainty.UNCHECKED, "too much work", sentence, (), (remedy,)),), rights=rights)


def _preflight(
    old: Tree, new: Tree, components: str, kustomize: Kustomize | None, effort: Effort, folder: str
) -> Preflight:
    before = applied_folders(old, components, effort) if old.files else ()
    after = _applied_then(old, new, before, components, effort)
    first, then = looked_into(before, after, kustomize, effort)
    known = {each.folder: each for each in before}
    differing = _differing(old, new, components) if old.files else Tree(())
    changes: dict[str, Change] = {}
    is_release = bool(before) and old.by_path.get(components) != new.by_path.get(components)
    edit = Edit(frozenset(differing.by_path), is_release, folder)
    hazards = [*_unreached(before if old.files else None, after, new, components, effort, edit)]
    for each in after:
        now, earlier = then[each.folder], first.get(each.folder)
        hazards += failures(each, now, earlier, known.get(each.folder), edit)
        if now.unchecked:
            hazards.append(not_built(each, now, edit))
        elif reason := now.unfollowed or (earlier.unfollowed if earlier and not now.error else ""):
            hazards.append(_not_followed(each.folder, reason))
        hazards += _left_out(each, now, earlier, new[components])
        hazards += built_secrets(path_of(each.folder), earlier, now, new.without(components))
        if now.followed:
            is_new = bool(before) and earlier is None
            rules = NO_RULES if is_new else _rules(earlier, known.get(each.folder))
            hazards += lost_targets(rules, now.followed, effort)
        if earlier and differing.files:
            sides = BuiltSide(known[each.folder], earlier), BuiltSide(each, now)
            changes |= {change.fingerprint: change for change in built_changes(*sides, differing)}
    pruned = _pruned(before, after, first, then)
    hazards += _deleted(pruned, before, after, components)
    unique = {hazard.fingerprint: hazard for hazard in map(printable_hazard, hazards)}
    builds = tuple(_built(each, known.get(each.folder), first.get(each.folder), then) for each in after)
    rights = tuple(_folder_rights(each, then[each.folder], new[components]) for each in after)
    rights = rights or (_rights(new[components], ROOT, f"no kustomization lists {components}"),)
    return Preflight(tuple(unique.values()), pruned, tuple(changes.values()), builds, rights)


def _folder_rights(each: AppliedFolder, now: FolderOutcome, components: bytes) -> FolderRights:
    """Return the rights in what clusters get of a folder; of one that was not built, those in the components."""
    texts = BuiltSide(each, now).texts()
    if texts is None:
        return _rights(components, each.folder, now.unchecked or f"it cannot be built: {now.error}")
    return FolderRights.of(each.folder, texts).beside(components.decode(errors="replace"))


def _rights(components: bytes, folder: str, unbuilt: str) -> FolderRights:
    return FolderRights.of(folder, [components.decode(errors="replace")], printable_line(unbuilt))


def _differing(old: Tree, new: Tree, components: str) -> Tree:
    """Return the files of the overlay that are new, gone or changed; of a changed one, that of `new`."""
    files = {**old.by_path, **new.by_path}
    return Tree(
        tuple(files[path] for path in files if path != components and old.by_path.get(path) != new.by_path.get(path))
    )


def _rules(earlier: FolderOutcome | None, folder: AppliedFolder | None) -> Followed | None:
    """Return what the rules of before did, None where that is not known; what only lists has none."""
    if earlier and folder and folder.gathered.only_lists:
        return replace(NO_RULES, ids=earlier.ids, present=earlier.ids)
    return earlier.followed if earlier else None


def _built(
    each: AppliedFolder, earlier: AppliedFolder | None, before: FolderOutcome | None, then: Mapping[str, FolderOutcome]
) -> Built:
    old = earlier.tree if earlier else None
    return Built(each.folder, before.text if before else None, then[each.folder].text, old, each.tree)


def _left_out(
    each: AppliedFolder, now: FolderOutcome, before: FolderOutcome | None, components: bytes
) -> Iterator[Hazard]:
    """Yield a hazard for each controller of the components that the overlay deletes, and did not delete before."""
    found = inventory(components.decode(errors="replace"))
    names = sorted(it.removeprefix(_DEPLOYMENT) for it in found if it.startswith(_DEPLOYMENT))
    for name in () if now.error else names:
        if not now.has_controller(name) and (before is None or before.has_controller(name)):
            certainty = Certainty.CERTAIN if name in _NEEDED else Certainty.POSSIBLE
            sentence = (
                f"the overlay at {path_of(each.folder)} leaves out {name}: a Kustomization that prunes deletes it"
            )
            remedy = "take out what deletes it; `--components` says which controllers there are"
            yield Hazard(GATE, certainty, f"{each.folder} leaves out {name}", sentence, (), (remedy,))


def _not_followed(folder: str, reason: str) -> Hazard:
    sentence = f"the overlay at {path_of(folder)} is built, but what its rules hit could not be followed: {reason}"
    return Hazard(GATE, Certainty.UNCHECKED, f"{folder} not followed {reason}", sentence)


def _applied_then(
    old: Tree, new: Tree, before: Sequence[AppliedFolder], components: str, effort: Effort
) -> tuple[AppliedFolder, ...]:
    """Return the folders to look at after a step: those that give clusters the components, and those that did.

    One that did is told if it is there still, and cannot be built or gives none any more.
    """
    if before and old.without(components).digest() == new.without(components).digest():
        return tuple(applied_folder(new, each.folder, effort) for each in before)
    after = applied_folders(new, components, effort)
    reached = {folder for each in after for folder in each.gathered.folders}
    left = (each.folder for each in before if each.folder not in reached)
    others = (applied_folder(new, folder, effort) for folder in left if folder in {ROOT, *new.directories})
    is_told = not any(map(_is_usual, after))  # that they give none, by `_unreached`
    found = ((it, it.gathered, components in it.gathered.files) for it in others)
    broken = (
        it for it, has, gives in found if has.garbled or (has.faults and not it.is_made) or not (gives or is_told)
    )
    return (*after, *broken)


def _unreached(
    before: Sequence[AppliedFolder] | None,
    after: Sequence[AppliedFolder],
    new: Tree,
    components: str,
    effort: Effort,
    edit: Edit,
) -> Iterator[Hazard]:
    """Yield a hazard where the components file is in the artifact, and clusters may not get it.

    What an unreadable kustomization lists is unknown: that is told instead. With None before, nothing was.
    """
    if any(map(_is_usual, after)):
        return
    certainty = Certainty.POSSIBLE if before is not None and not any(map(_is_usual, before)) else Certainty.CERTAIN
    if not folders(new):
        yield from () if before else _not_as_a_whole(after, new, effort, edit)
        return
    broken = [*unread(new, effort, edit, certainty)]
    yield from broken
    if broken:
        return
    remedies = (
        f"list {components} among the resources of a kustomization",
        "set `componentsFile` to the path that it lists (gotk-components.yaml, where `flux bootstrap` made the folder)",
    )
    sentence = (
        f"no kustomization lists {components}: clusters that apply a folder with one do not get Flux's components"
    )
    for each in after:
        sentence += f" (only those whose path is {path_of(each.folder)} do)"
    sentence += ", and delete Flux if they prune"
    yield Hazard(GATE, certainty, f"{components} is in no kustomization", sentence, (), remedies)
    for folder in folders(new) if before is None else ():
        for fault in applied_folder(new, folder, effort).gathered.garbled[:1]:
            sentence = f"the overlay at {path_of(folder)} cannot be built: {fault.sentence}"
            places = (fault.place,)
            correct = edit.remedies(folder, places)
            yield Hazard(GATE, certainty, f"{folder} {fault.sentence}", sentence, places, correct, final=fault.is_sure)


def _not_as_a_whole(after: Sequence[AppliedFolder], new: Tree, effort: Effort, edit: Edit) -> Iterator[Hazard]:
    """Yield a hazard where a first artifact has no kustomization, and only the components' own folder can be built."""
    for fault in applied_folder(new, ROOT, effort).gathered.garbled[:1]:
        only = " and ".join(path_of(each.folder) for each in after)
        sentence = (
            f"the overlay at ./ cannot be built, so only clusters whose path is {only} get Flux: {fault.sentence}"
        )
        remedies = edit.remedies(ROOT, (fault.place,))
        yield Hazard(GATE, Certainty.POSSIBLE, f"{ROOT} {fault.sentence}", sentence, (fault.place,), remedies)


def _is_usual(each: AppliedFolder) -> bool:
    """Return whether a folder has a kustomization, or is the whole artifact; else it is the components' own folder."""
    return not each.is_made or each.folder == ROOT


def _pruned(
    before: Sequence[AppliedFolder],
    after: Sequence[AppliedFolder],
    first: Mapping[str, FolderOutcome],
    then: Mapping[str, FolderOutcome],
) -> tuple[ObjectId, ...]:
    """Return the objects that are only in what was, seen in the same way; a build that fails deletes nothing."""
    is_seen = not any(outcome.error or outcome.unchecked for outcome in (*first.values(), *then.values()))
    old = {each.folder: first[each.folder].ids if is_seen else each.gathered.ids for each in before}
    new = {each.folder: then[each.folder].ids if is_seen else each.gathered.ids for each in after}
    kept = [ids for folder, ids in old.items() if folder in then and then[folder].error]
    gone = frozenset().union(*old.values()).difference(*new.values(), *kept)
    return tuple(sorted(gone))


def _deleted(
    pruned: tuple[ObjectId, ...], before: Sequence[AppliedFolder], after: Sequence[AppliedFolder], components: str
) -> Iterator[Hazard]:
    """Yield a hazard for what takes other objects with it; what the components themselves lose is told elsewhere."""
    by_release = _of_components(before, components) - _of_components(after, components)
    for each in pruned:
        if each.kind in _CONTENT and each not in by_release:
            sentence = (
                f"{each} is not applied any more: a Kustomization that prunes deletes it, with {_CONTENT[each.kind]}"
            )
            yield Hazard(GATE, Certainty.POSSIBLE, f"{each.group}/{each} is pruned", sentence)


def _of_components(found: Sequence[AppliedFolder], components: str) -> set[ObjectId]:
    every = (each for folder in found for each in folder.gathered.listed)
    return {each.id for each in every if each.place.file == components}
