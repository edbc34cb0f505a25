"""The one reader of YAML (YAML 1.1, as Kubernetes and kustomize read it), within limits: events, and nodes with marks.

It reads only the safe part of YAML: a text cannot construct objects, and aliases cannot unfold to more than the limit.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    import yaml

NOT_YAML = "it is not YAML"  # the first words of a reason
MAX_DEPTH = 100  # libyaml takes time that grows with the square of it
_MAX_EVENTS = 500_000
_MAX_NODES = 200_000  # with everything that aliases stand for
_MAX_BITS = 64
_TAG = "tag:yaml.org,2002:"
_PLAIN = frozenset({f"{_TAG}bool", f"{_TAG}int", f"{_TAG}float", f"{_TAG}null"})
_MERGE = f"{_TAG}merge"
# What no version of YAML takes for anything but a text, and texts of several lines of which a block loses nothing.
_TEXT = re.compile(
    r"(?!(?i:true|false|null|yes|no|on|off|y|n)\Z)[A-Za-z]+(_[A-Za-z]+)*|[a-z]+(-[a-z0-9]+)+|\./[a-z0-9/-]*"
    r"|oci://[a-z0-9.:/_-]+|[a-z]+(\.[a-z]+)+/[a-z0-9-]+|([0-9]+(ms|s|m|h))+|\$\{\{ [a-z]+\.[A-Z_]+ \}\}"
)
_BLOCK = re.compile(r"(?=[!-~])(?:[ -~]*[!-~]\n|\n)*[ -~]*[!-~]\n?")
_CONFLICT = re.compile(r"^(?:<{7}|>{7})(?= )", re.MULTILINE)


class Unreadable(Exception):  # not an error of the run: the caller turns it into one
    """A text is not YAML, or not in the supported part of YAML; `line` and `column` are 0 if unknown."""

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column


class BeyondLimits(Unreadable):
    """A text is more than what is read here; other programs may read it."""


def events(text: str, most: int = _MAX_EVENTS, deepest: int = MAX_DEPTH) -> Iterator[yaml.Event]:
    """Yield the events of a text with any number of documents, at most `most`, without keeping them in memory.

    Raises:
        Unreadable: the text is not YAML, or too long or too deep.
    """
    import yaml

    depth = 0
    with _yaml_alone(text):
        for number, event in enumerate(yaml.parse(text, Loader=yaml.CSafeLoader)):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > deepest:
                raise BeyondLimits(f"it is nested deeper than {deepest} levels", *_place(event.start_mark))
            if number > most:
                raise BeyondLimits(f"it has more than {most} values", *_place(event.start_mark))
            yield event


@contextmanager
def _yaml_alone(text: str) -> Iterator[None]:
    """Turn errors about a text that is not YAML into `Unreadable`."""
    import yaml

    try:
        yield
    except yaml.MarkedYAMLError as error:
        if conflict := _CONFLICT.search(text):
            line = text.count("\n", 0, conflict.start()) + 1
            raise Unreadable(f"{NOT_YAML}: {conflict[0]} is a conflict marker of Git", line, 1) from None
        line, column = _place(error.problem_mark)
        line = min(line, text.count("\n") + (not text.endswith("\n")))  # it may be the line after the last one
        at_tab = "".join(text.split("\n")[line - 1 : line])[column - 1 : column] == "\t"
        if at_tab and any(words in (error.problem or "") for words in ("tab character", "cannot start any token")):
            reason = f"{NOT_YAML}: a tab character in column {column}; YAML indents with blanks"
            raise Unreadable(reason, line, column) from None
        reason = " ".join(filter(None, (error.context, error.problem)))
        raise Unreadable(f"{NOT_YAML}: {reason}", line, column) from None
    except (yaml.YAMLError, UnicodeError) as error:  # of the reader, which has no mark
        position = getattr(error, "position", None)
        line = 0 if position is None else text.encode().count(b"\n", 0, position) + 1
        raise Unreadable(f"{NOT_YAML}: it has a control character", line) from None


class _Mark(Protocol):
    """Place in a text: libyaml's mark, or PyYAML's own."""

    @property
    def line(self) -> int:
        """Return the number of lines before the place."""

    @property
    def column(self) -> int:
        """Return the number of characters before it in its line."""


def _place(mark: _Mark | None) -> tuple[int, int]:
    return (mark.line + 1, mark.column + 1) if mark else (0, 0)


@lru_cache(maxsize=64)  # a file of an overlay is looked at from several sides
def aliases_in(text: str) -> int:
    """Return how many aliases a text has, which takes reading all of it.

    Raises:
        Unreadable: the text is not YAML, or too long or too deep.
    """
    import yaml

    return sum(isinstance(event, yaml.AliasEvent) for event in events(text, _MAX_NODES))


def nodes(written: str) -> tuple[yaml.Node, ...]:
    """Return the root node of each document that is not empty.

    Raises:
        Unreadable: the text is not YAML, or unfolds to too many values.
    """
    import yaml

    # The events take no memory. They are checked before nodes are built.
    aliases = aliases_in(written)
    with _yaml_alone(written):
        found = tuple(yaml.compose_all(written, Loader=yaml.CSafeLoader))
    sizes: dict[int, int] = {}
    if aliases and sum(_size(node, sizes) for node in found) > _MAX_NODES:
        raise BeyondLimits(f"it unfolds to more than {_MAX_NODES} values")
    return tuple(node for node in found if node.tag != f"{_TAG}null")


def is_a(node: yaml.Node, kind: str) -> bool:
    """Return whether a node is a mapping, a sequence or a scalar, whatever its tag says."""
    return getattr(node, "id", "") == kind


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if is_a(node, "mapping"):
        for pair in node.value:
            yield from pair
    elif is_a(node, "sequence"):
        yield from node.value


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return the number of values that a node unfolds to; a node that contains itself unfolds to too many."""
    if id(node) not in sizes:
        sizes[id(node)] = _MAX_NODES + 1
        sizes[id(node)] = 1 + sum(_size(child, sizes) for child in _children(node))
    return sizes[id(node)]


def plain(node: yaml.Node) -> Any:  # noqa: ANN401  # a document holds anything
    """Return the value of a node: dictionaries by text, lists and scalars; other scalars are their text.

    Raises:
        Unreadable: a key is not a scalar, or a merged value is not a mapping.
    """
    if is_a(node, "mapping"):
        return _mapping(node)
    if is_a(node, "sequence"):
        return [plain(item) for item in node.value]
    return _scalar(node)


def _mapping(node: yaml.Node) -> dict[str, Any]:
    own: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    for key, value in node.value:
        if key.tag == _MERGE:
            for each in value.value if is_a(value, "sequence") else (value,):
                if not is_a(each, "mapping"):
                    raise Unreadable("<< merges a value that is not a mapping", _place(key.start_mark)[0])
                merged = _mapping(each) | merged
        elif is_a(key, "scalar"):
            own[key.value] = plain(value)
        else:
            raise Unreadable("a key is not a text", _place(key.start_mark)[0])
    return merged | own


def repeated(node: yaml.Node) -> int:
    """Return the line of the first duplicate key, which kustomize refuses in objects, or 0 without one."""
    if is_a(node, "mapping"):
        seen: set[str] = set()
        for key in (key for key, _ in node.value if is_a(key, "scalar")):
            if key.value in seen:
                return _place(key.start_mark)[0]
            seen.add(key.value)
    return next((line for child in _children(node) if (line := repeated(child))), 0)


def _scalar(node: yaml.Node) -> object:
    try:
        return scalar(node) if node.tag in _PLAIN else node.value
    except ValueError:
        return node.value


def scalar(node: yaml.Node) -> object:
    """Return the value of a scalar, as its tag says.

    Raises:
        ValueError: it is none, such as `!!int x`, or has more digits than Python prints.
    """
    from yaml.constructor import SafeConstructor

    try:
        value: object = SafeConstructor().construct_object(node)
    except KeyError as error:  # `!!bool x`
        raise ValueError from error
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise ValueError(value.bit_length())
    return value


def text(value: object) -> str:
    """Return a scalar's text, empty for other values."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None or isinstance(value, dict | list) else str(value)


def place_of(node: yaml.Node, *path: str | int) -> tuple[int, int]:
    """Return the line and column of the value at `path` in a node, or of the last part of `path` that exists."""
    mark = node.start_mark
    for part in path:
        if (found := _entry(node, part)) is None:
            break
        mark, node = found
    return _place(mark)


def line_of(node: yaml.Node, *path: str | int) -> int:
    """Return the line of `place_of`."""
    return place_of(node, *path)[0]


def child(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    """Return the line and the node of an entry: the line of the key in a mapping, or of the item in a list."""
    found = _entry(node, part)
    return found and (_place(found[0])[0], found[1])


def _entry(node: yaml.Node, part: str | int) -> tuple[yaml.Mark | None, yaml.Node] | None:
    if is_a(node, "mapping"):
        pairs = [(key, value) for key, value in node.value if key.value == part]
        return (pairs[-1][0].start_mark, pairs[-1][1]) if pairs else None
    if is_a(node, "sequence") and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark, node.value[part]
    return None


def as_node(value: object) -> Any:  # noqa: ANN401  # a node of YAML
    """Return the YAML node of a value, whose parts may be nodes already."""
    import yaml

    if isinstance(value, dict):
        pairs = [(as_node(key), as_node(each)) for key, each in value.items()]
        return yaml.MappingNode(f"{_TAG}map", pairs, flow_style=False)
    if isinstance(value, list):
        return yaml.SequenceNode(f"{_TAG}seq", list(map(as_node, value)), flow_style=False)
    if isinstance(value, bool):
        return yaml.ScalarNode(f"{_TAG}bool", str(value).lower())
    if isinstance(value, str):
        return yaml.ScalarNode(f"{_TAG}str", value, style='"')
    return value if isinstance(value, yaml.Node) else yaml.compose(yaml.safe_dump(value), Loader=yaml.SafeLoader)


def yaml_of(value: object, *, flow: bool) -> str:
    """Return a value as YAML, in one line or in blocks.

    A text that a version of YAML could take for anything else is between double quotes.
    """
    import yaml

    class Writer(yaml.SafeDumper):
        """Has no aliases, and indents lists."""

        def ignore_aliases(self, _: object) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002  # as PyYAML calls it
            super().increase_indent(flow, indentless=False)

    def written(to: yaml.SafeDumper, it: str) -> yaml.Node:
        style = None if _TEXT.fullmatch(it) else "|" if "\n" in it and _BLOCK.fullmatch(it) else '"'
        return to.represent_scalar(f"{_TAG}str", it, style=style)

    Writer.add_representer(str, written)
    return yaml.dump(value, Dumper=Writer, default_flow_style=flow, sort_keys=False, width=sys.maxsize).strip()
