"""One word has one meaning: no two public classes or functions share a name, but for the few that are explained."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2] / "ci_automation"

DELIBERATE = {
    "main": "where a program starts",
}
# The words that a reader has to look up.
RIDDLES = {"errands", "again", "rendered", "given", "settle", "hits", "effort", "desk", "tend", "judging"}


@cache
def public_names() -> dict[str, list[str]]:
    """Return where each public class and function is defined, at the top of a module."""
    found = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(ROOT).as_posix())
    return found


def test_no_two_public_classes_or_functions_share_a_name() -> None:
    shared = {name: places for name, places in public_names().items() if len(places) > 1}
    assert shared.keys() - DELIBERATE.keys() == set(), shared


def test_an_explained_name_is_shared() -> None:
    assert all(len(public_names()[name]) > 1 for name in DELIBERATE)


def test_the_name_of_a_file_needs_no_glossary() -> None:
    names = {path.stem for path in ROOT.rglob("*.py")}
    assert names & RIDDLES == set()
