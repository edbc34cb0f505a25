"""Changes of a custom resource definition: its versions, and what each of them accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci_automation.impact.change import Change, ChangeKind, Severity
from ci_automation.impact.schema import schema_changes, text_change
from ci_automation.impact.values import MISSING, Pair, at, by_key, canonical, items, listed, other, row, shown, switch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.impact.values import Rules


def _shorthand(pair: Pair) -> Iterator[Change]:
    """Yield another way for people to find the objects, which nothing else knows them by."""
    now = listed([str(name) for name in items(pair.new)]) or "nothing"
    yield text_change(pair, f"changes its {pair.path.rpartition('.')[2]} for kubectl to {now}")


def _versions(pair: Pair) -> Iterator[Change]:
    """Yield the changes of the list of versions; one that does not tell them by their names is a change as a whole."""
    old, new = _by_name(pair.old), _by_name(pair.new)
    if old is None or new is None:
        yield from other(pair)
        return
    moved = tuple(_storage(pair, old, new))
    yield from moved
    for name in dict.fromkeys((*new, *old)):
        side = Pair(pair.id, old.get(name, MISSING), new.get(name, MISSING), name)
        if side.differs:
            yield from _version(side, moved=bool(moved))
    if [name for name in old if name in new] != [name for name in new if name in old]:
        yield text_change(pair, "has its versions in another order")


def _by_name(versions: Any) -> dict[str, Any] | None:  # noqa: ANN401 - a value of YAML
    """Return the versions by their names, and by its value what stands in the place of one that is left out."""
    found: dict[str, Any] = {}
    for version in items(versions):
        name = at(version, "name")
        key = name if isinstance(name, str) else canonical(version)
        if key in found:
            return None
        found[key] = version
    return found if isinstance(versions, list) else None


def _storage(pair: Pair, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Change]:
    before, after = ([name for name, it in side.items() if at(it, "storage") is True] for side in (old, new))
    if len(before) == len(after) == 1 and before != after:
        place = Pair(pair.id, before[0], after[0], pair.path)
        said = f"stores objects as {shown(after[0])} instead of {shown(before[0])}"
        yield place.change(ChangeKind.STORAGE_MOVED, Severity.NOTICE, said)


def _version(side: Pair, *, moved: bool) -> Iterator[Change]:
    if side.old is MISSING:
        served = "" if at(side.new, "served") is True else ", which is not served"
        yield side.change(ChangeKind.VERSION_ADDED, Severity.INFO, f"adds version {side.path}{served}")
    elif side.new is MISSING:
        said = f"removes version {side.path}: clusters refuse objects that use it"
        yield side.change(ChangeKind.VERSION_REMOVED, Severity.DANGER, said)
    else:
        if moved:
            old, new = ({**it, "storage": None} if isinstance(it, dict) else it for it in (side.old, side.new))
            side = Pair(side.id, old, new, side.path)
        texts: list[Change] = []
        for change in by_key(side, _VERSION_RULES):
            if change.kind is ChangeKind.TEXT:
                texts.append(change)
            else:
                yield change
        yield from _together(side, texts)


def _together(side: Pair, texts: list[Change]) -> Iterator[Change]:
    """Yield one change for all texts of a version, known by each of them."""
    if len(texts) > 1:
        place = Pair(side.id, "", "", side.path)
        said = f"changes {len(texts)} texts of {side.path}, without effect: {listed([it.path for it in texts], 2)}"
        yield place.change(ChangeKind.TEXT, Severity.INFO, said, *(it.fingerprint for it in texts))
    else:
        yield from texts


def _columns(side: Pair) -> Iterator[Change]:
    names = [str(at(column, "name")) for column in items(side.new)]
    said = f"changes the columns that kubectl lists in {side.path.rpartition('.')[0]}: {listed(names) or 'none'}"
    yield side.change(ChangeKind.PRINTER_COLUMNS, Severity.INFO, said)


def _open_api(side: Pair) -> Iterator[Change]:
    yield from schema_changes(Pair(side.id, side.old, side.new, side.path.removesuffix(".schema.openAPIV3Schema")))


_VERSION_RULES: Rules = {
    "additionalPrinterColumns": _columns,
    "deprecated": switch(
        on=row(ChangeKind.VERSION_DEPRECATED, Severity.NOTICE, "marks {within} as deprecated"),
        off=row(ChangeKind.VERSION_DEPRECATED, Severity.INFO, "no longer marks {within} as deprecated"),
    ),
    "deprecationWarning": row(ChangeKind.TEXT, Severity.INFO, "changes {path}"),
    "schema": {"openAPIV3Schema": _open_api},
    "served": switch(
        on=row(ChangeKind.VERSION_ADDED, Severity.INFO, "serves {within} again"),
        off=row(
            ChangeKind.VERSION_NOT_SERVED,
            Severity.DANGER,
            "stops serving {within}: clusters refuse objects that use it",
        ),
    ),
}
_IDENTITY = row(ChangeKind.OTHER, Severity.DANGER, "changes {path} to {new} (was: {old}): clusters refuse that")
CRD_SPEC: Rules = {
    "group": _IDENTITY,
    "names": {"categories": _shorthand, "kind": _IDENTITY, "plural": _IDENTITY, "shortNames": _shorthand},
    "preserveUnknownFields": switch(
        on=row(ChangeKind.VALIDATION_LOOSENED, Severity.NOTICE, "keeps fields that its schema does not have"),
        off=row(ChangeKind.VALIDATION_TIGHTENED, Severity.WARNING, "drops fields that its schema does not have"),
    ),
    "scope": _IDENTITY,
    "versions": _versions,
}
