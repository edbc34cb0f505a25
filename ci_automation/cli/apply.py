"""The command `apply`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_automation.artifact.digest import Digest
from ci_automation.cli.output import print_aside
from ci_automation.cli.parameters import SIGNING, STEPS, HeadedCommand, takes
from ci_automation.cli.results import Result, finish
from ci_automation.cli.target import rendered
from ci_automation.cli.wiring import plan_target
from ci_automation.flows.apply import apply
from ci_automation.flows.files import read_plan_file

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments


@click.command("apply", cls=HeadedCommand)
@click.argument("plan_file", metavar="PLAN")
@click.option("--approve", multiple=True, metavar="DIGEST", help="approve the step that leads to exactly this digest")
@takes("exit-code", *SIGNING, *STEPS)
def command(plan_file: str, approve: tuple[str, ...], *, exit_code: bool, given: Arguments) -> int:
    """Do exactly what a plan says.

    It begins at the first step whose base the channel has now, renders again, and refuses where base or target are
    not the plan's. A step that needs approval is done only with --approve and its target.

    \b
    flux-manifests apply plan.json --approve sha256:... --signing key --key cosign.key
    """
    approved = frozenset(Digest.parse(text) for text in approve)
    plan = read_plan_file(Path(plan_file))
    (goal,) = rendered((plan_target(plan, given),), print_aside)
    outcome = apply(plan, approved, goal.ports, goal.intent)
    return finish([Result(goal, outcome, None)], given, exit_code=exit_code, details=())
