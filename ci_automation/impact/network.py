"""Changes of NetworkPolicies, by the traffic that they allow (`networking.k8s.io/v1`).

A policy closes a direction for the pods that it selects, but for the traffic that it names; policies add up. Whether a
label selector takes more pods than another can be told only where it is one without, or with less, requirements: what
cannot be told counts as opened.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import product
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.impact.change import Change, ChangeKind, Severity
from ci_automation.impact.values import Pair, accounted, canonical, items, listed, mapping, other, row, sides, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.impact.permissions import Room

_MAX_FLOWS = 64  # Flux's own policies have 2
_DIRECTIONS = {"ingress": ("Ingress", "from"), "egress": ("Egress", "to")}
_UNTOLD = "; check whether that allows more"
_SELECTOR = row(ChangeKind.NETWORK_OPENED, Severity.WARNING, f"selects other pods{_UNTOLD}")


class _Untold(Exception):
    """A rule is none that can be looked into."""


class _TooMany(_Untold):
    """Rules let more through than one writes by hand."""


class _Peer(Struct, frozen=True):
    """The other side of traffic: all, an IP block, or pods in namespaces; a selector is its requirements."""

    everybody: bool = False
    block: str = ""
    excepted: frozenset[str] = frozenset()
    namespaces: frozenset[str] | None = None  # None is the policy's own
    pods: frozenset[str] = frozenset()

    def takes(self, it: _Peer) -> bool:
        """Return whether this one is sure to be all of another."""
        if self.everybody or self == it:
            return True
        if it.everybody or bool(self.block) != bool(it.block):
            return False
        if self.block:
            return _network_takes(self.block, it.block) and self.excepted <= it.excepted
        if self.namespaces is None or it.namespaces is None:
            within = self.namespaces in {it.namespaces, frozenset()}
        else:
            within = self.namespaces <= it.namespaces
        return within and self.pods <= it.pods

    @property
    def plain(self) -> bool:
        """Return whether nothing about it needs the cluster's labels or a look at address ranges."""
        return not self.block and not any("operator" in one for one in (self.namespaces or frozenset()) | self.pods)

    def __str__(self) -> str:
        if self.everybody:
            return "everywhere"
        if self.block:
            return f"{self.block}{' without ' + ', '.join(sorted(self.excepted)) if self.excepted else ''}"
        pods = f"pods with {', '.join(sorted(self.pods))}" if self.pods else "all pods"
        if self.namespaces is None:
            return f"{pods} of its namespace"
        named = ", ".join(sorted(self.namespaces))
        return f"{pods} of {f'namespaces with {named}' if named else 'all namespaces'}"


class _Port(Struct, frozen=True):
    """A port, or a range of them, of one protocol; `first` 0 is all of them, `name` is one that the pods give."""

    protocol: str = ""
    first: int = 0
    last: int = 0
    name: str = ""

    def takes(self, it: _Port) -> bool:
        """Return whether this one is sure to be all of another."""
        if not self.protocol or self == it:
            return True
        if self.protocol != it.protocol or self.name:
            return False
        return not self.first or (bool(it.first) and self.first <= it.first and it.last <= self.last)

    def __str__(self) -> str:
        if not self.protocol:
            return "any port"
        if self.name or not self.first:
            return f"{self.protocol} {self.name or 'on any port'}"
        return f"{self.protocol} {self.first}" + (f"-{self.last}" if self.last != self.first else "")


_Flow = tuple[_Peer, _Port]
_EVERYTHING: _Flow = (_Peer(everybody=True), _Port())


def policy(pair: Pair, room: Room) -> Iterator[Change]:
    """Yield how the `spec` of a policy opened or narrowed what it lets through."""
    changes: list[Change] = []
    for name in _DIRECTIONS:
        side = pair.at(name)
        types = pair.at("policyTypes")
        if side.differs or types.differs:
            changes += _direction(pair, name, room)
    for side, key in sides(pair):
        if key not in {*_DIRECTIONS, "policyTypes"}:
            changes += accounted(side, (_SELECTOR if key == "podSelector" else other)(side))
    if not changes:
        said = "is written differently; it allows the same"
        changes = [pair.change(ChangeKind.OTHER, Severity.INFO, said)]
    yield from changes


def _direction(pair: Pair, name: str, room: Room) -> Iterator[Change]:
    side = pair.at(name)
    try:
        old, new = _flows(pair.old, name), _flows(pair.new, name)
        if not room.has(2 * len(old) * len(new)):
            raise _TooMany
    except _Untold as problem:
        too_many = isinstance(problem, _TooMany)
        said = f"has other rules for {name}{_UNTOLD}{': they are too many to be told apart' if too_many else ''}"
        yield side.change(ChangeKind.NETWORK_OPENED, Severity.DANGER if too_many else Severity.WARNING, said)
        return
    begins = not _closes(pair.old, name) and _closes(pair.new, name)  # other policies may have closed it before
    more = [flow for flow in new if begins or not _covered(flow, old)]
    less = [flow for flow in old if not _covered(flow, new)]
    if more:
        sure = not begins and all(_told(flow, old) for flow in more)
        severity = Severity.DANGER if sure else Severity.WARNING
        said = f"allows more {name}: {_flows_in_words(more, name)}{'' if sure else _UNTOLD}"
        yield side.change(ChangeKind.NETWORK_OPENED, severity, said)
    if less:
        said = f"no longer allows {name} {_flows_in_words(less, name)}"
        if new and (begins or not more):
            said = _narrowed(less, new, name)
        yield side.change(ChangeKind.NETWORK_NARROWED, Severity.WARNING, said)


def _narrowed(less: list[_Flow], new: list[_Flow], name: str) -> str:
    """Return what is left of the traffic of a direction: its ports alone if they are all that differs."""
    if len({peer for peer, _ in (*less, *new)}) == 1:
        ports, before = (listed([str(port) for _, port in flows], 4) for flows in (new, less))
        return f"allows {name} on {ports} only (was: {before})"
    return f"allows {name} {_flows_in_words(new, name)} only (was: {_flows_in_words(less, name)})"


def _flows_in_words(flows: list[_Flow], name: str) -> str:
    word = _DIRECTIONS[name][1]
    found = [f"{word} {peer} on {port}" for peer, port in flows]
    return listed(found, 4)


def _covered(flow: _Flow, among: list[_Flow]) -> bool:
    peer, port = flow
    return any(it.takes(peer) and its.takes(port) for it, its in among)


def _told(flow: _Flow, old: list[_Flow]) -> bool:
    """Return whether a flow that no old one covers as a whole is sure to be more than all of them together."""
    peer, port = flow
    if any(peer.takes(it) and port.takes(its) for it, its in old) or not old:
        return True
    named = any(bool(its.name) != bool(port.name) for _, its in old)
    ranges = port.first != port.last or any(its.first != its.last for _, its in old)
    return peer.plain and all(it.plain for it, _ in old) and not named and not ranges


def _flows(spec: Any, name: str) -> list[_Flow]:  # noqa: ANN401 - a value of YAML
    """Return the traffic of one direction that a policy lets through: all where it does not close it."""
    if not _closes(spec, name):
        return [_EVERYTHING]
    word = _DIRECTIONS[name][1]
    found: list[_Flow] = []
    for rule in items(mapping(spec).get(name)):
        if not isinstance(rule, dict) or not rule.keys() <= {word, "ports"}:
            raise _Untold
        peers = [_peer(it) for it in items(rule.get(word))] or [_EVERYTHING[0]]
        ports = [_port(it) for it in items(rule.get("ports"))] or [_EVERYTHING[1]]
        if len(found) + len(peers) * len(ports) > _MAX_FLOWS:
            raise _TooMany
        found += product(peers, ports)
    return found


def _closes(spec: Any, name: str) -> bool:  # noqa: ANN401 - a value of YAML
    """Return whether a policy closes a direction: without types ingress, and egress where it has rules for it."""
    types, rules = (mapping(spec).get(key) for key in ("policyTypes", name))
    if not isinstance(types, list | None):
        raise _Untold
    return _DIRECTIONS[name][0] in types if types else name == "ingress" or bool(rules)


def _peer(value: Any) -> _Peer:  # noqa: ANN401 - a value of YAML
    value = {key: each for key, each in mapping(value).items() if each is not None}  # null is as good as nothing
    if block := mapping(value.get("ipBlock")):
        return _Peer(block=words(block.get("cidr")), excepted=frozenset(map(words, items(block.get("except")))))
    if not value or not value.keys() <= {"podSelector", "namespaceSelector"}:
        raise _Untold
    namespaces = _requirements(value["namespaceSelector"]) if "namespaceSelector" in value else None
    return _Peer(namespaces=namespaces, pods=_requirements(value.get("podSelector")))


def _requirements(selector: Any) -> frozenset[str]:  # noqa: ANN401 - a value of YAML
    selector = mapping(selector)
    labels = (f"{key}={words(value)}" for key, value in mapping(selector.get("matchLabels")).items())
    return frozenset((*labels, *map(canonical, items(selector.get("matchExpressions")))))


def _port(value: Any) -> _Port:  # noqa: ANN401 - a value of YAML
    value = mapping(value)
    port, last, protocol = value.get("port"), value.get("endPort"), words(value.get("protocol")) or "TCP"
    if isinstance(port, int) and isinstance(last, int | None):
        return _Port(protocol, port, last or port)
    if port is None:
        return _Port(protocol)
    if not isinstance(port, str):
        raise _Untold
    return _Port(protocol, name=port)


@lru_cache(maxsize=_MAX_FLOWS**2)
def _network_takes(one: str, it: str) -> bool:
    try:
        outer, inner = ip_network(one, strict=False), ip_network(it, strict=False)
    except ValueError:
        return False
    if isinstance(outer, IPv4Network) and isinstance(inner, IPv4Network):
        return inner.subnet_of(outer)
    return isinstance(outer, IPv6Network) and isinstance(inner, IPv6Network) and inner.subnet_of(outer)
