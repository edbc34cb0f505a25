"""Folders of this machine: an overlay that is read, an artifact that is unpacked, a file that is written whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ci_automation.artifact.tree import COMPONENTS_NAMES, File, Tree
from ci_automation.errors import UsageError
from ci_automation.policy.plan import MAX_PLAN_BYTES, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_OVERLAY_BYTES = 50 << 20
# What `flux push artifact` leaves out by default and every checkout has.
_LEFT_OUT = frozenset({".git", ".gitignore", ".gitmodules", ".gitattributes"})


class UnreadableOverlay(UsageError):
    """An overlay folder cannot be taken into an artifact."""

    hint = "An overlay is a folder of regular files, without gotk-components.yaml, which is rendered."


class UnreadableFolder(UsageError):
    """A folder that stands for an artifact cannot be read as one."""

    hint = "Name a folder of regular files, as `pull` unpacks an artifact."


class OutputExists(UsageError):
    """A place to write to is taken."""

    hint = "Choose another place, or remove what is there."

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} exists and is not an empty folder")


class Unwritable(UsageError):
    """A file or folder cannot be written."""

    hint = "Check the path, its permissions, and the space that is left. Nothing was left behind."

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
    for path in _regular_files(folder, refused):
        try:
            content = path.read_bytes()
            executable = bool(path.stat().st_mode & 0o100)
        except OSError as error:
            raise refused(f"{path} cannot be read: {error.strerror}") from None
        total += len(content)
        if total > _MAX_OVERLAY_BYTES:
            raise refused(f"{folder} holds more than {_MAX_OVERLAY_BYTES >> 20} MiB")
        files.append(File(path.relative_to(folder).as_posix(), content, executable))
    return Tree(tuple(files))


def beside_components(overlay: Tree, path: str) -> Tree:
    """Return `overlay`, if it has no file at the path of the components, which would be lost without a word.

    Raises:
        UnreadableOverlay: it has one.
    """
    if path in overlay.by_path:
        raise UnreadableOverlay(f"the overlay holds {path}, where the components go")
    return overlay


def _regular_files(folder: Path, refused: type[UsageError]) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name in _LEFT_OUT:
            continue
        if path.is_symlink():
            raise refused(f"{path} is a symbolic link, which clusters do not unpack")
        if path.is_dir():
            yield from _regular_files(path, refused)
        elif path.is_file():
            yield path
        else:
            raise refused(f"{path} is neither a regular file nor a folder")


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
    """A plan's file cannot be read."""

    hint = "Make a plan with `flux-manifests plan ARTIFACT --out FILE`."

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"the plan {path} cannot be read: {reason}")


def read_plan_file(path: Path) -> Plan:
    """Return the plan in a file.

    Raises:
        UnreadablePlan: it cannot be read, or is too large to be a plan.
        InvalidPlan: it is no plan that this version takes.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PLAN_BYTES + 1)
    except OSError as error:
        raise UnreadablePlan(path, error.strerror or str(error)) from None
    if len(data) > MAX_PLAN_BYTES:
        raise UnreadablePlan(path, "it is too large")
    return Plan.parse(data)
