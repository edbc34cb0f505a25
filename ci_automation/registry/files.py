"""Checks of blobs, files that blobs are written to in pieces, and the files and index entries of an image layout.

A file of a layout appears whole, and is read only if it is a regular file.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from ci_automation.artifact.reference import Digest, InvalidDigest
from ci_automation.errors import RegistryError, UsageError
from ci_automation.registry.port import ContentMismatch, UnexpectedAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader
    from pathlib import Path

    from ci_automation.artifact.manifest import Descriptor

MAX_LAYER_BYTES = 1 << 30
CHUNK = 1 << 20
MARKER, MARKER_CONTENT = "oci-layout", b'{"imageLayoutVersion":"1.0.0"}'
UNFINISHED = ".unfinished-"
TAG_ANNOTATION = "org.opencontainers.image.ref.name"


class NoSpace(UsageError):
    """A blob cannot be written to a temporary file."""

    hint = "Free some space in the folder for temporary files, or name another one in TMPDIR."

    def __init__(self, error: OSError) -> None:
        super().__init__(f"a temporary file cannot be written: {error.strerror or error}")


def require_readable(what: str, descriptor: Descriptor, limit: int) -> None:
    """Raise `UnexpectedAnswer` for a blob that is too large to be read."""
    if descriptor.size > limit:
        raise UnexpectedAnswer(f"{what} has {descriptor.size} bytes, more than the limit of {limit}")


def check_blob(what: str, descriptor: Descriptor, digest: Digest, size: int) -> None:
    """Raise `ContentMismatch` if digest or size of a blob that was read are not the descriptor's."""
    if digest != descriptor.digest:
        raise ContentMismatch(what, descriptor.digest, digest)
    if size != descriptor.size:
        raise ContentMismatch(what, f"{descriptor.size} bytes", f"{size} bytes")


class Sink:
    """A file that one blob is written to, from its beginning."""

    def __init__(self, file: BinaryIO, descriptor: Descriptor, what: str) -> None:
        require_readable(what, descriptor, MAX_LAYER_BYTES)
        self._file, self._descriptor, self._what = file, descriptor, what
        self._size, self._hash = 0, hashlib.sha256()
        file.seek(0)
        file.truncate()

    def write(self, piece: bytes) -> None:
        """Write a piece; what is more than the blob should have is only counted."""
        self._size += len(piece)
        if self._size > self._descriptor.size:
            return
        self._hash.update(piece)
        try:
            self._file.write(piece)
        except OSError as error:
            raise NoSpace(error) from None

    @property
    def is_whole(self) -> bool:
        """Return whether the bytes match the descriptor's digest and size."""
        return (Digest(self._hash.hexdigest()), self._size) == (self._descriptor.digest, self._descriptor.size)

    def check(self) -> None:
        """Check that the whole blob is there; raise as `check_blob`."""
        if self._size > self._descriptor.size:
            raise ContentMismatch(self._what, f"{self._descriptor.size} bytes", "more")
        check_blob(self._what, self._descriptor, Digest(self._hash.hexdigest()), self._size)
        self._file.flush()


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a file from its beginning."""
    file.seek(0)
    while piece := file.read(CHUNK):
        yield piece


class NotALayout(UsageError):
    """A directory has other files than those of an image layout."""

    hint = "Name a new or empty directory, or an image layout."

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is not an OCI image layout: it is not empty, and has no {MARKER}")


class LayoutUnusable(RegistryError):
    """An image layout directory cannot be read or written."""

    hint = "Check the permissions of the directory and the space on its disk. Earlier content is unharmed."

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader | None]:
    """Open a file, if it exists."""
    try:
        # A named pipe must not block this run.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - of a descriptor
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise LayoutUnusable(path, "it is not a file")
            yield file
            return
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise LayoutUnusable(path, f"it cannot be read: {error.strerror}") from None
    yield None


def write_whole(path: Path, data: bytes | Iterator[bytes]) -> None:
    """Write a file so that at any moment, even after a crash, either the old or the new file is there, complete."""
    unfinished = path.with_name(f"{UNFINISHED}{secrets.token_hex(8)}")
    try:
        with unfinished.open("xb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def with_entry(entries: list[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of an index with `new` among them.

    The tag moves to `new`. An entry that loses its tag stays in the list, once, as it would in a registry.
    """
    tag, digest = tag_of(new), new["digest"]
    if tag is not None and {entry["digest"] for entry in entries if tag_of(entry) == tag} == {digest}:
        return entries
    if tag is None and any(entry["digest"] == digest for entry in entries):
        return entries
    kept = [untagged(entry) if tag is not None and tag_of(entry) == tag else entry for entry in entries]
    named = {digest} | {entry["digest"] for entry in kept if tag_of(entry) is not None}
    rest = [entry for entry in kept if tag_of(entry) is not None or entry["digest"] not in named]
    return [*rest, new]


def tag_of(entry: dict[str, Any]) -> str | None:
    """Return the tag of an entry, or None if it has none."""
    annotations = entry.get("annotations")
    tag = annotations.get(TAG_ANNOTATION) if isinstance(annotations, dict) else None
    return tag if isinstance(tag, str) else None


def untagged(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry without its tag."""
    annotations = {key: value for key, value in entry.get("annotations", {}).items() if key != TAG_ANNOTATION}
    rest = {key: value for key, value in entry.items() if key != "annotations"}
    return {**rest, "annotations": annotations} if annotations else rest


def digest_of(entry: object) -> Digest | None:
    """Return the digest in an entry, or None without a valid one."""
    match entry:
        case {"digest": str(text)}:
            with suppress(InvalidDigest):
                return Digest.parse(text)
    return None
