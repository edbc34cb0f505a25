"""Local files and folders: read overlays and folders, unpack artifacts, write files atomically."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ci_automation.artifact.tree import COMPONENTS_NAMES, Tree, TreeFile
from ci_automation.errors import Error, UsageError
from ci_automation.policy.plan import MAX_PLAN_BYTES, InvalidPlan, Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

MAX_OVERLAY_BYTES = 50 << 20
_OPENED = {Path("/dev/fd"), Path("/proc/self/fd")}
# What `flux push artifact` leaves out by default and every checkout has.
_LEFT_OUT = frozenset({".git", ".gitignore", ".gitmodules", ".gitattributes"})


class UnreadableOverlay(UsageError):
    """An overlay folder cannot be taken into an artifact."""

    hint = "Name a folder of regular files without gotk-components.yaml, which the run renders."


class UnreadableFolder(UsageError):
    """A folder that cannot be read as an artifact."""

    hint = "Name a folder of regular files, as `pull` unpacks an artifact."


class OutputExists(UsageError):
    """An output path that exists already."""

    hint = "Choose another place, or remove what is there."

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} exists and is not an empty folder")


class Unwritable(UsageError):
    """A file or folder cannot be written."""

    hint = "Check the path, its permissions and the free space. No partial output was left behind."

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be written: {error.strerror or error}")


def read_overlay(folder: Path) -> Tree:
    """Return the files of an overlay folder; those of Git are left out.

    Raises:
        UnreadableOverlay: it is no folder, or holds links, special files, too much, or a components file.
    """
    tree = read_folder(folder, UnreadableOverlay)
    if named := [file.path for file in tree.files if Path(file.path).name in COMPONENTS_NAMES]:
        raise UnreadableOverlay(f"{folder} holds {named[0]}")
    return tree


def read_folder(folder: Path, refused: type[UsageError] = UnreadableFolder) -> Tree:
    """Return all files of a folder; those of Git are left out.

    Raises:
        refused: it is no folder, or holds links, special files, or too much.
    """
    if not folder.is_dir():
        raise refused(f"{folder} is not a folder")
    files = []
    total = 0
    try:
        for entry in below(folder, _LEFT_OUT):
            files.append(_file(entry, folder, refused))
            total += len(files[-1].content)
            if total > MAX_OVERLAY_BYTES:
                raise refused(f"{folder} holds more than {MAX_OVERLAY_BYTES >> 20} MiB")
    except OSError as error:
        raise refused(f"{error.filename or folder} cannot be read: {error.strerror or error}") from None
    return Tree(tuple(files))


def beside_components(overlay: Tree, path: str) -> Tree:
    """Return `overlay`; raise `UnreadableOverlay` if it has a file where the components go, which would be lost."""
    if path in overlay.by_path:
        raise UnreadableOverlay(f"the overlay has a file at {path}, where the components file goes")
    return overlay


def _file(entry: os.DirEntry[str], folder: Path, refused: type[UsageError]) -> TreeFile:
    path = Path(entry.path)
    if entry.is_symlink():
        raise refused(f"{path} is a symbolic link, and clusters do not unpack links")
    if not entry.is_file():
        raise refused(f"{path} is neither a regular file nor a folder")
    content = read_file(path, MAX_OVERLAY_BYTES, lambda reason: refused(f"{path}: {reason}"))
    return TreeFile(path.relative_to(folder).as_posix(), content, bool(entry.stat().st_mode & 0o100))


def below(folder: Path, left_out: Collection[str]) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder and its subfolders in the order of their names, without following links.

    Entries whose name is in `left_out` are skipped, with everything in them.

    Raises:
        OSError: a folder cannot be read.
    """
    waiting = _backwards(folder)
    while waiting:
        entry = waiting.pop()
        if entry.name in left_out:
            continue
        if entry.is_dir(follow_symlinks=False):
            waiting += _backwards(entry.path)
        else:
            yield entry


def _backwards(folder: Path | str) -> list[os.DirEntry[str]]:
    """Return what a folder holds, the last name first."""
    with os.scandir(folder) as found:
        return sorted(found, key=lambda entry: entry.name, reverse=True)


def read_file(path: Path, limit: int, refused: Callable[[str], Error]) -> bytes:
    """Return the content of a regular file, or of a pipe that the shell opened: `diff <(flux install --export) ...`.

    Raises:
        refused: it is not there, is neither of them, cannot be read, or has more than `limit` bytes.
    """
    try:
        # Any other pipe may have no writer, and would be waited for without end.
        if not path.is_file() and not (path.parent in _OPENED and path.is_fifo()):
            raise refused("it is not a regular file" if path.exists() else "it is not there")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise refused(f"it cannot be read: {error.strerror or error}") from None
    if len(content) > limit:
        raise refused(f"it is larger than {limit >> 20} MiB")
    return content


def write_tree(tree: Tree, target: Path) -> None:
    """Write the files of `tree` to the folder `target`, all or nothing.

    Raises:
        OutputExists: there is something already.
        Unwritable: the disk is full, or the place may not be written to.
    """
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise OutputExists(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise Unwritable(target, error) from None
    try:
        for file in tree.files:
            path = scratch / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.content)
            path.chmod(file.mode)
        scratch.chmod(0o755)
        scratch.replace(target)
    except OSError as error:
        raise Unwritable(target, error) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_file(path: Path, data: bytes) -> None:
    """Write `data` to `path`, all or nothing.

    Raises:
        Unwritable: the disk is full, or the place may not be written to.
    """
    if path.exists() and not path.is_file():  # /dev/stdout and the like
        try:
            path.write_bytes(data)
        except OSError as error:
            raise Unwritable(path, error) from None
        return
    scratch = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        scratch = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        scratch.chmod(0o644)
        scratch.replace(path)
    except OSError as error:
        raise Unwritable(path, error) from None
    finally:
        if scratch is not None:
            with contextlib.suppress(OSError):
                scratch.unlink(missing_ok=True)


class UnreadablePlan(UsageError):
    """A file cannot be read as a plan."""

    hint = "`plan` with `--out` writes one."

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"the plan {path} cannot be used: {reason}")


def read_plan_file(path: Path) -> Plan:
    """Return the plan in a file.

    Raises:
        InvalidPlan: it is no plan that this version takes.
        UnreadablePlan: it cannot be read, or is too large to be a plan.
    """
    data = read_file(path, MAX_PLAN_BYTES, partial(UnreadablePlan, path))
    try:
        return Plan.parse(data)
    except InvalidPlan as error:
        raise InvalidPlan(error.reason, str(path)) from None
