"""As much of GraphQL as a query for data needs: fields, aliases, arguments, variables; no fragments, no directives.

Resolvers are mappings from a field's name to a value, or to a function of the arguments. What the schema lacks, and a
variable that is not declared, is an error, as with GitHub.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

_TOKEN = re.compile(
    r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<int>-?\d+)|(?P<name>[_A-Za-z]\w*)|(?P<mark>\$\w+|[!(){}\[\]:=]))[\s,]*'
)
_WORDS = {"true": True, "false": False, "null": None}


class QueryError(Exception):
    """A query is not one that the schema can answer."""


@dataclass(frozen=True, slots=True)
class _Field:
    alias: str
    name: str
    arguments: Mapping[str, Any]
    selection: tuple[_Field, ...]


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str


class _Parser:
    def __init__(self, query: str) -> None:
        self._tokens: list[str] = []
        end = 0
        while end < len(query):
            if not (match := _TOKEN.match(query, end)):
                raise QueryError(f"Parse error at {query[end : end + 20]!r}")
            self._tokens.append(match[match.lastgroup or 0])
            end = match.end()
        self.variables: set[str] = set()

    def operation(self) -> tuple[_Field, ...]:
        if self._peek() == "query":
            self._next()
            if self._peek() == "(":
                self._declarations()
        selection = self._selection()
        if self._tokens:
            raise QueryError(f"Parse error at {self._peek()!r}")
        return selection

    def _declarations(self) -> None:
        self._expect("(")
        while self._peek() != ")":
            self.variables.add(self._next()[1:])
            self._expect(":")
            self._next()
            if self._peek() == "!":
                self._next()
        self._expect(")")

    def _selection(self) -> tuple[_Field, ...]:
        self._expect("{")
        fields = []
        while self._peek() != "}":
            fields.append(self._field())
        self._expect("}")
        if not fields:
            raise QueryError("Parse error: an empty selection")
        return tuple(fields)

    def _field(self) -> _Field:
        alias = name = self._next()
        if self._peek() == ":":
            self._next()
            name = self._next()
        arguments = self._object("(", ")") if self._peek() == "(" else {}
        return _Field(alias, name, arguments, self._selection() if self._peek() == "{" else ())

    def _object(self, opening: str, closing: str) -> dict[str, Any]:
        self._expect(opening)
        members = {}
        while self._peek() != closing:
            name = self._next()
            self._expect(":")
            members[name] = self._value()
        self._expect(closing)
        return members

    def _value(self) -> Any:
        token = self._peek()
        if token == "{":
            return self._object("{", "}")
        self._next()
        if token.startswith("$"):
            return _Variable(token[1:])
        if token.startswith('"'):
            return token[1:-1]
        return int(token) if token.lstrip("-").isdigit() else _WORDS.get(token, token)

    def _peek(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def _next(self) -> str:
        if not self._tokens:
            raise QueryError("Parse error: the query ends too early")
        return self._tokens.pop(0)

    def _expect(self, token: str) -> None:
        if (found := self._next()) != token:
            raise QueryError(f"Parse error: {found!r} instead of {token!r}")


def execute(query: str, variables: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data that a query asks for.

    Raises:
        QueryError: it is no query, or asks for what is not in the schema.
    """
    selection, declared = _parsed(query)
    return _select(selection, root, {name: variables.get(name) for name in declared})


@cache
def _parsed(query: str) -> tuple[tuple[_Field, ...], frozenset[str]]:
    """Return what a query asks for and which variables it declares, once for each text."""
    parser = _Parser(query)
    return parser.operation(), frozenset(parser.variables)


def _select(selection: tuple[_Field, ...], value: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    return {field.alias: _resolve(field, value, variables) for field in selection}


def _resolve(field: _Field, parent: Mapping[str, Any], variables: Mapping[str, Any]) -> Any:
    if field.name not in parent:
        raise QueryError(f"Field '{field.name}' doesn't exist")
    found = parent[field.name]
    if isinstance(found, Callable):  # type: ignore[arg-type]  # collections.abc has it for isinstance
        found = found(_filled(field.arguments, variables))
    elif field.arguments:
        raise QueryError(f"Field '{field.name}' doesn't accept arguments")
    if found is None:
        return None
    if isinstance(found, list | Mapping) != bool(field.selection):
        raise QueryError(f"Field '{field.name}' must have a selection exactly if it is an object")
    if isinstance(found, list):
        return [_select(field.selection, item, variables) for item in found]
    return _select(field.selection, found, variables) if field.selection else found


def _filled(value: Any, variables: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return {name: _filled(member, variables) for name, member in value.items()}
    if isinstance(value, _Variable):
        if value.name not in variables:
            raise QueryError(f"Variable ${value.name} is used but not declared")
        return variables[value.name]
    return value
