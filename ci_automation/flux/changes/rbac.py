"""Changes of what roles permit and of whom they are bound to, by what is permitted and not by how it is written.

A permission is one verb on one resource of one API group, with one name or any, or one verb on one URL; the wildcards
are those of Kubernetes' authorizer (`pkg/apis/rbac/v1/evaluation_helpers.go`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from ci_automation.flux.changes.model import ChangeKind, Severity
from ci_automation.flux.changes.values import MISSING, Pair, canonical, items, listed, mapping, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ci_automation.flux.changes.model import Change

API_GROUP = "rbac.authorization.k8s.io"
AGGREGATE = f"{API_GROUP}/aggregate-to-"
ROLES = frozenset({"ClusterRole", "Role"})
BINDINGS = frozenset({"ClusterRoleBinding", "RoleBinding"})
_MAX_PERMISSIONS = 5_000  # Flux's own roles have 60
_MAX_URL = 128
_ALL = "*"
_READING = frozenset({"get", "list", "watch", "head", "options"})
_ESCALATING = frozenset({"escalate", "bind", "impersonate", "approve", "sign"})
_WRITING_IS_DANGER = frozenset(
    {
        ("", "serviceaccounts/token"),
        ("", "pods/exec"),
        ("", "pods/attach"),
        ("", "pods/ephemeralcontainers"),
        ("", "nodes/proxy"),
        (API_GROUP, "roles"),
        (API_GROUP, "clusterroles"),
        (API_GROUP, "rolebindings"),
        (API_GROUP, "clusterrolebindings"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("certificates.k8s.io", "certificatesigningrequests/approval"),
    }
)
_EVERYBODY = frozenset({"system:anonymous", "system:authenticated", "system:unauthenticated", "system:serviceaccounts"})
_ALMIGHTY = frozenset({"cluster-admin", "admin", "edit"})
_KNOWN_KEYS = frozenset({"apiGroups", "resources", "verbs", "resourceNames", "nonResourceURLs"})


@dataclass(frozen=True, slots=True, order=True)
class Permission:
    """One verb on one resource, `name` empty for all of its objects, or on one URL, where the rest is empty."""

    group: str
    resource: str
    verb: str
    name: str = ""
    url: str = ""

    @property
    def severity(self) -> Severity:
        """Return how grave it is to have it."""
        if self.verb == _ALL or self.verb in _ESCALATING or _ALL in {self.group, self.url}:
            return Severity.DANGER
        if self.url:
            return Severity.NOTICE if self.verb in _READING else Severity.WARNING
        # All resources of the core group are Secrets too, and those of RBAC the roles.
        if self.resource == "secrets" or (self.resource == _ALL and self.group in {"", API_GROUP}):
            return Severity.DANGER
        if self.verb in _READING:
            return Severity.NOTICE
        return Severity.DANGER if (self.group, self.resource) in _WRITING_IS_DANGER else Severity.WARNING


class _Unbounded(Exception):
    """Rules have more permissions than anybody grants, or are no rules."""


def role_added(pair: Pair) -> Iterator[Change]:
    """Yield that a role is there now, with what it permits."""
    may, severity = _summary(pair.new)
    yield Pair(pair.id, "", "").change(ChangeKind.ROLE_ADDED, severity, f"is new: {may}", canonical(pair.new))


def role_removed(pair: Pair) -> Iterator[Change]:
    """Yield that a role is not there any more."""
    may, _ = _summary(pair.old)
    yield Pair(pair.id, "", "").change(ChangeKind.ROLE_REMOVED, Severity.NOTICE, f"is gone: {may}", canonical(pair.old))


def _summary(value: Any) -> tuple[str, Severity]:  # noqa: ANN401 - a value of YAML
    try:
        rules = _permissions(items(mapping(value).get("rules")))
    except _Unbounded:
        return "what it permits cannot be told", Severity.DANGER
    permitted = {permission for rule in rules for permission in rule}
    if "aggregationRule" in mapping(value):
        return "it permits what the roles permit that it selects", Severity.DANGER
    return f"may {sentence(permitted)}", gravest(permitted)


def aggregation(pair: Pair) -> Iterator[Change]:
    """Yield that a role takes its rules from other roles than before: which ones only the cluster knows."""
    yield pair.change(
        ChangeKind.RULE_WIDENED, Severity.DANGER, "takes its rules from other roles; what it permits cannot be told"
    )


def rules(pair: Pair) -> Iterator[Change]:
    """Yield what a role permits now that it did not, and what it does not permit any more."""
    try:
        old, new = _permissions(items(pair.old)), _permissions(items(pair.new))
    except _Unbounded:
        said = "has other rules; whether they permit more cannot be told"
        yield pair.change(ChangeKind.RULE_WIDENED, Severity.DANGER, said)
        return
    changes = [*_gains(pair, old, new), *_losses(pair, old, new)]
    if not changes:
        said = "has its rules written in another way; they permit the same"
        changes = [pair.change(ChangeKind.OTHER, Severity.INFO, said)]
    yield from changes


def _gains(pair: Pair, old: list[set[Permission]], new: list[set[Permission]]) -> Iterator[Change]:
    before = set().union(*old)
    for number, rule in enumerate(new):
        more = {permission for permission in rule if not _covered(permission, before)}
        if more:
            kind = ChangeKind.RULE_ADDED if more == rule else ChangeKind.RULE_WIDENED
            here = Pair(pair.id, MISSING, items(pair.new)[number], f"{pair.path}[{number}]")
            yield _known(here, kind, gravest(more), f"may now {sentence(more)}", more)
            before |= rule  # what two rules grant is told once


def _losses(pair: Pair, old: list[set[Permission]], new: list[set[Permission]]) -> Iterator[Change]:
    after = set().union(*new)
    for number, rule in enumerate(old):
        less = {permission for permission in rule if not _covered(permission, after)}
        if less:
            kind = ChangeKind.RULE_REMOVED if less == rule else ChangeKind.RULE_NARROWED
            here = Pair(pair.id, items(pair.old)[number], MISSING, f"{pair.path}[{number}]")
            yield _known(here, kind, Severity.NOTICE, f"may no longer {sentence(less)}", less)
            after |= rule


def _known(pair: Pair, kind: ChangeKind, severity: Severity, said: str, permissions: Iterable[Permission]) -> Change:
    """Return a change that is known by the permissions alone: where the rule stands may differ from file to file."""
    parts = (f"{it.group} {it.resource} {it.verb} {it.name} {it.url}" for it in sorted(permissions))
    return replace(replace(pair, path="").change(kind, severity, said, *parts), path=pair.path)


def _permissions(rules: list[Any]) -> list[set[Permission]]:
    """Return what each rule permits.

    Raises:
        _Unbounded: it is too much to be listed, or a rule is not one.
    """
    found, left = [], _MAX_PERMISSIONS
    for rule in rules:
        if not isinstance(rule, dict) or not rule.keys() <= _KNOWN_KEYS:
            raise _Unbounded
        groups, resources, verbs, names, urls = (
            _texts(rule.get(key)) for key in ("apiGroups", "resources", "verbs", "resourceNames", "nonResourceURLs")
        )
        left -= len(verbs) * (len(groups) * len(resources) * max(1, len(names)) + len(urls))
        if left < 0 or any(len(url) > _MAX_URL for url in urls):
            raise _Unbounded
        found.append(
            {Permission(*parts) for parts in product(groups, resources, verbs, names or [""])}
            | {Permission("", "", verb, url=url) for url, verb in product(urls, verbs)}
        )
    return found


def _texts(value: Any) -> list[str]:  # noqa: ANN401 - a value of YAML
    if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        raise _Unbounded
    return value or []


def _covered(one: Permission, among: set[Permission]) -> bool:
    """Tell whether one of many permissions is this one or more than it."""
    if one.url:
        urls = {one.url, *(f"{one.url[:end]}*" for end in range(len(one.url) + 1))}
        return any(Permission("", "", verb, url=url) in among for url in urls for verb in (one.verb, _ALL))
    resources = {one.resource, _ALL}
    if "/" in one.resource:
        resources.add(f"*/{one.resource.partition('/')[2]}")
    return any(
        Permission(*parts) in among for parts in product({one.group, _ALL}, resources, {one.verb, _ALL}, {one.name, ""})
    )


def gravest(permissions: Iterable[Permission]) -> Severity:
    """Return the severity of the gravest of permissions."""
    return max((it.severity for it in permissions), key=list(Severity).index, default=Severity.INFO)


def sentence(permissions: Iterable[Permission]) -> str:
    """Return permissions in words: `create serviceaccounts/token`, `get and list * of apps`."""
    by_object: defaultdict[tuple[str, str, str, str], set[str]] = defaultdict(set)
    for it in permissions:
        by_object[it.group, it.resource, it.name, it.url].add(it.verb)
    by_verbs: defaultdict[frozenset[str], list[tuple[str, str, str, str]]] = defaultdict(list)
    for place, verbs in sorted(by_object.items()):
        by_verbs[frozenset(verbs)].append(place)
    phrases = (
        f"{'do everything with' if _ALL in verbs else listed(sorted(verbs))} {_places(places)}"
        for verbs, places in sorted(by_verbs.items(), key=lambda item: sorted(item[0]))
    )
    return "; ".join(phrases) or "do nothing"


def _places(places: list[tuple[str, str, str, str]]) -> str:
    by_group: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for group, resource, name, url in places:
        by_group[group, name].append(url or resource)
    return listed(
        f"{listed(names)}{f' of {group}' if group else ''}{f' named {name}' if name else ''}"
        for (group, name), names in by_group.items()
    )


def binding_added(pair: Pair) -> Iterator[Change]:
    """Yield that a binding is there now, and whom it gives which role."""
    role, subjects = mapping(mapping(pair.new).get("roleRef")), _subjects(mapping(pair.new).get("subjects"))
    severity = max((_grave(role, subject) for subject in subjects), key=list(Severity).index, default=Severity.WARNING)
    said = f"is new: it gives {_role(role)} to {listed(map(_named, subjects)) or 'nobody'}"
    yield Pair(pair.id, "", "").change(ChangeKind.BINDING_ADDED, severity, said, canonical(pair.new))


def binding_removed(pair: Pair) -> Iterator[Change]:
    """Yield that a binding is not there any more, and who lost which role."""
    role, subjects = mapping(mapping(pair.old).get("roleRef")), _subjects(mapping(pair.old).get("subjects"))
    said = f"is gone: it gave {_role(role)} to {listed(map(_named, subjects)) or 'nobody'}"
    yield Pair(pair.id, "", "").change(ChangeKind.BINDING_REMOVED, Severity.NOTICE, said, canonical(pair.old))


def binding_rules(role: dict[str, Any]) -> Mapping[str, Callable[[Pair], Iterator[Change]]]:
    """Return the rules for the keys of a binding that refers to `role` now."""
    return {"roleRef": _reference, "subjects": partial(_subject_changes, role=role)}


def _reference(pair: Pair) -> Iterator[Change]:
    role = mapping(pair.new)
    severity = Severity.DANGER if words(role.get("name")) in _ALMIGHTY else Severity.WARNING
    said = (
        f"refers to {_role(role)} instead of {_role(mapping(pair.old))}; a cluster takes that only when it is made anew"
    )
    yield pair.change(ChangeKind.ROLE_REFERENCE, severity, said)


def _subject_changes(pair: Pair, role: dict[str, Any]) -> Iterator[Change]:
    old, new = _subjects(pair.old), _subjects(pair.new)
    for subject in sorted(set(new) - set(old)):
        said = f"gives {_role(role)} to {_named(subject)}"
        side = Pair(pair.id, MISSING, _named(subject), pair.path)
        yield side.change(ChangeKind.SUBJECT_ADDED, _grave(role, subject), said, *subject, canonical(role))
    for subject in sorted(set(old) - set(new)):
        said = f"gives {_role(role)} to {_named(subject)} no longer"
        side = Pair(pair.id, _named(subject), MISSING, pair.path)
        yield side.change(ChangeKind.SUBJECT_REMOVED, Severity.NOTICE, said, *subject)


_Subject = tuple[str, str, str, str]  # API group, kind, namespace, name


def _subjects(value: Any) -> list[_Subject]:  # noqa: ANN401 - a value of YAML
    found = []
    for item in items(value):
        kind, group, namespace, name = (
            words(mapping(item).get(key)) for key in ("kind", "apiGroup", "namespace", "name")
        )
        found.append((group or ("" if kind == "ServiceAccount" else API_GROUP), kind, namespace, name))
    return found


def _grave(role: dict[str, Any], subject: _Subject) -> Severity:
    group_of_all = subject[3].partition(":serviceaccounts:")[0] in _EVERYBODY
    almighty = words(role.get("name")) in _ALMIGHTY
    return Severity.DANGER if group_of_all or almighty else Severity.WARNING


def _role(role: dict[str, Any]) -> str:
    return f"{words(role.get('kind'))} {words(role.get('name'))}".strip() or "no role"


def _named(subject: _Subject) -> str:
    _, kind, namespace, name = subject
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
