"""Pieces of Markdown as GitHub reads it (GitHub Flavored Markdown), which no text in them can break.

Text of people and other programs comes in as code, or through `inline`, `one_line` or `quote`, and does nothing.

GitHub looks for people, issues and addresses in a page after it rendered the Markdown, where neither a backslash nor an
entity keeps them apart. Where a merge takes the description of a pull request for the commit's message, there is no
Markdown at all, and `Fixes #1` closes an issue out of a fenced block too. So a blank, which a person sees, takes apart
what GitHub would find, and it is fenced or escaped besides (GitHub Flavored Markdown, *Autolinks*; GitHub's
*Autolinked references and URLs*, *Linking a pull request to an issue*, *Skipping workflow runs*).

The last lines of a request's page are marks for this program: each says what the page asks for one artifact, and
whether that was brought to an end. So do the comments that end with them.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.reference import Digest
from ci_automation.report.blocks import Block, Bullet, Code, Command, Quoted, Strong, Table, Titled, Words, plain_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_automation.artifact.reference import Reference

_TYPED = re.compile(r"[^`\n]+")
_SIMPLE = re.compile(r"[^`|\s](?:[^`|\n]*[^`|\s])?")
_LETTERS = re.compile(r"[^A-Za-z0-9 ]")
_URL = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&'*+,;=%-]{1,2000}")
_SCHEME = re.compile(r"(?:https?|ftp)://", re.IGNORECASE)
_APART = (
    # People, teams and mail; but `image@sha256:` is no mention, and is to be copied.
    (re.compile(r"(?<![A-Za-z0-9])@(?=[A-Za-z0-9])|@(?!sha256:)(?=[A-Za-z0-9])"), "@ "),
    (re.compile(r"#(?=[0-9])"), "# "),  # issues
    (re.compile(r"(?<![A-Za-z0-9])(gh)-(?=[0-9])", re.IGNORECASE), r"\1 -"),  # same
    (re.compile(r"(?<![A-Za-z0-9])(www)\.", re.IGNORECASE), r"\1 ."),  # an address without its beginning
    (re.compile(r"\[(?=(?:skip ci|ci skip|no ci|skip actions|actions skip)\])", re.IGNORECASE), "[ "),
    (re.compile(r"^/(?=[a-z])", re.IGNORECASE | re.MULTILINE), " /"),  # what bots take for a command
)
_EMOJI = re.compile(r":(?=[A-Za-z0-9_+-]+:)")  # GitHub loads an image for some
_UNSEEN = re.compile("[^\\S\n]|[\u115f\u1160\u2800\u3164\uffa0]")  # blanks of all widths, letters without a shape
_MOST_MARKS = 2  # on one letter; a pile of them covers the lines around
_MOST_BACKTICKS = 8
_BACKTICKS = re.compile(r"`+")
_MARKUP = re.compile(r"[\\`*_\[\]{}<>#|~&$!^=]")
_BULLET = re.compile(r"^([0-9]*)([-+.)])")
_CUT = "… (cut here)"
_MAX_NAME, _MAX_WORDS, _MAX_COMMAND = 120, 300, 600  # characters


def to_markdown(blocks: Iterable[Block], head: str = "{}:") -> str:
    """Return blocks as Markdown; `head` is how the titles of these sections look."""
    text, in_list = "", False
    for block in blocks:
        listed = isinstance(block, Bullet)
        text += ("\n" if listed and in_list else "\n\n") if text else ""
        text += _block(block, head)
        in_list = listed
    return text


def _block(block: Block, head: str) -> str:
    from html import escape  # it has all names of HTML, which a terminal never needs

    match block:
        case Bullet():
            lines = (line for it in block.below for line in _below(it))
            return "\n".join((f"- {words_markdown(block.words)}", *lines))
        case Titled(folded=True):
            # The words to click on are in HTML, where backticks keep nothing apart.
            return folded(escape(one_line(block.title), quote=False), to_markdown(block.blocks))
        case Titled():
            return f"{head.format(words_markdown(block.title))}\n\n{to_markdown(block.blocks)}"
        case Table():
            return markdown_table(block.head, [[*map(words_markdown, row)] for row in block.rows])
        case Quoted():
            return f"```yaml\n{block.text}\n```" if block.yaml else quote(block.text, block.limit)
        case _:
            return words_markdown(block.text)


def _below(block: Block) -> Iterator[str]:
    yield from (f"  {line}".rstrip() for line in _block(block, "{}:").split("\n"))


def words_markdown(words: Words) -> str:
    """Return words outside of tables, with the blanks between them."""
    return _BULLET.sub(r"\1\\\2", "".join(map(_piece, (words,) if isinstance(words, str) else words)))


def _piece(text: str) -> str:
    if isinstance(text, Code):
        return typed(one_line(text, _MAX_COMMAND)) if isinstance(text, Command) else code(one_line(text, _MAX_NAME))
    before, after = (" " if blank else "" for blank in (text[:1].isspace(), text.strip() and text[-1:].isspace()))
    shown = _unmarked(text, _MAX_NAME if isinstance(text, Strong) else _MAX_WORDS)
    return f"{before}{f'**{shown}**' if isinstance(text, Strong) else shown}{after}"


def code(text: str) -> str:
    """Return `text` as code, also in the cell of a table; nothing in it is a link, a mention or a picture."""
    return _code(text, _SIMPLE)


def typed(text: str) -> str:
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


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
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


def quote(text: str, limit: int) -> str:
    """Return a block of Markdown that shows `text`, in at most `limit` characters; nothing for no text.

    Nothing in it is rendered, linked, loaded or mentioned, and nothing in it ends the block.
    """
    lines = _harmless(text[: limit + 1].replace("\r\n", "\n")).split("\n")
    body = "\n".join(line.rstrip() for line in lines).strip("\n")
    body = re.sub(rf"`{{{_MOST_BACKTICKS},}}", "`" * _MOST_BACKTICKS, body)
    fence = "`" * max(3, 1 + max((len(run) for run in _BACKTICKS.findall(body)), default=0))
    room = limit - len(f"{fence}text\n\n{fence}")
    if not body or room <= len(_CUT):
        return ""
    if len(body) > room or len(text) > limit:
        body = f"{body[: room - len(_CUT) - 1].rstrip()}\n{_CUT}"
    return f"{fence}text\n{body}\n{fence}"


def one_line(text: str, limit: int = 200) -> str:
    """Return `text` as one line of at most `limit` characters, for where there is no Markdown, as in a title."""
    words = " ".join(text.split())
    line = " ".join(_harmless(words[: 2 * limit]).split())
    return line if len(line) <= limit and len(words) <= 2 * limit else line[: limit - 1].rstrip() + "…"


def inline(text: str, limit: int = 200) -> str:
    """Return `text` as a part of a line or of a table's cell, at its beginning too, without any markup of its own.

    What a reader sees of it has at most about `limit` characters.
    """
    return _BULLET.sub(r"\1\\\2", _unmarked(text, limit))


def _unmarked(text: str, limit: int) -> str:
    return _MARKUP.sub(r"\\\g<0>", _EMOJI.sub(": ", one_line(text, limit)))


def _harmless(text: str) -> str:
    """Return `text` without what cannot be seen or printed, and with what GitHub would find in it taken apart."""
    text = _unpiled(_UNSEEN.sub(" ", plain_text(text.expandtabs(4))))
    text = _SCHEME.sub(" ", _SCHEME.sub("", text))  # a second time: one may have been around another
    for pattern, apart in _APART:
        text = pattern.sub(apart, text)
    return text


def _unpiled(text: str) -> str:
    """Return `text` with few marks on each letter."""
    if text.isascii():
        return text
    kept, pile = [], 0
    for character in text:
        pile = pile + 1 if unicodedata.category(character) in {"Mn", "Me"} else 0
        if pile <= _MOST_MARKS:
            kept.append(character)
    return "".join(kept)


_MAX_REASON = 600
_DIGEST = r"sha256:[0-9a-f]{64}"
_MARK = re.compile(
    rf"<!-- flux-manifests (?P<state>[a-z]+) (?P<base>{_DIGEST}) (?P<target>{_DIGEST}) (?P<of>{_DIGEST})"
    r"(?P<shown> shown(?: [0-9a-f]{16})*)? -->\s*"
)
_MARKS = re.compile(rf"(?:{re.sub('P<[a-z]+>', ':', _MARK.pattern)})+\Z")


class MarkState(enum.StrEnum):
    """Progress of a request."""

    OPENED = "opened"  # the people who are asked were not all told
    ASKED = "asked"
    WITHDRAWN = "withdrawn"  # by this program, not by a person


class Mark(Struct, frozen=True):
    """What a page asks for one artifact, in one of its last lines. People can edit that line: it approves nothing.

    `of` is the digest of the artifact's address: two artifacts can have the same digests. `shown` are the names of the
    hazards on the page, and of the rules for content; None where it has no such list, as where nothing is asked any
    more: it showed none.
    """

    base: Digest
    target: Digest
    of: Digest
    state: MarkState = MarkState.ASKED
    shown: frozenset[str] | None = None

    def __str__(self) -> str:
        shown = () if self.shown is None else ("shown", *sorted(self.shown))
        return " ".join(
            ("<!-- flux-manifests", self.state, *map(str, (self.base, self.target, self.of)), *shown, "-->")
        )


def find_marks(body: str) -> tuple[Mark, ...]:
    """Return the marks at the end of a page, or of a comment of ours; none if one of them is not as it should be."""
    end = _MARKS.search(body)
    found = list(_MARK.finditer(end[0])) if end else []
    states = {each["state"] for each in found}
    if len(states) != 1 or not states <= set(MarkState):
        return ()
    return tuple(
        Mark(
            Digest.parse(each["base"]),
            Digest.parse(each["target"]),
            Digest.parse(each["of"]),
            MarkState(each["state"]),
            None if each["shown"] is None else frozenset(each["shown"].split()[1:]),
        )
        for each in found
    )


def put_marks(body: str, marks: Iterable[Mark]) -> str:
    """Return a page with these marks at its end, instead of those that it had."""
    lines = "\n".join(map(str, marks))
    return f"{_MARKS.sub('', body).rstrip()}\n\n{lines}\n"


def place_digest(artifact: Reference) -> Digest:
    """Return what stands for an artifact's address in a mark."""
    return Digest.of(str(artifact).encode())


def superseded(changes: Sequence[tuple[str, Mark, Mark]], marks: Iterable[Mark]) -> str:
    """Return the comment that says what is asked for now, and that no earlier approval counts for it."""
    asks = (f"{what}, {code(str(new.target))}, instead of {code(str(old.target))}" for what, old, new in changes)
    return put_marks(
        f"Superseded: this pull request now asks for {', and for '.join(asks)}. "
        f"Approvals of the old digest{'s' if len(changes) > 1 else ''} do not count for it.",
        marks,
    )


def withdrawn(marks: Iterable[Mark], reason: str) -> str:
    """Return the comment with which a request is closed."""
    return put_marks(f"Withdrawn: {inline(reason, _MAX_REASON)}.", marks)
