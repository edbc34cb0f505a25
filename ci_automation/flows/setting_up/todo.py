"""The list of `setup` on a terminal, and as a file with boxes that keeps its ticks."""

from __future__ import annotations

import re
from itertools import count, takewhile
from operator import eq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

TODO = ".github/flux-manifests.todo.md"
LAST = "At last"
_STEP = re.compile(r"^- \[([ xX])\] \d+\. (.+(?:\n  .*)*)", re.MULTILINE)
_HEAD = f"""\
# Signed Flux: what is left to do

The `setup` of flux-manifests wrote this list. When it runs again, it keeps your ticks and nothing else that you write
here. To tick by a click, make it an issue: `gh issue create --title "Set up signed Flux" --body-file {TODO}`

Capital letters such as TOKEN are for you to replace. Commands are for bash or zsh, at the top of this clone."""


def one_list(lists: Iterable[Mapping[str, list[str]]]) -> dict[str, list[str]]:
    """Return the lists of several families as one: a step of all is there once, and last if it is last in all."""
    left: dict[str, list[str]] = {}
    for sections in lists:
        for title, steps in sections.items():
            there = left.get(title, [])
            ends = sum(1 for _ in takewhile(bool, map(eq, reversed(there), reversed(steps))))
            last = len(there) - ends
            left[title] = [*there[:last], *(it for it in steps if it not in there), *there[last:]]
    ending = left.pop(LAST)
    return {**left, LAST: ending}


def numbered(left: Mapping[str, Sequence[str]]) -> str:
    """Return the steps for a terminal, numbered through all sections; lines to copy are indented."""
    steps = ((title, [step.replace("\n", "\n    ") for step in steps]) for title, steps in _numbered(left))
    return "\n".join(line for title, there in steps for line in ("", title, "", *there))


def with_boxes(left: Mapping[str, Sequence[str]], existing: str | None) -> str:
    """Return the steps as Markdown with boxes; what is ticked in the `existing` file stays ticked."""
    ticked, lines = _steps(existing or "", ticked="xX"), [_HEAD]
    for title, steps in _numbered(left):
        lines += ("", f"## {title}", "")
        for number, _, step in (it.partition(". ") for it in steps):
            shown = _fenced(step)
            lines.append(f"- [{'x' if (title, shown) in ticked else ' '}] {number}. {shown}")
    return "\n".join((*lines, ""))


def _numbered(left: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, list[str]]]:
    numbers = count(1)
    yield from ((title, [f"{next(numbers)}. {step}" for step in steps]) for title, steps in left.items())


def _fenced(step: str) -> str:
    """Return a step as Markdown: the lines after its first are commands."""
    first, *commands = step.split("\n")
    return "\n".join((first, *(("  ```sh", *(f"  {it}" for it in commands), "  ```") if commands else ())))


def steps_between(before: str, after: str) -> tuple[int, int]:
    """Return how many steps a page has that the one before it has not, and the reverse."""
    old, new = _steps(before), _steps(after)
    return len(new - old), len(old - new)


def _steps(page: str, ticked: str = " xX") -> set[tuple[str, str]]:
    """Return the titles and texts of steps, without their numbers: several sections can have one."""
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    return {(it.partition("\n")[0], step) for it in sections for box, step in _STEP.findall(it) if box in ticked}
