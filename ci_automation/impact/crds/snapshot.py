"""Snapshots: the output of `kubectl get crd -o json` of a cluster, with or without objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, field

from ci_automation.errors import UsageError
from ci_automation.flux.version import InvalidVersion, Version
from ci_automation.impact.crds.versions import CrdVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_BYTES = 64 << 20  # a cluster with 200 definitions answers with a fifth of it
_FLUX = ".fluxcd.io"
_SHOWN = 80


class InvalidSnapshot(UsageError):
    """A file is not what a cluster says of its custom resources."""

    hint = (
        "Make it with `kubectl get crd -o json`. Flux's own objects may be in it or in a file of their own: "
        "`kubectl get KINDS -A -o json --show-managed-fields`."
    )

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")


class Managed(Struct, frozen=True, order=True):
    """One custom resource, with a version in which somebody manages fields of it.

    `applied` says whether anybody applies it server-side, in whichever version: an update asks for no old one.
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
                if str(_at(item, "spec", "group")).endswith(_FLUX):
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
    labels = _at(crd, "metadata", "labels")
    said = labels.get("app.kubernetes.io/version") if isinstance(labels, dict) else None
    try:
        return Version.parse(str(said))
    except InvalidVersion:
        return None


def _stored(crd: Mapping[str, Any], what: str, name: str) -> tuple[str, ...]:
    found = _at(crd, "status", "storedVersions")
    if not isinstance(found, list) or not found or not all(isinstance(version, str) for version in found):
        raise InvalidSnapshot(name, f"{what} has no status.storedVersions; a cluster's answer has them, a manifest not")
    return tuple(found)


def _defined(crd: Mapping[str, Any], what: str, name: str) -> tuple[CrdVersion, ...]:
    versions = _at(crd, "spec", "versions")
    listed = [it for it in versions if isinstance(it, dict)] if isinstance(versions, list) else []
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
    entries = _at(item, "metadata", "managedFields") or []
    namespace = _at(item, "metadata", "namespace") or ""
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
    found = _at(item, "metadata", "name")
    if not isinstance(found, str):
        raise InvalidSnapshot(name, f"one of its objects has no name: a {str(item.get('kind'))[:_SHOWN]}")
    return found


def _at(item: Mapping[str, Any], outer: str, inner: str) -> Any:  # noqa: ANN401 - it is what the file has there
    value = item.get(outer)
    return value.get(inner) if isinstance(value, dict) else None
