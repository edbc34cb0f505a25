"""A text of objects cut into parts, each of which is read once; the schemas of a CRD are parts of their own.

What was read stays in memory by its text: two releases, and what kustomize builds with them, have most parts in common.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.flux.text import SEPARATOR
from ci_automation.impact.plain import NotPlain, read_below, read_plain
from ci_automation.impact.reading import END, MAX_CHARACTERS, Document, Path, UnreadableObjects, read
from ci_automation.impact.values import at, items

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_HEADER = re.compile(r"\A(?:---\n)?((?:#[^\n]*\n)*)")
# Line breaks, and marks before a text, that only YAML knows.
_BREAKS = "\r\x85\u2028\u2029\ufeff"
_MARKER = "---\n"
_OTHER_MARKS = ("\n...", "\n%")
_CRD = "\nkind: CustomResourceDefinition\n"
_SCHEMA, _SERVED = "\n    schema:", "\n    served:"
_STAND_IN = '"(a schema)"'  # in place of one
_BELOW = f"\n{' ' * 6}"
_NOT_WITHIN = re.compile(r"\n(?! {6}|\n)")  # a line that does not belong to a schema
_VERSION_NAME = re.compile(r"(?: {4}|  - )name: (\S+)")
_MAX_DOCUMENTS = 2_000  # reading each by itself takes its time
# Pieces of text that stay in memory once they are read; two releases have 180 documents and 60 schemas.
_MAX_PARTS, _MAX_SCHEMAS, _MAX_TEXTS = 512, 64, 4


class Definition(Struct, frozen=True):
    """A CRD as kustomize writes it: the schemas by the names of their versions, and the rest, each read by itself."""

    rest: Document  # with `_STAND_IN` in place of each schema
    schemas: Mapping[str, str]

    @classmethod
    def of(cls, text: str) -> Definition | None:
        """Return the definition that a text is, None for anything else and for what is written in another form."""
        rest, schemas = _cut_out(text) if _CRD in text and _STAND_IN not in text else ("", {})
        if not schemas or not all(map(_is_within, schemas.values())):
            return None
        try:
            found = read_plain(rest)
        except NotPlain:
            return None
        versions = [(at(it, "name"), at(it, "schema")) for it in items(at(at(found.value, "spec"), "versions"))]
        return cls(found, schemas) if versions == [(name, _STAND_IN.strip('"')) for name in schemas] else None

    def without(self, same: Collection[str]) -> Document:
        """Return the definition with an empty schema in the versions of these names.

        Raises:
            NotPlain: another schema is not of kustomize's form.
        """
        of = self._read(same)
        value: dict[str, Any] = self.rest.value
        forms: dict[Path, str] = {}
        versions = [
            {**it, "schema": of[n].value["spec"]["versions"][n]["schema"] if n in of else {}}
            for n, it in enumerate(value["spec"]["versions"])
        ]
        for path, form in self.rest.forms.items():
            if form != _STAND_IN:
                forms[path] = form
            elif (number := cast("int", path[2])) in of:
                forms |= of[number].forms
        unsorted = self.rest.unsorted.union(*(it.unsorted for it in of.values()))
        return replace(
            self.rest, value={**value, "spec": {**value["spec"], "versions": versions}}, forms=forms, unsorted=unsorted
        )

    def is_plain_without(self, same: Collection[str]) -> bool:
        """Return whether the schemas of all versions but these are of kustomize's form."""
        try:
            self._read(same)
        except NotPlain:
            return False
        return True

    def _read(self, same: Collection[str]) -> dict[int, Document]:
        """Return the schemas of all versions but these, by the position of the version."""
        return {n: _schema(text, n) for n, (name, text) in enumerate(self.schemas.items()) if name not in same}


@lru_cache(maxsize=_MAX_SCHEMAS)
def _schema(text: str, number: int) -> Document:
    return read_below(f"    schema:{text}", "spec", "versions", number)


@lru_cache(maxsize=_MAX_SCHEMAS)
def _is_within(schema: str) -> bool:
    """Return whether all lines below a schema's own are indented further."""
    below = schema.count(_BELOW) + schema.count("\n\n")  # quick, and nearly always enough
    return schema.count("\n") == below or not _NOT_WITHIN.search(schema)


def _cut_out(definition: str) -> tuple[str, dict[str, str]]:
    """Return a definition without its schemas, and these by version; none if one is written in another form."""
    rest, *others = definition.split(_SCHEMA)
    found: dict[str, str] = {}
    before = rest
    for other in others:
        schema, served, after = other.partition(_SERVED)
        name = _VERSION_NAME.fullmatch(before, before.rfind("\n") + 1)
        if not name or not served or name[1] in found:
            return "", {}
        found[name[1]] = schema
        rest += f"{_SCHEMA} {_STAND_IN}{_SERVED}{after}"
        before = after
    return rest, found


class Part(Struct, frozen=True, dict=True):
    """A document of a text, or a whole text that cannot be cut; it is read once."""

    text: str
    is_plain: bool = True  # whether it may be as kustomize writes it

    @cached_property
    def definition(self) -> Definition | None:
        """Return the definition of custom resources that it is, if it is one in kustomize's form."""
        return Definition.of(self.text) if self.is_plain else None

    def documents(self, same: Collection[str] = (), *, quick: bool = True) -> list[Document]:
        """Return its documents, a CRD with an empty schema in the versions `same`; not `quick` is to read it as YAML.

        Raises:
            UnreadableObjects: it cannot be read.
        """
        if quick and self.definition:
            with suppress(NotPlain):
                return [replace(self.definition.without(same), end=len(self.text))]
        found = self._read if quick else _read(self.text)
        if isinstance(found, UnreadableObjects):
            raise found
        return found

    @cached_property
    def _read(self) -> list[Document] | UnreadableObjects:
        with suppress(NotPlain):
            return [read_plain(self.text)] if self.is_plain else _read(self.text)
        return _read(self.text)


def _read(text: str) -> list[Document] | UnreadableObjects:
    """Return the documents of a text, or why they cannot be read."""
    try:
        found = read(text)
    except UnreadableObjects as error:
        return error
    # Comments alone are no document to YAML, and yet something that a file says.
    return found or ([Document(1, 0, len(text), odd={END: text})] if text.strip() else [])


_part = lru_cache(maxsize=_MAX_PARTS)(Part)


class Text(Struct, frozen=True):
    """A text cut into its comments at the top and its documents; `whole` where these cannot be cut without reading."""

    header: str
    parts: tuple[Part, ...]
    ended: bool  # by a newline
    whole: bool
    first_line: int  # of the first document

    @classmethod
    def of(cls, text: str) -> Text:
        """Return the parts of a text; nothing is read yet."""
        return _cut(text)


@lru_cache(maxsize=_MAX_TEXTS)
def _cut(text: str) -> Text:
    head = _HEADER.match(text)
    start = head.end() if head else 0
    line = text.count("\n", 0, start) + 1
    ended, body = not text or text.endswith("\n"), text[start:].removesuffix("\n")
    documents = body.split(SEPARATOR)
    whole = len(text) > MAX_CHARACTERS or len(documents) > _MAX_DOCUMENTS or not _can_be_cut(body, documents)
    parts = (Part(body, is_plain=False),) if whole else tuple(map(_part, documents))
    return Text(head[1] if head else "", parts, ended, whole, line)


def _can_be_cut(text: str, documents: list[str]) -> bool:
    """Return whether a text's documents begin and end as kustomize writes it, and nowhere else."""
    if (
        any(sign in text for sign in _BREAKS)
        or any(mark in text for mark in _OTHER_MARKS)
        or text.startswith(("...", "%"))
    ):
        return False
    marks = text.startswith("---") + text.count("\n---")
    return marks == len(documents) - 1 + sum(document.startswith(_MARKER) for document in documents)
