"""The commands of the action, by its input `command`; each returns the exit code of the run."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.action.accounts import account_of, announcing, ask_groups, promotion_account, run_promotion
from ci_automation.action.approval_rules import desks_of, judged_by, reviewed_run
from ci_automation.action.github import Hub, now, with_git
from ci_automation.action.preview import comment_preview, preview
from ci_automation.action.run import ActionRun, goals, promotions
from ci_automation.approval.port import ApprovalRequest, Asked, AskedState, GrantedApproval, NotCounted, RequestKind
from ci_automation.artifact.reference import Digest
from ci_automation.cli.arguments import configuration
from ci_automation.cli.results import code_of
from ci_automation.config import DEFAULT_PATH
from ci_automation.errors import PolicyRefused, UsageError
from ci_automation.flows.approved import apply_granted, look_at_request
from ci_automation.flows.observe import observe
from ci_automation.flows.planning.base import read_base
from ci_automation.flows.update_and_ask import (
    ApprovalNotCounted,
    Progress,
    apply_approved,
    look_at_promotion,
    update_and_ask,
)
from ci_automation.flows.verify import misplaced
from ci_automation.flux.version import Version
from ci_automation.impact.change import hazard_names
from ci_automation.report.account import Account, Standing
from ci_automation.signing.trust import NOBODY_NAMED, NobodyTrusted

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.action.inputs import Inputs
    from ci_automation.action.workflow_commands import Level
    from ci_automation.cli.promotions import PlannedPromotion
    from ci_automation.cli.target import Target
    from ci_automation.github.client import GitHub


class NoConfiguration(UsageError):
    """The artifacts of the configuration are asked for, and there is none."""

    hint = f"Write {DEFAULT_PATH}, or name another file with the input config; the checkout must be there."
    message = "there is no configuration"


def _update(inputs: Inputs, run: ActionRun) -> int:
    """Take up what was approved, publish or promote what happens by itself, and ask for what waits."""
    hub = Hub.of(inputs, run)

    def flow(goal: Target) -> Account:
        desks = desks_of(goal, hub)
        progress = update_and_ask(goal.channel, goal.ports, goal.intent, desks, thorough=run.is_thorough)
        return account_of(goal, progress, run)

    return _for_each(flow, inputs, run, hub)


def _apply(inputs: Inputs, run: ActionRun) -> int:
    """Take up what was approved, and do nothing else."""
    hub = Hub.of(inputs, run)

    def flow(goal: Target) -> Account:
        return account_of(goal, apply_approved(goal.channel, goal.ports, goal.intent, desks_of(goal, hub)), run)

    return _for_each(flow, inputs, run, hub)


def _approve(inputs: Inputs, run: ActionRun) -> int:
    """Publish what the inputs name, if the run that this job is in was approved."""
    hub = Hub.of(inputs, run)

    def granted(goal: Target) -> GrantedApproval:
        from ci_automation.approval.approved_run import judge_run
        from ci_automation.approval.handover import ShownRequest

        request, shown = _asked_request(inputs, goal), ShownRequest.parse(inputs.shown) if inputs.shown else None
        settings = judged_by(goal, request)
        found = judge_run(request, inputs.request_key, reviewed_run(settings, hub), settings, now())
        if shown and shown.target != str(request.target):
            found = NotCounted(request, f"its reviewers were shown {shown.target}")
        if isinstance(found, NotCounted):
            raise ApprovalNotCounted(found)
        return replace(found, shown=frozenset(shown.hazards)) if shown else found

    def flow(goal: Target) -> Account:
        found = granted(goal)
        done = apply_granted(found, goal.ports, goal.intent)
        return account_of(goal, Progress(granted=found, applied=done), run)

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
    from ci_automation.consumers.model import Published, consumers_summary
    from ci_automation.flows.consumers import update_consumers

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
    """Hand over the names and addresses of the configured artifacts, for a matrix of jobs."""
    config = configuration(inputs.given)
    if config is None:
        raise NoConfiguration
    found = (config.find(inputs.artifact),) if inputs.artifact else config.artifacts
    run.matrix = json.dumps([{"name": artifact.name, "artifact": str(artifact.channel)} for artifact in found])
    run.say(f"the artifacts: {', '.join(artifact.name for artifact in found)}")
    return 0


def _asked_request(inputs: Inputs, goal: Target) -> ApprovalRequest:
    """Return the request that the inputs of a run name."""
    version, base, target = Version.parse(inputs.version), Digest.parse(inputs.base), Digest.parse(inputs.target)
    return ApprovalRequest(goal.channel, version, base, target, RequestKind.of_key(inputs.request_key))


def _review(inputs: Inputs, run: ActionRun) -> int:
    """Show what an approval of this run would publish, and hand over which hazards were shown; nothing is written."""
    from ci_automation.action.dispatched import WrongDispatch
    from ci_automation.approval.handover import NOTHING_SHOWN, ShownRequest

    if run.job.attempt != 1:
        run.handover = NOTHING_SHOWN
        raise WrongDispatch("this is a re-run, and an approval of an earlier attempt would count for it")
    hub = Hub.of(inputs, run)
    subject = "" if inputs.accept_shared_subject else run.job.subject
    asked = Asked(run.job.url, AskedState.UNCHANGED)

    def flow(goal: Target) -> Account:
        request = _asked_request(inputs, goal)
        if inputs.request_key not in {"", request.key}:  # a check would take this run for the one that asks
            run.handover = NOTHING_SHOWN
            raise WrongDispatch("the key of this run belongs to another request")
        if goal.is_promoted:
            (planned,) = promotions(inputs, run, signs=False)
            found = look_at_promotion(planned.previewing(inputs.given, subject).promotion, request)
            hazards = found.promoted.considered.step.hazards if found.promoted.considered.step else ()
            account = promotion_account(planned, replace(found, asked=asked), inputs)
        else:
            seen = with_git(goal.previewing(inputs.given, subject), hub)
            outcome = look_at_request(request, seen.ports, seen.intent)
            hazards = outcome.plan.steps[0].hazards
            account = account_of(goal, Progress(outcome=outcome, asked={request.target: asked}), run)
        run.handover = ShownRequest(str(request.target), tuple(sorted(hazard_names(hazards)))).to_text()
        return account

    return run.each(goals(inputs, run, signs=False), flow)


def _operate(inputs: Inputs, run: ActionRun) -> int:
    """Show what an operation would do, or do what was shown."""
    from ci_automation.action.dispatched import do_operation, show_operation

    return (show_operation if inputs.command == "show" else do_operation)(inputs, run)


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


class CheckSilent(PolicyRefused):
    """The scheduled check does not run any more."""

    def __init__(self, problem: str, issue: str) -> None:
        super().__init__(problem)
        self.hint = f"See {issue}"


def watch_schedule(inputs: Inputs, run: ActionRun) -> int:
    """Raise `CheckSilent` if the scheduled check does not run any more."""
    from ci_automation.flows.watch import watch
    from ci_automation.github.runs import Issues, Runs

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


ACTION_COMMANDS: dict[str, Callable[[Inputs, ActionRun], int]] = {
    "update": _update,
    "apply": _apply,
    "approve": _approve,
    "promote": _promote,
    "review": _review,
    "show": _operate,
    "do": _operate,
    "consumers": _consumers,
    "watch": watch_schedule,
    "doctor": diagnose,
    "matrix": _matrix,
    "preview": preview,
    "comment": comment_preview,
}
