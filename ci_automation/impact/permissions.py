"""Permissions that roles grant: which of them cover which others, and what changes between two versions of a role.

A permission is one verb on one resource of one API group, with one name or any, or one verb on one URL; the wildcards
are those of Kubernetes' authorizer (`pkg/apis/rbac/v1/evaluation_helpers.go`).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from ci_automation.impact.change import Change, ChangeKind, Severity
from ci_automation.impact.values import MISSING, Pair, items, listed, mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

API_GROUP = "rbac.authorization.k8s.io"
_MAX_PERMISSIONS = 2_000  # Flux's own roles have 60
_MAX_OF_ALL = 50_000
_MAX_URL = 128
_MAX_VERBS = 12  # in a sentence; Kubernetes has eight on objects, and four that escalate
_ALL = "*"
_NO_NAME = "n/a"  # for an empty name, which requests without one have; no object's name has a slash
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
_KNOWN_KEYS = frozenset({"apiGroups", "resources", "verbs", "resourceNames", "nonResourceURLs"})


class Permission(NamedTuple):
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


class Unbounded(Exception):
    """Rules are no rules, or have more permissions than the limit."""


class TooMany(Unbounded):
    """Rules have more permissions than the limit."""


class Room:
    """The room for permissions, or pairs of flows, that are told apart in all objects together."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MAX_OF_ALL

    def has(self, number: int) -> bool:
        """Return whether so many more are told apart, which are taken off."""
        self._left -= number
        return self._left >= 0


class Granted:
    """Permissions, and what each of them covers."""

    def __init__(self, permissions: Iterable[Permission]) -> None:
        self._all: set[tuple[str, ...]] = set()
        self._verbs: defaultdict[str, set[str]] = defaultdict(set)  # of each URL that ends with a wildcard
        self._lengths: set[int] = set()
        self._patterns: dict[str, list[str]] = {}  # the URLs with a wildcard that take one
        self.add(permissions)

    def add(self, permissions: Iterable[Permission]) -> None:
        """Grant more."""
        for it in permissions:
            self._all.add(it)
            if it.url.endswith(_ALL):
                self._verbs[it.url].add(it.verb)
                self._lengths.add(len(it.url) - 1)
        self._patterns.clear()

    def covers(self, one: Permission) -> bool:
        """Return whether one of the permissions is this one or more than it."""
        if one in self._all:
            return True
        if one.url:
            verbs = {one.verb, _ALL}
            return ("", "", _ALL, "", one.url) in self._all or any(
                not verbs.isdisjoint(self._verbs[pattern]) for pattern in self._taking(one.url)
            )
        resources = {one.resource, _ALL}
        if "/" in one.resource:
            resources.add(f"*/{one.resource.partition('/')[2]}")
        ways = product({one.group, _ALL}, resources, {one.verb, _ALL}, {one.name, ""}, ("",))
        return not self._all.isdisjoint(ways)

    def _taking(self, url: str) -> list[str]:
        if url not in self._patterns:
            starts = (f"{url[:end]}*" for end in self._lengths if end <= len(url))
            self._patterns[url] = [start for start in starts if start in self._verbs]
        return self._patterns[url]


def permissions_of(rules: list[Any], room: Room) -> list[set[Permission]]:
    """Return what each rule permits.

    Raises:
        Unbounded: a rule is not one.
        TooMany: it is too much to be listed.
    """
    found, left = [], _MAX_PERMISSIONS
    for rule in rules:
        if not isinstance(rule, dict) or not rule.keys() <= _KNOWN_KEYS:
            raise Unbounded
        groups, resources, verbs, names, urls = (
            _texts(rule.get(key)) for key in ("apiGroups", "resources", "verbs", "resourceNames", "nonResourceURLs")
        )
        number = len(verbs) * (len(groups) * len(resources) * max(1, len(names)) + len(urls))
        left -= number
        if left < 0 or not room.has(number) or any(len(url) > _MAX_URL for url in urls):
            raise TooMany
        known_names = [name or _NO_NAME for name in names] or [""]
        found.append(
            {Permission(*parts) for parts in product(groups, resources, verbs, known_names)}
            | {Permission("", "", verb, url=url) for url, verb in product(urls, verbs)}
        )
    return found


def _texts(value: Any) -> list[str]:  # noqa: ANN401 - a value of YAML
    if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        raise Unbounded
    return value or []


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
        f"{'do everything with' if _ALL in verbs else listed(sorted(verbs), _MAX_VERBS)} {_places(places)}"
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


def role(pair: Pair, room: Room) -> Iterator[Change]:
    """Yield that a role is there now, or no longer, with what it permits."""
    may, severity = role_summary(pair.old if pair.new is MISSING else pair.new, room)
    if pair.new is MISSING:
        yield pair.whole(ChangeKind.ROLE_REMOVED, Severity.NOTICE, f"is gone: {may}")
    else:
        yield pair.whole(ChangeKind.ROLE_ADDED, severity, f"is new: {may}")


def role_summary(value: Any, room: Room) -> tuple[str, Severity]:  # noqa: ANN401 - a value of YAML
    """Return what a role permits, in words, and how grave that is."""
    try:
        rules = permissions_of(items(mapping(value).get("rules")), room)
    except Unbounded:
        return "the program cannot tell what it permits", Severity.DANGER
    permitted = {permission for rule in rules for permission in rule}
    if "aggregationRule" in mapping(value):
        return "it permits what the roles permit that it selects", Severity.DANGER
    return f"may {sentence(permitted)}", gravest(permitted)


def rules(pair: Pair, room: Room) -> Iterator[Change]:
    """Yield what a role permits now that it did not, and what it does not permit any more."""
    try:
        old, new = permissions_of(items(pair.old), room), permissions_of(items(pair.new), room)
    except Unbounded as problem:
        why = "they are too many or too long to be told apart" if isinstance(problem, TooMany) else "they are no rules"
        said = f"changes its rules; the program cannot tell whether they permit more: {why}"
        yield pair.change(ChangeKind.RULE_WIDENED, Severity.DANGER, said)
        return
    changes = [*_gains(pair, old, new), *_losses(pair, old, new)]
    if not changes:
        said = "writes its rules differently; they permit the same"
        changes = [pair.change(ChangeKind.OTHER, Severity.INFO, said)]
    yield from changes


def _gains(pair: Pair, old: list[set[Permission]], new: list[set[Permission]]) -> Iterator[Change]:
    before = Granted(set().union(*old))
    for number, rule in enumerate(new):
        more = {permission for permission in rule if not before.covers(permission)}
        if more:
            kind = ChangeKind.RULE_ADDED if more == rule else ChangeKind.RULE_WIDENED
            here = Pair(pair.id, MISSING, items(pair.new)[number], f"{pair.path}[{number}]")
            yield _known(here, kind, gravest(more), f"may now {sentence(more)}", more)
            before.add(rule)  # what two rules grant is told once


def _losses(pair: Pair, old: list[set[Permission]], new: list[set[Permission]]) -> Iterator[Change]:
    after = Granted(set().union(*new))
    for number, rule in enumerate(old):
        less = {permission for permission in rule if not after.covers(permission)}
        if less:
            kind = ChangeKind.RULE_REMOVED if less == rule else ChangeKind.RULE_NARROWED
            here = Pair(pair.id, items(pair.old)[number], MISSING, f"{pair.path}[{number}]")
            yield _known(here, kind, Severity.NOTICE, f"may no longer {sentence(less)}", less)
            after.add(rule)


def _known(pair: Pair, kind: ChangeKind, severity: Severity, said: str, permissions: Iterable[Permission]) -> Change:
    """Return a change that is known by the permissions alone: where the rule stands may differ from file to file."""
    parts = (f"{it.group} {it.resource} {it.verb} {it.name} {it.url}" for it in sorted(permissions))
    return replace(replace(pair, path="").change(kind, severity, said, *parts), path=pair.path)
