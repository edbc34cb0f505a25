"""Workflow files as GitHub reads them: their triggers, the title of a run, the environments that it waits for."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_EXPRESSION = re.compile(r"\$\{\{\s*([A-Za-z_][\w.-]*)\s*\}\}")
FOLDER = ".github/workflows/"


def is_workflow(path: str) -> bool:
    """Return whether GitHub takes the file at a path for a workflow."""
    return path.startswith(FOLDER) and path.endswith((".yaml", ".yml")) and "/" not in path.removeprefix(FOLDER)


@cache
def parsed(text: bytes) -> dict[str, Any]:
    """Return a workflow file, which callers leave as it is; its triggers are a mapping under `on`, YAML's true."""
    found: dict[Any, Any] = yaml.safe_load(text) or {}
    triggers = found.pop(True, found.pop("on", {}))
    if isinstance(triggers, str):
        triggers = [triggers]
    if isinstance(triggers, list):
        triggers = dict.fromkeys(triggers)
    found["on"] = {name: value or {} for name, value in (triggers or {}).items()}
    return found


def rendered(text: str, context: Mapping[str, Any]) -> str:
    """Return a text with its expressions filled in; only names are understood, what is not there is empty."""

    def value(match: re.Match[str]) -> str:
        found: Any = context
        for name in match[1].split("."):
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, bool):
            return "true" if found else "false"
        return "" if found is None else str(found)

    return _EXPRESSION.sub(value, text)


def filled(declared: Mapping[str, Any] | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs with the defaults of those that were not given."""
    defaults = {name: (spec or {}).get("default", "") for name, spec in (declared or {}).items()}
    return {**defaults, **given}


def environments(
    workflow: Mapping[str, Any], context: Mapping[str, Any], called: Callable[[str], dict[str, Any] | None]
) -> list[str]:
    """Return the environments of all jobs, those of called workflows included, in order and once each."""
    found: list[str] = []
    for job in (workflow.get("jobs") or {}).values():
        environment = job.get("environment")
        name = environment.get("name", "") if isinstance(environment, dict) else environment
        if name:
            found.append(rendered(str(name), context))
        other = called(job["uses"]) if "uses" in job else None
        if other:
            given = {key: rendered(str(value), context) for key, value in (job.get("with") or {}).items()}
            inputs = filled(other["on"].get("workflow_call", {}).get("inputs"), given)
            found += environments(other, {**context, "inputs": inputs}, called)
    return [name for name in dict.fromkeys(found) if name]
