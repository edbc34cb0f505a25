"""A YAML file as values that know where in the text they are; nothing is resolved, and nothing unfolds.

The events come from libyaml (YAML 1.1, as Kubernetes reads it), whose marks count characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import yaml
from msgspec import Struct, field

from ci_automation.artifact.yaml import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

_BOM = "\ufeff"


class Scalar(Struct, eq=False):
    """A scalar; `shared` where an alias stands for it or for something around it."""

    text: str
    start: int
    end: int
    line: int
    style: str
    marked: bool  # with an anchor or a tag, which lie in its span
    shared: bool
    is_key: bool


class Alias(Struct, eq=False):
    """An alias; what it stands for is `target`."""

    target: Value
    start: int
    end: int
    line: int


class Sequence(Struct, eq=False):
    """A sequence."""

    line: int
    shared: bool
    items: list[Node] = field(default_factory=list)


class Mapping(Struct, eq=False):
    """A mapping: keys and values in turn, as they stand in the file."""

    line: int
    shared: bool
    items: list[Node] = field(default_factory=list)

    @property
    def entries(self) -> Iterator[tuple[Node, Node]]:
        """Return the keys with their values."""
        return zip(self.items[::2], self.items[1::2], strict=True)

    def all(self, key: str) -> list[Node]:
        """Return what stands under a key: several where it is there several times."""
        return [value for name, value in self.entries if isinstance(name, Scalar) and name.text == key]

    def get(self, key: str) -> Value | None:
        """Return what stands under a key, the last where there are several, an alias as what it stands for."""
        found = self.all(key)
        return resolved(found[-1]) if found else None

    def text(self, key: str) -> str:
        """Return the text under a key, empty where there is none."""
        value = self.get(key)
        return value.text if isinstance(value, Scalar) else ""


Value = Scalar | Sequence | Mapping
Node = Value | Alias


class YamlFile(Struct, frozen=True):
    """The documents of a file, and all scalars and aliases in the order of the text."""

    roots: tuple[Node, ...]
    leaves: tuple[Scalar | Alias, ...]


def resolved(node: Node) -> Value:
    """Return a node, or what it stands for where it is an alias."""
    return node.target if isinstance(node, Alias) else node


def mappings(node: Node, passed: set[Node] | None = None) -> Iterator[Mapping]:
    """Return every mapping in a node, itself included, each once; keys are not looked into, nor what was `passed`."""
    passed = set() if passed is None else passed
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if here in passed:
            continue
        passed.add(here)
        if isinstance(here, Mapping):
            yield here
            waiting += reversed(here.items[1::2])
        elif isinstance(here, Sequence):
            waiting += reversed(here.items)


def decoded(data: bytes) -> tuple[str, str]:
    """Return a file's text, and the byte order mark before it, which is empty where there is none.

    Raises:
        Unreadable: it is not UTF-8.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise Unreadable("it is not UTF-8 text", data.count(b"\n", 0, error.start) + 1) from None
    return (text[1:], _BOM) if text.startswith(_BOM) else (text, "")


def span(event: yaml.Event) -> tuple[int, int]:
    """Return where in the text an event begins and ends, in characters; libyaml always knows."""
    return cast("yaml.Mark", event.start_mark).index, cast("yaml.Mark", event.end_mark).index


def parse(found: list[yaml.Event]) -> YamlFile:
    """Return the values that events stand for; raise `Unreadable` if an alias stands for nothing."""
    builder = _Builder(frozenset(event.anchor for event in found if isinstance(event, yaml.AliasEvent)))
    for event in found:
        builder.take(event)
    return YamlFile(tuple(builder.roots), tuple(builder.leaves))


class _Builder:
    def __init__(self, aliased: frozenset[str | None]) -> None:
        self.roots: list[Node] = []
        self.leaves: list[Scalar | Alias] = []
        self._aliased = aliased
        self._open: list[Sequence | Mapping] = []
        self._anchors: dict[str, Value] = {}

    def take(self, event: yaml.Event) -> None:
        """Take the next event of a file."""
        if isinstance(event, yaml.DocumentStartEvent):
            self._anchors = {}
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
        elif isinstance(event, yaml.NodeEvent):
            self._place(event.anchor, self._node(event))

    def _node(self, event: yaml.NodeEvent) -> Node:
        (start, end), line = span(event), cast("yaml.Mark", event.start_mark).line + 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise Unreadable("it has an alias without an anchor", line)
            return Alias(self._anchors[event.anchor], start, end, line)
        shared = event.anchor in self._aliased or bool(self._open and self._open[-1].shared)
        if isinstance(event, yaml.ScalarEvent):
            marked = event.anchor is not None or event.tag is not None
            around = self._open[-1] if self._open else None
            is_key = isinstance(around, Mapping) and len(around.items) % 2 == 0
            return Scalar(event.value, start, end, line, event.style or "", marked, shared, is_key)
        return (Mapping if isinstance(event, yaml.MappingStartEvent) else Sequence)(line, shared)

    def _place(self, anchor: str | None, node: Node) -> None:
        (self._open[-1].items if self._open else self.roots).append(node)
        if isinstance(node, Scalar | Alias):
            self.leaves.append(node)
        else:
            self._open.append(node)
        if anchor is not None and not isinstance(node, Alias):
            self._anchors[anchor] = node
