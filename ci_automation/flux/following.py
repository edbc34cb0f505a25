"""Settings of the objects by which clusters follow a channel, and the fields of them that Flux's CRDs refuse.

The CRDs are those of the artifact's own components, so a field is accepted from the release on that has it. The API
server alone checks rules in CEL.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ci_automation.artifact.yaml import nodes, plain
from ci_automation.flux.text import documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ci_automation.artifact.reference import Reference

    IsFound = Callable[[str, str], bool]

_KINDS = {"string": str, "boolean": bool, "integer": int, "number": int | float, "object": dict, "array": list}
_WORDS = {
    "string": "a text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "a mapping",
    "array": "a list",
}
OWN_SOURCE = ("url",)  # keys of the OCIRepository's spec that the program fills in
OWN_KUSTOMIZATION = ("path", "sourceRef")  # same, of the Kustomization's


class FleetSettings(Struct, frozen=True):
    """The artifact with the fleet's own manifests, which the same clusters apply after Flux's."""

    url: Reference
    path: str = "./"
    name: str = "fleet"
    source: Mapping[str, Any] = field(default_factory=dict)
    kustomization: Mapping[str, Any] = field(default_factory=dict)
    unsafe_unsigned: bool = False


class SyncSettings(Struct, frozen=True):
    """The wanted names, and fields of both specs by Flux's own names; `namespace` is None for that of the components.

    `interval` and `secret` come from the command line: the first is for both objects, the second names the Secret with
    what the signature is verified by.
    """

    name: str = "flux-manifests"
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    kustomization: Mapping[str, Any] = field(default_factory=dict)
    fleet: FleetSettings | None = None
    interval: str | None = None
    secret: str | None = None


def unfit_fields(spec: Mapping[str, Any], api_version: str, kind: str, components: str, is_found: IsFound) -> list[str]:
    """Return the problems that the CRD of a kind in `components` finds in a part of its spec; none without a CRD.

    What the part lacks at its top is no problem: the program fills it in. `is_found` searches a pattern of RE2.
    """
    schema = _schema(api_version, kind, components)
    return [] if schema is None else [*_Reader(is_found).entries(spec, {"properties": schema["properties"]}, "spec")]


def _schema(api_version: str, kind: str, components: str) -> Any:  # noqa: ANN401  # a value of YAML
    group, _, version = api_version.partition("/")
    for text in documents(components):
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
