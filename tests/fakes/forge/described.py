"""GitHub's own description of its REST API, and whether an exchange is as it says.

The description is OpenAPI 3.0, whose schemas are nearly JSON Schema: `nullable` is not, and is translated. What an
answer must have and the state of the double does not know (avatars, counts, addresses of pages) is filled in as
described; a member that is not described at all, in a question or an answer, is a violation, though schemas are open.
"""

from __future__ import annotations

import datetime as dt
import gzip
import json
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.validators import extend

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jsonschema import ValidationError

EXTRACT = Path(__file__).resolve().parents[2] / "assets" / "github-openapi.json.gz"
PUBLIC = "api.github.com"
Schema = dict[str, Any]
_WITH_SLASHES = frozenset({"path", "ref", "branch", "basehead"})
_ANYWHERE = frozenset({301, 302, 304, 307, 401, 403, 404, 405, 409, 422, 429})  # not always described, and true of all
_FORMATS = FormatChecker(formats=())
_DEPTH = 12


@_FORMATS.checks("date-time", raises=ValueError)
def _is_time(value: object) -> bool:
    return not isinstance(value, str) or dt.datetime.fromisoformat(value).tzinfo is not None


@_FORMATS.checks("uri")
def _is_uri(value: object) -> bool:
    return not isinstance(value, str) or bool(urlsplit(value).scheme)


@cache
def _extract() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(EXTRACT.read_bytes()))
    return found


@cache
def description(flavour: str) -> Description:
    """Return the description of github.com (`api.github.com`) or of an Enterprise Server (`ghes`, the oldest)."""
    flavours = _extract()["flavours"]
    name = flavour if flavour in flavours else next(name for name in flavours if name.startswith("ghes"))
    return Description(name, flavours[name])


def _translated(node: Any) -> Any:
    """Return an OpenAPI 3.0 schema as JSON Schema; also what lies around schemas, which is not touched."""
    if isinstance(node, list):
        return [_translated(item) for item in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("$ref"), str):
        return {"$ref": node["$ref"]}  # in OpenAPI 3.0 what stands beside a reference is ignored
    made = {key: _translated(value) for key, value in node.items() if key != "nullable" or isinstance(value, dict)}
    if node.get("nullable") is not True:
        return made
    if "enum" in made:
        made["enum"] = [*made["enum"], None] if None not in made["enum"] else made["enum"]
    if isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
        if not made.keys() & {"allOf", "anyOf", "oneOf"}:
            return made
    return {"anyOf": [{"type": "null"}, made]}


@dataclass(frozen=True)
class Operation:
    """One operation: where it was asked for, and how it is described."""

    method: str
    template: str
    parameters: Mapping[str, str]
    described: Schema


class Description:
    """One flavour of GitHub, as it describes itself."""

    def __init__(self, name: str, extract: dict[str, Any]) -> None:
        self.name, self._paths = name, _translated(extract["paths"])
        self._components = _translated(extract["components"])
        self._validators: dict[int, Draft202012Validator] = {}  # by the identity of schemas, which live as long
        self._right: set[tuple[str, str]] = set()  # references, and values that are as they say
        self._validator = extend(Draft202012Validator, {"$ref": self._reference})  # type: ignore[no-untyped-call]

    @property
    def operations(self) -> frozenset[tuple[str, str]]:
        """All operations, as method and template."""
        return frozenset((verb.upper(), path) for path, verbs in self._paths.items() for verb in verbs)

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], str]]:
        def group(match: re.Match[str]) -> str:
            return f"(?P<{match[1]}>{'.+' if match[1] in _WITH_SLASHES else '[^/]+'})"

        literal_first = sorted(self._paths, key=lambda path: (path.count("{"), -len(path)))
        return [(re.compile(re.sub(r"\\{(\w+)\\}", group, re.escape(path))), path) for path in literal_first]

    def operation(self, method: str, path: str) -> Operation | None:
        """Return the operation that a request is for."""
        for pattern, template in self._patterns:
            if (match := pattern.fullmatch(path)) and method.lower() in self._paths[template]:
                return Operation(method, template, match.groupdict(), self._paths[template][method.lower()])
        return None

    def wrong_request(self, operation: Operation, query: Mapping[str, str], body: object) -> list[str]:
        """Return what is not as described in a request."""
        problems = []
        declared = {p["name"]: p for p in map(self._resolved, operation.described.get("parameters", ()))}
        for name, value in query.items():
            if name not in declared or declared[name]["in"] != "query":
                problems.append(f"the parameter {name!r} is not described")
                continue
            schema = declared[name]["schema"]
            if name == "created":  # described as a moment, and as a range of the search syntax in the same breath
                continue
            problems += self._problems(schema, _typed(value, self._kinds(schema)))
        wanted = operation.described.get("requestBody")
        if body is None:
            return [*problems, *(["the body is missing"] if wanted and wanted.get("required") else [])]
        if not wanted:
            return [*problems, "a body is not described"] if body else problems
        schema = wanted["content"]["application/json"]["schema"]
        return [*problems, *self._problems(schema, body), *self._undescribed(schema, body)]

    def answer(self, operation: Operation, status: int, value: Any) -> tuple[Any, list[str]]:
        """Return an answer with all that it must have, and what is not as described in it."""
        responses = operation.described["responses"]
        if str(status) not in responses:
            return value, [] if status in _ANYWHERE else [f"the status {status} is not described"]
        content = self._resolved(responses[str(status)]).get("content", {})
        schema = content.get("application/json", {}).get("schema")
        if schema is None:
            return value, [f"a body is not described for {status}"] if value not in (None, b"") and status < 300 else []
        problems = self._undescribed(schema, value)
        whole = self._completed(schema, value)
        return whole, [*problems, *self._problems(schema, whole)]

    def _problems(self, schema: Schema, value: object) -> list[str]:
        if id(schema) not in self._validators:
            whole = {**schema, "components": self._components}
            self._validators[id(schema)] = self._validator(whole, format_checker=_FORMATS)
        found = self._validators[id(schema)].iter_errors(value)
        return [f"{error.json_path}: {error.message[:300]}" for error in found]

    def _reference(self, validator: Any, name: str, value: object, schema: Schema) -> Iterator[ValidationError]:
        """Yield what is not as a reference says: answers repeat the same people and repositories."""
        known = name, json.dumps(value)
        if known not in self._right:
            problems = list(Draft202012Validator.VALIDATORS["$ref"](validator, name, value, schema))
            yield from problems
            if not problems:
                self._right.add(known)

    def _resolved(self, node: Schema) -> Schema:
        while "$ref" in node:
            kind, name = node["$ref"].removeprefix("#/components/").split("/")
            node = self._components[kind][name]
        return node

    def _kinds(self, schema: Schema) -> set[str]:
        node = self._resolved(schema)
        kinds = {node["type"]} if isinstance(node.get("type"), str) else set(node.get("type", ()))
        return kinds.union(*(self._kinds(part) for word in ("oneOf", "anyOf", "allOf") for part in node.get(word, ())))

    def _parts(self, schema: Schema, depth: int = 0) -> Iterator[Schema]:
        """Yield a schema and all that it is made of."""
        node = self._resolved(schema)
        yield node
        for word in ("allOf", "oneOf", "anyOf"):
            for part in node.get(word, ()) if depth < _DEPTH else ():
                yield from self._parts(part, depth + 1)

    def _undescribed(self, schema: Schema, value: Any, place: str = "$") -> list[str]:
        """Return the members of a value that the schema has no word about."""
        parts = list(self._parts(schema))
        if isinstance(value, list):
            inner = [part["items"] for part in parts if isinstance(part.get("items"), dict)]
            return [
                p
                for n, item in enumerate(value)
                for p in (self._undescribed({"anyOf": inner}, item, f"{place}[{n}]") if inner else ())
            ]
        if not isinstance(value, dict):
            return []
        is_open = any(part.get("additionalProperties") for part in parts) or not any(
            "properties" in part for part in parts
        )
        problems = []
        for name, member in value.items():
            inner = [part["properties"][name] for part in parts if name in part.get("properties", {})]
            if inner:
                problems += self._undescribed({"anyOf": inner}, member, f"{place}.{name}")
            elif not is_open:
                problems.append(f"{place}.{name} is not described")
        return problems

    def _completed(self, schema: Schema, value: Any) -> Any:
        """Return a value with the members that it must have and lacks."""
        node = self._resolved(schema)
        for word in ("oneOf", "anyOf"):
            if word in node:
                value = self._completed(self._best(node[word], value), value)
        for part in node.get("allOf", ()):
            value = self._completed(part, value)
        if isinstance(value, list) and isinstance(node.get("items"), dict):
            return [self._completed(node["items"], item) for item in value]
        if not isinstance(value, dict):
            return value
        known, required = node.get("properties", {}), node.get("required", ())
        whole = {
            name: self._completed(known[name], member) if name in known else member for name, member in value.items()
        }
        return whole | {name: self._made(known[name]) for name in required if name not in value and name in known}

    def _best(self, choices: list[Schema], value: Any) -> Schema:
        """Return the choice that a value is meant to be: of its type, with the fewest undescribed members."""

        def misfit(choice: Schema) -> tuple[bool, int]:
            kinds = self._kinds(choice)
            fits = not kinds or _kind(value) in kinds or (_kind(value) == "integer" and "number" in kinds)
            return not fits, len(self._undescribed(choice, value))

        return min(choices, key=misfit)

    def _made(self, schema: Schema) -> Any:
        """Return a plain value that a schema allows."""
        node = self._resolved(schema)
        if "enum" in node:
            return node["enum"][0]
        for word in ("oneOf", "anyOf"):
            if word in node and "type" not in node:
                return self._made(node[word][0])
        kinds = node.get("type", "object")
        kind = kinds if isinstance(kinds, str) else "null" if "null" in kinds else kinds[0]
        if kind == "object":
            return self._completed(schema, {})
        if kind == "string":
            plain = {"date-time": "2020-01-01T00:00:00Z", "uri": "https://github.example/", "date": "2020-01-01"}
            return plain.get(node.get("format", ""), "x" * node.get("minLength", 0))
        plain_of: dict[str, Any] = {"null": None, "boolean": False, "array": [], "integer": 0, "number": 0}
        return node.get("minimum", plain_of[kind]) if kind in {"integer", "number"} else plain_of[kind]


def _typed(value: str, kinds: set[str]) -> object:
    """Return the value of a parameter, which is text on the wire, as the type that it is described to have."""
    if "integer" in kinds and value.isdigit():
        return int(value)
    return {"true": True, "false": False}.get(value, value) if "boolean" in kinds else value


def _kind(value: object) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "null")
