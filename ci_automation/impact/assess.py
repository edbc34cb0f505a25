"""The assessment of a step: every change, and the findings of every check."""

from __future__ import annotations

from pathlib import PurePosixPath
from posixpath import relpath
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.impact.change import Change, ChangeClass, FileDiff, Hazard
from ci_automation.impact.checks import all_checks
from ci_automation.impact.compare import changes
from ci_automation.impact.files import overlay_changes, overlay_diffs
from ci_automation.impact.overlay.folders import applied_folders
from ci_automation.impact.overlay.kustomization import Effort, TooMuch, kustomization_of
from ci_automation.impact.overlay.secrets import secret_hazards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ci_automation.impact.check import Applied, Known, Seen
    from ci_automation.impact.rights import FolderRights


class Cleared(Struct, frozen=True):
    """A check without hazards: the words of its gate, and what the check looked at."""

    gate: str
    reason: str
    looked_at: str


class Impact(Struct, frozen=True):
    """Changes of a step, its hazards, objects that clusters that prune delete, diffs of overlay files, and rights."""

    changes: tuple[Change, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    pruned: tuple[str, ...] = ()
    cleared: tuple[Cleared, ...] = ()
    diffs: tuple[FileDiff, ...] = ()
    rights: tuple[FolderRights, ...] = ()


def nothing_is_settled(_: Sequence[Hazard]) -> bool:
    """Let every check run."""
    return False


def assess(
    before: Applied | None,
    after: Applied,
    known: Known,
    settled: Callable[[Sequence[Hazard]], bool] = nothing_is_settled,
) -> Impact:
    """Return what the step from `before` to `after` changes and can break; with nothing before, nothing changes.

    Before each check `settled` is told the hazards so far. If it says yes, the rest is neither compared nor built, and
    these hazards are all that the result has.
    """
    seen: list[Seen] = []
    for check in all_checks():
        if settled(_hazards(seen)):
            return Impact(hazards=_hazards(seen))
        seen.append(check.look(before, after, known))
    diffs = [*(overlay_diffs(before.overlay, after.overlay) if before else ())]
    return Impact(
        tuple(_changes(before, after, seen)) if before else (),
        _hazards(seen),
        tuple(str(name) for each in seen for name in each.pruned),
        tuple(Cleared(check.gate, *check.clear(after, known)) for check in all_checks()),
        (*diffs, *(it for each in seen for it in each.diffs)),
        tuple(it for each in seen for it in each.rights),
    )


def compare_with_flux_alone(components: str, after: Applied, known: Known) -> tuple[Change, ...]:
    """Return what clusters get of `after` beside plain Flux: these components, in the same folders, no other file.

    That a file is there is no change of its own.
    """
    alone = replace(after, components=components, overlay=flux_alone(after.files, after.path))
    return tuple(it for it in assess(alone, after, known).changes if it.belongs_to is not ChangeClass.OVERLAY)


def flux_alone(tree: Tree, components: str) -> Tree:
    """Return the kustomizations with which clusters get the components alone by the folders that they apply now."""
    try:
        found = applied_folders(tree, components, Effort())
    except TooMuch:
        return Tree(())
    return Tree(
        tuple(
            TreeFile(
                str(PurePosixPath(each.folder) / "kustomization.yaml"),
                kustomization_of(relpath(components, each.folder)),
            )
            for each in found
            if not each.is_made
        )
    )


def compare_files(before: Tree | None, after: Tree) -> Impact:
    """Return what changes between the files of two artifacts without Flux, and the Secrets that come in plain text."""
    old = after if before is None else before  # with nothing before, nothing changes
    hazards = secret_hazards(before or Tree(()), after)
    return Impact(tuple(overlay_changes(old, after)), hazards, diffs=tuple(overlay_diffs(old, after)))


def _changes(before: Applied, after: Applied, seen: Sequence[Seen]) -> Iterator[Change]:
    """Yield the changes of the files, and those that only a check sees, such as what a patch does to an object."""
    found = (*changes(before.components, after.components), *overlay_changes(before.overlay, after.overlay))
    told = {change.fingerprint for change in found}
    yield from found
    yield from (change for each in seen for change in each.changes if change.fingerprint not in told)


def _hazards(seen: Sequence[Seen]) -> tuple[Hazard, ...]:
    return tuple(hazard for each in seen for hazard in each.hazards)
