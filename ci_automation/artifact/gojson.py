"""JSON objects as Go's `encoding/json` reads and writes them: what Flux reads is read here, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

_MAX_DEPTH = 64


class Ambiguous(ValueError):
    """Two readers take different things from the same JSON."""


def parse_object(raw: bytes, names: Collection[str], free: str) -> dict[str, Any]:
    """Return the JSON object in `raw`, if Go reads the same in it.

    Go takes a key for a field's name whatever the case of its letters (`encoding/json`, *Unmarshal*), and the last one
    of several. So a key is refused that is one of `names` in another case, and so are two that are the same to Go.
    Under the key `free` is a map, whose keys are what they are.

    Raises:
        Ambiguous: Go reads something else.
        ValueError: it is not UTF-8, not JSON, has numbers or half characters that are none, nests too deeply, or is no
            object.
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
    _check(value, {same_to_go(name): name for name in names}, free)
    return value


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs.

    Raises:
        Ambiguous: a key is there twice.
    """
    value: dict[str, Any] = {}
    for key, member in pairs:
        if key in value:
            raise Ambiguous(f"it has the key {key[:60]!a} twice")
        value[key] = member
    return value


def _check(value: dict[str, Any], names: dict[str, str], free: str) -> None:
    """Refuse what Go reads otherwise, and what nests too deeply to be walked by recursion anywhere."""
    left: list[tuple[object, int, bool]] = [(value, 1, False)]
    while left:
        part, depth, is_map = left.pop()
        if depth > _MAX_DEPTH:
            raise ValueError("it nests too deeply")
        if isinstance(part, list):
            left += ((each, depth + 1, False) for each in part)
        elif isinstance(part, dict):
            if not is_map:
                _check_keys(part, names)
            left += ((each, depth + 1, key == free and not is_map) for key, each in part.items())


def _check_keys(keys: Collection[str], names: dict[str, str]) -> None:
    seen = set()
    for key in keys:
        folded = same_to_go(key)
        if (name := names.get(folded, key)) != key:
            raise Ambiguous(f"its key {key!a} is {name!a} to Go")
        if folded in seen:
            raise Ambiguous(f"it has the key {key[:60]!a} twice to Go")
        seen.add(folded)


def same_to_go(key: str) -> str:
    """Return what is the same for all keys that are the same to Go, and for few others (`ß` is no `ss` to it)."""
    return key.casefold()


def _no_number(name: str) -> None:
    raise ValueError(name)


def written(value: object) -> bytes:
    """Return `value` as Go writes it: no spaces, UTF-8, and HTML's characters escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode()
