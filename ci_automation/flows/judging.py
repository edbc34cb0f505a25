"""What a step changes for clusters and can break, found by everybody who looks, and what the gates say of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from ci_automation.artifact.tree import Tree
from ci_automation.flows.images import missing_images
from ci_automation.flux.inventory import inventory
from ci_automation.flux.options import Options
from ci_automation.impact.checks.compatibility import compatibility, fit
from ci_automation.impact.checks.crds.guard import guard
from ci_automation.impact.compare import changes
from ci_automation.impact.files import overlay_changes
from ci_automation.overlay.preflight import preflight
from ci_automation.policy.content import Content, content_verdicts
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.policy.gates import Situation
from ci_automation.report.findings import Findings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.flows.contents import Contents
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.release import Release
    from ci_automation.flux.version import Version
    from ci_automation.impact.change import Change
    from ci_automation.impact.hazard import Hazard

_OF_TWO = frozenset({"removal", "proof", "options", "files", "edits"})  # gates that compare with what was there before


class Side(Protocol):
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
    """What somebody chose of how the components are made."""

    @property
    def options(self) -> Options:
        """Return the options of `flux install`."""

    @property
    def pinned(self) -> bool:
        """Return whether the images have digests behind their tags."""


class Judged(Struct, frozen=True):
    """What a step changes, what it can break, and what clusters delete when they apply it."""

    changes: tuple[Change, ...]
    hazards: tuple[Hazard, ...]
    pruned: tuple[str, ...]
    looked: tuple[Verdict, ...]  # what each who looked for hazards says where none is found


def judge_first(new: Side, ports: Ports, intent: Intent) -> Judged:
    """Return what can break where nothing was there before; nothing is said to change."""
    ports.say("building the overlay")
    nothing = Tree(())
    hazards = (
        *guard("", new.components, intent.clusters, new.overlay, nothing),
        *preflight(nothing, _files(new), new.path, ports.kustomize).hazards,
        *fit(None, new.version, intent.clusters.kubernetes),
        *missing_images(new.components, new.options, ports),
    )
    return Judged((), hazards, (), tuple(_looked(new, ports, intent)))


def judge(old: Side, new: Side, ports: Ports, intent: Intent, listed: Sequence[Release] = ()) -> Judged:
    """Return what the step from `old` to `new` changes and can break; `listed` are the releases that are known."""
    ports.say("comparing, and building the overlay")
    built = preflight(_files(old), _files(new), new.path, ports.kustomize)
    hazards = (
        *guard(old.components, new.components, intent.clusters, new.overlay, old.overlay),
        *built.hazards,
        *compatibility(old.version, new.version, intent.clusters.kubernetes, listed, intent.now),
        *missing_images(new.components, new.options, ports),
    )
    return Judged(
        (*changes(old.components, new.components), *overlay_changes(old.overlay, new.overlay)),
        hazards,
        tuple(str(each) for each in built.pruned),
        tuple(_looked(new, ports, intent)),
    )


def findings(old: Contents, new: Contents, ports: Ports, intent: Intent) -> Findings:
    """Return what changes for the clusters of a channel that goes from `old` to `new`, and what the gates say of it."""
    judged = judge(old, new, ports, intent)
    content = Content(
        removed=tuple(sorted(inventory(old.components) - inventory(new.components))),
        removal_allowed=intent.allow_removal,
        options_changed=changed_flags(old, new),
        overlay_changed=changed_files(old.overlay, new.overlay),
        changes=judged.changes,
        hazards=judged.hazards,
        looked=judged.looked,
    )
    verdicts = content_verdicts(content, Situation(old.version, intent.policy, intent.now))
    # How it was rendered was judged where it was rendered.
    gates = tuple(verdict for verdict in verdicts if verdict.gate != "proof")
    return Findings(judged.changes, judged.hazards, judged.pruned, gates)


def first_findings(new: Side, ports: Ports, intent: Intent) -> Findings:
    """Return what can break in the clusters of a channel that gets its first digest, and what the gates say of it."""
    judged = judge_first(new, ports, intent)
    content = Content(hazards=judged.hazards, looked=judged.looked)
    verdicts = content_verdicts(content, Situation(new.version, intent.policy, intent.now))
    gates = tuple(verdict for verdict in verdicts if verdict.gate not in _OF_TWO)
    return Findings(hazards=judged.hazards, gates=gates, nothing_before=True)


def changed_flags(old: Chosen, new: Chosen) -> tuple[str, ...]:
    """Return each flag that changes, with its value before and after."""
    before, after = ({**each.options.flags(), "pin-images": each.pinned} for each in (old, new))
    return tuple(
        f"{flag} ({_value(before[flag])} -> {_value(after[flag])})" for flag in before if before[flag] != after[flag]
    )


def changed_files(old: Tree, new: Tree) -> tuple[str, ...]:
    """Return each file that changes, and how."""
    before, after = old.by_path, new.by_path
    return tuple(
        f"{path} ({'new' if path not in before else 'gone' if path not in after else 'changed'})"
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    )


def _looked(new: Side, ports: Ports, intent: Intent) -> Iterator[Verdict]:
    """Yield what each gate says that has found nothing, and what it had to look at."""
    clusters = intent.clusters
    given = f"{len(clusters.snapshots)} snapshots, {len(clusters.files)} files of manifests, the overlay"
    yield Verdict("crds", Decision.AUTO, "no version goes away that clusters may need", given)
    builder = "kustomize" if ports.kustomize else "no kustomize, and nothing that needs it"
    yield Verdict("overlay", Decision.AUTO, "the overlay builds, and hits what it hit", builder)
    stated = f"clusters.kubernetes: {clusters.kubernetes or 'not stated'}"
    yield Verdict("compatibility", Decision.AUTO, "nothing stands against it", stated)
    own = new.options.registry == Options().registry
    reason = "they are Flux's own" if own else "every image is there"
    yield Verdict("images", Decision.AUTO, reason, f"the images in {new.options.registry}")


def _files(side: Side) -> Tree:
    return side.overlay.replaced(side.path, side.components.encode())


def _value(value: object) -> str:
    """Return a flag's value as one would write it, and `none` for an empty one."""
    if isinstance(value, bool):
        return str(value).lower()
    return (",".join(value) if isinstance(value, list) else str(value)) or "none"
