"""Differences of two documents with equal values: comments, quotes, indentation, the order of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci_automation.impact.change import ChangeKind, Severity
from ci_automation.impact.reading import END, KEY
from ci_automation.impact.values import MISSING, Pair, alike, listed, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.impact.change import Change, ObjectId
    from ci_automation.impact.reading import Document, Path


def layout_changes(id: ObjectId, old: Document, new: Document) -> Iterator[Change]:  # noqa: A002
    """Yield what is written differently in two documents where their values are the same."""
    if old.twice != new.twice:
        keys = [_named(path) for path in sorted(old.twice ^ new.twice, key=repr)]
        severity = Severity.WARNING if new.twice - old.twice else Severity.INFO
        text = f"has keys twice, or had, of which the last counts: {listed(keys)}"
        yield Pair(id, MISSING, MISSING, keys[0]).change(ChangeKind.OTHER, severity, text, *keys)
    before, after = _comments(old), _comments(new)
    if before != after:
        pair = Pair(id, "\n".join(before), "\n".join(after))
        yield pair.change(ChangeKind.OTHER, Severity.INFO, "has other comments")
    if places := dict(_places(old, new)):
        text = f"is written in another way, with the same meaning: {listed(places, 3)}"
        pair = Pair(id, MISSING, MISSING, next(iter(places)))
        yield pair.change(ChangeKind.OTHER, Severity.INFO, text, *(f"{at} {how}" for at, how in places.items()))


def rewritten(id: ObjectId, old: str, new: str) -> Change:  # noqa: A002
    """Return that a text differs, where nothing else that differs was found."""
    text = "is written in another way, with the same meaning"
    return Pair(id, MISSING, MISSING).change(ChangeKind.OTHER, Severity.INFO, text, repr(old), repr(new))


def _comments(document: Document) -> list[str]:
    lines = (line for gap in document.odd.values() for line in gap.split("\n") if "#" in line)
    return [line[line.index("#") :].rstrip() for line in lines]


def _places(old: Document, new: Document) -> Iterator[tuple[str, str]]:
    """Yield where values that are there and equal in both are written differently, and how."""
    for was, now in ((old.forms, new.forms), (old.odd, new.odd)):
        for path in dict.fromkeys((*was, *now)):
            forms = was.get(path, ""), now.get(path, "")
            comment = was is old.odd and any("#" in form for form in forms)
            if forms[0] != forms[1] and not comment and _same_at(old, new, path):
                yield _named(path), repr(forms)
    for path in sorted(old.unsorted | new.unsorted, key=repr):
        before, after = mapping(value_at(old.value, path)), mapping(value_at(new.value, path))
        common = [key for key in before if key in after], [key for key in after if key in before]
        if common[0] != common[1]:
            yield _named(path), repr(common)


def _same_at(old: Document, new: Document, path: Path) -> bool:
    values = value_at(old.value, path), value_at(new.value, path)
    if path == END:
        return True
    return MISSING not in values if path[-1:] == (KEY,) else values[0] is not MISSING and alike(*values)


def value_at(value: Any, path: Path) -> Any:  # noqa: ANN401 - a value of YAML
    """Return what is at a path; a key itself stands for its value."""
    for part in path[:-1] if path[-1:] == (KEY,) else path:
        there = part in value if isinstance(value, dict) else isinstance(value, list) and part in range(len(value))
        if not there:
            return MISSING
        value = value[part]
    return value


def _named(path: Path) -> str:
    if path == END:
        return "the end"
    return ".".join(str(part) for part in path if part != KEY) or "the document"
