"""The command `rollback`."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from ci_automation.artifact.reference import LayoutDirectory
from ci_automation.cli.arguments import Arguments, ContradictingOptions, configuration
from ci_automation.cli.follow_up import as_named, differing, lifting, looking, whole
from ci_automation.cli.output import confirmed, print_json, print_line, print_parts, print_reading, print_text
from ci_automation.cli.parameters import CLUSTERS, COMMON, SIGNING, HeadedCommand, one_artifact_argument, takes
from ci_automation.cli.places import registry
from ci_automation.cli.target import channel_of
from ci_automation.cli.wiring import target
from ci_automation.errors import Error, PolicyRefused, UsageError
from ci_automation.flows.observe import look_at
from ci_automation.flows.publication.past import NotInHistory
from ci_automation.flows.rollback import RollbackProposal, RollbackRefused, Wish, propose_rollback, roll_back
from ci_automation.flux.artifact import immutable_version, stated_version
from ci_automation.net.waiting import at_once
from ci_automation.policy.decision import Decision
from ci_automation.records.notes import MAX_TEXT, is_fit
from ci_automation.registry import open_registry
from ci_automation.registry.port import NotFound
from ci_automation.report.blocks import MarkedLine
from ci_automation.report.rollback import Rollback, hold_json, rollback_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from click.shell_completion import CompletionItem

    from ci_automation.artifact.reference import Digest
    from ci_automation.cli.target import Target
    from ci_automation.config.sections import Artifact
    from ci_automation.flux.version import Version
    from ci_automation.policy.decision import Hold

_SIGNING = tuple(name for name in SIGNING if name != "accept-identity-change")  # with which no run would see the hold


class NotConfirmed(PolicyRefused):
    """No person confirmed a rollback, or the end of a hold."""

    hint = "Nothing was changed. Answer yes at a terminal, or add --yes in a job."

    def __init__(self, what: str, *, said_no: bool) -> None:
        super().__init__(f"{what}: {'the answer was no' if said_no else 'no person confirmed it'}")
        if said_no:
            self.hint = "Nothing was changed."


class UnfitReason(UsageError):
    """The reason for a rollback cannot be written into a hold."""

    hint = f"Give one line of text, of no more than {MAX_TEXT} characters."
    message = "the --reason is too long, or has characters that cannot be printed"


class SeveralHolds(UsageError):
    """Several holds are on a channel, and no person says which of them to lift."""

    hint = "Name one with --to. At a terminal, without --yes, you can lift all of them."

    def __init__(self, name: str, holds: Sequence[Hold]) -> None:
        super().__init__(f"{len(holds)} holds are on {name}: {', '.join(it.told for it in holds)}")


class DateHasPassed(UsageError):
    """A hold is to last until a moment that has passed."""

    hint = "Give a later date. To end a hold now, use --lift."

    def __init__(self, until: datetime) -> None:
        super().__init__(f"--until {until:%Y-%m-%d} has passed: a date counts from its first minute, in UTC")


class _Date(click.ParamType[datetime]):
    """A day of the calendar, as its first moment in UTC."""

    name = "date"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the moment, or end with how to write a date."""
        try:
            return datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC)
        except ValueError:
            self.fail(f"{value!r} is not a date: write one such as 2027-01-31", param, ctx)


def _tags_here(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the immutable tags beside a channel that begin so, if it is in a directory: no registry is asked."""
    from click.shell_completion import CompletionItem

    # Before an option has its value, click leaves the arguments of the line as they are.
    artifact = ctx.params.get("artifact") or next(iter(ctx.args), "")
    try:
        channel = channel_of(artifact, configuration(Arguments(config=ctx.params.get("config"))))
        is_here = isinstance(channel.repository, LayoutDirectory)
        tags = open_registry(channel).tags(channel) if is_here else ()
    except (Error, OSError):
        tags = ()
    found = [CompletionItem(tag) for tag in tags if tag.startswith(incomplete) and immutable_version(tag)]
    return found or [CompletionItem(incomplete, type="none")]  # a shell would offer files


@click.command("rollback", cls=HeadedCommand)
@one_artifact_argument()
@click.option(
    "--to",
    default="",
    metavar="WHAT",
    shell_complete=_tags_here,
    help="a version, an immutable tag, or a digest that it had before, whole or its first 12 characters; with --lift, "
    "the hold on which of these ends",
)
@click.option("--lift", is_flag=True, help="end the hold on what was left; the channel stays where it is")
@click.option("--until", type=_Date(), metavar="DATE", help="hold what is left until then (UTC)")
@click.option("--reason", default="", metavar="TEXT", help="why; the hold shows it")
@click.option("--yes", "-y", is_flag=True, help="go back, or lift, without being asked, for jobs")
@takes("acknowledge", "allow-removal", *_SIGNING, *CLUSTERS, "components-file", "registry-config", *COMMON)
def rollback_command(
    artifact: str,
    *,
    to: str,
    lift: bool,
    until: datetime | None,
    reason: str,
    yes: bool,
    given: Arguments,
) -> None:
    """Move a channel back to what it had before, and hold what it leaves.

    It first shows what that changes and breaks in clusters, and asks. A certain break, such as a CRD whose storage
    version would go, is refused until it is acknowledged. Nothing is rendered: clusters get the bytes that they had.
    A signed hold keeps schedules and old approvals from bringing back what was left, until a newer release is there,
    or until a date. Repeat the command after a crash; with another --until or --reason it changes the hold. --lift
    shows it, asks, and ends it: the next run of `update` may take again what was left. Where someone moved the tag back
    without a record, --to puts it at the newer digest that the channel had last, and holds nothing.

    \b
    flux-manifests rollback oci://ghcr.io/acme/flux-manifests:production --to v2.8.8 --reason "webhooks time out"
    flux-manifests rollback production --to v2.8.8 --signing keyless
    flux-manifests rollback oci://ghcr.io/acme/flux-manifests:production --lift --reason "fixed on our side"
    flux-manifests rollback production --lift --to v2.9.4
    """
    if not is_fit(reason):
        raise UnfitReason
    moving = {"until": until, "acknowledge": given.acknowledge, "allow-removal": given.allow_removal}
    if lift and (contradiction := _contradiction(moving)):
        raise ContradictingOptions(contradiction, "Leave out one of them.")
    wish = Wish(to, _to_come(until), reason)
    goal = target(artifact, given)
    try:
        (_lift if lift else _roll_back)(goal, wish, given, asks=not yes)
    except Error as error:
        if not isinstance(goal.prepared, Error):
            error.hint = as_named(goal, given, error.hint)
        raise


def _roll_back(goal: Target, wish: Wish, given: Arguments, *, asks: bool) -> None:
    """Show what a rollback does, ask, and carry it out."""
    try:
        proposal = propose_rollback(goal.channel, wish, goal.ports, goal.intent)
    except NotInHistory as error:
        if not wish.to:
            error.hint = f"Add --to, or end a hold alone with --lift. {error.hint}"
        raise
    _show(proposal.shown, goal, given, asks=asks)
    if proposal.shown.decision is Decision.REFUSED:
        raise RollbackRefused(proposal.shown)
    question = "Change the hold?" if proposal.shown.is_there else "Put it back?" if proposal.stray else "Go back?"
    if asks and _needs_a_yes(proposal) and not (answer := confirmed(question)):
        raise NotConfirmed(f"{goal.name} was not rolled back", said_no=answer is False)
    roll_back(proposal, goal.ports, goal.intent)
    if given.output == "json":
        print_json({**proposal.shown.to_json(), "changed": not proposal.shown.is_there}, "rollback")
    elif not proposal.shown.is_there:
        done = "Put back" if proposal.stray else "Rolled back"
        print_line(f"{done}: {goal.name} is at {proposal.shown.target_version}.")
    elif proposal.holds:
        print_line("The hold is changed.")


def _to_come(until: datetime | None) -> datetime | None:
    """Return the date of --until as a moment; raise `DateHasPassed` if it is over."""
    if until and until <= datetime.now(UTC):
        raise DateHasPassed(until)
    return until


def _contradiction(moving: Mapping[str, object]) -> str:
    """Return what does not go together with --lift, or nothing."""
    others = [name for name, value in moving.items() if value]
    return f"--lift moves nothing, so --{others[0]} does not go with it" if others else ""


def _ask_to_lift(goal: Target, holds: Sequence[Hold], *, asks: bool) -> None:
    """Show the holds that are to end, and ask."""
    if holds[1:] and not asks:
        raise SeveralHolds(goal.name, holds)
    for hold in holds:
        why = f": {hold.reason}" if hold.reason else ""
        print_parts([MarkedLine(f"Now: {hold.told} is on hold {hold.end}{why}")], err=True)
    whose = "their" if holds[1:] else "its"
    print_parts([MarkedLine(f"After the lift {whose} gates decide again.")], err=True)
    if holds[1:]:
        print_parts([MarkedLine("To lift one of them alone, name it with --to.")], err=True)
    question = f"Lift {f'these {len(holds)} holds' if holds[1:] else 'the hold'}?"
    if asks and not (answer := confirmed(question)):
        raise NotConfirmed(f"no hold on {goal.name} was lifted", said_no=answer is False)


def _lift(goal: Target, wish: Wish, given: Arguments, *, asks: bool) -> None:
    """End the holds of a channel, or the one that is named."""
    from ci_automation.flows.lift import hold_to_lift, left_hold, lift

    only = None
    if wish.to:
        goal.ports.require_trusted()
        only, _ = hold_to_lift(look_at(goal.channel, goal.ports), wish.to, goal.ports, goal.intent)
    ask = partial(_ask_to_lift, goal, asks=asks)
    lifted = lift(goal.channel, wish.reason, goal.ports, goal.intent, only, ask)
    if given.output == "json":
        value = {"artifact": str(lifted.channel), "digest": str(lifted.digest), "changed": bool(lifted.holds)}
        print_json({**value, "lifted": [hold_json(hold) for hold in lifted.holds]}, "lift")
        return
    for hold in lifted.holds:
        print_line(f"The hold on {hold.told} on {goal.name} is lifted.")
    if not lifted.holds:
        print_line(f"Nothing to do: no hold is on {goal.name}, which is at {lifted.digest}.")
    for digest, hold in lifted.elsewhere:
        print_line(left_hold(digest, hold))
    if lifted.holds:
        print_text(f"To see what comes next:\n{looking(goal, given, plans=True)}")


def _needs_a_yes(proposal: RollbackProposal) -> bool:
    """Return whether there is something to say yes to: finishing what was begun needs none."""
    return not proposal.shown.is_there or bool(proposal.holds)


def _show(shown: Rollback, goal: Target, given: Arguments, *, asks: bool) -> None:
    """Print what is proposed: where the output is for programs, on standard error."""
    parts = (*rollback_parts(shown, lifting(goal, given), name=goal.name, every=given.verbose),)
    print_parts(parts, err=given.output != "text")
    if given.output == "text" and not shown.problem:
        print_reading(parts, differing(goal, shown.base, shown.target, given))
    elif given.output == "text" and asks:  # `diff` takes no untrusted digest
        print_reading(parts, whole())
    print_parts(map(MarkedLine, elsewhere(shown, given)), err=given.output != "text")


def elsewhere(shown: Rollback, given: Arguments) -> Iterator[str]:
    """Yield which other channels of the configuration have what this one leaves: one read of each tag, all at once."""
    config = None if shown.is_there or shown.puts_back else configuration(given)
    others = [it for it in config.artifacts if it.channel != shown.channel] if config else []
    version = None if shown.problem or shown.base_version == shown.target_version else shown.base_version
    found = at_once(*(partial(_has, it, shown.base, version, given) for it in others)) if others else []
    having = [it.name for it, has in zip(others, found, strict=True) if has is True]
    for it, error in zip(others, found, strict=True):
        if isinstance(error, Error):
            yield f"{it.name} could not be looked at: {error}"
    if having:
        what = version or f"digest {shown.base.short}"
        yield f"{' and '.join(having)} {'have' if having[1:] else 'has'} {what} too: roll back each channel by itself."


def _has(it: Artifact, left: Digest, version: Version | None, given: Arguments) -> bool | Error:
    """Return whether a channel has a digest, or any other with the version; or why that is not known."""
    try:
        manifest = registry(it.channel, it, given).manifest(it.channel)
    except NotFound:
        return False
    except Error as error:
        return error
    return manifest.digest == left or (version is not None and stated_version(manifest) == version)
