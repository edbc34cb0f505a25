"""Reading what is known of the clusters that follow a channel: their snapshots, and the manifests of a fleet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ci_automation.errors import UsageError
from ci_automation.flux.crds.clusters import ARTIFACTS, Clusters, GivenFile
from ci_automation.flux.crds.snapshot import MAX_BYTES, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ci_automation.artifact.tree import Tree
    from ci_automation.config.model import ClustersConfig

_MANIFESTS = frozenset({".yaml", ".yml", ".json"})
_MAX_FILES = 20_000
_MAX_MANIFEST_BYTES = 64 << 20  # all of them together
_MAX_ENTRIES = 500_000  # of folders, whatever they are


class UnreadablePlace(UsageError):
    """A place where manifests or snapshots of clusters are said to be cannot be read."""

    hint = "Name a file, a folder, or an artifact (oci://, layout:), as --objects, --cluster-snapshot or in `clusters`."

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")


def read_clusters(stated: ClustersConfig, open_artifact: Callable[[str], Tree]) -> Clusters:
    """Return what is stated, with all files read; `open_artifact` returns the files of an artifact, verified or not.

    Of a folder or an artifact everything is taken that is YAML or JSON by its name; links are not followed, as Flux
    takes none from a Git repository, and `.git` is left out.

    Raises:
        UnreadablePlace: a place is not there, cannot be read, or holds too much.
        InvalidSnapshot: a snapshot is none.
    """
    snapshots = [
        Snapshot.parse(file.content, file.name)
        for place in stated.snapshots
        for file in _snapshots(place, open_artifact)
    ]
    return Clusters(stated.kubernetes, tuple(snapshots), _limited(stated.objects, open_artifact))


def _limited(places: Iterable[str], open_artifact: Callable[[str], Tree]) -> tuple[GivenFile, ...]:
    files: dict[str, GivenFile] = {}
    total = 0
    for place in places:
        for file in _manifests(place, open_artifact):
            if file.name in files:
                continue
            files[file.name] = file
            total += len(file.content)
            if len(files) > _MAX_FILES or total > _MAX_MANIFEST_BYTES:
                what = f"there are more than {_MAX_FILES} manifests, or {_MAX_MANIFEST_BYTES >> 20} MiB of them"
                raise UnreadablePlace(place, what)
    return tuple(files.values())


def _snapshots(place: str, open_artifact: Callable[[str], Tree]) -> Iterator[GivenFile]:
    if not place.startswith(ARTIFACTS):
        yield _read(place, Path(place), MAX_BYTES)
        return
    found = [file for file in _of_artifact(place, open_artifact) if file.name.endswith(".json")]
    if not found:
        raise UnreadablePlace(place, "it has no snapshot: a file whose name ends with .json")
    yield from found


def _manifests(place: str, open_artifact: Callable[[str], Tree]) -> Iterator[GivenFile]:
    if place.startswith(ARTIFACTS):
        yield from _of_artifact(place, open_artifact)
        return
    path = Path(place)
    if path.is_dir():
        for number, inner in enumerate(_walk(place, path)):
            if number > _MAX_ENTRIES:
                raise UnreadablePlace(place, f"it has more than {_MAX_ENTRIES} files")
            if inner.suffix in _MANIFESTS:
                yield _read(place, inner, _MAX_MANIFEST_BYTES)
    else:
        yield _read(place, path, _MAX_MANIFEST_BYTES)


def _of_artifact(place: str, open_artifact: Callable[[str], Tree]) -> Iterator[GivenFile]:
    for file in sorted(open_artifact(place).files, key=lambda file: file.path):
        if Path(file.path).suffix in _MANIFESTS:
            yield GivenFile(f"{place}/{file.path}", file.content)


def _walk(place: str, folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and entry.name != ".git":
                yield from _walk(place, folder / entry.name)
            elif entry.is_file(follow_symlinks=False):
                yield folder / entry.name
    except OSError as error:
        raise UnreadablePlace(place, _reason(error)) from None


def _read(place: str, path: Path, limit: int) -> GivenFile:
    try:
        if not path.is_file():  # reading a pipe would wait for ever
            raise UnreadablePlace(place, "it is not there" if not path.exists() else "it is not a regular file")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise UnreadablePlace(place, _reason(error)) from None
    if len(content) > limit:
        raise UnreadablePlace(place, f"it is larger than {limit >> 20} MiB")
    return GivenFile(os.fsencode(path).decode(errors="replace"), content)


def _reason(error: OSError) -> str:
    return f"it cannot be read: {error.strerror or error}"
