"""Unified diffs of an overlay's files, and of what kustomize builds of it; contents of Secrets are left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_automation.flux.components import hunks
from ci_automation.impact.change import FileDiff

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.artifact.tree import Tree
    from ci_automation.impact.overlay.preflight import Built

_SECRET = re.compile(r"""["']?kind["']?\s*:\s*["']?Secret\b""")
_GENERATOR = "secretGenerator"
_YAML = (".yaml", ".yml")
_MOST_DIFFS, _MOST_LINES, _WIDEST = 40, 400, 500
_HIDDEN = "It holds, or may hold, a Secret: its content is not shown."
_BINARY = "It is no text."


def overlay_diffs(old: Tree, new: Tree) -> tuple[FileDiff, ...]:
    """Return what changes in each file from one overlay to another; both are without the components file."""
    before, after = old.by_path, new.by_path
    generates = any(_GENERATOR.encode() in file.content for file in (*old.files, *new.files))
    found: list[FileDiff] = []
    for path in sorted(before.keys() | after.keys()):
        sides = [side[path].content if path in side else b"" for side in (before, after)]
        if sides[0] != sides[1] and len(found) < _MOST_DIFFS:
            found.append(FileDiff(path, _file_diff(path, *sides, generates=generates)))
    return tuple(found)


def rendered_diffs(builds: Iterable[Built]) -> tuple[FileDiff, ...]:
    """Return what changes in what each folder renders to, where it was built before and after."""
    found = []
    for each in builds:
        if each.before is not None and each.after is not None and each.before != each.after:
            text = _hunks(_without_secrets(each.before), _without_secrets(each.after))
            found.append(FileDiff(each.folder, text or _HIDDEN, rendered=True))
    return tuple(found[:_MOST_DIFFS])


def _file_diff(path: str, old: bytes, new: bytes, *, generates: bool) -> str:
    try:
        before, after = old.decode(), new.decode()
    except UnicodeDecodeError:
        return _BINARY
    texts = f"{before}\n{after}"
    if _SECRET.search(texts) or _GENERATOR in texts or (generates and not path.endswith(_YAML)):
        return _HIDDEN
    return _hunks(before, after)


def _without_secrets(text: str) -> str:
    """Return objects with a word in place of each Secret."""
    parts = text.split("\n---\n")
    return "\n---\n".join("# a Secret, not shown" if _SECRET.search(part) else part for part in parts)


def _hunks(old: str, new: str) -> str:
    lines = list(hunks(old.splitlines(), new.splitlines()))
    more = [f"and {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else []
    return "\n".join([line[:_WIDEST] for line in lines[:_MOST_LINES]] + more)
