"""The files of an artifact: one components file, and the overlay, which is every other file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING

from ci_automation.artifact.digest import Digest
from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

COMPONENTS_PATH = "flux-system/gotk-components.yaml"
_COMPONENTS_NAMES = frozenset(
    {"gotk-components.yaml", "gotk_components.yaml"}
)  # the second is how Flux's RFC spells it


class NoComponentsFile(UsageError):
    """An artifact has no file that holds Flux's components."""

    hint = "Name it with --components-file, or make the artifact with `init`."

    def __init__(self, wanted: str | None) -> None:
        super().__init__(f"the artifact has no {wanted or 'gotk-components.yaml'}")


class SeveralComponentsFiles(UsageError):
    """An artifact has more than one file that could hold Flux's components."""

    hint = "Say which one with --components-file."

    def __init__(self, paths: Iterable[str]) -> None:
        super().__init__(f"the artifact has several components files: {', '.join(paths)}")


@dataclass(frozen=True, slots=True)
class File:
    """One regular file: its path with `/`, relative to the artifact's root, its bytes, and whether it may be executed."""

    path: str
    content: bytes
    executable: bool = False

    @property
    def mode(self) -> int:
        """Return the permission bits that the artifact gives it: 0644 or 0755."""
        return 0o755 if self.executable else 0o644


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of an artifact, in no particular order. Empty directories are not kept."""

    files: tuple[File, ...]

    def __getitem__(self, path: str) -> bytes:
        return self.by_path[path].content

    @property
    def by_path(self) -> Mapping[str, File]:
        """Return the files by their path."""
        return MappingProxyType({file.path: file for file in self.files})

    def components_path(self, wanted: str | None = None) -> str:
        """Return the path of the components file: `wanted`, or the only one with Flux's name for it.

        Raises:
            NoComponentsFile: there is none.
            SeveralComponentsFiles: there is more than one, and none is wanted.
        """
        if wanted is not None:
            if wanted not in self.by_path:
                raise NoComponentsFile(wanted)
            return wanted
        paths = sorted(path for path in self.by_path if PurePosixPath(path).name in _COMPONENTS_NAMES)
        if not paths:
            raise NoComponentsFile(None)
        if len(paths) > 1:
            raise SeveralComponentsFiles(paths)
        return paths[0]

    def replaced(self, path: str, content: bytes) -> Tree:
        """Return the tree with `content` at `path`, everything else as it is."""
        return Tree((*(file for file in self.files if file.path != path), File(path, content)))

    def without(self, path: str) -> Tree:
        """Return the tree without the file at `path`: the overlay, if that is the components file."""
        return Tree(tuple(file for file in self.files if file.path != path))

    def digest(self) -> Digest:
        """Return the digest over modes, contents and paths of all files, sorted by path bytes (design section 5.1)."""
        files = sorted(self.files, key=lambda file: file.path.encode())
        lines = (f"{file.mode:04o} {hashlib.sha256(file.content).hexdigest()} {file.path}\n" for file in files)
        return Digest.of("".join(lines).encode())
