"""Fields of an object that a CRD does not know, or takes with another value, as its schema says.

The schema is that of the artifact's own components, so that a field counts from the release on that has it. Rules in
CEL are left to the API server.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from ci_automation.artifact.yaml import nodes, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    IsFound = Callable[[str, str], bool]

_SEPARATOR = re.compile(r"^---\n", re.MULTILINE)
_KINDS = {"string": str, "boolean": bool, "integer": int, "number": int | float, "object": dict, "array": list}
_WORDS = {
    "string": "a text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "a mapping",
    "array": "a list",
}


def unfit_fields(spec: Mapping[str, Any], api_version: str, kind: str, components: str, is_found: IsFound) -> list[str]:
    """Return what the CRD of a kind in `components` does not take of a part of its spec; none without a CRD.

    What the part lacks at its top is no problem: the program fills it in. `is_found` searches a pattern of RE2.
    """
    schema = _schema(api_version, kind, components)
    return [] if schema is None else [*_Reader(is_found).entries(spec, {"properties": schema["properties"]}, "spec")]


def _schema(api_version: str, kind: str, components: str) -> Any:  # noqa: ANN401  # a value of YAML
    group, _, version = api_version.partition("/")
    for text in _SEPARATOR.split(components):
        if f"\n    kind: {kind}\n" in text and f"\n  group: {group}\n" in text:
            (node,) = nodes(text)
            versions = plain(node)["spec"]["versions"]
            found = (each for each in versions if each["name"] == version)
            return next((each["schema"]["openAPIV3Schema"]["properties"]["spec"] for each in found), None)
    return None


class _Reader:
    """Compares values with schemas."""

    def __init__(self, is_found: IsFound) -> None:
        self._is_found = is_found

    def problems(self, value: object, schema: Mapping[str, Any], path: str) -> Iterator[str]:
        kind = schema.get("type")
        if kind is None or "x-kubernetes-preserve-unknown-fields" in schema:
            return
        if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
            yield f"{path} must be {_WORDS[kind]}"
        elif isinstance(value, dict):
            yield from self.entries(value, schema, path)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield from self.problems(item, schema["items"], f"{path}[{index}]")
        elif "enum" in schema and value not in schema["enum"]:
            yield f"{path} must be {' or '.join(map(str, schema['enum']))}, not {str(value)[:80]!r}"
        elif "pattern" in schema and not self._is_found(schema["pattern"], str(value)):
            yield f"{path}: {str(value)[:80]!r} does not match {schema['pattern']}"

    def entries(self, value: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[str]:
        known = schema.get("properties")
        if known is None:
            for name, each in value.items():
                yield from self.problems(each, schema.get("additionalProperties", {}), f"{path}.{name}")
            return
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{path}.{name} is missing"
        for name, each in value.items():
            if name in known:
                yield from self.problems(each, known[name], f"{path}.{name}")
            else:
                near = difflib.get_close_matches(name, known, n=1)
                yield f"{path}.{name[:80]} is not known" + (f"; did you mean {near[0]}?" if near else "")
