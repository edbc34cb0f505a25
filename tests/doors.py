"""A contract of import-linter: from outside, a package is entered through its door, the modules in its `__all__`.

A door lists modules and no names in them: a command that needs one module does not load the whole room.
"""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from importlinter import Contract, ContractCheck, output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grimp import ImportGraph

HOUSE = "ci_automation"


def door(package: str) -> frozenset[str]:
    """Return the modules and packages that `__all__` of a package lists; none if it has no such line."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    for statement in ast.parse(Path(spec.origin).read_text()).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=listed):
                return frozenset(ast.literal_eval(listed))
    return frozenset()


def is_inside(importer: str, package: str) -> bool:
    """Return whether a module is in a package, or is a test of it by the name of its folder or file."""
    if not importer.startswith("tests."):
        return f"{importer}.".startswith(f"{package}.")
    rooms = "|".join(package.split(".")[1:])
    return any(re.match(rf"(test_)?({rooms})(_|$)", part) for part in importer.split(".")[2:])


def entered(importer: str, imported: str) -> Iterator[tuple[str, str]]:
    """Yield each package that an import enters from outside, and the name in it that the import asks for."""
    parts = imported.split(".")
    if parts[0] != HOUSE:
        return
    for length in range(2, len(parts)):
        package = ".".join(parts[:length])
        if not is_inside(importer, package):
            yield package, parts[length]


class Doors(Contract):
    """Other rooms import what a door lists and nothing else, and a door lists only what they import."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002  # the signature of all contracts
        """Return the imports that reach past a door, and what a door lists without need."""
        packages = [name for name in graph.modules if name.startswith(f"{HOUSE}.") and graph.find_children(name)]
        doors = {package: door(package) for package in packages}
        past, used = [], set()
        for importer in sorted(graph.modules):
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                for package, name in entered(importer, imported):
                    used.add((package, name))
                    if name not in doors[package]:
                        past.append(f"{importer} imports {imported}, and {package} does not list {name}")
        for package, listed in sorted(doors.items()):
            past += [
                f"{package} lists {name}, which no other room imports"
                for name in sorted(listed)
                if (package, name) not in used
            ]
        return ContractCheck(kept=not past, metadata={"past": past})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each import that reaches past a door."""
        for line in check.metadata["past"]:
            output.print_error(line)
