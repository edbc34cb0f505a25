"""Git's view of files: the names that it gives them, and attributes that change or hide them (gitattributes(5)).

A name is the SHA-1 of a file's or a folder's bytes, as `git rev-parse COMMIT:DIR` prints it. A line of attributes
counts for each path that its pattern might match, and whatever another line takes back: too much is found rather than
too little.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

PLAIN = 0o100644
EXECUTABLE = 0o100755
_FOLDER = 0o40000
ATTRIBUTES = ".gitattributes"
_BLANK = " \t\r"
_BLANKS = re.compile(f"[{_BLANK}]+")
_LINE = re.compile(rf'"(?P<quoted>(?:[^"\\]|\\.)*)"(?P<after>.*)|(?P<plain>[^{_BLANK}]+)(?P<states>.*)', re.DOTALL)
_MACRO = "[attr]"
_CONCEALING = re.compile(
    r"""
      binary(?:=.*)?
    | (?:filter|ident|eol|working-tree-encoding)(?:=.*)?
    | -diff
    | linguist-generated(?:=(?!false$).*)?
    """,
    re.VERBOSE | re.DOTALL,
)
_DEEP = re.compile(r"\*\*|\[")
_SPECIAL = re.compile(r"[*?\[\]\\]")


class GitEntry(Struct, frozen=True):
    """A file of a Git folder: its mode, its path with `/`, relative to the folder, and its bytes."""

    mode: int
    path: str
    data: bytes


def git_blob_id(data: bytes) -> str:
    """Return the id that Git gives to the bytes of a file."""
    return _named(b"blob", data).hex()


def git_tree_id(entries: Iterable[GitEntry]) -> str:
    """Return the id that Git gives to a folder with these files; Git keeps no empty folders."""
    named = ((it.path.encode("utf-8", "surrogateescape"), it) for it in entries)
    lines = [(path, entry.mode, _named(b"blob", entry.data)) for path, entry in named]
    return _tree(lines).hex()


def _tree(lines: list[tuple[bytes, int, bytes]]) -> bytes:
    """Return the id of a folder with the files whose path, mode and id are given."""
    folders: dict[bytes, list[tuple[bytes, int, bytes]]] = {}
    found = []
    for path, mode, name in lines:
        head, slash, rest = path.partition(b"/")
        if slash:
            folders.setdefault(head, []).append((rest, mode, name))
        else:
            found.append((path, mode, name))
    found += [(head, _FOLDER, _tree(inside)) for head, inside in folders.items()]
    found.sort(key=lambda line: line[0] + b"/" if line[1] == _FOLDER else line[0])
    return _named(b"tree", b"".join(b"%o %s\0%s" % (mode, path, name) for path, mode, name in found))


def _named(kind: bytes, data: bytes) -> bytes:
    return hashlib.sha1(b"%s %d\0%s" % (kind, len(data), data), usedforsecurity=False).digest()


class Concealment(Struct, frozen=True):
    """A file that is not shown as Git stores it, the attribute that does that, and the attributes file that has it."""

    path: str
    attribute: str
    source: str


def attribute_files(folder: str) -> tuple[str, ...]:
    """Return the paths of the attributes files above a folder of a repository, from the root downwards."""
    return tuple(str(parent / ATTRIBUTES) for parent in reversed(PurePosixPath(folder).parents))


def concealed(attributes: Mapping[str, str], paths: Iterable[str]) -> Concealment | None:
    """Return an attribute that conceals one of the files, or None.

    `attributes` has the texts of attributes files by their paths, `paths` are those of the files; all of them begin at
    the root of the repository.
    """
    lines = [(source, *line) for source, text in attributes.items() for line in _lines(text)]
    macros = {pattern.removeprefix(_MACRO): words for _, pattern, words in lines if pattern.startswith(_MACRO)}
    if not any(_concealing(words, ()) for words in macros.values()):
        macros = {}  # else one may be of another, and each counts
    known = tuple(paths)
    for source, pattern, words in lines:
        below, word = source.removesuffix(ATTRIBUTES), _concealing(words, macros)
        for path in known if word and not pattern.startswith(_MACRO) else ():
            if path.startswith(below) and _may_match(pattern, path.removeprefix(below)):
                return Concealment(path, word, source)
    return None


def _concealing(words: Iterable[str], macros: Collection[str]) -> str:
    """Return the first of a line's attributes that conceals, or nothing."""
    return next((word for word in words if word in macros or _CONCEALING.fullmatch(word)), "")


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield pattern and attributes of each line; a quoted pattern with escapes counts as one that matches all."""
    for line in text.removeprefix("\ufeff").split("\n"):
        match = _LINE.match(line.lstrip(_BLANK))
        if match is None or line.lstrip(_BLANK).startswith("#"):
            continue
        pattern = match["plain"] or match["quoted"] or ""
        is_escaped = match["plain"] is None and "\\" in pattern
        yield "**" if is_escaped else pattern, _BLANKS.split(match["after"] or match["states"] or "")


def _may_match(pattern: str, path: str) -> bool:
    """Return whether a pattern may match a path below its attributes file: by what it has before and after wildcards.

    A pattern without a slash is about names in all folders; one with wildcards for folders, `**`, about any depth.
    """
    text = f"/{path}" if "/" in pattern else f"/{path.rpartition('/')[2]}"
    whole = f"/{pattern.removeprefix('/')}"
    is_deep = _DEEP.search(whole) is not None
    if not is_deep and whole.count("/") != text.count("/"):
        return False
    begin, *between = _SPECIAL.split(whole)
    if not between:
        return text == begin
    end = between[-1].removeprefix("/") if is_deep else between[-1]  # Git takes `a**/b` for `ab` too
    return text.startswith(begin) and text.endswith(end)
