"""The pull request that asks for an approval: its title, and the page that a person decides on.

Both are made of the step and its release notes alone and know no time, so that what was asked already is found to be
the same. The page's last lines are marks for this program: see `markdown`.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.flux.artifact import called
from ci_automation.flux.proof import Proof
from ci_automation.impact.change import Certainty, hazard_names
from ci_automation.report.blocks import Bullet, Detail, cut, shortened
from ci_automation.report.changes import hazards_in_brief, sections
from ci_automation.report.details import verdicts
from ci_automation.report.findings import Findings
from ci_automation.report.markdown import (
    Mark,
    code,
    folded,
    inline,
    markdown_table,
    one_line,
    place_digest,
    put_marks,
    to_markdown,
)
from ci_automation.report.notes import ReleaseNotes, notes_markdown, telling_markdown
from ci_automation.report.text import rendering_proof

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ci_automation.artifact.reference import Reference
    from ci_automation.policy.plan import PlannedStep

MAX_BODY = 60_000  # GitHub takes 65,536 characters
_MAX_NOTES, _MAX_TELLING = 12_000, 4_000
_ROWS = (40, 10, 3)  # of each table and list; fewer where they are so long that the page would be too large
_FEWER = (1, 0)  # on the page of a group
_MAX_REASON, _BRIEF = 300, 100
_ROOM = 10  # beside a mark: the end of its line, and a longer state
_FILES = (
    "*Files changed* has `.github/flux-manifests.lock.yaml` alone: a merge takes along everything else on this branch."
)
_TOO_LONG = "The changes are too many to show them here: the plan of the run has all of them."


class Page(Struct, frozen=True):
    """The page of a request: the artifact, the step, and the conditions for an approval to count."""

    name: str
    channel: Reference
    step: PlannedStep
    notes: tuple[ReleaseNotes, ...] = ()
    approvals: int = 0
    team: str | None = None
    before: str = ""  # a request for the same digests that was merged, and did not show all that is known now
    rules: str = ""  # the name of the rules under which it approves content

    @property
    def title(self) -> str:
        """Return the title, one plain line."""
        step = self.step
        what = "changed content" if step.kind == "content" else f"{step.kind}, from {step.old_version}"
        what = f"promotion, {what}" if step.promoted_from else what
        return one_line(f"{called(step.new_version)} for {self.name} ({what})")

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Return what the page asks for."""
        step = self.step
        shown = hazard_names(step.hazards) | ({self.rules} if self.rules else frozenset())
        return (Mark(step.base, step.target, place_digest(self.channel), shown=shown),)

    @property
    def steps(self) -> tuple[str, ...]:
        """Return what each mark is about, in a few words."""
        return (str(self.step.new_version),)

    @property
    def body(self) -> str:
        """Return the page, at most `MAX_BODY` characters of GitHub's Markdown."""
        return put_marks(_longest(self._page, self.marks), self.marks)

    def _page(self, rows: int) -> str:
        step = self.step
        approved = f"Merging this pull request approves **{called(step.new_version)}** for {self._place}"
        digests = [
            ("now", str(step.old_version), code(str(step.base))),
            ("after the merge", f"**{step.new_version}**", code(str(step.target))),
        ]
        version = step.new_version
        how = f"renders {version} again, compares both digests, and signs and publishes exactly this target, or nothing"
        newer = "release"
        if source := _source(step):
            how = f"checks every gate again, and promotes exactly this target from {source}, or nothing"
            newer = f"digest of {source}"
        answers = (
            f"**To approve**, merge it. The next run {how}.",
            "**To decline**, close it. No run asks for the same digest again while its branch exists.",
            f"**To decide later**, leave it open. A newer {newer} replaces it here.",
        )
        parts = (
            f"{approved}: exactly the digests below, once.",
            markdown_table(("", "version", "digest"), digests),
            *self._found(rows),
            *self.telling(),
            "### What to check",
            self._checks(_FILES),
            "### How to answer",
            _listed(answers),
            self._who,
            self.said(),
        )
        return _joined(parts)

    def section(self, rows: int) -> str:
        """Return what the page of a group shows of this artifact at a click: without rows why, and what can break."""
        step = self.step
        title = html.escape(one_line(f"{self.name}: {step.old_version} to {step.new_version}"))
        breaks = to_markdown(hazards_in_brief(Findings.of(step), _ROWS[-1], _BRIEF))
        why = (*self._why(_ROWS[-1], _BRIEF), *(("### What can break", breaks) if breaks else ()), _TOO_LONG)
        shown = (*self._found(rows), "### What to check", self._checks()) if rows else why
        return folded(title, _joined((*shown, self._who)))

    def row(self) -> tuple[str, ...]:
        """Return the row of this artifact in the table of a group."""
        step = self.step
        versions = f"{step.old_version} → **{step.new_version}**"
        return inline(self.name, _MAX_REASON), self._place, versions, code(str(step.base)), code(str(step.target))

    @property
    def _place(self) -> str:
        return code(one_line(str(self.channel), _MAX_REASON))

    def _why(self, rows: int, limit: int = _MAX_REASON) -> tuple[str, ...]:
        reasons = (self.before, *self.step.reasons) if self.before else self.step.reasons
        return "### Why this needs approval", to_markdown(cut([Bullet(shortened(it, limit)) for it in reasons], rows))

    def _found(self, rows: int) -> tuple[str, ...]:
        return *self._why(rows), *_changes(self.step, rows)

    def _checks(self, *first: str) -> str:
        return _listed((*first, *_checks(self.step, notes=bool(self.said()))))

    @property
    def _who(self) -> str:
        """Return whose answer counts."""
        people = "people who may write to this repository"
        people += f" and are in the team {code(self.team)}" if self.team else ""
        reviews = f"{self.approvals} approving review{'s' if self.approvals > 1 else ''} of its last commit"
        return (
            f"Only {people} can approve: the person who merges{f', after {reviews}' if self.approvals else ''}; if "
            "GitHub merges by itself, the people who approved the last commit in a review. Runs do not overwrite your "
            "commits on this branch, but this pull request approves only the digests above."
        )

    def telling(self) -> tuple[str, ...]:
        """Return what upstream calls breaking."""
        telling = telling_markdown(self.notes, _MAX_TELLING)
        return ("### Breaking changes in the release notes", telling) if telling else ()

    def said(self) -> str:
        """Return upstream's release notes, at a click."""
        which = f"{self.notes[-1].version} to {self.notes[0].version}" if len(self.notes) > 1 else self.step.new_version
        return folded(f"Upstream's release notes of {which}", notes_markdown(self.notes, _MAX_NOTES))


class GroupPage(Struct, frozen=True):
    """The page of a request for several artifacts."""

    name: str  # of the group
    pages: tuple[Page, ...]

    @property
    def title(self) -> str:
        """Return the title, one plain line."""
        versions = ", ".join(dict.fromkeys(called(page.step.new_version) for page in self.pages))
        return one_line(f"{versions} for {self.name} ({', '.join(page.name for page in self.pages)})")

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Return what the page asks for, for each artifact."""
        return tuple(mark for page in self.pages for mark in page.marks)

    @property
    def steps(self) -> tuple[str, ...]:
        """Return what each mark is about, in a few words."""
        return tuple(f"{page.step.new_version} for {inline(page.name)}" for page in self.pages)

    @property
    def body(self) -> str:
        """Return the page, at most `MAX_BODY` characters of GitHub's Markdown."""
        return put_marks(_longest(self._page, self.marks, _FEWER), self.marks)

    def is_part_of(self, body: str) -> bool:
        """Return whether a page for more artifacts shows the same of these."""
        text = body.replace("\r\n", "\n")
        return any(all(page.section(rows) in text for page in self.pages) for rows in (*_ROWS, *_FEWER))

    def _page(self, rows: int) -> str:
        how = (
            "renders each release again, compares both digests, and signs and publishes exactly its target, or nothing"
        )
        answers = (
            f"**To approve**, merge it. The next run {how}. If one artifact fails, it publishes the others.",
            "**To decline**, close it. No run asks for the same digests again while its branch exists.",
            "**To decide later**, leave it open. A newer release for one of the artifacts renews it here.",
        )
        approved = f"Merging this pull request approves a step of each artifact below, of the group {code(self.name)}"
        head = ("artifact", "channel", "version", "digest now", "digest after the merge")
        pages = self.pages if rows else ()
        said = {page.notes: page for page in pages}.values()  # once for all artifacts that take the same step
        return _joined(
            (
                f"{approved}: exactly the digests in its row, once.",
                markdown_table(head, [page.row() for page in self.pages]),
                *(page.section(rows) for page in self.pages),
                *(part for page in said for part in page.telling()),
                "### What to check",
                _listed((_FILES,)),
                "### How to answer",
                _listed(answers),
                *(page.said() for page in said),
            )
        )


def _longest(page: Callable[[int], str], marks: Sequence[Mark], few: Sequence[int] = ()) -> str:
    """Return the page with the most rows that GitHub takes, with room for its marks."""
    most = MAX_BODY - sum(len(str(mark)) + _ROOM for mark in marks)
    return next(text for rows in (*_ROWS, *few) if len(text := page(rows)) <= most)


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _changes(step: PlannedStep, rows: int) -> Iterator[str]:
    found, detail = Findings.of(step), Detail.page(rows)
    yield to_markdown(sections(found, detail), "### {}")
    if source := _source(step):
        yield f"The target is the digest that {source} has now; nothing is rendered, and no artifact is signed again."
    else:
        proof = f"**{rendering_proof(step)}**" if step.proof is Proof.NONE else rendering_proof(step)
        yield f"Proof of the rendering: {proof}."
    yield to_markdown(verdicts(found, detail))


def _source(step: PlannedStep) -> str:
    """Return the channel that a step promotes from, as code; empty if it renders."""
    return code(one_line(step.promoted_from, _MAX_REASON)) if step.promoted_from else ""


def _checks(step: PlannedStep, *, notes: bool) -> list[str]:
    checks = []
    if step.removed:
        checks.append("Nothing in use is gone: to prune a CRD deletes every object of its kind.")
    if step.kind in {"minor", "major"}:
        checks.append(
            f"No manifest of yours needs an API version that Flux {step.new_version} does not serve any more, and none "
            "is stored in such a version in a cluster."
        )
    if any(hazard.certainty in {Certainty.CERTAIN, Certainty.POSSIBLE} for hazard in step.hazards):
        checks.append("Everything under *What can break* is fixed in every cluster, or affects none.")
    checks.append("You expect the reasons above.")
    if notes:
        checks.append("The release notes below ask for nothing that you still have to do.")
    return checks


def _listed(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
