"""The layer of an artifact: a gzipped tar, read with suspicion and written the same way everywhere.

The reader follows what source-controller and flux-operator do with each kind of entry (`fluxcd/pkg/tar/untar.go`). It
refuses an entry that only one of them takes, or that they unpack as another file than was packed. It leaves out
symbolic links, as source-controller does, and global pax headers, which `git archive` writes and clusters unpack as an
empty file.

With `exact`, before a person trusts and signs an archive of others, the reader refuses these too, because the person
must see everything that any reader finds in it.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact import tar
from ci_automation.artifact.tree import Tree, TreeFile, UnfitPath
from ci_automation.errors import VerificationFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 16
_MAX_MEMBERS = 10_000  # of a gzip file; parallel compressors write one for each 64 KiB or more
_TYPE_BITS = ~0o7777
_READABLE = 0o400  # by source-controller, whose files they are
_REGULAR_BITS = frozenset({0, 0o100000})
_LINK_BITS = frozenset({0, 0o120000})


class UnsafeArchive(VerificationFailed):
    """An archive is hostile, broken, or has an entry that clusters refuse."""

    hint = "Nothing was unpacked. Publish the artifact again from files that you trust."


class NotPacked(UnsafeArchive):
    """A layer is no folder that was packed as tar and gzip, such as a file that `oras push` took as it is."""

    hint = "Clusters cannot read it either. Push the folder with `flux push artifact`, or pack it with `tar -cz` first."
    message = "the archive is not gzip"


class HiddenContent(VerificationFailed):
    """Some readers of an artifact find other files than this program shows."""

    hint = (
        "Nothing was signed. Push the files again with `flux push artifact`, which writes one layer of plain files, "
        "and adopt that artifact."
    )

    def __init__(self, reason: str) -> None:
        super().__init__(f"the artifact holds more than its list of files shows: {reason}")


class Limits(Struct, frozen=True):
    """Limits for the content of an archive; sizes in bytes."""

    entries: int = 10_000
    total_bytes: int = 100 << 20  # flux-operator's limit; source-controller has none
    compressed_bytes: int = 100 << 20


_LIMITS = Limits()


def read_archive(data: bytes, limits: Limits = _LIMITS, *, exact: bool = False) -> Tree:
    """Return the files of a gzipped tar, without directories, and like source-controller without symbolic links.

    A duplicate name replaces the earlier file, as in every tar. Permission bits are reduced to executable or not. With
    `exact`, this refuses every entry that it would leave out or replace.

    Raises:
        UnsafeArchive: not gzip, truncated, more than `limits`, or an entry that escapes, links or is no regular file.
        HiddenContent: with `exact`, if a reader could find other content than these files.
    """
    content, members = _gunzip(data, limits)
    if exact and members > 1:
        raise HiddenContent(f"it is made of {members} gzip members, and some readers stop after the first")
    contents = _Contents()
    try:
        for number, entry in enumerate(tar.tar_entries(content), 1):
            if number > limits.entries:
                raise UnsafeArchive(f"the archive has more than {limits.entries} entries")
            if exact:
                contents.refuse_hidden(entry)
            contents.add(entry)
        return contents.tree()
    except tar.BrokenTar as error:
        raise UnsafeArchive(f"the archive is not a tar file that Flux reads: {error}") from None
    except UnfitPath as error:
        raise UnsafeArchive(f"the archive has an entry that clusters refuse: {error}") from None


class _Contents:
    """Files that a cluster would unpack from the entries of an archive."""

    def __init__(self) -> None:
        self._files: dict[str, TreeFile] = {}
        self._strays: dict[str, TreeFile] = {}
        self._directories: set[str] = set()

    def add(self, entry: tar.TarEntry) -> None:
        """Add the next entry, which replaces an earlier one with its name."""
        path = _cleaned(entry.name)
        bits = entry.mode & _TYPE_BITS  # Go takes them for the type, whatever the type flag says
        if entry.kind == tar.REGULAR and bits in _REGULAR_BITS:
            self._files[path] = TreeFile(path, entry.content, executable=bool(entry.mode & 0o111))
        elif entry.kind == tar.DIRECTORY:
            self._directories.add(path)
        elif entry.kind == tar.GLOBAL:
            self._strays[path] = TreeFile(path, b"")
        elif entry.kind == tar.HARD_LINK:
            raise UnsafeArchive(f"{path!r} is a hard link, which clusters unpack as an empty file")
        elif entry.kind != tar.SYMBOLIC_LINK or bits not in _LINK_BITS:
            raise UnsafeArchive(f"{path!r} is neither a regular file nor a directory")

    def refuse_hidden(self, entry: tar.TarEntry) -> None:
        """Raise `HiddenContent` unless the next entry is a visible file or directory that replaces nothing."""
        path = _cleaned(entry.name)
        if entry.kind == tar.GLOBAL:
            raise HiddenContent(f"{path!r} is a global pax header, which clusters unpack as an empty file")
        if entry.kind == tar.SYMBOLIC_LINK:
            raise HiddenContent(f"{path!r} is a symbolic link, which some readers follow and others leave out")
        if entry.kind != tar.REGULAR:
            return
        if path in self._files:
            raise HiddenContent(f"{path!r} is in it twice, and a list would show only the last entry")
        if not entry.mode & _READABLE:
            raise HiddenContent(f"{path!r} has the mode {entry.mode & 0o7777:04o}, with which clusters cannot read it")

    def tree(self) -> Tree:
        """Return the files.

        Raises:
            UnsafeArchive: a file has the name of a directory entry.
            UnfitPath: a file has the name of another file's directory, or of a global header.
        """
        files = Tree((*self._files.values(), *self._strays.values()))
        if clash := sorted(files.by_path.keys() & self._directories):
            raise UnsafeArchive(f"{clash[0]!r} is a file and a directory at once")
        return Tree(tuple(self._files.values()))


def _cleaned(name: str) -> str:
    """Return the path that Go's `filepath.Join` makes of a name, empty for the archive's root."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    if not name or name.startswith("/") or "\\" in name or "../" in name or ".." in parts:
        raise UnsafeArchive(f"the name {name[:200]!r} is empty, absolute, or leaves the archive")
    return "/".join(parts)


def _gunzip(data: bytes, limits: Limits) -> tuple[bytes, int]:
    """Return the content of the gzip members, within the limits, and the number of members."""
    if len(data) > limits.compressed_bytes:
        raise UnsafeArchive(f"the archive has more than {limits.compressed_bytes} bytes")
    if not data.startswith(GZIP_MAGIC):
        raise NotPacked
    content = bytearray()
    offset = 0
    for members in range(1, _MAX_MEMBERS + 1):
        offset = _gunzip_member(data, offset, content, limits.total_bytes)
        if offset == len(data):
            return bytes(content), members
    raise UnsafeArchive(f"the archive has more than {_MAX_MEMBERS} gzip members")


def _gunzip_member(data: bytes, offset: int, content: bytearray, limit: int) -> int:
    """Add the content of one gzip member to `content`, and return the offset of the next one."""
    stream = zlib.decompressobj(wbits=31)
    while not stream.eof:
        chunk = stream.unconsumed_tail or data[offset : offset + _CHUNK]
        offset += 0 if stream.unconsumed_tail else len(chunk)
        try:
            content += stream.decompress(chunk, limit - len(content) + 1)
        except zlib.error as error:
            raise UnsafeArchive(f"the archive is not gzip: {error}") from None
        if len(content) > limit:
            raise UnsafeArchive(f"the archive unpacks to more than {limit} bytes")
        if not chunk and not stream.eof:
            raise UnsafeArchive("the archive is truncated")
    return offset - len(stream.unused_data)


def write_archive(tree: Tree) -> bytes:
    """Return the gzipped tar of `tree`, with the same bytes for the same files on every machine and at any time.

    The tar has the form of `flux push artifact` (ustar, `WalkDir` order, owner and times zero), with modes reduced to
    0644 and 0755. The deflate blocks are *stored*, not compressed, so the version of a compressor cannot change the
    digest.
    """
    return _gzip_stored(b"".join(_blocks(tree)))


def _blocks(tree: Tree) -> Iterator[bytes]:
    yield tar.tar_header(".", 0o755, 0, tar.DIRECTORY)
    files = tree.by_path
    # `WalkDir` sorts by names, not by paths: `sub/x` comes before `sub-a`.
    for path in sorted(files.keys() | tree.directories, key=lambda path: path.split("/")):
        if file := files.get(path):
            yield tar.tar_header(path, file.mode, len(file.content), tar.REGULAR)
            yield file.content
            yield tar.padding(file.content)
        else:
            yield tar.tar_header(path, 0o755, 0, tar.DIRECTORY)
    yield tar.END


def _gzip_stored(content: bytes) -> bytes:
    """Return `content` as gzip with a fixed header and stored deflate blocks (RFC 1951 section 3.2.4, RFC 1952)."""
    parts: list[bytes | memoryview] = [b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]
    view = memoryview(content)
    for start in range(0, len(content), 0xFFFF):
        chunk = view[start : start + 0xFFFF]
        final = start + 0xFFFF >= len(content)
        parts.append(bytes([final]) + len(chunk).to_bytes(2, "little") + (len(chunk) ^ 0xFFFF).to_bytes(2, "little"))
        parts.append(chunk)
    parts.append(zlib.crc32(content).to_bytes(4, "little") + (len(content) & 0xFFFFFFFF).to_bytes(4, "little"))
    return b"".join(parts)
