"""Changes of labels and annotations, and of those that controllers act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.impact.change import ChangeKind, Severity
from ci_automation.impact.rbac import AGGREGATE
from ci_automation.impact.security import APP_ARMOR, POD_SECURITY, app_armor, pod_security
from ci_automation.impact.values import MISSING, Pair, by_key, shown, sides

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.impact.change import Change

VERSION = "app.kubernetes.io/version"
# What tells kustomize-controller how to treat an object, as a label or as an annotation.
_RECONCILIATION = frozenset(f"kustomize.toolkit.fluxcd.io/{name}" for name in ("force", "prune", "reconcile", "ssa"))


def metadata(pair: Pair) -> Iterator[Change]:
    """Yield the changes of an object's `metadata`."""
    yield from by_key(pair, {"labels": _labels, "annotations": _annotations})


def pod_metadata(pair: Pair) -> Iterator[Change]:
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
        said = f"{_said(pair, what, key)}; controllers go by that"
        return pair.change(ChangeKind.RECONCILIATION, Severity.WARNING, said)
    return pair.change(ChangeKind.METADATA, Severity.INFO, _said(pair, what, key))


def _entries(pair: Pair) -> Iterator[tuple[Pair, str]]:
    """Yield the entries that differ; where one side has none at all, each entry of the other."""
    old, new = ({} if value is MISSING or value is None else value for value in (pair.old, pair.new))
    if isinstance(old, dict) and isinstance(new, dict):
        yield from sides(Pair(pair.id, old, new, pair.path))


def _aggregated(pair: Pair, role: str) -> Change:
    if pair.new == "true":
        said = f"gives its rights to everybody with the role {shown(role)} now"
        return pair.change(ChangeKind.RULE_WIDENED, Severity.WARNING, said)
    said = f"gives its rights to everybody with the role {shown(role)} no longer"
    return pair.change(ChangeKind.RULE_NARROWED, Severity.NOTICE, said)


def _said(pair: Pair, what: str, key: str) -> str:
    if pair.new is MISSING:
        return f"has the {what} {shown(key)} no more"
    instead = "" if pair.old is MISSING else f" instead of {shown(pair.old)}"
    return f"has the {what} {shown(key)}: {shown(pair.new)}{instead}"
