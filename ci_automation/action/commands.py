"""The commands of the action, by its input `command`; each returns the exit code of the run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ci_automation.action.announcement import announcing
from ci_automation.action.approval_rules import judged_by, reviewed_run
from ci_automation.action.github import Hub, desks_of, now, with_git
from ci_automation.action.groups import ask_groups
from ci_automation.action.health import diagnose, watch_schedule
from ci_automation.action.preview import comment_preview, preview
from ci_automation.action.promoted import run_promotion
from ci_automation.action.run import goals, promotions, trouble_of
from ci_automation.approval.port import ApprovalRequest, RequestKind
from ci_automation.artifact.digest import Digest
from ci_automation.cli.arguments import configuration
from ci_automation.cli.output import print_table
from ci_automation.cli.results import code_of
from ci_automation.config import DEFAULT_PATH
from ci_automation.errors import UsageError
from ci_automation.flows.approved import apply_granted
from ci_automation.flows.observe import observe
from ci_automation.flows.planning.base import read_base
from ci_automation.flows.update_and_ask import ApprovalNotCounted, Progress, apply_approved, update_and_ask
from ci_automation.flows.verify import misplaced
from ci_automation.flux.version import Version
from ci_automation.report.account import Account, Standing
from ci_automation.report.findings import idle_acknowledgements, unproven_upstream
from ci_automation.report.text import plan_table
from ci_automation.signing.trust import NOBODY_NAMED, NobodyTrusted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_automation.action.inputs import Inputs
    from ci_automation.action.run import ActionRun
    from ci_automation.action.workflow_commands import Level
    from ci_automation.approval.port import GrantedApproval
    from ci_automation.cli.promotions import PlannedPromotion
    from ci_automation.cli.target import Target
    from ci_automation.flows.planning.plan import Outcome
    from ci_automation.github.client import GitHub


class NoConfiguration(UsageError):
    """The artifacts of the configuration are asked for, and there is none."""

    hint = f"Write {DEFAULT_PATH}, or name another file with the input config; the checkout must be there."

    def __init__(self) -> None:
        super().__init__("there is no configuration")


def _update(inputs: Inputs, run: ActionRun) -> int:
    """Take up what was approved, publish or promote what happens by itself, and ask for what waits."""
    hub = Hub.of(inputs, run)

    def flow(goal: Target) -> Account:
        desks = desks_of(goal, hub)
        progress = update_and_ask(goal.channel, goal.ports, goal.intent, desks, thorough=run.is_thorough)
        return _account(goal, progress, run)

    return _for_each(flow, inputs, run, hub)


def _apply(inputs: Inputs, run: ActionRun) -> int:
    """Take up what was approved, and do nothing else."""
    hub = Hub.of(inputs, run)

    def flow(goal: Target) -> Account:
        return _account(goal, apply_approved(goal.channel, goal.ports, goal.intent, desks_of(goal, hub)), run)

    return _for_each(flow, inputs, run, hub)


def _approve(inputs: Inputs, run: ActionRun) -> int:
    """Publish what the inputs name, if the run that this job is in was approved."""
    hub = Hub.of(inputs, run)

    def granted(goal: Target) -> GrantedApproval:
        from ci_automation.approval.approved_run import judge_run
        from ci_automation.approval.port import NotCounted

        version, base, target = Version.parse(inputs.version), Digest.parse(inputs.base), Digest.parse(inputs.target)
        request = ApprovalRequest(goal.channel, version, base, target, RequestKind.of_key(inputs.request_key))
        settings = judged_by(goal, request)
        found = judge_run(request, inputs.request_key, reviewed_run(settings, hub), settings, now())
        if isinstance(found, NotCounted):
            raise ApprovalNotCounted(found)
        return found

    def flow(goal: Target) -> Account:
        found = granted(goal)
        done = apply_granted(found, goal.ports, goal.intent)
        return _account(goal, Progress(granted=found, applied=done), run)

    return _for_each(
        flow, inputs, run, hub, lambda planned: run_promotion(planned, inputs, hub, run, granted(planned.goal))
    )


def _promote(inputs: Inputs, run: ActionRun) -> int:
    """Take up approved promotions, do those that happen by themselves, wave by wave, and ask for what waits."""
    hub = Hub.of(inputs, run)
    planned = {it.name: it for it in promotions(inputs, run)}
    told = announcing(lambda goal: run_promotion(planned[goal.name], inputs, hub, run), hub, run)
    return _each(tuple(it.goal for it in planned.values()), told, inputs, run)


def _consumers(inputs: Inputs, run: ActionRun) -> int:
    """Open pull requests in the repositories that pin what the channels have, if a trusted signer signed it."""
    from ci_automation.consumers.model import Published
    from ci_automation.flows.consumers import update_consumers
    from ci_automation.report.consumers import consumers_summary

    hub = Hub.of(inputs, run)
    codes = [0]

    def connect(name: str) -> GitHub:
        run.say(f"looking into {name}")
        return hub.client(name, contents="write", pull_requests="write")

    def flow(goal: Target) -> Account:
        if goal.ports.trusted is None and goal.ports.why_nobody != NOBODY_NAMED:
            raise NobodyTrusted(goal.ports.why_nobody)
        observed = observe(goal.channel, goal.ports)
        version = observed.version or read_base(observed, goal.ports, goal.intent).version
        if problem := misplaced(observed, version, goal.ports):
            raise problem
        places = goal.configured.consumers if goal.configured else ()
        report = update_consumers(Published(goal.name, goal.channel, version, observed.digest), places, connect)
        for outcome in report.repositories:
            level: Level = "error" if outcome.exit_code else "notice"
            run.tell(level, f"{outcome.repository}: {outcome.state} {outcome.url} {outcome.remark}".strip())
        codes.append(report.exit_code)
        run.more.append(consumers_summary(report))
        if goal.ports.trusted is None:
            run.tell("warning", f"{goal.name}: nothing was verified: {goal.ports.why_nobody}")
        return Account(goal.name, goal.channel, Standing(version, observed.digest), signed=observed.trust == "verified")

    return max(_each(goals(inputs, run, signs=False), flow, inputs, run), *codes)


def _matrix(inputs: Inputs, run: ActionRun) -> int:
    """Hand over the names and addresses of the configured artifacts, for a matrix of jobs.

    Raises:
        NoConfiguration: nothing is configured.
    """
    config = configuration(inputs.given)
    if config is None:
        raise NoConfiguration
    found = (config.find(inputs.artifact),) if inputs.artifact else config.artifacts
    run.matrix = json.dumps([{"name": artifact.name, "artifact": str(artifact.channel)} for artifact in found])
    run.say(f"the artifacts: {', '.join(artifact.name for artifact in found)}")
    return 0


def _operate(inputs: Inputs, run: ActionRun) -> int:
    """Show what an operation would do, or do what was shown."""
    from ci_automation.action.dispatched import do_operation, show_operation

    return (show_operation if inputs.command == "show" else do_operation)(inputs, run)


ACTION_COMMANDS: dict[str, Callable[[Inputs, ActionRun], int]] = {
    "update": _update,
    "apply": _apply,
    "approve": _approve,
    "promote": _promote,
    "show": _operate,
    "do": _operate,
    "consumers": _consumers,
    "watch": watch_schedule,
    "doctor": diagnose,
    "matrix": _matrix,
    "preview": preview,
    "comment": comment_preview,
}


def _for_each(
    flow: Callable[[Target], Account],
    inputs: Inputs,
    run: ActionRun,
    hub: Hub,
    promote: Callable[[PlannedPromotion], Account] | None = None,
) -> int:
    """Run a flow on each artifact that is rendered, and then `promote` on each that is promoted, wave by wave."""
    found = goals(inputs, run)
    names = {goal.name for goal in found if goal.is_promoted}
    planned = {it.name: it for it in promotions(inputs, run) if it.name in names} if names else {}
    known = (with_git(goal, hub) for goal in found if goal.name not in names)

    def one(goal: Target) -> Account:
        if goal.name not in planned:
            return flow(goal)
        return promote(planned[goal.name]) if promote else run_promotion(planned[goal.name], inputs, hub, run)

    code = _each((*known, *(it.goal for it in planned.values())), announcing(one, hub, run), inputs, run)
    return max(code, ask_groups(hub, run))


def _each(found: tuple[Target, ...], flow: Callable[[Target], Account], inputs: Inputs, run: ActionRun) -> int:
    """Run a flow on each artifact, and return the highest code."""
    return max([run.each(found, flow), *(code_of(it.left, wanted=inputs.exit_code) for it in run.accounts)])


def _account(goal: Target, progress: Progress, run: ActionRun) -> Account:
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
