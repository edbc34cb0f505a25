"""Archives of every kind, well-formed and not: what we make of each, and what a cluster makes of it.

The unit tests hold our column, the real tier holds the clusters' with Flux's own code.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

USTAR, GNU, OLD = b"ustar\00000", b"ustar  \0", bytes(8)
END = bytes(1024)
REFUSED = None
TAR = "the archive is not a tar file that Flux reads: "
ENTRY = "the archive has an entry that clusters refuse: "
LONG = "/".join(["folder-" + "x" * 30] * 4) + "/" + "y" * 90 + ".yaml"


def entry(
    name: bytes,
    content: bytes = b"",
    kind: bytes = b"0",
    *,
    mode: bytes = b"0000644\0",
    size: bytes | None = None,
    prefix: bytes = b"",
    magic: bytes = USTAR,
    owner: bytes = b"0000000\0",
    tail: bytes = bytes(12),
) -> bytes:
    """Return one entry with a right checksum, its fields as they are given."""
    head = b"".join(
        [
            name.ljust(100, b"\0"),
            mode,
            owner,
            b"0000000\0",
            b"%011o\0" % len(content) if size is None else size,
            b"00000000000\0",
            b" " * 8,
            kind,
            bytes(100),
            magic,
            bytes(64),
            b"0000000\0" * 2,
            prefix.ljust(155, b"\0"),
            tail,
        ]
    )
    assert len(head) == 512
    return head[:148] + b"%06o\0 " % sum(head) + head[156:] + content + bytes(-len(content) % 512)


def pax(*records: tuple[bytes, bytes], kind: bytes = b"x") -> bytes:
    """Return an extended header with these records."""
    return entry(b"PaxHeaders.0/a", b"".join(record(key, value) for key, value in records), kind)


def record(key: bytes, value: bytes) -> bytes:
    """Return one record of an extended header."""
    body = b" " + key + b"=" + value + b"\n"
    length = next(length for length in range(len(body), len(body) + 9) if len(b"%d" % length) + len(body) == length)
    return b"%d" % length + body


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> bytes:
    """Return a link of either sort."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info.tobuf(tarfile.USTAR_FORMAT)


def packed(*entries: bytes, end: bytes = END) -> bytes:
    """Return the gzipped archive of these entries."""
    return gzip.compress(b"".join(entries) + end, 1, mtime=0)


def by_python(files: Mapping[str, bytes], form: int, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the archive that Python makes of some files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", format=form, pax_headers=dict(headers or {})) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@dataclass(frozen=True, slots=True)
class Case:
    """An archive; `ours` are the files that we read or our refusal's first words, `cluster` those that Flux unpacks."""

    name: str
    archive: bytes
    ours: Mapping[str, bytes] | str
    cluster: Mapping[str, bytes] | None


def taken(name: str, archive: bytes, files: Mapping[str, bytes], stray: str | None = None) -> Case:
    """Return the case of an archive that both take; `stray` is an empty file that only clusters get."""
    return Case(name, archive, files, dict(files) | ({stray: b""} if stray else {}))


def refused(name: str, archive: bytes, words: str) -> Case:
    """Return the case of an archive that both refuse."""
    return Case(name, archive, words, REFUSED)


def stricter(name: str, archive: bytes, words: str, cluster: Mapping[str, bytes]) -> Case:
    """Return the case of an archive that only we refuse."""
    return Case(name, archive, words, cluster)


A = {"a": b"1"}
ONE = entry(b"a", b"1")
DIR = entry(b"d", kind=b"5", mode=b"0000755\0")
NESTED = {"a": b"1", "d/b": b"2", LONG: b"3"}
ROOT = entry(b".", kind=b"5", mode=b"0000755\0")

WELL_FORMED: Sequence[Case] = (
    taken("ustar, by Python", by_python(NESTED, tarfile.USTAR_FORMAT), NESTED),
    taken("GNU, by Python", by_python(NESTED | {"é" * 80: b"4"}, tarfile.GNU_FORMAT), NESTED | {"é" * 80: b"4"}),
    taken("pax, by Python", by_python(NESTED | {"é" * 80: b"4"}, tarfile.PAX_FORMAT), NESTED | {"é" * 80: b"4"}),
    taken("before ustar", packed(entry(b"a", b"1", magic=OLD)), A),
    taken("before ustar: a slash makes a directory", packed(entry(b"d/", kind=b"\0", magic=OLD), ONE), A),
    taken("a NUL as type flag is a regular file", packed(entry(b"a", b"1", kind=b"\0")), A),
    taken("the root, as Flux writes it", packed(ROOT, ONE), A),
    taken("the root, as GNU tar writes it", packed(entry(b"./", kind=b"5", mode=b"0000755\0"), entry(b"./a", b"1")), A),
    taken("no directory entries", packed(entry(b"d/b", b"1")), {"d/b": b"1"}),
    taken("directories without a slash", packed(DIR, entry(b"d/b", b"1")), {"d/b": b"1"}),
    taken("directories with a slash", packed(entry(b"d/", kind=b"5"), entry(b"d/b", b"1")), {"d/b": b"1"}),
    taken("an empty directory is not kept", packed(DIR, ONE), A),
    taken("redundant slashes and dots", packed(entry(b"./d//./b", b"1")), {"d/b": b"1"}),
    taken("a regular file with a slash behind", packed(entry(b"a/", b"1")), A),
    taken(
        "dots in a name",
        packed(entry(b"a..b", b"1"), entry(b"..c", b"2"), entry(b"d..", b"3")),
        {
            "a..b": b"1",
            "..c": b"2",
            "d..": b"3",
        },
    ),
    taken("a prefix", packed(entry(b"b", b"1", prefix=b"d")), {"d/b": b"1"}),
    taken("a prefix of Schily's star", packed(entry(b"b", b"1", prefix=b"d", tail=bytes(8) + b"tar\0")), {"d/b": b"1"}),
    taken("no prefix in GNU's format", packed(entry(b"b", b"1", prefix=b"", magic=GNU)), {"b": b"1"}),
    taken("GNU's long name", packed(entry(b"././@LongLink", b"d/long\0", b"L"), entry(b"d/l", b"1")), {"d/long": b"1"}),
    taken("GNU's long link", packed(entry(b"././@LongLink", b"x\0", b"K"), link("l", "x"), ONE), A),
    taken("a pax path", packed(pax((b"path", b"d/b")), entry(b"x", b"1")), {"d/b": b"1"}),
    taken("the last of two pax paths", packed(pax((b"path", b"x"), (b"path", b"b")), entry(b"y", b"1")), {"b": b"1"}),
    taken("the last of two pax headers", packed(pax((b"path", b"x")), pax((b"mtime", b"1.5")), ONE), A),
    taken("an empty pax path changes nothing", packed(pax((b"path", b"")), ONE), A),
    taken(
        "GNU's long name goes before a pax path",
        packed(pax((b"path", b"x")), entry(b"././@LongLink", b"b\0", b"L"), entry(b"y", b"1")),
        {"b": b"1"},
    ),
    taken("a pax size", packed(pax((b"size", b"1")), entry(b"a", b"1", size=b"00000000000\0")), A),
    taken(
        "pax records that nobody reads",
        packed(
            pax(
                (b"comment", b"\xff\0="),
                (b"SCHILY.xattr.user.a", b"\0"),
                (b"uid", b"99999999"),
                (b"uname", b"\xc3\xa9"),
            ),
            ONE,
        ),
        A,
    ),
    taken("a size in base 256", packed(entry(b"a", b"1", size=b"\x80" + bytes(10) + b"\1")), A),
    taken("numbers with spaces", packed(entry(b"a", b"1", size=b"         1 \0", mode=b"  644 \0\0")), A),
    taken("no owner", packed(entry(b"a", b"1", owner=bytes(8))), A),
    taken("a mode with the bits of a regular file", packed(entry(b"a", b"1", mode=b"0100644\0")), A),
    taken("no permissions at all", packed(entry(b"a", b"1", mode=b"0000000\0")), A),
    taken("a duplicate: the last wins", packed(entry(b"a", b"0"), ONE), A),
    taken("a symbolic link is left out", packed(link("l", "/etc/passwd"), ONE), A),
    taken("a symbolic link does not hide the file before it", packed(ONE, link("a", "/etc/passwd")), A),
    taken("nothing but the end", packed(), {}),
    taken("no end", packed(ONE, end=b""), A),
    taken("half an end", packed(ONE, end=bytes(512)), A),
    taken("blocks of zeros behind the end, as GNU tar fills its records", packed(ONE, end=bytes(9216)), A),
    taken("several gzip members", gzip.compress(ONE[:300]) + gzip.compress(ONE[300:] + END), A),
    taken("an empty gzip member", gzip.compress(b"") + packed(ONE), A),
    taken(
        "git archive's global header",
        packed(entry(b"pax_global_header", record(b"comment", b"0" * 40), b"g"), ONE),
        A,
        "pax_global_header",
    ),
    taken("Python's global header", by_python(A, tarfile.PAX_FORMAT, {"comment": "x"}), A, "@PaxHeader"),
    taken("a global header names no other file", packed(entry(b"g", record(b"path", b"stray"), b"g"), ONE), A, "stray"),
    taken(
        "a global header ends the extensions before it",
        packed(pax((b"path", b"x")), entry(b"././@LongLink", b"y\0", b"L"), entry(b"g", b"", b"g"), ONE),
        A,
        "g",
    ),
)

HOSTILE: Sequence[Case] = (
    refused("an empty name", packed(entry(b"", b"1")), "the name '' is empty"),
    refused("an absolute path", packed(entry(b"/a", b"1")), "the name '/a' is empty, absolute"),
    refused("a backslash", packed(entry(b"a\\b", b"1")), r"the name 'a\\b' is"),
    refused("a parent", packed(entry(b"../a", b"1")), "the name '../a' is"),
    refused("a parent behind a folder", packed(entry(b"d/../../a", b"1")), "the name 'd/../../a' is"),
    refused("what looks like a parent", packed(entry(b"a../b", b"1")), "the name 'a../b' is"),
    refused("a directory that looks like a parent", packed(entry(b"a../", kind=b"5")), "the name 'a../' is"),
    refused("a parent in a pax path", packed(pax((b"path", b"../a")), ONE), "the name '../a' is"),
    refused("a parent in GNU's long name", packed(entry(b"L", b"../a\0", b"L"), ONE), "the name '../a' is"),
    refused("the parent itself as a file", packed(entry(b"..", b"1")), "the name '..' is"),
    stricter("the parent as a directory", packed(entry(b"..", kind=b"5"), ONE), "the name '..' is", A),
    stricter("a folder's parent as a directory", packed(entry(b"d/..", kind=b"5"), ONE), "the name 'd/..' is", A),
    stricter("a parent in a symbolic link's name", packed(link("d/..", "x"), ONE), "the name 'd/..' is", A),
    refused("the root as a file", packed(entry(b"./", b"1")), ENTRY + "''"),
    stricter("a hard link", packed(ONE, link("b", "a", tarfile.LNKTYPE)), "'b' is a hard link", A | {"b": b""}),
    refused("a pipe", packed(entry(b"p", kind=b"6")), "'p' is neither"),
    refused("a character device", packed(entry(b"p", kind=b"3")), "'p' is neither"),
    refused("a block device", packed(entry(b"p", kind=b"4")), "'p' is neither"),
    refused("a pipe by its mode", packed(entry(b"p", b"1", mode=b"0010644\0")), "'p' is neither"),
    stricter("a directory by its mode", packed(entry(b"p", b"1", mode=b"0040755\0")), "'p' is neither", {}),
    stricter("a link by its mode", packed(entry(b"p", b"1", mode=b"0120777\0")), "'p' is neither", {}),
    stricter("a directory's mode on a link", packed(entry(b"p", kind=b"2", mode=b"0040755\0")), "'p' is neither", {}),
    stricter("a contiguous file", packed(entry(b"a", b"1", kind=b"7")), "'a' is neither", A),
    stricter("a type that nobody knows", packed(entry(b"a", b"1", kind=b"Q")), "'a' is neither", A),
    refused("GNU's sparse file", packed(entry(b"a", b"1", kind=b"S")), "'a' is neither"),
    stricter(
        "a sparse file in pax",
        packed(
            pax((b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.realsize", b"5")),
            entry(b"a", b"0\n".ljust(512, b"\0")),
        ),
        TAR + "it has a sparse",
        {"a": bytes(5)},
    ),
    stricter(
        "a global header over a file",
        packed(ONE, entry(b"a", b"", b"g")),
        ENTRY + "'a'",
        {"a": b""},
    ),
    refused("a global header that is the root", packed(entry(b".", b"", b"g"), ONE), ENTRY + "''"),
    refused("a global header below a file", packed(ONE, entry(b"a/g", b"", b"g")), ENTRY + "'a'"),
    refused("a file below a global header", packed(entry(b"g", b"", b"g"), entry(b"g/a", b"1")), ENTRY + "'g'"),
    refused("a file that is a directory too", packed(ONE, entry(b"a", kind=b"5")), "'a' is a file and a directory"),
    refused("a directory that is a file too", packed(DIR, entry(b"d", b"1")), "'d' is a file and a directory"),
    refused("a file below a file", packed(ONE, entry(b"a/b", b"1")), ENTRY + "'a'"),
    stricter("a control character", packed(entry(b"a\x1b[2J", b"1")), ENTRY, {"a\x1b[2J": b"1"}),
    stricter("a line break in a pax path", packed(pax((b"path", b"a\nb")), ONE), ENTRY, {"a\nb": b"1"}),
    stricter("not UTF-8", packed(entry(b"\xff", b"1")), TAR + "a name is", {"\ufffd": b"1"}),
    stricter("half a surrogate pair", packed(entry(b"\xed\xa0\x80", b"1")), TAR + "a name is", {"\ufffd" * 3: b"1"}),
    stricter(
        "deeper than 64 folders",
        packed(entry(b"d/" * 40 + b"a", b"1", prefix=b"e/" * 40)),
        ENTRY,
        {"e/" * 40 + "d/" * 40 + "a": b"1"},
    ),
    stricter(
        "longer than 1024 bytes",
        packed(pax((b"path", b"/".join([b"x" * 200] * 6))), ONE),
        ENTRY,
        {"/".join(["x" * 200] * 6): b"1"},
    ),
)

BROKEN: Sequence[Case] = (
    refused("nothing", b"", "the archive is not gzip"),
    refused("a page", b"<!DOCTYPE html><html></html>", "the archive is not gzip"),
    refused("a tar that is not compressed", ONE + END, "the archive is not gzip"),
    refused("the two bytes of gzip", b"\x1f\x8b", "the archive is truncated"),
    refused("another method", b"\x1f\x8b\x07" + bytes(20), "the archive is not gzip"),
    refused("gzip cut off", packed(ONE)[:40], "the archive is truncated"),
    stricter("gzip without its end", packed(ONE)[:-4], "the archive is truncated", A),
    stricter("a wrong checksum of gzip", packed(ONE)[:-8] + bytes(8), "the archive is not gzip", A),
    stricter("something behind gzip", packed(ONE) + b"garbage", "the archive is not gzip", A),
    stricter("zeros behind gzip", packed(ONE) + bytes(8), "the archive is not gzip", A),
    stricter("a member behind the end, cut off", packed(ONE) + packed(ONE)[:30], "the archive is truncated", A),
    refused("not a tar", gzip.compress(b"hello" * 200), TAR + "a number"),
    refused("less than a block", gzip.compress(b"hello"), TAR + "a header"),
    refused("cut off in a header", packed(ONE, end=ONE[:100]), TAR + "a header"),
    refused("cut off in a file", packed(entry(b"a", b"1" * 600)[:700], end=b""), TAR + "it is cut"),
    refused("a wrong checksum", packed(b"b" + ONE[1:]), TAR + "a header"),
    refused("a wrong checksum further down", packed(ONE, b"b" + ONE[1:]), TAR + "a header"),
    refused("a file behind half an end", packed(ONE, bytes(512), ONE), TAR + "there is"),
    stricter("a file behind the end", packed(ONE, END, entry(b"b", b"2")), TAR + "there is", A),
    refused("a size that is no number", packed(entry(b"a", size=b"0000000001x\0")), TAR + "a number"),
    refused("an owner that is no number", packed(entry(b"a", owner=b"root\0\0\0\0")), TAR + "a number"),
    refused("a sign in a number", packed(entry(b"a", size=b"-0000000001\0")), TAR + "a number"),
    refused("a negative size", packed(entry(b"a", size=b"\xff" * 12)), TAR + "a number"),
    refused("a size of 2^64", packed(entry(b"a", size=b"\x80\0\0\1" + bytes(8))), TAR + "a number"),
    refused(
        "a size of 8 exbibytes less one", packed(entry(b"a", size=b"\x80\0\0\0\x7f" + b"\xff" * 7)), TAR + "it is cut"
    ),
    refused("a long name cut off", packed(entry(b"L", b"x" * 600, b"L")[:600], end=b""), TAR + "it is cut"),
    refused(
        "a long name of more than a mebibyte",
        packed(entry(b"L", b"x" * (1 << 20) + b"x", b"L"), ONE),
        TAR + "it is cut",
    ),
    refused(
        "an extension at the end of the stream", packed(ONE, pax((b"path", b"b")), end=bytes(100)), TAR + "it ends"
    ),
    stricter("an extension before the end", packed(ONE, pax((b"path", b"b"))), TAR + "it ends", A),
    refused("a pax record without a length", packed(entry(b"x", b"path=b\n", b"x"), ONE), TAR + "a pax"),
    refused("a pax record that is too long", packed(entry(b"x", b"99 path=b\n", b"x"), ONE), TAR + "a pax"),
    refused("a pax record of no length", packed(entry(b"x", b"0 path=b\n", b"x"), ONE), TAR + "a pax"),
    refused("a pax record without a line break", packed(entry(b"x", b"9 path=bb", b"x"), ONE), TAR + "a pax"),
    refused("a pax record without a value", packed(entry(b"x", b"7 path\n", b"x"), ONE), TAR + "a pax"),
    refused("a pax record without a key", packed(entry(b"x", b"5 =b\n", b"x"), ONE), TAR + "a pax"),
    refused("a NUL in a pax key", packed(pax((b"pa\0th", b"b")), ONE), TAR + "a pax"),
    refused("a NUL in a pax path", packed(pax((b"path", b"a\0b")), ONE), TAR + "a pax"),
    refused("a pax size that is no number", packed(pax((b"size", b"1x")), ONE), TAR + "a pax"),
    refused("a pax time that is no number", packed(pax((b"mtime", b"now")), ONE), TAR + "a pax"),
    refused("a pax size that is too long", packed(pax((b"size", b"999999")), ONE), TAR + "it is cut"),
)

CASES = (*WELL_FORMED, *HOSTILE, *BROKEN)
