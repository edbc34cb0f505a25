"""Blobs, checked before anything uses them; those that are too large for memory are written to a file in pieces."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, BinaryIO

from ci_automation.artifact.digest import Digest
from ci_automation.errors import UsageError
from ci_automation.registry.port import ContentMismatch, UnexpectedAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.artifact.manifest import Descriptor

MAX_LAYER_BYTES = 1 << 30
CHUNK = 1 << 20


class NoSpace(UsageError):
    """A blob cannot be written to a temporary file."""

    hint = "Free some space in the folder for temporary files, or name another one in TMPDIR."

    def __init__(self, error: OSError) -> None:
        super().__init__(f"a temporary file cannot be written: {error.strerror or error}")


def require_readable(what: str, descriptor: Descriptor, limit: int) -> None:
    """Check that a blob is small enough to be read.

    Raises:
        UnexpectedAnswer: it is not.
    """
    if descriptor.size > limit:
        raise UnexpectedAnswer(f"{what} has {descriptor.size} bytes, more than the limit of {limit}")


def check_blob(what: str, descriptor: Descriptor, digest: Digest, size: int) -> None:
    """Check the digest and the size of a blob that was read.

    Raises:
        ContentMismatch: they do not match the descriptor.
    """
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
