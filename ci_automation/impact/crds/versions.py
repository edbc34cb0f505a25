"""Versions of custom resources: those in a components file, and those that a cluster has.

A snapshot of a cluster is the output of `kubectl get crd -o json`, with or without objects.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, Self

from msgspec import Meta, Struct, ValidationError, convert, field

from ci_automation.artifact.yaml import Unreadable, nodes, plain
from ci_automation.errors import UsageError
from ci_automation.flux.version import InvalidVersion, Version
from ci_automation.impact.objects import parts_of
from ci_automation.impact.parts import Part, Text
from ci_automation.impact.reading import UnreadableObjects
from ci_automation.impact.values import at, items, mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_CRD = "CustomResourceDefinition"
# The names of definitions get into commands to run.
_Name = Annotated[str, Meta(pattern=r"\A[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?\Z")]
_VersionName = Annotated[str, Meta(pattern=r"\A[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?\Z")]
_Kind = Annotated[str, Meta(pattern=r"\A[A-Za-z][A-Za-z0-9]{0,62}\Z")]
_PRIORITY = re.compile(r"v([0-9]{1,9})(?:(alpha|beta)([0-9]{1,9}))?")
_MATURITY = {None: 2, "beta": 1, "alpha": 0}
MAX_BYTES = 64 << 20  # a cluster with 200 definitions answers with a fifth of it
_FLUX = ".fluxcd.io"
_SHOWN = 80


class UnreadableCrds(UsageError):
    """The custom resource definitions of a components file cannot be read."""

    hint = "It must be as `flux install --export` prints it."

    def __init__(self, reason: str) -> None:
        super().__init__(f"the versions of the components file's custom resources cannot be read: {reason}")
        self.reason = reason


class CrdVersion(Struct, frozen=True):
    """One version of a custom resource: whether clients can use it, and whether objects are stored in it."""

    name: _VersionName
    served: bool
    storage: bool


class Crd(Struct, frozen=True):
    """A custom resource definition: its name (`plural.group`), and its versions in the order of the file."""

    name: _Name
    group: _Name
    kind: _Kind
    versions: tuple[CrdVersion, ...]

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all versions, also of those that are not served."""
        return frozenset(version.name for version in self.versions)

    @property
    def served(self) -> tuple[str, ...]:
        """Return the names of the versions that clients can use, newest first."""
        return newest_first(version.name for version in self.versions if version.served)

    @property
    def storage(self) -> str:
        """Return the version that objects are stored in."""
        return next(version.name for version in self.versions if version.storage)


def newest_first(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of versions in Kubernetes' order of them: stable ones first, then beta, then alpha."""
    return tuple(sorted(names, key=_rank, reverse=True))


def crds(text: str) -> Mapping[str, Crd]:
    """Return the custom resource definitions of a components file by their names.

    Raises:
        UnreadableCrds: it is not YAML, or has a definition that no cluster would take.
    """
    found: dict[str, Crd] = {}
    for part in Text.of(text).parts:
        for value in map(mapping, _values(part)):
            metadata, spec = mapping(value.get("metadata")), value.get("spec")
            if value.get("kind") == _CRD:
                crd = _crd(metadata.get("name"), spec)
                if crd.name in found:
                    raise UnreadableCrds(f"{crd.name} is there twice")
                found[crd.name] = crd
    return found


def _values(part: Part) -> Iterator[Any]:
    """Yield the values of a part, those in lists too, a definition perhaps without its schemas."""
    if part.definition:
        yield part.definition.rest.value
        return
    try:
        found = [document.value for document in part.documents()]
    except UnreadableObjects:  # such as text with anchors
        try:
            found = [plain(node) for node in nodes(part.text)]
        except Unreadable as error:
            raise UnreadableCrds(f"{error.reason} (line {error.line})" if error.line else error.reason) from None
    for value in found:
        yield from parts_of(value)


def _rank(name: str) -> tuple[int, int, int, str]:
    match = _PRIORITY.fullmatch(name)
    return (_MATURITY[match[2]], int(match[1]), int(match[3] or 0), "") if match else (-1, 0, 0, name)


def _crd(name: object, spec: object) -> Crd:
    """Return the definition that values stand for, each of them checked."""
    try:
        crd = convert({**mapping(spec), "name": name, "kind": at(at(spec, "names"), "kind")}, Crd)
    except ValidationError as error:
        where = str(error).rpartition(" - at ")[2]
        raise UnreadableCrds(
            f"the definition {str(name)[:80]!r} is not complete, or has no proper names: {where}"
        ) from None
    if len(crd.names) != len(crd.versions) or sum(version.storage for version in crd.versions) != 1:
        raise UnreadableCrds(f"{crd.name} has a version twice, or not exactly one that objects are stored in")
    return crd


class InvalidSnapshot(UsageError):
    """A file is not what a cluster says of its custom resources."""

    hint = (
        "Make it with `kubectl get crd -o json`. Flux's own objects may be in it or in a file of their own: "
        "`kubectl get KINDS -A -o json --show-managed-fields`."
    )

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")


class Managed(Struct, frozen=True, order=True):
    """One custom resource, with a version in which a manager has fields of it.

    `applied` says whether a manager applies it server-side, in whichever version: an update asks for no old one.
    """

    group: str
    kind: str
    namespace: str
    name: str
    version: str
    applied: bool

    @property
    def object(self) -> str:
        """Return the object as people name it: `namespace/name`."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Snapshot(Struct, frozen=True):
    """Of one cluster: by the name of each CRD, the versions that objects may be stored in (`status.storedVersions`).

    `defined` are the versions that its definition has, in their order. `managed` is who manages fields of Flux's
    objects in which version, as far as objects are in the snapshot. `flux` is the oldest version of Flux that labels
    Flux's definitions; None if one has no such label.
    """

    name: str
    stored: Mapping[str, tuple[str, ...]]
    managed: tuple[Managed, ...] = ()
    defined: Mapping[str, tuple[CrdVersion, ...]] = field(default_factory=dict)
    flux: Version | None = None

    @classmethod
    def parse(cls, data: bytes, name: str) -> Self:
        """Return what kubectl's answer in JSON says of Flux's custom resources; `name` is what the user calls it by.

        Raises:
            InvalidSnapshot: it is no such answer, says nothing of Flux, or is too large.
        """
        if len(data) > MAX_BYTES:
            raise InvalidSnapshot(name, f"it is larger than {MAX_BYTES >> 20} MiB")
        try:
            root = json.loads(data)
        except (ValueError, RecursionError):
            raise InvalidSnapshot(name, "it is not JSON") from None
        stored: dict[str, tuple[str, ...]] = {}
        defined: dict[str, tuple[CrdVersion, ...]] = {}
        managed: set[Managed] = set()
        found = False
        labels: list[Version | None] = []
        for item in _items(root, name):
            if item.get("kind") == "CustomResourceDefinition":
                if str(mapping(item.get("spec")).get("group")).endswith(_FLUX):
                    crd = _name(item, name)
                    stored[crd], defined[crd] = _stored(item, crd, name), _defined(item, crd, name)
                    labels.append(_label(item))
                    found = True
            elif _group(item.get("apiVersion")).endswith(_FLUX):
                managed.update(_managed(item, name))
                found = True
        if not found:
            raise InvalidSnapshot(name, "it has no custom resource definition of Flux, and no object of one")
        known = [version for version in labels if version is not None]
        oldest = min(known) if known and len(known) == len(labels) else None
        return cls(name, stored, tuple(sorted(managed)), defined, oldest)


def _items(root: object, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of an answer, which is a list of them or just one."""
    if not isinstance(root, dict) or not isinstance(root.get("kind"), str):
        raise InvalidSnapshot(name, "it is no answer of a cluster: a JSON object with a kind")
    items = root.get("items") if root["kind"].endswith("List") else [root]
    if not isinstance(items, list):
        raise InvalidSnapshot(name, f"it is a {root['kind'][:_SHOWN]} without items")
    for item in items:
        if not isinstance(item, dict):
            raise InvalidSnapshot(name, "one of its items is no object")
        yield item


def _label(crd: Mapping[str, Any]) -> Version | None:
    """Return the version of Flux that labels a definition, if it is one."""
    labels = mapping(mapping(crd.get("metadata")).get("labels"))
    try:
        return Version.parse(str(labels.get("app.kubernetes.io/version")))
    except InvalidVersion:
        return None


def _stored(crd: Mapping[str, Any], what: str, name: str) -> tuple[str, ...]:
    found = mapping(crd.get("status")).get("storedVersions")
    if not isinstance(found, list) or not found or not all(isinstance(version, str) for version in found):
        raise InvalidSnapshot(name, f"{what} has no status.storedVersions; a cluster's answer has them, a manifest not")
    return tuple(found)


def _defined(crd: Mapping[str, Any], what: str, name: str) -> tuple[CrdVersion, ...]:
    listed = [it for it in items(mapping(crd.get("spec")).get("versions")) if isinstance(it, dict)]
    found = tuple(
        CrdVersion(str(it.get("name")), it.get("served") is True, it.get("storage") is True)
        for it in listed
        if isinstance(it.get("name"), str)
    )
    if len(found) != len(listed) or sum(version.storage for version in found) != 1:
        raise InvalidSnapshot(name, f"{what} has no spec.versions, one of them that objects are stored in")
    return found


def _managed(item: Mapping[str, Any], name: str) -> Iterator[Managed]:
    group = _group(item["apiVersion"])
    metadata = mapping(item.get("metadata"))
    entries, namespace = metadata.get("managedFields") or [], metadata.get("namespace") or ""
    if not isinstance(entries, list) or not isinstance(namespace, str) or not isinstance(item.get("kind"), str):
        raise InvalidSnapshot(name, f"{_name(item, name)} is no object as a cluster shows it")
    known = [entry for entry in entries if isinstance(entry, dict)]
    applied = any(entry.get("operation") == "Apply" for entry in known)
    for entry in known:
        found, _, version = str(entry.get("apiVersion")).rpartition("/")
        if found == group:
            yield Managed(group, item["kind"], namespace, _name(item, name), version, applied)


def _group(version: object) -> str:
    return version.rpartition("/")[0] if isinstance(version, str) else ""


def _name(item: Mapping[str, Any], name: str) -> str:
    found = mapping(item.get("metadata")).get("name")
    if not isinstance(found, str):
        raise InvalidSnapshot(name, f"one of its objects has no name: a {str(item.get('kind'))[:_SHOWN]}")
    return found
