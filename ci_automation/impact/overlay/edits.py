"""Edits of a components file by hand, as the patches of a kustomization that keep them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ci_automation.artifact.yaml import text
from ci_automation.impact.overlay.bootstrapped import COMPONENTS, documents_in
from ci_automation.impact.values import mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def edits_as_patches(expected: str, edited: str) -> str:
    """Return a kustomization's `patches` that make `edited` of `expected`, and what patches cannot do as comments.

    Raises:
        UnfitBootstrap: one of them is not YAML.
    """
    before, after = ({_key(it): it for it in documents_in(COMPONENTS, each.encode())} for each in (expected, edited))
    lines = ["patches:"]
    for key in before:
        if key in after and (operations := list(_operations(before[key], after[key], ""))):
            lines += _patch(key, operations)
    for key in (key for key in before if key not in after):
        kind, name, namespace = key
        where = f", namespace: {json.dumps(namespace)}" if namespace else ""
        lines += [f"- target: {{kind: {json.dumps(kind)}, name: {json.dumps(name)}{where}}}", "  patch: |"]
        version = json.dumps(text(before[key].get("apiVersion")))
        metadata = f"{{name: {json.dumps(name)}{where}}}"
        lines += [f"    {{$patch: delete, apiVersion: {version}, kind: {json.dumps(kind)}, metadata: {metadata}}}"]
    more = [
        f"# put {kind} {name} into a file of its own, and list it" for kind, name, _ in after.keys() - before.keys()
    ]
    return "\n".join([*(lines if len(lines) > 1 else []), *sorted(more)])


def _key(value: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = mapping(value.get("metadata"))
    return text(value.get("kind")), text(metadata.get("name")), text(metadata.get("namespace"))


def _patch(key: tuple[str, str, str], operations: list[dict[str, Any]]) -> list[str]:
    kind, name, namespace = map(json.dumps, key)
    where = f", namespace: {namespace}" if key[2] else ""
    target = f"- target: {{kind: {kind}, name: {name}{where}}}"
    return [target, "  patch: |", *(f"    - {json.dumps(operation)}" for operation in operations)]


def _operations(old: object, new: object, path: str) -> Iterator[dict[str, Any]]:
    """Yield the operations of a JSON patch that make `new` of `old`."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            here = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in new:
                yield {"op": "remove", "path": here}
            elif key not in old:
                yield {"op": "add", "path": here, "value": new[key]}
            else:
                yield from _operations(old[key], new[key], here)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _operations(before, after, f"{path}/{number}")
    elif isinstance(old, list) and isinstance(new, list) and new[: len(old)] == old:
        yield from ({"op": "add", "path": f"{path}/-", "value": each} for each in new[len(old) :])
    elif old != new:
        yield {"op": "replace", "path": path, "value": new}
