"""The command `sbom`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_automation.cli.output import print_json, print_table
from ci_automation.cli.parameters import COMMON, TRUST, HeadedCommand, takes
from ci_automation.cli.wiring import reading
from ci_automation.flows.attachments import stated
from ci_automation.records.sbom import PREDICATE_TYPE, spdx
from ci_automation.report.text import Table

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments


@click.command("sbom", cls=HeadedCommand)
@click.argument("artifact")
@click.option("--spdx", "as_spdx", is_flag=True, help="with --output json: SPDX 2.3, in place of CycloneDX 1.6")
@takes(*TRUST, "registry-config", *COMMON)
def command(artifact: str, *, as_spdx: bool, given: Arguments) -> None:
    """Print the list of an artifact's controllers (SBOM), as its trusted signer stated it.

    --output json prints the CycloneDX document that was signed, or the same in SPDX. `update --attestations` attaches
    it to what it publishes.

    \b
    flux-manifests sbom oci://ghcr.io/acme/flux-manifests:production --output json --spdx --public-key cosign.pub
    """
    reference, ports = reading(artifact, given)
    digest, said = stated(reference, PREDICATE_TYPE, "a list of the controllers", ports)
    document = said.statement.predicate
    if given.output == "json":
        print_json(spdx(document, digest) if as_spdx else dict(document))
        return
    listed = [(it["bom-ref"], it.get("version", ""), it.get("purl", it["name"])) for it in document["components"]]
    print_table(Table.plain(("controller", "version", "package"), listed))
