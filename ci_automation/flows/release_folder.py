"""Writing a directory of releases, which has the form of `flux.sources.directory`: files and lists appear whole."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Any

from ci_automation.errors import UsageError
from ci_automation.flows.files import Unwritable, read_file, write_file
from ci_automation.flux.sources.directory import MAX_JSON_BYTES, UnreadableDirectory
from ci_automation.flux.version import read_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from ci_automation.flux.release import FetchedRelease

RELEASES, _TAGS = "releases.json", "tags.json"
_LOCK, _LOCK_SECONDS = ".flux-manifests.lock", 600


class MirrorBusy(UsageError):
    """A directory that another process is filling."""

    hint = "Wait until it ends, then run the same command again."

    def __init__(self, folder: Path) -> None:
        super().__init__(f"another process has been writing to {folder} for {_LOCK_SECONDS} seconds")


def write_lists(folder: Path, fetched: Iterable[FetchedRelease]) -> None:
    """Add the releases to the two lists; what others have put there stays."""
    releases, tags = {}, {}
    for each in fetched:
        version = str(each.release.version)
        names = (it.name for it in (folder / version).iterdir() if not it.name.startswith("."))
        releases[version] = listed_release(each, names)
        tags[version] = {"commit": {"sha": each.commit}}
    _merge(folder / _TAGS, "name", tags)
    _merge(folder / RELEASES, "tag_name", releases)


def listed_release(fetched: FetchedRelease, assets: Iterable[str]) -> dict[str, Any]:
    """Return a release as GitHub lists it, with these assets."""
    release = fetched.release
    return {
        "draft": False,
        "prerelease": release.prerelease,
        "published_at": release.published_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "assets": [{"name": name} for name in sorted(assets)],
    }


def _merge(path: Path, key: str, new: Mapping[str, dict[str, Any]]) -> None:
    """Write the list at `path` with the new items in it, newest version first, and others' after them as they were."""
    old: Any = []
    if path.exists():
        try:
            old = json.loads(read_file(path, MAX_JSON_BYTES, partial(UnreadableDirectory, path)))
        except (ValueError, RecursionError):
            raise UnreadableDirectory(path, "it is not JSON") from None
    if not isinstance(old, list) or not all(isinstance(item, dict) and isinstance(item.get(key), str) for item in old):
        raise UnreadableDirectory(path, "it does not have the format of GitHub's answer")
    kept = [item for item in old if item[key] not in new]
    versions = [*kept, *({key: name, **value} for name, value in new.items())]
    known = [(version, item) for item in versions if (version := read_version(item[key])) is not None]
    others = [item for item in kept if read_version(item[key]) is None]
    ordered = [item for _, item in sorted(known, key=lambda each: each[0], reverse=True)]
    write_mirrored(path, f"{json.dumps([*ordered, *others], indent=1)}\n".encode())


def write_mirrored(path: Path, data: bytes) -> None:
    """Write a file whole, unless it is there with these bytes; a link, a pipe or a device there is replaced."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.unlink()
        elif path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
            return
    except OSError as error:
        raise Unwritable(path, error) from None
    write_file(path, data)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make the directory, and let no other process write to it meanwhile.

    Raises:
        MirrorBusy: another process writes to it for a long time.
        Unwritable: it cannot be made or locked.
    """
    from filelock import FileLock, Timeout  # it costs 80 ms, and only writers need it

    lock = FileLock(folder / _LOCK, timeout=_LOCK_SECONDS)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise MirrorBusy(folder) from None
    except OSError as error:
        raise Unwritable(folder, error) from None
    try:
        yield
    finally:
        lock.release()
