"""What kustomize says of a build that failed: the error itself, without the resources that lead to it.

For each folder that it goes into, kustomize puts another sentence before the error, and says twice why a file is none
that it could read (`accumulateResources` of its `KustTarget`).
"""

from __future__ import annotations

import re

# Each takes away a beginning, and leaves the rest; the first that fits counts.
_OUTER = (
    re.compile(r"accumulating (?:resources|components): (?P<rest>.+)"),
    re.compile(r'accumulateDirectory: "(?P<rest>.+)"'),
    re.compile(r"recursed accumulation of path '(?P<folder>[^']*)': (?P<rest>.+)"),
    re.compile(r"accumulation err='accumulating resources from '[^']*': '[^']*' must resolve to a file': (?P<rest>.+)"),
    re.compile(r"accumulation err='(?P<rest>.+)': must build at directory: .+"),
    re.compile(r"(?:accumulating|merging) resources from '(?P<file>[^']*)': (?P<rest>.+)"),
)
_NOT_THERE = re.compile(r"evalsymlink failure on '[^']*' : lstat ")


def innermost(said: str) -> str:
    """Return the error at the end of what kustomize said in one line, with the file and the folder that it is about."""
    folder = file = ""
    while found := next((match for each in _OUTER if (match := each.fullmatch(said))), None):
        parts = found.groupdict()
        said, folder, file = parts["rest"], parts.get("folder", folder), parts.get("file", file)
    said = _NOT_THERE.sub("", said)
    if file.rstrip("/") not in said:
        said = f"{file}: {said}"
    return said if folder in said else f"in {folder}: {said}"
