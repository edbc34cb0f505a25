"""Changes of Deployments and other objects that run pods, and of the containers in them."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ci_automation.impact.change import ChangeKind, Severity
from ci_automation.impact.security import POD, container_context, context, host_paths, host_ports, opening
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
    shown,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.impact.change import Change
    from ci_automation.impact.permissions import Room
    from ci_automation.impact.values import Rule

    Kind = tuple[str, str]  # API group, kind

_GATES = "--feature-gates"
# Flags of Flux's controllers that open or close what tenants can reach (fluxcd.io, multi-tenancy lockdown).
_LOCKS = ("--no-cross-namespace-refs", "--no-remote-bases", "--default-service-account", "--watch-all-namespaces")
# The keys on the way to the template of the pod, in the objects of each kind.
TEMPLATES: Final[Mapping[Kind, tuple[str, ...]]] = {
    **{("apps", kind): ("spec", "template") for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")},
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("", "Pod"): (),
}


def arguments(pair: Pair) -> Iterator[Change]:
    """Yield the flags that are new, gone or other, feature gates one by one, and another order of the same flags."""
    if not all(value is MISSING or isinstance(value, list) for value in (pair.old, pair.new)):
        yield pair.change(ChangeKind.ARGUMENT_CHANGED, Severity.WARNING, f"changes {pair.path}")
        return
    old, new = _flags(pair.old), _flags(pair.new)
    found = False
    for flag in dict.fromkeys((*old, *new)):
        if old.get(flag) != new.get(flag):
            found = True
            yield from (_gates if flag == _GATES else _flag)(pair, flag, old.get(flag), new.get(flag))
    if not found:
        yield pair.change(ChangeKind.ARGUMENT_CHANGED, Severity.INFO, f"has {pair.path} in another order")


def _flags(arguments: object) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for argument in map(words, items(arguments)):
        name, _, value = argument.partition("=") if argument.startswith("-") else (argument, "", "")
        found[name].append(value if "=" in argument else "")
    return dict(found)


def _flag(pair: Pair, flag: str, old: list[str] | None, new: list[str] | None) -> Iterator[Change]:
    name = shown(flag)
    severity = Severity.WARNING if flag in _LOCKS or "insecure" in flag else Severity.NOTICE
    before, after = (MISSING if values is None else ", ".join(values) for values in (old, new))
    side = Pair(pair.id, before, after, f"{pair.path}[{flag}]")
    parts = (canonical(old), canonical(new))
    if old is None:
        value = f"={shown(after)}" if after else ""
        yield side.change(ChangeKind.ARGUMENT_ADDED, severity, f"adds argument {name}{value}", *parts)
    elif new is None:
        yield side.change(ChangeKind.ARGUMENT_REMOVED, severity, f"removes argument {name}", *parts)
    else:
        was, now = side.shown
        said = f"changes argument {name} to {now} (was: {was})"
        yield side.change(ChangeKind.ARGUMENT_CHANGED, severity, said, *parts)


def _gates(pair: Pair, flag: str, old: list[str] | None, new: list[str] | None) -> Iterator[Change]:
    before, after = _states(old), _states(new)
    gates = [gate for gate in sorted(before.keys() | after.keys()) if before.get(gate) != after.get(gate)]
    for gate in gates:
        was, now = before.get(gate, MISSING), after.get(gate, MISSING)
        said = (
            f"removes feature gate {shown(gate)}"
            if now is MISSING
            else f"sets feature gate {shown(gate)} to {shown(now)}"
        )
        side = Pair(pair.id, was, now, f"{pair.path}[{flag}.{gate}]")
        yield side.change(ChangeKind.FEATURE_GATE, Severity.NOTICE, said)
    if not gates:
        said = "has its feature gates written in another way"
        side = Pair(pair.id, ",".join(old or []), ",".join(new or []), f"{pair.path}[{flag}]")
        yield side.change(ChangeKind.FEATURE_GATE, Severity.INFO, said, canonical(old), canonical(new))


def _states(values: list[str] | None) -> dict[str, str]:
    pairs = (part.partition("=") for value in values or () for part in value.split(",") if part)
    return {gate: state for gate, _, state in pairs}


def environment(pair: Pair) -> Iterator[Change]:
    """Yield the variables that are new, gone or other, and another order of the same."""
    pairs = aligned(pair, "env")
    for side in pairs or ():
        if side.differs:
            name = words(at(side.old if side.new is MISSING else side.new, "name"))
            verb = "adds" if side.old is MISSING else "removes" if side.new is MISSING else "changes"
            said = f"{verb} environment variable {shown(name)}"
            yield side.change(ChangeKind.ENVIRONMENT, Severity.NOTICE, said)
    if pairs is None:
        yield pair.change(ChangeKind.ENVIRONMENT, Severity.NOTICE, "changes its environment")
    elif reordered(pair, "env"):
        yield pair.change(ChangeKind.ENVIRONMENT, Severity.INFO, "has its environment in another order")


def _environment_sources(pair: Pair) -> Iterator[Change]:
    """Yield that a container takes variables from other ConfigMaps or Secrets."""
    names = [canonical(item) for item in items(pair.new)]
    yield pair.change(
        ChangeKind.ENVIRONMENT, Severity.NOTICE, f"takes variables from {listed(names) or 'nowhere else'}"
    )


class _Image(Struct, frozen=True):
    repository: str
    tag: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> _Image:
        """Return the parts of an image's name; no text is refused."""
        rest, _, digest = text.partition("@")
        folder, slash, last = rest.rpartition("/")
        name, _, tag = last.partition(":")
        return cls(f"{folder}{slash}{name}", tag, digest)


def image(pair: Pair) -> Iterator[Change]:
    """Yield that a container runs another image: from which to which, and what is odd about it."""
    old, new = _Image.parse(words(pair.old)), _Image.parse(words(pair.new))
    said = f"runs {shown(pair.new)} instead of {shown(pair.old)}"
    severity = Severity.INFO
    if old.repository != new.repository:
        severity = Severity.WARNING
        said += ", from another repository"
    elif old.digest and not new.digest:
        severity = Severity.NOTICE
        said += ", no longer pinned by digest"
    elif old.tag == new.tag:
        severity = Severity.NOTICE
        said += ", under the same tag"
    yield pair.change(ChangeKind.IMAGE, severity, said)


def workload(pair: Pair, _room: Room) -> Iterator[Change]:
    """Yield that a workload is gone, or is there now, the images that it runs, and what it may do to its machine."""
    if pair.new is MISSING:
        yield pair.whole(ChangeKind.WORKLOAD_REMOVED, Severity.DANGER, "is gone")
        return
    spec = _pod_of(pair.new, (pair.id.group, pair.id.kind))
    runs = listed(words(at(container, "image")) for name in _CONTAINERS for container in items(spec.get(name)))
    yield pair.whole(ChangeKind.WORKLOAD_ADDED, Severity.WARNING, f"is new: it runs {runs or 'nothing'}")
    yield from opening(pod(Pair(pair.id, {}, spec, "spec")))


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
            text = f"adds container {which}: {words(at(side.new, 'image'))}"
            yield side.change(ChangeKind.WORKLOAD_ADDED, Severity.WARNING, text)
            yield from opening(by_key(side, {**_CONTAINER_RULES, "securityContext": context}))
        elif side.new is MISSING:
            text = f"removes container {which}"
            yield side.change(ChangeKind.WORKLOAD_REMOVED, Severity.WARNING, text)
        elif side.differs:
            held = partial(container_context, of_pod=of_pod)
            yield from by_key(side, {**_CONTAINER_RULES, "securityContext": held})
    if pairs is None:
        yield from other(pair)
    elif reordered(pair, name):
        yield pair.change(ChangeKind.OTHER, Severity.INFO, f"has its {name} in another order")


def _beside(own: Rule, key: str) -> Rule:
    """Return the rule of a list whose items have a key that `own` tells of; what else differs is told as such."""

    def rule(pair: Pair) -> Iterator[Change]:
        yield from own(pair)
        rest = Pair(pair.id, _without(pair.old, key), _without(pair.new, key), pair.path)
        if rest.differs:
            yield from other(rest)

    return rule


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
    "command": row(
        ChangeKind.ARGUMENT_CHANGED,
        Severity.WARNING,
        "sets its command to {new}",
        gone="runs the command of its image",
    ),
    "env": environment,
    "envFrom": _environment_sources,
    "ports": _beside(host_ports, "hostPort"),
    "resources": partial(leaves, kind=ChangeKind.RESOURCES),
    **dict.fromkeys(_PROBES, row(ChangeKind.PROBE)),
}
_POD_RULES: Final[Mapping[str, Rule]] = {
    **POD,
    "volumes": _beside(host_paths, "hostPath"),
    "serviceAccountName": row(ChangeKind.SERVICE_ACCOUNT, Severity.WARNING),
    "serviceAccount": row(ChangeKind.SERVICE_ACCOUNT, Severity.WARNING),
    "automountServiceAccountToken": row(ChangeKind.SERVICE_ACCOUNT),
    "priorityClassName": row(ChangeKind.PRIORITY_CLASS),
    "priority": row(ChangeKind.PRIORITY_CLASS),
    "resources": partial(leaves, kind=ChangeKind.RESOURCES),
}
