"""The commands of the action that look after the others: does the schedule still run, and would a run work."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ci_automation.action.github import Hub, now
from ci_automation.action.run import goals
from ci_automation.cli.arguments import configuration
from ci_automation.errors import PolicyRefused

if TYPE_CHECKING:
    from ci_automation.action.inputs import Inputs
    from ci_automation.action.run import ActionRun


class CheckSilent(PolicyRefused):
    """The scheduled check does not run any more."""

    def __init__(self, problem: str, issue: str) -> None:
        super().__init__(problem)
        self.hint = f"See {issue}"


def watch_schedule(inputs: Inputs, run: ActionRun) -> int:
    """Look whether the scheduled check still runs, and fail where it does not.

    Raises:
        CheckSilent: it does not.
    """
    from ci_automation.flows.watch import watch
    from ci_automation.github.issues import Issues
    from ci_automation.github.runs import Runs

    hub = Hub.of(inputs, run)
    client = hub.client(actions="write", issues="write")
    runs, issues = Runs(client, hub.repository), Issues(client, hub.repository)
    watched = watch(runs, issues, inputs.workflow, hub.default_branch(), timedelta(days=inputs.max_age_days), now())
    if watched.enabled:
        run.tell("warning", f"{inputs.workflow} had been switched off for inactivity, and is switched on again")
    if watched.failed:
        raise CheckSilent(watched.problem, watched.issue)
    within = f"succeeded within the last {inputs.max_age_days} days"
    run.say(f"{inputs.workflow} {'is new, and has not succeeded yet' if watched.is_new else within}")
    return 0


def diagnose(inputs: Inputs, run: ActionRun) -> int:
    """Look for what keeps runs from their work, and fail if something is wrong."""
    from ci_automation.cli.doctor import code_of_wrong, examined, examined_repository, lines_of
    from ci_automation.config.workflows import GitHubPlace
    from ci_automation.flows.doctor import Health
    from ci_automation.report.markdown import code, markdown_table

    hub = Hub.of(inputs, run)
    place = GitHubPlace(hub.repository, hub.default_branch(), run.job.server)
    config = configuration(inputs.given)
    findings = examined(goals(inputs, run), config, place, run.job.workspace or Path(), inputs.given.config)
    client = hub.client(contents="read", actions="read")
    findings += examined_repository(client, place, config, inputs.workflow or "flux.yaml", lambda: now() - hub.clock())
    run.say("\n".join(lines_of(findings)))
    for it in findings:
        if it.health is Health.WRONG:
            run.tell("error", f"{it.what}: {it.found}. {it.advice}")
    rows = [(str(it.health), code(it.what), code(it.found), code(it.advice)) for it in findings]
    run.more.append(markdown_table(("", "what", "found", "to do"), rows))
    return code_of_wrong(findings)
