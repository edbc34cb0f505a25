"""From the plain values of a configuration file to its sections, with everything that is wrong in them."""

from __future__ import annotations

import difflib
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from msgspec.structs import fields

from ci_automation.config.rules import Section
from ci_automation.config.schema import File
from ci_automation.config.values import InvalidValue, alternatives, unwrapped
from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.config.document import Document, Path, Problem

E = TypeVar("E", bound=Enum)
S = TypeVar("S", bound=Section)
T = TypeVar("T")

_KINDS = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list", dict: "a mapping"}
_keys = cache(fields)


def read_sections(document: Document) -> File | None:
    """Return what a document says; its problems get everything that cannot be read, and then there is None."""
    reader = _Reader(document)
    file = reader.attempt((), reader.section, File, document.value, ())
    told = {problem.path for problem in document.problems}
    document.problems += [problem for problem in reader.problems if problem.path not in told]
    return file


class _Reader:
    """What was found wrong so far. A value that cannot be read is None, and the next one is read."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def attempt(self, path: Path, read: Callable[..., T], *arguments: object) -> T | None:
        try:
            return read(*arguments)
        except UsageError as error:
            what = f"{error}{f'. {error.hint}' if error.hint else ''}"
            self.problems.append(self.document.problem(path, what))
            return None

    def section(self, section: type[S], value: object, path: Path) -> S | None:
        if not isinstance(value, dict):
            raise _unlike("a mapping", value)
        before = len(self.problems)
        values: dict[str, Any] = {}
        for key in _keys(section):
            here = (*path, key.encode_name)
            if (given := value.get(key.encode_name)) is not None:
                values[key.name] = self.attempt(here, self.value, key.type, given, here)
            elif key.required:
                self.problems.append(self.document.problem(here, "is missing"))
        known = [key.encode_name for key in _keys(section)]
        for name in value:
            if name not in known:
                what = "is not supported by this version" if name in section.later else _unknown(name, known)
                self.problems.append(self.document.problem((*path, name), what, at_key=True))
        return section(**values) if len(self.problems) == before else None

    def value(self, kind: object, value: object, path: Path) -> object:
        kinds = alternatives(kind)
        kind, form = unwrapped(kinds[0] if isinstance(value, str) else kinds[-1])
        if isinstance(kind, type) and issubclass(kind, Section):
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
            [of] = get_args(kind)
            items = ((each, (*path, index)) for index, each in enumerate(value))
            value = [self.attempt(here, self.value, of, each, here) for each, here in items]
        elif isinstance(value, dict):  # entry by entry first, for their places
            for name, each in value.items():
                self.attempt((*path, name), form.parse, {name: each})
        return form.parse(value) if len(self.problems) == before else None


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


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"is not known; did you mean {near[0]}?" if near else f"is not known; known are {', '.join(known)}"
