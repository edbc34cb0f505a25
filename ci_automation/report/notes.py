"""Upstream's notes on the releases between two versions: what may break first, then all of it, the newest first.

The words are foreign, and are only shown through `quote` or as plain text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.report.blocks import plain_text
from ci_automation.report.markdown import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.flux.release import Release
    from ci_automation.flux.version import Version

_MAX_RELEASES = 20  # a year of Flux has about fifteen
_MAX_READ = 60_000  # characters of one release's notes; GitHub takes 125,000
_MAX_TELLING = 40  # lines of one release
_MAX_LINE = 400
_MAX_LINES = 100  # of one release, on a terminal
_LEAST_SHARE = 200  # characters; less of a release's notes tells nothing
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+([^ \t](?:.*[^ \t#])?)[ \t#]*|\*\*([^*]+)\*\*:?[ \t]*")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_RULE = re.compile(r"[\s:|=*_-]*")
_BREAKS = re.compile(
    r"\b(?:breaking|removed?|removes|removal|deprecat\w*|migrat\w*|required?|requires|incompatib\w*|no longer"
    r"|must|manually|end[- ]of[- ]life|upgrade (?:notes?|procedure|guide|instructions?))\b",
    re.IGNORECASE,
)
_BREAKS_BELOW = re.compile(
    r"\b(?:breaking|upgrade (?:notes?|procedure|guide|instructions?)|migration|deprecations?|removals?"
    r"|action required)\b",
    re.IGNORECASE,
)


class ReleaseNotes(Struct, frozen=True):
    """Of one release: the lines that speak of what breaks, and the whole text, trimmed; foreign words as they came."""

    version: Version
    telling: tuple[str, ...]
    text: str

    def to_json(self) -> dict[str, object]:
        """Return the notes as the JSON output has them."""
        return {"version": str(self.version), "mayBreak": list(self.telling), "text": self.text}


def notes_between(releases: Sequence[Release], old: Version, new: Version) -> tuple[ReleaseNotes, ...]:
    """Return the notes of each release above `old` up to `new`, the newest first; those without any are left out.

    What cannot be taken is not asked about: drafts, and pre-releases but for those that are `old` or `new`.
    """
    candidates = old.is_prerelease or new.is_prerelease
    found = sorted(
        (
            it
            for it in releases
            if old < it.version <= new and not it.problem and (candidates or not it.version.is_prerelease)
        ),
        key=lambda it: it.version,
        reverse=True,
    )
    made = (_of(release) for release in found)
    return tuple(each for each in made if each.text)


def telling_markdown(found: Sequence[ReleaseNotes], limit: int) -> str:
    """Return the lines that speak of what breaks, release by release, in at most about `limit` characters."""
    return _blocks([(str(each.version), "\n".join(each.telling)) for each in found if each.telling], limit)


def notes_markdown(found: Sequence[ReleaseNotes], limit: int) -> str:
    """Return the whole notes, release by release, in at most about `limit` characters."""
    return _blocks([(str(each.version), each.text) for each in found], limit)


def notes_text(found: Sequence[ReleaseNotes]) -> str:
    """Return the notes for a terminal: of each release what may break, then the whole of it."""
    return "\n".join(line for each in found for line in _lines(each))


def notes_hint(found: Sequence[ReleaseNotes]) -> str:
    """Return the line that says how much the notes tell of what may break; empty where that is nothing."""
    number = sum(len(each.telling) for each in found)
    lines = f"{number} lines say" if number > 1 else "1 line says"
    return f"Release notes: {lines} what may break (-v shows them)." if number else ""


def _of(release: Release) -> ReleaseNotes:
    text = _COMMENT.sub("", release.notes[:_MAX_READ].replace("\r\n", "\n"))
    lines = [line.rstrip() for line in text.split("\n")]
    kept = [line for number, line in enumerate(lines) if line or (number and lines[number - 1])]
    return ReleaseNotes(release.version, tuple(_telling(kept)), "\n".join(kept).strip("\n"))


def _telling(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines that have such a word, and all that stands below a heading that announces them, once each."""
    below = 0  # the level of that heading
    fenced = False
    seen: set[str] = set()
    for text in (line[:_MAX_LINE] for line in lines):
        fence = bool(_FENCE.match(text))
        heading = None if fenced or fence else _HEADING.fullmatch(text)
        fenced ^= fence
        if heading:
            level = len(heading[1] or "#######")
            if not below or level <= below:
                below = level if _BREAKS_BELOW.search(heading[2] or heading[3]) else 0
            continue
        if _RULE.fullmatch(text) or text in seen or fence or not (below or (_BREAKS.search(text) and not fenced)):
            continue
        seen.add(text)
        yield text
        if len(seen) == _MAX_TELLING:
            return


def _blocks(texts: Sequence[tuple[str, str]], limit: int) -> str:
    """Return each text as a quoted block under its version; what one leaves of its share, the next ones may use."""
    shown = texts[:_MAX_RELEASES]
    parts = []
    room = limit
    for number, (version, text) in enumerate(shown):
        head = f"**{version}**\n\n"
        share = max(room // (len(shown) - number), _LEAST_SHARE)
        if block := quote(text, share - len(head)):
            parts.append(head + block)
            room -= len(head) + len(block)
    more = len(texts) - len(shown)
    return "\n\n".join([*parts, *([f"And those of {more} more releases."] if more else [])])


def _lines(each: ReleaseNotes) -> Iterator[str]:
    if each.telling:
        yield f"Release notes of {each.version}, what may break:"
        yield from (f"  {plain_text(line)}" for line in each.telling)
    yield f"Release notes of {each.version}:"
    lines = each.text.split("\n")
    yield from (f"  {plain_text(line)}".rstrip() for line in lines[:_MAX_LINES])
    if len(lines) > _MAX_LINES:
        yield f"  and {len(lines) - _MAX_LINES} more lines"
