"""What a kustomization's rules hit with the old components, and what with the new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.impact.change import fingerprint
from ci_automation.impact.hazard import Certainty, Hazard
from ci_automation.overlay.shift import shift

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_automation.impact.change import ObjectId
    from ci_automation.overlay.effort import Effort
    from ci_automation.overlay.resource import Accumulated, Effect, Hit
    from ci_automation.overlay.shift import Shift

GATE = "overlay"
_LISTED = 8


def lost_targets(before: Accumulated | None, after: Accumulated, effort: Effort) -> Iterator[Hazard]:
    """Yield a hazard for each rule that does not do to the new components what it did to the old ones.

    `before` is None where there was no such kustomization.

    Raises:
        TooMuch: to compare them is more than what is left of the effort.
    """
    known: Mapping[str, Effect] = before.effects if before else {}
    present = {each.original.object for each in after.resources}
    for key, effect in after.effects.items():
        old = known.get(key)
        if effect.objects:
            yield from _fewer(old, effect, present) if old else ()
            yield from _shifted(old, effect, effort) if old else ()
        elif old is not None and old.objects:
            effort.spend(len(present))
            yield _lost(old, effect, present)
        elif not after.remotes:
            yield _never(effect)


def _lost(old: Effect, effect: Effect, present: set[ObjectId]) -> Hazard:
    rule = effect.rule
    kinds = {each.kind for each in old.objects}
    others = sorted(str(each) for each in present if each.kind in kinds)
    there = f"; there is {_some(others)}" if others else ""
    return Hazard(
        GATE,
        Certainty.CERTAIN,
        f"{_named(effect)} hits nothing",
        f"{effect.what} matched {_some(old.objects)}, and matches nothing of the new components",
        rule.places,
        (f"{rule.places[0]}: name what it is meant for, or remove {rule.field}{there}",),
    )


def _never(effect: Effect) -> Hazard:
    rule = effect.rule
    return Hazard(
        GATE,
        Certainty.ADVICE,
        f"{_named(effect)} never hit anything",
        f"{effect.what} matches nothing",
        rule.places,
        (f"{rule.places[0]}: remove {rule.field}, or name what it is meant for",),
    )


def _fewer(old: Effect, effect: Effect, present: set[ObjectId]) -> Iterator[Hazard]:
    """Yield a hazard where objects that are still there are not hit any more, and others are."""
    rule = effect.rule
    hit = set(effect.objects)
    missed = [each for each in dict.fromkeys(old.objects) if each in present and each not in hit]
    if missed:
        yield Hazard(
            GATE,
            Certainty.POSSIBLE,
            f"{_named(effect)} misses {', '.join(map(_whole, missed))}",
            f"{effect.what} does not match {_some(missed)} any more, which is still there",
            rule.places,
            (f"{rule.places[0]}: let {rule.field} match it, if it is to be changed",),
        )


def _shifted(old: Effect, effect: Effect, effort: Effort) -> Iterator[Hazard]:
    """Yield a hazard for the first number on the way of each operation that means something else than before."""
    before = dict(_numbered(old))
    told: set[tuple[ObjectId, str]] = set()
    for key, hit in _numbered(effect):
        first, now = before.get(key), hit.touch
        if first is None or not _inside(first) or not _inside(hit):
            continue
        effort.spend(len(told))
        outer = any(hit.object == each and _is_within(now.pointer, pointer) for each, pointer in told)
        if not outer and (found := shift(first.touch, now, effort)):
            told.add((hit.object, now.pointer))
            yield _moved(effect, hit, found)


def _numbered(effect: Effect) -> Iterator[tuple[tuple[ObjectId, str, str, int], Hit]]:
    """Yield what a rule means by number, each with what it shares with another run's: object, operation, path."""
    seen: dict[tuple[ObjectId, str, str], int] = {}
    for hit in effect.touches:
        key = (hit.object, hit.touch.op, hit.touch.pointer)
        seen[key] = count = seen.get(key, -1) + 1
        yield (*key, count), hit


def _is_within(pointer: str, outer: str) -> bool:
    """Tell whether a pointer, or a path of a field, is another one or goes on from it."""
    return pointer.startswith(outer) and pointer[len(outer) :][:1] in ("", "/", ".")


def _inside(hit: Hit) -> bool:
    return 0 <= hit.touch.index < len(hit.touch.elements)


def _moved(effect: Effect, hit: Hit, found: Shift) -> Hazard:
    rule, touch = effect.rule, hit.touch
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
        f"{_named(effect)} {_whole(hit.object)} {touch.pointer} {fingerprint(found.meant, found.means)}",
        f"{effect.what} means {touch.pointer} of {hit.object}: that was {found.meant} and is {found.means} in the "
        f"new components; the former {where}",
        rule.places,
        (*fix, advice) if found.now_at is not None else (advice,),
    )


def _named(effect: Effect) -> str:
    """Return what exactly a rule is: acknowledged once, another one at its place is not."""
    return f"{effect.rule.file} {effect.rule.field.partition('[')[0]} {effect.rule.mark}"


def _whole(each: ObjectId) -> str:
    return f"{each.group}/{each}"


def _some(names: Iterable[object]) -> str:
    """Return some names as people list them."""
    every = list(dict.fromkeys(str(each) for each in names))
    more = f" and {len(every) - _LISTED} more" if len(every) > _LISTED else ""
    return ", ".join(every[:_LISTED]) + more
