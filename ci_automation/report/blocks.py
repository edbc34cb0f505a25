"""Blocks of a report: entries of lists, tables, sections and texts to copy. A terminal and Markdown show the same ones.

Blocks hold plain words, foreign ones too. Each way to show them escapes what could act there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.report.text import MarkedLine, Table, plain_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_automation.report.text import Part


class Code(str):
    """Words that Markdown shows as code, such as objects, paths and digests."""

    __slots__ = ()


class Command(Code):
    """A command in a sentence, which a terminal shows between backticks."""

    __slots__ = ()


class Strong(str):
    """Words that Markdown shows in bold."""

    __slots__ = ()


Words = str | tuple[str, ...]


class Bullet(Struct, frozen=True):
    """An entry of a list, and what belongs to it; `mark` and `may_be_cut` are as of a line."""

    words: Words
    mark: str = ""
    below: tuple[Block, ...] = ()
    may_be_cut: bool = False


class Titled(Struct, frozen=True):
    """Blocks under a title; Markdown shows those of a `folded` one after a click. `legend` says how entries begin."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False
    legend: str = ""

    @property
    def head(self) -> tuple[str, ...]:
        """Return the words above the blocks."""
        return (self.title, f" ({self.legend})") if self.legend else (self.title,)


class Quoted(Struct, frozen=True):
    """Lines that nobody folds, such as a diff; Markdown shows `limit` characters, or, if they are `yaml`, all."""

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
    """Return the first blocks, and an entry that says how many more there are."""
    return *blocks[:most], *more(len(blocks) - most, noun, hint)


def more(left: int, noun: str = "", hint: str = "") -> tuple[Bullet, ...]:
    """Return the entry that says how many more there are; none where there are none."""
    what = f" {noun}{'s' if left > 1 else ''}" if noun else ""
    return (Bullet(f"and {left} more{what}{hint}"),) if left > 0 else ()


def on_terminal(blocks: Iterable[Block], indent: str = "") -> Iterator[Part]:
    """Yield blocks as lines and tables that cannot control a terminal."""
    for block in blocks:
        match block:
            case Table():
                yield block.mapped(lambda _, cell: _line(cell))
            case Bullet():
                pieces = (block.words,) if isinstance(block.words, str) else block.words
                words = "".join(f"`{it}`" if isinstance(it, Command) else it for it in pieces)
                yield MarkedLine(_line(f"{indent}{words}"), block.mark, may_be_cut=block.may_be_cut)
                yield from on_terminal(block.below, f"{indent}    ")
            case Titled(blocks=(MarkedLine(),)):
                yield from on_terminal(block.blocks, indent)
            case Titled():
                yield MarkedLine(_line(f"{indent}{''.join(block.head)}:"))
                yield from on_terminal(block.blocks, f"{indent}  ")
            case Quoted():
                yield from (MarkedLine(_line(f"{indent}{it}"), to_copy=True) for it in block.text.splitlines())
            case _:
                yield replace(block, text=_line(f"{indent}{block.text}"))


def _line(text: str) -> str:
    return plain_text(text).replace("\n", " ")
