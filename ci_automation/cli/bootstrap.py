"""The command `bootstrap`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_automation.cli.bootstrap_manifests import prepared
from ci_automation.cli.output import print_json, print_text
from ci_automation.cli.parameters import COMMON, TRUST, HeadedCommand, takes
from ci_automation.flows.bootstrap import bootstrap
from ci_automation.flows.programs.kubectl import Kubectl

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments


@click.command("bootstrap", cls=HeadedCommand)
@click.argument("artifact")
@click.option("--kubeconfig", metavar="FILE", required=True, help="the cluster's address and login, as kubectl has it")
@click.option("--context", metavar="NAME", help="the context of the kubeconfig; default: its current one")
@click.option("--timeout", default="5m", show_default=True, help="how long to wait for each part")
@takes("components-file", *TRUST, "registry-config", *COMMON)
def command(artifact: str, kubeconfig: str, context: str | None, timeout: str, given: Arguments) -> None:
    """Install Flux on a cluster from a channel, which the cluster follows from then on.

    The artifact is verified and built before anything is applied. Then kubectl applies the CRDs, the controllers, and
    the objects that `sync-manifests` prints; each part is awaited before the next. It can be run again at any time. A
    cluster whose Flux belongs to Git or to the Flux Operator, or is newer, is left alone.

    \b
    flux-manifests bootstrap production --kubeconfig ~/.kube/production
    """
    cluster = Kubectl.find(Path(kubeconfig), context, os.environ)
    made, ports = prepared(artifact, timeout, given)
    revision = bootstrap(made, cluster, ports)
    if given.output == "json":
        value = {"artifact": str(made.sync.channel), "digest": str(made.digest), "version": str(made.sync.version)}
        print_json({**value, "revision": revision}, "bootstrap")
        return
    print_text(f"The cluster runs Flux {made.sync.version} and follows {made.sync.channel}: it applied {revision}.")
