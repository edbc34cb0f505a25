"""The Kubernetes objects that a file lists, by what kustomize knows them by."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_automation.artifact.yaml import Unreadable, child, line_of, nodes, plain, repeated, text
from ci_automation.impact.change import ObjectId, Place
from ci_automation.impact.objects import read_objects
from ci_automation.impact.reading import UnreadableObjects
from ci_automation.impact.values import mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import yaml

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
def objects(written: str, file: str) -> tuple[Listed, ...]:
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
