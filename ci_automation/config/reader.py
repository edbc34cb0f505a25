"""From the plain values of a configuration file to its sections, with every error, and to what the flows use."""

from __future__ import annotations

import difflib
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.config import sections
from ci_automation.config.model import Config, Section, UpstreamConfig, VerifyConfig
from ci_automation.config.schema import alternatives, is_section, keys, unwrapped
from ci_automation.config.source import GitHubSourceConfig
from ci_automation.config.values import InvalidValue
from ci_automation.errors import UsageError
from ci_automation.flux.following import FleetSettings, SyncSettings
from ci_automation.policy.model import BUMPS, Acknowledgement, Allowance, Period, Policy, time_zone

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator, Mapping
    from datetime import timedelta

    from ci_automation.config.document import ConfigDocument, Path, Problem

E = TypeVar("E", bound=Enum)
T = TypeVar("T")

_KINDS = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list", dict: "a mapping"}


class Given(Struct, frozen=True):
    """What a file has for a section: the values of the keys that are there, by the names of their fields."""

    section: type[Section]
    values: dict[str, Any]


def read_sections(document: ConfigDocument, root: pathlib.Path) -> Given | None:
    """Return the sections of a document, or None with all errors in its problems; its paths begin in `root`."""
    reader = _Reader(document, root)
    file = reader.attempt((), reader.section, sections.File, document.value, ())
    document.add(reader.problems)
    return file


class _Reader:
    """A reader that collects every problem. It replaces an unreadable value by None, and continues."""

    def __init__(self, document: ConfigDocument, root: pathlib.Path) -> None:
        self.document, self.root = document, root
        self.problems: list[Problem] = []

    def attempt(self, path: Path, read: Callable[..., T], *arguments: object) -> T | None:
        try:
            return read(*arguments)
        except UsageError as error:
            what = f"{error}{f'. {error.hint}' if error.hint else ''}"
            self.problems.append(self.document.problem(path, what))
            return None

    def section(self, section: type[Section], value: object, path: Path) -> Given | None:
        if not isinstance(value, dict):
            raise _unlike("a mapping", value)
        before = len(self.problems)
        values: dict[str, Any] = {}
        for key in keys(section):
            here = (*path, key.written)
            if (given := value.get(key.written)) is not None:
                values[key.name] = self.attempt(here, self.value, key.type, given, here)
            elif key.required:
                self.problems.append(self.document.problem(here, "is missing"))
        known = {key.written for key in keys(section)}
        for name in value:
            if name not in known:
                self.problems.append(self.document.problem((*path, name), _unknown(name, section), at_key=True))
        return Given(section, values) if len(self.problems) == before else None

    def value(self, kind: object, value: object, path: Path) -> object:
        kinds = alternatives(kind)
        kind, form = unwrapped(kinds[0] if isinstance(value, str) else kinds[-1])
        if is_section(kind):
            return self.section(kind, value, path)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return _member(kind, value)
        if form.written is object:
            return form.parse(value)
        if type(value) is not form.written:
            quotes = form.written is str and not isinstance(value, list | dict)
            raise _unlike(_KINDS[form.written], value, "; put it in quotes" if quotes else "")
        before = len(self.problems)
        if isinstance(value, list):
            of = get_args(kind)[0]
            items = ((each, (*path, index)) for index, each in enumerate(value))
            value = [self.attempt(here, self.value, of, each, here) for each, here in items]
        elif isinstance(value, dict):  # entry by entry first, for their places
            for name, each in value.items():
                self.attempt((*path, name), form.parse, {name: each})
        if len(self.problems) > before:
            return None
        parsed = form.parse(value)
        return form.below(self.root, parsed) if form.below and self.root.parts else parsed


def _member(kind: type[E], value: object) -> E:
    members = {each.value: each for each in kind}
    if isinstance(value, str) and value in members:
        return members[value]
    *most, last = map(repr, members)
    wanted = f"{', '.join(most)} or {last}"
    if type(value) in (str, int):
        raise InvalidValue(f"{repr(value)[:80]} is not {wanted}")
    raise _unlike(wanted, value)


def _unlike(wanted: str, value: object, advice: str = "") -> InvalidValue:
    return InvalidValue(f"must be {wanted}, not {_KINDS.get(type(value), 'a date')}{advice}")


def _unknown(name: str, section: type[Section]) -> str:
    known = [key.written for key in keys(section)]
    inside = sorted((path for path in _paths(section) if path[-1] == name), key=len)
    near = [".".join(path) for path in inside] or difflib.get_close_matches(name, known, n=1)
    return f"is not known; did you mean {near[0]}?" if near else f"is not known; known are {', '.join(known)}"


def _paths(section: type[Section]) -> Iterator[tuple[str, ...]]:
    """Yield where the keys of a section are, and those of the mappings in it."""
    for key in keys(section):
        yield (key.written,)
        for kind in filter(is_section, (unwrapped(each)[0] for each in alternatives(key.type))):
            yield from ((key.written, *path) for path in _paths(kind))


def merged_config(file: Given) -> Config:
    """Return the configuration in a file's sections."""
    given = file.values
    source = given.get("source", GitHubSourceConfig())
    return Config(
        replace(source, api_url=given.get("api_url")) if isinstance(source, GitHubSourceConfig) else source,
        tuple(_made(_over(given.get("defaults"), entry)) for entry in given["artifacts"]),
        _made(given["upstream"]) if "upstream" in given else UpstreamConfig(),
    )


def _over(below: Given | None, above: Given) -> Given:
    """Return `above`, with the keys that it lacks taken from `below`; the same for the mappings in it."""
    values = dict(below.values) if below else {}
    for name, value in above.values.items():
        values[name] = _over(values.get(name), value) if isinstance(value, Given) else value
    return Given(above.section, values)


def _made(value: Any) -> Any:  # noqa: ANN401  # a value of a section
    """Return what the flows use: of a section what `_MAKERS` has for it, or itself, made of the keys that are given."""
    if isinstance(value, Given):
        make = _MAKERS.get(value.section, value.section)
        return make(**{name: _made(each) for name, each in value.values.items()})
    return tuple(map(_made, value)) if isinstance(value, list | tuple) else value


def _policy(*, min_release_age: dict[str, timedelta] | None = None, **given: Any) -> Policy:  # noqa: ANN401  # its keys
    default, ages = Policy(), dict(min_release_age or {})
    if "escalate" in given:
        given["escalate"] = frozenset(given["escalate"])
    return Policy(
        actions={step: given.pop(step, default.actions[step]) for step in BUMPS},
        min_release_age={step: ages.get(step, default.min_release_age[step]) for step in BUMPS},
        security_age=ages.get("security"),
        **given,
    )


def _verify(
    *, public_key: str | tuple[str, ...] = (), identity: str = "", identity_regexp: str = "", issuer: str | None = None
) -> VerifyConfig:
    return VerifyConfig(
        public_keys=(public_key,) if isinstance(public_key, str) else public_key,
        identities=(identity,) if identity else (),
        patterns=(identity_regexp,) if identity_regexp else (),
        issuer=issuer,
    )


def _period(**given: Any) -> Period:  # noqa: ANN401  # what the section has
    return Period(**{"time_zone": time_zone("UTC"), **given})


_MAKERS: Mapping[type[Section], Callable[..., object]] = {
    sections.AcceptEditsEntry: Allowance,
    sections.AcknowledgeEntry: Acknowledgement,
    sections.AllowRemovalEntry: Allowance,
    sections.FleetSection: FleetSettings,
    sections.FreezeEntry: _period,
    sections.MinReleaseAge: dict,
    sections.PolicySection: _policy,
    sections.SyncSection: SyncSettings,
    sections.VerifySection: _verify,
    sections.WindowEntry: _period,
}
