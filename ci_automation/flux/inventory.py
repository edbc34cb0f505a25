"""What is in a components file, for comparing two of them: controllers, CRDs, images, lines."""

from __future__ import annotations

import difflib
import re

from ci_automation.flux.text import documents

_KIND = re.compile(r"^kind: (Deployment|CustomResourceDefinition)$", re.MULTILINE)
_NAME = re.compile(r"^metadata:\n(?:  .*\n)*?  name: (\S+)$", re.MULTILINE)
_IMAGE = re.compile(r"^ +(?:- )?image: (\S+)$", re.MULTILINE)
_DIFF_LINES = 200


def inventory(text: str) -> frozenset[str]:
    """Return the controllers and CRDs of a components file, as `Deployment/NAME`, `CustomResourceDefinition/NAME`."""
    found = set()
    for part in documents(text):
        kind = _KIND.search(part)
        name = _NAME.search(part)
        if kind and name:
            found.add(f"{kind[1]}/{name[1]}")
    return frozenset(found)


def images(text: str) -> dict[str, str]:
    """Return the first image of each controller in a components file, by the controller's name."""
    found = {}
    for part in documents(text):
        if "\nkind: Deployment\n" in part and (name := _NAME.search(part)) and (image := _IMAGE.search(part)):
            found[name[1]] = image[1]
    return found


def difference(old: str, new: str, old_name: str, new_name: str) -> str:
    """Return a unified diff of two texts, cut after 200 lines."""
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm="", n=2))
    if len(lines) > _DIFF_LINES:
        lines[_DIFF_LINES:] = [f"... and {len(lines) - _DIFF_LINES} lines more"]
    return "\n".join(lines)
