"""Check whether the files around the components still fit them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.artifact.tree import Tree
from ci_automation.impact.check import Applied, Check, Known, Seen
from ci_automation.impact.files import rendered_diffs
from ci_automation.impact.overlay.in_cluster import unfit_in_cluster
from ci_automation.impact.overlay.preflight import Built, preflight
from ci_automation.impact.overlay.secrets import secret_hazards
from ci_automation.impact.overlay.targets import GATE

if TYPE_CHECKING:
    from ci_automation.impact.overlay.builder import Kustomize


def _look(before: Applied | None, after: Applied, known: Known) -> Seen:
    if not known.build:
        return Seen()
    old = before.files if before else Tree(())
    built = preflight(old, after.files, after.path, known.kustomize, known.folder)
    hazards = (*built.hazards, *secret_hazards(before.overlay if before else Tree(()), after.overlay))
    if known.kustomization:
        hazards += unfit_in_cluster(before.files if before else None, after.files, known.kustomization, known.kustomize)
    if before is None or before.components != after.components or before.overlay == after.overlay:
        return Seen(hazards, built.pruned, built.changes, rights=built.rights)
    builds = tuple(_both(each, known.kustomize) for each in built.builds)
    return Seen(hazards, built.pruned, built.changes, rendered_diffs(builds), built.rights)


def _both(built: Built, kustomize: Kustomize | None) -> Built:
    """Return what a folder renders to on both sides; one that only lists files is built where the other one was."""
    files = built.old if built.before is None else built.new
    if kustomize is None or files is None or (built.before is None) == (built.after is None):
        return built
    (text,) = kustomize.builds([(files, built.folder)])
    if not isinstance(text, str):
        return built
    return replace(built, before=text) if built.before is None else replace(built, after=text)


def _clear(_after: Applied, known: Known) -> tuple[str, str]:
    builder = "kustomize" if known.kustomize else "no kustomize, and nothing that needs it"
    return "the overlay builds, and hits what it hit", builder


CHECK = Check(GATE, 2, _look, _clear)
