"""The page about a pull request: what it would change and break, the gravest first, and how each file was made."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.impact.change import Certainty, Severity
from ci_automation.policy.decision import ACKNOWLEDGED, Decision, decide
from ci_automation.report.account import fitting
from ci_automation.report.blocks import Block, Bullet, Code, Command, Detail, Quoted, Table, Titled, cut
from ci_automation.report.changes import change_blocks, hazard_blocks, pruned_blocks
from ci_automation.report.details import file_blocks
from ci_automation.report.findings import Findings
from ci_automation.report.markdown import code, inline, markdown_table, one_line, to_markdown
from ci_automation.report.text import step_title

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.flux.options import Options
    from ci_automation.flux.version import Version
    from ci_automation.policy.plan import PlannedStep

MAX_COMMENT = 60_000  # characters; GitHub takes 65,536
_ROWS = (60, 20, 6, 2)  # of each list: as many as fit
_MOST_PATHS = 10
_CUT = "_The rest is missing here: this page has a limit. Compare the files yourself with `flux-manifests diff`._"
_MAX_PATH, _MAX_TEXT, _MAX_MERGE, _MAX_DIFF = 200, 300, 1_200, 20_000
_DECIDES = (  # files of a repository that decide what runs, what a page shows, and who has to look
    (re.compile(r"\.github/(?:workflows|actions)/.*|(?:.*/)?action\.ya?ml", re.DOTALL), "workflows"),
    (re.compile(r"(?:.*/)?\.gitattributes", re.DOTALL), "attributes"),
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
    NOT_PROVEN = "unknown"


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


class StepReview(Struct, frozen=True):
    """A step that the next run would plan; `known` says that it would without the request too."""

    step: PlannedStep
    known: bool = False


class ArtifactReview(Struct, frozen=True):
    """What the next run would do to an artifact if the request were merged; `trouble` says why that is unknown.

    Without a step, `unfit` is what fits it no longer of the patches and images of its clusters.
    """

    name: str
    steps: tuple[StepReview, ...] = ()
    remarks: tuple[str, ...] = ()
    trouble: str = ""
    merge: str = ""  # whether the merge can approve the content
    unfit: Findings = Findings()


class PreviewPage(Struct, frozen=True):
    """All that a preview says of a pull request; each review of a file with the paths that it holds for."""

    base: str  # the commits
    head: str
    changed: tuple[str, ...]  # every file that the request changes
    reviews: tuple[tuple[FileReview, tuple[str, ...]], ...] = ()
    artifacts: tuple[ArtifactReview, ...] = ()
    remarks: tuple[str, ...] = ()


class _Item(Struct, frozen=True):
    """One row of the overview, and one entry of each section below it; names and versions are Markdown."""

    names: str
    name: str
    versions: str
    found: Findings
    remarks: tuple[str, ...]
    facts: Table
    edits: tuple[tuple[str, str], ...] = ()  # each with its title


def fails(page: PreviewPage, limit: FailOn) -> bool:
    """Return whether a page has what a preview is to fail on; what would be so without the request does not count."""
    unknown = limit is FailOn.APPROVAL and any(it.trouble for it in page.artifacts)
    steps = (Findings.of(it.step) for artifact in page.artifacts for it in artifact.steps if not it.known)
    others = (*(review.found for review, _ in page.reviews), *(it.unfit for it in page.artifacts))
    return unknown or any(_is_grave(found, limit) for found in (*others, *steps))


def _is_grave(found: Findings, limit: FailOn) -> bool:
    """Return whether findings are as grave as a limit; what is acknowledged does not count."""
    taken = found.taken()
    if any(it.certainty is Certainty.CERTAIN and taken.hazard(it) != ACKNOWLEDGED for it in found.hazards):
        return True
    dangers = (it for it in found.changes if it.severity is Severity.DANGER and taken.change(it) != ACKNOWLEDGED)
    if limit is not FailOn.CERTAIN and any(dangers):
        return True
    return limit is FailOn.APPROVAL and _decision(found) in {Decision.APPROVAL, Decision.REFUSED}


def preview_markdown(page: PreviewPage, limit: int) -> str:
    """Return the page in at most `limit` bytes: what can break comes before what changes, and diffs come last.

    Lists get shorter until all of it fits. If the shortest do not fit, the end is left out, and a last line says so.
    """
    made = (_text(page, rows, limit) for rows in _ROWS)
    return next((text for text in made if not text.endswith(f"{_CUT}\n")), "") or _text(page, _ROWS[-1], limit)


def _text(page: PreviewPage, rows: int, limit: int) -> str:
    return fitting((f"{part}\n" for part in _parts(page, rows)), limit, _CUT)


def _parts(page: PreviewPage, rows: int) -> Iterator[str]:
    yield "## Preview of Flux"
    yield f"From {code(page.base)} to {code(page.head)}. A preview is advice: it approves nothing."
    yield from _first(page)
    if lines := [_line(it) for it in page.artifacts]:
        yield "\n".join(lines)
    ranked = sorted(_items(page), key=lambda it: [not _is_grave(it.found, limit) for limit in FailOn])
    if not ranked:
        yield "" if lines else "The request changes nothing that was asked for."
        return
    yield _overview(ranked, "file" if page.reviews else "artifact")
    for title, make in (("What can break", _breaks), ("What changes", _changes), ("Differences", _diffs)):
        for item in ranked:
            if text := to_markdown(make(item, rows)):
                yield f"### {title} in {item.name}\n\n{text}"


def _line(review: ArtifactReview) -> str:
    """Return what becomes of an artifact in one line, and what else must be known of it below."""
    new = sum(not it.known for it in review.steps)
    known = len(review.steps) - new
    also = f", and {known} with or without it" if known else ""
    if review.trouble:
        told = f"unknown: {inline(review.trouble, _MAX_TEXT)}"
    elif new:
        told = f"the next run would have {new} step{'s' if new > 1 else ''} because of the request{also}"
    else:
        told = "the request changes nothing that the next run would do"
    told_too = (*review.remarks, *(it.sentence for it in review.unfit.hazards))
    remarks = (f"  - {inline(remark, _MAX_TEXT)}" for remark in told_too)
    return "\n".join((f"- **{inline(review.name, _MAX_PATH)}**: {told}", *remarks))


def _items(page: PreviewPage) -> Iterator[_Item]:
    for review, paths in page.reviews:
        sides = (("base", review.old), ("head", review.new))
        edits = tuple((f"Hand edits in the {name}", it.edits) for name, it in sides if it and it.edits)
        names = _paths(paths, _MOST_PATHS), _paths(paths, 1)
        yield _Item(*names, _versions(review), review.found, review.remarks, _origins(review), edits)
    for artifact in page.artifacts:
        for it in artifact.steps:
            if not it.known:
                step, name = it.step, inline(artifact.name, _MAX_PATH)
                versions = f"{step.old_version} to {step.new_version}" if step.kind != "content" else "same version"
                name = f"{name} ({inline(versions)})"
                facts = Table(("", "digest"), (("from", Code(str(step.base))), ("to", Code(str(step.target)))))
                yield _Item(name, name, inline(step_title(step, "to")), Findings.of(step), (), facts)


def _first(page: PreviewPage) -> Iterator[str]:
    """Yield what must be read before anything else: the request could have changed what made this page."""
    for words in dict.fromkeys(words for _, words in _DECIDES):
        paths = [
            path for path in page.changed for pattern, name in _DECIDES if name == words and pattern.fullmatch(path)
        ]
        if paths:
            yield f"**The request changes {words}: {_paths(paths, _MOST_PATHS)}.** Look at that first."
    merges = (f"**{inline(it.name)}**: {inline(it.merge, _MAX_MERGE)}" for it in page.artifacts if it.merge)
    if told := [*merges, *(inline(remark, _MAX_TEXT) for remark in page.remarks)]:
        yield "\n".join(f"- {each}" for each in told)


def _overview(ranked: Sequence[_Item], kind: str) -> str:
    """Return the table with a row for each item: in no list it is the first to be cut."""
    rows = [
        (it.names, it.versions, _hazards(it.found), inline(it.found.count(), _MAX_TEXT), _SAYS[_decision(it.found)])
        for it in ranked
    ]
    return markdown_table((kind, "Flux", "what can break", "changes", "the policy"), rows)


def _versions(review: FileReview) -> str:
    old, new = (str(it.version or "?") if it else "" for it in (review.old, review.new))
    if not (old and new):
        return f"{new}, added" if new else f"{old}, removed"
    return old if old == new else f"{old} to {new}"


def _hazards(found: Findings) -> str:
    numbers = {mark: sum(it.certainty is certainty for it in found.hazards) for certainty, mark in _MARKS.items()}
    return ", ".join(f"{number} {mark}" for mark, number in numbers.items() if number)


def _decision(found: Findings) -> Decision:
    return decide(found.gates) if found.gates else Decision.AUTO


def _breaks(item: _Item, rows: int) -> Iterator[Block]:
    found = item.found
    yield from map(Bullet, item.remarks)
    yield from hazard_blocks(found, Detail.page(rows))
    yield from pruned_blocks(found, Detail.page(rows))
    # Gates on single hazards and changes are told with those.
    stops = [it for it in found.ranked_gates() if it.decision is not Decision.AUTO and not found.lists(it)]
    if stops:
        yield Titled(f"The policy {_SAYS[_decision(found)]}", cut([Bullet(it.reason) for it in stops], rows, "reason"))


def _changes(item: _Item, rows: int) -> Iterator[Block]:
    yield item.facts
    yield from change_blocks(item.found, Detail.page(rows))


def _diffs(item: _Item, rows: int) -> Iterator[Block]:
    yield from file_blocks(item.found, Detail.page(rows))
    yield from (Titled(title, (Quoted(text, _MAX_DIFF),), folded=True) for title, text in item.edits)


def _origins(review: FileReview) -> Table:
    """Return the table of how the file was made at both commits."""
    sides = [(name, it) for name, it in (("base", review.old), ("head", review.new)) if it]
    facts = (
        ("Flux", [Code(str(it.version)) if it.version else "?" for _, it in sides]),
        ("options", [_options(it.options) for _, it in sides]),
        ("images", [f"{it.pins} pinned to digests" if it.pins else "by tag" for _, it in sides]),
        ("written by", [f"{it.by}{f': {it.detail}' if it.detail else ''}" for _, it in sides]),
    )
    return Table(("", *(name for name, _ in sides)), tuple((fact, *cells) for fact, cells in facts))


def _options(options: Options | None) -> str:
    if options is None:
        return "?"
    return Command(" ".join(options.to_arguments())) or "Flux's own"


def _paths(paths: Sequence[str], most: int) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(code(one_line(path, _MAX_PATH)) for path in paths[:most]) + more
