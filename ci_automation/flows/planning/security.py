"""Known vulnerabilities of the present version, and the releases that fix them, by published advisories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from ci_automation.errors import Error, ReleaseSourceError
from ci_automation.flows.rendering import render_release
from ci_automation.flux.advisories import Vulnerability, component_versions, fixed_by, vulnerabilities
from ci_automation.flux.components import controller_images
from ci_automation.policy.decision import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ci_automation.flows.planning.base import Base
    from ci_automation.flows.planning.step import Rendered
    from ci_automation.flows.ports import Ports
    from ci_automation.flux.advisories import Advisory
    from ci_automation.flux.version import Version
    from ci_automation.policy.gates import Selection

_MOST = 4  # releases that are rendered for this alone, the newest


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
