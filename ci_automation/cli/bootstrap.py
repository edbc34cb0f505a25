"""The commands for clusters: `sync-manifests`, `bootstrap-manifests` and `bootstrap`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from ci_automation.cli.arguments import Arguments, configuration
from ci_automation.cli.follow_up import verifying_keys
from ci_automation.cli.output import print_aside, print_json, print_line, print_text
from ci_automation.cli.parameters import COMMON, TRUST, HeadedCommand, artifact_argument, one_artifact_argument, takes
from ci_automation.cli.target import configured
from ci_automation.cli.wiring import reading
from ci_automation.flows.bootstrap import Installation, bootstrap, prepare
from ci_automation.flows.files import write_tree
from ci_automation.flows.programs.kubectl import Kubectl
from ci_automation.flows.sync import sync, unfit_for
from ci_automation.flux.following import SyncSettings

if TYPE_CHECKING:
    from ci_automation.flows.ports import Ports


@click.command("sync-manifests", cls=HeadedCommand)
@one_artifact_argument()
@click.option("--name", metavar="NAME", help="the name of both objects; default: flux-manifests")
@click.option(
    "--secret", metavar="NAME", help="the Secret with the public key, or with the trusted root of your own Sigstore"
)
@click.option("--interval", metavar="TIME", help="how often the cluster looks; default: 10m")
@takes("components-file", *TRUST, "registry-config", *COMMON)
def sync_manifests_command(
    artifact: str, name: str | None, secret: str | None, interval: str | None, given: Arguments
) -> None:
    """Print the objects by which a cluster follows and verifies a channel.

    An OCIRepository whose verify block fits the signature, and a Kustomization. They hold nothing secret. The section
    `sync` of the configuration sets their other fields, and adds a pair for the fleet's own artifact.

    \b
    flux-manifests sync-manifests oci://ghcr.io/acme/flux-manifests:production --public-key cosign.pub
    """
    reference, ports = reading(artifact, given)
    settings = _sync_settings(artifact, given)
    settings = replace(settings, name=settings.name if name is None else name, secret=secret, interval=interval)
    found, _, tree = sync(reference, ports, settings, given.components_file)
    _warn(unfit_for(found, tree, ports))
    if given.output == "json":
        print_json({"apiVersion": "v1", "kind": "List", "items": [*found.objects()]})
        return
    print_text(found.to_yaml(verifying_keys(configured(artifact, configuration(given)), given)).rstrip("\n"))


@click.command("bootstrap-manifests", cls=HeadedCommand)
@artifact_argument("artifact")
@click.argument("folder")
@click.option(
    "--timeout",
    metavar="TIME",
    default="5m",
    show_default=True,
    help="how long the printed commands wait for each part",
)
@takes("components-file", *TRUST, "registry-config", *COMMON)
def bootstrap_manifests_command(artifact: str, folder: str, timeout: str, given: Arguments) -> None:
    """Write what the first installation of Flux applies to a cluster, and print the order.

    FOLDER must not exist, or be empty. It gets four files: the CRDs, the controllers as kustomize builds them, and the
    objects that `sync-manifests` prints. The printed commands of kubectl do what `bootstrap` does.

    \b
    flux-manifests bootstrap-manifests production ./first
    """
    made, _ = _prepared(artifact, timeout, given)
    write_tree(made.order.files(), Path(folder))
    if given.output == "json":
        steps = [{"file": each.file, "commands": each.commands(folder)} for each in made.order.steps]
        secrets = [
            {"name": each.name, "namespace": each.namespace, "command": each.command} for each in made.order.secrets
        ]
        value = {"artifact": str(made.sync.channel), "digest": str(made.digest), "version": str(made.sync.version)}
        print_json({**value, "steps": steps, "secrets": secrets}, "bootstrap-manifests")
        return
    print_line(f"For a cluster without Flux, from {made.sync.channel} ({made.digest}), in this order:")
    print_text(made.order.told(folder))


@click.command("bootstrap", cls=HeadedCommand)
@one_artifact_argument()
@click.option(
    "--kubeconfig",
    metavar="FILE",
    required=True,
    help="the cluster's address and login, as kubectl has it; not taken from $KUBECONFIG, so that you name the cluster",
)
@click.option("--context", metavar="NAME", help="the context of the kubeconfig; default: its current one")
@click.option("--timeout", metavar="TIME", default="5m", show_default=True, help="how long to wait for each part")
@takes("components-file", *TRUST, "registry-config", *COMMON)
def bootstrap_command(artifact: str, kubeconfig: str, context: str | None, timeout: str, given: Arguments) -> None:
    """Install Flux on a cluster from a channel, which the cluster follows from then on.

    The artifact is verified and built before anything is applied. Then kubectl applies the CRDs, the controllers, and
    the objects that `sync-manifests` prints; each part is awaited before the next. It can be run again at any time. A
    cluster whose Flux belongs to Git or to the Flux Operator, or is newer, is left alone.

    \b
    flux-manifests bootstrap production --kubeconfig ~/.kube/production
    """
    cluster = Kubectl.find(Path(kubeconfig), context, os.environ)
    made, ports = _prepared(artifact, timeout, given)
    revision = bootstrap(made, cluster, ports)
    if given.output == "json":
        value = {"artifact": str(made.sync.channel), "digest": str(made.digest), "version": str(made.sync.version)}
        print_json({**value, "revision": revision}, "bootstrap")
        return
    print_line(f"The cluster runs Flux {made.sync.version} and follows {made.sync.channel}: it applied {revision}.")


def _prepared(artifact: str, timeout: str, given: Arguments) -> tuple[Installation, Ports]:
    """Return what a cluster gets that has no Flux yet, and the ports that it was found by."""
    reference, ports = reading(artifact, given)
    made = prepare(reference, ports, _sync_settings(artifact, given), given.components_file, timeout)
    _warn(made.unfit)
    return made, ports


def _warn(unfit: tuple[str, ...]) -> None:
    for problem in unfit:
        print_aside(f"warning: {problem}")


def _sync_settings(artifact: str, given: Arguments) -> SyncSettings:
    """Return the settings of the cluster's objects as they are configured for an artifact."""
    found = configured(artifact, configuration(given))
    return (found.sync if found else None) or SyncSettings()
