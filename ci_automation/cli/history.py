"""The command `history`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ci_automation.cli import options as shared
from ci_automation.cli.given import Given
from ci_automation.cli.output import print_json, print_table
from ci_automation.cli.target import reading
from ci_automation.flows.history import history
from ci_automation.report.text import Table, plain_text

if TYPE_CHECKING:
    from ci_automation.flows.history import Entry


@click.command("history")
@click.argument("artifact")
@shared.trust
@shared.registry_config
@shared.common
def command(artifact: str, **options: Any) -> None:
    """List what was published, when, signed and approved by whom, and where the channels stand.

    When and by whom is in signed records; those that nobody trusted signed are left out.

    \b
    flux-manifests history oci://ghcr.io/acme/flux-manifests:production --public-key cosign.pub
    """
    given = Given.of(options)
    reference, ports = reading(artifact, given)
    entries = history(reference, ports)
    if given.output == "json":
        print_json([_to_json(entry) for entry in entries])
        return
    head = ("version", "immutable tag", "digest", "signed", "channels", "published", "approved")
    print_table(Table(head, tuple(tuple(plain_text(cell) for cell in _row(entry)) for entry in entries)))


def _row(entry: Entry) -> tuple[str, ...]:
    """Return what a person wants to see; of the records the last one, which says how the digest came to be there."""
    last = entry.records[-1] if entry.records else None
    when = f"{last.at:%Y-%m-%d %H:%M} to {last.channel}" if last else ""
    approved = last.approval.by if last and last.approval else ""
    version, tag = str(entry.version or "unknown"), entry.tag or ""
    return version, tag, str(entry.digest), entry.signed, ", ".join(entry.channels), when, approved


def _to_json(entry: Entry) -> dict[str, Any]:
    return {
        "version": str(entry.version or "unknown"),
        "tag": entry.tag or "",
        "digest": str(entry.digest),
        "signed": entry.signed,
        "channels": list(entry.channels),
        "records": [record.to_json() for record in entry.records],
    }
