"""Check whether the files around the components still fit them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.artifact.tree import Tree
from ci_automation.impact.check import Check, Seen
from ci_automation.impact.overlay.compare import GATE
from ci_automation.impact.overlay.preflight import preflight

if TYPE_CHECKING:
    from ci_automation.impact.check import Applied, Known


def _look(before: Applied | None, after: Applied, known: Known) -> Seen:
    if not known.build:
        return Seen()
    built = preflight(before.files if before else Tree(()), after.files, after.path, known.kustomize)
    return Seen(built.hazards, built.pruned, built.changes)


def _clear(_after: Applied, known: Known) -> tuple[str, str]:
    builder = "kustomize" if known.kustomize else "no kustomize, and nothing that needs it"
    return "the overlay builds, and hits what it hit", builder


CHECK = Check(GATE, 2, _look, _clear)
