"""The command `init`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_automation.cli.output import print_aside, print_json, print_parts, print_text
from ci_automation.cli.parameters import COMMON, SIGNING, takes
from ci_automation.cli.target import rendered
from ci_automation.cli.wiring import target
from ci_automation.flows.init import init
from ci_automation.flux.version import Version
from ci_automation.report.changes import text_parts
from ci_automation.report.findings import Findings

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments

_UNSIGNED = "It is unsigned: clusters that verify will refuse it. Sign with --signing key or --signing keyless."


@click.command("init")
@click.argument("artifact")
@click.option("--flux-version", required=True, metavar="VERSION", help="the release to begin with, for example v2.9.4")
@click.option("--overlay", metavar="DIR", help="the team's own files: kustomization.yaml, patches, anything")
@takes(
    "unsafe-unproven-rendering", *SIGNING, "components-file", "releases", "registry-config", *COMMON, install_flags=True
)
def command(artifact: str, flux_version: str, given: Arguments) -> None:
    """Publish the first artifact of a channel.

    It holds the components of a release, rendered with the given flags of `flux install`, and the files of the overlay.
    The components are in flux-system/gotk-components.yaml, unless --components-file names another path: this is what
    the overlay's kustomization.yaml has to list. The artifact is signed before the channel names it. A channel that
    exists is left alone, unless it would be the same. What is sure to break clusters, such as an overlay that cannot be
    built or that leaves Flux out, is refused; what may break them is listed.

    \b
    flux-manifests init oci://ghcr.io/acme/flux-manifests:production --flux-version v2.9.4 \\
      --overlay ./overlay --signing key --key cosign.key
    """
    version = Version.parse(flux_version)
    (goal,) = rendered((target(artifact, given),), print_aside)
    result = init(goal.channel, version, goal.ports, goal.intent)
    if given.output == "json":
        value = {"artifact": str(goal.channel), "version": str(result.version), "digest": str(result.digest)}
        made = {
            "published": result.published,
            "signed": result.signed,
            "components": result.path,
            "options": result.options.differing(),
        }
        print_json({**value, **made, "hazards": [hazard.to_json() for hazard in result.hazards]})
        return
    verb = "published" if result.published else "is there already, with exactly this content"
    print_text(f"{goal.channel} {verb}: Flux {result.version}, {result.digest}\n  its components are in {result.path}")
    if not result.signed:
        print_text(_UNSIGNED if result.published else f"Nothing was verified: {goal.ports.why_nobody}.")
    if result.hazards:
        print_parts(text_parts(Findings(hazards=result.hazards, nothing_before=True)))
