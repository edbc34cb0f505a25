"""The table of rules: how to compare objects of each kind, path by path, and what to say of new and removed ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ci_automation.impact import network, permissions, rights
from ci_automation.impact.change import ChangeKind, Severity
from ci_automation.impact.crd import CRD_SPEC
from ci_automation.impact.rights import AGGREGATE
from ci_automation.impact.security import APP_ARMOR, POD_SECURITY, app_armor, pod_security
from ci_automation.impact.values import (
    MISSING,
    Pair,
    aligned,
    by_key,
    leaves,
    other,
    reordered,
    row,
    said,
    shown,
    sides,
)
from ci_automation.impact.workload import TEMPLATES, pod, workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ci_automation.impact.change import Change
    from ci_automation.impact.permissions import Room
    from ci_automation.impact.values import Rule, Rules
    from ci_automation.impact.workload import Kind

    WithRoom = Callable[[Pair, Room], Iterator[Change]]
    _Told = tuple[ChangeKind, Severity] | tuple[ChangeKind, Severity, str]

VERSION = "app.kubernetes.io/version"
# What tells kustomize-controller how to treat an object, as a label or as an annotation.
_RECONCILIATION = frozenset(f"kustomize.toolkit.fluxcd.io/{name}" for name in ("force", "prune", "reconcile", "ssa"))
# What makes a service reachable from outside of the cluster.
_OUTSIDE = frozenset({"type", "externalIPs", "loadBalancerIP", "loadBalancerSourceRanges", "externalName"})


def metadata(pair: Pair) -> Iterator[Change]:
    """Yield the changes of an object's `metadata`."""
    yield from by_key(pair, {"labels": _labels, "annotations": _annotations})


def _pod_metadata(pair: Pair) -> Iterator[Change]:
    """Yield the changes of a pod's `metadata`, where annotations hold containers."""
    yield from by_key(pair, {"labels": _labels, "annotations": _pod_annotations})


def _labels(pair: Pair) -> Iterator[Change]:
    for side, key in _entries(pair):
        if key == VERSION:
            yield side.change(ChangeKind.VERSION_LABEL, Severity.INFO, _said(side, "label", key))
        elif key.startswith(POD_SECURITY) and pair.id.kind == "Namespace":
            yield from pod_security(side)
        elif key.startswith(AGGREGATE) and pair.id.kind == "ClusterRole":
            yield _aggregated(side, key.removeprefix(AGGREGATE))
        else:
            yield _plain(side, "label", key)


def _annotations(pair: Pair) -> Iterator[Change]:
    for side, key in _entries(pair):
        yield _plain(side, "annotation", key)


def _pod_annotations(pair: Pair) -> Iterator[Change]:
    for side, key in _entries(pair):
        yield app_armor(side) if key.startswith(APP_ARMOR) else _plain(side, "annotation", key)


def _plain(pair: Pair, what: str, key: str) -> Change:
    if key in _RECONCILIATION:
        said = f"{_said(pair, what, key)}; controllers act on it"
        return pair.change(ChangeKind.RECONCILIATION, Severity.WARNING, said)
    return pair.change(ChangeKind.METADATA, Severity.INFO, _said(pair, what, key))


def _entries(pair: Pair) -> Iterator[tuple[Pair, str]]:
    """Yield the entries that differ; where one side has none at all, each entry of the other."""
    old, new = ({} if value is MISSING or value is None else value for value in (pair.old, pair.new))
    if isinstance(old, dict) and isinstance(new, dict):
        yield from sides(Pair(pair.id, old, new, pair.path))


def _aggregated(pair: Pair, role: str) -> Change:
    if pair.new in (MISSING, "false"):
        said = f"no longer grants its permissions to all subjects with the role {shown(role)}"
        return pair.change(ChangeKind.RULE_NARROWED, Severity.NOTICE, said)
    # Kubernetes' own roles look for `true`, other ones for what their authors like.
    grants = "grants" if pair.new == "true" else "may grant"
    said = f"{grants} its permissions to all subjects with the role {shown(role)}"
    return pair.change(ChangeKind.RULE_WIDENED, Severity.WARNING, said)


def _said(pair: Pair, what: str, key: str) -> str:
    if pair.new is MISSING:
        return f"removes {what} {shown(key)}"
    if pair.id.kind == "Secret" and what == "annotation":  # kubectl keeps a copy of the object in one
        return f"{'adds' if pair.old is MISSING else 'changes'} {what} {shown(key)}"
    if pair.old is MISSING:
        return f"adds {what} {shown(key)}: {shown(pair.new)}"
    old, new = pair.shown
    return f"changes {what} {shown(key)} to {new} (was: {old})"


class _Of(Struct, frozen=True):
    """What is said of new and of gone objects of a kind, the rules by key, and the rule of keys without one."""

    whole: WithRoom
    keys: Callable[[Pair, Room], Rules] = lambda _pair, _room: {}
    rest: Rule = other


def changed(pair: Pair, room: Room) -> Iterator[Change]:
    """Yield the changes of an object that is there before and after; `room` is for what permits something."""
    of = _of(pair)
    yield from by_key(pair, {"apiVersion": other, **of.keys(pair, room), "metadata": metadata}, of.rest)


def come_or_gone(pair: Pair, room: Room) -> Iterator[Change]:
    """Yield that an object is there now, or not any more."""
    yield from _of(pair).whole(pair, room)


def _of(pair: Pair) -> _Of:
    return _TABLE.get((pair.id.group, pair.id.kind), _UNKNOWN)


def _service(pair: Pair) -> Iterator[Change]:
    """Yield the changes of a Service's `spec`, its ports by number and protocol."""
    for side, key in sides(pair):
        ports = aligned(side, "ports") if key == "ports" else None
        differing = [port for port in ports or () if port.differs]
        for port in differing:
            yield port.change(ChangeKind.SERVICE, Severity.NOTICE, said(port))
        if ports and not differing and reordered(side, "ports"):
            yield side.change(ChangeKind.SERVICE, Severity.INFO, "has its ports in another order")
        elif not differing:
            severity = Severity.WARNING if key in _OUTSIDE else Severity.NOTICE
            yield side.change(ChangeKind.SERVICE, severity, f"has {key}: {shown(side.new) or 'none'}")


def _whole(new: _Told, gone: _Told) -> WithRoom:
    """Return the rule of an object that has come or gone, which says what that means if the row does."""

    def rule(pair: Pair, _room: Room) -> Iterator[Change]:
        word, (kind, severity, *means) = ("is gone", gone) if pair.new is MISSING else ("is new", new)
        yield pair.whole(kind, severity, f"{word}: {means[0]}") if means else pair.whole(kind, severity, word, word)

    return rule


def _keys(rules: Rules) -> Callable[[Pair, Room], Rules]:
    return lambda _pair, _room: rules


def _both(kind: ChangeKind, rules: Rules, rest: Rule = other) -> _Of:
    told = kind, Severity.NOTICE
    return _Of(_whole(told, told), _keys(rules), rest)


def _to_pods(path: tuple[str, ...]) -> Rules:
    """Return the rules for what is on the way to the pod, and in the end for the pod's template."""
    if not path:
        return {"metadata": _pod_metadata, "spec": pod}
    return {path[0]: _to_pods(path[1:]), "metadata": metadata}


_UNKNOWN: Final = _Of(_whole((ChangeKind.OTHER, Severity.WARNING), (ChangeKind.OTHER, Severity.WARNING)))
_AGGREGATION: Final = row(  # which roles only the cluster knows
    ChangeKind.RULE_WIDENED,
    Severity.DANGER,
    "takes its rules from other roles; the program cannot tell what it permits",
)
_ROLE: Final = _Of(
    permissions.role,
    lambda _pair, room: {"rules": partial(permissions.rules, room=room), "aggregationRule": _AGGREGATION},
)
_BINDING: Final = _Of(rights.binding, lambda pair, _room: rights.binding_rules(pair))
_TABLE: Final[Mapping[Kind, _Of]] = {
    ("", "Namespace"): _Of(_whole((ChangeKind.OTHER, Severity.WARNING), (ChangeKind.OTHER, Severity.DANGER))),
    ("", "Service"): _both(ChangeKind.SERVICE, {"spec": _service}),
    ("", "ServiceAccount"): _both(ChangeKind.SERVICE_ACCOUNT, {}, row(ChangeKind.SERVICE_ACCOUNT)),
    ("", "ResourceQuota"): _both(ChangeKind.QUOTA, {}, partial(leaves, kind=ChangeKind.QUOTA)),
    ("", "LimitRange"): _both(ChangeKind.QUOTA, {}, partial(leaves, kind=ChangeKind.QUOTA)),
    ("scheduling.k8s.io", "PriorityClass"): _both(
        ChangeKind.PRIORITY_CLASS, {}, partial(leaves, kind=ChangeKind.PRIORITY_CLASS)
    ),
    **{kind: _Of(workload, _keys(_to_pods(path))) for kind, path in TEMPLATES.items()},
    ("rbac.authorization.k8s.io", "ClusterRole"): _ROLE,
    ("rbac.authorization.k8s.io", "Role"): _ROLE,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("networking.k8s.io", "NetworkPolicy"): _Of(
        _whole(
            (
                ChangeKind.NETWORK_POLICY_ADDED,
                Severity.WARNING,
                "the pods that it selects accept only the traffic that it allows",
            ),
            (
                ChangeKind.NETWORK_POLICY_REMOVED,
                Severity.DANGER,
                "pods that no other policy selects accept all traffic, other pods lose what it allowed",
            ),
        ),
        lambda _pair, room: {"spec": partial(network.policy, room=room)},
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _Of(
        _whole((ChangeKind.CRD_ADDED, Severity.NOTICE), (ChangeKind.CRD_REMOVED, Severity.DANGER)),
        _keys({"spec": CRD_SPEC}),
    ),
}
