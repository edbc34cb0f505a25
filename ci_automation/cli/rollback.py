"""The command `rollback`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ci_automation.attestation.hold import MAX_TEXT, is_fit
from ci_automation.cli import options as shared
from ci_automation.cli.given import Given
from ci_automation.cli.output import confirmed, done_with_progress, print_json, print_parts, print_text
from ci_automation.cli.target import target
from ci_automation.errors import PolicyRefused, UsageError
from ci_automation.flows.rollback import RollbackRefused, Wish, propose, roll_back
from ci_automation.policy.decision import Decision
from ci_automation.report.changes import Line
from ci_automation.report.rollback import rollback_parts

if TYPE_CHECKING:
    from ci_automation.flows.rollback import Proposal
    from ci_automation.report.rollback import Rollback


class NotConfirmed(PolicyRefused):
    """Nobody said yes to what a rollback does."""

    hint = "Nothing was changed. Answer yes at a terminal, or add --yes where nobody can be asked."

    def __init__(self, rollback: Rollback) -> None:
        super().__init__(f"{rollback.channel} was not rolled back: nobody said yes")


class UnfitReason(UsageError):
    """The reason for a rollback cannot be written into a hold."""

    hint = f"Give one line of text, of no more than {MAX_TEXT} characters."

    def __init__(self) -> None:
        super().__init__("the --reason is too long, or has characters that cannot be printed")


@click.command("rollback")
@click.argument("artifact")
@click.option("--to", required=True, metavar="WHAT", help="a version, an immutable tag, or a digest that it had before")
@click.option("--until", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="hold what is left until then (UTC)")
@click.option("--reason", default="", metavar="TEXT", help="why; whoever meets the hold is told")
@click.option("--acknowledge", multiple=True, metavar="FINGERPRINT", help="accept what breaks, once; may be repeated")
@click.option("--yes", is_flag=True, help="go back without being asked, for jobs")
@click.option(
    "--allow-removal", is_flag=True, help="let controllers and CRDs vanish; pruning a CRD deletes its objects"
)
@shared.signing
@shared.clusters
@shared.components_file
@shared.registry_config
@shared.common
def command(artifact: str, *, yes: bool, **options: Any) -> None:
    """Move a channel back to what it had before, and hold what it leaves.

    It first shows what that changes and breaks in clusters, and asks. A certain break, such as a CRD whose storage
    version would go, is refused until it is acknowledged. Nothing is rendered: clusters get the bytes that they had.
    A signed hold keeps schedules and old approvals from bringing back what was left, until a newer release is there,
    or until a date. Repeat the command after a crash; with another --until or --reason it changes the hold.

    \b
    flux-manifests rollback oci://ghcr.io/acme/flux-manifests:production --to v2.8.8 --reason "webhooks time out"
    """
    given = Given.of(options)
    if not is_fit(options["reason"]):
        raise UnfitReason
    until: datetime | None = options["until"]
    wish = Wish(options["to"], until.replace(tzinfo=UTC) if until else None, options["reason"], options["acknowledge"])
    goal = target(artifact, given)
    proposal = propose(goal.channel, wish, goal.ports, goal.intent)
    _show(proposal.shown, given)
    if proposal.shown.decision is Decision.REFUSED:
        raise RollbackRefused(proposal.shown)
    if not yes and _asks(proposal) and not confirmed("Go back?"):
        raise NotConfirmed(proposal.shown)
    roll_back(proposal, goal.ports, goal.intent)
    if given.output == "json":
        print_json({**proposal.shown.to_json(), "changed": not proposal.shown.is_there})
    elif not proposal.shown.is_there:
        print_text(f"Rolled back: {proposal.shown.channel} is at {proposal.shown.target_version}.")


def _asks(proposal: Proposal) -> bool:
    """Return whether there is something to say yes to: finishing what was begun needs none."""
    return not proposal.shown.is_there or bool(proposal.holds)


def _show(shown: Rollback, given: Given) -> None:
    """Print what is proposed: where the output is for programs, on standard error."""
    parts = rollback_parts(shown, every=given.verbose)
    if given.output == "text":
        print_parts(parts)
        return
    done_with_progress()
    for part in parts:
        click.echo(part.text if isinstance(part, Line) else part.to_text(), err=True)
