"""Kubernetes objects of a file by what they are known by; the rest of each is read only when it is asked for.

Most of a components file is the schemas of CRDs, which nothing here looks at.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from ci_automation.artifact.yaml_events import Unreadable
from ci_automation.hiding import Hiding
from ci_automation.impact.change import ObjectId
from ci_automation.impact.hazard import Place
from ci_automation.overlay.effort import to_read, to_skim
from ci_automation.overlay.reading import child, line_of, nodes, plain, repeated, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import yaml

    from ci_automation.overlay.effort import Effort

_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)
# Block style with the keys of an object at the margin, as kustomize and people write it; all else is read as a whole.
_ODD = re.compile(r"^(?![A-Za-z]\w*:(?: |$)|[ #]|$)", re.MULTILINE)
_HEAD = re.compile(r"^(?:apiVersion|kind): .*$|^metadata:(?: .*)?$(?:\n .*$)*", re.MULTILINE)
_HEADS = 3
_LARGE = 1 << 16  # nobody writes that by hand
_LIST = "List"
_DEFAULT = "default"
_NO_NAMESPACE = "_non_namespaceable_"
# What kustomize knows not to be in a namespace; what it does not know is in one (kyaml, `IsCertainlyClusterScoped`).
_CLUSTER_SCOPED = frozenset(
    {
        ("", "ComponentStatus"),
        ("", "Namespace"),
        ("", "Node"),
        ("", "PersistentVolume"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("authentication.k8s.io", "TokenReview"),
        ("authorization.k8s.io", "SelfSubjectAccessReview"),
        ("authorization.k8s.io", "SelfSubjectRulesReview"),
        ("authorization.k8s.io", "SubjectAccessReview"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
        ("networking.k8s.io", "IngressClass"),
        ("node.k8s.io", "RuntimeClass"),
        ("policy", "PodSecurityPolicy"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "CSIDriver"),
        ("storage.k8s.io", "CSINode"),
        ("storage.k8s.io", "StorageClass"),
        ("storage.k8s.io", "VolumeAttachment"),
    }
)


class Id(NamedTuple):
    """What kustomize knows an object by."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str

    @property
    def cluster_scoped(self) -> bool:
        """Return whether it is certainly in no namespace."""
        return (self.group, self.kind) in _CLUSTER_SCOPED

    @property
    def effective_namespace(self) -> str:
        """Return the namespace that kustomize compares: `default` where none is said."""
        return _NO_NAMESPACE if self.cluster_scoped else self.namespace or _DEFAULT

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Return what is equal for ids that kustomize takes for the same (`ResId.Equals`)."""
        return (self.group, self.version, self.kind, self.effective_namespace, self.name)

    @property
    def object(self) -> ObjectId:
        """Return what a cluster knows it by: not its version."""
        return ObjectId(self.group, self.kind, self.namespace, self.name)

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Id:
        """Return the id of an object's value; what is not there is empty."""
        group, _, version = text(value.get("apiVersion")).rpartition("/")
        metadata = value.get("metadata")
        found = metadata if isinstance(metadata, dict) else {}
        namespace, name = (text(found.get(key)) for key in ("namespace", "name"))
        return cls(group, version, text(value.get("kind")), namespace, name)


class Object(Hiding, Struct, frozen=True):
    """One object: its id, where it is, its labels and annotations; and the text or the value it is read from."""

    hides = ("written", "whole")

    id: Id
    place: Place
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    written: str = ""
    whole: Mapping[str, Any] | None = None

    def value(self) -> dict[str, Any]:
        """Return the whole object, which is the caller's to change; nothing where only its head can be read."""
        if self.whole is not None:
            return dict(copied(self.whole))
        try:
            return dict(plain(nodes(self.written)[0]))
        except Unreadable:
            return {}

    @property
    def may_have_images(self) -> bool:
        """Return whether it may name an image where kustomize looks for one; it does not look into CRDs."""
        return self.id.kind != "CustomResourceDefinition" and (self.whole is not None or "image" in self.written)


def copied(value: Any) -> Any:  # noqa: ANN401  # a value of a document
    """Return a value without anything that it shares with the given one."""
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    return [copied(each) for each in value] if isinstance(value, list) else value


def objects(written: str, file: str, effort: Effort) -> tuple[Object, ...]:
    """Return the objects of a file, those of a `List` one by one.

    Raises:
        Unreadable: it has something else than objects with a kind and a name, or what kustomize cannot read.
        TooMuch: to read it is more than what is left of the effort.
    """
    found: list[Object] = []
    is_large = len(written) > _LARGE
    for line, piece in _pieces(written):
        effort.spend(to_skim(piece))
        try:
            known = _quick(piece, file, line) if is_large else ()
            if not known:
                effort.spend(to_read(piece))
            found += known or _whole(piece, file, line)
        except Unreadable as error:
            raise Unreadable(str(error), line + max(error.line, 1)) from None
    return tuple(found)


def _pieces(whole: str) -> Iterator[tuple[int, str]]:
    """Yield the documents of a text, each with the number of lines before it."""
    start = line = 0
    for mark in (*_SEPARATOR.finditer(whole), None):
        piece = whole[start : mark.start() if mark else len(whole)]
        if piece.strip():
            written = piece.lstrip("\n")
            yield line + len(piece) - len(written), written
        line += piece.count("\n")
        start = mark.end() if mark else start


@lru_cache(maxsize=512)  # one step's new components are the next one's old
def _quick(piece: str, file: str, line: int) -> tuple[Object, ...]:
    """Return the one object of a document by its first lines alone, or nothing where it is written otherwise."""
    if _ODD.search(piece):
        return ()
    heads = list(_HEAD.finditer(piece))
    if len(heads) != _HEADS:
        return ()
    try:
        value = plain(nodes("\n".join(head[0] for head in heads))[0])
    except Unreadable:  # what begins there goes on in a line that looks like a key
        return ()
    if _is_called_list(value):
        return ()
    first = piece.count("\n", 0, heads[0].start()) + 1
    return (_object(value, Place(file, line + first), piece),)


@lru_cache(maxsize=512)  # as above
def _whole(piece: str, file: str, line: int) -> tuple[Object, ...]:
    found: list[Object] = []
    for node in nodes(piece):
        if line_of_key := repeated(node):
            raise Unreadable("a key is there twice", line_of_key)
        found += _parts(node, plain(node), file, line)
    return tuple(found)


def _parts(node: yaml.Node, value: Any, file: str, line: int) -> Iterator[Object]:  # noqa: ANN401  # of YAML
    """Yield an object, or those of a list and of the lists in it (kustomize, `Factory.inlineAnyEmbeddedLists`).

    `node` is where the value stands, or what it is merged into.
    """
    at = line_of(node)
    if not isinstance(value, dict):
        raise Unreadable("it is no object", at)
    if not _is_called_list(value) or "items" not in value:
        yield _object(value, Place(file, line + at), whole=value)
        return
    items, (_, found) = value["items"], child(node, "items") or (0, None)
    if not isinstance(items, list | None):
        raise Unreadable("its items are no list", at)
    for number, item in enumerate(items or ()):
        if item is not None:
            _, its = (found and child(found, number)) or (0, None)
            yield from _parts(its or node, item, file, line)


def _is_called_list(value: Mapping[str, Any]) -> bool:
    return text(value.get("kind")).endswith(_LIST)


def _object(head: Mapping[str, Any], place: Place, written: str = "", whole: Mapping[str, Any] | None = None) -> Object:
    found = Id.of(head)
    if not found.kind or not found.name:
        raise Unreadable(f"an object has no {'metadata.name' if found.kind else 'kind'}")
    labels, annotations = (texts(head, key) for key in ("labels", "annotations"))
    return Object(found, place, labels, annotations, written, whole)


def texts(value: Mapping[str, Any], key: str, null: str = "") -> dict[str, str]:
    """Return the labels or annotations of an object's value; `null` is what stands for one without a value."""
    metadata = value.get("metadata")
    found = metadata.get(key) if isinstance(metadata, dict) else None
    if not isinstance(found, dict):
        return {}
    return {name: null if each is None else text(each) for name, each in found.items()}
