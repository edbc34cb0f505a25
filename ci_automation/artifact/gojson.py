"""JSON objects as Go's `encoding/json` reads and writes them, so that this program reads the same as Flux."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

_MAX_DEPTH = 64


class Ambiguous(ValueError):
    """Two readers would read the same JSON differently."""


def parse_object(raw: bytes, names: Collection[str], free: str) -> dict[str, Any]:
    """Return the JSON object in `raw`, if Go reads the same in it.

    Go ignores the case of a key that names a field (`encoding/json`, *Unmarshal*), and takes the last one of several.
    So this refuses a key that is one of `names` in another case, and two keys that are the same to Go. The value of the
    key `free` is a map, whose keys Go takes as they are.

    Raises:
        Ambiguous: Go would read the object differently.
        ValueError: `raw` is not UTF-8, not JSON, or not an object; or it has invalid numbers or half characters, or
            nests too deeply.
    """
    try:
        value = json.loads(raw.decode(), parse_constant=_no_number, object_pairs_hook=unique)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # half a surrogate pair is no text
    except Ambiguous:
        raise
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - the text is at fault, not the caller
    _check(value, frozenset(names), free)
    return value


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs; raise `Ambiguous` if two have the same key."""
    value: dict[str, Any] = {}
    for key, member in pairs:
        if key in value:
            raise Ambiguous(f"it has the key {key[:60]!a} twice")
        value[key] = member
    return value


def _check(value: dict[str, Any], names: frozenset[str], free: str) -> None:
    """Refuse keys that Go would read differently, and values that nest too deeply for recursion."""
    left: list[tuple[dict[str, Any] | list[Any], int, bool]] = [(value, 1, False)]
    while left:
        part, depth, is_map = left.pop()
        if part and depth == _MAX_DEPTH:
            raise ValueError("it nests too deeply")
        if isinstance(part, list):
            left += ((each, depth + 1, False) for each in part if isinstance(each, list | dict))
            continue
        if not (is_map or part.keys() <= names):
            _check_keys(part, names)
        left += (
            (each, depth + 1, key == free and not is_map) for key, each in part.items() if isinstance(each, list | dict)
        )


def _check_keys(keys: Collection[str], names: Collection[str]) -> None:
    to_go = {same_to_go(name): name for name in names}
    seen = set()
    for key in keys:
        folded = same_to_go(key)
        if (name := to_go.get(folded, key)) != key:
            raise Ambiguous(f"its key {key!a} is {name!a} to Go")
        if folded in seen:
            raise Ambiguous(f"it has the key {key[:60]!a} twice to Go")
        seen.add(folded)


def same_to_go(key: str) -> str:
    """Return a text that is equal for all keys that are equal to Go, and for few others (to Go, `ß` is not `ss`)."""
    return key.casefold()


def _no_number(name: str) -> None:
    raise ValueError(name)


def written(value: object) -> bytes:
    """Return `value` as Go writes it: no spaces, UTF-8, and HTML's characters escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode()
