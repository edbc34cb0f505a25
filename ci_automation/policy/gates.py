"""The gates on a release, and the choice of the next releases; each gate is one rule with one sentence."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.flux.release import Release
from ci_automation.flux.version import Bump, Version
from ci_automation.policy.decision import Decision, Hold, Offered, Verdict, decide, hold_verdict
from ci_automation.policy.model import Action, MinorStep, Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ci_automation.flux.advisories import Vulnerability

    _Gate = Callable[[Release, "Situation"], Verdict]

_LISTED = 5
_ACTIONS = {
    Action.AUTO: (Decision.AUTO, "is published without approval"),
    Action.APPROVAL: (Decision.APPROVAL, "needs approval"),
    Action.NEVER: (Decision.REFUSED, "is never published under this policy"),
}


class Situation(Struct, frozen=True):
    """The inputs of the gates besides the release: the present version, the policy, the time, and any holds."""

    current: Version
    policy: Policy
    now: datetime
    paused: bool = False
    holds: tuple[Hold, ...] = ()  # on what is there: what was rolled back
    fixes: Mapping[Version, tuple[Vulnerability, ...]] = {}  # what releases fix of the present version

    def bump_to(self, release: Release) -> Bump:
        """Return the kind of step that `release` would be."""
        return self.current.bump_to(release.version)


def release_verdicts(release: Release, situation: Situation) -> tuple[Verdict, ...]:
    """Return the verdicts of the gates on taking `release` now; without a new version only the time counts."""
    always = _always(situation)
    of_steps = (_usable, _direction, _prerelease, _range, _age, _hold)
    gates = always if situation.bump_to(release) is Bump.NONE else (*of_steps, *always)
    verdicts = tuple(gate(release, situation) for gate in gates)
    return (*verdicts, _security(fixes)) if (fixes := situation.fixes.get(release.version)) else verdicts


def _security(fixes: Sequence[Vulnerability]) -> Verdict:
    """Say what a release fixes; that lifts no gate."""
    more = f" and {len(fixes) - _LISTED} more" if len(fixes) > _LISTED else ""
    reason = f"fixes {', '.join(map(str, fixes[:_LISTED]))}{more}"
    return Verdict("security", Decision.AUTO, reason, "published advisories", allowed=True)


def version_verdicts(version: Version, situation: Situation) -> tuple[Verdict, ...]:
    """Return the verdicts of the gates on moving to `version` now, without its release and age."""
    release = Release(version, situation.now)
    always = _always(situation)
    gates = always if situation.bump_to(release) is Bump.NONE else (_direction, _prerelease, _range, *always)
    return tuple(gate(release, situation) for gate in gates)


def _always(situation: Situation) -> tuple[_Gate, ...]:
    """Return the gates that count for every step; most policies have no windows."""
    return (_kind, _freeze, *((_window,) if situation.policy.window else ()), _paused)


def _usable(release: Release, _: Situation) -> Verdict:
    """Refuse a release that exists but cannot be used: a draft, withdrawn, or without its bundle."""
    if problem := release.problem:
        return Verdict("release", Decision.REFUSED, f"{release.version} cannot be used: {problem}")
    return Verdict("release", Decision.AUTO, f"{release.version} is complete", "the release and its files")


def _direction(release: Release, situation: Situation) -> Verdict:
    """Refuse to go down: Flux's storage versions do not migrate back, and an old version has known holes."""
    step = f"{situation.current} -> {release.version}"
    if situation.bump_to(release) is Bump.DOWN:
        reason = f"{release.version} is older than the present {situation.current}"
        return Verdict("direction", Decision.REFUSED, reason, step)
    return Verdict("direction", Decision.AUTO, f"{release.version} is not older than {situation.current}", step)


def _prerelease(release: Release, situation: Situation) -> Verdict:
    policy = f"policy.prereleases: {str(situation.policy.prereleases).lower()}"
    if (release.prerelease or release.version.is_prerelease) and not situation.policy.prereleases:
        reason = f"{release.version} is a pre-release, and the policy excludes pre-releases"
        return Verdict("prereleases", Decision.REFUSED, reason, policy)
    return Verdict("prereleases", Decision.AUTO, f"{release.version} is not excluded as a pre-release", policy)


def _range(release: Release, situation: Situation) -> Verdict:
    allowed = situation.policy.range
    version = release.version
    # With pre-releases switched on, the range is asked about the release that they lead to: Masterminds' ranges leave
    # every pre-release out unless they name one themselves.
    if allowed.allows(version) or (situation.policy.prereleases and allowed.allows(version.release)):
        return Verdict("range", Decision.AUTO, f"{version} is in the range {allowed}", f"policy.range: {allowed}")
    reason = "; ".join((f"{version} is outside of the range {allowed}", *allowed.late_starts(version)))
    return Verdict("range", Decision.REFUSED, reason, f"policy.range: {allowed}")


def _kind(release: Release, situation: Situation) -> Verdict:
    """Let patches through, ask for minors, never take majors, or as the policy says for each kind."""
    bump = situation.bump_to(release)
    if bump in {Bump.NONE, Bump.DOWN}:
        return Verdict("kind", Decision.AUTO, "the version does not change")
    action = situation.policy.actions[bump]
    decision, word = _ACTIONS[action]
    return Verdict("kind", decision, f"a {bump} release {word}", f"policy.{bump}: {action}")


def _age(release: Release, situation: Situation) -> Verdict:
    """Hold a release until it is old enough for its bump.

    Young releases get superseded: each of 2.6.0, 2.7.0, 2.8.0 and 2.9.0 was, within seven days. The age counts from
    publication, never from when we first saw it, so that a stopped schedule does not shorten it. One that fixes a known
    vulnerability may wait less, if the policy says how long.
    """
    bump = situation.bump_to(release)
    key, needed = str(bump), situation.policy.min_release_age.get(bump, timedelta())
    less = situation.policy.security_age
    if less is not None and less < needed and situation.fixes.get(release.version):
        key, needed = "security", less
    wait_until = release.published_at + needed
    old = f"{release.version} is {_for_people(situation.now - release.published_at)} old"
    policy = f"policy.minReleaseAge.{key}: {_for_people(needed)}"
    if situation.now < wait_until:
        reason = f"{old}; {key} releases wait until {wait_until:%Y-%m-%d %H:%M} UTC"
        return Verdict("age", Decision.WAIT, reason, policy)
    return Verdict("age", Decision.AUTO, old, policy)


def _hold(release: Release, situation: Situation) -> Verdict:
    """Wait with the release that the channel was rolled back from, and with older ones."""
    return hold_verdict(situation.holds, Offered(release.version, release.published_at), situation.now)


def _freeze(_: Release, situation: Situation) -> Verdict:
    freezes = situation.policy.freeze
    for freeze in freezes:
        if until := freeze.active(situation.now):
            reason = f"changes are frozen until {until:%Y-%m-%d %H:%M} UTC"
            reason += f": {freeze.reason}" if freeze.reason else ""
            return Verdict("freeze", Decision.WAIT, reason, f"policy.freeze: {freeze.cron}")
    return Verdict("freeze", Decision.AUTO, "no freeze is active", f"policy.freeze: {len(freezes)} in the policy")


def _window(_: Release, situation: Situation) -> Verdict:
    """Wait for the next window; a freeze or a pause counts in a window too."""
    windows = situation.policy.window
    for window in windows:
        if until := window.active(situation.now):
            reason = f"a window is open until {until:%Y-%m-%d %H:%M} UTC"
            return Verdict("window", Decision.AUTO, reason, f"policy.window: {window.cron}")
    opens, cron = min((window.opens(situation.now), window.cron) for window in windows)
    reason = f"no window is open; the next one opens at {opens:%Y-%m-%d %H:%M} UTC"
    return Verdict("window", Decision.WAIT, reason, f"policy.window: {cron}")


def _paused(_: Release, situation: Situation) -> Verdict:
    if situation.paused:
        return Verdict("paused", Decision.WAIT, "the artifact is paused in the configuration", "paused: true")
    return Verdict("paused", Decision.AUTO, "the artifact is not paused", "paused: false")


def _for_people(age: timedelta) -> str:
    """Return an age in its largest unit that is not zero."""
    if age.days:
        return f"{age.days} day{'s' if age.days != 1 else ''}"
    hours = age // timedelta(hours=1)
    return f"{hours} hour{'s' if hours != 1 else ''}"


class Candidate(Struct, frozen=True):
    """A release that could follow the present one, and its verdicts."""

    release: Release
    bump: Bump
    verdicts: tuple[Verdict, ...]

    @property
    def decision(self) -> Decision:
        """Return the strictest verdict."""
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
        Candidate(release, bump, release_verdicts(release, situation))
        for release in sorted(releases, key=lambda release: release.version)
        if (bump := situation.bump_to(release)) not in {Bump.NONE, Bump.DOWN}
    ]
    chosen = [
        picked
        for bump in (Bump.PATCH, Bump.MINOR, Bump.MAJOR)
        if (picked := _pick([candidate for candidate in newer if candidate.bump is bump], situation))
    ]
    steps = _in_order(chosen)
    return Selection(steps, tuple(_passed_over(newer, steps)))


def _passed_over(newer: list[Candidate], steps: tuple[Candidate, ...]) -> Iterator[Candidate]:
    """Yield what is newer than the step of its kind; of what could be done too, the newest that is in no step."""
    last_of = {candidate.bump: candidate.release.version for candidate in steps}
    done = [candidate.release.version for candidate in steps if candidate.decision.is_actionable]
    newest_of = {candidate.bump: candidate for candidate in newer}
    for candidate in newer:
        version = candidate.release.version
        is_in_step = candidate.decision.is_actionable and any(version < each for each in done)
        is_one_of_many = candidate.decision.is_actionable and candidate is not newest_of[candidate.bump]
        if (candidate.bump not in last_of or version > last_of[candidate.bump]) and not (is_in_step or is_one_of_many):
            yield candidate


def _pick(candidates: list[Candidate], situation: Situation) -> Candidate | None:
    """Return the newest of one kind that can be done now, or else the newest that waits."""
    if situation.policy.minor_step is MinorStep.NEXT and candidates and candidates[0].bump is not Bump.PATCH:
        takeable = [candidate for candidate in candidates if candidate.decision is not Decision.REFUSED]
        series = min((candidate.release.version.minor for candidate in takeable), default=None)
        candidates = [candidate for candidate in takeable if candidate.release.version.minor == series]
    for wanted in (lambda decision: decision.is_actionable, lambda decision: decision is Decision.WAIT):
        if fitting := [candidate for candidate in candidates if wanted(candidate.decision)]:
            return fitting[-1]
    return None


def _in_order(chosen: list[Candidate]) -> tuple[Candidate, ...]:
    """Return the steps: those that happen by themselves, at most one to ask for, at the end at most one that waits."""
    actionable = [candidate for candidate in chosen if candidate.decision.is_actionable]
    held = [candidate for candidate in chosen if not candidate.decision.is_actionable]
    steps = [candidate for candidate in actionable if candidate.decision is Decision.AUTO]
    asked = [candidate for candidate in actionable if candidate.decision is Decision.APPROVAL]
    above = [candidate for candidate in asked if not steps or candidate.release.version > steps[-1].release.version]
    steps += above[:1]
    if not steps or (held and held[0].release.version > steps[-1].release.version):
        steps += held[:1]
    return tuple(steps)
