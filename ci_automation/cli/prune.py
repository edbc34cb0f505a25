"""The command `prune`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from ci_automation.cli.arguments import Arguments, configuration
from ci_automation.cli.output import print_json, print_table, print_text
from ci_automation.cli.parameters import COMMON, TRUST, HeadedCommand, artifact_argument, takes
from ci_automation.cli.wiring import reading
from ci_automation.flows.prune import ChannelRemains, Deleted, Survey, prune, survey
from ci_automation.policy.model import duration
from ci_automation.policy.retention import Stored, Window
from ci_automation.report.blocks import Table


@click.command("prune", cls=HeadedCommand)
@artifact_argument("artifact")
@click.option("--keep-last", type=int, default=10, show_default=True, metavar="N", help="how many of the newest stay")
@click.option("--keep-for", metavar="TIME", help="keep all that a channel had within this time too, such as 90d")
@click.option("--gone", multiple=True, metavar="CHANNEL", help="a channel that you deleted: what it had last may go")
@click.option("--apply", "apply", is_flag=True, help="delete; without it nothing is")
@takes(*TRUST, "registry-config", *COMMON)
def prune_command(
    artifact: str, *, keep_last: int, keep_for: str | None, gone: tuple[str, ...], apply: bool, given: Arguments
) -> None:
    """List which old artifacts of a repository nothing needs, and delete them on request.

    What a channel has, or had last by its records, and what any other tag leads to stays, with its signatures and all
    that refers to it; so do the newest, what no trusted signer signed, and what no signed record names. Signatures and
    records of what is deleted go with it. Not every registry allows it.

    A channel whose tag was deleted keeps what it had last, and the holds on it, for an attacker can delete a tag.
    If you deleted it yourself, say so with --gone, once for each.

    \b
    flux-manifests prune oci://ghcr.io/acme/flux-manifests --keep-last 10 --keep-for 90d --public-key cosign.pub
    """
    window = Window(keep_last, duration(keep_for) if keep_for else None)
    reference, ports = reading(artifact, given)
    config = configuration(given)
    for it in config.artifacts if config else ():
        if it.channel.repository == reference.repository and it.channel.tag in gone:
            raise ChannelRemains(it.channel, f"the configuration has it as {it.name}")
    found = survey(reference, window, ports, datetime.now(UTC), gone)
    if given.output == "text":
        _print_survey(found)
    done = tuple(prune(found, ports)) if apply else ()
    if given.output == "json":
        print_json(_to_json(found, done, applied=apply), "prune")
    elif done:
        print_table(Table(("deleted", "digest", ""), tuple(_row(each) for each in done)))
    elif not (found.goes or found.leftovers):
        print_text("Nothing is to be deleted.")
    else:
        print_text("Nothing was deleted: --apply does it.")


def _print_survey(found: Survey) -> None:
    rows = [("goes", it.tag, str(it.digest), "nothing needs it") for it in found.goes]
    rows += [("goes", "", str(it), "it is gone, and what was attached to it is not") for it in found.leftovers]
    rows += [("stays", it.artifact.tag, str(it.artifact.digest), it.reason) for it in found.kept]
    print_table(Table(("", "tag", "digest", "because"), tuple(rows)))


def _row(each: Deleted) -> tuple[str, str, str]:
    kept = f"kept: {', '.join(each.kept_by)} names it by now" if each.kept_by else ""
    return each.what, str(each.digest), kept


def _to_json(found: Survey, done: tuple[Deleted, ...], *, applied: bool) -> dict[str, Any]:
    return {
        "repository": str(found.repository.repository),
        "applied": applied,
        "goes": [_stored(it) for it in found.goes],
        "leftovers": [str(it) for it in found.leftovers],
        "stays": [{**_stored(it.artifact), "because": it.reason} for it in found.kept],
        "deleted": [{"what": it.what, "digest": str(it.digest)} for it in done if not it.kept_by],
        "keptAfterAll": [{"digest": str(it.digest), "tags": list(it.kept_by)} for it in done if it.kept_by],
    }


def _stored(it: Stored) -> dict[str, Any]:
    at = it.at.isoformat() if it.at else None
    return {"tag": it.tag, "version": str(it.version), "digest": str(it.digest), "lastOnAChannel": at}
