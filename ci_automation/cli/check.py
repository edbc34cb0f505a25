"""The command `check`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from ci_automation.cli.output import print_aside
from ci_automation.cli.parameters import SIGNING, STEPS, WRITING_AS_IN, HeadedCommand, takes
from ci_automation.cli.results import finish, for_each, print_next
from ci_automation.cli.target import rendered
from ci_automation.cli.wiring import targets
from ci_automation.flows.observe import Placed, Trust
from ci_automation.flows.planning.plan import Outcome, make_plan

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments
    from ci_automation.cli.target import Target


@click.command("check", cls=HeadedCommand, as_in=WRITING_AS_IN)
@click.argument("artifact", required=False)
@click.option("--heal", is_flag=True, help="sign again a channel that lost its signature and is provably yours")
@takes("exit-code", *SIGNING, *STEPS, install_flags=True)
def command(artifact: str | None, *, heal: bool, exit_code: bool, given: Arguments) -> int:
    """Say whether a channel is current, and what could be done.

    Without ARTIFACT, all artifacts of the configuration are checked. Nothing is written, but with --heal. Where
    nothing is newer, the check costs two small reads from the registry and one from the source of releases, and does
    not look whether the channel was moved back; `verify` does. With versionTags it reads the list of tags too.

    \b
    flux-manifests check oci://ghcr.io/acme/flux-manifests:production --public-key cosign.pub
    """
    goals = rendered(targets(artifact, given, signs=heal), print_aside)
    results = for_each(goals, partial(_look, heal=heal))
    code = finish(results, given, exit_code=exit_code, details=())
    print_next(results, given)
    return code


def _look(goal: Target, *, heal: bool) -> Outcome:
    """Return what could be done with an artifact, after healing it if that is wanted."""
    if heal:
        from ci_automation.flows.update import heal as healed

        return healed(goal.channel, goal.ports, goal.intent)
    planned = make_plan(goal.channel, goal.ports, goal.intent)
    trusted = planned.observed.trust
    placed = isinstance(planned.observed, Placed) or trusted is not Trust.VERIFIED
    astray: tuple[str, ...] = ()
    if goal.intent.version_tags:
        from ci_automation.flows.publication.tags import VersionTags

        tags = VersionTags(goal.channel, planned.plan.current_version, goal.ports)
        astray = tuple(str(tag.tag) for tag in tags.astray(planned.plan.current))
    return Outcome(
        planned.plan,
        0,
        str(trusted),
        placed=placed,
        unmade=planned.unmade,
        vulnerable=planned.vulnerable,
        astray=astray,
    )
