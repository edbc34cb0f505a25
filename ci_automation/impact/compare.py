"""Compare two components files, object by object; the changes account for every byte."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ci_automation.impact.change import FILE, Change, ChangeKind, ObjectId, Severity
from ci_automation.impact.objects import Entry, entries, entries_of_both
from ci_automation.impact.parts import Text
from ci_automation.impact.permissions import Room
from ci_automation.impact.reading import END, KEY, Document, Path
from ci_automation.impact.rules import changed, come_or_gone
from ci_automation.impact.values import MISSING, Pair, alike, canonical, gained, listed, mapping, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

COMPONENTS = ObjectId("", FILE, "", "the components file")
_VERSION = "# Flux Version: "
_OF_METADATA = frozenset({ChangeKind.VERSION_LABEL, ChangeKind.METADATA})
_MAX_COMMENTS = 20
_MAX_CHANGES = 20_000  # a step over all minors of Flux has 500
_SHORT = 100  # longer values may have been cut
_HIDDEN = "Secret"
_ESCAPE = "\\"
_KINDS = list(ChangeKind)
_SEVERITIES = list(Severity)


def _layout_changes(id: ObjectId, old: Document, new: Document) -> Iterator[Change]:  # noqa: A002
    """Yield what is written differently in two documents where their values are the same."""
    if old.twice != new.twice:
        keys = [_named(path) for path in sorted(old.twice ^ new.twice, key=repr)]
        severity = Severity.WARNING if new.twice - old.twice else Severity.INFO
        text = f"has keys twice, or had, of which the last counts: {listed(keys)}"
        yield Pair(id, MISSING, MISSING, keys[0]).change(ChangeKind.OTHER, severity, text, *keys)
    before, after = _comments(old), _comments(new)
    if before != after:
        pair = Pair(id, "\n".join(before), "\n".join(after))
        yield pair.change(ChangeKind.OTHER, Severity.INFO, "changes its comments")
    if places := dict(_places(old, new)):
        text = f"is formatted differently, with the same meaning: {listed(places, 3)}"
        pair = Pair(id, MISSING, MISSING, next(iter(places)))
        yield pair.change(ChangeKind.OTHER, Severity.INFO, text, *(f"{at} {how}" for at, how in places.items()))


def rewritten(id: ObjectId, old: str, new: str) -> Change:  # noqa: A002
    """Return that a text differs, where nothing else that differs was found."""
    text = "is formatted differently, with the same meaning"
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
        before, after = mapping(_value_at(old.value, path)), mapping(_value_at(new.value, path))
        common = [key for key in before if key in after], [key for key in after if key in before]
        if common[0] != common[1]:
            yield _named(path), repr(common)


def _same_at(old: Document, new: Document, path: Path) -> bool:
    values = _value_at(old.value, path), _value_at(new.value, path)
    if path == END:
        return True
    return MISSING not in values if path[-1:] == (KEY,) else values[0] is not MISSING and alike(*values)


def _value_at(value: Any, path: Path) -> Any:  # noqa: ANN401 - a value of YAML
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


def changes(old: str, new: str) -> tuple[Change, ...]:
    """Return what changes from one components file to another, the gravest first; nothing only if they are equal.

    What means the same and is written differently is a change of the class `other`. Text that cannot be read is a
    change as a whole; nothing is raised, whatever the texts are.
    """
    return compared(old, new, COMPONENTS)


def compared(old: str, new: str, file: ObjectId, *, quick: bool = True) -> tuple[Change, ...]:
    """Return what changes from one text of objects to another; not `quick` is to read all of it as YAML."""
    if old == new:
        return ()
    before, after = Text.of(old), Text.of(new)
    sides = (
        entries_of_both(before, after)
        if quick
        else (tuple(entries(before, quick=False)), tuple(entries(after, quick=False)))
    )
    found = chain(header_changes(before, after, file), object_changes(*sides), _order(*sides, file))
    return ordered(together(first(found, file, old, new), file) or [rewritten(file, old, new)])


def first(found: Iterable[Change], file: ObjectId, *known: str) -> Iterator[Change]:
    """Yield as many changes as a person may go through, and that there are more; by `known` it is known which ones."""
    found = iter(found)
    yield from islice(found, _MAX_CHANGES)
    text = f"differs in more than {_MAX_CHANGES:,} places; what else changes is not told"
    for kind in sorted({change.kind for change in found}):  # each, since a policy may refuse its class
        yield Pair(file, MISSING, MISSING).change(kind, Severity.DANGER, text, kind, *map(repr, known))


def ordered(found: Iterable[Change]) -> tuple[Change, ...]:
    """Return changes in the order in which people read them: the gravest first."""
    return tuple(sorted(found, key=_rank))


def _rank(change: Change) -> tuple[int, int, ObjectId, str, str]:
    severity = -_SEVERITIES.index(change.severity)
    return severity, _KINDS.index(change.kind), change.object, change.path, change.fingerprint


def header_changes(old: Text, new: Text, file: ObjectId) -> Iterator[Change]:
    """Yield the changes of the comments at the top and of the end of a file."""
    before, after = old.header.splitlines(), new.header.splitlines()
    gone, come = gained(after, before), gained(before, after)
    was, now = (next((line for line in lines if line.startswith(_VERSION)), "") for lines in (gone, come))
    if was and now:
        gone.remove(was)
        come.remove(now)
        pair = Pair(file, was.removeprefix(_VERSION), now.removeprefix(_VERSION), "header")
        text = f"changes to Flux {shown(pair.new)} (was: {shown(pair.old)})"
        yield pair.change(ChangeKind.VERSION_LABEL, Severity.INFO, text)
    if max(len(gone), len(come)) > _MAX_COMMENTS:
        gone, come = ["\n".join(gone)], ["\n".join(come)]
    for line, other in zip_longest(gone, come, fillvalue=MISSING):
        text = f"changes a comment at its top: {shown(other)}"
        if other is MISSING:
            text = f"loses a comment at its top: {shown(line)}"
        yield Pair(file, line, other, "header").change(ChangeKind.OTHER, Severity.INFO, text)
    if before != after and Counter(before) == Counter(after):
        pair = Pair(file, before, after, "header")
        yield pair.change(ChangeKind.OTHER, Severity.INFO, "has the comments at its top in another order")
    if old.ended != new.ended:
        text = "ends with a newline" if new.ended else "does not end with a newline"
        yield Pair(file, old.ended, new.ended, "end").change(ChangeKind.OTHER, Severity.INFO, text)


def object_changes(old: Iterable[Entry], new: Iterable[Entry]) -> Iterator[Change]:
    """Yield the changes of all objects; of one that is there several times the last counts, as for clusters."""
    before, after, room = _by_id(old), _by_id(new), Room()
    for name, holds in dict.fromkeys((*after, *before)):
        *more_before, was = before.get((name, holds), [None])
        *more_after, now = after.get((name, holds), [None])
        yield from _holder(name, was, now) if holds else _entry(name, was, now, room)
        texts = [[entry.text for entry in more if entry] for more in (more_before, more_after)]
        if texts[0] != texts[1]:
            text = f"is there {len(more_after) + 1} times, of which the last counts, instead of {len(more_before) + 1}"
            pair = Pair(name, MISSING, MISSING)
            yield pair.change(ChangeKind.OTHER, Severity.WARNING, text, canonical(texts))


def graver_if_gone(found: Iterable[Change], old: Iterable[Entry], new: Iterable[Entry]) -> Iterator[Change]:
    """Yield changes, those of a team's objects that go as warnings at least: clusters that prune delete them."""
    gone = {entry.id for entry in old} - {entry.id for entry in new}
    for change in found:
        is_light = change.object in gone and change.severity in {Severity.INFO, Severity.NOTICE}
        yield replace(change, severity=Severity.WARNING) if is_light else change


def _by_id(found: Iterable[Entry]) -> dict[tuple[ObjectId, bool], list[Entry | None]]:
    by_id: defaultdict[tuple[ObjectId, bool], list[Entry | None]] = defaultdict(list)
    for entry in found:
        by_id[entry.id, entry.holds].append(entry)
    return by_id


def _holder(name: ObjectId, old: Entry | None, new: Entry | None) -> Iterator[Change]:
    """Yield that what holds objects, and is called no List, has come, gone or changed; its objects tell the rest."""
    texts = [entry.text if entry else "" for entry in (old, new)]
    if texts[0] != texts[1]:
        text, severity = "holds objects that clusters apply one by one, without the list itself", Severity.DANGER
        if not new:
            text, severity = "is gone; it held objects that clusters apply one by one", Severity.WARNING
        yield Pair(name, MISSING, MISSING).change(ChangeKind.OTHER, severity, text, "items", *map(repr, texts))


def _entry(name: ObjectId, old: Entry | None, new: Entry | None, room: Room) -> Iterator[Change]:
    """Yield the changes of one object, or of one document that is none."""
    unreadable = [entry for entry in (old, new) if entry and not entry.document]
    if old and new and old.text == new.text:
        return
    if unreadable:
        pair = Pair(name, MISSING, MISSING)
        text = f"cannot be read, so its changes are unknown: {shown(unreadable[-1].problem)}"
        yield pair.change(ChangeKind.OTHER, Severity.DANGER, text, *(repr(it and it.text) for it in (old, new)))
        return
    before, after = (entry.document if entry else None for entry in (old, new))
    pair = Pair(name, before.value if before else MISSING, after.value if after else MISSING)
    if before and after and old and new:
        found = False
        for change in chain(changed(pair, room), _layout_changes(name, before, after)):
            found = True
            yield change
        if not found:
            yield rewritten(name, old.text, new.text)
    else:
        yield from come_or_gone(pair, room)


def _order(old: Iterable[Entry], new: Iterable[Entry], file: ObjectId) -> Iterator[Change]:
    before, after = (list(dict.fromkeys(entry.id for entry in entries)) for entries in (old, new))
    common = set(before) & set(after)
    orders = [[str(name) for name in names if name in common] for names in (before, after)]
    if orders[0] != orders[1]:
        pair = Pair(file, orders[0], orders[1], "order")
        yield pair.change(ChangeKind.OTHER, Severity.INFO, "has its objects in another order")


def together(found: Iterable[Change], file: ObjectId) -> list[Change]:
    """Return the changes with those of metadata that are the same on several objects as one."""
    rest: list[Change] = []
    same: defaultdict[tuple[ChangeKind, str, str, str], list[Change]] = defaultdict(list)
    for change in found:
        if change.kind in _OF_METADATA and change.object != file and _is_shown_whole(change):
            same[change.kind, change.path.rpartition("metadata.")[2], change.old, change.new].append(change)
        else:
            rest.append(change)
    for (kind, path, old, new), those in same.items():
        objects = {change.object for change in those}
        if len(objects) == 1 and kind is ChangeKind.METADATA:
            rest += those
            continue
        instead = f" instead of {old}" if old and new else ""
        text = f"has {path.replace('.', ' ', 1)}: {new or 'none'}{instead} on {len(objects)} objects"
        parts = [] if kind is ChangeKind.VERSION_LABEL else sorted(change.fingerprint for change in those)
        rest.append(Pair(file, old, new, path).change(kind, Severity.INFO, text, old, new, *parts))
    return rest


def _is_shown_whole(change: Change) -> bool:
    """Return whether what people see of a change is all of it: nothing is cut, escaped or hidden."""
    seen = change.path + change.old + change.new
    return (
        len(seen) < 2 * _SHORT and len(change.path) < _SHORT and _ESCAPE not in seen and change.object.kind != _HIDDEN
    )
