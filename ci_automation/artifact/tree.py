"""Files of an artifact: one components file, and the overlay, which is every other file."""

from __future__ import annotations

import hashlib
import posixpath
import re
from functools import cached_property
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.reference import Digest
from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

COMPONENTS_PATH = "flux-system/gotk-components.yaml"
COMPONENTS_NAMES = frozenset({"gotk-components.yaml", "gotk_components.yaml"})  # the second is in Flux's RFC
_MAX_PATH = 1024
_MAX_DEPTH = 64
_SHOWN = 200
_NAMED = 9  # files in a hint
_NO_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class NoComponentsFile(UsageError):
    """An artifact has no components file."""

    hint = "Name it with --components-file, or make the artifact with `init`."

    def __init__(self, wanted: str | None, there: Iterable[str]) -> None:
        super().__init__(f"the artifact has no {wanted or 'gotk-components.yaml'}")
        paths = sorted(there, key=lambda path: (PurePosixPath(path).name not in COMPONENTS_NAMES, path))
        more = f" and {len(paths) - _NAMED} more files" if paths[_NAMED:] else ""
        named = ", ".join(path[:_SHOWN] for path in paths[:_NAMED])
        self.hint = f"It has {named or 'no file'}{more}. {type(self).hint}"


class SeveralComponentsFiles(UsageError):
    """An artifact has several files with the name of a components file."""

    hint = "Choose one with --components-file."

    def __init__(self, paths: Iterable[str]) -> None:
        super().__init__(f"the artifact has several components files: {', '.join(paths)}")


class UnfitPath(UsageError):
    """A file has a path that clusters cannot unpack, or not as it is."""

    hint = "Rename the file, or leave it out."

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path[:_SHOWN]!r} {reason}")


class TreeFile(Struct, frozen=True):
    """One regular file: its path with `/`, relative to the artifact's root, its bytes, and whether it is executable."""

    path: str
    content: bytes
    executable: bool = False

    def __post_init__(self) -> None:
        """Raise `UnfitPath` if Flux's `validRelPath`, a file system or a terminal would refuse the path."""
        parts = self.path.split("/")
        if "\\" in self.path or "../" in self.path or not {"", ".", ".."}.isdisjoint(parts):
            raise UnfitPath(self.path, "is empty, absolute, or has a backslash, an empty or a relative part")
        if _NO_TEXT.search(self.path):
            raise UnfitPath(self.path, "has control characters or is not UTF-8")
        if len(self.path.encode()) > _MAX_PATH or len(parts) > _MAX_DEPTH:
            raise UnfitPath(self.path, f"is longer than {_MAX_PATH} bytes or deeper than {_MAX_DEPTH} folders")

    @property
    def mode(self) -> int:
        """Return the file's permission bits in the artifact: 0644 or 0755."""
        return 0o755 if self.executable else 0o644


class Tree(Struct, frozen=True, dict=True):
    """Files of an artifact, in no particular order, without empty directories."""

    files: tuple[TreeFile, ...]

    def __post_init__(self) -> None:
        """Raise `UnfitPath` if two files have the same path, or one has the path of a directory."""
        if taken := self.by_path.keys() & self.directories:
            raise UnfitPath(min(taken), "is a file and a directory at once")
        if len(self.by_path) != len(self.files):
            paths = [file.path for file in self.files]
            raise UnfitPath(min(path for path in paths if paths.count(path) > 1), "is there twice")

    @cached_property
    def by_path(self) -> Mapping[str, TreeFile]:
        """Return the files by their path."""
        return MappingProxyType({file.path: file for file in self.files})

    def __getitem__(self, path: str) -> bytes:
        return self.by_path[path].content

    @property
    def directories(self) -> frozenset[str]:
        """Return the directories of the files, except the root."""
        return frozenset(
            str(parent) for file in self.files for parent in PurePosixPath(file.path).parents if parent.parts
        )

    def components_path(self, wanted: str | None = None) -> str:
        """Return the path of the components file: `wanted`, or the only one with Flux's name for it.

        Raises:
            NoComponentsFile: the artifact has no such file.
            SeveralComponentsFiles: without `wanted`, the artifact has more than one.
        """
        if wanted is not None:
            if wanted not in self.by_path:
                raise NoComponentsFile(wanted, self.by_path)
            return wanted
        paths = sorted(path for path in self.by_path if PurePosixPath(path).name in COMPONENTS_NAMES)
        if not paths:
            raise NoComponentsFile(None, self.by_path)
        if len(paths) > 1:
            raise SeveralComponentsFiles(paths)
        return paths[0]

    def absent(self, folder: str, path: str) -> str:
        """Return that `path`, as a file in `folder` names it, is not there; of Flux's components, where they are."""
        there = [it for it in self.by_path if PurePosixPath(it).name in COMPONENTS_NAMES]
        if PurePosixPath(path).name not in COMPONENTS_NAMES or len(there) != 1:
            return f"{path} is not in the artifact"
        write = posixpath.relpath(there[0], folder)
        return f"{path} is not in the artifact, which has it as {there[0]}: write {write}"

    def replaced(self, path: str, content: bytes) -> Tree:
        """Return the tree with `content` at `path`; everything else stays."""
        return Tree((*(file for file in self.files if file.path != path), TreeFile(path, content)))

    def without(self, path: str) -> Tree:
        """Return the tree without the file at `path`: the overlay, if that is the components file."""
        return Tree(tuple(file for file in self.files if file.path != path))

    def digest(self) -> Digest:
        """Return the digest over modes, contents and paths of all files, sorted by path bytes (design section 5.1)."""
        files = sorted(self.files, key=lambda file: file.path.encode())
        lines = (f"{file.mode:04o} {hashlib.sha256(file.content).hexdigest()} {file.path}\n" for file in files)
        return Digest.of("".join(lines).encode())
