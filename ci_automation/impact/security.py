"""Changes of what pods and containers may do to their machine (Pod Security Standards)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ci_automation.impact.change import ChangeKind, Severity
from ci_automation.impact.values import MISSING, Pair, aligned, gained, items, listed, mapping, sides, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_automation.impact.change import Change
    from ci_automation.impact.values import Rule

POD_SECURITY = "pod-security.kubernetes.io/"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_LEVELS = ("privileged", "baseline", "restricted")
_PROFILES = frozenset({"RuntimeDefault", "Localhost"})
_UNCONFINED = "unconfined"
# What a container has from its pod where it says nothing itself (`determineEffectiveSecurityContext` of the kubelet).
_INHERITED = frozenset(
    {"appArmorProfile", "runAsGroup", "runAsNonRoot", "runAsUser", "seLinuxOptions", "seccompProfile"}
)
_SAME = "has {} written in another way, which means the same"
_UNTOLD = "; check whether that is safer"


class _Row(Struct, frozen=True):
    """The kinds of change where something is opened and where it is closed, with the sentences; {} is what it is."""

    opened: ChangeKind
    closed: ChangeKind
    opens: str
    closes: str

    def change(self, pair: Pair, what: str = "", *, opened: bool, severity: Severity = Severity.DANGER) -> Change:
        """Return the change of a pair; `severity` is that of opening."""
        said = (self.opens if opened else self.closes).format(what or pair.path)
        return pair.change(self.opened if opened else self.closed, severity if opened else Severity.NOTICE, said)


_HOST_KINDS = (ChangeKind.HOST_ACCESS_ADDED, ChangeKind.HOST_ACCESS_REMOVED)
_SECURITY_KINDS = (ChangeKind.SECURITY_LOWERED, ChangeKind.SECURITY_RAISED)
_ON_HOST = _Row(*_HOST_KINDS, "sets {}", "no longer sets {}")
_FOLDER = _Row(*_HOST_KINDS, "mounts {} of its node", "no longer mounts {} of its node")
_PORT = _Row(*_HOST_KINDS, "listens on port {} of its node", "no longer listens on port {} of its node")
_SHARED = _Row(*_SECURITY_KINDS, "sets {}", "no longer sets {}")
_HELD = _Row(*_SECURITY_KINDS, "is restricted less: {}", "is restricted more: {}")
_NAMESPACE = _Row(*_SECURITY_KINDS, "restricts its pods less: {}", "restricts its pods more: {}")


def context(pair: Pair) -> Iterator[Change]:
    """Yield the changes of the `securityContext` of a pod."""
    for side, key in sides(pair):
        yield from _FIELDS.get(key, _rest)(side)


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
            yield from _FIELDS.get(key, _rest)(side)
        elif effective.differs:
            yield from _FIELDS.get(key, _rest)(effective)
        else:
            yield side.change(ChangeKind.OTHER, Severity.INFO, _SAME.format(side.path))


def _rest(side: Pair) -> Iterator[Change]:
    yield _untold(side)


def _safer(pair: Pair, safe: object, absent: object) -> Iterator[Change]:
    """Yield whether a field has its safe value now; one that is not there has the value `absent`."""
    old, new = (absent if value is MISSING or value is None else value for value in (pair.old, pair.new))
    if (old is safe) == (new is safe):
        yield pair.change(ChangeKind.OTHER, Severity.INFO, _SAME.format(pair.path))
    else:
        yield _HELD.change(pair, opened=new is not safe)


def _profile(pair: Pair, *, app_armor: bool) -> Iterator[Change]:
    old, new = (words(mapping(value).get("type")) for value in (pair.old, pair.new))
    if (old in _PROFILES) != (new in _PROFILES):
        yield _HELD.change(pair, opened=old in _PROFILES)
    else:
        yield _confined(pair, old, new) if app_armor else _untold(pair)


def app_armor(pair: Pair) -> Change:
    """Return the change of an annotation of a pod that gives the AppArmor profile of one of its containers."""
    return _confined(pair, words(pair.old), words(pair.new))


def _confined(pair: Pair, old: str, new: str) -> Change:
    """Return the change of an AppArmor profile; without one a container has that of the runtime."""
    was, now = (profile.lower() == _UNCONFINED for profile in (old, new))
    return _untold(pair) if was == now else _HELD.change(pair, opened=now)


def _untold(pair: Pair) -> Change:
    return pair.change(ChangeKind.SECURITY_LOWERED, Severity.NOTICE, f"changes {pair.path}{_UNTOLD}")


def _user(pair: Pair) -> Iterator[Change]:
    if pair.new == 0 or (pair.old == 0 and isinstance(pair.new, int)):
        yield _HELD.change(pair, opened=pair.new == 0)
    else:
        yield _untold(pair)


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


def _switch(pair: Pair, row: _Row = _ON_HOST, *, closed_by: bool = False) -> Iterator[Change]:
    """Yield that a field opens something now, or no longer: by true, or by anything but false if that closes it."""
    old, new = (value is not False if closed_by else value is True for value in (pair.old, pair.new))
    side = Pair(pair.id, old, new, pair.path) if closed_by else pair
    if old == new:
        yield side.change(ChangeKind.OTHER, Severity.INFO, _SAME.format(side.path))
    else:
        yield row.change(side, opened=new)


def host_paths(pair: Pair) -> Iterator[Change]:
    """Yield the volumes that are folders of the machine now, or no longer; any other difference is for others."""
    for volume in aligned(pair, "volumes") or ():
        old, new = (mapping(value).get("hostPath", MISSING) for value in (volume.old, volume.new))
        side = Pair(pair.id, old, new, f"{volume.path}.hostPath")
        if side.differs:
            of = mapping(old if new is MISSING else new)
            yield _FOLDER.change(side, words(of.get("path")) or "folder", opened=new is not MISSING)


def host_ports(pair: Pair) -> Iterator[Change]:
    """Yield the ports of the machine that a container listens on now, or no longer."""
    if (ports := aligned(pair, "ports")) is not None:
        found = [port.at("hostPort") for port in ports]
    else:  # they cannot be told apart
        old, new = (list(filter(None, map(_on_host, items(value)))) for value in (pair.old, pair.new))
        path = f"{pair.path}.hostPort"
        found = [Pair(pair.id, port, MISSING, path) for port in gained(new, old)]
        found += [Pair(pair.id, MISSING, port, path) for port in gained(old, new)]
    for side in found:
        if side.differs:
            port = words(side.old if side.new is MISSING else side.new)
            yield _PORT.change(side, port, opened=side.new is not MISSING)


def _on_host(port: Any) -> str:  # noqa: ANN401 - a value of YAML
    port = mapping(port)
    return f"{words(port['hostPort'])}/{words(port.get('protocol')) or 'TCP'}" if port.get("hostPort") else ""


def pod_security(pair: Pair) -> Iterator[Change]:
    """Yield that a namespace holds its pods tighter or less tight, by its labels `pod-security.kubernetes.io/...`."""
    mode = pair.path.rpartition("/")[2]
    old, new = (_LEVELS.index(value) if value in _LEVELS else -1 for value in (pair.old, pair.new))
    if mode not in {"enforce", "warn", "audit"}:
        yield _untold(pair)
    elif max(new, 0) > max(old, 0):
        yield _NAMESPACE.change(pair, f"{mode} {words(pair.new)}", opened=False)
    elif max(new, 0) < max(old, 0):
        severity = Severity.DANGER if mode == "enforce" else Severity.WARNING
        yield _NAMESPACE.change(pair, mode, opened=True, severity=severity)
    else:
        yield _untold(pair)


_FIELDS: Final[Mapping[str, Rule]] = {
    "capabilities": _capabilities,
    "privileged": _switch,
    # The safe value, and the one that Kubernetes gives a field that is not there.
    "allowPrivilegeEscalation": partial(_safer, safe=False, absent=True),
    "readOnlyRootFilesystem": partial(_safer, safe=True, absent=False),
    "runAsNonRoot": partial(_safer, safe=True, absent=False),
    "seccompProfile": partial(_profile, app_armor=False),
    "appArmorProfile": partial(_profile, app_armor=True),
    "runAsUser": _user,
    "runAsGroup": _user,
}
POD: Final[Mapping[str, Rule]] = {
    "securityContext": context,
    "hostUsers": partial(_switch, closed_by=True),  # `hostUsers: false` gives a pod a user namespace of its own
    "shareProcessNamespace": partial(_switch, row=_SHARED),
    **dict.fromkeys(("hostNetwork", "hostPID", "hostIPC"), _switch),
}


def opening(changes: Iterable[Change]) -> Iterator[Change]:
    """Yield the changes by which what is new may do more to its machine."""
    return (each for each in changes if each.kind in {ChangeKind.HOST_ACCESS_ADDED, ChangeKind.CAPABILITY_ADDED})
