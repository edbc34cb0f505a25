"""Evidence from outside for a promotion. Each kind looks once.

Messages never repeat an answer: it may hold confidential data, and logs are public.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from msgspec import Meta, Struct, ValidationError, convert, field
from msgspec.json import decode

from ci_automation.errors import Error, ReleaseSourceError, UsageError
from ci_automation.flows.files import read_file
from ci_automation.hiding import Hiding
from ci_automation.net.network import Origin, UnsafeAddress
from ci_automation.net.services import ANSWERED, Exchange
from ci_automation.net.values import Call, parsed_json
from ci_automation.net.waiting import Patience
from ci_automation.policy.promotion import evidence_verdict

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.flux.version import Version
    from ci_automation.github.repository import Repository
    from ci_automation.policy.decision import Verdict

MAX_REPORT_BYTES = 4 << 20
_INSTALLED = "Installed"
_SAID = 80  # characters of a word of a report that a message repeats


class InvalidReport(UsageError):
    """A file is not a FluxReport."""

    hint = "Write it with `kubectl -n flux-system get fluxreport/flux -o json`."

    def __init__(self, reason: str) -> None:
        super().__init__(f"it is not a FluxReport: {reason[: 2 * _SAID]}")


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
        problems = [] if of.status == _INSTALLED else [f"the distribution is {of.status[:_SAID]!r}, not {_INSTALLED}"]
        problems += [f"{it.name[:_SAID]!r} is not ready" for it in spec.components if not it.ready]
        failing = (it for it in spec.reconcilers if it.stats.failing)
        problems += [f"{it.stats.failing} of kind {it.kind[:_SAID]!r} fail" for it in failing]
        version = of.version[:_SAID] if isinstance(of.version, str) else ""
        return FluxReport(version, tuple(problems), len(spec.components))


def parse_reports(data: bytes) -> tuple[FluxReport, ...]:
    """Return the reports in what kubectl prints: one object, or a list of them.

    Raises:
        InvalidReport: it is something else, has no report, or lacks a status.
    """
    try:
        value = decode(data if len(data) <= MAX_REPORT_BYTES else b"")
        items = value["items"] if isinstance(value, dict) and "items" in value else [value]
        found = convert(items, tuple[_Object, ...])
    except ValidationError as error:
        raise InvalidReport(str(error)) from None
    except (ValueError, RecursionError):
        raise InvalidReport("it is not JSON, or too large") from None
    if not found:
        raise InvalidReport("there is no object in it")
    return tuple(each.report for each in found)


_OK = 200
_MAX_ANSWER_BYTES = 1 << 20
_SECONDS = 30.0


class Evidence(Protocol):
    """A source of evidence that must be positive before a promotion."""

    def look(self, version: Version) -> Verdict:
        """Return its word on promoting `version`; evidence that cannot be read does not speak for it."""


class UnsafeEvidence(UsageError):
    """An address of evidence that this program refuses to request."""

    hint = "Write https://HOST/PATH, without a password. Only this machine may use http://."

    def __init__(self, reason: str) -> None:
        super().__init__(f"the address of the evidence is refused: {reason}")


class _Silent(Error):
    """No answer; caught in this module."""


class Address(Hiding, Struct, frozen=True):
    """An address that must answer 200 with JSON, in which `path`, with dots, is `equals`.

    It is asked without credentials, over TLS unless it is on this machine, and redirected nowhere.
    """

    hides = ("url",)

    url: str
    path: str
    equals: str
    exchange: Exchange = field(default_factory=lambda: Exchange(patience=Patience(seconds=_SECONDS)))

    def __post_init__(self) -> None:
        """Raise `UnsafeEvidence` where the address is none, not over TLS, or has a password in it."""
        try:
            Origin.secure(self.url)
        except UnsafeAddress as reason:
            raise UnsafeEvidence(str(reason)) from None

    def look(self, version: Version) -> Verdict:
        """Return what it answers."""
        del version
        host = Origin.of(self.url).host
        against = self._against(host)
        return evidence_verdict(f"{host}, {self.path}", f"{self.path} at {host} is {self.equals!r}", against=against)

    def _against(self, host: str) -> str:
        """Return why the answer does not speak for a promotion, or nothing."""
        call = Call("GET", self.url, {"Accept": "application/json"}, cap=_MAX_ANSWER_BYTES)
        try:
            answer = self.exchange.ask(call, _silent)
        except _Silent as reason:
            return f"{host} gives no answer: {reason}"
        if answer.status != _OK:
            return f"{host} answers {answer.status}, not {_OK}"
        if (value := parsed_json(answer.body)) is None:
            return f"{host} does not answer with JSON"
        return "" if _text(_at(value, self.path)) == self.equals else f"{self.path} at {host} is not {self.equals!r}"


class CommitStatus(Hiding, Struct, frozen=True):
    """A status that the head of a repository's default branch must have."""

    hides = ("repository",)

    repository: Repository
    context: str

    def look(self, version: Version) -> Verdict:
        """Return what its state is."""
        del version
        what, where = f"the status {self.context}", f"the default branch of {self.repository.name}"
        try:
            found = self.repository.head_status(self.context)
        except ReleaseSourceError as error:
            return evidence_verdict(where, against=f"{what} cannot be read: {error}")
        if found is None:
            return evidence_verdict(where, against=f"{where} has no status {self.context}")
        looked_at = f"{where}: {found.commit}, set {found.at:%Y-%m-%d %H:%M} UTC"
        told = f"{what} of {self.repository.name} is {found.state}"
        return evidence_verdict(looked_at, told, against="" if found.state == "success" else told)


class Report(Struct, frozen=True):
    """A file with FluxReports, in which everything must be ready, with the version that is to be promoted."""

    file: Path

    def look(self, version: Version) -> Verdict:
        """Return whether all is well."""
        try:
            reports = parse_reports(read_file(self.file, MAX_REPORT_BYTES, _Silent))
        except _Silent as reason:
            return self._verdict(against=f"the FluxReport {self.file} cannot be used: {reason}")
        except InvalidReport as error:
            return self._verdict(against=f"{self.file}: {error}")
        problems = [problem for report in reports for problem in report.problems]
        problems += [
            f"it is of {report.version or 'an unknown version'}, not of {version}"
            for report in reports
            if report.version != str(version)
        ]
        if problems:
            more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
            return self._verdict(against=f"the FluxReport {self.file}: {problems[0]}{more}")
        number = f"{len(reports)} FluxReport{'' if len(reports) == 1 else 's'}"
        return self._verdict(f"{number} with {version}: everything is ready")

    def _verdict(self, well: str = "", *, against: str = "") -> Verdict:
        return evidence_verdict(str(self.file), well, against=against)


def _silent(_: str, reason: str, __: int) -> _Silent:
    """Return why no answer came, without text from the server."""
    return _Silent("it is busy, or broken" if reason.startswith(ANSWERED) else reason)


def _at(value: object, path: str) -> object:
    """Return what is at a path with dots, numbers counting places in lists; None where there is nothing."""
    for name in path.split("."):
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _text(value: object) -> str | None:
    """Return a value as the configuration writes it, or None where it is none that could be compared."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | int | float) else None
