"""Changes of what runs in pods: Deployments and the like, their containers, and what these are given."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ci_automation.impact.arguments import arguments, command, environment, environment_sources
from ci_automation.impact.change import ChangeKind, Severity
from ci_automation.impact.images import image
from ci_automation.impact.labels import metadata, pod_metadata
from ci_automation.impact.security import (
    POD,
    container_context,
    host_path,
    host_port,
    host_ports,
    unheld,
)
from ci_automation.impact.values import (
    MISSING,
    Pair,
    aligned,
    at,
    by_key,
    canonical,
    items,
    leaves,
    listed,
    mapping,
    other,
    reordered,
    said,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ci_automation.impact.change import Change

    Rule = Callable[[Pair], Iterator[Change]]
    Kind = tuple[str, str]  # API group, kind

# Where the template of the pod is in the objects of each kind.
_TEMPLATE: Final[Mapping[Kind, tuple[str, ...]]] = {
    **{("apps", kind): ("spec", "template") for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")},
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("", "Pod"): (),
}
WORKLOADS = frozenset(_TEMPLATE)


def workload_rules(kind: Kind) -> Mapping[str, Rule]:
    """Return the rules for the keys of a kind that has pods."""
    return _rules_on(_TEMPLATE[kind])


def _rules_on(path: tuple[str, ...]) -> Mapping[str, Rule]:
    """Return the rules for what is on the way to the pod, and in the end for the pod's template."""
    if not path:
        return {"metadata": pod_metadata, "spec": pod}
    return {path[0]: lambda side: by_key(side, _rules_on(path[1:])), "metadata": metadata}


def workload_added(pair: Pair) -> Iterator[Change]:
    """Yield that a workload is there now, the images that it runs, and what it may do to its machine."""
    spec = _pod_of(pair.new, (pair.id.group, pair.id.kind))
    runs = listed(words(at(container, "image")) for name in _CONTAINERS for container in items(spec.get(name)))
    here = Pair(pair.id, "", "")
    yield here.change(
        ChangeKind.WORKLOAD_ADDED, Severity.WARNING, f"is new: it runs {runs or 'nothing'}", canonical(pair.new)
    )
    yield from unheld(Pair(pair.id, {}, spec, "spec"))
    for name in _CONTAINERS:
        for side in aligned(Pair(pair.id, MISSING, spec.get(name, MISSING), name), name) or ():
            yield from unheld(Pair(pair.id, {}, side.new, side.path))
            yield from _host_ports(Pair(pair.id, MISSING, at(side.new, "ports"), f"{side.path}.ports"))
    yield from _host_paths(Pair(pair.id, MISSING, spec.get("volumes", MISSING), "volumes"))


def workload_removed(pair: Pair) -> Iterator[Change]:
    """Yield that a workload is not there any more."""
    yield Pair(pair.id, "", "").change(ChangeKind.WORKLOAD_REMOVED, Severity.DANGER, "is gone", canonical(pair.old))


def _pod_of(value: Any, kind: Kind) -> dict[str, Any]:  # noqa: ANN401 - a value of YAML
    for key in (*_TEMPLATE[kind], "spec"):
        value = at(value, key)
    return mapping(value)


def pod(pair: Pair) -> Iterator[Change]:
    """Yield the changes of a pod's `spec`."""
    containers = partial(_containers, of_pod=pair.at("securityContext"))
    yield from by_key(pair, {**_POD_RULES, **dict.fromkeys(_CONTAINERS, containers)})


def _containers(pair: Pair, of_pod: Pair) -> Iterator[Change]:
    name = pair.path.rpartition(".")[2]
    pairs = aligned(pair, name)
    for side in pairs or ():
        which = words(at(side.old if side.new is MISSING else side.new, "name"))
        if side.old is MISSING:
            text = f"runs another container, {which}: {words(at(side.new, 'image'))}"
            yield side.change(ChangeKind.WORKLOAD_ADDED, Severity.WARNING, text)
            yield from unheld(Pair(side.id, {}, side.new, side.path))
            yield from _host_ports(side.at("ports"))
        elif side.new is MISSING:
            text = f"runs the container {which} no more"
            yield side.change(ChangeKind.WORKLOAD_REMOVED, Severity.WARNING, text)
        elif side.differs:
            held = partial(container_context, of_pod=of_pod)
            yield from by_key(side, {**_CONTAINER_RULES, "securityContext": held})
    if pairs is None:
        yield from other(pair)
    elif reordered(pair, name):
        yield pair.change(ChangeKind.OTHER, Severity.INFO, f"has its {name} in another order")


def _ports(pair: Pair) -> Iterator[Change]:
    yield from _host_ports(pair)
    yield from _rest(pair, "hostPort")


def _host_ports(pair: Pair) -> Iterator[Change]:
    pairs = aligned(pair, "ports")
    if pairs is None:
        yield from host_ports(pair)
    for side in pairs or ():
        yield from host_port(side)


def _volumes(pair: Pair) -> Iterator[Change]:
    yield from _host_paths(pair)
    yield from _rest(pair, "hostPath")


def _host_paths(pair: Pair) -> Iterator[Change]:
    for side in aligned(pair, "volumes") or ():
        yield from host_path(side)


def _rest(pair: Pair, key: str) -> Iterator[Change]:
    """Yield what differs in the items of a list beside one key."""
    rest = Pair(pair.id, _without(pair.old, key), _without(pair.new, key), pair.path)
    if rest.differs:
        yield from other(rest)


def _without(values: Any, key: str) -> Any:  # noqa: ANN401 - values of YAML
    """Return a list without one key of its items."""
    if not isinstance(values, list):
        return values
    return [{name: it[name] for name in it if name != key} if isinstance(it, dict) else it for it in values]


def _of(kind: ChangeKind, severity: Severity = Severity.NOTICE) -> Rule:
    def rule(pair: Pair) -> Iterator[Change]:
        yield pair.change(kind, severity, said(pair))

    return rule


_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_CONTAINER_RULES: Final[Mapping[str, Rule]] = {
    "image": image,
    "args": arguments,
    "command": command,
    "env": environment,
    "envFrom": environment_sources,
    "ports": _ports,
    "resources": partial(leaves, kind=ChangeKind.RESOURCES),
    **dict.fromkeys(_PROBES, _of(ChangeKind.PROBE)),
}
_POD_RULES: Final[Mapping[str, Rule]] = {
    **POD,
    "volumes": _volumes,
    "serviceAccountName": _of(ChangeKind.SERVICE_ACCOUNT, Severity.WARNING),
    "serviceAccount": _of(ChangeKind.SERVICE_ACCOUNT, Severity.WARNING),
    "automountServiceAccountToken": _of(ChangeKind.SERVICE_ACCOUNT),
    "priorityClassName": _of(ChangeKind.PRIORITY_CLASS),
    "priority": _of(ChangeKind.PRIORITY_CLASS),
    "resources": partial(leaves, kind=ChangeKind.RESOURCES),
}
