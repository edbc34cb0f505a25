"""The command `sync-manifests`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from ci_automation.cli.arguments import configuration
from ci_automation.cli.output import print_json, print_text
from ci_automation.cli.parameters import COMMON, TRUST, HeadedCommand, takes
from ci_automation.cli.wiring import reading
from ci_automation.config.model import UnknownArtifact
from ci_automation.flows.sync import sync
from ci_automation.flux.following import SyncSettings

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments


@click.command("sync-manifests", cls=HeadedCommand)
@click.argument("artifact")
@click.option("--name", help="the name of both objects; default: flux-manifests")
@click.option(
    "--secret", metavar="NAME", help="the Secret with the public key, or with the trusted root of your own Sigstore"
)
@click.option("--interval", help="how often the cluster looks; default: 10m")
@takes("components-file", *TRUST, "registry-config", *COMMON)
def command(artifact: str, name: str | None, secret: str | None, interval: str | None, given: Arguments) -> None:
    """Print the objects by which a cluster follows and verifies a channel.

    An OCIRepository whose verify block fits the signature, and a Kustomization. They hold nothing secret. The section
    `sync` of the configuration sets their other fields, and adds a pair for the fleet's own artifact.

    \b
    flux-manifests sync-manifests oci://ghcr.io/acme/flux-manifests:production --public-key cosign.pub
    """
    reference, ports = reading(artifact, given)
    settings = sync_settings(artifact, given)
    settings = replace(settings, name=settings.name if name is None else name, secret=secret, interval=interval)
    found = sync(reference, ports, settings, given.components_file)
    if given.output == "json":
        print_json({"apiVersion": "v1", "kind": "List", "items": [*found.objects()]})
        return
    print_text(found.to_yaml().rstrip("\n"))


def sync_settings(artifact: str, given: Arguments) -> SyncSettings:
    """Return the settings of the cluster's objects as they are configured for an artifact."""
    with suppress(UnknownArtifact):
        if config := configuration(given):
            return config.find(artifact).sync or SyncSettings()
    return SyncSettings()
