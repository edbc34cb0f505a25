"""Blobs that are too large for memory: written to a file piece by piece, and checked before anything uses them."""

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


class Sink:
    """A file that one blob is written to, from its beginning."""

    def __init__(self, file: BinaryIO, descriptor: Descriptor, what: str) -> None:
        if descriptor.size > MAX_LAYER_BYTES:
            raise UnexpectedAnswer(f"{what} has {descriptor.size} bytes, more than the limit of {MAX_LAYER_BYTES}")
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
        """Check that the whole blob is there.

        Raises:
            ContentMismatch: the bytes do not match the descriptor's digest and size.
        """
        if self._size > self._descriptor.size:
            raise ContentMismatch(self._what, f"{self._descriptor.size} bytes", "more")
        if (found := Digest(self._hash.hexdigest())) != self._descriptor.digest:
            raise ContentMismatch(self._what, self._descriptor.digest, found)
        if not self.is_whole:
            raise ContentMismatch(self._what, f"{self._descriptor.size} bytes", f"{self._size} bytes")
        self._file.flush()


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a file from its beginning."""
    file.seek(0)
    while piece := file.read(CHUNK):
        yield piece
