"""Text of a components file: its controllers, CRDs and images, digests of images, and differences.

Flux itself writes no digests into images (`ghcr.io/fluxcd/source-controller:v1.9.4@sha256:...`). This module edits them
into the text, and out again, which restores Flux's own bytes.
"""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING

from ci_automation.artifact.digest import Digest
from ci_automation.flux.text import SEPARATOR, documents, label_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DEPLOYMENT = "\nkind: Deployment\n"
# A line of a container; each repetition ends at what cannot be in it.
_IMAGE = re.compile(
    r"^(?P<head> +(?:- )?image: )(?P<image>[^\s@]{1,512})(?:@(?P<digest>sha256:[0-9a-f]{64}))?$", re.MULTILINE
)
_INVENTORY = ("Deployment/", "CustomResourceDefinition/")
_DIFF_LINES = 200
_DIFF_WIDTH = 240
_DIFF_CONTEXT = 2
_DIFF_STEPS = 10_000_000  # two minor versions of Flux take 1.5 million


def image_names(text: str) -> tuple[str, ...]:
    """Return every image of the controllers in a components file, with its digest if it has one, sorted."""
    return tuple(sorted({_whole(match) for part in text.split(SEPARATOR) for match in _images(part)}))


def pin(text: str, digests: Mapping[str, Digest]) -> str:
    """Return a components file with the digest of each image in `digests`; images with a digest keep theirs."""

    def pinned(match: re.Match[str]) -> str:
        digest = digests.get(match["image"])
        return match[0] if digest is None or match["digest"] else f"{match[0]}@{digest}"

    return SEPARATOR.join(_IMAGE.sub(pinned, part) if _DEPLOYMENT in part else part for part in text.split(SEPARATOR))


def unpin(text: str) -> tuple[str, Mapping[str, Digest]]:
    """Return a components file as Flux itself writes it, and the digests of its images.

    An edited file, with digests for only some of its images or two digests for one, is returned unchanged and without
    digests.
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


def _whole(match: re.Match[str]) -> str:
    return match[0].removeprefix(match["head"])


@lru_cache(maxsize=4)  # one step's new components are the next one's old
def inventory(text: str) -> frozenset[str]:
    """Return the controllers and CRDs of a components file, as `Deployment/NAME`, `CustomResourceDefinition/NAME`."""
    return frozenset(label for part in documents(text) if (label := label_of(part)).startswith(_INVENTORY))


def controller_images(text: str) -> dict[str, str]:
    """Return the first image of each controller in a components file, by the controller's name."""
    found = ((label_of(part).rpartition("/")[2], _images(part)) for part in documents(text))
    return {name: _whole(images[0]) for name, images in found if name and images}


def unified_diff(old: str, new: str, old_name: str, new_name: str) -> str:
    """Return a unified diff of two texts, cut after 200 lines and in long ones, with bounded work for any texts."""
    lines = [f"--- {old_name}", f"+++ {new_name}", *hunks(old.splitlines(), new.splitlines())]
    if len(lines) > _DIFF_LINES:
        lines[_DIFF_LINES:] = [f"... and {len(lines) - _DIFF_LINES} lines more"]
    return "\n".join(line if len(line) <= _DIFF_WIDTH else f"{line[: _DIFF_WIDTH - 1]}…" for line in lines)


def hunks(before: list[str], after: list[str]) -> Iterator[str]:
    """Yield the hunks of a unified diff, line by line, with bounded work for any lines."""
    for group in _Matcher(before, after).get_grouped_opcodes(_DIFF_CONTEXT):
        _, start, _, new_start, _ = group[0]
        _, _, end, _, new_end = group[-1]
        yield f"@@ -{start + 1},{end - start} +{new_start + 1},{new_end - new_start} @@"
        for tag, i, j, k, m in group:
            if tag == "equal":
                yield from (f" {line}" for line in before[i:j])
            else:
                yield from (f"-{line}" for line in before[i:j])
                yield from (f"+{line}" for line in after[k:m])


class _Matcher(difflib.SequenceMatcher[str]):
    """A matcher of common lines with a limit: after it, all remaining lines count as changed.

    Hostile texts could take days without a limit.
    """

    a: list[str]
    b2j: dict[str, list[int]]

    def __init__(self, old: list[str], new: list[str]) -> None:
        super().__init__(None, old, new)
        self._steps = [0, *accumulate(len(self.b2j.get(line, ())) + 1 for line in old)]  # before each line of `old`
        self._left = _DIFF_STEPS

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> difflib.Match:
        """Return the longest run of equal lines, or an empty one after the limit."""
        self._left -= self._steps[len(self.a) if ahi is None else ahi] - self._steps[alo]
        return super().find_longest_match(alo, ahi, blo, bhi) if self._left >= 0 else difflib.Match(alo, blo, 0)
