"""A check that the team's own files still fit the components: built with the old and the new ones, and compared.

What is built is what clusters can apply (see `folders.py`), without what a cluster's own Kustomization adds to it: its
patches, images, names and substitutions are not in the artifact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.tree import Tree
from ci_automation.artifact.yaml import Unreadable
from ci_automation.flux.components import inventory
from ci_automation.impact.change import Certainty, Hazard, Place, fingerprint, in_shell
from ci_automation.impact.overlay.builder import BuiltSide, built_changes
from ci_automation.impact.overlay.folders import ROOT, applied_folder, applied_folders, folders
from ci_automation.impact.overlay.kustomization import MAX_STEPS, Effort, TooMuch, kustomization, kustomization_file
from ci_automation.impact.overlay.outcome import NO_RULES, looked_into
from ci_automation.impact.overlay.targets import GATE, lost_targets
from ci_automation.impact.rights import FolderRights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ci_automation.impact.change import Change, ObjectId
    from ci_automation.impact.overlay.builder import Kustomize
    from ci_automation.impact.overlay.folders import AppliedFolder
    from ci_automation.impact.overlay.outcome import FolderOutcome, Followed

_MAX_FAULTS = 5
_SHOWN = 1_000
# kustomize-controller drops such fields of the kustomization that it starts from before it builds.
_IGNORED = "unknown field"
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


def preflight(old: Tree, new: Tree, components: str, kustomize: Kustomize | None) -> Preflight:
    """Return what becomes of the overlay when a step replaces the files of `old` by those of `new`.

    `components` is the path of the components file in both; an `old` without files says that nothing was there before.
    A kustomization that only lists files needs no kustomize. What is too much work to be looked into is not checked.
    """
    try:
        return _preflight(old, new, components, kustomize, Effort())
    except TooMuch:
        sentence = f"the overlay was not looked into: to follow what it does takes more than {MAX_STEPS:,} steps"
        remedy = "split it into artifacts of their own, or look at the build yourself"
        rights = (_rights(new[components], ROOT, "it was not looked into"),)
        return Preflight((Hazard(GATE, Certainty.UNCHECKED, "too much work", sentence, (), (remedy,)),), rights=rights)


def _preflight(old: Tree, new: Tree, components: str, kustomize: Kustomize | None, effort: Effort) -> Preflight:
    before = applied_folders(old, components, effort) if old.files else ()
    same = before and old.without(components).digest() == new.without(components).digest()
    after = (
        tuple(applied_folder(new, each.folder, effort) for each in before)
        if same
        else applied_folders(new, components, effort)
    )
    first, then = looked_into(before, after, kustomize, effort)
    known = {each.folder: each for each in before}
    differing = _differing(old, new, components) if before else Tree(())
    hazards = [*_unreached(old, new, before, after, components, effort)] if folders(new) else []
    changes: dict[str, Change] = {}
    is_step = bool(before) and old.by_path.get(components) != new.by_path.get(components)
    unbuilt = f"cannot be built{' with the new components' if is_step else ''}"
    for each in after:
        now, earlier = then[each.folder], first.get(each.folder)
        if now.unchecked:
            hazards.append(_not_built(each, now, by_files=bool(differing.files)))
        hazards += _outcome_hazards(each, now, earlier, known.get(each.folder), unbuilt)
        hazards += _left_out(each, now, earlier, new[components])
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
    return FolderRights.of(each.folder, texts)


def _rights(components: bytes, folder: str, unbuilt: str) -> FolderRights:
    return FolderRights.of(folder, [components.decode(errors="replace")], _printable(unbuilt))


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


def printable_hazard(hazard: Hazard) -> Hazard:
    """Return a hazard as a log may have it, whatever is in the files that it speaks of."""
    subject, sentence, *remedies = map(_printable, (hazard.subject, hazard.sentence, *hazard.remedies))
    return replace(hazard, subject=subject, sentence=sentence, remedies=tuple(remedies))


def _printable(text: str) -> str:
    cut = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return "".join(sign if sign.isprintable() else "?" for sign in cut)


def _outcome_hazards(
    each: AppliedFolder, now: FolderOutcome, before: FolderOutcome | None, earlier: AppliedFolder | None, unbuilt: str
) -> Iterator[Hazard]:
    """Yield what the build says, a failure in the words `unbuilt`; `earlier` was before, with the outcome `before`."""
    what = f"the overlay at {_path(each.folder)}"
    if now.error:
        same = before is not None and before.error == now.error
        ignored = _IGNORED in now.error
        sentence = f"{what} {unbuilt}: {now.error}"
        if before is not None and before.error:
            sentence += "; it is broken already" if same else f"; with the present ones neither: {before.error}"
        subject = f"{each.folder} {fingerprint(now.error)}"
        folder = f"./{each.folder}" if each.folder.startswith("-") else each.folder  # which is no option
        build = in_shell("kustomize", "build", folder)
        remedy = (
            "correct the field: clusters ignore it, with everything in it"
            if ignored
            else f"see it with {build} in the artifact's files: `pull` writes them"
        )
        # Clusters that live with an ignored field already go on to do so.
        certainty = Certainty.POSSIBLE if ignored and same else Certainty.CERTAIN
        yield Hazard(GATE, certainty, subject, sentence, now.places, (remedy,))
    elif now.unchecked:
        known = {fault.sentence for fault in earlier.gathered.faults} if earlier else set()
        faults = [fault for fault in each.gathered.faults if fault.sentence not in known]
        for fault in faults[:_MAX_FAULTS]:
            sentence = f"{what} {unbuilt}: {fault.sentence}"
            subject = f"{each.folder} {fault.sentence}"
            yield Hazard(GATE, Certainty.CERTAIN, subject, sentence, (fault.place,))
    elif reason := now.unfollowed or (before.unfollowed if before else ""):
        sentence = f"{what} is built, but what its rules hit could not be followed: {reason}"
        yield Hazard(GATE, Certainty.UNCHECKED, f"{each.folder} not followed {reason}", sentence)


def _not_built(each: AppliedFolder, now: FolderOutcome, *, by_files: bool) -> Hazard:
    sentence = f"the overlay at {_path(each.folder)} was not built: {now.unchecked}"
    if by_files:
        sentence += "; what its rules change is not told, only which files differ"
    remedy = (
        "put the files of the remote base into the artifact, and list them instead of it"
        if each.gathered.remotes
        else "install kustomize 5 (the program, not a version manager's shim), or check the build yourself"
    )
    # What comes from elsewhere is not what was reviewed and signed.
    certainty = Certainty.CERTAIN if each.gathered.remotes else Certainty.UNCHECKED
    return Hazard(GATE, certainty, f"{each.folder} {now.unchecked}", sentence, now.places, (remedy,))


def _left_out(
    each: AppliedFolder, now: FolderOutcome, before: FolderOutcome | None, components: bytes
) -> Iterator[Hazard]:
    """Yield a hazard for each controller of the components that the overlay deletes, and did not delete before."""
    found = inventory(components.decode(errors="replace"))
    names = sorted(it.removeprefix(_DEPLOYMENT) for it in found if it.startswith(_DEPLOYMENT))
    for name in () if now.error else names:
        if not now.has_controller(name) and (before is None or before.has_controller(name)):
            certainty = Certainty.CERTAIN if name in _NEEDED else Certainty.POSSIBLE
            sentence = f"the overlay at {_path(each.folder)} leaves out {name}: a Kustomization that prunes deletes it"
            remedy = "take out what deletes it; `--components` says which controllers there are"
            yield Hazard(GATE, certainty, f"{each.folder} leaves out {name}", sentence, (), (remedy,))


def _unreached(
    old: Tree,
    new: Tree,
    before: Sequence[AppliedFolder],
    after: Sequence[AppliedFolder],
    components: str,
    effort: Effort,
) -> Iterator[Hazard]:
    """Yield a hazard where the components file is in the artifact, and clusters may not get it.

    What an unreadable kustomization lists is unknown: that is told instead.
    """
    if any(map(_is_usual, after)):
        return
    certainty = Certainty.POSSIBLE if old.files and not any(map(_is_usual, before)) else Certainty.CERTAIN
    broken = False
    for folder in folders(new):
        try:
            kustomization(new, folder, effort)
        except Unreadable as error:
            broken, file = True, kustomization_file(new, folder) or folder
            sentence = f"the overlay at {_path(folder)} cannot be built: {file} cannot be read: {error}"
            yield Hazard(GATE, certainty, f"{folder} {error}", sentence, (Place(file, error.line),))
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
        sentence += f" (only those whose path is {_path(each.folder)} do)"
    sentence += ", and delete Flux if they prune"
    yield Hazard(GATE, certainty, f"{components} is in no kustomization", sentence, (), remedies)


def _is_usual(each: AppliedFolder) -> bool:
    """Return whether a folder has a kustomization, or is the whole artifact; else it is the components' own folder."""
    return not each.is_made or each.folder == ROOT


def _path(folder: str) -> str:
    return "./" if folder == ROOT else f"./{folder}"


def _pruned(
    before: Sequence[AppliedFolder],
    after: Sequence[AppliedFolder],
    first: Mapping[str, FolderOutcome],
    then: Mapping[str, FolderOutcome],
) -> tuple[ObjectId, ...]:
    """Return the objects that are only in what was; both sides are seen in the same way."""
    if any(outcome.error or outcome.unchecked for outcome in (*first.values(), *then.values())):
        old = {found for each in before for found in each.gathered.ids}
        new = {found for each in after for found in each.gathered.ids}
    else:
        old = {found for outcome in first.values() for found in outcome.ids}
        new = {found for outcome in then.values() for found in outcome.ids}
    return tuple(sorted(old - new))


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
