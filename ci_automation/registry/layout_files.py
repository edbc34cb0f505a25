"""Files of an image layout, which appear whole, and are read only if they are files."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ci_automation.errors import RegistryError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader
    from pathlib import Path

UNFINISHED = ".unfinished-"


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
