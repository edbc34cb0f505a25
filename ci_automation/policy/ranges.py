"""Ranges of versions, as Flux's own `spec.ref.semver` reads them.

Flux compares with Masterminds/semver v3 (`constraints.go`, v3.5), whose documentation and behaviour differ in places:
`^*` takes 0.0.0 alone, `<=*` takes 0.0.x, `1||2 - 3` without spaces reads as `>=1 || 2, <=3`. What counts is what the
clusters do, so those are kept, and the real tier compares thousands of pairs with the library itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.flux.version import Version

_MAX_LENGTH = 512
_MAX_GROUPS = 32
_MAX_VERSION_LENGTH = 256
_MAX_NUMBER = 2**64 - 1
_ALL_PARTS = 3
_WILDCARDS = ("", "x", "X", "*")

_S = r"[\t\n\f\r ]"  # what Go's \s is
_DOTTED = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_VERSION = rf"v?[0-9|xX*]+(?:\.[0-9|xX*]+(?:\.[0-9|xX*]+)?)?(?:-{_DOTTED})?(?:\+{_DOTTED})?"
_OPERATOR = r"(?:!=|>=|=>|<=|=<|~>|=|>|<|~|\^)"
_HYPHEN = re.compile(rf"{_S}*({_VERSION}){_S}+-{_S}+({_VERSION}){_S}*")
_CONSTRAINT = rf"(?:{_OPERATOR}{_S}*)?{_VERSION}"
# The upstream's grammar, written so that no text can be read in two ways: Python's matcher goes through all of them.
_GROUP = re.compile(rf"{_S}*{_CONSTRAINT}(?:(?:{_S}*,|{_S}){_S}*{_CONSTRAINT})*{_S}*")
_ONE = re.compile(
    rf"(?P<operator>{_OPERATOR}?){_S}*(?P<version>v?(?P<major>[0-9|xX*]+)(?:\.(?P<minor>[0-9|xX*]+)"
    rf"(?:\.(?P<patch>[0-9|xX*]+))?)?(?:-(?P<prerelease>{_DOTTED}))?(?:\+{_DOTTED})?)"
)

_Numbers = tuple[int, int, int]
_Identifiers = tuple[tuple[int, int, str], ...]


class InvalidRange(UsageError):
    """A text is not a range of versions."""

    hint = 'Write it as in spec.ref.semver, for example ">=2.0.0 <3.0.0", "2.9.x" or "~2.8.0 || ~2.9.0".'

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"{text[:80]!r} is not a range of versions: {reason}")


class Range(Struct, frozen=True):
    """Constraints on a version: one group of them must hold, and in it each."""

    text: str
    groups: tuple[tuple[_Constraint, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the range that `text` writes.

        Raises:
            InvalidRange: Masterminds/semver would not take it either.
        """
        if len(text) > _MAX_LENGTH:
            raise InvalidRange(text, f"it is longer than {_MAX_LENGTH} characters")
        groups = _without_hyphens(text).split("||")
        if len(groups) > _MAX_GROUPS:
            raise InvalidRange(text, f"it has more than {_MAX_GROUPS} alternatives")
        return cls(text, tuple(_group(text, group) for group in groups))

    def allows(self, version: Version) -> bool:
        """Return whether `version` is in the range; a pre-release only if its group of constraints names one too."""
        candidate = _Candidate.of(version)
        return any(
            (not candidate.prerelease or any(constraint.version.prerelease for constraint in group))
            and all(constraint.holds(candidate) for constraint in group)
            for group in self.groups
        )

    def late_starts(self, version: Version | None = None) -> Iterator[str]:
        """Yield where `>` with a part of a version begins: everywhere, or where that leaves `version` out."""
        numbers = _Candidate.of(version).numbers if version else None
        for each in (it for group in self.groups for it in group if it.operator == ">" and 0 < it.given < _ALL_PARTS):
            part = each.version.numbers[: each.given]
            if numbers is None or numbers[: each.given] == part:
                begin, written = _dotted((*part[:-1], part[-1] + 1)), ".".join(map(str, part))
                yield f"`>{written}` begins at v{begin}; for v{_dotted(part)} and later write `>={_dotted(part)}`"

    def __str__(self) -> str:
        return self.text


def _dotted(part: tuple[int, ...]) -> str:
    return ".".join(map(str, (*part, 0, 0)[:_ALL_PARTS]))


class _Candidate(Struct, frozen=True):
    """A version as Masterminds compares it: a number beyond 64 bits in a pre-release counts as a text."""

    numbers: _Numbers
    prerelease: _Identifiers

    @classmethod
    def of(cls, version: Version) -> Self:
        parsed = version.semver
        return cls((parsed.major, parsed.minor, parsed.patch), _identifiers(parsed.prerelease or ""))

    @property
    def order(self) -> tuple[_Numbers, bool, _Identifiers]:
        """Return what versions are sorted by: a release comes behind its pre-releases (SemVer 2.0, item 11)."""
        return self.numbers, not self.prerelease, self.prerelease


class _Constraint(Struct, frozen=True):
    """An operator and a version; `given` counts the version's parts before the first wildcard or missing one."""

    operator: str
    version: _Candidate
    given: int

    def holds(self, candidate: _Candidate) -> bool:
        """Return whether `candidate` satisfies the constraint, pre-releases aside (`constraintOps`)."""
        ours, theirs = self.version, candidate
        match self.operator:
            case "!=":
                held = self._differs(theirs)
            case ">" if self.given in (1, 2):
                held = theirs.numbers[: self.given] > ours.numbers[: self.given]
            case ">":
                held = theirs.order > ours.order
            case "<":
                held = theirs.order < ours.order
            case ">=" | "=>":
                held = theirs.order >= ours.order
            case "<=" | "=<" if self.given == _ALL_PARTS:
                held = theirs.order <= ours.order
            case "<=" | "=<":
                parts = self.given or 2  # not 0: upstream compares major and minor with the 0.0 that `*` stands for
                held = theirs.numbers[:parts] <= ours.numbers[:parts]
            case "^":
                held = theirs.order >= ours.order and self._same_left_part(theirs)
            case "" | "=" if self.given == _ALL_PARTS:
                held = theirs.order == ours.order
            case _:  # ~, and = with a wildcard
                held = theirs.order >= ours.order and self._same_minor(theirs)
        return held

    def _differs(self, candidate: _Candidate) -> bool:
        """Return what `constraintNotEqual` does: `!=2.x` is another major, `!=2.9.x` another minor or pre-release."""
        if self.given == 1:
            return candidate.numbers[0] != self.version.numbers[0]
        if self.given == 2:  # noqa: PLR2004 - major and minor
            same = candidate.numbers[:2] == self.version.numbers[:2]
            return not same or candidate.prerelease != self.version.prerelease
        return candidate.order != self.version.order

    def _same_minor(self, candidate: _Candidate) -> bool:
        """Return the upper bound of `constraintTilde`, where `~0.0.0` and `~*` have none."""
        if self.version.numbers == (0, 0, 0) and self.given in (0, _ALL_PARTS):
            return True
        parts = 1 if self.given == 1 else 2
        return candidate.numbers[:parts] == self.version.numbers[:parts]

    def _same_left_part(self, candidate: _Candidate) -> bool:
        """Return the upper bound of `constraintCaret`: all parts up to the first that is not 0 are the same."""
        major, minor, _ = self.version.numbers
        if major > 0 or self.given == 1:
            parts = 1
        elif minor > 0 or self.given == 2:  # noqa: PLR2004 - major and minor
            parts = 2
        else:
            parts = _ALL_PARTS
        return candidate.numbers[:parts] == self.version.numbers[:parts]


def _without_hyphens(text: str) -> str:
    """Return `text` with `2.1 - 2.4` written as two comparisons (`rewriteRange`), before it is split at `||`."""
    rewritten = text
    for found in _HYPHEN.finditer(text):
        rewritten = rewritten.replace(found[0], f">= {found[1]}, <= {found[2]} ", 1)
    return rewritten


def _group(text: str, group: str) -> tuple[_Constraint, ...]:
    if not _GROUP.fullmatch(group):
        part = group.strip()
        raise InvalidRange(text, f"{part[:80]!r} is not a list of constraints" if part else "an alternative is empty")
    return tuple(_constraint(text, found) for found in _ONE.finditer(group))


def _constraint(text: str, found: re.Match[str]) -> _Constraint:
    """Return one constraint (`parseConstraint`); what stands behind a wildcard is not looked at, as upstream."""
    parts = [found["major"], found["minor"] or "", found["patch"] or ""]
    given = next((count for count, part in enumerate(parts) if part in _WILDCARDS), _ALL_PARTS)
    numbers = [_number(text, part) for part in parts[:given]] + [0] * (_ALL_PARTS - given)
    prerelease = found["prerelease"] or ""
    if any(part.isdecimal() and part.startswith("0") and part != "0" for part in prerelease.split(".")):
        raise InvalidRange(text, f"a number in the pre-release {prerelease[:80]!r} begins with 0")
    if len(_as_upstream_reads(found, parts[:given])) > _MAX_VERSION_LENGTH:
        raise InvalidRange(text, f"a version in it is longer than {_MAX_VERSION_LENGTH} characters")
    major, minor, patch = numbers
    return _Constraint(found["operator"], _Candidate((major, minor, patch), _identifiers(prerelease)), given)


def _number(text: str, part: str) -> int:
    if not part.isdecimal() or int(part) > _MAX_NUMBER:
        raise InvalidRange(text, f"{part[:80]!r} is not a number or a wildcard")
    return int(part)


def _as_upstream_reads(found: re.Match[str], given: list[str]) -> str:
    """Return the text whose length upstream limits: as written, or with zeros for the wildcards."""
    if len(given) == _ALL_PARTS:
        return found["version"]
    prerelease = f"-{found['prerelease']}" if found["prerelease"] else ""
    return ".".join(given + ["0"] * (_ALL_PARTS - len(given))) + prerelease


def _identifiers(prerelease: str) -> _Identifiers:
    """Return the parts of a pre-release so that they sort by precedence: numbers first (`comparePrePart`)."""
    if not prerelease:
        return ()
    return tuple(
        (0, int(part), "") if part.isdecimal() and int(part) <= _MAX_NUMBER else (1, 0, part)
        for part in prerelease.split(".")
    )
