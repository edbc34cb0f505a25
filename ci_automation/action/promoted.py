"""Promoted channels in the action's runs: what each command does with them, and what it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.action.github import desks_of
from ci_automation.action.run import trouble_of
from ci_automation.approval.port import GrantedApproval, RequestKind
from ci_automation.cli.follow_up import promoting
from ci_automation.cli.output import print_parts, print_table
from ci_automation.cli.promote import as_shown, nothing_yet
from ci_automation.flows.planning.promotion import SourceEmpty
from ci_automation.flows.update_and_ask import promote_and_ask, promote_approved, promote_granted
from ci_automation.impact.hazard import in_shell
from ci_automation.policy.decision import Decision
from ci_automation.report.account import Account, Standing
from ci_automation.report.promotion import promotion_parts, promotions_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.action.github import Hub
    from ci_automation.action.inputs import Inputs
    from ci_automation.action.run import ActionRun
    from ci_automation.cli.promotions import PlannedPromotion
    from ci_automation.flows.update_and_ask import PromotionProgress

_WAITING = {Decision.APPROVAL: "needs approval", Decision.WAIT: "has to wait"}


def run_promotion(
    planned: PlannedPromotion, inputs: Inputs, hub: Hub, run: ActionRun, granted: GrantedApproval | None = None
) -> Account:
    """Do the promotion to one channel as the command says: `apply` does only what was approved, `approve` `granted`."""
    goal = planned.goal
    try:
        if granted:
            progress = promote_granted(planned.promotion, granted)
        else:
            approvals = desks_of(goal, hub).get(RequestKind.VERSION)
            if inputs.command == "apply":
                if approvals is None:
                    return Account(goal.name, goal.channel)
                progress = promote_approved(planned.promotion, approvals)
            else:
                progress = promote_and_ask(planned.promotion, approvals, thorough=run.is_thorough)
    except SourceEmpty:
        if inputs.artifact or not planned.source_name:
            raise
        (remark,) = nothing_yet(planned).reasons
        run.tell("notice", f"{goal.name}: {remark}")
        return Account(goal.name, goal.channel, done=remark)
    account = _account(planned, progress, inputs)
    shown = as_shown(goal.name, progress.promoted)
    print_table(promotions_table((shown,)))
    print_parts(promotion_parts(shown))
    for sentence in (*account.remarks, *account.notices):
        run.tell("notice", f"{goal.name}: {sentence}")
    return account


def _account(planned: PlannedPromotion, progress: PromotionProgress, inputs: Inputs) -> Account:
    """Return what became of a promoted channel."""
    goal, done, found = planned.goal, progress.promoted, progress.promoted.considered
    approval = progress.granted.approval if progress.granted and done.done else None
    step = found.step if done.waits else None
    word = "was promoted" if done.done else _WAITING.get(found.decision, "") if done.waits and step is None else ""
    return Account(
        goal.name,
        goal.channel,
        before=Standing(found.old_version, found.before.digest) if found.before and found.old_version else None,
        waiting=(step,) if step else (),
        left=None if done.done else found.decision,
        approved=approval.told if approval else (),
        approval_urls={found.digest: progress.asked.url} if progress.asked else {},
        promoted=Standing(found.version, found.digest) if done.done else None,
        done=f"{found.version} {word}" if word else "",
        signed=True,
        remarks=tuple(_remarks(planned, progress, inputs)),
        trouble=trouble_of(progress.failed) if progress.failed else None,
    )


def _remarks(planned: PlannedPromotion, progress: PromotionProgress, inputs: Inputs) -> Iterator[str]:
    """Yield what a person must not miss."""
    done, found = progress.promoted, progress.promoted.considered
    if progress.refused:
        yield f"the approval of {progress.refused.request.version} does not count: {progress.refused.reason}"
    if done.done:
        yield f"{found.version} was promoted from {found.promotion.source}"
    if done.waits:
        yield f"{found.sentence} {_WAITING.get(found.decision, 'is refused')}: {'; '.join(found.reasons)}"
    if done.waits and found.at_once:
        yield f"after that, start flux.yaml: promote, {planned.name}. {found.at_once}"
    if done.waits and found.decision is Decision.APPROVAL and not progress.asked:
        command = promoting(planned.goal, inputs.given, found.digest)
        yield f"to approve it, start flux.yaml: promote, {planned.name}; or run {in_shell(*command)}"
    if progress.asked and progress.asked.remark:
        yield progress.asked.remark
