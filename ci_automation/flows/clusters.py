"""Snapshots and manifests of the clusters that follow a channel, read from files and artifacts."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ci_automation.errors import UsageError
from ci_automation.flows.files import below, read_file
from ci_automation.impact.check import ARTIFACTS, Clusters, GivenFile
from ci_automation.impact.crds.versions import MAX_BYTES, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ci_automation.artifact.tree import Tree
    from ci_automation.config.model import ClustersConfig

_MANIFESTS = frozenset({".yaml", ".yml", ".json"})
_LEFT_OUT = frozenset({".git"})
_MAX_FILES = 20_000
_MAX_MANIFEST_BYTES = 64 << 20  # all of them together
_MAX_ENTRIES = 500_000  # of folders, whatever they are


class UnreadablePlace(UsageError):
    """Manifests or snapshots of clusters that cannot be read."""

    hint = "Name a file, a folder, or an artifact (oci://, layout:), as --objects, --cluster-snapshot or in `clusters`."

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")


def read_clusters(stated: ClustersConfig, open_artifact: Callable[[str], Tree]) -> Clusters:
    """Read the stated manifests and snapshots; `open_artifact` returns the files of an artifact, verified or not.

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
    if not path.is_dir():
        yield _read(place, path, _MAX_MANIFEST_BYTES)
        return
    try:
        for number, entry in enumerate(below(path, _LEFT_OUT), start=1):
            if number > _MAX_ENTRIES:
                raise UnreadablePlace(place, f"it has more than {_MAX_ENTRIES} files")
            if entry.is_file(follow_symlinks=False) and Path(entry.name).suffix in _MANIFESTS:
                yield _read(place, Path(entry.path), _MAX_MANIFEST_BYTES)
    except OSError as error:
        raise UnreadablePlace(place, f"it cannot be read: {error.strerror or error}") from None


def _of_artifact(place: str, open_artifact: Callable[[str], Tree]) -> Iterator[GivenFile]:
    for file in sorted(open_artifact(place).files, key=lambda file: file.path):
        if Path(file.path).suffix in _MANIFESTS:
            yield GivenFile(f"{place}/{file.path}", file.content)


def _read(place: str, path: Path, limit: int) -> GivenFile:
    content = read_file(path, limit, partial(UnreadablePlace, place))
    return GivenFile(os.fsencode(path).decode(errors="replace"), content)
