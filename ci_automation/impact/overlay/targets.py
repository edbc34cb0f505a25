"""Differences between what a kustomization's rules hit with the old components and with the new ones.

A number means an item of a list. Items are known by a flag's name, by the key that Kubernetes merges them by, or else
by all that they say.
"""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.impact.change import Certainty, Hazard, ObjectId, fingerprint, printable_line, some_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ci_automation.impact.overlay.kustomization import Effort
    from ci_automation.impact.overlay.outcome import Effect, Followed, Touch

GATE = "overlay"
_LISTED = 8
_KEYS = ("name", "mountPath", "containerPort", "port", "devicePath", "ip", "topologyKey", "key")
_SHOWN = 80
_MAX_ITEMS = 200  # to hold two lists against each other takes up to the third power of it


def lost_targets(before: Followed | None, after: Followed, effort: Effort) -> Iterator[Hazard]:
    """Yield a hazard for each rule that does not do to the new components what it did to the old ones.

    `before` is None where there was nothing, or nothing tells what its rules did. A new rule that hits nothing is more
    than advice: its author has probably mistyped its target.

    Raises:
        TooMuch: to compare them is more than what is left of the effort.
    """
    known: Mapping[str, Effect] = before.effects if before else {}
    for key, effect in after.effects.items():
        old = known.get(key)
        if effect.objects:
            yield from _fewer(old, effect, after.present) if old else ()
            yield from _shifted(old, effect, effort) if old else ()
        elif old is not None and old.objects:
            effort.spend(len(after.present))
            yield _lost(old, effect, after.present)
        else:
            yield _never(effect, is_new=before is not None and old is None)


def _lost(old: Effect, effect: Effect, present: frozenset[ObjectId]) -> Hazard:
    rule = effect.rule
    kinds = {each.kind for each in old.objects}
    others = sorted(str(each) for each in present if each.kind in kinds)
    there = f"; there is {_some(others)}" if others else ""
    return Hazard(
        GATE,
        Certainty.CERTAIN,
        f"{_named(effect)} hits nothing",
        f"{effect.rule.what} matched {_some(old.objects)}, and matches nothing of the new components",
        rule.places,
        (f"{rule.places[0]}: name what it is meant for, or remove {rule.name}{there}",),
    )


def _never(effect: Effect, *, is_new: bool) -> Hazard:
    rule = effect.rule
    return Hazard(
        GATE,
        Certainty.POSSIBLE if is_new else Certainty.ADVICE,
        f"{_named(effect)} never hit anything",
        f"{effect.rule.what} {'is new, and ' if is_new else ''}matches nothing",
        rule.places,
        (f"{rule.places[0]}: remove {rule.name}, or name what it is meant for",),
    )


def _fewer(old: Effect, effect: Effect, present: frozenset[ObjectId]) -> Iterator[Hazard]:
    """Yield a hazard where objects that are still there are not hit any more, and others are."""
    rule = effect.rule
    hit = set(effect.objects)
    missed = [each for each in dict.fromkeys(old.objects) if each in present and each not in hit]
    if missed:
        yield Hazard(
            GATE,
            Certainty.POSSIBLE,
            f"{_named(effect)} misses {', '.join(map(_whole, missed))}",
            f"{effect.rule.what} does not match {_some(missed)} any more, which is still there",
            rule.places,
            (f"{rule.places[0]}: let {rule.name} match it, if it is to be changed",),
        )


def _shifted(old: Effect, effect: Effect, effort: Effort) -> Iterator[Hazard]:
    """Yield a hazard for the first number on the way of each operation that means something else than before."""
    before = dict(_numbered(old))
    told: set[tuple[ObjectId, str]] = set()
    for key, hit in _numbered(effect):
        first = before.get(key)
        if first is None or not _inside(first) or not _inside(hit):
            continue
        effort.spend(len(told))
        outer = any(hit.object == each and _is_within(hit.pointer, pointer) for each, pointer in told)
        if not outer and (found := shift(first, hit, effort)):
            told.add((hit.object, hit.pointer))
            yield _moved(effect, hit, found)


def _numbered(effect: Effect) -> Iterator[tuple[tuple[ObjectId, str, str, int], Touch]]:
    """Yield what a rule means by number, each with what it shares with another run's: object, operation, path."""
    seen: dict[tuple[ObjectId, str, str], int] = {}
    for hit in effect.touches:
        key = (hit.object, hit.op, hit.pointer)
        seen[key] = count = seen.get(key, -1) + 1
        yield (*key, count), hit


def _is_within(pointer: str, outer: str) -> bool:
    """Tell whether a pointer, or a path of a field, is another one or goes on from it."""
    return pointer.startswith(outer) and pointer[len(outer) :][:1] in ("", "/", ".")


def _inside(touch: Touch) -> bool:
    return 0 <= touch.index < len(touch.elements)


def _moved(effect: Effect, touch: Touch, found: Shift) -> Hazard:
    rule = effect.rule
    where = "is gone" if found.now_at is None else f"is number {found.now_at} now"
    place = rule.places[-1]
    fix = (f"{place}: change the number {touch.index} in {touch.pointer} to {found.now_at}",)
    advice = (
        f"{place}: name what you mean by its key in a strategic merge patch, or put an operation `test` before, "
        "which makes the build fail where the number means something else"
    )
    return Hazard(
        GATE,
        Certainty.CERTAIN if found.is_sure else Certainty.POSSIBLE,
        f"{_named(effect)} {_whole(touch.object)} {touch.pointer} {fingerprint(found.meant, found.means)}",
        f"{rule.what} means {touch.pointer} of {touch.object}: that was {found.meant} and is {found.means} in the "
        f"new components; the former {where}",
        rule.places,
        (*fix, advice) if found.now_at is not None else (advice,),
    )


def _named(effect: Effect) -> str:
    """Return what exactly a rule is: acknowledged once, another one at its place is not."""
    return f"{effect.rule.file} {effect.rule.name.partition('[')[0]} {effect.rule.key}"


def _whole(each: ObjectId) -> str:
    return f"{each.group}/{each}"


def _some(names: Iterable[object]) -> str:
    return some_of(list(dict.fromkeys(map(str, names))), _LISTED)


class Shift(Struct, frozen=True):
    """An item that a number meant, the one that it means now, and where the former is: None where it is gone.

    `is_sure` is false where the item may be the same one, changed.
    """

    meant: str
    means: str
    now_at: int | None
    is_sure: bool


def shift(before: Touch, after: Touch, effort: Effort) -> Shift | None:
    """Return how the meaning of a number changed, or None where it did not; both touches are inside their lists.

    Raises:
        TooMuch: to compare them is more than what is left of the effort.
    """
    old, new = _known_by(before.elements, after.elements)
    meant, means = old[before.index], new[after.index]
    if meant == means:
        return None
    if meant in new:
        return _shift(before, after, new.index(meant), is_sure=True)
    by_content = meant.startswith("{")
    if by_content and before.index == after.index and _is_edited(old, new, before.index, effort):
        return None
    return _shift(before, after, None, is_sure=not by_content)


def _shift(before: Touch, after: Touch, now_at: int | None, *, is_sure: bool) -> Shift:
    meant, means = before.elements[before.index], after.elements[after.index]
    if isinstance(meant, dict) and isinstance(means, dict):
        keys = [key for key in meant | means if meant.get(key) != means.get(key)]
        meant, means = ({key: item[key] for key in keys if key in item} for item in (meant, means))
    return Shift(in_one_line(meant), in_one_line(means), now_at, is_sure)


def _known_by(*lists: Sequence[Any]) -> list[list[str]]:
    """Return by what the items of the lists are known: a key that all of them have, or what they say."""
    every = [item for items in lists for item in items]
    if all(isinstance(item, dict) for item in every):
        for key in _KEYS:
            if all(isinstance(item.get(key), str | int) for item in every):
                return [[str(item[key]) for item in items] for items in lists]
    return [[_content(item) for item in items] for items in lists]


def _content(item: Any) -> str:  # noqa: ANN401  # an item of an object's list
    if isinstance(item, str):
        return item.partition("=")[0] if item.startswith("-") else item
    return "{" + json.dumps(item, sort_keys=True, default=str)


def _is_edited(old: list[str], new: list[str], index: int, effort: Effort) -> bool:
    """Return whether an item stands between the same others as before, so that it is the same one with other words."""
    if max(len(old), len(new)) > _MAX_ITEMS:
        return False
    effort.spend(len(old) * len(new))
    for tag, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if start <= index < end:
            return tag == "replace" and (start, end - start) == (new_start, new_end - new_start)
    return False  # pragma: no cover  # every index of `old` is in one of them


def in_one_line(item: Any) -> str:  # noqa: ANN401
    """Return an item as people read it, in one line."""
    text = printable_line(item if isinstance(item, str) else json.dumps(item, sort_keys=True, default=str))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
