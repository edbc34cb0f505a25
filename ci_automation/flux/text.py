"""Edits on the text of one YAML document as kustomize writes it: block style, two spaces, keys of a mapping sorted.

This module never parses YAML and writes it again, because no emitter would reproduce kustomize's bytes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import takewhile
from typing import TYPE_CHECKING

from ci_automation.errors import VerificationFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

SEPARATOR = "\n---\n"
_KIND = re.compile(r"^kind: (\S+)$", re.MULTILINE)
_NAME = re.compile(r"^metadata:\n(?:  .*\n)*?  name: (\S+)$", re.MULTILINE)


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
