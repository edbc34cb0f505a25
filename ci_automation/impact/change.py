"""One change between two components files: of which kind, to which object, how grave, and in which words."""

from __future__ import annotations

import enum
import hashlib
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping


class ChangeClass(enum.StrEnum):
    """What a policy names in `escalate` and `refuse`; each kind of change belongs to one class."""

    IMAGE = "image"
    VERSION = "version"  # labels that name the release, and nothing else
    RBAC = "rbac"
    NETWORK_POLICY = "networkPolicy"
    SECURITY_CONTEXT = "securityContext"
    ARGUMENTS = "arguments"
    ENVIRONMENT = "environment"
    RESOURCES = "resources"
    PROBES = "probes"
    NEW_WORKLOAD = "newWorkload"
    REMOVED_WORKLOAD = "removedWorkload"
    SERVICE = "service"
    SERVICE_ACCOUNT = "serviceAccount"
    QUOTA = "quota"
    PRIORITY_CLASS = "priorityClass"
    CRD_ADDED = "crdAdded"
    CRD_REMOVAL = "crdRemoval"
    CRD_VERSION = "crdVersion"
    CRD_TIGHTENED = "crdTightened"
    CRD_LOOSENED = "crdLoosened"
    CRD_DEFAULT = "crdDefault"
    CRD_TEXT = "crdText"
    METADATA = "metadata"
    OVERLAY = "overlay"  # files of the team that are no objects
    OTHER = "other"


class ChangeKind(enum.StrEnum):
    """What exactly changed."""

    IMAGE = "image"
    VERSION_LABEL = "version-label"
    ROLE_ADDED = "role-added"
    ROLE_REMOVED = "role-removed"
    RULE_ADDED = "rule-added"
    RULE_REMOVED = "rule-removed"
    RULE_WIDENED = "rule-widened"
    RULE_NARROWED = "rule-narrowed"
    BINDING_ADDED = "binding-added"
    BINDING_REMOVED = "binding-removed"
    SUBJECT_ADDED = "subject-added"
    SUBJECT_REMOVED = "subject-removed"
    ROLE_REFERENCE = "role-reference"
    NETWORK_POLICY_ADDED = "network-policy-added"
    NETWORK_POLICY_REMOVED = "network-policy-removed"
    NETWORK_OPENED = "network-opened"
    NETWORK_NARROWED = "network-narrowed"
    SECURITY_LOWERED = "security-lowered"
    SECURITY_RAISED = "security-raised"
    CAPABILITY_ADDED = "capability-added"
    CAPABILITY_REMOVED = "capability-removed"
    HOST_ACCESS_ADDED = "host-access-added"
    HOST_ACCESS_REMOVED = "host-access-removed"
    ARGUMENT_ADDED = "argument-added"
    ARGUMENT_REMOVED = "argument-removed"
    ARGUMENT_CHANGED = "argument-changed"
    FEATURE_GATE = "feature-gate"
    ENVIRONMENT = "environment"
    RESOURCES = "resources"
    PROBE = "probe"
    WORKLOAD_ADDED = "workload-added"
    WORKLOAD_REMOVED = "workload-removed"
    SERVICE = "service"
    SERVICE_ACCOUNT = "service-account"
    QUOTA = "quota"
    PRIORITY_CLASS = "priority-class"
    CRD_ADDED = "crd-added"
    CRD_REMOVED = "crd-removed"
    VERSION_ADDED = "version-added"
    VERSION_DEPRECATED = "version-deprecated"
    VERSION_NOT_SERVED = "version-not-served"
    VERSION_REMOVED = "version-removed"
    STORAGE_MOVED = "storage-moved"
    VALIDATION_TIGHTENED = "validation-tightened"
    VALIDATION_LOOSENED = "validation-loosened"
    FIELD_ADDED = "field-added"
    FIELD_REMOVED = "field-removed"
    DEFAULT_CHANGED = "default-changed"
    PRINTER_COLUMNS = "printer-columns"
    TEXT = "text"
    METADATA = "metadata"
    RECONCILIATION = "reconciliation"
    OVERLAY_FILE = "overlay-file"
    OTHER = "other"

    @property
    def belongs_to(self) -> ChangeClass:
        """Return the class that policies know it by."""
        return _CLASSES[self]


_MEMBERS: dict[ChangeClass, tuple[ChangeKind, ...]] = {
    ChangeClass.IMAGE: (ChangeKind.IMAGE,),
    ChangeClass.VERSION: (ChangeKind.VERSION_LABEL,),
    ChangeClass.RBAC: (
        ChangeKind.ROLE_ADDED,
        ChangeKind.ROLE_REMOVED,
        ChangeKind.RULE_ADDED,
        ChangeKind.RULE_REMOVED,
        ChangeKind.RULE_WIDENED,
        ChangeKind.RULE_NARROWED,
        ChangeKind.BINDING_ADDED,
        ChangeKind.BINDING_REMOVED,
        ChangeKind.SUBJECT_ADDED,
        ChangeKind.SUBJECT_REMOVED,
        ChangeKind.ROLE_REFERENCE,
    ),
    ChangeClass.NETWORK_POLICY: (
        ChangeKind.NETWORK_POLICY_ADDED,
        ChangeKind.NETWORK_POLICY_REMOVED,
        ChangeKind.NETWORK_OPENED,
        ChangeKind.NETWORK_NARROWED,
    ),
    ChangeClass.SECURITY_CONTEXT: (
        ChangeKind.SECURITY_LOWERED,
        ChangeKind.SECURITY_RAISED,
        ChangeKind.CAPABILITY_ADDED,
        ChangeKind.CAPABILITY_REMOVED,
        ChangeKind.HOST_ACCESS_ADDED,
        ChangeKind.HOST_ACCESS_REMOVED,
    ),
    ChangeClass.ARGUMENTS: (
        ChangeKind.ARGUMENT_ADDED,
        ChangeKind.ARGUMENT_REMOVED,
        ChangeKind.ARGUMENT_CHANGED,
        ChangeKind.FEATURE_GATE,
    ),
    ChangeClass.ENVIRONMENT: (ChangeKind.ENVIRONMENT,),
    ChangeClass.RESOURCES: (ChangeKind.RESOURCES,),
    ChangeClass.PROBES: (ChangeKind.PROBE,),
    ChangeClass.NEW_WORKLOAD: (ChangeKind.WORKLOAD_ADDED,),
    ChangeClass.REMOVED_WORKLOAD: (ChangeKind.WORKLOAD_REMOVED,),
    ChangeClass.SERVICE: (ChangeKind.SERVICE,),
    ChangeClass.SERVICE_ACCOUNT: (ChangeKind.SERVICE_ACCOUNT,),
    ChangeClass.QUOTA: (ChangeKind.QUOTA,),
    ChangeClass.PRIORITY_CLASS: (ChangeKind.PRIORITY_CLASS,),
    ChangeClass.CRD_ADDED: (ChangeKind.CRD_ADDED,),
    ChangeClass.CRD_REMOVAL: (ChangeKind.CRD_REMOVED, ChangeKind.VERSION_REMOVED, ChangeKind.VERSION_NOT_SERVED),
    ChangeClass.CRD_VERSION: (ChangeKind.VERSION_ADDED, ChangeKind.VERSION_DEPRECATED, ChangeKind.STORAGE_MOVED),
    ChangeClass.CRD_TIGHTENED: (ChangeKind.VALIDATION_TIGHTENED, ChangeKind.FIELD_REMOVED),
    ChangeClass.CRD_LOOSENED: (ChangeKind.VALIDATION_LOOSENED, ChangeKind.FIELD_ADDED),
    ChangeClass.CRD_DEFAULT: (ChangeKind.DEFAULT_CHANGED,),
    ChangeClass.CRD_TEXT: (ChangeKind.PRINTER_COLUMNS, ChangeKind.TEXT),
    ChangeClass.METADATA: (ChangeKind.METADATA, ChangeKind.RECONCILIATION),
    ChangeClass.OVERLAY: (ChangeKind.OVERLAY_FILE,),
    ChangeClass.OTHER: (ChangeKind.OTHER,),
}
_CLASSES = {kind: group for group, kinds in _MEMBERS.items() for kind in kinds}


class Severity(enum.StrEnum):
    """How much a change deserves to be looked at, the least first."""

    INFO = "info"  # expected of any release
    NOTICE = "notice"  # worth a look
    WARNING = "warning"  # look at it before you agree
    DANGER = "danger"  # it opens what was closed, or can break what works


class ObjectId(Struct, frozen=True, order=True):
    """What an object is known by in a cluster; `namespace` is empty for what has none."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    def to_json(self) -> dict[str, str]:
        """Return the identity as documents have it."""
        return {"group": self.group, "kind": self.kind, "namespace": self.namespace, "name": self.name}


class Change(Struct, frozen=True):
    """One change; `path` is where in the object, `old` and `new` what is there, short enough to be read."""

    kind: ChangeKind
    object: ObjectId
    severity: Severity
    sentence: str
    path: str = ""
    old: str = ""
    new: str = ""
    fingerprint: str = ""

    @property
    def belongs_to(self) -> ChangeClass:
        """Return the class that policies know it by."""
        return self.kind.belongs_to

    def to_json(self) -> dict[str, Any]:
        """Return the change as documents have it."""
        return {
            "class": str(self.belongs_to),
            "kind": str(self.kind),
            "object": self.object.to_json(),
            "severity": str(self.severity),
            "sentence": self.sentence,
            "path": self.path,
            "from": self.old,
            "to": self.new,
            "fingerprint": self.fingerprint,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the change that `to_json` wrote; anything else raises KeyError, TypeError or ValueError."""
        return cls(
            kind=ChangeKind(value["kind"]),
            object=ObjectId(**value["object"]),
            severity=Severity(value["severity"]),
            sentence=value["sentence"],
            path=value["path"],
            old=value["from"],
            new=value["to"],
            fingerprint=value["fingerprint"],
        )


def fingerprint(*parts: str) -> str:
    """Return the 16 hex digits by which something is acknowledged; other parts have others.

    The parts are the whole values, not what is cut for people: what was acknowledged is exactly one change.
    """
    joined = b"".join(len(data).to_bytes(8, "big") + data for data in (part.encode() for part in parts))
    return hashlib.sha256(joined).hexdigest()[:16]
