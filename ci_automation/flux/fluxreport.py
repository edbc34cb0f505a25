"""The FluxReport of a cluster, which flux-operator keeps there (its `api/v1/fluxreport_types.go`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_REPORT_BYTES = 4 << 20
_INSTALLED = "Installed"


class InvalidReport(UsageError):
    """A file is not a FluxReport."""

    hint = "Write it with `kubectl -n flux-system get fluxreport/flux -o json`."

    def __init__(self, reason: str) -> None:
        super().__init__(f"it is not a FluxReport: {reason}")


class FluxReport(Struct, frozen=True):
    """One cluster's report: its version of Flux (empty if the report lacks it), and its problems."""

    version: str
    problems: tuple[str, ...]
    components: int


def parse_reports(data: bytes) -> tuple[FluxReport, ...]:
    """Return the reports in what kubectl prints: one object, or a list of them.

    Raises:
        InvalidReport: it is something else, has no report, or lacks a status.
    """
    try:
        value = json.loads(data if len(data) <= MAX_REPORT_BYTES else b"")
    except (ValueError, RecursionError):
        raise InvalidReport("it is not JSON, or too large") from None
    items = value.get("items") if isinstance(value, dict) and "items" in value else [value]
    if not isinstance(items, list) or not items:
        raise InvalidReport("there is no object in it")
    return tuple(_report(item) for item in items)


def _report(value: object) -> FluxReport:
    match value:
        case {
            "kind": "FluxReport",
            "spec": {"components": [_, *_] as components, "distribution": {"status": str(status), **named}, **spec},
        }:
            version = named.get("version", "")
            installed = () if status == _INSTALLED else (f"the distribution is {status[:80]!r}, not {_INSTALLED}",)
            problems = (*installed, *_components(components), *_reconcilers(spec.get("reconcilers", [])))
            return FluxReport(version if isinstance(version, str) else "", problems, len(components))
    raise InvalidReport("it has no kind FluxReport, no components or no distribution")


def _components(components: list[Any]) -> Iterator[str]:
    """Yield each controller that is not ready."""
    for component in components:
        match component:
            case {"name": str(name), "ready": bool(ready)}:
                if not ready:
                    yield f"{name[:80]!r} is not ready"
            case _:
                raise InvalidReport("a component does not say whether it is ready")


def _reconcilers(reconcilers: object) -> Iterator[str]:
    """Yield each kind of object with failing objects."""
    if not isinstance(reconcilers, list):
        raise InvalidReport("its reconcilers are no list")
    for reconciler in reconcilers:
        match reconciler:
            case {"kind": str(kind), "stats": {"failing": int(failing)}}:
                if failing:
                    yield f"{failing} of kind {kind[:80]!r} fail"
            case _:
                raise InvalidReport("a reconciler does not say how many of its objects fail")
