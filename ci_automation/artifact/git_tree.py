"""Names that Git gives to files and folders: the SHA-1 of their bytes, as `git rev-parse COMMIT:DIR` prints it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

PLAIN = 0o100644
EXECUTABLE = 0o100755
_FOLDER = 0o40000


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
    lines = [(_bytes(entry.path), entry.mode, _named(b"blob", entry.data)) for entry in entries]
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


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
