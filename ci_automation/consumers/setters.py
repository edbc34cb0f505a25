"""Setter comments: `digest: sha256:... # {"$flux-manifests": "production:digest"}`, on any value of any file.

They look like those of Flux's image automation (`# {"$imagepolicy": ...}`): the value before the comment, on the same
line, becomes the artifact's `digest`, `tag` (the immutable one) or `version`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.consumers.find import replacement
from ci_automation.consumers.model import Finding, Kind
from ci_automation.consumers.tree import Alias, Scalar

if TYPE_CHECKING:
    from ci_automation.consumers.model import Published
    from ci_automation.consumers.tree import File

MARK = b"$flux-manifests"
_SETTER = re.compile(
    r'#[ \t]*\{[ \t]*"\$flux-manifests"[ \t]*:[ \t]*"(?P<name>[^":\r\n]*):(?P<field>[^"\r\n]*)"[ \t]*\}'
)
_LINE_BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")  # as YAML 1.1 has them


class Setter(Struct, frozen=True):
    """One setter comment: whose `field` it asks for, and the value that it stands beside, or why there is none."""

    line: int
    name: str
    field: str
    value: Scalar | None
    reason: str = ""


def setters(file: File, text: str) -> tuple[Setter, ...]:
    """Return the setter comments in `text`, which `file` was read from; one that is commented out is none."""
    starts = [0, *(match.end() for match in _LINE_BREAK.finditer(text))]
    ends = [leaf.end for leaf in file.leaves]
    found = []
    for match in _SETTER.finditer(text):
        at, line = match.start(), bisect_right(starts, match.start())
        begin, ended = starts[line - 1], bisect_right(ends, at)
        value, reason = None, ""
        if ended < len(ends) and file.leaves[ended].start < at:
            reason = "it is inside of a text"
        elif ended and (leaf := file.leaves[ended - 1]).end > begin:
            between = text[leaf.end : at]
            if "#" in between:
                continue
            value, reason = _value(leaf, between)
        elif "#" in text[begin:at]:
            continue
        else:
            reason = "there is no value before it on its line"
        found.append(Setter(line, match["name"], match["field"], value, reason))
    return tuple(found)


def _value(leaf: Scalar | Alias, between: str) -> tuple[Scalar | None, str]:
    if isinstance(leaf, Alias):
        return None, "it stands beside an alias"
    if leaf.is_key or between.strip(" \t") not in ("", ","):
        return None, "it does not stand right behind a value"
    return leaf, ""


def requested(setter: Setter, text: str, published: Published) -> Finding:
    """Return what is to be done about a setter comment that names the artifact."""
    what = f"setter comment {setter.name}:{setter.field}"
    if setter.value is None:
        return Finding(setter.line, what, Kind.LEFT, reason=setter.reason)
    old = setter.value.text
    wanted = {
        "digest": str(published.digest),
        "tag": published.tag,
        "version": str(published.version).removeprefix("v" if old[:1].isdecimal() else ""),
    }.get(setter.field)
    if wanted is None:
        return Finding(setter.line, what, Kind.LEFT, old, reason="it asks for neither digest, tag nor version")
    return replacement(setter.value, text, what, wanted)
