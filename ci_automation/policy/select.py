"""Which releases to go to: at most one step of each kind, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.flux.version import Step
from ci_automation.policy.decision import Decision, Verdict, decide
from ci_automation.policy.gates import Situation, release_verdicts
from ci_automation.policy.model import MinorStep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.flux.release import Release


class Candidate(Struct, frozen=True):
    """A release that could follow the present one, and what the gates say of it."""

    release: Release
    step: Step
    verdicts: tuple[Verdict, ...]

    @property
    def decision(self) -> Decision:
        """Return the gravest verdict."""
        return decide(self.verdicts)


class Selection(Struct, frozen=True):
    """The releases to go to, one after the other, and those passed over, each with its reasons.

    All of `steps` can be done, if need be after approval, but for the last, which may wait. Of those that happen by
    themselves the largest is enough, where its content lets it: what it brings, the others need not bring before it.
    """

    steps: tuple[Candidate, ...]
    passed_over: tuple[Candidate, ...]


def select(situation: Situation, releases: Sequence[Release]) -> Selection:
    """Return the steps from the present version, and the newer releases that are not taken.

    A patch comes first; a minor is planned on top of it, and a major only where there is no minor. What could not be
    done now does not stand in the way of what could.
    """
    newer = [
        Candidate(release, step, release_verdicts(release, situation))
        for release in sorted(releases, key=lambda release: release.version)
        if (step := situation.step_to(release)) not in {Step.NONE, Step.DOWN}
    ]
    chosen = [
        picked
        for step in (Step.PATCH, Step.MINOR, Step.MAJOR)
        if (picked := _pick([candidate for candidate in newer if candidate.step is step], situation))
    ]
    steps = _in_order(chosen)
    return Selection(steps, tuple(_passed_over(newer, steps)))


def _passed_over(newer: list[Candidate], steps: tuple[Candidate, ...]) -> Iterator[Candidate]:
    """Yield what is newer than the step of its kind; of what could be done too, the newest that is in no step."""
    last_of = {candidate.step: candidate.release.version for candidate in steps}
    done = [candidate.release.version for candidate in steps if candidate.decision.is_actionable]
    newest_of = {candidate.step: candidate for candidate in newer}
    for candidate in newer:
        version = candidate.release.version
        is_in_step = candidate.decision.is_actionable and any(version < each for each in done)
        is_one_of_many = candidate.decision.is_actionable and candidate is not newest_of[candidate.step]
        if (candidate.step not in last_of or version > last_of[candidate.step]) and not (is_in_step or is_one_of_many):
            yield candidate


def _pick(candidates: list[Candidate], situation: Situation) -> Candidate | None:
    """Return the newest of one kind that can be done now, or else the newest that waits."""
    if situation.policy.minor_step is MinorStep.NEXT and candidates and candidates[0].step is not Step.PATCH:
        takeable = [candidate for candidate in candidates if candidate.decision is not Decision.REFUSED]
        series = min((candidate.release.version.minor for candidate in takeable), default=None)
        candidates = [candidate for candidate in takeable if candidate.release.version.minor == series]
    for wanted in (lambda decision: decision.is_actionable, lambda decision: decision is Decision.HOLD):
        if fitting := [candidate for candidate in candidates if wanted(candidate.decision)]:
            return fitting[-1]
    return None


def _in_order(chosen: list[Candidate]) -> tuple[Candidate, ...]:
    """Return the steps: those that happen by themselves, at most one to ask for, at the end at most one that waits."""
    actionable = [candidate for candidate in chosen if candidate.decision.is_actionable]
    held = [candidate for candidate in chosen if not candidate.decision.is_actionable]
    steps = [candidate for candidate in actionable if candidate.decision is Decision.AUTO]
    asked = [candidate for candidate in actionable if candidate.decision is Decision.APPROVAL]
    steps += [candidate for candidate in asked if not steps or candidate.release.version > steps[-1].release.version][
        :1
    ]
    if not steps or (held and held[0].release.version > steps[-1].release.version):
        steps += held[:1]
    return tuple(steps)
