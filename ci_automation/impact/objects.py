"""The objects of a multi-document text, each with its identity and its part of the text, or as kustomize knows them."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.yaml import Unreadable, child, line_of, nodes, plain, repeated, text
from ci_automation.flux.text import SEPARATOR
from ci_automation.impact.change import ObjectId, Place
from ci_automation.impact.parts import Definition, Text
from ci_automation.impact.reading import Document, UnreadableObjects
from ci_automation.impact.values import canonical, mapping, words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import yaml

_MARKER = "---\n"
_MAX_NAMES = 1_000  # what clusters take is shorter, all of it together; it is part of every change


class Object(Struct, frozen=True):
    """One Kubernetes object of a file, as it stands there; `line` is that of its first key."""

    id: ObjectId
    value: Mapping[str, Any]
    line: int


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
        UnreadableObjects: it is not YAML, is longer or deeper than the limits, or has anchors, aliases, tags
            or merge keys.
    """
    return tuple(
        Object(found, value, line)
        for line, document in _with_lines(Text.of(text))
        for value in map(mapping, parts_of(document.value))
        if not _is_listing(value) and (found := identity(value))
    )


def _with_lines(text: Text) -> Iterator[tuple[int, Document]]:
    """Yield the documents of a text with the lines that they begin at."""
    line = text.first_line
    for part in text.parts:
        try:
            found = part.documents()
        except UnreadableObjects as error:
            raise UnreadableObjects(error.reason, error.line and line + error.line - 1) from None
        yield from ((line + document.line - 1, document) for document in found)
        line += part.text.count("\n") + SEPARATOR.count("\n")


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


def parts_of(value: Any) -> Iterator[Any]:  # noqa: ANN401 - values of YAML
    """Yield a value, and all that clients take out of it."""
    yield value
    if _is_listing(value):
        for each in value["items"]:
            yield from parts_of(each)


def entries_of_both(old: Text, new: Text) -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
    """Return the documents of two texts; the schema that a CRD's version has in both is not read, and is empty."""
    same_old, same_new = _same_schemas(old, new)
    sides = tuple(entries(old, same_old)), tuple(entries(new, same_new))
    if _shortened(sides[0]) == _shortened(sides[1]):
        return sides
    return tuple(entries(old)), tuple(entries(new))


def _shortened(found: tuple[Entry, ...]) -> dict[ObjectId, int]:
    """Return how often each definition is there that has been read without a schema."""
    names = Counter(entry.id for entry in found)
    return {entry.id: names[entry.id] for entry in found if entry.short}


def _same_schemas(old: Text, new: Text) -> tuple[dict[int, frozenset[str]], dict[int, frozenset[str]]]:
    """Return the versions whose schemas are the same in both texts, by the numbers of their documents."""
    same: tuple[dict[int, frozenset[str]], dict[int, frozenset[str]]] = ({}, {})
    before, after = _definitions(old), _definitions(new)
    for name in before.keys() & after.keys():
        (was, first), (now, then) = before[name], after[name]
        found = frozenset(version for version, text in first.schemas.items() if then.schemas.get(version) == text)
        if found and first.is_plain_without(found) and then.is_plain_without(found):
            same[0][was] = same[1][now] = found
    return same


def _definitions(text: Text) -> dict[ObjectId | None, tuple[int, Definition]]:
    """Return each CRD in kustomize's form with the number of its document."""
    known = ((number, part.definition) for number, part in enumerate(text.parts))
    found = [(identity(of.rest.value), (number, of)) for number, of in known if of]
    return dict(reversed(found))


def entries(
    text: Text, same: Mapping[int, Collection[str]] = MappingProxyType({}), *, quick: bool = True
) -> Iterator[Entry]:
    """Yield the documents of a text; one that cannot be read, and one without a name, has its number.

    `same` are the versions of CRDs whose schemas are left out. For `quick` see `Part.documents`.
    """
    nameless = 0
    for number, part in enumerate(text.parts):
        try:
            found = part.documents(same.get(number, ()), quick=quick)
        except UnreadableObjects as error:
            nameless += 1
            yield Entry(_numbered(nameless), part.text, None, str(error))
            continue
        for document in found:
            own = part.text if len(found) == 1 else part.text[document.start : document.end]
            own = own.removeprefix(_MARKER).removesuffix("\n")
            for value in parts_of(document.value):
                name = identity(value)
                nameless += name is None
                yield _entry(name or _numbered(nameless), value, document, own, short=number in same)


def _entry(name: ObjectId, value: Any, document: Document, text: str, *, short: bool) -> Entry:  # noqa: ANN401 - a value of YAML
    """Return the entry of a document's value, or of one within it; a List is without those that it holds."""
    is_listing = _is_listing(value)
    holds = is_listing and not is_called_list(value)
    own = {**value, "items": len(value["items"])} if is_listing and not holds else value
    if value is not document.value:
        return Entry(name, canonical(own), Document(document.line, 0, value=own), holds=holds)
    known = text if own is value else canonical(own)
    return Entry(name, known, replace(document, value=own), holds=holds, short=short)


def _numbered(number: int) -> ObjectId:
    return ObjectId("", "Document", "", f"without a name, number {number}")


_SEPARATOR = re.compile(r"\n---(?=\s|$)")  # it begins with fixed text, so it is found fast
LARGE = 1 << 16  # more than one writes by hand
_LIST = "List"
_LOCAL = "config.kubernetes.io/local-config"
# The kinds of Kubernetes that kustomize knows not to be in a namespace (kyaml, `IsCertainlyClusterScoped`).
_CLUSTER_SCOPED = frozenset({
    "APIService", "CSIDriver", "CSINode", "CertificateSigningRequest", "ClusterRole", "ClusterRoleBinding",
    "ComponentStatus", "CustomResourceDefinition", "FlowSchema", "IngressClass", "MutatingWebhookConfiguration",
    "Namespace", "Node", "PersistentVolume", "PodSecurityPolicy", "PriorityClass", "PriorityLevelConfiguration",
    "RuntimeClass", "StorageClass", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration", "VolumeAttachment",
})  # fmt: skip


class Listed(NamedTuple):
    """An object and where it is; a local one is for kustomize alone, and is not applied."""

    id: ObjectId
    version: str
    place: Place
    is_local: bool

    @property
    def key(self) -> tuple[str, ...]:
        """Return what kustomize allows only once."""
        namespace = "" if self.id.kind in _CLUSTER_SCOPED else self.id.namespace or "default"
        return (self.id.group, self.version, self.id.kind, namespace, self.id.name)


@lru_cache(maxsize=64)  # one step's new components are the next one's old
def listed_objects(written: str, file: str) -> tuple[Listed, ...]:
    """Return the objects of a file; those in a `List` too.

    Raises:
        Unreadable: it is not YAML, or has something that is no object.
    """
    if len(written) > LARGE and (quick := _quick(written, file)):
        return quick
    found: list[Listed] = []
    for node in nodes(written):
        if line_of_key := repeated(node):
            raise Unreadable("a key is there twice", line_of_key)
        found += _parts(node, plain(node), file)
    return tuple(found)


def _quick(written: str, file: str) -> tuple[Listed, ...]:
    """Return the objects of a large file as they are read to compare them; nothing unless each document is one."""
    try:
        found = read_objects(written)
    except UnreadableObjects:
        return ()
    documents = [piece for piece in _SEPARATOR.split(f"\n{written}") if piece.strip()]
    if len(found) != len(documents) or any(_is_list(each.value) for each in found):
        return ()
    return tuple(_listed(each.value, Place(file, each.line)) for each in found)


def _parts(node: yaml.Node, value: Any, file: str) -> Iterator[Listed]:  # noqa: ANN401  # of YAML
    """Yield an object, or those of a list and of the lists in it (kustomize, `Factory.inlineAnyEmbeddedLists`).

    `node` is where the value stands, or what it is merged into.
    """
    at = line_of(node)
    if not isinstance(value, dict):
        raise Unreadable("it is no object", at)
    if not _is_list(value):
        yield _listed(value, Place(file, at))
        return
    items, (_, found) = value["items"], child(node, "items") or (0, None)
    if not isinstance(items, list | None):
        raise Unreadable("its items are no list", at)
    for number, item in enumerate(items or ()):
        if item is not None:
            _, its = (found and child(found, number)) or (0, None)
            yield from _parts(its or node, item, file)


def _is_list(value: Mapping[str, Any]) -> bool:
    return text(value.get("kind")).endswith(_LIST) and "items" in value


def _listed(value: Mapping[str, Any], place: Place) -> Listed:
    its = mapping(value.get("metadata"))
    group, _, version = text(value.get("apiVersion")).rpartition("/")
    kind, namespace, name = text(value.get("kind")), text(its.get("namespace")), text(its.get("name"))
    if not kind or not name:
        raise Unreadable(f"an object has no {'metadata.name' if kind else 'kind'}", place.line)
    local = text(mapping(its.get("annotations")).get(_LOCAL, "false"))
    return Listed(ObjectId(group, kind, namespace, name), version, place, local != "false")
