"""The pull request that asks for an approval: its title, and the page that a person decides on.

Both are made of the step and its release notes alone and know no time, so that what was asked already is found to be
the same. The page's
last line is for this program: it says what the page asks for, and whether that was brought to an end.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from ci_automation.artifact.digest import Digest
from ci_automation.flux.artifact import called
from ci_automation.flux.proof import Proof
from ci_automation.impact.hazard import Certainty
from ci_automation.report.changes import unknown_flags
from ci_automation.report.changes_markdown import gates_markdown, markdown_sections
from ci_automation.report.findings import Findings
from ci_automation.report.markdown import code, folded, inline, markdown_table, one_line
from ci_automation.report.notes import notes_markdown, telling_markdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_automation.artifact.reference import Reference
    from ci_automation.flux.version import Version
    from ci_automation.policy.plan import PlannedStep
    from ci_automation.report.notes import ReleaseNotes

MAX_BODY = 60_000  # GitHub takes 65,536 characters
_MAX_NOTES, _MAX_TELLING = 12_000, 4_000
_MAX_MARK = 200
_ROWS = (40, 10, 3)  # of each table and list; fewer where they are so long that the page would be too large
_MAX_REASON = 300
_MARK = re.compile(
    r"<!-- flux-manifests (?P<state>[a-z]+) (?P<base>sha256:[0-9a-f]{64}) (?P<target>sha256:[0-9a-f]{64}) -->\s*\Z"
)
_PROOFS = {
    Proof.KNOWN: "this version of the program was tested with exactly this release",
    Proof.CALIBRATED: "it equals Flux's own signed rendering, byte for byte",
    Proof.DELEGATED: "the release's own flux CLI rendered it",
    Proof.NONE: "**none**; a person allowed it explicitly",
}


class MarkState(enum.StrEnum):
    """Progress of a request."""

    OPENED = "opened"  # those who shall answer were not all told
    ASKED = "asked"
    WITHDRAWN = "withdrawn"  # by this program, not by a person


class Mark(Struct, frozen=True):
    """The request of a page, in its last line. People can edit that line: no approval depends on it."""

    base: Digest
    target: Digest
    state: MarkState = MarkState.ASKED

    @classmethod
    def find(cls, body: str) -> Self | None:
        """Return the mark at the end of a page, or None where there is none."""
        found = _MARK.search(body)
        if not found or found["state"] not in set(MarkState):
            return None
        return cls(Digest.parse(found["base"]), Digest.parse(found["target"]), MarkState(found["state"]))

    def put(self, body: str) -> str:
        """Return a page with this mark at its end, instead of the one that it had."""
        return f"{_MARK.sub('', body).rstrip()}\n\n{self}\n"

    def __str__(self) -> str:
        return f"<!-- flux-manifests {self.state} {self.base} {self.target} -->"


class Page(Struct, frozen=True):
    """The page of a request: the artifact, the step, and the conditions for an approval to count."""

    name: str
    channel: Reference
    step: PlannedStep
    notes: tuple[ReleaseNotes, ...] = ()
    approvals: int = 0
    team: str | None = None

    @property
    def title(self) -> str:
        """Return the title, one plain line."""
        step = self.step
        what = "changed content" if step.kind == "content" else f"{step.kind}, from {step.old_version}"
        what = f"promotion, {what}" if step.promoted_from else what
        return one_line(f"{called(step.new_version)} for {self.name} ({what})")

    @property
    def body(self) -> str:
        """Return the page, at most `MAX_BODY` characters of GitHub's Markdown."""
        pages = (self._page(rows) for rows in _ROWS)
        page = next(page for page in pages if len(page) <= MAX_BODY - _MAX_MARK)
        return Mark(self.step.base, self.step.target).put(page)

    def _page(self, rows: int) -> str:
        parts = (*self._question(rows), *_changes(self.step, rows), *self._telling(), *self._answers(), self._notes())
        return "\n\n".join(part for part in parts if part)

    def _question(self, rows: int) -> tuple[str, ...]:
        step = self.step
        channel = code(one_line(str(self.channel), _MAX_REASON))
        approved = f"Merging this pull request approves **{called(step.new_version)}** for {channel}"
        digests = [
            ("now", str(step.old_version), code(str(step.base))),
            ("after the merge", f"**{step.new_version}**", code(str(step.target))),
        ]
        return (
            f"{approved}: exactly the digests below, once.",
            markdown_table(("", "version", "digest"), digests),
            "### Why this needs approval",
            _listed(_inline(step.reasons, rows, _MAX_REASON)),
        )

    def _answers(self) -> tuple[str, ...]:
        version = self.step.new_version
        people = "people who may write to this repository"
        people += f" and are in the team {code(self.team)}" if self.team else ""
        reviews = f"{self.approvals} approving review{'s' if self.approvals > 1 else ''} of its last commit"
        how = f"renders {version} again, compares both digests, and signs and publishes exactly this target, or nothing"
        newer = "release"
        if source := _source(self.step):
            how = f"checks every gate again, and promotes exactly this target from {source}, or nothing"
            newer = f"digest of {source}"
        answers = (
            f"**To approve**, merge it. The next run {how}.",
            "**To decline**, close it. No run asks for the same digest again while its branch exists.",
            f"**To decide later**, leave it open. A newer {newer} replaces it here.",
        )
        counts = (
            f"Only {people} can approve: the person who merges{f', after {reviews}' if self.approvals else ''}; if "
            "GitHub merges by itself, the people who approved the last commit in a review. Runs do not overwrite your "
            "commits on this branch, but this pull request approves only the digests above."
        )
        return (
            "### What to check",
            _listed(_checks(self.step, notes=bool(self._notes()))),
            "### How to answer",
            _listed(answers),
            counts,
        )

    def _telling(self) -> tuple[str, ...]:
        telling = telling_markdown(self.notes, _MAX_TELLING)
        return ("### Breaking changes in the release notes", telling) if telling else ()

    def _notes(self) -> str:
        which = f"{self.notes[-1].version} to {self.notes[0].version}" if len(self.notes) > 1 else self.step.new_version
        return folded(f"Upstream's release notes of {which}", notes_markdown(self.notes, _MAX_NOTES))


def superseded(old: Mark, new: Mark, version: Version) -> str:
    """Return the comment that says what is asked for now, and that no earlier approval counts for it."""
    return (
        f"Superseded: this pull request now asks for {version}, {code(str(new.target))}, "
        f"instead of {code(str(old.target))}. Approvals of the old digest do not count for it.\n\n{new}\n"
    )


def withdrawn(mark: Mark, reason: str) -> str:
    """Return the comment with which a request is closed."""
    return f"Withdrawn: {inline(reason, 2 * _MAX_REASON)}.\n\n{mark}\n"


def _changes(step: PlannedStep, rows: int) -> Iterator[str]:
    found = Findings.of(step)
    for title, text in markdown_sections(found, rows):
        yield f"### {title}"
        yield text
    if source := _source(step):
        yield f"The target is the digest that {source} has now; nothing is rendered, and no artifact is signed again."
    else:
        yield f"Proof of the rendering: {_PROOFS[step.proof]}{unknown_flags(step)}."
    yield folded("Verdict of each gate", gates_markdown(found, rows))


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


def _inline(texts: Sequence[str], rows: int, limit: int) -> list[str]:
    more = [f"and {len(texts) - rows} more"] if len(texts) > rows else []
    return [inline(text, limit) for text in texts[:rows]] + more


def _listed(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
