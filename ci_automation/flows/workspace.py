"""The overlay folder of a checkout, taken only if it can be what Git has, and what a request's page showed.

A checkout is a cache: filters, links, sparse checkouts and other programs change its bytes. So the folder gets the id
that Git would give it, for the caller to compare with GitHub's, and what Git or GitHub's pages show otherwise than it
is stored is refused.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.approval.lock import LOCK_FILE
from ci_automation.artifact.git import (
    ATTRIBUTES,
    EXECUTABLE,
    PLAIN,
    GitEntry,
    attribute_files,
    concealed,
    git_blob_id,
    git_tree_id,
)
from ci_automation.artifact.tree import COMPONENTS_NAMES, Tree, TreeFile
from ci_automation.config import DEFAULT_PATH
from ci_automation.errors import UsageError
from ci_automation.flows.files import MAX_OVERLAY_BYTES, below, read_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_WORKFLOWS = ".github/workflows"
_POINTER = b"version https://git-lfs.github.com/spec/"
_IGNORED = ".sourceignore"
_GIT = ".git"
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})  # controls, bidirectional marks, line separators
_SHOWN = 200
_MAX_ATTRIBUTES = 1 << 20


class UnfitOverlayFolder(UsageError):
    """A path of the configuration cannot be an overlay folder."""

    hint = (
        "Write a folder below the repository's root that holds the overlay alone, clusters/production for example. "
        "Keep the configuration, the lock file, workflows and gotk-components.yaml outside of it."
    )

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(f"overlay: {folder[:_SHOWN]!r} {reason}")


class UnfitOverlayFile(UsageError):
    """A file of an overlay folder is not what clusters and reviewers see."""

    hint = "Commit it as a regular file of Git with a plain name, or move it out of the folder."

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path[:_SHOWN]!r} {reason}")


class ComponentsInOverlay(UnfitOverlayFile):
    """An overlay folder holds a components file, as `flux bootstrap` makes it."""

    hint = (
        "If `flux bootstrap` made the folder, run `setup`: it copies the other files to a folder that no Kustomization "
        "of Flux applies, and writes `overlay`, `componentsFile` and `flags`. In the action's repository, "
        "docs/guides/migration.md has the steps for the clusters."
    )


class ConcealedOverlay(UsageError):
    """A `.gitattributes` changes overlay files in checkouts, or hides their changes."""

    hint = "Remove that attribute, or end its pattern before the overlay folder."


class OverlayFolder(Struct, frozen=True):
    """An overlay folder of a checkout: its path, the id that Git gives to its files, and the files for an artifact.

    Their paths are relative to the folder, which becomes the root of the artifact, as with `init --overlay`. Git keeps
    one bit of a file's mode: 100755 becomes 0755 in the artifact, 100644 becomes 0644.
    """

    path: str
    tree_id: str
    tree: Tree

    @property
    def paths(self) -> frozenset[str]:
        """Return the paths of its files in the repository."""
        return frozenset(f"{self.path}/{path}" for path in self.tree.by_path)


def read_overlay_folder(
    workspace: Path, folder: str, *, config: str = DEFAULT_PATH.as_posix(), components: bool = False
) -> OverlayFolder:
    """Return a folder of a checkout; `config` is the path of the configuration file, which must not be in it.

    With `components` it may hold a components file, as `flux bootstrap` puts it there.

    Raises:
        UnfitOverlayFolder: it is not there, is a link or behind one, or holds what approvals depend on.
        UnfitOverlayFile: a file is not a regular one, is a pointer of Git LFS, or has a name that misleads.
        ConcealedOverlay: a `.gitattributes` of the checkout is about its files.
    """
    path = folder.removesuffix("/")
    require_overlay_path(path, config)
    _require_place(path, workspace)
    entries = tuple(_entries(workspace / path, path, components=components))
    tree = Tree(tuple(TreeFile(entry.path, entry.data, entry.mode == EXECUTABLE) for entry in entries))
    _require_distinct(path, tree)
    present = [name for name in attribute_files(path) if os.path.lexists(workspace / name)]
    found = OverlayFolder(path, git_tree_id(entries), tree)
    require_shown({name: _attributes(workspace, name) for name in present}, found.paths)
    return found


def require_shown(attributes: Mapping[str, str | None], paths: Collection[str]) -> None:
    """Check that no `.gitattributes` above one of these paths of a repository conceals it.

    Raises:
        ConcealedOverlay: one does, or cannot be read, where its text is None.
    """
    for source in (source for source, text in attributes.items() if text is None):
        if any(path.startswith(source.removesuffix(ATTRIBUTES)) for path in paths):
            raise ConcealedOverlay(f"{source} is not a text that this run can read")
    texts = {source: text for source, text in attributes.items() if text is not None}
    if found := concealed(texts, paths):
        raise ConcealedOverlay(f"{found.source} gives {found.path[:_SHOWN]!r} the attribute {found.attribute[:_SHOWN]}")


def first_difference(folder: OverlayFolder, listed: Iterable[tuple[str, str]]) -> str | None:
    """Return the first path whose file is another in a folder than in the `listed` paths and blob ids, or None."""
    here = {file.path: git_blob_id(file.content) for file in folder.tree.files}
    there = dict(listed)
    return min((path for path in here.keys() | there.keys() if here.get(path) != there.get(path)), default=None)


def require_overlay_path(folder: str, config: str = DEFAULT_PATH.as_posix()) -> None:
    """Check that a path of a repository can be that of an overlay, whether it is there or not.

    Raises:
        UnfitOverlayFolder: it is none, or it holds what approvals depend on, or lies in it.
        UnfitOverlayFile: its name misleads.
    """
    parts = folder.split("/")
    if "\\" in folder or not {"", ".", ".."}.isdisjoint(parts) or _GIT in map(str.casefold, parts):
        raise UnfitOverlayFolder(folder, "is not a path like clusters/production, below the root of the repository")
    for part in parts:
        _require_plain(folder, part)
    for held in (config, LOCK_FILE, _WORKFLOWS):
        if f"{held}/".startswith(f"{folder}/") or f"{folder}/".startswith(f"{held}/"):
            raise UnfitOverlayFolder(folder, f"holds {held}, or lies in it, which approvals change")


def _require_place(folder: str, workspace: Path) -> None:
    place = workspace
    for part in folder.split("/"):
        place /= part
        try:
            mode = place.lstat().st_mode
        except OSError as error:
            raise UnfitOverlayFolder(folder, f"is not in the checkout: {error.strerror or error}") from None
        if not stat.S_ISDIR(mode):
            kind = "a symbolic link" if stat.S_ISLNK(mode) else "no folder"
            raise UnfitOverlayFolder(folder, f"is not a folder: {place.relative_to(workspace)} is {kind}")


def _require_plain(path: str, name: str) -> None:
    """Refuse a name with characters that a reviewer does not see, or sees at another place."""
    if unseen := next((char for char in name if unicodedata.category(char) in _UNSEEN), None):
        raise UnfitOverlayFile(path, f"has the character U+{ord(unseen):04X} in its name, which is invisible")


def _entries(root: Path, folder: str, *, components: bool) -> Iterator[GitEntry]:
    total = 0
    try:
        for entry in below(root, ()):
            path = entry.path.removeprefix(f"{root}/")
            yield (made := _entry(entry, path, f"{folder}/{path}", components=components))
            total += len(made.data)
            if total > MAX_OVERLAY_BYTES:
                raise UnfitOverlayFolder(folder, f"holds more than {MAX_OVERLAY_BYTES >> 20} MiB")
    except OSError as error:
        raise UnfitOverlayFolder(folder, f"cannot be read: {error.strerror or error}") from None


def _entry(entry: os.DirEntry[str], path: str, shown: str, *, components: bool) -> GitEntry:
    mode = entry.stat(follow_symlinks=False).st_mode
    if not stat.S_ISREG(mode):
        raise UnfitOverlayFile(shown, "is a symbolic link" if stat.S_ISLNK(mode) else "is not a regular file")
    for name in path.split("/"):
        _require_plain(shown, name)
        if name.casefold().startswith(_GIT) or name.casefold() == _IGNORED:
            raise UnfitOverlayFile(shown, f"has the name {name}, which Git or Flux takes for its own")
    if entry.name in COMPONENTS_NAMES and not components:
        raise ComponentsInOverlay(shown, "is a components file, which the run renders")
    data = read_file(Path(entry.path), MAX_OVERLAY_BYTES, partial(UnfitOverlayFile, shown))
    if data.startswith(_POINTER):
        raise UnfitOverlayFile(shown, "is a pointer of Git LFS, not the file itself")
    return GitEntry(EXECUTABLE if mode & stat.S_IXUSR else PLAIN, path, data)


def _require_distinct(folder: str, tree: Tree) -> None:
    """Refuse names in one folder that a reviewer, or a file system, may take for the same."""
    seen: dict[str, str] = {}
    for path in sorted({*tree.by_path, *tree.directories}):
        other = seen.setdefault(unicodedata.normalize("NFC", path).casefold(), path)
        if other != path:
            raise UnfitOverlayFile(f"{folder}/{path}", f"has the name of {other[:_SHOWN]!r} but for case or accents")


def _attributes(workspace: Path, path: str) -> str | None:
    """Return the text of an attributes file; of a link, which Git does not follow, there is none that is its own."""
    file = workspace / path
    if file.is_symlink():
        return None
    return read_file(file, _MAX_ATTRIBUTES, partial(UnfitOverlayFile, path)).decode(errors="replace")
