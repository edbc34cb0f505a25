"""Changes and hazards of a step, the known vulnerabilities that it fixes, and the verdicts of the gates on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, to_builtins

from ci_automation.errors import Error, ReleaseSourceError
from ci_automation.flows.rendering import render_release
from ci_automation.flux.advisories import Advisory, Vulnerability, component_versions, fixed_by, vulnerabilities
from ci_automation.flux.artifact import PUSHED, Recipe
from ci_automation.flux.text import controller_images, inventory
from ci_automation.impact.assess import Impact, assess, compare_files, compare_with_flux_alone, nothing_is_settled
from ci_automation.impact.check import Applied, Known
from ci_automation.impact.overlay.in_cluster import unfit_in_cluster
from ci_automation.policy.content import Content, content_verdicts, hazard_verdicts
from ci_automation.policy.decision import Decision, decide, reasons
from ci_automation.policy.gates import Selection, Situation
from ci_automation.policy.plan import PlannedStep
from ci_automation.report.findings import Findings
from ci_automation.report.sync import sync_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ci_automation.artifact.reference import Digest
    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.planning.base import Base, Contents
    from ci_automation.flows.planning.step import Rendered, Wanted
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.proof import Proof
    from ci_automation.flux.release import Release
    from ci_automation.flux.version import Version
    from ci_automation.impact.change import Change, Hazard

    StepSide: TypeAlias = Base | Contents | Recipe  # what an artifact holds before a step, or after it
    Chosen: TypeAlias = Base | Contents | Wanted  # has the options that its components are made with

_MOST = 4  # releases that are rendered for this alone, the newest


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
        return compare_files(before.overlay if before else None, after.overlay)
    if before and before.version == PUSHED:
        before = None
    ports.say("comparing, and building the overlay" if before else "building the overlay")
    folder = intent.overlay_folder
    spec = _followed_by(after, intent)
    known = Known(
        intent.clusters, listed, intent.now, ports.kustomize, ports.images, folder, kustomization=spec, say=ports.say
    )
    return assess(_applied(before) if before else None, _applied(after), known, settled)


def unfit_there(there: Contents, ports: Ports, intent: Intent) -> tuple[Hazard, ...]:
    """Return what of the patches and images that clusters have beside an artifact does not fit it."""
    return unfit_in_cluster(None, there.tree, _followed_by(there, intent), ports.kustomize)


def _followed_by(side: StepSide, intent: Intent) -> dict[str, Any]:
    """Return the spec of the Kustomization by which clusters apply an artifact, as far as it is known."""
    return {**intent.kustomization, "path": sync_path([*side.overlay.by_path, side.path], side.path)}


def _applied(side: StepSide) -> Applied:
    return Applied(side.components, side.version, side.overlay, side.path, side.options.registry)


def findings(old: Contents, new: Contents, ports: Ports, intent: Intent) -> Findings:
    """Return the impact on clusters of a channel that goes from `old` to `new`, and the verdicts of the gates."""
    impact = impact_of(old, new, ports, intent)
    situation = Situation(old.version, intent.policy, intent.now)
    gates = content_verdicts(content_of(old, new, impact, intent), situation, rendered=False)  # by a run before
    return Findings(impact.changes, impact.hazards, impact.pruned, gates)


def content_of(old: Base | Contents, new: Base | Contents, impact: Impact, intent: Intent) -> Content:
    """Return what the gates judge of a channel that goes from `old` to `new`, besides the release and its rendering."""
    return Content(
        removed=lost(old.components, new.components),
        removal_allowed=intent.allow_removal,
        options_changed=changed_flags(old, new),
        overlay_changed=changed_files(old.overlay, new.overlay),
        changes=impact.changes,
        hazards=impact.hazards,
        cleared=impact.cleared,
    )


def planned_step(
    old: Base | Contents,
    new: Base | Contents,
    found: Findings,
    digests: tuple[Digest, Digest],
    release: Digest,
    proof: Proof,
) -> PlannedStep:
    """Return the step of a channel from `old` to `new`, and from one of the digests to the other."""
    base, target = digests
    return PlannedStep(
        old_version=old.version,
        new_version=new.version,
        base=base,
        target=target,
        decision=decide(found.gates),
        reasons=reasons(found.gates),
        options=new.options,
        overlay=new.overlay.digest(),
        release=release,
        proof=proof,
        pinned=new.pinned,
        removed=lost(old.components, new.components),
        changes=found.changes,
        hazards=found.hazards,
        pruned=found.pruned,
        diffs=found.diffs,
        gates=found.gates,
        rights=found.rights,
    )


def first_findings(new: StepSide, ports: Ports, intent: Intent) -> Findings:
    """Return what a channel's first digest changes of Flux alone and can break, and the verdicts of the gates."""
    impact = impact_of(None, new, ports, intent)
    content = Content(hazards=impact.hazards, cleared=impact.cleared)
    gates = hazard_verdicts(content, Situation(new.version, intent.policy, intent.now))
    return Findings(
        _beside_flux(new, ports, intent), impact.hazards, gates=gates, nothing_before=True, rights=impact.rights
    )


def _beside_flux(new: StepSide, ports: Ports, intent: Intent) -> tuple[Change, ...]:
    """Return what clusters get beside plain Flux."""
    if new.version == PUSHED or not new.overlay.files:
        return ()
    known = Known(intent.clusters, kustomize=ports.kustomize)
    return compare_with_flux_alone(new.components, _applied(new), known)


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


class OpenVulnerability(Struct, frozen=True):
    """A known vulnerability of the present version, and the first step that fixes it."""

    vulnerability: Vulnerability
    fixed_by: Version | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as the JSON output has it."""
        return {**to_builtins(self.vulnerability), "fixedBy": str(self.fixed_by) if self.fixed_by else None}


def advisories(ports: Ports) -> tuple[Advisory, ...]:
    """Return the published advisories; none, and a word about it, if they cannot be read: nothing depends on them."""
    try:
        return ports.releases.advisories()
    except ReleaseSourceError as error:
        ports.say(f"security advisories were not read: {error}")
        return ()


def fixes_of_waiting(base: Base, selection: Selection, ports: Ports) -> Mapping[Version, tuple[Vulnerability, ...]]:
    """Return what the newest releases that wait for their age fix of the present version."""
    known = advisories(ports)
    if not vulnerabilities(known, _versions(base.version, base.components)):
        return {}
    young = [
        candidate.release.version
        for candidate in (*selection.steps, *selection.passed_over)
        if any(verdict.gate == "age" and verdict.decision is Decision.WAIT for verdict in candidate.verdicts)
    ]
    found = {}
    for version in sorted(young)[-_MOST:]:
        try:
            text = render_release(version, base.options, ports).text
        except Error:  # a step to it says why
            continue
        found[version] = fixed_in(base, version, text, ports)
    return found


def fixed_in(base: Base, version: Version, components: str, ports: Ports) -> tuple[Vulnerability, ...]:
    """Return what these components fix of those of the base."""
    if version == base.version:
        return ()
    return fixed_by(advisories(ports), _versions(base.version, base.components), _versions(version, components))


def open_vulnerabilities(base: Base, steps: Sequence[Rendered], ports: Ports) -> tuple[OpenVulnerability, ...]:
    """Return the known vulnerabilities of the base, each with the first of the steps that fixes it."""
    known = advisories(ports)
    after = [(it.step.new_version, it.composed.recipe.components) for it in steps]
    left = {version: vulnerabilities(known, _versions(version, components)) for version, components in after}
    return tuple(
        OpenVulnerability(it, next((v for v, found in left.items() if it.id not in {each.id for each in found}), None))
        for it in vulnerabilities(known, _versions(base.version, base.components))
    )


def _versions(version: Version, components: str) -> dict[str, Version]:
    return component_versions(version, controller_images(components))
