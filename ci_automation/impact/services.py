"""Changes of Services and of the accounts that pods run as."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.impact.change import ChangeKind, Severity
from ci_automation.impact.values import Pair, aligned, reordered, said, shown, sides

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.impact.change import Change

# What makes a service reachable from outside of the cluster.
_OUTSIDE = frozenset({"type", "externalIPs", "loadBalancerIP", "loadBalancerSourceRanges", "externalName"})


def service(pair: Pair) -> Iterator[Change]:
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


def account(pair: Pair) -> Iterator[Change]:
    """Yield the changes of a ServiceAccount but for its metadata."""
    yield pair.change(ChangeKind.SERVICE_ACCOUNT, Severity.NOTICE, said(pair))
