"""Make a plan: decide whether a newer release may be taken before reading or rendering anything for it."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.flows.observe import Observed, Placed, observe_or_adopt
from ci_automation.flux.artifact import PUSHED
from ci_automation.flux.options import Options
from ci_automation.policy.decision import Decision, Hold, is_held, reasons, still_on
from ci_automation.policy.gates import Selection, select
from ci_automation.policy.plan import PassedOver, Plan, PlannedStep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.planning.findings import OpenVulnerability
    from ci_automation.flows.planning.step import Rendered
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.release import Release
    from ci_automation.flux.version import Version
    from ci_automation.records.notes import Approval

# All that is imported for steps, a check that finds nothing spares.
NEEDED_BY_STEPS = tuple(
    f"ci_automation.{name}"
    for name in (
        "flows.planning.base",
        "flows.planning.steps",
        "flows.publication.placement",
        "impact.checks.compatibility",
        "impact.checks.crds",
        "impact.checks.overlay",
        "flows.programs.kustomize",
        "signing.sigstore.root",
        "records.writer",
        "report.changes",
    )
)


class Planned(Struct, frozen=True):
    """A plan, what it was made on, the rendered artifacts of its steps, in order, and the releases that were listed.

    What it was made on is `Placed`, unless nothing is to be built on it, so that its records were not read.
    """

    observed: Observed
    plan: Plan
    rendered: tuple[Rendered, ...]
    releases: tuple[Release, ...] = ()
    unmade: bool = False  # among the passed over is a step that the policy chose, and that is refused or cannot be made
    vulnerable: tuple[OpenVulnerability, ...] = ()  # of the present version, if anything newer is there

    def placed(self, ports: Ports, intent: Intent) -> Placed:
        """Return what the plan was made on, if it is where it belongs; see `in_place`."""
        if isinstance(self.observed, Placed):
            return self.observed
        from ci_automation.flows.publication.placement import in_place

        return in_place(self.observed, self.plan.current_version, ports, intent)

    def holds(self, done: int, now: datetime) -> tuple[Hold, ...]:
        """Return the holds that are on after the first `done` steps, as far as records were read."""
        if not isinstance(self.observed, Placed):
            return ()
        version = self.plan.steps[done - 1].new_version if done else self.plan.current_version
        return still_on(self.observed.holds, version, now)


class Outcome(Struct, frozen=True):
    """Result of a run: the plan's steps from `start` to `done`, the trust in the base, and whether the run healed it.

    `placed` says that signed records were read, which tell if the channel was moved back. `releases` are those that
    were listed, as far as anything newer is there: what they say is in their notes. `unmade` is as in `Planned`.
    `approvals` are those of the steps that the run published.
    `vulnerable` is as in `Planned`.
    `astray` are the version tags that do not lead to what the channel has, if the run looked.
    `unsigned` says that steps wait and what the channel has is not signed, so that adoption comes first.
    `holds` are as in `Planned`.
    `unproven` says that by its record what the channel had has no proof of its rendering.
    """

    plan: Plan
    done: int
    trust: str
    start: int = 0
    healed: bool = False
    placed: bool = True
    releases: tuple[Release, ...] = ()
    unmade: bool = False
    approvals: tuple[Approval, ...] = ()
    astray: tuple[str, ...] = ()
    vulnerable: tuple[OpenVulnerability, ...] = ()
    unsigned: bool = False
    holds: tuple[Hold, ...] = ()
    unproven: bool = False

    @property
    def digest(self) -> Digest:
        """Return where the channel is after the run."""
        return self.plan.steps[self.done - 1].target if self.done else self.plan.current

    @property
    def verified(self) -> bool:
        """Return whether the signature of what the channel has was verified, so that its records and holds count."""
        return self.trust != "not checked"

    @property
    def waiting(self) -> tuple[PlannedStep, ...]:
        """Return the steps that were not published."""
        return self.plan.steps[self.done :]

    @property
    def left(self) -> Decision | None:
        """Return what keeps the rest from being published: an approval that a person can give, or else a refusal."""
        decisions = {step.decision for step in self.waiting} | ({Decision.REFUSED} if self.unmade else set())
        return next((it for it in (Decision.APPROVAL, Decision.REFUSED, Decision.WAIT) if it in decisions), None)


def make_plan(channel: Reference, ports: Ports, intent: Intent) -> Planned:
    """Return the plan for `channel`; nothing is written anywhere.

    Where nothing newer may be taken and nothing else is asked for, its manifest and signature are all that is read.

    Raises:
        Unsigned, ForeignSignature, ChannelMovedBack, PublishedElsewhere: nothing may be built on what the channel has.
        NotAdopted: a person was asked whether to adopt it, and did not say yes.
    """
    observed = observe_or_adopt(channel, ports, intent, partial(look_ahead, ports=ports, intent=intent))
    return plan_on(observed, ports, intent)


def look_ahead(observed: Observed, ports: Ports, intent: Intent) -> Observed:
    """Return what was observed with the releases, and with its layer if the policy may take one of them.

    The run calls this while it verifies the signature, and uses the layer only after that. While it waits for the
    layer, it imports what steps need.
    """
    if observed.version is None:
        return observed
    releases = _list_releases(observed.version, ports)
    if not select(intent.situation(observed.version), releases).steps:
        return replace(observed, releases=releases)
    registry, first = ports.registry, observed.manifest.layers[0]
    layer, _ = registry.at_once(
        partial(registry.blob, observed.channel, first), lambda: [import_module(name) for name in NEEDED_BY_STEPS]
    )
    return replace(observed, releases=releases, layer=layer)


def _list_releases(current: Version, ports: Ports) -> tuple[Release, ...]:
    ports.say("looking for newer releases")
    return ports.releases.list(current)


def plan_on(observed: Observed, ports: Ports, intent: Intent) -> Planned:
    """Return the plan that starts from what was observed; see `make_plan`."""
    channel, base, intent = observed.channel, None, ports.with_overlay(intent)
    if observed.version == PUSHED:
        return _pushed(observed, ports, intent)
    changes_content = _changes_content(observed, ports, intent)
    if observed.version is None or changes_content:
        from ci_automation.flows.planning.base import read_base

        base = read_base(observed, ports, intent)
    current = base.version if base else observed.version
    assert current is not None  # noqa: S101  # for the type checker: one of the two has it
    releases = _list_releases(current, ports) if observed.releases is None else observed.releases
    selection = select(intent.situation(current), releases)
    if not selection.steps and not changes_content:
        if isinstance(observed, Placed):
            from ci_automation.flows.publication.placement import in_place

            observed = in_place(observed, current, ports, intent)
        plan = Plan(channel, current, observed.digest, (), tuple(passed_over(selection)))
        return Planned(observed, plan, (), releases)
    from ci_automation.flows.planning.base import read_base
    from ci_automation.flows.publication.placement import in_place, place

    base, placed = ports.registry.at_once(
        lambda: base or read_base(observed, ports, intent),
        lambda: observed if isinstance(observed, Placed) else place(observed, ports),
    )
    placed = in_place(placed, base.version, ports, intent)
    base = replace(base, holds=placed.holds)
    from ci_automation.flows.planning.findings import fixes_of_waiting, open_vulnerabilities
    from ci_automation.flows.planning.steps import Found, plan_steps

    fixes = fixes_of_waiting(base, selection, ports) if selection.steps else {}
    if base.holds or fixes:
        selection = select(intent.situation(current, base.holds, fixes), releases)
    planned = plan_steps(base, Found(placed, selection, releases), ports, intent)
    open_ones = open_vulnerabilities(base, planned.rendered, ports) if selection.steps else ()
    return replace(planned, vulnerable=open_ones)


def _pushed(observed: Observed, ports: Ports, intent: Intent) -> Planned:
    """Return the empty plan for a team's own manifests: only `push` gives them another content."""
    from ci_automation.flows.planning.base import NotRendered
    from ci_automation.flows.publication.placement import in_place

    if intent.flags or (intent.overlay, intent.pin_images) != (None, None):
        raise NotRendered(observed.channel)
    placed = in_place(observed, PUSHED, ports, intent)
    return Planned(placed, Plan(observed.channel, PUSHED, observed.digest, ()), ())


def _changes_content(observed: Observed, ports: Ports, intent: Intent) -> bool:
    """Return whether a plan may have to change the content; if it is apart, whether it is another one."""
    drops_edits = intent.drops_edits(observed.digest)
    # To prove flags that only the release's own flux CLI knows takes its download: not for a check that finds nothing.
    if (intent.content_apart or Options().with_flags(intent.flags).others) and not drops_edits:
        from ci_automation.flows.planning.base import content_differs

        return content_differs(observed, ports, intent)
    asked = (intent.overlay, intent.pin_images)
    return bool(intent.flags) or asked != (None, None) or drops_edits


def passed_over(selection: Selection) -> Iterator[PassedOver]:
    """Yield the releases that are not taken, and why."""
    for it in selection.passed_over:
        why = reasons(it.verdicts)
        if it.decision.is_actionable:
            why = (f"{selection.steps[-1].release.version} comes first",)
        yield PassedOver(it.release.version, it.decision, why, is_held(it.verdicts))
