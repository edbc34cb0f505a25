"""The steps of a plan in their order, each rendered to the byte before anything is done."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.flows.planning.plan import Planned, passed_over
from ci_automation.flows.planning.step import ImageMissing, Wanted, apart, render_automatic, render_step, wanted_content
from ci_automation.flows.rendering import FlagsNotRendered
from ci_automation.flux.bundle import ComponentMissing
from ci_automation.flux.options import Options, UnknownFlag
from ci_automation.flux.text import TemplateMismatch
from ci_automation.policy.decision import Decision, is_held
from ci_automation.policy.plan import PassedOver, Plan
from ci_automation.signing.upstream import UpstreamUnsigned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ci_automation.flows.observe import Placed
    from ci_automation.flows.planning.base import Base
    from ci_automation.flows.planning.step import Rendered
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.release import Release
    from ci_automation.policy.gates import Candidate, Selection

_CANNOT_BE_MADE = (ComponentMissing, TemplateMismatch, UnknownFlag, FlagsNotRendered, UpstreamUnsigned, ImageMissing)


class Found(Struct, frozen=True):
    """Input of a plan: the channel, the releases that there are, and those to go to."""

    observed: Placed
    selection: Selection
    releases: tuple[Release, ...]


def plan_steps(base: Base, found: Found, ports: Ports, intent: Intent) -> Planned:
    """Return the plan: what happens by itself first, then a change of content, then what is asked for on top of it.

    If the content is apart, versions are asked for beside it instead: they carry the content that the channel has.

    Raises:
        UnknownFlag: a new flag is asked for, which no release of the plan has.
    """
    start, intent = base, apart(found.observed.record, intent)
    unmade: list[PassedOver] = []
    unknown: list[UnknownFlag] = []
    first = _largest_by_itself(base, found, ports, intent)
    rendered = [first] if first else []
    base = first.after if first else base
    blocked: list[Rendered] = []
    for wanted in _sequence(base, found.selection, intent, begun=first is not None):
        try:
            step = _rendered(base, wanted(base), found, ports, intent)
        except _CANNOT_BE_MADE as error:
            unmade.append(PassedOver(wanted(base).version, Decision.REFUSED, (str(error),)))
            unknown += [error] if isinstance(error, UnknownFlag) else []
            continue
        if step.step.target == step.step.base:  # the edits were dropped by the step before
            continue
        aside = intent.content_apart and step.step.kind == "content" and step.step.decision is not Decision.AUTO
        if aside or step.step.decision.is_actionable:
            rendered.append(step)
            base = base if aside else step.after
        else:
            blocked.append(step)
    _check_flags(unknown, (start.options, *(item.step.options for item in (*rendered, *blocked))))
    # Of those that lead on from the last step the nearest is shown as a step, with all that is known of it.
    if nearest := next((item for item in blocked if item.step.base == base.digest), None):
        rendered.append(nearest)
        blocked.remove(nearest)
    left = [item.step for item in blocked]
    unmade += [PassedOver(it.new_version, it.decision, it.reasons, is_held(it.gates)) for it in left]
    return _planned(start, found, rendered, unmade)


def _planned(base: Base, found: Found, rendered: Sequence[Rendered], unmade: Sequence[PassedOver]) -> Planned:
    """Return the plan with these steps, and with what the policy passed over or cannot be made."""
    observed = found.observed
    over = sorted((*passed_over(found.selection), *unmade), key=lambda passed: passed.version)
    steps = tuple(it.step for it in rendered)
    plan = Plan(observed.channel, base.version, base.digest, steps, tuple(over), observed.last)
    refused = any(it.decision is Decision.REFUSED for it in unmade)
    return Planned(observed, plan, tuple(rendered), found.releases, refused)


def _check_flags(unknown: Sequence[UnknownFlag], options: Iterable[Options]) -> None:
    """Raise the first error about a flag that is asked for, and that no release of the plan has: it is a mistake."""
    having = {flag for each in options for flag, _ in each.others}
    for error in unknown:
        if error.flag not in having:
            raise error


def _largest_by_itself(base: Base, found: Found, ports: Ports, intent: Intent) -> Rendered | None:
    """Return the largest step that happens by itself, where that is more than the smallest that may.

    What it does to the content says so. If a minor has to wait for a person, the patches of the present one do not. If
    the content is apart, the smallest is tried here too: no content step may start from what a person has to approve.
    """
    automatic = [it for it in found.selection.steps if it.decision is Decision.AUTO]
    for candidate in reversed(automatic[0 if intent.content_apart else 1 :]):
        with suppress(*_CANNOT_BE_MADE):
            step = render_automatic(base, _as_it_is(base, candidate), ports, intent, found.releases)
            if step is not None:
                return step
    return None


def _rendered(base: Base, wanted: Wanted, found: Found, ports: Ports, intent: Intent) -> Rendered:
    """Return a step; content from Git is judged by its history, if GitHub can be asked."""
    git = ports.find_git() if intent.content_apart and wanted.version == base.version else None
    judge = partial(git.judge, found.observed, base, wanted, ports) if git else None
    return render_step(base, wanted, ports, intent, found.releases, judge)


def _sequence(base: Base, selection: Selection, intent: Intent, *, begun: bool) -> Iterator[Callable[[Base], Wanted]]:
    """Yield the steps to try, each told by the base that it will have; with one `begun` none happens before content."""
    content = wanted_content(base, intent)
    candidates = [it for it in selection.steps if it.release.version > base.version]
    if not (begun or intent.content_apart) and candidates and candidates[0].decision is Decision.AUTO:
        first = candidates.pop(0)
        yield lambda now: _as_it_is(now, first)
    if content.differs_from(base) or base.edited:
        yield lambda now: replace(content, version=now.version)
    for candidate in candidates:
        if intent.content_apart:
            yield partial(_as_it_is, candidate=candidate)
        else:
            wanted = replace(content, version=candidate.release.version)
            yield lambda _, wanted=wanted: wanted  # type: ignore[misc]  # mypy infers no lambda with a default


def _as_it_is(base: Base, candidate: Candidate) -> Wanted:
    return Wanted(candidate.release.version, base.options, base.overlay, base.pinned)
