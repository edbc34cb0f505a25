"""The objects of a multi-document text, each with its identity and its part of the text."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from types import MappingProxyType
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
_CRD = "\nkind: CustomResourceDefinition\n"
_CRD_NAME = re.compile(r"^  name: (\S+)$", re.MULTILINE)
_SCHEMA, _SERVED = "\n    schema:", "\n    served:"
_NOT_WITHIN = re.compile(r"\n(?! {6}|\n)")  # a line that does not belong to a schema
_VERSION_NAME = re.compile(r"(?: {4}|  - )name: (\S+)")
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
    """Return whether a text's documents begin and end as kustomize writes it, and nowhere else."""
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
    short: bool = False  # the document is without the schemas that both sides have


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
    """Return whether clients take a value apart, whatever its kind is (apimachinery, `Unstructured.IsList`)."""
    return isinstance(mapping(value).get("items"), list)


def is_called_list(value: Any) -> bool:  # noqa: ANN401 - a value of YAML
    """Return whether a value's kind says that it holds others."""
    return words(mapping(value).get("kind")).endswith("List")


def _parts(value: Any) -> Iterator[Any]:  # noqa: ANN401 - values of YAML
    """Yield a value, and all that clients take out of it."""
    yield value
    if _is_listing(value):
        for each in value["items"]:
            yield from _parts(each)


def entries_of_both(old: Text, new: Text) -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
    """Return the documents of two texts; the schema that a CRD's version has in both is not read, and is empty."""
    known: dict[str, Line] = {}
    short_old, short_new = _without_same_schemas(old, new)
    sides = tuple(entries(old, known, short_old)), tuple(entries(new, known, short_new))
    if _shortened(sides[0]) == _shortened(sides[1]):
        return sides
    return tuple(entries(old, known)), tuple(entries(new, known))


def _shortened(found: tuple[Entry, ...]) -> dict[ObjectId, int]:
    """Return how often each definition is there that has been read without a schema."""
    names = Counter(entry.id for entry in found)
    return {entry.id: names[entry.id] for entry in found if entry.short}


def _without_same_schemas(old: Text, new: Text) -> tuple[dict[int, str], dict[int, str]]:
    """Return what to read instead of documents, by their number: the same schemas are taken out on both sides."""
    short: tuple[dict[int, str], dict[int, str]] = ({}, {})
    before, after = _definitions(old), _definitions(new)
    for name in before.keys() & after.keys():
        documents = old.documents[before[name]], new.documents[after[name]]
        schemas = tuple(map(_schemas, documents))
        same = {version for version, schema in schemas[0].items() if schemas[1].get(version) == schema}
        if same and not any(_NOT_WITHIN.search(schemas[0][version]) for version in same):
            for each, number, document, own in zip(short, (before[name], after[name]), documents, schemas, strict=True):
                each[number] = _without(document, [version in same for version in own])
    return short


def _definitions(text: Text) -> dict[str, int]:
    """Return the number of each CRD's document by its name; the documents tell it as kustomize writes it."""
    found: dict[str, int] = {}
    for number, part in enumerate(() if text.whole else text.documents):
        names = _CRD_NAME.findall(part, 0, part.find("\nspec:\n") + 1) if _CRD in part else []
        if len(names) == 1:
            found.setdefault(names[0], number)
    return found


def _schemas(definition: str) -> dict[str, str]:
    """Return the text of each schema in a definition by the name of its version; none if one is told otherwise."""
    found: dict[str, str] = {}
    pieces = definition.split(_SCHEMA)
    for before, after in pairwise(pieces):
        schema, served, _ = after.partition(_SERVED)
        name = _VERSION_NAME.fullmatch(before, before.rfind("\n") + 1)
        if not name or not served or name[1] in found:
            return {}
        found[name[1]] = schema
    return found


def _without(definition: str, same: list[bool]) -> str:
    """Return a definition with an empty schema in each version that is the same on both sides."""
    text, *versions = definition.split(_SCHEMA)
    for version, is_same in zip(versions, same, strict=True):
        text += _SCHEMA + (f" {{}}{_SERVED}{version.partition(_SERVED)[2]}" if is_same else version)
    return text


def entries(
    text: Text, known: dict[str, Line] | None = None, short: Mapping[int, str] = MappingProxyType({})
) -> Iterator[Entry]:
    """Yield the documents of a text; one that cannot be read, and one without a name, has its number.

    Without `known`, the lines that were read before, the quick reader is not used. `short` is what is read instead of
    some documents.
    """
    nameless = 0
    for number, part in enumerate(text.documents):
        try:
            found = _read(short.get(number, part), None if text.whole else known)
        except UnreadableObjects as error:
            nameless += 1
            yield Entry(_numbered(nameless), part, None, str(error))
            continue
        for document in found:
            own = _trimmed(part if len(found) == 1 else part[document.start : document.end])
            for value in _parts(document.value):
                name = identity(value)
                nameless += name is None
                yield _entry(name or _numbered(nameless), value, document, own, short=number in short)


def _entry(name: ObjectId, value: Any, document: Document, text: str, *, short: bool) -> Entry:  # noqa: ANN401 - a value of YAML
    """Return the entry of a document's value, or of one within it; a List is without those that it holds."""
    is_listing = _is_listing(value)
    holds = is_listing and not is_called_list(value)
    own = {**value, "items": len(value["items"])} if is_listing and not holds else value
    if value is not document.value:
        return Entry(name, canonical(own), Document(document.line, 0, value=own), holds=holds)
    known = text if own is value else canonical(own)
    return Entry(name, known, replace(document, value=own), holds=holds, short=short)


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
