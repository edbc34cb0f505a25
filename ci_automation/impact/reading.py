"""Read YAML as plain values, with what these do not show: comments, indentation, quotes, the order of keys.

Kustomize writes a value in one way alone: block style, two spaces, lists at the column of their key, keys sorted. So
only what is written otherwise is kept beside the values, and two texts without such places differ in values or not at
all. Scalars are read as Kubernetes reads them (YAML 1.1), but for numbers that no API has, which stay texts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field

from ci_automation.artifact.yaml import Unreadable, events
from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import yaml

MAX_CHARACTERS = 4 << 20  # Flux's own have up to 0.7 million
MAX_DEPTH = 64  # libyaml takes time that grows with the square of it
_MAX_KEPT = 3_000_000  # parts of paths to what is written otherwise than kustomize does; a megabyte of JSON has less
_SIGNS = 16  # that count like a part of a path
_STEP = 2
_MARKER = "---\n"
_BLOCK = frozenset("|>")
_MERGE = "<<"  # as a key without quotes, what is below it belongs to the mapping itself (yaml.org/type/merge)
_WORDS = {
    word: value
    for value, words in ((True, "true yes on"), (False, "false no off"), (None, "null"))
    for base in words.split()
    for word in (base, base.upper(), base.capitalize())
} | {"": None, "~": None}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_OCTAL = re.compile(r"0o?[0-7]{1,10}")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,15}")
_FLOAT = re.compile(r"[-+]?[0-9]{1,15}\.[0-9]{0,15}")

Path = tuple[str | int, ...]
END: Path = ("", "end")  # what is after the last value
KEY = "?"  # the last part of the path of a key itself


class UnreadableObjects(UsageError):
    """A text is not YAML of Kubernetes objects, or not the plain part of YAML."""

    hint = "Write it without anchors, aliases, tags and merge keys; `kustomize build` writes such text."

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason = reason
        self.line = line


class Document(Struct):
    """One document: its value, which part of the text it is, and what the value does not show.

    `forms` has the texts of the scalars that are not the plain text of their value, `odd` what stands before a value
    and is not kustomize's, `unsorted` the mappings whose keys are not sorted, `twice` the keys that are there twice,
    where the last counts.
    """

    line: int
    start: int
    end: int = 0
    value: Any = None
    forms: dict[Path, str] = field(default_factory=dict)
    odd: dict[Path, str] = field(default_factory=dict)
    unsorted: set[Path] = field(default_factory=set)
    twice: set[Path] = field(default_factory=set)


def read(text: str) -> list[Document]:
    """Return the documents of a text, which together are the whole text.

    Raises:
        UnreadableObjects: it is not YAML, is longer or deeper than the limits, or has anchors, aliases, tags
            or merge keys.
    """
    import yaml

    if len(text) > MAX_CHARACTERS:
        raise UnreadableObjects(f"it has more than {MAX_CHARACTERS} characters")
    found: list[Document] = []
    builder = _Builder(text, Document(1, 0))
    takes: dict[type, Callable[[_Builder, Any], None]] = {
        yaml.ScalarEvent: _Builder.scalar,
        yaml.MappingStartEvent: _Builder.mapping,
        yaml.SequenceStartEvent: _Builder.sequence,
        yaml.MappingEndEvent: _Builder.close,
        yaml.SequenceEndEvent: _Builder.close,
        yaml.AliasEvent: _Builder.refuse,
    }
    for event in _events(text):
        if take := takes.get(type(event)):
            take(builder, event)
        elif isinstance(event, yaml.DocumentStartEvent):
            found.append(Document(_mark(event.start_mark).line + 1, found[-1].end if found else 0))
            builder = _Builder(text, found[-1])
        elif isinstance(event, yaml.DocumentEndEvent):
            builder.finish(_mark(event.end_mark).index)
    if found:
        builder.finish(len(text))
    return found


def _events(text: str) -> Iterator[yaml.Event]:
    try:
        yield from events(text)
    except Unreadable as error:
        raise UnreadableObjects(error.reason, error.line) from None


def _mark(mark: object) -> yaml.Mark:
    return cast("yaml.Mark", mark)  # libyaml always knows


class _Frame(Struct):
    """A collection that is still open: the column of its keys or items, and how far it is."""

    value: dict[str, Any] | list[Any]
    column: int
    flow: int = -1  # where it begins in the text, if it is in flow style
    key: str | None = None
    last: str = ""


class _Builder:
    """Builds the value of one document from its events, and looks at the text between them."""

    def __init__(self, text: str, document: Document) -> None:
        self._text = text
        self._document = document
        self._open: list[_Frame] = []
        self._end = document.start  # of the value before
        self._fresh = True  # nothing was before
        self._dashes = 0  # the items begun since then
        self._colon = ""  # ":" where a key was before
        self._kept = 0  # of what is written otherwise

    def mapping(self, event: Any) -> None:  # noqa: ANN401 - the events have no common type with their fields
        """Take the start of a mapping."""
        self._begin({}, event)

    def sequence(self, event: Any) -> None:  # noqa: ANN401 - as above
        """Take the start of a list."""
        self._begin([], event)

    def refuse(self, event: Any) -> None:  # noqa: ANN401 - as above
        """Raise `UnreadableObjects`: a few lines of aliases unfold to gigabytes, and a merge key is no key."""
        reason = "it has anchors, aliases, tags or merge keys, which are not looked into"
        raise UnreadableObjects(reason, event.start_mark.line + 1)

    def _begin(self, value: dict[str, Any] | list[Any], event: Any) -> None:  # noqa: ANN401 - as above
        if event.anchor is not None or event.tag is not None:
            self.refuse(event)
        line = event.start_mark.line + 1
        if len(self._open) >= MAX_DEPTH:
            raise UnreadableObjects(f"it has more than {MAX_DEPTH} levels", line)
        frame = self._open[-1] if self._open else None
        column = frame.column if frame else 0
        inside = frame is not None and isinstance(frame.value, dict)
        if inside and frame and frame.key is None:
            raise UnreadableObjects("it has a key that is no text", line)
        self._dashes += frame is not None and not inside
        opened = _Frame(value, column + _STEP if inside or isinstance(value, list) else column)
        if event.flow_style:
            opened.flow = event.start_mark.index
            self._look(event.start_mark, frame)
        self._open.append(opened)

    def close(self, event: Any) -> None:  # noqa: ANN401 - as above
        """Take the end of a mapping or list."""
        frame = self._open.pop()
        if frame.flow >= 0:
            self._end = event.end_mark.index
            self._colon = ""
            if (raw := self._text[frame.flow : self._end]) not in {"{}", "[]"}:
                self._document.forms[self._path()] = raw
                self._keep(len(raw) // _SIGNS)
        self._put(frame.value)

    def scalar(self, event: Any) -> None:  # noqa: ANN401 - as above
        """Take a scalar, which may be a key."""
        if event.anchor is not None or event.tag is not None:
            self.refuse(event)
        frame = self._open[-1] if self._open else None
        start, end, text = event.start_mark.index, event.end_mark.index, event.value
        if frame is not None and isinstance(frame.value, list):
            self._dashes += 1
        self._look(event.start_mark, frame, text)
        if event.style in _BLOCK:
            end = start + len(self._text[start:end].rstrip("\n "))
        self._end = end
        if frame is not None and frame.key is None and isinstance(frame.value, dict):
            if text == _MERGE and not event.style:
                self.refuse(event)
            self._key(frame, text, self._text[start:end])
            return
        value = text if event.style else scalar_value(text)
        if event.style or end - start != len(text) or not is_form_of(text, value):
            self._document.forms[self._path()] = self._text[start:end]
        self._put(value)

    def _key(self, frame: _Frame, key: str, raw: str) -> None:
        if key < frame.last:
            self._document.unsorted.add(self._path()[:-1])
        twice = key in frame.value
        frame.key = frame.last = key
        self._colon = ":"
        if twice:
            self._document.twice.add(self._path())
        if raw != key:
            self._document.forms[(*self._path(), KEY)] = raw

    def _put(self, value: Any) -> None:  # noqa: ANN401 - a value of YAML
        if not self._open:
            self._document.value = value
            return
        frame = self._open[-1]
        if isinstance(frame.value, list):
            frame.value.append(value)
        else:
            frame.value[cast("str", frame.key)] = value
            frame.key = None
            self._colon = ""

    def _look(self, mark: yaml.Mark, frame: _Frame | None, key: str = "") -> None:
        """Keep what stands before a value or key, unless that is what kustomize writes there."""
        gap = self._text[self._end : mark.index]
        if self._fresh:
            self._document.line = mark.line + 1
            gap = f"\n{gap.removeprefix(_MARKER)}"
            self._fresh = False
        if frame is not None and frame.key is not None:
            expected = ": "
        else:
            column = frame.column if frame else 0
            expected = f"{self._colon}\n{' ' * (column - _STEP * self._dashes)}{'- ' * self._dashes}"
        if gap != expected:
            self._document.odd[self._path(key)] = gap
        self._dashes = 0
        self._colon = ""

    def _path(self, key: str = "") -> Path:
        """Return where the builder is; `key` is the one that it is just about to take."""
        self._keep(len(self._open))
        return tuple(
            len(it.value) if isinstance(it.value, list) else key if it.key is None else it.key for it in self._open
        )

    def _keep(self, parts: int) -> None:
        self._kept += parts
        if self._kept > _MAX_KEPT:
            raise UnreadableObjects("it is written otherwise than kustomize does in too many places")

    def finish(self, end: int) -> None:
        """Take the end of the document; what stands there belongs to it."""
        self._document.end = end
        gap = self._text[self._end : end]
        self._document.odd.pop(END, None)
        if gap.strip("\n") or len(gap) > 1:
            self._document.odd[END] = gap


@lru_cache(maxsize=4096)
def scalar_value(text: str) -> Any:  # noqa: ANN401 - a value of YAML
    """Return what a scalar without quotes means to Kubernetes."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text.removeprefix("0").removeprefix("o") or "0", 8)
    if _HEXADECIMAL.fullmatch(text):
        return int(text, 16)
    return float(text) if _FLOAT.fullmatch(text) else text


def is_form_of(text: str, value: Any) -> bool:  # noqa: ANN401 - a value of YAML
    """Return whether a scalar's text is the one that its value has by itself."""
    if isinstance(value, str):
        return True
    if value is None or isinstance(value, bool):
        return text == {None: "null", True: "true", False: "false"}[value]
    return text == str(value)
