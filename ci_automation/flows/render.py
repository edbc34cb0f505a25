"""Output of `flux install --export`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.flows.rendering.proof import rendering
from ci_automation.flows.rendering.upstream import fetch

if TYPE_CHECKING:
    from ci_automation.flows.ports import Ports
    from ci_automation.flows.rendering.proof import Rendering
    from ci_automation.flux.options import Options
    from ci_automation.flux.version import Version


def render_release(version: Version, options: Options, ports: Ports) -> Rendering:
    """Return the components file of `version`, and what proves it."""
    return rendering(fetch(version, ports), options, ports)
