"""Releases in the form of GitHub's REST API, and a directory with files of that form, such as a mirror.

`releases.json` has the form of GitHub's `GET /repos/{owner}/{repo}/releases` (tag_name, published_at, draft,
prerelease, and the assets' names), `tags.json` that of `GET /repos/{owner}/{repo}/tags`; the folder `<tag>/` has the
release's `manifests.tar.gz` and `flux_<version>_checksums.txt`, and if known, upstream's `.sig` and `.pem` and their
entry in the transparency log, `.rekor.json`. `advisories.json`, if it is there, has the form of `GET /advisories`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TypeVar

from ci_automation.errors import ReleaseSourceError
from ci_automation.flux.release import (
    FetchedRelease,
    InvalidReleaseList,
    Listing,
    Release,
    UnknownCommit,
    collected_files,
    open_release,
    releases,
    usable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ci_automation.flux.advisories import Advisory
    from ci_automation.flux.version import Version

T = TypeVar("T")
_MAX_NOTES = 125_000  # what GitHub takes
_CREATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_RELEASES, _TAGS = "releases.json", "tags.json"
ADVISORIES = "advisories.json"
MAX_JSON_BYTES = 32 << 20  # GitHub's own list of Flux's releases has 6 MB


class UnreadableDirectory(ReleaseSourceError):
    """A directory of releases, or a file in it, cannot be read."""

    hint = "Name a directory with releases.json, tags.json and one folder a release, readable by this user."

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"cannot read {path}: {problem}")


class LeavesDirectory(ReleaseSourceError):
    """A file of a directory of releases links to a place outside."""

    hint = "Put the file itself into the directory. This program reads and writes nothing outside of it."

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} leads out of the directory of releases")


class FileTooLarge(ReleaseSourceError):
    """A file in a directory of releases is larger than Flux's files."""

    hint = "Compare the file with the release on GitHub."

    def __init__(self, path: Path, limit: int) -> None:
        super().__init__(f"{path} has more than {limit} bytes")


class DirectorySource:
    """Releases in a directory, read when they are needed."""

    def __init__(self, path: Path, named_by: str = "") -> None:
        self._path = path
        self._named_by = named_by  # as the end of a message that it is not there

    def list(self, newer_than: Version | None = None) -> tuple[Release, ...]:
        """Return all releases, newest version first; see `ReleaseSource`."""
        del newer_than  # the list is one file
        where = str(self._path / _RELEASES)
        return releases(listings(load(self._read_json(_RELEASES), where), where), where)

    def fetch(self, version: Version) -> FetchedRelease:
        """Return the release of `version`; see `ReleaseSource`."""
        release = usable(self.list(), version, str(self._path), self)
        tags = load(self._read_json(_TAGS), str(self._path / _TAGS))
        commit = tag_commit(tags, version, str(self._path / _TAGS))
        files = collected_files(version, self.asset, str(self._path / str(version)))
        return open_release(release, files, commit)

    def advisories(self) -> tuple[Advisory, ...]:
        """Return the advisories in `advisories.json`, if it is there; see `ReleaseSource`."""
        from ci_automation.flux.advisories import advisories_in  # not for a check that finds nothing newer

        data = self._read(self._path / ADVISORIES, MAX_JSON_BYTES)
        return () if data is None else advisories_in(load(data, str(self._path / ADVISORIES)))

    def asset(self, version: Version, name: str, limit: int) -> bytes | None:
        """Return a file of the release's folder, or None if it does not exist; see `ReleaseSource`."""
        return self._read(self._path / str(version) / name, limit)

    def _read_json(self, name: str) -> bytes:
        data = self._read(self._path / name, MAX_JSON_BYTES)
        if data is None:
            raise UnreadableDirectory(self._path / name, f"it is not there{self._named_by}")
        return data

    def _read(self, path: Path, limit: int) -> bytes | None:
        """Return the bytes of a file below the directory, or None if it does not exist."""
        try:
            real = path.resolve(strict=True)
            if not real.is_relative_to(self._path.resolve(strict=True)):
                raise LeavesDirectory(path)
            if not real.is_file():  # reading a pipe would wait for ever
                raise UnreadableDirectory(path, "it is not a regular file")
            with real.open("rb") as file:
                data = file.read(limit + 1)
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError) as error:  # RuntimeError: a circle of links, up to Python 3.12
            raise UnreadableDirectory(path, _reason(error)) from None
        if len(data) > limit:
            raise FileTooLarge(path, limit)
        return data


def _reason(error: OSError | RuntimeError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "its links form a circle"


def load(data: bytes, where: str) -> object:
    """Return the value of a JSON text.

    Raises:
        InvalidReleaseList: the text is not JSON, or nested too deeply.
    """
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        raise InvalidReleaseList(where, "it is not JSON") from None
    return value


def listings(value: object, where: str) -> tuple[Listing, ...]:
    """Return the releases of `GET /repos/{owner}/{repo}/releases`.

    Raises:
        InvalidReleaseList: it does not have that form.
    """
    return tuple(listing(item, f"release {number}", where) for number, item in _items(value, where))


def listing(value: object, name: str, where: str) -> Listing:
    """Return one release of that list, or the answer of `GET /repos/{owner}/{repo}/releases/tags/{tag}`.

    Raises:
        InvalidReleaseList: it does not have that form.
    """
    return Listing(
        tag=field(value, "tag_name", str, f"{name} of {where}"),
        published_at=_optional(value, "published_at", f"{name} of {where}"),
        draft=field(value, "draft", bool, f"{name} of {where}"),
        prerelease=field(value, "prerelease", bool, f"{name} of {where}"),
        assets=frozenset(
            field(asset, "name", str, f"an asset of {name} of {where}")
            for asset in field(value, "assets", list, f"{name} of {where}")
        ),
        notes=notes(value, "body", f"{name} of {where}"),
    )


def notes(value: object, key: str, where: str) -> str:
    """Return the release notes under `key`, unchanged, or nothing if the release has none.

    Raises:
        InvalidReleaseList: the notes are not a text.
    """
    return (_optional(value, key, where) or "")[:_MAX_NOTES]


def creation(value: object) -> str | None:
    """Return a release's time of creation, as text that sorts by time, or None if it is unknown."""
    created = value.get("created_at") if isinstance(value, dict) else None
    return created if isinstance(created, str) and _CREATED.fullmatch(created) else None


def tag_commit(value: object, version: Version, where: str) -> str:
    """Return the commit of a version's tag in `GET /repos/{owner}/{repo}/tags`.

    Raises:
        InvalidReleaseList: it does not have that form.
        UnknownCommit: the list does not have the tag exactly once.
    """
    commits = [
        field(field(item, "commit", dict, f"tag {number} of {where}"), "sha", str, f"tag {number} of {where}")
        for number, item in _items(value, where)
        if field(item, "name", str, f"tag {number} of {where}") == str(version)
    ]
    if len(commits) != 1:
        raise UnknownCommit(version, f"{where} has the tag {len(commits)} times")
    return commits[0]


def field(value: object, key: str, kind: type[T], where: str) -> T:
    """Return the member `key` of a JSON object, which must be a `kind`.

    Raises:
        InvalidReleaseList: `value` is not an object, or has no such member.
    """
    found: Any = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
        raise InvalidReleaseList(where, f"{key} is not there, or not what it must be")
    return found


def _optional(value: object, key: str, where: str) -> str | None:
    if isinstance(value, dict) and value.get(key) is None:
        return None
    return field(value, key, str, where)


def _items(value: object, where: str) -> Iterator[tuple[int, object]]:
    if not isinstance(value, list):
        raise InvalidReleaseList(where, "it is not a list")
    return enumerate(value, 1)
