"""The command `action`: what the container of the GitHub Action runs."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ci_automation.action.job import Job
from ci_automation.action.workflow_commands import annotation, logging_to
from ci_automation.cli.options import INPUTS, Kind
from ci_automation.report.blocks import plain_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.action.run import ActionRun
    from ci_automation.cli.options import Option
    from ci_automation.report.account import Trouble

F = TypeVar("F", bound="Callable[..., Any]")

_MOST_ANNOTATIONS = 10  # GitHub shows no more of one run
_METAVARS = {
    Kind.TEXT: "TEXT",
    Kind.LIST: "LINES",
    Kind.SECRET: "SECRET",
    Kind.SWITCH: "true|false",
    Kind.NUMBER: "N",
    Kind.PAGE: "MARKDOWN",
}
_ROOM = 60


def inputs_as_options(function: F) -> F:
    """Add an option for each input of the action; what its text means is decided in one place, for all at once."""
    for each in reversed(INPUTS):
        function = click.option(
            f"--{each.name}",
            each.parameter,
            envvar=each.input_variable,
            metavar=_metavar(each),
            help=each.input,
        )(function)
    return function


def _metavar(each: Option) -> str:
    """Return the choices, or the name of an input whose text explains more of them than a line has room for."""
    choices = "|".join(each.choices) or _METAVARS[each.kind]
    return choices if len(choices) <= _ROOM else each.name.upper()


@click.command("action")
@inputs_as_options
def action_command(**given: str | None) -> int:
    """Do the work of the GitHub Action, whose inputs are the options.

    An option that is not given is read from the variable INPUT_NAME, as the runner sets it.

    \b
    flux-manifests action --command update \\
      --artifact oci://ghcr.io/acme/flux-manifests:production
    """
    from ci_automation.action.run import ActionRun

    job = Job.of(os.environ)
    if not job.runner:  # a job names it in its inputs; at a terminal it is what all commands read
        given["releases"] = given["releases"] or os.environ.get("FLUX_RELEASES")
    with logging_to(sys.stdout, runner=job.runner) as log:
        run = ActionRun(job, log)
        code = _guarded(run, partial(_run, given, run), verbose=given["verbose"] in {"true", "True", "TRUE"})
        return max(code, _guarded(run, partial(_hand_over, run), verbose=False))


def _run(given: dict[str, str | None], run: ActionRun) -> int:
    """Do what the inputs say."""
    from ci_automation.action.commands import ACTION_COMMANDS
    from ci_automation.action.inputs import Inputs

    inputs = Inputs.parse(given)
    for secret in inputs.secrets:
        run.hide(secret)
    return ACTION_COMMANDS[inputs.command](inputs, run)


def _hand_over(run: ActionRun) -> int:
    run.hand_over()
    return 0


def _guarded(run: ActionRun, work: Callable[[], int], *, verbose: bool) -> int:
    """Return the code of `work`; whatever it ends with is told, and nothing of that is a command."""
    from ci_automation.action.run import trouble_of

    try:
        return work()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the last line of defence
        run.ended_by = trouble_of(error, verbose=verbose)
        _tell(run, error, run.ended_by)
        return run.ended_by.exit_code


def _tell(run: ActionRun, error: BaseException, why: Trouble) -> None:
    """Tell what ended the run: what is wrong in a file beside its line, all else on the page of the run."""
    from ci_automation.config.document import InvalidConfig

    if not isinstance(error, InvalidConfig):
        run.fail(why)
        return
    for problem in error.problems[:_MOST_ANNOTATIONS]:
        what = f"{problem.key}: {problem.what}" if problem.key else problem.what
        title = "flux-manifests: configuration"
        file, line, column = problem.file, problem.line, problem.column
        run.log.command(annotation("error", plain_text(what), title=title, file=file, line=line, col=column))
    run.say(f"error: {why.message}\n  hint: {why.hint}")
