"""The checks that look for hazards in a step. Each module here defines one, named `CHECK`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ci_automation.impact.check import Check


@cache
def all_checks() -> tuple[Check, ...]:
    """Return every check, in the order in which they run."""
    modules = (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))
    return tuple(sorted((module.CHECK for module in modules), key=lambda check: check.rank))


__all__ = ["compatibility", "crds", "images"]
