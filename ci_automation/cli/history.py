"""The command `history`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from ci_automation.artifact.digest import Digest
from ci_automation.attestation.record import format_time
from ci_automation.cli import options as shared
from ci_automation.cli.given import Given
from ci_automation.cli.output import print_json, print_table
from ci_automation.cli.target import reading
from ci_automation.flows.history import history
from ci_automation.report.text import Table, plain_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_automation.attestation.hold import HoldStatement
    from ci_automation.attestation.record import Record
    from ci_automation.flows.history import Entry


@click.command("history")
@click.argument("artifact")
@shared.trust
@shared.registry_config
@shared.common
def command(artifact: str, **options: Any) -> None:
    """List what was published, when, signed and approved by whom, and where the channels stand.

    The newest move of a channel comes first. When, why and by whom is in signed records and holds; those that nobody
    trusted signed are left out, and what they would say is not known then.

    \b
    flux-manifests history oci://ghcr.io/acme/flux-manifests:production --public-key cosign.pub
    """
    given = Given.of(options)
    reference, ports = reading(artifact, given)
    found = history(reference, ports)
    if given.output == "json":
        print_json([_to_json(entry) for entry in found.entries])
    else:
        rows = (row for _, _, row in sorted(table_rows(found.entries), key=lambda it: it[:2], reverse=True))
        print_table(Table(_HEAD, tuple(tuple(plain_text(cell) for cell in row) for row in rows)))
    if found.left_out:
        click.echo(f"{found.left_out} more tags were not read: nobody has so many. Delete what is not yours.", err=True)


_HEAD = ("version", "immutable tag", "digest", "signed", "when", "what", "by", "approved", "run", "here now")
_UNKNOWN = "not known"
_KEY = re.compile(r"sha256:[0-9a-f]{64}")


def table_rows(entries: Sequence[Entry]) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yield each move of a channel and each hold, with its moment and its place among those that have none."""
    for place, entry in enumerate(entries):
        what = [(it.at, _move(it), _by(it), _approval(it), it.run or "") for it in entry.records]
        what += [(it.at, _hold(it), _by(it), "", it.run or "") for it in entry.holds]
        common = (str(entry.version or "unknown"), entry.tag or "", str(entry.digest), entry.signed)
        if not what:
            row = (*common, *[_UNKNOWN] * 5, ", ".join(entry.channels))
            yield "", -place, row
        for at, *said in what:
            here = ", ".join(entry.channels) if at == max(it[0] for it in what) else ""
            yield format_time(at), -place, (*common, f"{at:%Y-%m-%d %H:%M}", *said, here)


def _move(record: Record) -> str:
    if record.rolled_back:
        return f"rolled back to by {record.channel}"
    if record.promoted_from:
        return f"promoted to {record.channel} from {record.promoted_from}"
    return f"published to {record.channel}"


def _by(said: Record | HoldStatement) -> str:
    """Return who signed it, as short as it is still told apart: a part of the key's digest, or the subject alone."""
    if _KEY.fullmatch(said.by):
        return f"key {Digest.parse(said.by).short}"
    return said.by.partition(" (issuer ")[0].removeprefix("https://")


def _approval(record: Record) -> str:
    if record.approval:
        return f"{record.approval.by} ({record.approval.how})"
    return _UNKNOWN if record.recovered else ""


def _hold(hold: HoldStatement) -> str:
    until = f"{hold.until:%Y-%m-%d %H:%M}" if hold.until else "a newer release"
    because = f": {hold.reason}" if hold.reason else ""
    return f"{hold.refused_version} on hold until {until} on {hold.channel}{because}"


def _to_json(entry: Entry) -> dict[str, Any]:
    return {
        "version": str(entry.version or "unknown"),
        "tag": entry.tag or "",
        "digest": str(entry.digest),
        "signed": entry.signed,
        "channels": list(entry.channels),
        "records": [record.to_json() for record in entry.records],
        "holds": [hold.to_json() for hold in entry.holds],
    }
