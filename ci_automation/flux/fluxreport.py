"""The FluxReport of a cluster, which flux-operator keeps there (its `api/v1/fluxreport_types.go`)."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert, json

from ci_automation.errors import UsageError

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


class _Component(Struct):
    name: str
    ready: bool


class _Stats(Struct):
    failing: int


class _Reconciler(Struct):
    kind: str
    stats: _Stats


class _Distribution(Struct):
    status: str
    version: Any = ""


class _Spec(Struct):
    components: Annotated[tuple[_Component, ...], Meta(min_length=1)]
    distribution: _Distribution
    reconcilers: tuple[_Reconciler, ...] = ()


class _Object(Struct, tag_field="kind", tag="FluxReport"):
    spec: _Spec

    @property
    def report(self) -> FluxReport:
        spec, of = self.spec, self.spec.distribution
        problems = [] if of.status == _INSTALLED else [f"the distribution is {of.status[:80]!r}, not {_INSTALLED}"]
        problems += [f"{it.name[:80]!r} is not ready" for it in spec.components if not it.ready]
        problems += [f"{it.stats.failing} of kind {it.kind[:80]!r} fail" for it in spec.reconcilers if it.stats.failing]
        return FluxReport(of.version if isinstance(of.version, str) else "", tuple(problems), len(spec.components))


def parse_reports(data: bytes) -> tuple[FluxReport, ...]:
    """Return the reports in what kubectl prints: one object, or a list of them.

    Raises:
        InvalidReport: it is something else, has no report, or lacks a status.
    """
    try:
        value = json.decode(data if len(data) <= MAX_REPORT_BYTES else b"")
        items = value["items"] if isinstance(value, dict) and "items" in value else [value]
        found = convert(items, tuple[_Object, ...])
    except ValidationError as error:
        raise InvalidReport(str(error)) from None
    except (ValueError, RecursionError):
        raise InvalidReport("it is not JSON, or too large") from None
    if not found:
        raise InvalidReport("there is no object in it")
    return tuple(each.report for each in found)
