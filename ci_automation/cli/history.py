"""The command `history`."""

from __future__ import annotations

from typing import Any

import click

from ci_automation.cli import options as shared
from ci_automation.cli.given import Given
from ci_automation.cli.output import print_json, print_table
from ci_automation.cli.target import reading
from ci_automation.flows.history import history
from ci_automation.report.text import Table, plain_text


@click.command("history")
@click.argument("artifact")
@shared.trusted_key
@shared.registry_config
@shared.common
def command(artifact: str, **options: Any) -> None:
    """List what was published, signed by whom, and where the channels stand.

    \b
    flux-manifests history oci://ghcr.io/acme/flux-manifests:production --public-key cosign.pub
    """
    given = Given.of(options)
    reference, ports = reading(artifact, given)
    entries = history(reference, ports)
    rows = [
        (str(entry.version or "unknown"), entry.tag or "", str(entry.digest), entry.signed, ", ".join(entry.channels))
        for entry in entries
    ]
    if given.output == "json":
        names = ("version", "tag", "digest", "signed")
        values = [
            {**dict(zip(names, row, strict=False)), "channels": list(entry.channels)}
            for row, entry in zip(rows, entries, strict=True)
        ]
        print_json(values)
        return
    print_table(
        Table(
            ("version", "immutable tag", "digest", "signed", "channels"),
            tuple(tuple(plain_text(cell) for cell in row) for row in rows),
        )
    )
