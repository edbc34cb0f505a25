"""The command `update`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_automation.cli.output import print_aside
from ci_automation.cli.parameters import SIGNING, STEPS, HeadedCommand, takes
from ci_automation.cli.results import EVERY, finish, for_each
from ci_automation.cli.target import rendered
from ci_automation.cli.wiring import targets
from ci_automation.flows.update import update
from ci_automation.policy.decision import Decision

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments


@click.command("update", cls=HeadedCommand)
@click.argument("artifact", required=False)
@takes("exit-code", *SIGNING, *STEPS, install_flags=True)
def command(artifact: str | None, *, exit_code: bool, given: Arguments) -> int:
    """Publish what the policy allows, and say what waits for a person.

    Without ARTIFACT, all artifacts of the configuration are updated. By default patches are published by themselves,
    minors wait for approval, majors are not taken. What is published is signed, and verified, before the channel
    moves.

    \b
    flux-manifests update oci://ghcr.io/acme/flux-manifests:production --signing key --key cosign.key
    """
    goals = rendered(targets(artifact, given), print_aside)
    results = for_each(goals, lambda goal: update(goal.channel, goal.ports, goal.intent))
    return finish(results, given, exit_code=exit_code, details=EVERY - {Decision.WAIT})  # `plan` has the rest
