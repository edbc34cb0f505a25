"""The command `discover`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_automation.cli.output import print_json, print_table, print_text
from ci_automation.cli.parameters import COMMON, HeadedCommand, takes
from ci_automation.cli.wiring import reading
from ci_automation.flows.attachments import attached_files, discover
from ci_automation.flows.files import write_tree
from ci_automation.report.text import Table, plain_text

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments
    from ci_automation.flows.attachments import Attachment


# The same in each bundle, or in each attachment that a tool makes.
_WITHOUT_NEWS = ("dev.sigstore.bundle.content", "org.opencontainers.image.created")


@click.command("discover", cls=HeadedCommand)
@click.argument("artifact")
@click.option("--type", "kind", metavar="TYPE", help="only this type")
@click.option("--folder", metavar="DIR", help="write the files here, to a new or empty folder")
@takes("registry-config", *COMMON)
def command(artifact: str, *, kind: str | None, folder: str | None, given: Arguments) -> None:
    """List what is attached to an artifact: bundles, records, SBOMs, and files and notes of any user.

    Nothing of it is verified: a user who can write to the repository can attach something. `verify`, `history`,
    `provenance` and `sbom` say what trusted signers stated. The signatures at cosign's tags (.sig) are not listed;
    `verify` reads them.

    \b
    flux-manifests discover oci://ghcr.io/acme/flux-manifests:production --type application/vnd.acme.readme --folder out
    """
    reference, ports = reading(artifact, given)
    found = discover(reference, ports, kind)
    if folder is not None:
        write_tree(attached_files(reference, found.attachments, ports), Path(folder))
    if given.output == "json":
        attachments = [it.to_json() for it in found.attachments]
        print_json({"artifact": str(reference), "digest": str(found.digest), "attachments": attachments}, "discover")
    elif found.attachments:
        print_table(Table.plain(("type", "what", "digest"), map(_row, found.attachments)))
        if folder is not None:
            print_text(f"The files are in {plain_text(folder)}, in one folder for each attachment.")
    else:
        print_text(f"Nothing{f' of type {kind}' if kind else ''} is attached to {found.digest}.")
    if found.left_out:
        click.echo(f"{found.left_out} more attachments were not read.", err=True)


def _row(each: Attachment) -> tuple[str, str, str]:
    told = [f"{name} ({layer.size} bytes)" for name, layer in each.named()]
    told += [f"{key}={value}" for key, value in sorted(each.annotations.items()) if key not in _WITHOUT_NEWS]
    return each.kind, each.problem or ", ".join(told), str(each.digest)
