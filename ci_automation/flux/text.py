"""Edits of components files as text, what stands in them, and differences of texts.

Kustomize writes block style, two spaces, and the keys of a mapping sorted. This module never parses YAML and writes it
again, because no emitter would reproduce kustomize's bytes. Flux itself writes no digests into images
(`ghcr.io/fluxcd/source-controller:v1.9.4@sha256:...`); `pin` adds them, and `unpin` restores Flux's own bytes.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from functools import lru_cache
from itertools import accumulate, takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING

from ci_automation.artifact.reference import Digest
from ci_automation.errors import VerificationFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SEPARATOR = "\n---\n"
_KIND = re.compile(r"^kind: (\S+)$", re.MULTILINE)
_NAME = re.compile(r"^metadata:\n(?:  .*\n)*?  name: (\S+)$", re.MULTILINE)
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


class TemplateMismatch(VerificationFailed):
    """A release's manifests do not have the form that the rendering was proven on."""

    hint = "Use a newer version of this program, which may know the templates of the release."

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")


class TemplateDocument:
    """The lines of one YAML document, with the few edits that Flux's own kustomization makes."""

    def __init__(self, text: str, where: str) -> None:
        self.lines = text.split("\n")
        self.where = where
        self.kind = self._top("kind")

    def _top(self, key: str) -> str:
        for line in self.lines:
            if line.startswith(f"{key}: "):
                return line.removeprefix(f"{key}: ")
        raise TemplateMismatch(self.where, f"a document without {key}")

    def body(self, *path: str) -> tuple[int, int]:
        """Return the start and end (exclusive) line numbers of the block under the mapping keys `path`.

        Raises:
            TemplateMismatch: the document has no such block.
        """
        start, end = 0, len(self.lines)
        for depth, key in enumerate(path):
            head = "  " * depth + key + ":"
            try:
                start = self.lines.index(head, start, end) + 1
            except ValueError:
                raise TemplateMismatch(self.where, f"no {'.'.join(path)} in the {self.kind}") from None
            indent = "  " * (depth + 1)
            end = start
            while end < len(self.lines) and self.lines[end].startswith(indent):
                end += 1
        return start, end

    def insert(self, path: tuple[str, ...], key: str, block: list[str]) -> None:
        """Put `key` with the lines of `block` (its first line continues the key's) under `path`, at its sorted place.

        Raises:
            TemplateMismatch: the key exists already, its parent does not, or its neighbours are not sorted.
        """
        start, end = self.body(*path)
        indent = "  " * len(path)
        heads = [
            (line[len(indent) :].split(":", 1)[0], number)
            for number, line in enumerate(self.lines[start:end], start)
            if not line[len(indent) :].startswith((" ", "-"))
        ]
        keys = [name for name, _ in heads]
        if key in keys or keys != sorted(keys):
            reason = "is there already" if key in keys else "has no place among keys that are not sorted"
            raise TemplateMismatch(self.where, f"{'.'.join((*path, key))} {reason}")
        at = bisect_left(keys, key)
        line_number = heads[at][1] if at < len(heads) else end
        first, *rest = block
        self.lines[line_number:line_number] = [f"{indent}{key}:{first}", *(indent + line for line in rest)]

    def label(self, path: tuple[str, ...], labels: Mapping[str, str]) -> None:
        """Set `labels` in the metadata under `path`, as kustomize's LabelTransformer with `create: true` does.

        Raises:
            TemplateMismatch: the document has no such metadata, or a label is not a scalar.
        """
        start, end = self.body(*path)
        indent = "  " * len(path)
        if f"{indent}labels:" not in self.lines[start:end]:
            self.insert(path, "labels", [""])
        start, end = self.body(*path, "labels")
        pairs = [line.strip().partition(": ") for line in self.lines[start:end]]
        if not all(value for _, _, value in pairs):
            raise TemplateMismatch(self.where, f"a label of the {self.kind} is no scalar")
        merged = {**{key: value for key, _, value in pairs}, **labels}
        self.lines[start:end] = [f"{indent}  {key}: {merged[key]}" for key in sorted(merged)]

    def set_scalar(self, path: tuple[str, ...], key: str, value: str) -> None:
        """Replace the value of the scalar `key` directly under `path`.

        Raises:
            TemplateMismatch: the document does not have it exactly once.
        """
        line, head = self._scalar(path, key)
        self.lines[line] = head + value

    def scalar(self, path: tuple[str, ...], key: str) -> str:
        """Return the value of the scalar `key` directly under `path`.

        Raises:
            TemplateMismatch: the document does not have it exactly once.
        """
        line, head = self._scalar(path, key)
        return self.lines[line].removeprefix(head)

    def _scalar(self, path: tuple[str, ...], key: str) -> tuple[int, str]:
        start, end = self.body(*path)
        head = "  " * len(path) + key + ": "
        found = [number for number in range(start, end) if self.lines[number].startswith(head)]
        if len(found) != 1:
            raise TemplateMismatch(self.where, f"{'.'.join((*path, key))} is not there once in the {self.kind}")
        return found[0], head

    def items(self, head: str) -> tuple[int, int]:
        """Return the start and end (exclusive) line numbers of the list of scalars below the line `head`.

        Raises:
            TemplateMismatch: the document does not have `head` exactly once.
        """
        if self.lines.count(head) != 1:
            raise TemplateMismatch(self.where, f"{head.strip()} is not there once in the {self.kind}")
        start = self.lines.index(head) + 1
        item = " " * (len(head) - len(head.lstrip())) + ("  - " if head.lstrip().startswith("- ") else "- ")
        count = len(list(takewhile(lambda line: line.startswith(item), self.lines[start:])))
        return start, start + count

    def __str__(self) -> str:
        return "\n".join(self.lines)


def documents(text: str) -> list[str]:
    """Return the documents of a multi-document text that kustomize wrote, without the last newline."""
    return text.rstrip("\n").split(SEPARATOR)


def label_of(document: str) -> str:
    """Return the kind and name of a document as KIND/NAME, or nothing without them."""
    kind, name = _KIND.search(document), _NAME.search(document)
    return f"{kind[1]}/{name[1]}" if kind and name else ""


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
