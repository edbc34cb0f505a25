"""Changes, with their kinds and severities, and hazards: what a step can break beyond what the files show."""

from __future__ import annotations

import enum
import hashlib
import shlex
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, json, to_builtins
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SHOWN = 3
_LONGEST = 1_000  # of a text
_MOST_NAMED = 30  # each takes 17 characters of a page, and a page can have twenty artifacts


class ChangeClass(enum.StrEnum):
    """The classes that a policy names in `escalate` and `refuse`; each kind of change belongs to one."""

    IMAGE = "image"
    VERSION = "version"  # labels that name the release, and nothing else
    RBAC = "rbac"
    RBAC_NARROWED = "rbacNarrowed"
    NETWORK_POLICY = "networkPolicy"
    NETWORK_POLICY_NARROWED = "networkPolicyNarrowed"
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
    """The kinds of changes, each with the class that policies know it by."""

    belongs_to: ChangeClass

    def __new__(cls, name: str, belongs_to: ChangeClass = ChangeClass.OTHER) -> Self:
        """Return the kind of this name."""
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.belongs_to = belongs_to
        return kind

    IMAGE = "image", ChangeClass.IMAGE
    VERSION_LABEL = "version-label", ChangeClass.VERSION
    ROLE_ADDED = "role-added", ChangeClass.RBAC
    ROLE_REMOVED = "role-removed", ChangeClass.RBAC_NARROWED
    RULE_ADDED = "rule-added", ChangeClass.RBAC
    RULE_REMOVED = "rule-removed", ChangeClass.RBAC_NARROWED
    RULE_WIDENED = "rule-widened", ChangeClass.RBAC
    RULE_NARROWED = "rule-narrowed", ChangeClass.RBAC_NARROWED
    BINDING_ADDED = "binding-added", ChangeClass.RBAC
    BINDING_REMOVED = "binding-removed", ChangeClass.RBAC_NARROWED
    SUBJECT_ADDED = "subject-added", ChangeClass.RBAC
    SUBJECT_REMOVED = "subject-removed", ChangeClass.RBAC_NARROWED
    ROLE_REFERENCE = "role-reference", ChangeClass.RBAC
    NETWORK_POLICY_ADDED = "network-policy-added", ChangeClass.NETWORK_POLICY
    NETWORK_POLICY_REMOVED = "network-policy-removed", ChangeClass.NETWORK_POLICY
    NETWORK_OPENED = "network-opened", ChangeClass.NETWORK_POLICY
    NETWORK_NARROWED = "network-narrowed", ChangeClass.NETWORK_POLICY_NARROWED
    SECURITY_LOWERED = "security-lowered", ChangeClass.SECURITY_CONTEXT
    SECURITY_RAISED = "security-raised", ChangeClass.SECURITY_CONTEXT
    CAPABILITY_ADDED = "capability-added", ChangeClass.SECURITY_CONTEXT
    CAPABILITY_REMOVED = "capability-removed", ChangeClass.SECURITY_CONTEXT
    HOST_ACCESS_ADDED = "host-access-added", ChangeClass.SECURITY_CONTEXT
    HOST_ACCESS_REMOVED = "host-access-removed", ChangeClass.SECURITY_CONTEXT
    ARGUMENT_ADDED = "argument-added", ChangeClass.ARGUMENTS
    ARGUMENT_REMOVED = "argument-removed", ChangeClass.ARGUMENTS
    ARGUMENT_CHANGED = "argument-changed", ChangeClass.ARGUMENTS
    FEATURE_GATE = "feature-gate", ChangeClass.ARGUMENTS
    ENVIRONMENT = "environment", ChangeClass.ENVIRONMENT
    RESOURCES = "resources", ChangeClass.RESOURCES
    PROBE = "probe", ChangeClass.PROBES
    WORKLOAD_ADDED = "workload-added", ChangeClass.NEW_WORKLOAD
    WORKLOAD_REMOVED = "workload-removed", ChangeClass.REMOVED_WORKLOAD
    SERVICE = "service", ChangeClass.SERVICE
    SERVICE_ACCOUNT = "service-account", ChangeClass.SERVICE_ACCOUNT
    QUOTA = "quota", ChangeClass.QUOTA
    PRIORITY_CLASS = "priority-class", ChangeClass.PRIORITY_CLASS
    CRD_ADDED = "crd-added", ChangeClass.CRD_ADDED
    CRD_REMOVED = "crd-removed", ChangeClass.CRD_REMOVAL
    VERSION_ADDED = "version-added", ChangeClass.CRD_VERSION
    VERSION_DEPRECATED = "version-deprecated", ChangeClass.CRD_VERSION
    VERSION_NOT_SERVED = "version-not-served", ChangeClass.CRD_REMOVAL
    VERSION_REMOVED = "version-removed", ChangeClass.CRD_REMOVAL
    STORAGE_MOVED = "storage-moved", ChangeClass.CRD_VERSION
    VALIDATION_TIGHTENED = "validation-tightened", ChangeClass.CRD_TIGHTENED
    VALIDATION_LOOSENED = "validation-loosened", ChangeClass.CRD_LOOSENED
    FIELD_ADDED = "field-added", ChangeClass.CRD_LOOSENED
    FIELD_REMOVED = "field-removed", ChangeClass.CRD_TIGHTENED
    DEFAULT_CHANGED = "default-changed", ChangeClass.CRD_DEFAULT
    PRINTER_COLUMNS = "printer-columns", ChangeClass.CRD_TEXT
    TEXT = "text", ChangeClass.CRD_TEXT
    METADATA = "metadata", ChangeClass.METADATA
    RECONCILIATION = "reconciliation", ChangeClass.METADATA
    OVERLAY_FILE = "overlay-file", ChangeClass.OVERLAY
    OTHER = "other", ChangeClass.OTHER


class Severity(enum.StrEnum):
    """How much a change deserves to be looked at, the least first."""

    INFO = "info"  # expected of any release
    NOTICE = "notice"  # worth a look
    WARNING = "warning"  # look at it before you agree
    DANGER = "danger"  # it opens what was closed, or can break what works


FILE = "File"  # the kind of what is a whole file


class ObjectId(Struct, frozen=True, order=True):
    """The identity of an object in a cluster; `namespace` is empty for what has none."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def told(self) -> str:
        """Return it as sentences name it: a whole file by its name alone."""
        return self.name if self.kind == FILE else str(self)


class Change(Struct, frozen=True, rename={"old": "from", "new": "to"}):
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
        return {"class": str(self.belongs_to), **to_builtins(self)}


class FileDiff(Struct, frozen=True):
    """What changes in a file, or in what a folder renders to, as the hunks of a unified diff or a sentence."""

    path: str
    text: str
    rendered: bool = False


def fingerprint(*parts: str) -> str:
    """Return the 16 hex digits by which something is acknowledged; other parts have others.

    The parts are the whole values, not what is cut for people: what was acknowledged is exactly one change.
    """
    joined = b"".join(len(data).to_bytes(8, "big") + data for data in (part.encode() for part in parts))
    return hashlib.sha256(joined).hexdigest()[:16]


class Certainty(enum.StrEnum):
    """How sure a hazard is, the least first."""

    ADVICE = "advice"  # it breaks nothing; it is worth knowing
    UNCHECKED = "unchecked"  # could not be looked at
    POSSIBLE = "possible"  # it breaks some clusters, and nothing tells whether it is these
    CERTAIN = "certain"


def in_shell(*words: str) -> str:
    """Return a command between backticks, which a shell takes as it is.

    For a word that has a backtick of its own, or invisible signs, it says NAME: a person has to look.
    """
    fit = (shlex.quote(word) if word.isprintable() and "`" not in word else "NAME" for word in words)
    return f"`{' '.join(fit)}`"


def all_of(names: Sequence[str]) -> str:
    """Return the names as a sentence has them: `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def some_of(names: Sequence[str], limit: int = _SHOWN) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - limit
    return all_of(names) if more <= 0 else f"{', '.join(names[:limit])} and {more} more"


def within(files: Sequence[str]) -> str:
    """Return files as the end of a hazard's subject: it is another one where other files have it."""
    if not files:
        return ""
    return f" in {', '.join(files)}" if len(files) <= _SHOWN else f" in {len(files)} files ({fingerprint(*files)})"


class Place(Struct, frozen=True, order=True):
    """Where something is: a file as the user named it, and a line, which is 0 for the whole file."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Hazard(Struct, frozen=True):
    """What can break, where, and what to do about it.

    `gate` is who found it (crds, overlay, compatibility, images). `subject` names it exactly, and without anything that
    changes from run to run: by it a hazard is acknowledged. Several with the same `together` are told in its words,
    with their names, such as `v1 of Alert`, in place of `{}`. No acknowledgement counts for one that is `final`.
    """

    gate: str
    certainty: Certainty
    subject: str
    sentence: str
    places: tuple[Place, ...] = ()
    remedies: tuple[str, ...] = ()
    together: str = ""
    name: str = ""
    final: bool = False

    @property
    def fingerprint(self) -> str:
        """Return the 16 hex digits by which it is acknowledged; that it is possible does not cover that it is sure."""
        return fingerprint(self.gate, self.certainty, self.subject)

    @property
    def named(self) -> str:
        """Return the 16 hex digits by which a later run knows what an approver was shown; its words do not count.

        What could not be looked at counts by its gate: what a registry does not tell, and why, changes each hour.
        """
        return self.fingerprint if self.certainty is not Certainty.UNCHECKED else fingerprint(self.gate, self.certainty)

    def to_json(self) -> dict[str, Any]:
        """Return the hazard as documents have it."""
        return {**json.decode(json.encode(self)), "fingerprint": self.fingerprint}


def printable_hazard(hazard: Hazard) -> Hazard:
    """Return a hazard as a log may have it, whatever is in the files that it speaks of."""
    subject, sentence, *remedies = map(printable_line, (hazard.subject, hazard.sentence, *hazard.remedies))
    return replace(hazard, subject=subject, sentence=sentence, remedies=tuple(remedies))


def printable_line(text: str) -> str:
    """Return a text as one line, cut where it is long, whatever is in it."""
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return "".join(sign if sign.isprintable() else "?" for sign in cut)


def hazard_names(hazards: Iterable[Hazard]) -> frozenset[str]:
    """Return the name of each hazard that is more than advice; one name for all of them where there are very many."""
    names = frozenset(hazard.named for hazard in hazards if hazard.certainty is not Certainty.ADVICE)
    return names if len(names) <= _MOST_NAMED else frozenset((fingerprint(*sorted(names)),))
