"""Pieces of Markdown as GitHub reads it (GitHub Flavored Markdown), which no text in them can break.

What people or other programs wrote comes in as code, or through `quote.inline`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_automation.report.text import plain_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TYPED = re.compile(r"[^`\n]+")
_SIMPLE = re.compile(r"[^`|\s](?:[^`|\n]*[^`|\s])?")
_LETTERS = re.compile(r"[^A-Za-z0-9 ]")
_URL = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&'*+,;=%-]{1,2000}")


def code(text: str) -> str:
    """Return `text` as code, also in the cell of a table; nothing in it is a link, a mention or a picture."""
    return _code(text, _SIMPLE)


def command(text: str) -> str:
    """Return `text` as code outside of tables: as it is typed wherever it can be, to be copied from the source too."""
    return _code(text, _TYPED)


def _code(text: str, simple: re.Pattern[str]) -> str:
    text = plain_text(text).replace("\n", " ").strip()
    if not text or simple.fullmatch(text):
        return f"`{text}`" if text else ""
    # A code span ends at its backticks, and a cell at its bar: neither can be escaped in it, but as an entity.
    return f"<code>{_LETTERS.sub(lambda sign: f'&#{ord(sign[0])};', text)}</code>"


def link(words: str, url: str) -> str:
    """Return a link; an address that is none, or no web page's, is shown as code."""
    return f"[{words}](<{url}>)" if _URL.fullmatch(url) else f"{words}: {code(url)}"


def folded(summary: str, markdown: str) -> str:
    """Return what a click on `summary` shows, or nothing for nothing."""
    return f"<details>\n<summary>{summary}</summary>\n\n{markdown}\n\n</details>" if markdown else ""


def cell(markdown: str) -> str:
    """Return a line of Markdown as the cell of a table: it ends neither its cell nor its row."""
    lines = filter(None, map(str.strip, markdown.split("\n")))
    return "<br>".join(lines).replace("\\|", "|").replace("|", "&#124;")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown themselves.

    Raises:
        ValueError: a row has more or fewer cells than the head.
    """
    lines = [tuple(head), ("---",) * len(head)]
    for row in rows:
        if len(row) != len(head):
            raise ValueError("a row has as many cells as the head")
        lines.append(tuple(row))
    return "\n".join(f"| {' | '.join(cell(each) for each in line)} |" for line in lines)
