"""Changes of Deployments and other objects that run pods."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ci_automation.impact.change import ChangeKind, Severity
from ci_automation.impact.container import arguments, command, environment, environment_sources, image
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
    row,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.impact.change import Change
    from ci_automation.impact.values import Rule

    Kind = tuple[str, str]  # API group, kind

# The keys on the way to the template of the pod, in the objects of each kind.
TEMPLATES: Final[Mapping[Kind, tuple[str, ...]]] = {
    **{("apps", kind): ("spec", "template") for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")},
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("", "Pod"): (),
}


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
    for key in (*TEMPLATES[kind], "spec"):
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
    **dict.fromkeys(_PROBES, row(ChangeKind.PROBE)),
}
_POD_RULES: Final[Mapping[str, Rule]] = {
    **POD,
    "volumes": _volumes,
    "serviceAccountName": row(ChangeKind.SERVICE_ACCOUNT, Severity.WARNING),
    "serviceAccount": row(ChangeKind.SERVICE_ACCOUNT, Severity.WARNING),
    "automountServiceAccountToken": row(ChangeKind.SERVICE_ACCOUNT),
    "priorityClassName": row(ChangeKind.PRIORITY_CLASS),
    "priority": row(ChangeKind.PRIORITY_CLASS),
    "resources": partial(leaves, kind=ChangeKind.RESOURCES),
}
