"""Telling other repositories what a run of the action has published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.action.github import now
from ci_automation.approval.port import ApprovalRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ci_automation.action.github import Hub
    from ci_automation.action.run import ActionRun
    from ci_automation.cli.target import Target
    from ci_automation.github.runs import Runs
    from ci_automation.report.account import Account


def announcing(flow: Callable[[Target], Account], hub: Hub, run: ActionRun) -> Callable[[Target], Account]:
    """Return a flow that also tells the configured repositories of each move of the channel that it made."""
    return lambda goal: _announced(flow(goal), hub, goal, run)


def _announced(account: Account, hub: Hub, goal: Target, run: ActionRun) -> Account:
    """Tell the configured repositories of what was published; one that cannot be told fails nothing."""
    repositories = goal.configured.announce if goal.configured else ()
    if not repositories or (told := _publication(account, goal, run)) is None:
        return account
    from ci_automation.approval.dispatch import Dispatch, Told, announce
    from ci_automation.github.runs import Runs

    def receiver(name: str) -> Runs:
        return Runs(hub.client(name, contents="write", actions="read"), name)

    dispatch = Dispatch.telling(*told, hub.sender)
    words = {Told.SENT: "was told", Told.KNOWN: "knows it already", Told.FAILED: "was not told"}
    remarks = []
    for delivery in announce(dispatch, repositories, receiver, hub.job.server, now()):
        text = f"{delivery.repository} {words[delivery.told]}. {delivery.remark}".strip()
        run.tell("warning" if delivery.told is Told.FAILED else "notice", f"{goal.name}: {text}")
        remarks.append(text)
    return replace(account, remarks=(*account.remarks, *remarks))


def _publication(account: Account, goal: Target, run: ActionRun) -> tuple[ApprovalRequest, datetime] | None:
    """Return what this run published last and when, by its record: a re-run tells what it had no time to tell."""
    did = bool(account.published or account.promoted)
    if not (did or run.job.attempt > 1):
        return None
    digest = account.after.digest if account.after else goal.ports.registry.resolve(goal.channel)
    if digest is None:
        return None
    if goal.ports.trusted is None:  # nothing is signed, and so nothing recorded
        last = account.published[-1] if account.published else None
        return (ApprovalRequest(goal.channel, last.new_version, last.base, last.target), now()) if last else None
    for record in reversed(goal.ports.ledger(goal.channel).records(digest)):
        if did or record.run == run.job.url:
            base = record.previous or record.digest
            return ApprovalRequest(goal.channel, record.version, base, record.digest), record.at
    return None
