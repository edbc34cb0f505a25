"""The command `review`, which shows the reviewers of a waiting run the step that they approve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.action.accounts import account_of, promotion_account
from ci_automation.action.dispatched import WrongDispatch
from ci_automation.action.github import Hub, with_git
from ci_automation.action.run import ActionRun, goals, promotions
from ci_automation.approval.approved_run import ShownRequest
from ci_automation.approval.port import ApprovalRequest, Asked, AskedState, RequestKind
from ci_automation.artifact.digest import Digest
from ci_automation.flows.approved import look_at_request
from ci_automation.flows.update_and_ask import Progress, look_at_promotion
from ci_automation.flux.version import Version
from ci_automation.impact.change import hazard_names

if TYPE_CHECKING:
    from ci_automation.action.inputs import Inputs
    from ci_automation.cli.target import Target
    from ci_automation.report.account import Account


def asked_request(inputs: Inputs, goal: Target) -> ApprovalRequest:
    """Return the request that the inputs of a run name.

    Raises:
        UsageError: the version or a digest is none.
    """
    version, base, target = Version.parse(inputs.version), Digest.parse(inputs.base), Digest.parse(inputs.target)
    return ApprovalRequest(goal.channel, version, base, target, RequestKind.of_key(inputs.request_key))


def review(inputs: Inputs, run: ActionRun) -> int:
    """Show what an approval of this run would publish, and hand over which hazards were shown; nothing is written."""
    if run.job.attempt != 1:
        raise WrongDispatch("this is a re-run, and an approval of an earlier attempt would count for it")
    hub = Hub.of(inputs, run)
    subject = "" if inputs.accept_shared_subject else run.job.subject
    asked = Asked(run.job.url, AskedState.UNCHANGED)

    def flow(goal: Target) -> Account:
        request = asked_request(inputs, goal)
        if inputs.request_key not in {"", request.key}:  # a check would take this run for the one that asks
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
