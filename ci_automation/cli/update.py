"""The command `update`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_automation.cli.output import print_aside
from ci_automation.cli.parameters import SIGNING, STEPS, HeadedCommand, takes
from ci_automation.cli.results import EVERY, finish, for_each, print_next
from ci_automation.cli.target import rendered
from ci_automation.cli.wiring import targets
from ci_automation.flows.update import adopt, update
from ci_automation.policy.decision import Decision

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments
    from ci_automation.cli.target import Target
    from ci_automation.flows.planning.plan import Outcome


@click.command("update", cls=HeadedCommand)
@click.argument("artifact", required=False)
@takes("exit-code", *SIGNING, *STEPS, install_flags=True)
def command(artifact: str | None, *, exit_code: bool, given: Arguments) -> int:
    """Publish what the policy allows, and say what needs approval.

    Without ARTIFACT, all artifacts of the configuration are updated. By default patches are published by themselves,
    minors need approval, majors are not taken. What is published is signed, and verified, before the channel
    moves. A run that adopts a digest (--adopt) signs and records it, and publishes nothing; the next run does.

    \b
    flux-manifests update oci://ghcr.io/acme/flux-manifests:production --signing key --key cosign.key
    """
    goals = targets(artifact, given)
    if not (artifact and given.adopt):
        goals = rendered(goals, print_aside)
    results = for_each(goals, _update_or_adopt)
    code = finish(results, given, exit_code=exit_code, details=EVERY - {Decision.WAIT})  # `plan` has the rest
    print_next(results, given)
    return code


def _update_or_adopt(goal: Target) -> Outcome:
    flow = adopt if goal.is_promoted else update
    return flow(goal.channel, goal.ports, goal.intent)
