"""Changes of what pods and containers may do to their machine (Pod Security Standards)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ci_automation.impact.change import ChangeKind, Severity
from ci_automation.impact.values import MISSING, Pair, by_key, gained, items, listed, mapping, sides, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ci_automation.impact.change import Change

POD_SECURITY = "pod-security.kubernetes.io/"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_LEVELS = ("privileged", "baseline", "restricted")
# What is safer, of two values of one field; a field that is not there has the value that Kubernetes gives it.
_SAFE: Final[Mapping[str, tuple[object, object]]] = {  # the safe value, the value of a field that is not there
    "allowPrivilegeEscalation": (False, True),
    "readOnlyRootFilesystem": (True, False),
    "runAsNonRoot": (True, False),
}
_PROFILES = frozenset({"RuntimeDefault", "Localhost"})
_UNCONFINED = "unconfined"
# What a container has from its pod where it says nothing itself (`determineEffectiveSecurityContext` of the kubelet).
_INHERITED = frozenset(
    {"appArmorProfile", "runAsGroup", "runAsNonRoot", "runAsUser", "seLinuxOptions", "seccompProfile"}
)
_HOST = ("hostNetwork", "hostPID", "hostIPC")
_SAME = "has {} written in another way, which means the same"
_UNTOLD = "; check whether that is safer"


def context(pair: Pair) -> Iterator[Change]:
    """Yield the changes of the `securityContext` of a pod."""
    for side, key in sides(pair):
        yield from _field(side, key)


def container_context(pair: Pair, of_pod: Pair) -> Iterator[Change]:
    """Yield the changes of the `securityContext` of a container, by what it comes to with that of its pod."""
    for side, key in sides(pair):
        whole = of_pod.at(key)
        old, new = (
            of if value is MISSING or value is None else value
            for value, of in ((side.old, whole.old), (side.new, whole.new))
        )
        effective = Pair(pair.id, old, new, side.path)
        if key not in _INHERITED:
            yield from _field(side, key)
        elif effective.differs:
            yield from _field(effective, key)
        else:
            yield side.change(ChangeKind.OTHER, Severity.INFO, _SAME.format(side.path))


def _field(side: Pair, key: str) -> Iterator[Change]:
    if key == "capabilities":
        yield from _capabilities(side)
    elif key == "privileged":
        yield from _switch(side, ChangeKind.HOST_ACCESS_ADDED, ChangeKind.HOST_ACCESS_REMOVED)
    elif key in _SAFE:
        yield _safer(side, key)
    elif key in {"seccompProfile", "appArmorProfile"}:
        yield _profile(side, key)
    elif key in {"runAsUser", "runAsGroup"}:
        yield _user(side)
    else:
        yield _untold(side)


def _safer(pair: Pair, key: str) -> Change:
    safe, absent = _SAFE[key]
    old, new = (absent if value is MISSING or value is None else value for value in (pair.old, pair.new))
    if (old is safe) == (new is safe):
        return pair.change(ChangeKind.OTHER, Severity.INFO, _SAME.format(pair.path))
    return _moved(pair, raised=new is safe)


def _profile(pair: Pair, key: str) -> Change:
    old, new = (words(mapping(value).get("type")) for value in (pair.old, pair.new))
    if (old in _PROFILES) != (new in _PROFILES):
        return _moved(pair, raised=new in _PROFILES)
    return _confined(pair, old, new) if key == "appArmorProfile" else _untold(pair)


def app_armor(pair: Pair) -> Change:
    """Return the change of an annotation of a pod that gives the AppArmor profile of one of its containers."""
    return _confined(pair, words(pair.old), words(pair.new))


def _confined(pair: Pair, old: str, new: str) -> Change:
    """Return the change of an AppArmor profile; without one a container has that of the runtime."""
    was, now = (profile.lower() == _UNCONFINED for profile in (old, new))
    return _untold(pair) if was == now else _moved(pair, raised=was)


def _untold(pair: Pair) -> Change:
    return pair.change(ChangeKind.SECURITY_LOWERED, Severity.NOTICE, f"changes {pair.path}{_UNTOLD}")


def _user(pair: Pair) -> Change:
    if pair.new == 0:
        return _moved(pair, raised=False)
    if pair.old == 0 and isinstance(pair.new, int):
        return _moved(pair, raised=True)
    return _untold(pair)


def _moved(pair: Pair, *, raised: bool) -> Change:
    if raised:
        return pair.change(ChangeKind.SECURITY_RAISED, Severity.NOTICE, f"is restricted more: {pair.path}")
    return pair.change(ChangeKind.SECURITY_LOWERED, Severity.DANGER, f"is restricted less: {pair.path}")


def _capabilities(pair: Pair) -> Iterator[Change]:
    old_add, new_add = _names(pair.old, "add"), _names(pair.new, "add")
    old_drop, new_drop = _names(pair.old, "drop"), _names(pair.new, "drop")
    if more := [*gained(old_add, new_add), *(f"not dropped: {name}" for name in gained(new_drop, old_drop))]:
        yield pair.change(ChangeKind.CAPABILITY_ADDED, Severity.DANGER, f"gains capabilities: {listed(more)}")
    if less := [*gained(new_add, old_add), *(f"dropped: {name}" for name in gained(old_drop, new_drop))]:
        yield pair.change(ChangeKind.CAPABILITY_REMOVED, Severity.NOTICE, f"loses capabilities: {listed(less)}")
    if not more and not less:
        yield pair.change(ChangeKind.OTHER, Severity.INFO, "has its capabilities written in another way")


def _names(capabilities: Any, key: str) -> list[str]:  # noqa: ANN401 - a value of YAML
    return [words(item) for item in items(mapping(capabilities).get(key))]


def _switch(pair: Pair, on: ChangeKind, off: ChangeKind) -> Iterator[Change]:
    old, new = pair.old is True, pair.new is True
    if old == new:
        yield pair.change(ChangeKind.OTHER, Severity.INFO, _SAME.format(pair.path))
    elif new:
        yield pair.change(on, Severity.DANGER, f"sets {pair.path}")
    else:
        yield pair.change(off, Severity.NOTICE, f"no longer sets {pair.path}")


def host(pair: Pair) -> Iterator[Change]:
    """Yield that a pod shares a namespace of its machine now, or no longer."""
    yield from _switch(pair, ChangeKind.HOST_ACCESS_ADDED, ChangeKind.HOST_ACCESS_REMOVED)


def host_users(pair: Pair) -> Iterator[Change]:
    """Yield that a pod got or lost a user namespace of its own, which `hostUsers: false` gives."""
    yield from _switch(
        Pair(pair.id, pair.old is not False, pair.new is not False, pair.path),
        ChangeKind.HOST_ACCESS_ADDED,
        ChangeKind.HOST_ACCESS_REMOVED,
    )


def shared_processes(pair: Pair) -> Iterator[Change]:
    """Yield that the containers of a pod see each other's processes now, or no longer."""
    yield from _switch(pair, ChangeKind.SECURITY_LOWERED, ChangeKind.SECURITY_RAISED)


def host_path(pair: Pair) -> Iterator[Change]:
    """Yield that a volume is a folder of the machine now, or no longer; any other difference is for others."""
    old, new = (mapping(value).get("hostPath", MISSING) for value in (pair.old, pair.new))
    side = Pair(pair.id, old, new, f"{pair.path}.hostPath")
    if not side.differs:
        return
    if new is not MISSING:
        yield side.change(ChangeKind.HOST_ACCESS_ADDED, Severity.DANGER, f"mounts {_folder(new)} of its node")
    else:
        yield side.change(
            ChangeKind.HOST_ACCESS_REMOVED, Severity.NOTICE, f"no longer mounts {_folder(old)} of its node"
        )


def _folder(value: Any) -> str:  # noqa: ANN401 - a value of YAML
    return words(mapping(value).get("path")) or "folder"


def host_port(pair: Pair) -> Iterator[Change]:
    """Yield that a container listens on a port of the machine now, or no longer."""
    side = pair.at("hostPort")
    if side.differs:
        yield _listens(side)


def host_ports(pair: Pair) -> Iterator[Change]:
    """Yield what `host_port` does, of lists of ports that cannot be told apart."""
    old, new = ([found for it in items(value) if (found := _on_host(it))] for value in (pair.old, pair.new))
    for port in gained(new, old):
        yield _listens(Pair(pair.id, port, MISSING, f"{pair.path}.hostPort"))
    for port in gained(old, new):
        yield _listens(Pair(pair.id, MISSING, port, f"{pair.path}.hostPort"))


def _on_host(port: Any) -> str:  # noqa: ANN401 - a value of YAML
    port = mapping(port)
    return f"{words(port['hostPort'])}/{words(port.get('protocol')) or 'TCP'}" if port.get("hostPort") else ""


def _listens(side: Pair) -> Change:
    if side.new is MISSING:
        said = f"no longer listens on port {words(side.old)} of its node"
        return side.change(ChangeKind.HOST_ACCESS_REMOVED, Severity.NOTICE, said)
    said = f"listens on port {words(side.new)} of its node"
    return side.change(ChangeKind.HOST_ACCESS_ADDED, Severity.DANGER, said)


def pod_security(pair: Pair) -> Iterator[Change]:
    """Yield that a namespace holds its pods tighter or less tight, by its labels `pod-security.kubernetes.io/...`."""
    mode = pair.path.rpartition("/")[2]
    old, new = (_LEVELS.index(value) if value in _LEVELS else -1 for value in (pair.old, pair.new))
    if mode not in {"enforce", "warn", "audit"}:
        yield _untold(pair)
    elif max(new, 0) > max(old, 0):
        yield pair.change(
            ChangeKind.SECURITY_RAISED, Severity.NOTICE, f"restricts its pods more: {mode} {words(pair.new)}"
        )
    elif max(new, 0) < max(old, 0):
        severity = Severity.DANGER if mode == "enforce" else Severity.WARNING
        yield pair.change(ChangeKind.SECURITY_LOWERED, severity, f"restricts its pods less: {mode}")
    else:
        yield _untold(pair)


POD: Final[Mapping[str, Callable[[Pair], Iterator[Change]]]] = {
    "securityContext": context,
    "hostUsers": host_users,
    "shareProcessNamespace": shared_processes,
    **dict.fromkeys(_HOST, host),
}


def unheld(pair: Pair) -> Iterator[Change]:
    """Yield what a pod that is new may do to its machine."""
    for change in by_key(pair, {"securityContext": context, **POD}):
        if change.kind in {ChangeKind.HOST_ACCESS_ADDED, ChangeKind.CAPABILITY_ADDED}:
            yield change
