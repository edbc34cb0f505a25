"""JSON objects as Go's `encoding/json` reads and writes them: what Flux reads is read here, and nothing else."""

from __future__ import annotations

import json
from typing import Any


def parse_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in `raw`.

    Raises:
        ValueError: it is not UTF-8, not JSON, has numbers or half characters that are none, or is no object.
    """
    try:
        value = json.loads(raw.decode(), parse_constant=_no_number)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - the text is at fault, not the caller
    return value


def _no_number(name: str) -> None:
    raise ValueError(name)


def written(value: object) -> bytes:
    """Return `value` as Go writes it: no spaces, UTF-8, and HTML's characters escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode()
