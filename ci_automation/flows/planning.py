"""Making a plan: which steps an artifact takes, each rendered to the byte before anything is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.flows.base import Base, read_base
from ci_automation.flows.files import beside_components
from ci_automation.flows.publication.adopt import observe_or_adopt
from ci_automation.flows.publication.settle import refuse_moved_back
from ci_automation.flows.rendering.proof import rendering
from ci_automation.flows.rendering.upstream import fetch
from ci_automation.flux.artifact import Composed, Recipe, compose
from ci_automation.flux.bundle import ComponentMissing
from ci_automation.flux.inventory import images, inventory
from ci_automation.flux.text import TemplateMismatch
from ci_automation.policy.content import Content, content_verdicts
from ci_automation.policy.decision import Decision, decide, reasons
from ci_automation.policy.gates import Situation, release_verdicts
from ci_automation.policy.plan import ImageChange, PassedOver, Plan, PlannedStep
from ci_automation.policy.select import Selection, select
from ci_automation.signing.upstream import UpstreamUnsigned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_automation.artifact.reference import Reference
    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.observe import Observed
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flows.rendering.proof import Rendering
    from ci_automation.flux.options import Options
    from ci_automation.flux.release import FetchedRelease
    from ci_automation.flux.version import Version


@dataclass(frozen=True, slots=True)
class Rendered:
    """A planned step with what would be published."""

    step: PlannedStep
    composed: Composed
    after: Base
    release: FetchedRelease


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, what it was made on, and the rendered artifacts of its steps, in order."""

    observed: Observed
    plan: Plan
    rendered: tuple[Rendered, ...]


def make_plan(channel: Reference, ports: Ports, intent: Intent) -> Planned:
    """Return the plan for `channel`; nothing is written anywhere.

    Where nothing newer may be taken and nothing else is asked for, its manifest and signature are all that is read.
    """
    observed = observe_or_adopt(channel, ports, intent)
    base = None
    if observed.version is None or _asks_for_content(intent):
        base = read_base(observed, ports, intent)
    current = base.version if base else observed.version
    assert current is not None  # noqa: S101  # for the type checker: one of the two has it
    ports.say("looking for newer releases")
    releases = ports.releases.list(current)
    selection = select(_situation(current, intent), releases)
    if not selection.steps and not _asks_for_content(intent):
        return Planned(observed, Plan(channel, current, observed.digest, (), _passed_over(selection)), ())
    base = base or read_base(observed, ports, intent)
    refuse_moved_back(observed, base.version, ports, intent)
    return _plan_from(base, observed, selection, ports, intent)


def _asks_for_content(intent: Intent) -> bool:
    return bool(intent.flags) or intent.overlay is not None or intent.accept_edits


def _situation(current: Version, intent: Intent) -> Situation:
    return Situation(current, intent.policy, intent.now, paused=intent.paused)


def _plan_from(base: Base, observed: Observed, selection: Selection, ports: Ports, intent: Intent) -> Planned:
    """Return the plan: what happens by itself first, then a change of content, then what is asked for on top of it."""
    start = base
    passed_over = list(_passed_over(selection))
    rendered: list[Rendered] = []
    blocked: list[Rendered] = []
    for wanted in _sequence(base, selection, intent):
        try:
            step = render_step(base, wanted(base), ports, intent)
        except (ComponentMissing, TemplateMismatch, UpstreamUnsigned) as error:
            passed_over.append(PassedOver(wanted(base).version, Decision.REFUSED, (str(error),)))
            continue
        if step.step.target == step.step.base:  # the edits were dropped by the step before
            continue
        if step.step.decision.is_actionable:
            rendered.append(step)
            base = step.after
        else:
            blocked.append(step)
    if blocked and blocked[-1].step.base == base.digest:
        rendered.append(blocked.pop())
    passed_over += [PassedOver(item.step.new_version, item.step.decision, item.step.reasons) for item in blocked]
    steps = tuple(item.step for item in rendered)
    plan = Plan(observed.channel, start.version, start.digest, steps, tuple(passed_over))
    return Planned(observed, plan, tuple(rendered))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one step shall lead to."""

    version: Version
    options: Options
    overlay: Tree


def _sequence(base: Base, selection: Selection, intent: Intent) -> Iterator[Callable[[Base], Wanted]]:
    """Yield the steps to try, each told by the base that it will have."""
    options = base.options.with_flags(intent.flags)
    overlay = base.overlay if intent.overlay is None else beside_components(intent.overlay, base.path)
    candidates = list(selection.steps)
    if candidates and candidates[0].decision is Decision.AUTO:
        first = candidates.pop(0)
        yield lambda now: Wanted(first.release.version, now.options, now.overlay)
    if options != base.options or overlay.digest() != base.overlay.digest() or base.edited:
        yield lambda now: Wanted(now.version, options, overlay)
    for candidate in candidates:
        wanted = Wanted(candidate.release.version, options, overlay)
        yield lambda _, wanted=wanted: wanted  # type: ignore[misc]  # mypy infers no lambda with a default


def render_step(base: Base, wanted: Wanted, ports: Ports, intent: Intent) -> Rendered:
    """Return the step from `base` to what is wanted, rendered to the byte, with the decision of all gates.

    Raises:
        ComponentMissing: the release lacks a component that the options name.
        TemplateMismatch: the release can be rendered neither by us nor by its own flux CLI.
    """
    ports.say(f"rendering {wanted.version}")
    release = fetch(wanted.version, ports)
    made = rendering(release, wanted.options, ports)
    composed = compose(
        Recipe(
            version=wanted.version,
            commit=release.commit,
            release=release.bundle.digest,
            options=wanted.options,
            components=made.text,
            overlay=wanted.overlay,
            path=base.path,
        )
    )
    old, new = inventory(base.components), inventory(made.text)
    content = _content(base, wanted, made, removed=tuple(sorted(old - new)), intent=intent)
    situation = _situation(base.version, intent)
    verdicts = (*release_verdicts(release.release, situation), *content_verdicts(content, situation))
    step = PlannedStep(
        old_version=base.version,
        new_version=wanted.version,
        base=base.digest,
        target=composed.digest,
        decision=decide(verdicts),
        reasons=reasons(verdicts),
        options=wanted.options,
        overlay=wanted.overlay.digest(),
        release=release.bundle.digest,
        proof=made.proof,
        images=_changed_images(base.components, made.text),
        added=tuple(sorted(new - old)),
        removed=content.removed,
        gates=verdicts,
    )
    after = Base(composed.digest, wanted.version, wanted.options, wanted.overlay, base.path, made.text)
    return Rendered(step, composed, after, release)


def _content(base: Base, wanted: Wanted, made: Rendering, *, removed: tuple[str, ...], intent: Intent) -> Content:
    """Return what the gates judge of a step besides its release."""
    return Content(
        removed=removed,
        removal_allowed=intent.allow_removal,
        options_changed=_changed_flags(base.options, wanted.options),
        overlay_changed=_changed_files(base.overlay, wanted.overlay),
        edits_dropped=base.edited,
        proof=made.proof,
        proof_detail=made.detail,
        unproven_allowed=intent.unsafe_unproven_rendering,
    )


def _passed_over(selection: Selection) -> tuple[PassedOver, ...]:
    return tuple(PassedOver(it.release.version, it.decision, reasons(it.verdicts)) for it in selection.passed_over)


def _changed_images(old: str, new: str) -> tuple[ImageChange, ...]:
    before, after = images(old), images(new)
    return tuple(
        ImageChange(name, before.get(name, ""), after.get(name, ""))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )


def _changed_flags(old: Options, new: Options) -> tuple[str, ...]:
    """Return each flag that changes, with its value before and after."""
    before, after = old.flags(), new.flags()
    return tuple(
        f"{flag} ({_value(before[flag])} -> {_value(after[flag])})" for flag in before if before[flag] != after[flag]
    )


def _value(value: object) -> str:
    """Return a flag's value as one would write it, and `none` for an empty one."""
    if isinstance(value, bool):
        return str(value).lower()
    return (",".join(value) if isinstance(value, list) else str(value)) or "none"


def _changed_files(old: Tree, new: Tree) -> tuple[str, ...]:
    """Return each file that changes, and how."""
    before, after = old.by_path, new.by_path
    return tuple(
        f"{path} ({'new' if path not in before else 'gone' if path not in after else 'changed'})"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    )
