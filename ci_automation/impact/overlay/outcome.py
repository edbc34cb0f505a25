"""Outcomes of the folders that clusters apply: kustomize is asked for all builds of a step at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.yaml import Unreadable
from ci_automation.impact.objects import read_objects
from ci_automation.impact.overlay.builder import BuildFailed, KustomizeUnusable, places
from ci_automation.impact.overlay.followed import Followed, is_like_marked, read_marks, unmarked
from ci_automation.impact.overlay.kustomization import BUILD
from ci_automation.impact.overlay.marking import PREFIX, Marked, marked
from ci_automation.impact.reading import UnreadableObjects

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ci_automation.impact.change import ObjectId
    from ci_automation.impact.hazard import Place
    from ci_automation.impact.overlay.builder import Build, Kustomize
    from ci_automation.impact.overlay.folders import AppliedFolder
    from ci_automation.impact.overlay.kustomization import Effort


class FolderOutcome(Struct, frozen=True):
    """What came of a folder: its objects, why it cannot be built, or why nobody tried.

    `text` is what kustomize builds of it. `followed` is what its rules do, `unfollowed` why that could not be seen.
    """

    ids: frozenset[ObjectId]
    error: str = ""
    unchecked: str = ""
    places: tuple[Place, ...] = ()
    text: str | None = None
    followed: Followed | None = None
    unfollowed: str = ""

    def has_controller(self, name: str) -> bool:
        """Return whether it has the Deployment of that name, perhaps with a prefix or a suffix."""
        return any(it.kind == "Deployment" and name in it.name for it in self.ids)


def looked_into(
    before: Sequence[AppliedFolder], after: Sequence[AppliedFolder], kustomize: Kustomize | None, effort: Effort
) -> tuple[dict[str, FolderOutcome], dict[str, FolderOutcome]]:
    """Return what came of the folders of before and of after, by their names.

    Whether it can be built is told from a build without marks, since marks mend some broken files. Of before, the build
    with marks is enough as long as it works.

    Raises:
        TooMuch: there are more builds than what is left of the effort.
    """
    asked = _Asked(kustomize, effort)
    asked.ask([*((each, True) for each in after), *((each, False) for each in before)])
    then = {each.folder: asked.outcome(each) for each in after}
    broken = {folder for folder, outcome in then.items() if outcome.error}
    asked.ask([(each, True) for each in before if each.folder in broken or asked.outcome(each).unfollowed])
    return {each.folder: asked.outcome(each) for each in before}, then


class _Asked:
    """What kustomize was asked for, and what it said."""

    def __init__(self, kustomize: Kustomize | None, effort: Effort) -> None:
        self._kustomize, self._effort = kustomize, effort
        self._marked: dict[Build, Marked | str] = {}
        self._said: dict[Build, str | BuildFailed | KustomizeUnusable] = {}

    def ask(self, folders: Iterable[tuple[AppliedFolder, bool]]) -> None:
        """Build folders with marks; without them too where that is wanted, or where more than the marks differs."""
        wanted: list[Build] = []
        for each, plain in folders:
            if not each.gathered.only_lists and not each.gathered.remotes:
                with_marks = self._with_marks(each)
                if isinstance(with_marks, Marked):
                    wanted.append((with_marks.tree, each.folder))
                if plain or isinstance(with_marks, str) or not with_marks.is_whole:
                    wanted.append((each.tree, each.folder))
        new = [each for each in dict.fromkeys(wanted) if each not in self._said]
        if self._kustomize is not None and new:
            self._effort.spend(BUILD * len(new))
            self._said |= zip(new, self._kustomize.builds(new), strict=True)

    def _with_marks(self, each: AppliedFolder) -> Marked | str:
        """Return the files with marks, or why there can be none."""
        key = (each.tree, each.folder)
        if key not in self._marked:
            try:
                self._marked[key] = marked(each.tree, each.gathered.kustomizations, self._effort)
            except Unreadable as error:
                self._marked[key] = str(error)
        return self._marked[key]

    def outcome(self, each: AppliedFolder) -> FolderOutcome:
        """Return what came of a folder."""
        found = each.gathered
        if found.remotes:
            named = ", ".join(sorted({reference.path for reference in found.remotes}))
            reason = f"it has a remote base, and nothing is fetched here: {named}"
            return FolderOutcome(found.ids, unchecked=reason, places=tuple(it.place for it in found.remotes))
        if found.only_lists:
            error = found.faults[0].sentence if found.faults else ""
            return FolderOutcome(found.ids, error, places=tuple(fault.place for fault in found.faults[:1]))
        if self._kustomize is None:
            return FolderOutcome(found.ids, unchecked="there is no kustomize")
        return self._built(each)

    def _built(self, each: AppliedFolder) -> FolderOutcome:
        ids = each.gathered.ids
        seen, why = self._followed(each)
        said = self._said.get((each.tree, each.folder))
        if isinstance(said, KustomizeUnusable):
            return FolderOutcome(ids, unchecked=str(said))
        if isinstance(said, BuildFailed):
            return FolderOutcome(ids, str(said), places=places(str(said), each))
        if said is None and seen is not None:
            return FolderOutcome(seen[0].ids, text=unmarked(seen[1]), followed=seen[0])
        if is_like_marked(said or ""):
            seen, why = None, f"an object says itself what the marks of this program say ({PREFIX}...)"
        try:
            ids = frozenset(it.id for it in read_objects(said or ""))
        except UnreadableObjects as error:
            return FolderOutcome(ids, str(error))
        return FolderOutcome(ids, text=said, followed=seen and seen[0], unfollowed=why)

    def _followed(self, each: AppliedFolder) -> tuple[tuple[Followed, str] | None, str]:
        """Return what a build with marks says, and its text; or why there is none."""
        with_marks = self._with_marks(each)
        said = self._said.get((with_marks.tree, each.folder)) if isinstance(with_marks, Marked) else None
        if isinstance(with_marks, Marked) and isinstance(said, str):
            try:
                return (read_marks(said, with_marks.rules), said), ""
            except UnreadableObjects as error:
                return None, str(error)
        return None, str(said or with_marks)
