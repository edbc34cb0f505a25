"""The layer of an artifact: a gzipped tar, read with suspicion and written the same way everywhere.

What is refused follows the table of what source-controller and flux-operator do with each kind of entry
(`fluxcd/pkg/tar/tar.go`): what only one of them takes, or what ends up as another file than was packed, is refused here.
"""

from __future__ import annotations

import io
import tarfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.artifact.tree import File, Tree
from ci_automation.errors import VerificationFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

GZIP_MAGIC = b"\x1f\x8b"
_BLOCK = 512
_MAX_PATH = 1024
_MAX_DEPTH = 64


class UnsafeArchive(VerificationFailed):
    """An archive is hostile, broken, or holds something that does not survive the way through a cluster."""

    hint = "Nothing was unpacked. Publish the artifact again from files that you trust."


@dataclass(frozen=True, slots=True)
class Limits:
    """How much an archive may hold; sizes in bytes."""

    entries: int = 10_000
    total_bytes: int = 100 << 20  # what flux-operator takes; source-controller has no limit
    compressed_bytes: int = 100 << 20


def read_archive(data: bytes, limits: Limits = Limits()) -> Tree:  # a frozen value
    """Return the files of a gzipped tar; directories are implied, symbolic links left out as source-controller does.

    A duplicate name replaces the earlier file, as in every tar; permission bits are reduced to executable or not.

    Raises:
        UnsafeArchive: not gzip, truncated, more than `limits`, or an entry that escapes, links or is no regular file.
    """
    raw = _gunzip(data, limits)
    if len(raw) % _BLOCK:
        raise UnsafeArchive("the archive is truncated: its length is not a multiple of 512 bytes")
    files: dict[str, File] = {}
    directories: set[str] = set()
    try:
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as archive:
            for number, entry in enumerate(archive, 1):
                if number > limits.entries:
                    raise UnsafeArchive(f"the archive has more than {limits.entries} entries")
                _read_entry(archive, entry, files, directories)
    except (tarfile.TarError, UnicodeError, ValueError, OverflowError) as error:
        raise UnsafeArchive(f"the archive is not a tar file: {error}") from None
    if clash := sorted(files.keys() & directories):
        raise UnsafeArchive(f"{clash[0]!r} is a file and a directory at once")
    return Tree(tuple(files.values()))


def _read_entry(
    archive: tarfile.TarFile, entry: tarfile.TarInfo, files: dict[str, File], directories: set[str]
) -> None:
    if entry.isdir() and entry.name in {".", "./", ""}:
        return
    path = _checked_path(entry.name)
    parents = path.split("/")[:-1]
    directories.update("/".join(parents[: depth + 1]) for depth in range(len(parents)))
    if entry.isdir():
        directories.add(path)
    elif entry.issym():
        files.pop(path, None)
    elif entry.islnk():
        raise UnsafeArchive(f"{path!r} is a hard link, which clusters unpack as an empty file")
    elif not entry.isfile() or entry.issparse():
        raise UnsafeArchive(f"{path!r} is neither a regular file nor a directory")
    else:
        stream = archive.extractfile(entry)
        content = stream.read() if stream else b""
        if len(content) != entry.size:
            raise UnsafeArchive(f"{path!r} is truncated")
        files[path] = File(path, content, executable=bool(entry.mode & 0o111))


def _checked_path(name: str) -> str:
    """Return the path of an entry without `./` and trailing slash."""
    path = name.removeprefix("./").rstrip("/")
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path or "../" in f"{path}/":
        raise UnsafeArchive(f"the path {name[:200]!r} is empty, absolute, or leaves the archive")
    if any(part in {"", ".", ".."} for part in parts):
        raise UnsafeArchive(f"the path {name[:200]!r} has empty or relative parts")
    if any(ord(character) < 0x20 or ord(character) == 0x7F or 0xD800 <= ord(character) < 0xE000 for character in path):  # noqa: PLR2004  # C0 controls, DEL, surrogates
        raise UnsafeArchive(f"the path {name[:200]!r} has control characters or is not UTF-8")
    if len(path.encode()) > _MAX_PATH or len(parts) > _MAX_DEPTH:
        raise UnsafeArchive(
            f"the path {name[:200]!r} is longer than {_MAX_PATH} bytes or deeper than {_MAX_DEPTH} folders"
        )
    return path


def _gunzip(data: bytes, limits: Limits) -> bytes:
    """Return the content of one or more gzip members, at most as much as the limits allow."""
    if len(data) > limits.compressed_bytes:
        raise UnsafeArchive(f"the archive has more than {limits.compressed_bytes} bytes")
    if not data.startswith(GZIP_MAGIC):
        raise UnsafeArchive("the archive is not gzip")
    content = bytearray()
    while data:
        stream = zlib.decompressobj(wbits=31)
        try:
            content += stream.decompress(data, limits.total_bytes - len(content) + 1)
        except zlib.error as error:
            raise UnsafeArchive(f"the archive is not gzip: {error}") from None
        if len(content) > limits.total_bytes:
            raise UnsafeArchive(f"the archive unpacks to more than {limits.total_bytes} bytes")
        if not stream.eof:
            raise UnsafeArchive("the archive is truncated")
        data = stream.unused_data
    return bytes(content)


def write_archive(tree: Tree) -> bytes:
    """Return the gzipped tar of `tree`, with the same bytes for the same files everywhere and for ever.

    The tar is what `flux push artifact` packs (USTAR, `WalkDir` order, owner and times zero), with modes reduced to 0644 and 0755.
    The deflate blocks are *stored*, not compressed: no compressor's version can then change the digest.
    """
    return _gzip_stored(b"".join(_entries(tree)) + bytes(2 * _BLOCK))


def _entries(tree: Tree) -> Iterator[bytes]:
    yield _header(".", 0o755, 0, b"5")
    files = tree.by_path
    paths = {path.split("/")[0] for path in files}
    # A stack of paths, the next in `WalkDir` order on top: children sorted by name, directly behind their directory.
    stack = sorted(paths, reverse=True)
    while stack:
        path = stack.pop()
        if file := files.get(path):
            yield _header(path, file.mode, len(file.content), b"0")
            yield file.content + bytes(-len(file.content) % _BLOCK)
        else:
            yield _header(path, 0o755, 0, b"5")
            prefix = path + "/"
            children = {prefix + other[len(prefix) :].split("/")[0] for other in files if other.startswith(prefix)}
            stack += sorted(children, reverse=True)


def _header(path: str, mode: int, size: int, kind: bytes) -> bytes:
    """Return the header of one entry as Go's archive/tar writes it: USTAR where the name fits, else a PAX record before it."""
    name, prefix = path.encode(), b""
    if path.isascii() and len(name) <= tarfile.LENGTH_NAME:
        return _block(name, prefix, mode, size, kind, device=b"0000000\0")
    if path.isascii() and (split := _split(name)):
        return _block(split[1], split[0], mode, size, kind, device=b"0000000\0")
    folder, _, base = path.rpartition("/")
    pax_name = _ascii(f"{folder}/PaxHeaders.0/{base}" if folder else f"PaxHeaders.0/{base}")[: tarfile.LENGTH_NAME]
    record = _pax_record(name)
    pax = _block(pax_name.rstrip(b"/"), b"", 0, len(record), b"x", device=b"") + record + bytes(-len(record) % _BLOCK)
    return pax + _block(_ascii(path)[: tarfile.LENGTH_NAME], b"", mode, size, kind, device=b"0000000\0")


def _split(name: bytes) -> tuple[bytes, bytes] | None:
    """Return prefix and name as Go's `splitUSTARPath` cuts a long path, if it fits."""
    cut = name.rfind(b"/", 0, tarfile.LENGTH_PREFIX + 1)
    if cut <= 0 or len(name) - cut - 1 > tarfile.LENGTH_NAME:
        return None
    return name[:cut], name[cut + 1 :]


def _ascii(text: str) -> bytes:
    return text.encode("ascii", "ignore")


def _pax_record(path: bytes) -> bytes:
    """Return the PAX record of a path; its length counts its own digits (POSIX pax, *pax Extended Header*)."""
    body = b" path=" + path + b"\n"
    length = len(body)
    while len(str(length)) + len(body) != length:
        length = len(str(length)) + len(body)
    return str(length).encode() + body


def _block(name: bytes, prefix: bytes, mode: int, size: int, kind: bytes, *, device: bytes) -> bytes:
    zero = b"0000000\0"
    fields = [
        name.ljust(100, b"\0"),
        b"%07o\0" % mode,
        zero,
        zero,
        b"%011o\0" % size,
        b"%011o\0" % 0,
        b" " * 8,
        kind,
        bytes(100),
        b"ustar\00000",
        bytes(64),
        device.ljust(8, b"\0") * 2,
        prefix.ljust(155, b"\0"),
        bytes(12),
    ]
    block = b"".join(fields)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def _gzip_stored(content: bytes) -> bytes:
    """Return `content` as gzip with a fixed header and stored deflate blocks (RFC 1951 section 3.2.4, RFC 1952)."""
    parts = [b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]
    for start in range(0, len(content), 0xFFFF):
        chunk = content[start : start + 0xFFFF]
        final = start + 0xFFFF >= len(content)
        parts.append(bytes([final]) + len(chunk).to_bytes(2, "little") + (len(chunk) ^ 0xFFFF).to_bytes(2, "little"))
        parts.append(chunk)
    parts.append(zlib.crc32(content).to_bytes(4, "little") + (len(content) & 0xFFFFFFFF).to_bytes(4, "little"))
    return b"".join(parts)
