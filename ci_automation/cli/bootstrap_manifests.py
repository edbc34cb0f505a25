"""The command `bootstrap-manifests`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_automation.cli.output import print_json, print_text
from ci_automation.cli.parameters import COMMON, TRUST, HeadedCommand, takes
from ci_automation.cli.sync_manifests import sync_settings
from ci_automation.cli.wiring import reading
from ci_automation.flows.bootstrap import prepare
from ci_automation.flows.files import write_tree

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments
    from ci_automation.flows.bootstrap import Installation
    from ci_automation.flows.ports import Ports


@click.command("bootstrap-manifests", cls=HeadedCommand)
@click.argument("artifact")
@click.argument("folder")
@click.option("--timeout", default="5m", show_default=True, help="how long the printed commands wait for each part")
@takes("components-file", *TRUST, "registry-config", *COMMON)
def command(artifact: str, folder: str, timeout: str, given: Arguments) -> None:
    """Write what the first installation of Flux applies to a cluster, and print the order.

    FOLDER must not exist, or be empty. It gets four files: the CRDs, the controllers as kustomize builds them, and the
    objects that `sync-manifests` prints. The printed commands of kubectl do what `bootstrap` does.

    \b
    flux-manifests bootstrap-manifests production ./first
    """
    made, _ = prepared(artifact, timeout, given)
    write_tree(made.order.files(), Path(folder))
    if given.output == "json":
        steps = [{"file": each.file, "commands": each.commands(folder)} for each in made.order.steps]
        secrets = [
            {"name": each.name, "namespace": each.namespace, "command": each.command} for each in made.order.secrets
        ]
        value = {"artifact": str(made.sync.channel), "digest": str(made.digest), "version": str(made.sync.version)}
        print_json({**value, "steps": steps, "secrets": secrets}, "bootstrap-manifests")
        return
    print_text(f"For a cluster without Flux, from {made.sync.channel} ({made.digest}), in this order:")
    print_text(made.order.told(folder))


def prepared(artifact: str, timeout: str, given: Arguments) -> tuple[Installation, Ports]:
    """Return what a cluster gets that has no Flux yet, and the ports that it was found by."""
    reference, ports = reading(artifact, given)
    return prepare(reference, ports, sync_settings(artifact, given), given.components_file, timeout), ports
