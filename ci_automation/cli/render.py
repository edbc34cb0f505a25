"""The command `render`, apart from `diff`, which loads all that compares."""

from __future__ import annotations

import click

from ci_automation.cli.arguments import Arguments, configuration
from ci_automation.cli.output import print_json, progress
from ci_automation.cli.parameters import COMMON, HeadedCommand, known_versions, takes
from ci_automation.cli.places import release_ports
from ci_automation.flows.rendering import render_release
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.report.blocks import plain_text


@click.command("render", cls=HeadedCommand, as_in={})
@click.option(
    "--flux-version",
    "--version",
    required=True,
    metavar="VERSION",
    shell_complete=known_versions,
    help="the release, for example v2.9.4",
)
@takes("releases", *COMMON, install_flags=True)
def render_command(flux_version: str, given: Arguments) -> None:
    """Print what `flux install --export` of a release prints.

    The flags are those of `flux install`. No flux binary and no cluster is needed.

    \b
    flux-manifests render --flux-version v2.9.4 --components-extra source-watcher > gotk-components.yaml
    """
    wanted = Options().with_flags(given.flags)
    version = Version.parse(flux_version)
    config = configuration(given)
    say = progress(verbose=given.verbose, text=given.output == "text")
    made = render_release(version, wanted, release_ports(given, config, say))
    if made.proof is Proof.NONE:
        why = plain_text(f"nothing proves that {version} is rendered as Flux itself does: {made.detail}")
        click.echo(f"warning: {why}", err=True)
    if given.output == "json":
        value = {"version": str(version), "options": wanted.differing(), "proven": made.proof is not Proof.NONE}
        print_json({**value, "proof": str(made.proof), "proofDetail": made.detail, "components": made.text}, "render")
    else:
        click.echo(made.text.encode(), nl=False)
