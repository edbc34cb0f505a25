"""Digests behind the images of a components file: `ghcr.io/fluxcd/source-controller:v1.9.4@sha256:...`.

Flux itself writes none. They are edits on the text, and taking them away again leaves Flux's own bytes.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from ci_automation.artifact.digest import Digest
from ci_automation.flux.text import SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEPLOYMENT = "\nkind: Deployment\n"
# A line of a container; each repetition ends at what cannot be in it.
_IMAGE = re.compile(
    r"^(?P<head> +(?:- )?image: )(?P<image>[^\s@]{1,512})(?:@(?P<digest>sha256:[0-9a-f]{64}))?$", re.MULTILINE
)


def image_names(text: str) -> tuple[str, ...]:
    """Return every image of the controllers in a components file as it is written there, sorted."""
    found = (match for part in text.split(SEPARATOR) for match in _images(part))
    return tuple(sorted({match[0].removeprefix(match["head"]) for match in found}))


def pin(text: str, digests: Mapping[str, Digest]) -> str:
    """Return a components file with a digest behind each image that `digests` has; those that have one keep theirs."""

    def pinned(match: re.Match[str]) -> str:
        digest = digests.get(match["image"])
        return match[0] if digest is None or match["digest"] else f"{match[0]}@{digest}"

    return SEPARATOR.join(_IMAGE.sub(pinned, part) if _DEPLOYMENT in part else part for part in text.split(SEPARATOR))


def unpin(text: str) -> tuple[str, Mapping[str, Digest]]:
    """Return a components file as Flux itself writes it, and the digests that were behind its images.

    A file that no `pin` gives, with a digest at some of its images or with two for one, is returned as it is, and no
    digests: it has been edited.
    """
    found: dict[str, Digest] = {}
    bare = set[str]()
    for part in text.split(SEPARATOR):
        for match in _images(part):
            digest = match["digest"] and Digest.parse(match["digest"])
            if not digest:
                bare.add(match["image"])
            elif found.setdefault(match["image"], digest) != digest:
                return text, MappingProxyType({})
    if bare:
        return text, MappingProxyType({})
    plain = SEPARATOR.join(
        _IMAGE.sub(r"\g<head>\g<image>", part) if _DEPLOYMENT in part else part for part in text.split(SEPARATOR)
    )
    return plain, MappingProxyType(found)


def _images(part: str) -> list[re.Match[str]]:
    return list(_IMAGE.finditer(part)) if _DEPLOYMENT in part else []
