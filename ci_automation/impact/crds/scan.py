"""Find which versions of Flux's custom resources files use: in objects, references and selectors.

Only what stands in the file is seen: a manifest that is a text in a ConfigMap, or that a template makes, is not.
"""

from __future__ import annotations

import enum
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ci_automation.artifact.yaml import Unreadable, events

if TYPE_CHECKING:
    from collections.abc import Iterator

    import yaml

_FLUX = ".fluxcd.io"
_LINE = re.compile(
    r"""^[ \t]*(?:- )?["']?apiVersion["']?[ \t]*:[ \t]*["']?([a-z0-9.-]{1,253}\.fluxcd\.io/v[a-z0-9]{1,62})\b"""
)
_KIND_LINE = re.compile(r"""^[ \t]*(?:- )?["']?kind["']?[ \t]*:[ \t]*["']?([A-Za-z0-9]{1,63})\b""")
_LIST_DEPTH = 2  # a List, its items
_INLINE = frozenset({"patch", "patchesStrategicMerge"})  # of kustomize: texts that are manifests themselves


class How(enum.StrEnum):
    """In which way a file uses a version."""

    OBJECT = "object"  # it is an object of that version
    REFERENCE = "reference"  # it names one, or has one inside of another object
    SELECTOR = "selector"  # it picks objects of that version, to change them
    TEXT = "text"  # a line of a file, or of a patch in it, that is no YAML to us


class Use(Struct, frozen=True):
    """One use; `kind` is empty where only the line was read, `group` where a selector does not say it."""

    file: str
    line: int
    group: str
    version: str
    kind: str
    name: str
    how: How


@lru_cache(maxsize=64)  # a step keeps most files
def uses(data: bytes, file: str) -> tuple[Use, ...]:
    """Return what a file uses of Flux's custom resources, in the order of its lines; nothing of what is no text.

    What YAML does not read, such as the template of a chart, is read line by line for `apiVersion` and `kind`.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ()
    try:
        found = list(_Walk(file).of(events(text)))
    except Unreadable:
        found = list(_lines(text, file, 1))
    return tuple(sorted(found, key=lambda use: use.line))


def _lines(text: str, file: str, first: int) -> Iterator[Use]:
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if match := _LINE.match(line):
            around = (*lines[number + 1 : number + 2], *lines[max(number - 1, 0) : number])
            kind = next((found[1] for near in around if (found := _KIND_LINE.match(near))), "")
            group, _, version = match[1].rpartition("/")
            yield Use(file, first + number, group, version, kind, "", How.TEXT)


class _Frame(Struct):
    """An open mapping or sequence; `under` is the key that it stands under, in a sequence that of the sequence."""

    is_mapping: bool
    under: str
    key: str | None = None
    name: str = ""
    texts: dict[str, tuple[str, int]] = field(default_factory=dict)

    def text(self, key: str) -> str:
        return self.texts.get(key, ("", 0))[0]


class _Walk:
    """Goes through the events of a file once, and keeps no more than what is open."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._open: list[_Frame] = []
        self._anchors: dict[str, str] = {}

    def of(self, found: Iterator[yaml.Event]) -> Iterator[Use]:
        """Yield the uses; those in an object come before the object's own."""
        import yaml

        for event in found:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
            elif isinstance(event, yaml.CollectionStartEvent):
                under = self._key()
                self._open.append(_Frame(isinstance(event, yaml.MappingStartEvent), under))
            elif isinstance(event, yaml.CollectionEndEvent):
                frame = self._open.pop()
                yield from self._closed(frame)
                self._take(None, 0)
            elif isinstance(event, yaml.AliasEvent):
                self._take(self._anchors.get(event.anchor or "", ""), _line(event))
            elif isinstance(event, yaml.ScalarEvent):
                if event.anchor:
                    self._anchors[event.anchor] = event.value
                if "\n" in event.value and self._key() in _INLINE:
                    yield from _lines(event.value, self._file, _line(event) + (event.style in ("|", ">")))
                self._take(event.value, _line(event))

    def _key(self) -> str:
        """Return the key that the next node stands under."""
        if not self._open:
            return ""
        top = self._open[-1]
        return (top.key or "") if top.is_mapping else top.under

    def _take(self, value: str | None, line: int) -> None:
        """Note a node, None for one that is no scalar, as a key or under its key."""
        if not self._open or not self._open[-1].is_mapping:
            return
        top = self._open[-1]
        if top.key is None:
            top.key = value or ""
        else:
            if value is not None:
                top.texts[top.key] = (value, line)
            top.key = None

    def _closed(self, frame: _Frame) -> Iterator[Use]:
        if not frame.is_mapping:
            return
        if frame.under == "metadata" and self._open:
            self._open[-1].name = frame.text("name")
        group, slash, version = frame.text("apiVersion").rpartition("/")
        kind = frame.text("kind")
        if slash and kind and group.endswith(_FLUX):
            top = not self._open or (len(self._open) == _LIST_DEPTH and frame.under == "items")
            how, name = (How.OBJECT, frame.name) if top else (How.REFERENCE, frame.name or frame.text("name"))
            yield Use(self._file, frame.texts["apiVersion"][1], group, version, kind, name, how)
        elif frame.text("version") and (frame.text("group").endswith(_FLUX) or (kind and not frame.text("group"))):
            found, line = frame.texts["version"]
            yield Use(self._file, line, frame.text("group"), found, kind, frame.text("name"), How.SELECTOR)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0
