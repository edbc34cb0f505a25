"""Objects as YAML in the block style, which every version of YAML reads the same."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# What no version of YAML takes for anything but a text.
_PLAIN = re.compile(
    r"[a-z]{6,}|[a-z]+(-[a-z0-9]+)+|\./[a-z0-9/-]*|oci://[a-z0-9.:/_-]+|[a-z]+\.toolkit\.fluxcd\.io/v[0-9a-z]+"
    r"|OCIRepository|Kustomization|([0-9]+(ms|s|m|h))+"
)
_KEY = re.compile(r"[A-Za-z]{6,}|kind|name|spec|url|ref|tag|path|prune|wait")
_PRINTABLE = re.compile(r"[ -!#-\[\]-~]")


def as_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """Return objects as YAML, each one after a separator."""
    return "".join("\n".join(["---", *_lines(each, ""), ""]) for each in objects)


def quoted(text: str) -> str:
    """Return a text between single quotes, in which a backslash is one, or else between double quotes."""
    return "'" + text.replace("'", "''") + "'" if text.isascii() and text.isprintable() else _scalar(text)


def _lines(value: Mapping[str, Any], indent: str) -> list[str]:
    """Return a mapping in the block style."""
    lines = []
    for name, item in value.items():
        key = f"{indent}{name}:" if _KEY.fullmatch(name) else f"{indent}{_scalar(name)}:"
        match item:
            case dict() if item:
                lines += [key, *_lines(item, f"{indent}  ")]
            case list() if item:
                lines += [key, *_items(item, f"{indent}  ")]
            case _:
                lines.append(f"{key} {_inline(item)}")
    return lines


def _items(items: list[Any], indent: str) -> list[str]:
    """Return a list in the block style."""
    lines = []
    for item in items:
        below = f"{indent}  "
        inner = (_lines if isinstance(item, dict) else _items)(item, below) if _is_nested(item) else [_inline(item)]
        first, *rest = inner
        lines += [f"{indent}- {first.removeprefix(below)}", *rest]
    return lines


def _is_nested(item: object) -> bool:
    return isinstance(item, dict | list) and bool(item)


def _inline(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case dict():
            return "{}"
        case list():
            return "[]"
        case _:
            return _scalar(str(value))


def _scalar(text: str) -> str:
    """Return a text as YAML has it: between quotes, unless nobody could take it for anything else."""
    return text if _PLAIN.fullmatch(text) else f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if _PRINTABLE.fullmatch(character):
        return character
    if character in '"\\':
        return f"\\{character}"
    return f"\\U{ord(character):08x}"
