"""Hazards of folders that cannot be built, or were not.

No cluster takes anything of an artifact that it cannot build, and none deletes anything either. So a step that breaks a
build is refused for good. One that finds it broken, and does not touch what is broken, can be acknowledged: it neither
mends it nor makes it worse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.yaml import BeyondLimits, Unreadable
from ci_automation.impact.change import Certainty, Hazard, Place, fingerprint, in_shell
from ci_automation.impact.overlay.folders import ROOT, AppliedFolder, folders
from ci_automation.impact.overlay.kustomization import Effort, kustomization, kustomization_file
from ci_automation.impact.overlay.targets import GATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.artifact.tree import Tree
    from ci_automation.impact.overlay.outcome import FolderOutcome

_MAX_FAULTS = 5
# kustomize-controller drops such fields of the kustomization that it starts from before it builds.
_IGNORED = "unknown field"


class Edit(Struct, frozen=True):
    """What a step does: the overlay's files that it changes, whether the components change, and the files' folder.

    `folder` is the one that a person named; it is empty where the files are those of the artifact.
    """

    files: frozenset[str] = frozenset()
    is_release: bool = False
    folder: str = ""

    def changes(self, places: Sequence[Place]) -> bool:
        """Return whether it changes a file that is named."""
        return any(place.file in self.files for place in places)

    def remedies(self, folder: str, places: Sequence[Place]) -> tuple[str, ...]:
        """Return what to do about a build of `folder` that fails at these places."""
        above = self.folder.rstrip("/")
        if above:
            wrong = in_shell(f"{above}/{places[0]}") if places else f"the files of {in_shell(above)}"
            return (f"correct {wrong}, and run the command again",)
        build = in_shell("kustomize", "build", f"./{folder}" if folder.startswith("-") else folder)  # no option
        new = ", with the components that `render` prints" if self.is_release else ""
        see = f"see it with {build} in the artifact's files, which `pull` writes{new}"
        return (*(f"correct {in_shell(str(place))}" for place in places[:1]), see)


def path_of(folder: str) -> str:
    """Return the path of a folder as a Kustomization names it."""
    return "./" if folder == ROOT else f"./{folder}"


def failures(
    each: AppliedFolder, now: FolderOutcome, before: FolderOutcome | None, earlier: AppliedFolder | None, edit: Edit
) -> Iterator[Hazard]:
    """Yield why a folder cannot be built; `earlier` was before, with the outcome `before`.

    Where nothing was built, or where kustomize stopped at what was broken already, faults that are new are told too.
    """
    if now.error:
        yield _failure(each, now, before, edit)
    was_broken = before is not None and bool(before.error)
    known = {fault.sentence for fault in earlier.gathered.faults} if earlier else set()
    told = {place.file for place in now.places} if now.error else set()
    new = [it for it in each.gathered.faults if it.sentence not in known and it.place.file not in told]
    for fault in new[:_MAX_FAULTS] if now.unchecked or was_broken else ():
        places = (fault.place,)
        sentence = f"{_cannot(each.folder, places, edit)}: {fault.sentence}"
        remedies = edit.remedies(each.folder, places)
        subject = f"{each.folder} {fault.sentence}"
        yield Hazard(GATE, Certainty.CERTAIN, subject, sentence, places, remedies, final=fault.is_sure)


def _cannot(folder: str, places: Sequence[Place], edit: Edit) -> str:
    because = " with the new components" if edit.is_release and not edit.changes(places) else ""
    return f"the overlay at {path_of(folder)} cannot be built{because}"


def _failure(each: AppliedFolder, now: FolderOutcome, before: FolderOutcome | None, edit: Edit) -> Hazard:
    earlier = before.error if before else ""
    same, ignored = earlier == now.error, _IGNORED in now.error
    sentence = f"{_cannot(each.folder, now.places, edit)}: {now.error}"
    if earlier:
        sentence += "; it is broken already" if same else f"; with the present ones neither: {earlier}"
    is_old = bool(earlier) and not edit.changes(now.places) and (same or not edit.files)
    final = now.is_sure and not (ignored or is_old)
    remedies = edit.remedies(each.folder, now.places)
    if ignored:
        remedies = ("correct the field: clusters ignore it, with everything in it",)
    # Clusters that live with an ignored field already go on to do so.
    certainty = Certainty.POSSIBLE if ignored and same else Certainty.CERTAIN
    subject = f"{each.folder} {fingerprint(now.error)}"
    return Hazard(GATE, certainty, subject, sentence, now.places, remedies, final=final)


def not_built(each: AppliedFolder, now: FolderOutcome, edit: Edit) -> Hazard:
    """Return the hazard of a folder that this machine did not build."""
    sentence = f"the overlay at {path_of(each.folder)} was not built: {now.unchecked}"
    if edit.files:
        sentence += "; what its rules change is not told, only which files differ"
    remedy = (
        "put the files of the remote base into the artifact, and list them instead of it"
        if each.gathered.remotes
        else "install kustomize 5 or kubectl (not a version manager's shim), or check the build yourself"
    )
    # What comes from elsewhere is not what was reviewed and signed.
    certainty = Certainty.CERTAIN if each.gathered.remotes else Certainty.UNCHECKED
    return Hazard(GATE, certainty, f"{each.folder} {now.unchecked}", sentence, now.places, (remedy,))


def unread(tree: Tree, effort: Effort, edit: Edit, certainty: Certainty) -> Iterator[Hazard]:
    """Yield a hazard for each folder whose kustomization cannot be read; it is certain where the step changes it."""
    for folder in folders(tree):
        try:
            kustomization(tree, folder, effort)
        except Unreadable as error:
            places = (Place(kustomization_file(tree, folder) or folder, error.line),)
            sure = Certainty.CERTAIN if edit.changes(places) else certainty
            final = sure is Certainty.CERTAIN and not isinstance(error, BeyondLimits)
            sentence = f"the overlay at {path_of(folder)} cannot be built: {places[0]} cannot be read: {error}"
            remedies = edit.remedies(folder, places)
            yield Hazard(GATE, sure, f"{folder} {error}", sentence, places, remedies, final=final)
