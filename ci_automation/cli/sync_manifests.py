"""The command `sync-manifests`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_automation.cli.output import print_json, print_text
from ci_automation.cli.parameters import COMMON, TRUST, takes
from ci_automation.cli.wiring import reading
from ci_automation.flows.sync import sync

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments


@click.command("sync-manifests")
@click.argument("artifact")
@click.option("--name", default="flux-manifests", show_default=True, help="the name of both objects")
@click.option(
    "--secret", metavar="NAME", help="the Secret with the public key, or with the trusted root of your own Sigstore"
)
@click.option("--interval", default="10m", show_default=True, help="how often the cluster looks")
@takes("components-file", *TRUST, "registry-config", *COMMON)
def command(artifact: str, name: str, secret: str | None, interval: str, given: Arguments) -> None:
    """Print the objects by which a cluster follows and verifies a channel.

    An OCIRepository whose verify block fits the signature, and a Kustomization. They hold nothing secret.

    \b
    flux-manifests sync-manifests oci://ghcr.io/acme/flux-manifests:production --public-key cosign.pub
    """
    reference, ports = reading(artifact, given)
    found = sync(reference, ports, name=name, interval=interval, secret=secret, components_file=given.components_file)
    if given.output == "json":
        print_json({"apiVersion": "v1", "kind": "List", "items": [*found.objects()]})
        return
    print_text(found.to_yaml().rstrip("\n"))
