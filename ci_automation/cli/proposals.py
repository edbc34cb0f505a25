"""The commands that a person may run next, printed below what a command found."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.cli.follow_up import (
    differing,
    flags,
    lifting,
    planned,
    repeated_options,
    signing_options,
    signs_elsewhere,
    whole,
)
from ci_automation.cli.output import TO_READ, print_aside, print_line, print_text
from ci_automation.errors import Error
from ci_automation.policy.decision import Decision
from ci_automation.policy.hold import is_held
from ci_automation.report.text import approval_commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_automation.cli.arguments import Arguments
    from ci_automation.cli.target import Target
    from ci_automation.flows.planning.plan import Outcome
    from ci_automation.policy.plan import PlannedStep

_ADOPTING = "To adopt it first (this shows every file of it, and asks):"


def name_adoption(goal: Target, error: Error, given: Arguments) -> None:
    """Print the whole command that adopts an unsigned digest, and let the hint of the error name it."""
    is_edited = not goal.is_promoted and _is_edited(goal)
    adopting = _updating(goal, replace(given, adopt=True, accept_edits=given.accept_edits or is_edited), begun=False)
    edits = " (its components differ from what Flux renders: the next step drops that)" if is_edited else ""
    print_aside(f"To adopt {goal.name}, if it is yours{edits}:\n{adopting}")
    error.hint = re.sub(r"`[^`]*update [^`]*--adopt`", "the command above", error.hint)


def _is_edited(goal: Target) -> bool:
    """Return whether the adoption of what a channel has would be refused because of edits by hand."""
    from ci_automation.flows.observe import look_at
    from ci_automation.flows.planning.base import read_base
    from ci_automation.flux.recover import EditedByHand, MadeByAnotherTool

    try:
        read_base(look_at(goal.channel, goal.ports), goal.ports, goal.intent)
    except (EditedByHand, MadeByAnotherTool):
        return True
    except Error:  # which the adoption tells
        return False
    return False


def print_proposals(
    goal: Target,
    run: Outcome,
    given: Arguments,
    shown: Sequence[PlannedStep],
    plan_file: str | None,
    *,
    says_next: bool,
) -> None:
    """Print how to read all of the steps that were `shown`, and how to do or to approve those that wait."""
    again = _again(given, run)
    repeated = repeated_options(again, begun=bool(run.done))
    planning = (*planned(goal, given), *flags(given), *repeated)
    applying = (*signing_options(goal, given), *repeated)
    reads = bool(shown) and not given.verbose
    commands = approval_commands(goal.name, run.waiting, (*(["-v"] if reads else []), *planning), applying, plan_file)
    makes_plan = bool(commands) and not (plan_file or run.unsigned)  # which shows all of what waits
    reading = _reading(goal, run, given, shown, writes=says_next, makes_plan=makes_plan) if reads else ()
    if reading:
        print_text("\n".join((TO_READ, *reading)))
    if run.unsigned:
        print_text(f"{_ADOPTING}\n{_updating(goal, replace(given, adopt=True), begun=False)}")
        return
    if says_next and run.waiting and run.waiting[0].decision is Decision.AUTO:
        what = _ADOPTING if again.adopt else f"To publish {run.waiting[0].new_version}:"
        print_text(f"{what}\n{_updating(goal, again, begun=bool(run.done))}")
    if any(it.held for it in run.plan.passed_over) or any(is_held(step.gates) for step in run.waiting):
        print_lifting(goal, given)
    if commands:
        print_text(f"To approve:\n{commands}")


def print_lifting(goal: Target, given: Arguments) -> None:
    """Print how to end the hold that keeps a step or a promotion back."""
    if signs_elsewhere(goal, given):
        print_line(f"To lift the hold, start flux.yaml in GitHub Actions: lift-hold, {goal.name}.")
    else:
        print_text(f"To lift the hold:\n{shlex.join(lifting(goal, given))}")


def _reading(
    goal: Target, run: Outcome, given: Arguments, shown: Sequence[PlannedStep], *, writes: bool, makes_plan: bool
) -> Sequence[str]:
    """Return the commands that show every line of these steps; one that writes is not run again for that.

    The command that `makes_plan` for an approval shows every line of what waits, and is printed below.
    """
    if not writes:
        return () if makes_plan else (whole(),)
    published = [it for it in shown if it in run.plan.steps[: run.done]]
    found = [differing(goal, published[0].base, published[-1].target, given)] if published else []
    if len(published) < len(shown) and not makes_plan:
        repeated = repeated_options(_again(given, run), begun=bool(run.done))
        options = (*planned(goal, given), *flags(given), *repeated)
        found.append(shlex.join(("flux-manifests", "plan", "-v", goal.name, *options)))
    return found


def _again(given: Arguments, run: Outcome) -> Arguments:
    """Return the options of the next run: what is trusted is adopted no more."""
    return replace(given, adopt=given.adopt and not run.healed and run.trust != "verified")


def _updating(goal: Target, given: Arguments, *, begun: bool) -> str:
    options = (*signing_options(goal, given), *flags(given), *repeated_options(given, begun=begun))
    return shlex.join(("flux-manifests", "update", goal.name, *options))
