"""Report each artifact of a run to its log and page, to the request of its group, and to other repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.action.approval_rules import desks_of
from ci_automation.action.github import Hub, now
from ci_automation.action.run import ActionRun, trouble_of
from ci_automation.approval.port import ApprovalRequest, Asked, AskedState, GrantedApproval, RequestKind
from ci_automation.cli.follow_up import promoting
from ci_automation.cli.output import print_parts, print_table
from ci_automation.cli.promote import as_shown, nothing_yet
from ci_automation.errors import Error
from ci_automation.flows.planning.promotion import SourceEmpty
from ci_automation.flows.update_and_ask import promote_and_ask, promote_approved, promote_granted
from ci_automation.impact.change import in_shell
from ci_automation.policy.decision import Decision
from ci_automation.report.account import Account, Standing
from ci_automation.report.findings import idle_acknowledgements, unproven_upstream
from ci_automation.report.promotion import promotion_headline, promotion_parts
from ci_automation.report.text import plan_table, what_comes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from ci_automation.action.inputs import Inputs
    from ci_automation.approval.pull_request import PullRequestApprovals
    from ci_automation.artifact.reference import Reference
    from ci_automation.cli.promotions import PlannedPromotion
    from ci_automation.cli.target import Target
    from ci_automation.flows.planning.plan import Outcome
    from ci_automation.flows.update_and_ask import Progress, PromotionProgress
    from ci_automation.github.runs import Runs
    from ci_automation.policy.plan import PlannedStep

_WAITING = {Decision.APPROVAL: "needs approval", Decision.WAIT: "has to wait"}


def account_of(goal: Target, progress: Progress, run: ActionRun) -> Account:
    """Return what became of an artifact, after the log was told."""
    outcomes = [outcome for outcome in (progress.applied, progress.outcome) if outcome is not None]
    for outcome in outcomes:
        print_table(plan_table(outcome.plan, outcome.done, outcome.start, verified=outcome.verified))
    remarks = tuple(_remarks(goal, progress, outcomes))
    for remark in remarks:
        run.tell("warning", f"{goal.name}: {remark}")
    approved = tuple(told for it in outcomes for approval in it.approvals for told in approval.told)
    published = tuple(step for it in outcomes for step in it.plan.steps[it.start : it.done])
    account = Account(
        goal.name,
        goal.channel,
        before=Standing(outcomes[0].plan.current_version, outcomes[0].plan.current) if outcomes else None,
        published=published,
        waiting=outcomes[-1].waiting if outcomes else (),
        plan=outcomes[-1].plan if outcomes else None,
        left=outcomes[-1].left if outcomes else None,
        approved=approved,
        approval_urls={target: asked.url for target, asked in progress.asked.items()},
        signed=_signed(goal, outcomes, published=bool(published)),
        healed=any(outcome.healed for outcome in outcomes),
        remarks=(*remarks, *(unproven_upstream(outcomes[-1].plan.steps) if outcomes else ())),
        trouble=trouble_of(progress.failed) if progress.failed else None,
    )
    if any(outcome.trust == "adopted" for outcome in outcomes) and not published:
        run.tell("notice", f"{goal.name}: the digest was adopted and signed, and this run publishes nothing else")
    for sentence in account.notices:
        run.tell("notice", f"{goal.name}: {sentence}")
    if not (published or account.pending):
        run.say(f"{goal.name}: nothing to do")
    return account


def _signed(goal: Target, outcomes: list[Outcome], *, published: bool) -> bool:
    """Return whether what the channel has now bears a signature that this run verified."""
    if published:
        return not goal.intent.unsafe_unsigned
    return any(outcome.healed or outcome.trust in {"verified", "adopted"} for outcome in outcomes)


def _remarks(goal: Target, progress: Progress, outcomes: list[Outcome]) -> Iterator[str]:
    """Yield what a person must not miss besides the steps."""
    for found in progress.refused:
        yield f"the approval of {found.request.version} does not count: {found.reason}"
    yield from (asked.remark for asked in progress.asked.values() if asked.remark)
    if goal.intent.adopt and any(outcome.trust == "verified" for outcome in outcomes):
        yield "there is nothing to adopt: leave adopt out, or a channel that is moved back to that digest is believed"
    if not all(outcome.verified for outcome in outcomes):
        yield f"nothing was verified: {goal.ports.why_nobody}"
    if outcomes:
        yield from idle_acknowledgements(goal.intent.policy.acknowledge, outcomes[-1].plan.steps, goal.intent.now)
    if progress.changed and goal.intent.unsafe_unsigned:
        yield "it was published unsigned: clusters that verify will refuse it"


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
    account = promotion_account(planned, progress, inputs)
    shown = as_shown(planned, progress.promoted)
    print_parts((promotion_headline(shown), *promotion_parts(shown)))
    for sentence in (*account.remarks, *account.notices):
        run.tell("notice", f"{goal.name}: {sentence}")
    return account


def promotion_account(planned: PlannedPromotion, progress: PromotionProgress, inputs: Inputs) -> Account:
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
        remarks=tuple(_promotion_remarks(planned, progress, inputs)),
        trouble=trouble_of(progress.failed) if progress.failed else None,
    )


def _promotion_remarks(planned: PlannedPromotion, progress: PromotionProgress, inputs: Inputs) -> Iterator[str]:
    """Yield what a person must not miss."""
    done, found = progress.promoted, progress.promoted.considered
    if progress.refused:
        yield f"the approval of {progress.refused.request.version} does not count: {progress.refused.reason}"
    if done.done:
        yield f"{found.version} was promoted from {found.promotion.source}"
    if done.waits:
        yield f"{found.sentence} {_WAITING.get(found.decision, 'is refused')}: {'; '.join(found.reasons)}"
    if done.waits and found.decision is Decision.APPROVAL and not progress.asked:
        command = promoting(planned.goal, inputs.given, found.digest)
        yield f"to approve it, start flux.yaml: promote, {planned.name}; or run {in_shell(*command)}"
    if progress.asked and progress.asked.remark:
        yield progress.asked.remark


def ask_groups(hub: Hub, run: ActionRun) -> int:
    """Ask for what the artifacts of each group wait for, and return the exit code; the accounts get the answers."""
    codes = [0]
    for group, members in hub.groups.items():
        steps = {it.asked.channel: it.question.step for it in members if it.question}
        try:
            _answer(steps, _asked_for_group(group, members, run), run)
        except Error as error:
            found = trouble_of(error)
            codes.append(found.exit_code)
            run.fail(found, group)
            run.accounts = [
                replace(it, trouble=it.trouble or found) if it.channel in steps else it for it in run.accounts
            ]
    return max(codes)


def _asked_for_group(group: str, members: Sequence[PullRequestApprovals], run: ActionRun) -> dict[Reference, Asked]:
    """Return where people can answer; a run that sees only a part of a group would ask for no more than that part."""
    from ci_automation.approval.pull_request import ask_group

    seen = {account.channel for account in run.accounts}
    if seen.issuperset(members[0].asked.group_channels):
        return ask_group(members)
    why = f"the group {group} is asked for by a run for all of its artifacts, and this one is for {len(seen)}"
    return {it.asked.channel: Asked("", AskedState.LATER, why) for it in members if it.question}


def _answer(steps: dict[Reference, PlannedStep], asked: dict[Reference, Asked], run: ActionRun) -> None:
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
