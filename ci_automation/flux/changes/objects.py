"""The objects of a multi-document text: whose text is whose, and what each is known by."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ci_automation.flux.changes.model import ObjectId
from ci_automation.flux.changes.plain import Line, NotPlain, read_plain
from ci_automation.flux.changes.reading import END, MAX_CHARACTERS, Document, UnreadableObjects, read
from ci_automation.flux.changes.values import canonical, items, mapping, words
from ci_automation.flux.text import SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HEADER = re.compile(r"\A(?:---\n)?((?:#[^\n]*\n)*)")
# Line breaks, and marks before a text, that only YAML knows.
_BREAKS = "\r\x85\u2028\u2029\ufeff"
_MARKER = "---\n"
_MAX_DOCUMENTS = 2_000  # reading each by itself takes its time


@dataclass(frozen=True, slots=True)
class Object:
    """One Kubernetes object of a file, as it stands there; `line` is that of its first key."""

    id: ObjectId
    api_version: str
    value: Mapping[str, Any]
    line: int


@dataclass(frozen=True, slots=True)
class Text:
    """A text cut into its comments at the top and its documents; `whole` where these cannot be cut without reading."""

    header: str
    documents: tuple[str, ...]
    ended: bool  # by a newline
    whole: bool
    first_line: int  # of the first document

    @classmethod
    def of(cls, text: str) -> Text:
        """Return the parts of a text; nothing is read yet."""
        head = _HEADER.match(text)
        start = head.end() if head else 0
        line = text.count("\n", 0, start) + 1
        ended, body = not text or text.endswith("\n"), text[start:].removesuffix("\n")
        whole = len(text) > MAX_CHARACTERS or not _can_be_cut(f"\n{body}\n") or body.count(SEPARATOR) > _MAX_DOCUMENTS
        return cls(head[1] if head else "", (body,) if whole else tuple(body.split(SEPARATOR)), ended, whole, line)


def _can_be_cut(text: str) -> bool:
    """Tell whether a text's documents begin and end as kustomize writes it, and nowhere else."""
    if any(sign in text for sign in _BREAKS) or "\n..." in text or "\n%" in text:
        return False
    return text.count("\n---") == text.count(SEPARATOR) + text.count("\n---\n---\n")


@dataclass(frozen=True, slots=True)
class Entry:
    """A document, or an object in a List, with its text; without a document where it cannot be read, and why."""

    id: ObjectId
    text: str
    document: Document | None
    problem: str = ""


def read_objects(text: str) -> tuple[Object, ...]:
    """Return the objects of a text, those in a `List` too; documents that are no objects are left out.

    Raises:
        UnreadableObjects: it is not YAML, is longer or deeper than anybody writes, or has anchors, aliases or tags.
    """
    return tuple(
        Object(found, words(value.get("apiVersion")), value, line)
        for line, document in _with_lines(text)
        for value in map(mapping, (document.value, *_listed(document.value)))
        if (found := identity(value))
    )


def _with_lines(text: str) -> Iterator[tuple[int, Document]]:
    """Yield the documents of a text with the lines that they begin at."""
    parts = Text.of(text)
    if parts.whole:
        yield from ((document.line, document) for document in read(text))
        return
    line = parts.first_line
    known: dict[str, Line] = {}
    for part in parts.documents:
        try:
            found = _read(part, known)
        except UnreadableObjects as error:
            raise UnreadableObjects(error.reason, error.line and line + error.line - 1) from None
        yield from ((line + document.line - 1, document) for document in found)
        line += part.count("\n") + SEPARATOR.count("\n")


def identity(value: Any) -> ObjectId | None:  # noqa: ANN401 - a value of YAML
    """Return what an object is known by, or None where the value is no object, or a List of them."""
    value = mapping(value)
    kind, metadata = words(value.get("kind")), mapping(value.get("metadata"))
    name = words(metadata.get("name"))
    if not kind or not name:
        return None
    group, _, _ = words(value.get("apiVersion")).rpartition("/")
    return ObjectId(group, kind, words(metadata.get("namespace")), name)


def _listed(value: Any) -> list[Any]:  # noqa: ANN401 - a value of YAML
    """Return the objects in a List, which clients take apart."""
    value = mapping(value)
    return items(value.get("items")) if value.get("apiVersion") == "v1" and value.get("kind") == "List" else []


def entries(text: Text, known: dict[str, Line] | None) -> Iterator[Entry]:
    """Yield the documents of a text; one that cannot be read, and one without a name, has its number.

    Without `known`, the lines that were read before, the quick reader is not used.
    """
    nameless = 0
    for part in text.documents:
        try:
            found = _read(part, None if text.whole else known)
        except UnreadableObjects as error:
            nameless += 1
            yield Entry(_numbered(nameless), part, None, str(error))
            continue
        for document in found:
            own = _trimmed(part if len(found) == 1 else part[document.start : document.end])
            listed = _listed_in(document)
            for value, words_of_it in ((document.value, canonical(document.value) if listed else own), *listed):
                name = identity(value)
                nameless += name is None
                it = document if value is document.value else Document(document.line, 0, value=value)
                yield Entry(name or _numbered(nameless), words_of_it, it)


def _listed_in(document: Document) -> list[tuple[Any, str]]:
    """Take the objects out of a List, and return each with a text of its own."""
    listed = _listed(document.value)
    if listed:
        document.value["items"] = len(listed)
    return [(value, canonical(value)) for value in listed]


def _read(text: str, known: dict[str, Line] | None) -> list[Document]:
    """Return the documents of a text.

    Raises:
        UnreadableObjects: they cannot be read.
    """
    if known is not None:
        try:
            return [read_plain(text, known)]
        except NotPlain:
            pass
    found = read(text)
    # Comments alone are no document to YAML, and yet something that a file says.
    return found or ([Document(1, 0, len(text), odd={END: text})] if text.strip() else [])


def _trimmed(text: str) -> str:
    return text.removeprefix(_MARKER).removesuffix("\n")


def _numbered(number: int) -> ObjectId:
    return ObjectId("", "Document", "", f"without a name, number {number}")
