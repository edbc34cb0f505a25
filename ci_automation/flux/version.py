"""Versions of Flux, and the bump from one to another."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Self

import semver
from msgspec import Struct

from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_LENGTH = 64  # upstream's longest so far has 13 characters


class InvalidVersion(UsageError):
    """A text is not a version of Flux."""

    hint = "Write it as Flux's tags do, for example v2.9.4."

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:80]!r} is not a version of Flux")


class Bump(enum.StrEnum):
    """The kind of change between two versions."""

    NONE = "none"
    PATCH = "patch"
    MINOR = "minor"
    MAJOR = "major"
    DOWN = "down"


class Version(Struct, frozen=True, order=True):
    """One version of Flux: strict SemVer 2.0, written with Flux's leading ``v``."""

    semver: semver.Version

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the version in `text`, with or without the leading ``v``.

        Raises:
            InvalidVersion: `text` is not three numbers with an optional pre-release and build.
        """
        try:
            if len(text) > _MAX_LENGTH or not re.fullmatch(r"[ -~]+", text):
                raise InvalidVersion(text)
            return cls(semver.Version.parse(text.removeprefix("v")))
        except ValueError:
            raise InvalidVersion(text) from None

    @property
    def minor(self) -> tuple[int, int]:
        """Return major and minor, which name a series of patches."""
        return self.semver.major, self.semver.minor

    @property
    def is_prerelease(self) -> bool:
        """Return whether this is a pre-release, for example a release candidate."""
        return self.semver.prerelease is not None

    @property
    def release(self) -> Version:
        """Return the version without its pre-release and build parts, the final release of a pre-release."""
        return Version(self.semver.finalize_version())

    @property
    def before_minor(self) -> Version:
        """Return the first version of the minor before this one's, or of the major before it."""
        major, minor = self.minor
        return Version(semver.Version(max(major - (minor == 0), 0), max(minor - 1, 0)))

    def bump_to(self, target: Version) -> Bump:
        """Return the bump from this version to `target`."""
        if target == self:
            return Bump.NONE
        if target < self:
            return Bump.DOWN
        if target.semver.major != self.semver.major:
            return Bump.MAJOR
        return Bump.MINOR if target.semver.minor != self.semver.minor else Bump.PATCH

    def __hash__(self) -> int:
        return hash(self.semver.to_tuple()[:4])  # equal versions may differ in their build part

    def __str__(self) -> str:
        return f"v{self.semver}"


def near_misses(wanted: Version, known: Iterable[Version]) -> str:
    """Return the end of a message that a version is not there: its neighbours that are, or nothing without any."""
    below, above = (lambda it: it < wanted), (lambda it: it > wanted)
    versions = sorted(set(known))
    near = [*list(filter(below, versions))[-1:], *list(filter(above, versions))[:1]]
    return f"; the nearest {'is' if len(near) == 1 else 'are'} {' and '.join(map(str, near))}" if near else ""


def read_version(tag: str) -> Version | None:
    """Return the version of a tag, or None if the tag is not a Flux release's."""
    try:
        version = Version.parse(tag)
    except InvalidVersion:
        return None
    return version if str(version) == tag and version.semver.build is None else None
