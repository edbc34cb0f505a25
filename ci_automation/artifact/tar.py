"""The tar format as artifacts need it: a reader of ustar, pax and GNU archives, and a writer like Go's archive/tar.

The reader follows Go's `archive/tar/reader.go`, which clusters unpack with, so names and contents are the same there.
Python's tarfile ends silently at a broken header, lets global pax headers rename files, and treats odd headers
differently in each patch release of Python.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BLOCK = 512
END = bytes(2 * BLOCK)
REGULAR, HARD_LINK, SYMBOLIC_LINK, DIRECTORY, GLOBAL = b"0", b"1", b"2", b"5", b"g"

_WITHOUT_CONTENT = frozenset({HARD_LINK, SYMBOLIC_LINK, b"3", b"4", DIRECTORY, b"6"})
_OLD_REGULAR, _PAX, _LONG_NAME, _LONG_LINK = b"\0", b"x", b"L", b"K"
_EXTENSIONS = frozenset({GLOBAL, _PAX, _LONG_NAME, _LONG_LINK})
_MAX_EXTENSION = 1 << 20  # Go's limit
_NAME, _MODE, _SIZE, _CHECKSUM = slice(100), slice(100, 108), slice(124, 136), slice(148, 156)
_IGNORED = (slice(108, 116), slice(116, 124), slice(136, 148))  # owner, group, time
_IGNORED_USTAR = (slice(329, 337), slice(337, 345))  # device
_IGNORED_GNU = (slice(345, 357), slice(357, 369))  # two more times, where ustar has the prefix
_IGNORED_STAR = (slice(476, 488), slice(488, 500))  # and star behind it
_PAX_NUMBER = re.compile(rb"[0-9]{1,18}")
_PAX_TIME = re.compile(rb"-?[0-9]{1,18}(\.[0-9]*)?")
_PAX_VALUES = {  # Go checks these, and refuses an archive with an invalid one
    b"path": re.compile(rb"[^\0]*"),
    b"linkpath": re.compile(rb"[^\0]*"),
    b"uname": re.compile(rb"[^\0]*"),
    b"gname": re.compile(rb"[^\0]*"),
    b"size": _PAX_NUMBER,
    b"uid": _PAX_NUMBER,
    b"gid": _PAX_NUMBER,
    b"atime": _PAX_TIME,
    b"mtime": _PAX_TIME,
    b"ctime": _PAX_TIME,
}
_PAX_RECORD = re.compile(rb"([0-9]{1,7}) ")


class BrokenTar(Exception):
    """Bytes are not a tar archive that Go would read; `archive.py` makes an error for the user."""


class TarEntry(Struct, frozen=True):
    """One entry of an archive: its unchanged name, its type flag, its mode bits, and its content."""

    name: str
    kind: bytes
    mode: int
    content: bytes


def tar_entries(raw: bytes) -> Iterator[TarEntry]:
    """Yield the entries of an archive, including global headers, with the names from extension headers.

    Raises:
        BrokenTar: a header is broken, the archive is cut off, or bytes follow its end.
    """
    offset = 0
    records: Mapping[bytes, str] = {}
    long_name = ""
    while offset < len(raw):
        block = raw[offset : offset + BLOCK]
        if not any(block):
            break
        offset += BLOCK
        kind, size = _checked(block), _number(block[_SIZE])
        if kind in _EXTENSIONS:
            content = _content(raw, offset, size, _MAX_EXTENSION)
            offset += _padded(size)
            if kind == GLOBAL:
                yield TarEntry(_pax_records(content).get(b"path") or _name(block), kind, 0, b"")
                records, long_name = {}, ""
            elif kind == _PAX:
                records = _pax_records(content)
            elif kind == _LONG_NAME:
                long_name = _text(content)
            continue
        name = long_name or records.get(b"path") or _name(block)
        if kind == _OLD_REGULAR:
            kind = DIRECTORY if name.endswith("/") else REGULAR
        size = 0 if kind in _WITHOUT_CONTENT else int(records.get(b"size") or size)
        yield TarEntry(name, kind, _number(block[_MODE]), _content(raw, offset, size, len(raw)))
        offset += _padded(size)
        records, long_name = {}, ""
    if records or long_name:
        raise BrokenTar("it ends after an extension header")
    if raw.count(0, offset) != len(raw) - offset:
        raise BrokenTar("there is something behind its end")


def _checked(block: bytes) -> bytes:
    """Check a header's checksum and numbers, and return its type flag."""
    checksum = block[_CHECKSUM]
    if len(block) != BLOCK or _number(checksum) != sum(block) - sum(checksum) + sum(b" " * len(checksum)):
        raise BrokenTar("a header is broken or cut off")
    fields = [_MODE, *_IGNORED]  # Go also refuses an archive for an invalid number that it does not use
    if block[257:262] == b"ustar":
        fields += _IGNORED_USTAR
    if block[257:265] == b"ustar  \0":
        fields += _IGNORED_GNU
    if _is_star(block):
        fields += _IGNORED_STAR
    for field in fields:
        _number(block[field])
    return block[156:157]


def _name(block: bytes) -> str:
    name = _text(block[_NAME])
    if block[257:263] != b"ustar\0":
        return name
    prefix = _text(block[345 : 476 if _is_star(block) else 500])
    return f"{prefix}/{name}" if prefix else name


def _is_star(block: bytes) -> bool:
    """Return whether this is a header of Schily's star, which has times after a shorter prefix."""
    return block[257:263] == b"ustar\0" and block[508:] == b"tar\0"


def _text(field: bytes) -> str:
    """Return the text up to the first NUL."""
    return _decoded(field.partition(b"\0")[0])


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise BrokenTar("a name is not UTF-8") from None


def _number(field: bytes) -> int:
    """Return a number in octal digits, or in base 256 as GNU writes large ones (negative ones are refused)."""
    if field[0] & 0x80:
        value = int.from_bytes(field, "big") & ~(0x80 << 8 * (len(field) - 1))
        if field[0] & 0x40 or value >> 63:
            raise BrokenTar("a number is negative or too large")
        return value
    digits = field.strip(b" \0").partition(b"\0")[0]
    if digits.translate(None, b"01234567"):
        raise BrokenTar("a number is not octal")
    return int(digits or b"0", 8)


def _content(raw: bytes, offset: int, size: int, limit: int) -> bytes:
    if size > limit or offset + size > len(raw):
        raise BrokenTar("it is cut off, or states a larger size")
    return raw[offset : offset + size]


def _padded(size: int) -> int:
    return size + -size % BLOCK


def _pax_records(content: bytes) -> dict[bytes, str]:
    """Return the records of an extended header (POSIX pax, *pax Extended Header*)."""
    records = {}
    offset = 0
    while offset < len(content):
        match = _PAX_RECORD.match(content, offset)
        end = offset + int(match[1]) if match else 0
        record = content[match.end() : end] if match else b""
        key, equals, value = record.removesuffix(b"\n").partition(b"=")
        if not key or not equals or b"\0" in key or not record.endswith(b"\n") or end > len(content):
            raise BrokenTar("a pax header is broken")
        if key.startswith(b"GNU.sparse."):
            raise BrokenTar("it has a sparse file")
        if rule := _PAX_VALUES.get(key):
            if value and not rule.fullmatch(value):
                raise BrokenTar(f"a pax header has a bad {key.decode()}")
            records[key] = _decoded(value)
        offset = end
    return records


def tar_header(path: str, mode: int, size: int, kind: bytes) -> bytes:
    """Return the header of one entry as Go writes it: ustar if the name fits, else with a pax header before it."""
    name = path.encode()
    if path.isascii() and len(name) <= _NAME.stop:
        return _block(name, b"", mode, size, kind)
    if path.isascii() and (split := _split(name)):
        return _block(split[1], split[0], mode, size, kind)
    folder, _, base = path.rpartition("/")
    pax_name = _ascii(f"{folder}/PaxHeaders.0/{base}" if folder else f"PaxHeaders.0/{base}")[: _NAME.stop]
    record = _pax_record(name)
    pax = _block(pax_name.rstrip(b"/"), b"", 0, len(record), _PAX, device=b"")
    return pax + record + padding(record) + _block(_shortened(_ascii(path)), b"", mode, size, kind)


def padding(content: bytes) -> bytes:
    """Return the zeros after `content`, to the end of its last block."""
    return bytes(-len(content) % BLOCK)


def _split(name: bytes) -> tuple[bytes, bytes] | None:
    """Return prefix and name as Go's `splitUSTARPath` cuts a long path, if it fits."""
    cut = name.rfind(b"/", 0, 156)
    if cut <= 0 or len(name) - cut - 1 > _NAME.stop:
        return None
    return name[:cut], name[cut + 1 :]


def _shortened(name: bytes) -> bytes:
    """Return the first 100 bytes, as Go's `formatString` cuts them: with a NUL for slashes at their end."""
    if len(name) <= _NAME.stop or name[_NAME.stop - 1 : _NAME.stop] != b"/":
        return name[: _NAME.stop]
    end = len(name[: _NAME.stop - 1].rstrip(b"/"))
    return name[:end] + b"\0" + name[end + 1 : _NAME.stop]


def _ascii(text: str) -> bytes:
    return text.encode("ascii", "ignore")


def _pax_record(path: bytes) -> bytes:
    """Return the pax record of a path; its length counts its own digits (POSIX pax, *pax Extended Header*)."""
    body = b" path=" + path + b"\n"
    length = len(body)
    while len(str(length)) + len(body) != length:
        length = len(str(length)) + len(body)
    return str(length).encode() + body


def _block(name: bytes, prefix: bytes, mode: int, size: int, kind: bytes, device: bytes = b"0000000\0") -> bytes:
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
