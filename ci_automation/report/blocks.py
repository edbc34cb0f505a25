"""Blocks of a report: entries of lists, tables, sections and texts to copy. A terminal and Markdown show the same ones.

Blocks hold plain words, foreign ones too. Each way to show them escapes what could act there.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_SENTENCE = 30  # a column with wider cells, and with blanks, may be folded to this width
_REASONS = 100  # a wider cell has each of its reasons on a line of its own
_HANGING = 2  # how far the later lines of a folded one are indented
MAX_REASON = 160  # characters; all of it is told with the step
HINT = " (-v lists them)"
ROW = "row"  # of the first place and the remedy of a hazard, which stay as long as its row
# Marks of rows that a terminal neither folds away nor cuts, so that a person sees them before the command to approve.
KEPT = {"danger", "certain", "approval", "refused", "deletes", ROW}
WARNING = {"warning", "possible"}  # of many rows it may list some and count the others, but folds and cuts none


class Code(str):
    """Words that Markdown shows as code, such as objects, paths and digests."""

    __slots__ = ()


class Command(Code):
    """A command in a sentence, which a terminal shows between backticks."""

    __slots__ = ()


class Strong(str):
    """Words that Markdown shows in bold."""

    __slots__ = ()


class Reasons(str):
    """Reasons as one cell, which has a line for each if it is long: one can have a semicolon of its own."""

    __slots__ = ("each",)
    each: tuple[str, ...]

    def __new__(cls, each: Sequence[str]) -> Self:
        """Return the cell with these reasons."""
        plain = tuple(map(plain_line, each))
        cell = super().__new__(cls, "; ".join(plain))
        cell.each = plain
        return cell


Words = str | tuple[str, ...]


class Table(Struct, frozen=True):
    """Rows of cells under a head; as text they cannot control a terminal. `most` is their width in a pipe or a log."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    most: int | None = None

    def widths(self, width: int | None = None) -> tuple[int, ...] | None:
        """Return the width of each column in lines of at most `width` characters; None if the table has no room.

        Only columns of sentences get narrower than their cells.
        """
        columns = [[line for cell in it for line in _reasons(cell)] for it in zip(self.head, *self.rows, strict=True)]
        full = [max(map(len, column)) for column in columns]
        room = (width or 0) - 2 * (len(full) - 1)
        if width is None or sum(full) <= room:
            return tuple(full)
        folds = [
            wide > _SENTENCE and any(" " in cell for cell in cells) for wide, cells in zip(full, columns, strict=True)
        ]
        least = [
            max(len(word) for cell in cells for word in (*_words(cell), "")) if fold else wide
            for wide, fold, cells in zip(full, folds, columns, strict=True)
        ]
        found = [max(few, _SENTENCE) if fold else few for few, fold in zip(least, folds, strict=True)]
        left = room - sum(found)
        if left < 0:
            return None
        for column in (it for it, fold in enumerate(folds) if fold):
            more = min(left, full[column] - found[column])
            found[column] += more
            left -= more
        return tuple(found)

    def to_text(self, width: int | None = None, shown: Callable[[str, str], str] = lambda _, text: text) -> str:
        """Return aligned text without trailing blanks, in lines of at most `width` characters where words allow it.

        A long cell is folded between its reasons, and a sentence between words, which without `width`, for a pipe or a
        log, is not, unless the table has a width for that. If sentences find no room, each row is a paragraph. `shown`
        colours what is printed of a cell, given the cell.
        """
        plain = (tuple(it if isinstance(it, Reasons) else plain_line(it) for it in row) for row in self.rows)
        table = Table(self.head, tuple(plain))
        width = self.most if width is None else width
        if (widths := table.widths(width)) is None:
            return "\n".join(self._paragraph(row, width or 0, shown) for row in table.rows)
        lines = []
        for row in (self.head, *table.rows):
            cells = [
                [line for reason in _reasons(cell) for line in wrapped(reason, wide) or [""]]
                for cell, wide in zip(row, widths, strict=True)
            ]
            for number in range(max(map(len, cells))):
                texts = [cell[number] if number < len(cell) else "" for cell in cells]
                last = max((at for at, text in enumerate(texts) if text), default=0)
                pads = [" " * (wide - len(text)) for text, wide in zip(texts, widths, strict=True)]
                told = [shown(cell, text) for cell, text in zip(row, texts, strict=True)]
                lines.append("  ".join(f"{told[at]}{pads[at] if at < last else ''}" for at in range(last + 1)))
        return "\n".join(lines)

    def _paragraph(self, row: tuple[str, ...], width: int, shown: Callable[[str, str], str]) -> str:
        """Return a row as lines: its first cell, and below it each other cell that says something, with its head."""
        wide = max(map(len, self.head))
        lines = [shown(row[0], f"{self.head[0]} {row[0]}".strip())]
        for name, cell in zip(self.head[1:], row[1:], strict=True):
            first, *rest = wrapped(cell, width - wide - 4) or [""]
            if len(first) > width - wide - 4:
                lines += [f"  {name}", f"    {first}"]
            elif cell:
                lines.append(f"  {name.ljust(wide)}  {shown(cell, first)}")
            lines += [f"{' ' * (wide + 4)}{line}" for line in rest]
        return "\n".join(lines)


class MarkedLine(Struct, frozen=True):
    """A line for a terminal; `mark` is a word that has a colour there, which the whole line gets.

    As text it is one line that cannot control a terminal. A line that is `to_copy`, such as a command or a part of a
    file, is never folded. One that `may_be_cut` is cut on a terminal, and whole elsewhere.
    """

    text: str
    mark: str = ""
    to_copy: bool = False
    may_be_cut: bool = False

    def lines(self, width: int | None) -> list[str]:
        """Return the lines that it takes where lines have at most `width` characters."""
        text = plain_line(self.text)
        text = shortened(text) if width is not None and self.may_be_cut else text
        if width is None or self.to_copy or len(text) <= width:
            return [text]
        indent = len(text) - len(text.lstrip())
        first, *rest = wrapped(text, width - indent, _HANGING)
        return [" " * indent + first, *(" " * (indent + _HANGING) + line for line in rest)]

    def to_text(self) -> str:
        """Return the line as it is where nothing is folded."""
        return plain_line(self.text)


def _words(text: str) -> list[str]:
    """Return what a line is never broken in: words, and commands between backticks with what belongs to them."""
    return re.findall(r"(?:`[^`]*`|\S)+", text)


def _reasons(cell: str) -> list[str]:
    """Return the lines of a cell: one for each reason if it is long."""
    each = cell.each if isinstance(cell, Reasons) and len(cell) > _REASONS else (cell,)
    return [*(f"{it};" for it in each[:-1]), *each[-1:]]


def wrapped(text: str, width: int, hanging: int = 0) -> list[str]:
    """Return a text in lines of at most `width` characters, the later ones shorter by `hanging`; no word is broken."""
    if len(text) <= width:
        return [text]
    lines: list[str] = []
    for word in _words(text):
        if lines and len(lines[-1]) + 1 + len(word) <= width - (hanging if len(lines) > 1 else 0):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


Part = MarkedLine | Table


def plain_text(text: str) -> str:
    """Return `text` without what could control a terminal or a log: controls, escapes, bidirectional marks.

    Line feeds stay; a carriage return does not, for it could overwrite the line.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(
        character
        if character == "\n" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
        else "�"
        for character in text
    )


def plain_line(text: str) -> str:
    """Return `text` as one line of plain text."""
    return plain_text(text).replace("\n", " ")


def shortened(text: str, limit: int = MAX_REASON) -> str:
    """Return the beginning of a long text, for a table; it ends with a whole word, if there is one."""
    if len(text) <= limit:
        return text
    start, blank, _ = text[:limit].rpartition(" ")
    return f"{(start if blank else text[: limit - 1]).rstrip(' ,;:')}…"


class Bullet(Struct, frozen=True):
    """An entry of a list, and what belongs to it; `mark` and `may_be_cut` are as of a line."""

    words: Words
    mark: str = ""
    below: tuple[Block, ...] = ()
    may_be_cut: bool = False


class Titled(Struct, frozen=True):
    """Blocks under a title; Markdown shows those of a `folded` one after a click."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False


class Quoted(Struct, frozen=True):
    """Lines that stay unfolded, such as a diff; Markdown shows `limit` characters, or, if they are `yaml`, all."""

    text: str
    limit: int = 0
    yaml: bool = False


Block = MarkedLine | Bullet | Table | Titled | Quoted


class Detail(Struct, frozen=True):
    """How much is told: of each list, below each entry, of all changes, of a diff.

    Where a terminal does not tell `every` detail, `hint` says how to see the rest.
    """

    rows: int
    below: int
    changes: int
    lines: int = 1 << 30
    every: bool = False
    hint: str = ""

    @classmethod
    def page(cls, rows: int) -> Detail:
        """Return what a page of Markdown tells with this many entries of each list."""
        return cls(rows, rows, rows)


def cut(blocks: Sequence[Block], most: int, noun: str = "", hint: str = "") -> tuple[Block, ...]:
    """Return the first blocks, on a terminal all that it keeps too, and an entry that says how many more there are."""
    shown = [it for at, it in enumerate(blocks) if at < most or (hint and isinstance(it, Bullet) and it.mark in KEPT)]
    return *shown, *more(len(blocks) - len(shown), noun, hint)


def more(left: int, noun: str = "", hint: str = "") -> tuple[Bullet, ...]:
    """Return the entry that says how many more there are; none where there are none."""
    what = f" {noun}{'s' if left > 1 else ''}" if noun else ""
    return (Bullet(f"and {left} more{what}{hint}"),) if left > 0 else ()


def on_terminal(blocks: Iterable[Block], indent: str = "") -> Iterator[Part]:
    """Yield blocks as lines and tables for a terminal."""
    for block in blocks:
        match block:
            case Table():
                yield block
            case Bullet():
                pieces = (block.words,) if isinstance(block.words, str) else block.words
                words = "".join(f"`{it}`" if isinstance(it, Command) else it for it in pieces)
                yield MarkedLine(f"{indent}{words}", block.mark, may_be_cut=block.may_be_cut)
                yield from on_terminal(block.below, f"{indent}    ")
            case Titled(blocks=(MarkedLine(),)):
                yield from on_terminal(block.blocks, indent)
            case Titled():
                yield MarkedLine(f"{indent}{block.title}:")
                yield from on_terminal(block.blocks, f"{indent}  ")
            case Quoted():
                yield from (MarkedLine(f"{indent}{it}", to_copy=True) for it in block.text.splitlines())
            case _:
                yield replace(block, text=f"{indent}{block.text}")
