"""Whether a patch that means an item of a list by its number still means the same item.

Items are known by a flag's name, by the key that Kubernetes merges them by, or else by all that they say.
"""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_automation.overlay.effort import Effort
    from ci_automation.overlay.patching import Touch

_KEYS = ("name", "mountPath", "containerPort", "port", "devicePath", "ip", "topologyKey", "key")
_SHOWN = 80
_MAX_ITEMS = 200  # to hold two lists against each other takes up to the third power of it


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
    return Shift(shown(meant), shown(means), now_at, is_sure)


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


def shown(item: Any) -> str:  # noqa: ANN401
    """Return an item as people read it, in one line."""
    text = item if isinstance(item, str) else json.dumps(item, sort_keys=True, default=str)
    text = "".join(sign if sign.isprintable() else "?" for sign in text)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
