"""Releases in a directory with files in the form of GitHub's REST API, such as a mirror.

`releases.json` has the form of GitHub's `GET /repos/{owner}/{repo}/releases` (tag_name, published_at, draft,
prerelease, and the assets' names), `tags.json` that of `GET /repos/{owner}/{repo}/tags`; the folder `<tag>/` has the
release's `manifests.tar.gz` and `flux_<version>_checksums.txt`, and if known, upstream's `.sig` and `.pem` and their
entry in the transparency log, `.rekor.json`. `advisories.json`, if it is there, has the form of `GET /advisories`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.errors import ReleaseSourceError
from ci_automation.flux.listing import listings, load, releases, tag_commit, usable
from ci_automation.flux.release import FetchedRelease, Release, collected_files, open_release

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.flux.advisories import Advisory
    from ci_automation.flux.version import Version

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
