"""The command `apply`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ci_automation.artifact.digest import Digest
from ci_automation.cli import options as shared
from ci_automation.cli.arguments import Arguments
from ci_automation.cli.output import print_aside
from ci_automation.cli.results import Result, finish
from ci_automation.cli.target import rendered
from ci_automation.cli.wiring import plan_target
from ci_automation.flows.apply import apply
from ci_automation.flows.files import read_plan_file


@click.command("apply")
@click.argument("plan_file", metavar="PLAN")
@click.option("--approve", multiple=True, metavar="DIGEST", help="approve the step that leads to exactly this digest")
@shared.exit_code
@shared.signing
@shared.allowances
@shared.clusters
@shared.pin_images
@shared.components_file
@shared.release_source
@shared.registry_config
@shared.common
def command(plan_file: str, approve: tuple[str, ...], *, exit_code: bool, **options: Any) -> int:
    """Do exactly what a plan says.

    It begins at the first step whose base the channel has now, renders again, and refuses where base or target are
    not the plan's. A step that needs approval is done only with --approve and its target.

    \b
    flux-manifests apply plan.json --approve sha256:... --signing key --key cosign.key
    """
    given = Arguments.of(options)
    approved = frozenset(Digest.parse(text) for text in approve)
    plan = read_plan_file(Path(plan_file))
    (goal,) = rendered((plan_target(plan, given),), print_aside)
    outcome = apply(plan, approved, goal.ports, goal.intent)
    return finish([Result(goal, outcome, None)], given, exit_code=exit_code, details=())
