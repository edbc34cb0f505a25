"""Rights that the roles and bindings of manifests give: to which subjects, where, which of them are grave.

Changes of bindings too: the subjects that get a role, and those that lose it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, json
from msgspec.structs import replace

from ci_automation.impact.change import Change, ChangeKind, Severity, fingerprint
from ci_automation.impact.objects import parts_of
from ci_automation.impact.parts import Text
from ci_automation.impact.permissions import (
    API_GROUP,
    Granted,
    Permission,
    Room,
    Unbounded,
    permissions_of,
    role_summary,
    sentence,
)
from ci_automation.impact.reading import UnreadableObjects
from ci_automation.impact.values import MISSING, Pair, at, canonical, items, listed, mapping, shown, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_automation.impact.values import Rules

AGGREGATE = f"{API_GROUP}/aggregate-to-"
_EVERYBODY = frozenset({"system:anonymous", "system:authenticated", "system:unauthenticated", "system:serviceaccounts"})
_MAX_ROLE = 1_000  # signs; it is part of the change of each subject
_ALMIGHTY = frozenset({"cluster-admin", "admin", "edit"})
_OF_ROLES = re.compile(r"""kind["']?\s*:\s*["']?(?:Cluster)?Role""")
_EVERYTHING = Permission("*", "*", "*")
_ESCALATING = (
    *(Permission(API_GROUP, resource, verb) for verb in ("bind", "escalate") for resource in ("clusterroles", "roles")),
    *(Permission("", resource, "impersonate") for resource in ("groups", "serviceaccounts", "users")),
    Permission("", "serviceaccounts/token", "create"),  # a token for each service account
)
_SECRETS = tuple(
    Permission("", "secrets", verb)
    for verb in ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
)
_CLUSTER_ADMIN = "ClusterRole cluster-admin"
_MAX_SAID = 2_000  # signs
_MOST = 100

_Subject = tuple[str, str, str, str]  # API group, kind, namespace, name


class Right(Struct, frozen=True, rename="camel"):
    """A role that a binding gives to subjects, or its labels to other roles; without a namespace, in the whole cluster.

    `everything` says that it is cluster-admin or as good; `escalation` and `secrets` are its rights of these sorts.
    `added` says that Flux's components alone do not give it.
    """

    namespace: str
    subjects: tuple[str, ...]
    role: str
    binding: str
    may: str
    severity: Severity
    everything: bool = False
    escalation: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    added: bool = False


class FolderRights(Struct, frozen=True, rename="camel"):
    """The rights in the manifests of a folder that clusters apply.

    `unbuilt` says why they are those of the components file alone; it is empty if they are those of the built folder.
    Of very many rights, `more` is the number of those that are left out, which are the least grave.
    """

    folder: str
    rights: tuple[Right, ...]
    unbuilt: str = ""
    more: int = 0

    @classmethod
    def of(cls, folder: str, texts: Iterable[str], unbuilt: str = "") -> Self:
        """Return the rights in the texts of what clusters get of a folder."""
        order = tuple(Severity)
        found = sorted(rights_of(texts), key=lambda it: (-order.index(it.severity), it.namespace, it.role))
        return cls(folder, tuple(found[:_MOST]), unbuilt, max(0, len(found) - _MOST))

    def beside(self, components: str) -> Self:
        """Return the rights, those first and marked that these components alone do not give."""
        own = set(rights_of([components]))
        rights = (replace(it, added=it not in own) for it in self.rights)
        return replace(self, rights=tuple(sorted(rights, key=lambda it: not it.added)))

    def to_json(self) -> dict[str, Any]:
        """Return the rights as documents have them."""
        value: dict[str, Any] = json.decode(json.encode(self))
        return value

    @property
    def by_namespace(self) -> dict[str, list[Right]]:
        """Return the rights of each namespace, those in the whole cluster first, in their order."""
        found: dict[str, list[Right]] = {}
        for each in sorted(self.rights, key=lambda it: it.namespace):
            found.setdefault(each.namespace, []).append(each)
        return found


def rights_of(texts: Iterable[str]) -> tuple[Right, ...]:
    """Return the rights that the roles and bindings in these texts of objects give."""
    found, room = dict(_found(texts)), Room()
    rights: list[Right] = []
    for (kind, namespace, name), value in sorted(found.items()):
        if kind in {"ClusterRoleBinding", "RoleBinding"}:
            reference = mapping(value.get("roleRef"))
            of = words(reference.get("kind"))
            role = found.get((of, namespace if of == "Role" else "", words(reference.get("name"))))
            bound = Right(namespace, (), _named_role(reference), f"{kind} {name}", "", Severity.INFO)
            rights.append(_to(value.get("subjects"), _with_role(bound, role, room)))
        elif kind == "ClusterRole":
            rights += _aggregated(name, value, room)
    return tuple(rights)


def _found(texts: Iterable[str]) -> Iterator[tuple[tuple[str, str, str], dict[str, Any]]]:
    """Yield the roles and bindings by kind, namespace and name; what cannot be read is none."""
    for part in (part for text in texts for part in Text.of(text).parts if _OF_ROLES.search(part.text)):
        with suppress(UnreadableObjects):
            for value in (mapping(each) for document in part.documents() for each in parts_of(document.value)):
                of = mapping(value.get("metadata"))
                if words(value.get("apiVersion")).startswith(f"{API_GROUP}/"):
                    yield (words(value.get("kind")), words(of.get("namespace")), words(of.get("name"))), value


def _aggregated(name: str, value: dict[str, Any], room: Room) -> Iterator[Right]:
    """Yield what a role adds to other ones of the cluster, such as `edit`, for all who have those."""
    labels = mapping(at(value.get("metadata"), "labels")).items()
    to = sorted(
        label.removeprefix(AGGREGATE) for label, said in labels if label.startswith(AGGREGATE) and said == "true"
    )
    if to:
        bound = Right(
            "", tuple(f"ClusterRole {it}" for it in to), f"ClusterRole {name}", "its labels", "", Severity.INFO
        )
        yield _with_role(bound, value, room)


def _with_role(right: Right, role: dict[str, Any] | None, room: Room) -> Right:
    """Return the right with what its role permits; the role is None if it is not among the manifests."""
    if role is None:
        if right.role == _CLUSTER_ADMIN:
            return _almighty(right)
        return replace(right, may="do what this role of the cluster permits", severity=Severity.DANGER)
    may, severity = role_summary(role, room)
    try:
        permitted = set().union(*permissions_of(items(role.get("rules")), room))
    except Unbounded:
        permitted = set()
    granted = Granted(it._replace(name="") for it in permitted)
    right = replace(right, may=may.removeprefix("may ")[:_MAX_SAID], severity=severity)
    if granted.covers(_EVERYTHING):
        return _almighty(right)
    escalation = tuple(sentence([it]) for it in _ESCALATING if granted.covers(it))
    return replace(right, escalation=escalation, secrets=tuple(it.verb for it in _SECRETS if granted.covers(it)))


def _almighty(right: Right) -> Right:
    everything = tuple(sentence([it]) for it in _ESCALATING), tuple(it.verb for it in _SECRETS)
    right = replace(right, may="do everything", severity=Severity.DANGER, everything=True)
    return replace(right, escalation=everything[0], secrets=everything[1])


def _to(value: Any, right: Right) -> Right:  # noqa: ANN401 - a value of YAML
    """Return the right of the subjects of a binding; what all users have is grave."""
    subjects = _subjects_of(value)
    severity = Severity.DANGER if any(map(_is_everybody, subjects)) else right.severity
    return replace(right, subjects=tuple(map(_named_subject, subjects)), severity=severity)


def binding(pair: Pair, _room: Room) -> Iterator[Change]:
    """Yield that a binding is there now, or no longer, and who has or had which role."""
    value = mapping(pair.old if pair.new is MISSING else pair.new)
    role, subjects = mapping(value.get("roleRef")), _subjects_of(value.get("subjects"))
    whom = f"{_named_role(role)} to {listed(map(_named_subject, subjects)) or 'no subject'}"
    if pair.new is MISSING:
        yield pair.whole(ChangeKind.BINDING_REMOVED, Severity.NOTICE, f"is gone: it gave {whom}")
    else:
        graves = (_grave(role, subject) for subject in subjects)
        severity = max(graves, key=list(Severity).index, default=Severity.WARNING)
        yield pair.whole(ChangeKind.BINDING_ADDED, severity, f"is new: it gives {whom}")


def binding_rules(pair: Pair) -> Rules:
    """Return the rules for the keys of a binding, which depend on the role that it refers to now."""
    role = mapping(at(pair.new, "roleRef"))
    return {"roleRef": _reference, "subjects": partial(_subject_changes, role=role)}


def _reference(pair: Pair) -> Iterator[Change]:
    role = mapping(pair.new)
    severity = Severity.DANGER if words(role.get("name")) in _ALMIGHTY else Severity.WARNING
    before = _named_role(mapping(pair.old))
    said = f"refers to {_named_role(role)} instead of {before}; clusters refuse that until the binding is recreated"
    yield pair.change(ChangeKind.ROLE_REFERENCE, severity, said)


def _subject_changes(pair: Pair, role: dict[str, Any]) -> Iterator[Change]:
    old, new = _subjects_of(pair.old), _subjects_of(pair.new)
    known = canonical(role)
    if len(known) > _MAX_ROLE:
        known = fingerprint(known)
    for subject in sorted(set(new) - set(old)):
        said = f"gives {_named_role(role)} to {_named_subject(subject)}"
        side = Pair(pair.id, MISSING, _named_subject(subject), pair.path)
        yield side.change(ChangeKind.SUBJECT_ADDED, _grave(role, subject), said, *subject, known)
    for subject in sorted(set(old) - set(new)):
        said = f"no longer gives {_named_role(role)} to {_named_subject(subject)}"
        side = Pair(pair.id, _named_subject(subject), MISSING, pair.path)
        yield side.change(ChangeKind.SUBJECT_REMOVED, Severity.NOTICE, said, *subject)


def _subjects_of(value: Any) -> list[_Subject]:  # noqa: ANN401 - a value of YAML
    found = []
    for item in items(value):
        kind, group, namespace, name = (
            words(mapping(item).get(key)) for key in ("kind", "apiGroup", "namespace", "name")
        )
        found.append((group or ("" if kind == "ServiceAccount" else API_GROUP), kind, namespace, name))
    return found


def _grave(role: dict[str, Any], subject: _Subject) -> Severity:
    almighty = words(role.get("name")) in _ALMIGHTY
    return Severity.DANGER if _is_everybody(subject) or almighty else Severity.WARNING


def _is_everybody(subject: _Subject) -> bool:
    """Return whether a subject is a group that all users are in, or every service account of some namespace."""
    return subject[3].partition(":serviceaccounts:")[0] in _EVERYBODY


def _named_role(role: dict[str, Any]) -> str:
    """Return a role as people name it."""
    return f"{shown(words(role.get('kind')))} {shown(words(role.get('name')))}".strip() or "no role"


def _named_subject(subject: _Subject) -> str:
    """Return a subject as people name it."""
    _, kind, namespace, name = subject
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
