"""The page about a pull request: what it would change and break, the gravest first, and how each file was made."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.impact.change import Severity
from ci_automation.impact.hazard import Certainty
from ci_automation.policy.decision import Decision, decide
from ci_automation.report.changes import markdown_sections
from ci_automation.report.findings import ACKNOWLEDGED, Findings
from ci_automation.report.markdown import code, folded, inline, markdown_table, one_line, quote
from ci_automation.report.summary import fitting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.flux.options import Options
    from ci_automation.flux.version import Version

MAX_COMMENT = 60_000  # characters; GitHub takes 65,536
_ROWS = (60, 20, 6, 2)  # of each list: as many as fit
_MOST_PATHS = 10
_CUT = "_The rest is missing here: this page has a limit. Compare the files yourself with `flux-manifests diff`._"
_MAX_PATH, _MAX_TEXT, _MAX_DIFF = 200, 300, 20_000
_DECIDES = (  # files of a repository that decide what runs, what a page shows, and who has to look
    (re.compile(r"\.github/(?:workflows|actions)/.*"), "workflows"),
    (re.compile(r"(?:.*/)?\.gitattributes"), "attributes"),
    (re.compile(r"(?:\.github/|docs/)?CODEOWNERS"), "code owners"),
    (re.compile(r"\.github/flux-manifests\.(?:lock\.)?yaml"), "rules of flux-manifests"),
)
_MARKS = {
    Certainty.CERTAIN: "**certain**",
    Certainty.POSSIBLE: "**possible**",
    Certainty.UNCHECKED: "unchecked",
    Certainty.ADVICE: "advice",
}
_SAYS = {
    Decision.AUTO: "publishes it without approval",
    Decision.APPROVAL: "needs approval",
    Decision.WAIT: "waits",
    Decision.REFUSED: "refuses it",
}


class FailOn(enum.StrEnum):
    """What makes a preview fail; each includes those before it."""

    CERTAIN = "certain"  # something will break
    DANGER = "danger"  # a change opens what was closed, or can break what works
    APPROVAL = "approval"  # the policy needs an approval for it, or refuses it


class RenderedBy(enum.StrEnum):
    """Who wrote a components file, as far as rendering its release again tells."""

    FLUX = "Flux: the rendering of this release and these options, byte for byte"
    EDITED = "Flux, and then edited by hand"
    ANOTHER_TOOL = "another tool than `flux install --export`"
    NOT_PROVEN = "nobody knows whom"


class ComponentsOrigin(Struct, frozen=True):
    """The release and the options that a components file was made from, and who wrote it; None where nothing says."""

    by: RenderedBy
    version: Version | None = None
    options: Options | None = None
    pins: int = 0  # images with a digest
    detail: str = ""  # why it is not checked
    edits: str = ""  # a unified diff from Flux's rendering


class FileReview(Struct, frozen=True):
    """What becomes of a components file and the files beside it; None: it is not there."""

    old: ComponentsOrigin | None
    new: ComponentsOrigin | None
    found: Findings
    remarks: tuple[str, ...] = ()


class PreviewPage(Struct, frozen=True):
    """All that a preview says of a pull request; each review with the files that it holds for."""

    base: str  # the commits
    head: str
    changed: tuple[str, ...]  # every file that the request changes
    reviews: tuple[tuple[FileReview, tuple[str, ...]], ...] = ()
    remarks: tuple[str, ...] = ()


def fails(found: Findings, limit: FailOn) -> bool:
    """Return whether findings are as grave as what a preview is to fail on; what is acknowledged does not count."""
    taken = found.taken()
    open_hazards = [it for it in found.hazards if taken.hazard(it) != ACKNOWLEDGED]
    if any(it.certainty is Certainty.CERTAIN for it in open_hazards):
        return True
    if limit is FailOn.CERTAIN:
        return False
    if any(it.severity is Severity.DANGER and taken.change(it) != ACKNOWLEDGED for it in found.changes):
        return True
    return limit is FailOn.APPROVAL and _decision(found) in {Decision.APPROVAL, Decision.REFUSED}


def preview_markdown(page: PreviewPage, limit: int) -> str:
    """Return the page in at most `limit` bytes: what can break comes before what changes, and diffs come last.

    Lists get shorter until all of it fits. If the shortest do not fit, the end is left out, and a last line says so.
    """
    *longer, shortest = _ROWS
    made = (_text(page, rows, limit) for rows in longer)
    return next((text for text in made if not text.endswith(f"{_CUT}\n")), "") or _text(page, shortest, limit)


def _text(page: PreviewPage, rows: int, limit: int) -> str:
    return fitting([f"{part}\n" for part in _parts(page, rows)], limit, _CUT)


def _parts(page: PreviewPage, rows: int) -> Iterator[str]:
    yield f"## Preview of Flux\n\n{_commits(page)}"
    yield from _first(page)
    ranked = sorted(page.reviews, key=lambda it: _gravity(it[0].found))
    if not ranked:
        yield "The request changes nothing that was asked for."
        return
    yield _overview(ranked)
    for title, make in (("What can break", _breaks), ("What changes", _changes), ("", _edits)):
        for review, paths in ranked:
            if text := "\n\n".join(make(review, rows)):
                yield f"### {title}{' in ' if title else ''}{_paths(paths, 1)}\n\n{text}"


def _commits(page: PreviewPage) -> str:
    return f"From {code(page.base)} to {code(page.head)}. A preview is advice: it approves nothing."


def _first(page: PreviewPage) -> Iterator[str]:
    """Yield what must be read before anything else: the request could have changed what made this page."""
    for words in dict.fromkeys(words for _, words in _DECIDES):
        paths = [
            path for path in page.changed for pattern, name in _DECIDES if name == words and pattern.fullmatch(path)
        ]
        if paths:
            yield f"**The request changes {words}: {_paths(paths, _MOST_PATHS)}.** Look at that first."
    if page.remarks:
        yield "\n".join(f"- {inline(remark, _MAX_TEXT)}" for remark in page.remarks)


def _overview(ranked: Sequence[tuple[FileReview, tuple[str, ...]]]) -> str:
    """Return the table with a row for each review: in no list it is the first to be cut."""
    rows = [
        (
            _paths(paths, _MOST_PATHS),
            _versions(review),
            _hazards(review.found),
            inline(review.found.count(), _MAX_TEXT),
            _verdict(review.found),
        )
        for review, paths in ranked
    ]
    return markdown_table(("file", "Flux", "what can break", "changes", "the policy"), rows)


def _versions(review: FileReview) -> str:
    old, new = (str(it.version or "?") if it else "" for it in (review.old, review.new))
    if not (old and new):
        return f"{new}, added" if new else f"{old}, removed"
    return old if old == new else f"{old} to {new}"


def _hazards(found: Findings) -> str:
    numbers = {mark: sum(it.certainty is certainty for it in found.hazards) for certainty, mark in _MARKS.items()}
    return ", ".join(f"{number} {mark}" for mark, number in numbers.items() if number)


def _verdict(found: Findings) -> str:
    return _SAYS[_decision(found)]


def _decision(found: Findings) -> Decision:
    return decide(found.gates) if found.gates else Decision.AUTO


def _gravity(found: Findings) -> tuple[bool, ...]:
    """Return what puts the gravest first."""
    return tuple(not fails(found, limit) for limit in FailOn)


def _breaks(review: FileReview, rows: int) -> Iterator[str]:
    yield from (f"- {inline(remark, _MAX_TEXT)}" for remark in review.remarks)
    for title, text in markdown_sections(review.found, rows):
        if title == "What can break":
            yield text
        elif title == "What clusters delete":
            yield f"{title}:"
            yield text
    found = review.found  # gates on single hazards and changes are told with those
    stops = [it for it in found.ranked_gates() if it.decision is not Decision.AUTO and not found.lists(it)]
    if stops:
        more = [f"- and {len(stops) - rows} more reasons"] if len(stops) > rows else []
        yield f"The policy {_verdict(found)}:"
        yield "\n".join([*(f"- {inline(it.reason, _MAX_TEXT)}" for it in stops[:rows]), *more])


def _changes(review: FileReview, rows: int) -> Iterator[str]:
    sides = [(name, it) for name, it in (("base", review.old), ("head", review.new)) if it]
    facts = (
        ("Flux", [code(str(it.version)) if it.version else "?" for _, it in sides]),
        ("options", [_options(it.options) for _, it in sides]),
        ("images", [f"{it.pins} pinned to digests" if it.pins else "by tag" for _, it in sides]),
        ("written by", [inline(f"{it.by}{f': {it.detail}' if it.detail else ''}", _MAX_TEXT) for _, it in sides]),
    )
    yield markdown_table(("", *(name for name, _ in sides)), [(fact, *cells) for fact, cells in facts])
    for title, text in markdown_sections(review.found, rows):
        if title == "What changes":
            yield text


def _options(options: Options | None) -> str:
    if options is None:
        return "?"
    return "<br>".join(code(one_line(flag, _MAX_TEXT)) for flag in options.to_arguments()) or "Flux's own"


def _edits(review: FileReview, _: int) -> Iterator[str]:
    for name, side in (("base", review.old), ("head", review.new)):
        if side and side.edits:
            yield folded(f"Hand edits in the {name}", quote(side.edits, _MAX_DIFF))


def _paths(paths: Sequence[str], most: int) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(code(one_line(path, _MAX_PATH)) for path in paths[:most]) + more
