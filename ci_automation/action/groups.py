"""The requests for groups of artifacts, which a run makes after the last artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.action.run import trouble_of
from ci_automation.approval.port import Asked, AskedState
from ci_automation.errors import Error
from ci_automation.report.text import what_comes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_automation.action.github import Hub
    from ci_automation.action.run import ActionRun
    from ci_automation.approval.pull_request import PullRequestApprovals
    from ci_automation.artifact.reference import Reference
    from ci_automation.policy.plan import PlannedStep


def ask_groups(hub: Hub, run: ActionRun) -> int:
    """Ask for what the artifacts of each group wait for, and return the exit code; the accounts get the answers."""
    codes = [0]
    for group, members in hub.groups.items():
        steps = {it.asked.channel: it.question.step for it in members if it.question}
        try:
            _tell(steps, _asked(group, members, run), run)
        except Error as error:
            found = trouble_of(error)
            codes.append(found.exit_code)
            run.fail(found, group)
            run.accounts = [
                replace(it, trouble=it.trouble or found) if it.channel in steps else it for it in run.accounts
            ]
    return max(codes)


def _asked(group: str, members: Sequence[PullRequestApprovals], run: ActionRun) -> dict[Reference, Asked]:
    """Return where people can answer; a run that sees only a part of a group would ask for no more than that part."""
    from ci_automation.approval.pull_request import ask_group

    seen = {account.channel for account in run.accounts}
    if seen.issuperset(members[0].asked.group_channels):
        return ask_group(members)
    why = f"the group {group} is asked for by a run for all of its artifacts, and this one is for {len(seen)}"
    return {it.asked.channel: Asked("", AskedState.LATER, why) for it in members if it.question}


def _tell(steps: dict[Reference, PlannedStep], asked: dict[Reference, Asked], run: ActionRun) -> None:
    for index, account in enumerate(run.accounts):
        if (answer := asked.get(account.channel)) is None:
            continue
        step = steps[account.channel]
        if answer.remark:
            run.tell("warning", f"{account.name}: {answer.remark}")
        if answer.url:
            run.tell("notice", f"{account.name}: {what_comes(step)} needs approval at {answer.url}")
        remarks = (*account.remarks, *([answer.remark] if answer.remark else []))
        urls = {**account.approval_urls, step.target: answer.url}
        run.accounts[index] = replace(account, approval_urls=urls, remarks=remarks)
