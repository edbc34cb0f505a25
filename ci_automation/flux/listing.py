"""Lists of releases in the form of GitHub's REST API, read strictly, and the releases of Flux among them."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from ci_automation.flux.bundle import BUNDLE, checksums_name
from ci_automation.flux.release import (
    InvalidReleaseList,
    Release,
    ReleaseIncomplete,
    ReleaseNotFound,
    ReleaseSource,
    UnknownCommit,
)
from ci_automation.flux.version import read_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_automation.flux.version import Version

T = TypeVar("T")
NOT_PUBLISHED = datetime(9000, 1, 1, tzinfo=UTC)  # the date of a draft: never old enough
_DRAFT = "it is a draft: withdrawn, or not published yet"
_MAX_RELEASES = 10_000  # what GitHub lists at most
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
_MAX_NOTES = 125_000  # what GitHub takes
_CREATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class Listing(Struct, frozen=True):
    """One release as GitHub lists it, not yet interpreted; the assets' names as far as known."""

    tag: str
    published_at: str | None
    draft: bool
    prerelease: bool
    assets: frozenset[str]
    notes: str = ""


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


def releases(listings: Iterable[Listing], where: str) -> tuple[Release, ...]:
    """Return the releases among `listings`, newest version first; other tags are left out.

    A published release replaces a draft with the same tag, because GitHub lets both exist.

    Raises:
        InvalidReleaseList: the list has no release, too many, a version twice, or an invalid date.
    """
    found: dict[Version, Release] = {}
    for number, listing in enumerate(listings, 1):
        if number > _MAX_RELEASES:
            raise InvalidReleaseList(where, f"there are more than {_MAX_RELEASES} releases")
        if (version := read_version(listing.tag)) is None:
            continue
        release = _release(version, listing, where)
        earlier = found.get(version)
        if earlier and not is_draft(earlier) and not listing.draft:
            raise InvalidReleaseList(where, f"{version} is there twice")
        if earlier is None or is_draft(earlier):
            found[version] = release
    if not found:
        raise InvalidReleaseList(where, "it has no release of Flux")
    return tuple(sorted(found.values(), key=lambda release: release.version, reverse=True))


def usable(found: Iterable[Release], version: Version, where: str, source: ReleaseSource) -> Release:
    """Return the release of a version, which was found in a source.

    Raises:
        ReleaseNotFound: the release is not among `found`, or is a draft.
        ReleaseIncomplete: the release has a problem.
    """
    release = next((each for each in found if each.version == version and not is_draft(each)), None)
    if release is None:
        raise ReleaseNotFound(version, where, source.list)
    if release.problem:
        raise ReleaseIncomplete(version, release.problem)
    return release


def is_draft(release: Release) -> bool:
    """Return whether a release is a draft, which GitHub shows only to users who may change it."""
    return release.problem == _DRAFT


def _release(version: Version, listing: Listing, where: str) -> Release:
    problem = _DRAFT if listing.draft else _missing_file(version, listing.assets)
    return Release(version, _published_at(version, listing, where), listing.prerelease, problem, listing.notes)


def _missing_file(version: Version, assets: Iterable[str]) -> str | None:
    """Return the problem of a release with these `assets`, or None if it has the necessary files."""
    missing = [name for name in (BUNDLE, checksums_name(version)) if name not in assets]
    return f"it has no {' and no '.join(missing)}" if missing else None


def _published_at(version: Version, listing: Listing, where: str) -> datetime:
    if listing.published_at is None and listing.draft:
        return NOT_PUBLISHED
    if _TIMESTAMP.fullmatch(listing.published_at or ""):
        with suppress(ValueError, OverflowError):
            return datetime.fromisoformat(listing.published_at or "").astimezone(UTC)
    raise InvalidReleaseList(where, f"{version} has no date of publication")


def successors_complete(listed: Iterable[Version], newer_than: Version | None) -> bool:
    """Return whether `listed`, the start of a list from new to old, has all successors of `newer_than`.

    Every successor of v2.8.5 was created after v2.8.0: its patches follow it, and so do later minors, although some of
    them may be older than v2.8.5 itself. So if the list has reached a release with the patch number 0 that is not above
    `newer_than` (v2.8.0, a candidate for it, or an earlier minor), neither a successor nor `newer_than` itself comes
    later in the list.
    """
    return newer_than is not None and any(version.semver.patch == 0 and version <= newer_than for version in listed)
