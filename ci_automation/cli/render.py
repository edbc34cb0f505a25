"""The command `render`."""

from __future__ import annotations

from typing import Any

import click

from ci_automation.cli import options as shared
from ci_automation.cli.given import Given, configuration, release_source
from ci_automation.cli.output import print_json
from ci_automation.flows.render import render_release
from ci_automation.flux.options import Options
from ci_automation.flux.version import Version


@click.command("render")
@click.option("--flux-version", "--version", required=True, metavar="VERSION", help="the release, for example v2.9.4")
@shared.install_flags
@shared.release_source
@shared.common
def command(flux_version: str, **options: Any) -> None:
    """Print what `flux install --export` of a release prints.

    The flags are those of `flux install`. No flux binary and no cluster is needed.

    \b
    flux-manifests render --flux-version v2.9.4 --components-extra source-watcher > gotk-components.yaml
    """
    given = Given.of(options)
    wanted = Options().with_flags(given.flags)
    version = Version.parse(flux_version)
    text, proven = render_release(version, wanted, release_source(given, configuration(given)))
    if not proven:
        click.echo(f"warning: nobody has proven that {version} is rendered as Flux itself does", err=True)
    if given.output == "json":
        print_json({"version": str(version), "options": wanted.differing(), "proven": proven, "components": text})
    else:
        click.echo(text.encode(), nl=False)
