"""GitHub's REST answers about releases and tags, as a directory of releases and the REST API both have them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TypeVar

from ci_automation.flux.release import InvalidReleaseList, Listing, UnknownCommit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.flux.version import Version

T = TypeVar("T")
_MAX_NOTES = 125_000  # what GitHub takes
_CREATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


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
