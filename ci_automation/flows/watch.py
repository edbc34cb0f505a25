"""A dead-man's switch: whether the scheduled check still runs, said by an issue and by a job that fails.

GitHub switches a schedule off after 60 days without a commit ("Disabling and enabling a workflow"), and a
check that does not run sends no mail. This flow runs in a workflow of its own, and keeps both alive. The people who
get GitHub's mail about a failed job watch it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta

    from ci_automation.github.model import WorkflowRun
    from ci_automation.github.runs import Issues, Runs

LABEL = "flux-manifests"
_ACTIVE, _IDLE = "active", "disabled_inactivity"
_MANY = 100
_NO_CHECK = ("pull_request", "workflow_dispatch")


class Watched(Struct, frozen=True):
    """What the switch found: why the check counts as dead (empty: it lives), where that is said, and what was done."""

    problem: str = ""
    issue: str = ""
    enabled: bool = False  # GitHub had switched it off for inactivity, and it is on again
    is_new: bool = False  # it has not succeeded yet, and had no time to

    @property
    def failed(self) -> bool:
        """Return whether the job should fail."""
        return bool(self.problem)


def watch(runs: Runs, issues: Issues, workflow: str, branch: str, max_age: timedelta, now: datetime) -> Watched:
    """Return whether a workflow succeeded on `branch` within `max_age`, after an issue says so if it did not.

    There is one issue, found again by its label and a mark in its text; it is closed when the workflow is well again.
    A workflow that GitHub switched off for inactivity is switched on, one that a person switched off is not. A workflow
    that is younger than `max_age` need not have succeeded.

    Raises:
        ReleaseSourceError: GitHub failed or refused; the job has then failed, too.
    """
    state = runs.workflow_state(workflow)
    if state in {_ACTIVE, _IDLE}:
        runs.enable_workflow(workflow)
    recent = succeeded(runs.runs(workflow=workflow, statuses=("success",), since=now - max_age, limit=_MANY), branch)
    last = recent or succeeded(runs.runs(workflow=workflow, statuses=("success",), since=None, limit=_MANY), branch)
    problem = judge(workflow, state, last, max_age, now)
    is_new = last is None and state in {_ACTIVE, _IDLE} and now - runs.workflow_created(workflow) <= max_age
    problem = "" if is_new else problem
    said = [issue for issue in issues.issues(LABEL) if mark(workflow) in issue.body]
    enabled = state == _IDLE
    if not problem:
        for issue in said:
            issues.close_issue(issue.number)
        return Watched(enabled=enabled, is_new=is_new)
    issue = said[0] if said else issues.open_issue(*notice(workflow, problem), (LABEL,))
    return Watched(problem, issue.url, enabled)


def succeeded(runs: Iterable[WorkflowRun], branch: str) -> WorkflowRun | None:
    """Return the newest run that shows that the check runs: of the branch, and of no request and no operation.

    A run that a person started may be a rollback, which looks for no release.
    """
    counted = [run for run in runs if run.branch == branch and not run.event.startswith(_NO_CHECK)]
    return max(counted, key=lambda run: run.created_at, default=None)


def judge(workflow: str, state: str, last: WorkflowRun | None, max_age: timedelta, now: datetime) -> str:
    """Return why a workflow counts as dead, or nothing."""
    again = ", which GitHub had switched off for inactivity and is switched on again," if state == _IDLE else ""
    if state not in {_ACTIVE, _IDLE}:
        return f"the workflow {workflow} is switched off ({state.replace('_', ' ')})"
    if last is None:
        return f"the workflow {workflow}{again} has not succeeded yet"
    if now - last.created_at > max_age:
        return (
            f"the workflow {workflow}{again} has not succeeded since {last.created_at:%Y-%m-%d %H:%M} UTC ({last.url})"
        )
    return ""


def mark(workflow: str) -> str:
    """Return what an issue about a workflow is found by."""
    return f"<!-- flux-manifests watch {workflow} -->"


def notice(workflow: str, problem: str) -> tuple[str, str]:
    """Return the title and the text of the issue."""
    text = (
        f"{problem[0].upper()}{problem[1:]}.\n\nUntil it runs again, clusters get no update of Flux, and no run asks "
        "for approval of one. Look at the workflow's newest runs; where it is switched off, switch it on under "
        "Actions.\n\n"
        "The watching job closes this issue as soon as the workflow succeeds again.\n\n"
    )
    return f"{workflow} no longer runs", text + mark(workflow) + "\n"
