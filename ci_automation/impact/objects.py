"""The objects of a multi-document text: whose text is whose, and what each is known by."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.flux.text import SEPARATOR
from ci_automation.impact.change import ObjectId
from ci_automation.impact.plain import Line, NotPlain, read_plain
from ci_automation.impact.reading import END, MAX_CHARACTERS, Document, UnreadableObjects, read
from ci_automation.impact.values import canonical, mapping, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HEADER = re.compile(r"\A(?:---\n)?((?:#[^\n]*\n)*)")
# Line breaks, and marks before a text, that only YAML knows.
_BREAKS = "\r\x85\u2028\u2029\ufeff"
_MARKER = "---\n"
_MAX_DOCUMENTS = 2_000  # reading each by itself takes its time
_MAX_NAMES = 1_000  # what clusters take is shorter, all of it together; it is part of every change


class Object(Struct, frozen=True):
    """One Kubernetes object of a file, as it stands there; `line` is that of its first key."""

    id: ObjectId
    api_version: str
    value: Mapping[str, Any]
    line: int


class Text(Struct, frozen=True):
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


class Entry(Struct, frozen=True):
    """A document, or an object in another, with its text; without a document where it cannot be read, and why."""

    id: ObjectId
    text: str
    document: Document | None
    problem: str = ""
    holds: bool = False  # objects, though it is called no List: clusters take it apart, and leave it out itself


def read_objects(text: str) -> tuple[Object, ...]:
    """Return the objects of a text, those in a `List` too; documents that are no objects are left out.

    Whatever has a list of `items` is taken apart, as clusters do (fluxcd/pkg/ssa, `ReadObjects`), and is no object.

    Raises:
        UnreadableObjects: it is not YAML, is longer or deeper than anybody writes, or has anchors, aliases, tags
            or merge keys.
    """
    return tuple(
        Object(found, words(value.get("apiVersion")), value, line)
        for line, document in _with_lines(text)
        for value in map(mapping, _parts(document.value))
        if not _is_listing(value) and (found := identity(value))
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
    """Return what an object is known by, or None where the value is none that a cluster takes, or a List of them."""
    value = mapping(value)
    kind, metadata = words(value.get("kind")), mapping(value.get("metadata"))
    name = words(metadata.get("name"))
    if not kind or not name:
        return None
    group, _, _ = words(value.get("apiVersion")).rpartition("/")
    found = ObjectId(group, kind, words(metadata.get("namespace")), name)
    return found if sum(map(len, (group, kind, found.namespace, name))) <= _MAX_NAMES else None


def _is_listing(value: Any) -> bool:  # noqa: ANN401 - a value of YAML
    """Tell whether clients take a value apart, whatever its kind is (apimachinery, `Unstructured.IsList`)."""
    return isinstance(mapping(value).get("items"), list)


def is_called_list(value: Any) -> bool:  # noqa: ANN401 - a value of YAML
    """Tell whether a value's kind says that it holds others."""
    return words(mapping(value).get("kind")).endswith("List")


def _parts(value: Any) -> Iterator[Any]:  # noqa: ANN401 - values of YAML
    """Yield a value, and all that clients take out of it."""
    yield value
    if _is_listing(value):
        for each in value["items"]:
            yield from _parts(each)


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
            for value in _parts(document.value):
                name = identity(value)
                nameless += name is None
                yield _entry(name or _numbered(nameless), value, document, own)


def _entry(name: ObjectId, value: Any, document: Document, text: str) -> Entry:  # noqa: ANN401 - a value of YAML
    """Return the entry of a document's value, or of one within it; a List is without those that it holds."""
    is_listing = _is_listing(value)
    holds = is_listing and not is_called_list(value)
    own = {**value, "items": len(value["items"])} if is_listing and not holds else value
    if value is not document.value:
        return Entry(name, canonical(own), Document(document.line, 0, value=own), holds=holds)
    known = text if own is value else canonical(own)
    return Entry(name, known, replace(document, value=own), holds=holds)


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
