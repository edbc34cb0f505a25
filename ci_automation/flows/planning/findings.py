"""Changes and hazards of a step, and the verdicts of the gates on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ci_automation.flux.artifact import PUSHED
from ci_automation.flux.components import inventory
from ci_automation.impact.assess import assess, compare_files, nothing_is_settled
from ci_automation.impact.check import Applied, Known
from ci_automation.policy.content import Content, content_verdicts
from ci_automation.policy.gates import Situation
from ci_automation.report.findings import Findings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.planning.contents import Contents
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.options import Options
    from ci_automation.flux.release import Release
    from ci_automation.flux.version import Version
    from ci_automation.impact.assess import Impact
    from ci_automation.impact.hazard import Hazard

_OF_TWO = frozenset({"removal", "proof", "options", "files", "edits"})  # gates that compare with what was there before


class StepSide(Protocol):
    """An artifact's content before a step, or after it: a base, a recipe, or what a channel has."""

    @property
    def version(self) -> Version:
        """Return the version of its components."""

    @property
    def options(self) -> Options:
        """Return the options that its components were made with."""

    @property
    def components(self) -> str:
        """Return the text of its components file."""

    @property
    def path(self) -> str:
        """Return where the components file is."""

    @property
    def overlay(self) -> Tree:
        """Return all other files."""


class Chosen(Protocol):
    """Options that the components are made with."""

    @property
    def options(self) -> Options:
        """Return the options of `flux install`."""

    @property
    def pinned(self) -> bool:
        """Return whether the images have digests behind their tags."""


def impact_of(
    before: StepSide | None,
    after: StepSide,
    ports: Ports,
    intent: Intent,
    listed: Sequence[Release] = (),
    settled: Callable[[Sequence[Hazard]], bool] = nothing_is_settled,
) -> Impact:
    """Return what the step from `before` to `after` changes and can break; `listed` are the known releases.

    For `settled` see `assess`.
    """
    if after.version == PUSHED:  # no Flux is in it, so none of the checks is about it
        return compare_files(before.overlay if before else after.overlay, after.overlay)
    ports.say("comparing, and building the overlay" if before else "building the overlay")
    known = Known(intent.clusters, listed, intent.now, ports.kustomize, ports.images, say=ports.say)
    return assess(_applied(before) if before else None, _applied(after), known, settled)


def _applied(side: StepSide) -> Applied:
    return Applied(side.components, side.version, side.overlay, side.path, side.options.registry)


def findings(old: Contents, new: Contents, ports: Ports, intent: Intent) -> Findings:
    """Return the impact on clusters of a channel that goes from `old` to `new`, and the verdicts of the gates."""
    impact = impact_of(old, new, ports, intent)
    content = Content(
        removed=lost(old.components, new.components),
        removal_allowed=intent.allow_removal,
        options_changed=changed_flags(old, new),
        overlay_changed=changed_files(old.overlay, new.overlay),
        changes=impact.changes,
        hazards=impact.hazards,
        cleared=impact.cleared,
    )
    verdicts = content_verdicts(content, Situation(old.version, intent.policy, intent.now))
    # The gate on the proof spoke where it was rendered.
    gates = tuple(verdict for verdict in verdicts if verdict.gate != "proof")
    return Findings(impact.changes, impact.hazards, impact.pruned, gates)


def first_findings(new: StepSide, ports: Ports, intent: Intent) -> Findings:
    """Return the hazards for clusters of a channel that gets its first digest, and the verdicts of the gates."""
    impact = impact_of(None, new, ports, intent)
    content = Content(hazards=impact.hazards, cleared=impact.cleared)
    verdicts = content_verdicts(content, Situation(new.version, intent.policy, intent.now))
    gates = tuple(verdict for verdict in verdicts if verdict.gate not in _OF_TWO)
    return Findings(hazards=impact.hazards, gates=gates, nothing_before=True, rights=impact.rights)


def lost(old: str, new: str) -> tuple[str, ...]:
    """Return the controllers and CRDs of one components file that the other one lacks."""
    return tuple(sorted(inventory(old) - inventory(new)))


def changed_flags(old: Chosen, new: Chosen) -> tuple[str, ...]:
    """Return each flag that changes, with its value before and after."""
    before, after = ({**each.options.flags(), "pin-images": each.pinned} for each in (old, new))
    return tuple(
        f"{flag} ({_value(before.get(flag, ''))} -> {_value(after.get(flag, ''))})"
        for flag in sorted(before.keys() | after.keys())
        if before.get(flag) != after.get(flag)
    )


def changed_files(old: Tree, new: Tree) -> tuple[str, ...]:
    """Return each file that changes, and how."""
    before, after = old.by_path, new.by_path
    return tuple(
        f"{path} ({'new' if path not in before else 'gone' if path not in after else 'changed'})"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    )


def _value(value: object) -> str:
    """Return a flag's value as the command line takes it, and `none` for an empty one."""
    if isinstance(value, bool):
        return str(value).lower()
    return (",".join(value) if isinstance(value, list) else str(value)) or "none"
