"""Overlays around the components of real releases, and what the real kustomize says of them."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ci_automation.artifact.tree import COMPONENTS_PATH, Tree, TreeFile
from ci_automation.flows.programs.kustomize import Confined
from ci_automation.impact.change import Certainty
from ci_automation.impact.objects import read_objects
from ci_automation.impact.overlay.outcome import original
from ci_automation.impact.overlay.preflight import Preflight, preflight
from tests.real.peers import peer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ci_automation.impact.change import Hazard
    from ci_automation.impact.overlay.outcome import Followed

    Files = Mapping[str, object]

MARK = "probe.example/"


def components(golden: Path, version: str) -> bytes:
    """Return the components of a real release, with the default options."""
    return gzip.decompress((golden / "text" / version / "default.yaml.gz").read_bytes())


def tree(golden: Path, version: str, files: Files) -> Tree:
    """Return an artifact with a real release's components and other files: texts, or values to write as JSON."""
    written = {path: text if isinstance(text, str) else json.dumps(text) for path, text in files.items()}
    others = (TreeFile(path, text.encode()) for path, text in written.items())
    return Tree((TreeFile(COMPONENTS_PATH, components(golden, version)), *others))


@cache
def kustomize() -> Confined:
    """Return the real kustomize, the same all session long: it remembers its last builds."""
    return Confined(peer("kustomize"))


def step(golden: Path, versions: tuple[str, str], files: Files, after: Files | None = None) -> Preflight:
    """Return what the preflight says of a step between two releases, and perhaps to other files."""
    old, new = (tree(golden, version, found) for version, found in zip(versions, (files, after or files), strict=True))
    return preflight(old, new, COMPONENTS_PATH, kustomize())


def told(found: Preflight, certainty: Certainty = Certainty.CERTAIN) -> list[str]:
    """Return the sentences of the hazards of that certainty."""
    return [hazard.sentence for hazard in found.hazards if hazard.certainty is certainty]


def grave(found: Preflight) -> list[Hazard]:
    """Return the hazards that stop a step."""
    return [hazard for hazard in found.hazards if hazard.certainty is not Certainty.ADVICE]


def selected_by_annotation(files: Tree) -> dict[str, set[str]]:
    """Return which objects each patch with a target selects, as annotations that a patch before it adds say."""
    probed = []
    for file in files.files:
        if file.path.endswith("kustomization.yaml") and isinstance(value := json.loads(file.content), dict):
            patches = list(_with_probes(file.path, value.get("patches", [])))
            content = json.dumps(value | ({"patches": patches} if patches else {})).encode()
            probed.append(replace(file, content=content))
        else:
            probed.append(file)
    (built,) = kustomize().builds([(Tree(tuple(probed)), ".")])
    found: dict[str, set[str]] = {}
    for each in read_objects(str(built)):
        for key in each.value["metadata"].get("annotations") or ():
            if key.startswith(MARK):
                found.setdefault(key, set()).add(str(each.id))
    return found


def selected_by_marks(found: Followed, built: str) -> dict[str, set[str]]:
    """Return the same as the build with marks says it; what a later patch deletes shows no annotation."""
    now = {original(each.id, each.value): str(each.id) for each in read_objects(built)}
    marks: dict[str, set[str]] = {}
    for effect in found.effects.values():
        field, _, number = effect.rule.name.rstrip("]").partition("[")
        hit = {now[each] for each in effect.objects if each in found.present}
        if field == "patches" and hit:
            marks[_mark(effect.rule.file, int(number))] = hit
    return marks


def _with_probes(file: str, patches: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    for number, patch in enumerate(patches):
        if "target" in patch:
            yield {"target": patch["target"], "patch": json.dumps(_probe(file, number))}
        yield patch


def _probe(file: str, number: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any", "annotations": {_mark(file, number): "x"}}}


def _mark(file: str, number: int) -> str:
    return f"{MARK}{file.replace('/', '-')}-{number}"
