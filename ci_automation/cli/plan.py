"""The command `plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_automation.cli.output import print_aside, print_text
from ci_automation.cli.parameters import STEPS, TRUST, HeadedCommand, takes
from ci_automation.cli.results import Result, finish
from ci_automation.cli.target import rendered
from ci_automation.cli.wiring import target
from ci_automation.flows.files import write_file
from ci_automation.flows.planning.plan import Outcome, make_plan

if TYPE_CHECKING:
    from ci_automation.cli.arguments import Arguments


@click.command("plan", cls=HeadedCommand)
@click.argument("artifact")
@click.option("--out", metavar="FILE", help="write the plan to this file, for `apply`")
@takes("exit-code", *TRUST, *STEPS, install_flags=True)
def command(artifact: str, out: str | None, *, exit_code: bool, given: Arguments) -> int:
    """Make the plan for a channel; write nothing to the registry.

    The plan has every step with the digest that it starts from and the one that it leads to, what changes, and
    whether it happens by itself, needs approval, waits, or is refused. The same inputs give the same plan.

    \b
    flux-manifests plan oci://ghcr.io/acme/flux-manifests:production --public-key cosign.pub --out plan.json
    flux-manifests plan production --cluster-snapshot production-crds.json --objects apps
    """
    (goal,) = rendered((target(artifact, given, signs=False),), print_aside)
    planned = make_plan(goal.channel, goal.ports, goal.intent)
    if out is not None:
        write_file(Path(out), planned.plan.to_text().encode())
    trust = str(planned.observed.trust)
    outcome = Outcome(
        planned.plan, 0, trust, releases=planned.releases, unmade=planned.unmade, vulnerable=planned.vulnerable
    )
    code = finish([Result(goal, outcome, None)], given, exit_code=exit_code, plan_file=out)
    if out is not None and given.output == "text":
        print_text(f"The plan is in {out}.")
    return code
