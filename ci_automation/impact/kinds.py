"""Which rules compare an object of which kind, and what is said of one that has come or gone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ci_automation.impact import network, rbac
from ci_automation.impact.change import ChangeKind, Severity
from ci_automation.impact.crd import crd_changes
from ci_automation.impact.labels import metadata
from ci_automation.impact.permissions import API_GROUP
from ci_automation.impact.services import account, service
from ci_automation.impact.values import MISSING, Pair, at, by_key, canonical, leaves, mapping, other
from ci_automation.impact.workload import WORKLOADS, workload_added, workload_removed, workload_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ci_automation.impact.change import Change
    from ci_automation.impact.permissions import Room

    Rule = Callable[[Pair], Iterator[Change]]
    Kind = tuple[str, str]  # API group, kind

CRD: Final = ("apiextensions.k8s.io", "CustomResourceDefinition")
_POLICY: Final = ("networking.k8s.io", "NetworkPolicy")
_ACCOUNT: Final = ("", "ServiceAccount")
_SERVICE: Final = ("", "Service")
_ROLES: Final = [(API_GROUP, kind) for kind in sorted(rbac.ROLES)]
_BINDINGS: Final = [(API_GROUP, kind) for kind in sorted(rbac.BINDINGS)]
_LEAVES: Final[Mapping[Kind, ChangeKind]] = {
    ("", "ResourceQuota"): ChangeKind.QUOTA,
    ("", "LimitRange"): ChangeKind.QUOTA,
    ("scheduling.k8s.io", "PriorityClass"): ChangeKind.PRIORITY_CLASS,
}
_RULES: Final[Mapping[Kind, Mapping[str, Rule]]] = {
    **{kind: workload_rules(kind) for kind in WORKLOADS},
    _SERVICE: {"spec": service},
}
# What concerns the keys that no rule has; of other kinds they are `other`.
_REST: Final[Mapping[Kind, Rule]] = {
    _ACCOUNT: account,
    **{kind: partial(leaves, kind=of) for kind, of in _LEAVES.items()},
}


def changed(pair: Pair, room: Room) -> Iterator[Change]:
    """Yield the changes of an object that is there before and after; `room` is for what permits something."""
    kind = (pair.id.group, pair.id.kind)
    if kind == CRD:
        yield from by_key(_metadata(pair), {"metadata": metadata})
        yield from crd_changes(pair.id, pair.old, pair.new)
        return
    rules = _RULES.get(kind, {})
    if kind in _BINDINGS:
        rules = rbac.binding_rules(mapping(at(pair.new, "roleRef")))
    elif kind in _ROLES:
        rules = {"rules": partial(rbac.rules, room=room), "aggregationRule": rbac.aggregation}
    elif kind == _POLICY:
        rules = {"spec": partial(network.policy, room=room)}
    rest = _REST.get(kind, other)
    yield from by_key(pair, {"apiVersion": other, **rules, "metadata": metadata}, rest)


def _metadata(pair: Pair) -> Pair:
    old, new = ({key: it["metadata"] for key in ("metadata",) if key in it} for it in (pair.old, pair.new))
    return Pair(pair.id, old, new)


def added(pair: Pair, room: Room) -> Iterator[Change]:
    """Yield that an object is there now."""
    kind = (pair.id.group, pair.id.kind)
    yield from rbac.role_added(pair, room) if kind in _ROLES else _ADDED.get(kind, _unknown)(pair)


def removed(pair: Pair, room: Room) -> Iterator[Change]:
    """Yield that an object is not there any more."""
    kind = (pair.id.group, pair.id.kind)
    yield from rbac.role_removed(pair, room) if kind in _ROLES else _REMOVED.get(kind, _unknown)(pair)


def _come_or_gone(pair: Pair, kind: ChangeKind, severity: Severity) -> Iterator[Change]:
    """Yield a change that is known by all of the object, and shows nothing of it."""
    said, value = ("is gone", pair.old) if pair.new is MISSING else ("is new", pair.new)
    yield Pair(pair.id, "", "").change(kind, severity, said, said, canonical(value))


_unknown = partial(_come_or_gone, kind=ChangeKind.OTHER, severity=Severity.WARNING)
_OF_BOTH: Final[Mapping[Kind, Rule]] = {
    _SERVICE: partial(_come_or_gone, kind=ChangeKind.SERVICE, severity=Severity.NOTICE),
    _ACCOUNT: partial(_come_or_gone, kind=ChangeKind.SERVICE_ACCOUNT, severity=Severity.NOTICE),
    **{kind: partial(_come_or_gone, kind=of, severity=Severity.NOTICE) for kind, of in _LEAVES.items()},
}
_ADDED: Final[Mapping[Kind, Rule]] = {
    **_OF_BOTH,
    **dict.fromkeys(WORKLOADS, workload_added),
    **dict.fromkeys(_BINDINGS, rbac.binding_added),
    _POLICY: network.policy_added,
    CRD: partial(_come_or_gone, kind=ChangeKind.CRD_ADDED, severity=Severity.NOTICE),
}
_REMOVED: Final[Mapping[Kind, Rule]] = {
    **_OF_BOTH,
    **dict.fromkeys(WORKLOADS, workload_removed),
    **dict.fromkeys(_BINDINGS, rbac.binding_removed),
    _POLICY: network.policy_removed,
    CRD: partial(_come_or_gone, kind=ChangeKind.CRD_REMOVED, severity=Severity.DANGER),
    ("", "Namespace"): partial(_come_or_gone, kind=ChangeKind.OTHER, severity=Severity.DANGER),
}
