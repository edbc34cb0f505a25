"""A quick reader for the plain block style that kustomize writes; it reads what libyaml reads, or nothing.

Comparing two neighbouring releases takes 17 ms with it and 40 ms without it (half a million characters each, 20 ms are
allowed): libyaml's events alone take longer than everything else that is done with them. In text of which every line is
of the few forms below, indentation says what belongs to what. `reading.read` reads anything else, be it good YAML, and
says the same of what is read here: tests hold the two together.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from ci_automation.impact.reading import MAX_DEPTH, Document, Path, UnreadableObjects, is_form_of, read, scalar_value

_STEP = 2
_TO_LIST, _IN_ITEM = 1, 3  # between the levels of a key and the list below it, and of a list and the keys of an item
_MAX_LINES = 100_000
_MAX_KNOWN = 1 << 15  # two neighbouring releases have a fifth of them
_CONTROL = [chr(code) for code in (*range(0x0A), *range(0x0B, 0x20), 0x7F)]
_PLAIN = r"(?:[A-Za-z0-9_.$^(\\/+~;<=]|-(?![ ]))[^\n]*"
_LINE = re.compile(
    rf"""(?:(?P<key>[A-Za-z$_][A-Za-z0-9_$./-]*):(?:$|[ ](?=.)))?
    (?:(?P<block>\|-?)|(?P<plain>{_PLAIN})|(?P<quoted>['"].*)|(?P<empty>\{{\}}|\[\]))?""",
    re.VERBOSE,
)
# What the lines after a line may go on with; plain numbers, since they are looked at for each line.
_NOTHING, _BELOW, _BLOCK, _WORDS, _QUOTED = range(5)
_ESCAPED = {"'": re.compile("''"), '"': re.compile(r"\\.")}


class NotPlain(Exception):
    """A text has a line that may mean something else than it seems."""


class Line:
    """The meaning of a line without its indentation and its dash."""

    __slots__ = ("has_form", "is_empty", "key", "next", "text", "value")

    def __init__(self, line: str) -> None:
        match = _LINE.fullmatch(line)
        if not match:
            raise NotPlain
        self.key: str | None = match["key"]
        self.text: str = line[match.end("key") + 2 :] if self.key else line
        self.value: Any = self.text
        self.is_empty = bool(match["empty"])
        self.has_form = False  # its text is not the plain text of its value
        self.next = _NOTHING
        if match["plain"]:
            _check(self.text)
            self.value = scalar_value(self.text)
            self.has_form = not is_form_of(self.text, self.value)
            self.next = _WORDS
        elif match["quoted"]:
            self.has_form = True
            if _closed(self.text[1:], self.text[0]):
                self.value = _unquoted(self.text)
            else:
                self.next = _QUOTED
        elif self.is_empty:
            self.value = {} if self.text == "{}" else []
        elif self.key:
            self.next = _BLOCK if match["block"] else _BELOW
        else:
            raise NotPlain


def _check(text: str) -> None:
    """Raise NotPlain where a text without quotes holds what ends it."""
    if ": " in text or " #" in text or text[-1] in ": " or text[0] == "#":
        raise NotPlain


def _closed(text: str, quote: str) -> bool:
    """Return whether a line within quotes ends with the one that closes them."""
    left = _ESCAPED[quote].sub("", text)
    if left.count(quote) > left.endswith(quote) or text.endswith(" "):
        raise NotPlain
    return left.endswith(quote)


def _unquoted(text: str) -> str:
    """Return what a text in quotes stands for; escapes are libyaml's to know."""
    if text[0] == "'":
        return " ".join(line.strip(" ") for line in text[1:-1].split("\n")).replace("''", "'")
    if "\\" not in text and "\n" not in text:
        return text[1:-1]
    try:
        return str(read(text)[0].value)
    except UnreadableObjects:
        raise NotPlain from None


class _Frame:
    """A mapping or list that is open: twice the column of its keys, or one more than twice that of its dashes."""

    __slots__ = ("key", "level", "value")

    def __init__(self, level: int, value: Any) -> None:  # noqa: ANN401 - a value of YAML
        self.level = level
        self.value = value
        self.key: Any = ""  # the last one, or the last index


_line = lru_cache(maxsize=_MAX_KNOWN)(Line)  # the same line is often there


def read_plain(text: str) -> Document:
    """Return the document that a text is.

    Raises:
        NotPlain: a line is not of the few forms that kustomize writes; it may be YAML all the same.
    """
    return _read(text, Document(1, 0, len(text), {}), ())


def read_below(text: str, *path: str | int) -> Document:
    """Return a document of which the text is the part below the keys and list items of `path`, as kustomize indents it.

    Raises:
        NotPlain: as `read_plain`.
    """
    return _read(text, Document(1, 0, len(text), {}), path)


def _read(text: str, document: Document, path: Path) -> Document:
    lines = text.split("\n")
    if len(lines) > _MAX_LINES or not _is_printable(text):
        raise NotPlain
    _Reader(document, path).read(lines)
    return document


def _is_printable(text: str) -> bool:
    """Return whether a text has nothing but newlines that libyaml refuses, takes for a line break, or skips."""
    if text.isascii():
        return not any(sign in text for sign in _CONTROL)  # each is found in no time
    return text.replace("\n", "").isprintable()


class _Reader:
    def __init__(self, document: Document, path: Path) -> None:
        self.document = document
        self._open = [_Frame(0, self.document.value)]
        self._text = ""  # the first line of a text
        self._more: list[str] = []  # the others
        for part, below in zip_longest(path, path[1:]):
            frame = self._open[-1]
            frame.key, frame.value[part] = part, {}
            # The dashes of a list are in the column of its key.
            level = _IN_ITEM if isinstance(part, int) else _TO_LIST if isinstance(below, int) else 2 * _STEP
            self._open.append(_Frame(frame.level + level, frame.value[part]))

    def read(self, lines: list[str]) -> None:  # noqa: C901 - see below
        """Read all lines: one loop, since a call for each would take as long as all that it does."""
        after, column, more, frames = _NOTHING, 0, self._more, self._open
        for line in lines:
            rest = line.lstrip(" ")
            indent = len(line) - len(rest)
            if after >= _BLOCK:  # `column` is the least that a line has that goes on with the text
                if (rest and indent >= column) or (not line and after == _BLOCK):
                    more.append(line)
                    continue
                if more or after != _WORDS:
                    self._end_text(after, column)
            dash = rest[:_STEP] == "- "
            level = 2 * indent + dash
            if after == _BELOW:  # `column` is that of the key whose value begins here
                self._begin(level, column)
            elif frames[-1].level != level:
                self._back(level)
            if dash:
                rest = rest[_STEP:]
                indent += _STEP
            found = _line(rest)
            if dash:
                self._item(found, indent)
            self._put(found)
            after = found.next
            column = indent + _STEP if found.key is not None and after >= _BLOCK else indent
        if after == _BELOW:
            raise NotPlain
        if more or after in {_BLOCK, _QUOTED}:
            self._end_text(after, column)
        if isinstance(self.document.value.get("items"), list):
            raise NotPlain  # an object that holds others

    def _begin(self, level: int, column: int) -> None:
        """Open the mapping or list that is the value of the last key."""
        if level not in {2 * column + 1, 2 * (column + _STEP)} or len(self._open) >= MAX_DEPTH - 1:
            raise NotPlain
        frame = self._open[-1]
        opened = _Frame(level, [] if level % 2 else {})
        frame.value[frame.key] = opened.value
        self._open.append(opened)

    def _back(self, level: int) -> None:
        """Go back to a mapping or list that is open."""
        frames = self._open
        while frames[-1].level > level:
            frames.pop()
        if frames[-1].level != level:
            raise NotPlain

    def _item(self, line: Line, column: int) -> None:
        """Begin the next item of a list; one with a key is a mapping."""
        frame = self._open[-1]
        frame.key = len(frame.value)
        frame.value.append(None)
        if line.key is not None:
            frame.value[-1] = {}
            self._open.append(_Frame(2 * column, frame.value[-1]))

    def _put(self, line: Line) -> None:
        """Put what a line says where it belongs."""
        frame = self._open[-1]
        if line.key is not None:
            if line.key in frame.value:
                raise NotPlain
            if line.key < frame.key:
                self.document.unsorted.add(self._path()[:-1])
            frame.key = line.key
        elif not frame.level % 2:
            raise NotPlain
        frame.value[frame.key] = line.value.copy() if line.is_empty else line.value
        self._text = line.text
        if line.has_form:
            self.document.forms[self._path()] = line.text

    def _end_text(self, kind: int, column: int) -> None:
        """Put together a text that has several lines."""
        frame = self._open[-1]
        if kind == _BLOCK:
            frame.value[frame.key] = self._block(column)
        else:
            frame.value[frame.key] = self._quoted() if kind == _QUOTED else self._folded()
        self.document.forms[self._path()] = "\n".join((self._text, *self._more))
        self._more.clear()

    def _block(self, column: int) -> str:
        more = self._more
        if not more or more[0][column : column + 1] in {"", " "} or not more[-1] or more[-1].endswith(" "):
            raise NotPlain
        return "\n".join(line[column:] for line in more) + ("" if self._text.endswith("-") else "\n")

    def _folded(self) -> str:
        for line in self._more:
            _check(line.lstrip(" "))
        return " ".join((self._text, *(line.lstrip(" ") for line in self._more)))

    def _quoted(self) -> str:
        ends = [_closed(line.lstrip(" "), self._text[0]) for line in self._more]
        alone = {line.lstrip(" ") for line in (self._text, *self._more)} & _ESCAPED.keys()
        if alone or True not in ends or ends.index(True) != len(ends) - 1:
            raise NotPlain
        return _unquoted("\n".join((self._text, *self._more)))

    def _path(self) -> Path:
        return tuple(frame.key for frame in self._open)
