"""The command `provenance`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_automation.cli.output import print_json, print_table, print_text
from ci_automation.cli.parameters import COMMON, TRUST, HeadedCommand, takes
from ci_automation.cli.wiring import reading
from ci_automation.flows.attachments import stated
from ci_automation.records.provenance import PREDICATE_TYPE
from ci_automation.report.text import Table

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments


@click.command("provenance", cls=HeadedCommand)
@click.argument("artifact")
@takes(*TRUST, "registry-config", *COMMON)
def command(artifact: str, given: Arguments) -> None:
    """Print how an artifact was made, as its trusted signer stated it (SLSA v1).

    The table has each input with its digest; --output json prints all that was signed. `update --attestations` attaches
    it to what it publishes.

    \b
    flux-manifests provenance oci://ghcr.io/acme/flux-manifests:production --public-key cosign.pub
    """
    reference, ports = reading(artifact, given)
    digest, said = stated(reference, PREDICATE_TYPE, "provenance", ports)
    predicate = said.statement.predicate
    if given.output == "json":
        print_json(dict(predicate))
        return
    build = predicate["buildDefinition"]
    parameters = build["externalParameters"]
    signer = f"the key {said.by}" if said.by.startswith("sha256:") else said.by
    print_text(f"{digest} is Flux {parameters['flux']} for {parameters['artifact']}, as {signer} states.")
    inputs = [
        (it["name"], it.get("uri", ""), f"sha256:{it['digest']['sha256']}") for it in build["resolvedDependencies"]
    ]
    print_table(Table.plain(("made from", "where", "digest"), inputs))
