"""Operations by dispatch: `show` prints what would happen, and `do` does exactly that once reviewers approved the run.

Neither believes the other: `do` computes everything anew, and compares it with what `show` handed over.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.action.accounts import announcing
from ci_automation.action.approval_rules import reviewed_run, settings_from, settings_of, why_unprotected
from ci_automation.action.github import Hub, now
from ci_automation.action.job import OldCheckout
from ci_automation.action.logins import logins
from ci_automation.action.operation_page import Consent, operation_page
from ci_automation.action.operations import OPERATIONS, Operation, OperationInputs
from ci_automation.action.run import ActionRun, goals, promotions
from ci_automation.approval.approved_run import (
    by_code,
    how_approved,
    judge_reviews,
    judge_starter,
    one_is_enough,
)
from ci_automation.approval.handover import NOTHING, Handover, HandoverVoid
from ci_automation.artifact.reference import Digest
from ci_automation.cli.arguments import configuration
from ci_automation.cli.output import print_parts
from ci_automation.cli.rollback import elsewhere
from ci_automation.config import DEFAULT_PATH
from ci_automation.errors import Conflict, PolicyRefused, UsageError
from ci_automation.flux.options import Options
from ci_automation.records.content import RecordedContent, is_same_approval
from ci_automation.records.notes import Approval
from ci_automation.report.account import Account

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ci_automation.action.inputs import Inputs
    from ci_automation.cli.promotions import PlannedPromotion
    from ci_automation.cli.target import Target
    from ci_automation.config.model import ApprovalConfig, Config
    from ci_automation.config.sections import Artifact
    from ci_automation.flows.ports import Intent
    from ci_automation.github.model import ContentAt

_MAX_REASON = 200
_TRIES = 3  # after a conflict


class NotConfigured(UsageError):
    """An operation is dispatched, and there is no configuration that names its artifact."""

    hint = f"Write {DEFAULT_PATH}; the input artifact is a name in it, or an address."


class WrongDispatch(UsageError):
    """An operation was started in a way that does not count."""

    hint = "In the repository, under Actions, choose the workflow, the default branch, and 'Run workflow'."


class ReviewNotCounted(PolicyRefused):
    """The run of an operation has no approval that counts."""

    hint = "Nothing was changed. Start a new run: its page says how it is approved."

    def __init__(self, reason: str) -> None:
        super().__init__(f"this run is not approved: {reason}")


class CodeVoid(Conflict):
    """The code that a person gave is not that of what would happen now."""

    hint = (
        "Nothing was changed. A field differs, or something changed since the code was shown: read on the page of this "
        "run what would happen now. Its last sentence says how to approve that."
    )
    message = "the given code is not that of what would happen now"


class RunUsed(PolicyRefused):
    """The approval of this run led to a publication before."""

    hint = "Nothing was changed. An approval counts once: start a new run."

    def __init__(self, url: str) -> None:
        super().__init__(f"the approval of the run {url} was used before")


def show_operation(inputs: Inputs, run: ActionRun) -> int:
    """Print what an operation would do, and hand it over; nothing is written or signed."""
    if run.job.attempt != 1:
        raise WrongDispatch("this is a re-run, and an approval of an earlier attempt would count for it")
    hub = Hub.of(inputs, run)
    inputs, config = _checked(inputs, hub)
    subject = "" if inputs.accept_shared_subject else run.job.subject

    def promotion() -> PlannedPromotion:
        (planned,) = promotions(inputs, run, signs=False)
        return planned.previewing(inputs.given, subject)

    def flow(goal: Target) -> Account:
        given = replace(inputs.given, logins=logins(inputs, run.job, (goal.channel,), run.hide).before)
        wanted = OperationInputs(promotion, partial(elsewhere, given=given), to=inputs.to, reason=inputs.reason)
        goal = goal.previewing(inputs.given, subject)
        operation, handover = _computed(goal, wanted, config, inputs, hub)
        print_parts(operation.page)
        consent, problem = _consent(goal, operation, handover, inputs, hub)
        run.handover = handover.to_text() if consent.goes_on else ""
        run.more.append(operation_page(goal, operation, handover, inputs, consent))
        if consent.is_void:
            raise CodeVoid
        if problem:
            run.tell("warning", f"{goal.name}: {problem}")
        asked = f"{inputs.operation} {consent.needed}" if consent.needed else ""
        remarks = tuple(filter(None, (problem,)))
        return Account(goal.name, goal.channel, operation.before, done=asked, remarks=remarks)

    return run.each(goals(inputs, run, signs=False), flow)


def do_operation(inputs: Inputs, run: ActionRun) -> int:
    """Do exactly what was shown, if reviewers approved this run and nothing has changed since."""
    shown = Handover.parse(inputs.shown)
    hub = Hub.of(inputs, run)
    inputs, config = _checked(inputs, hub)
    left = Digest.parse(shown.base) if NOTHING != shown.base != shown.target else None
    wanted = OperationInputs(lambda: promotions(inputs, run)[0], to=inputs.to, reason=inputs.reason, left=left)

    def flow(goal: Target) -> Account:
        approval = _approval(goal, shown, hub)
        goal = goal.with_ports(lambda it: replace(it, clock=hub.clock, whose_clock="GitHub"))  # by it, merges are dated

        def computed() -> Operation:
            operation, handover = _computed(goal, wanted, config, inputs, hub)
            _require_unused(goal, operation, approval)
            _require_shown(shown, handover, operation)
            return operation

        operation = _carried_out(computed, replace(goal.intent, approval=approval), run)
        moved = operation.after if operation.before != operation.after else None
        had, done, by = operation.before, operation.done, approval.told
        return Account(goal.name, goal.channel, had, promoted=moved, done=done, approved=by, signed=True)

    return run.each(goals(inputs, run), announcing(flow, hub, run))


def _carried_out(computed: Callable[[], Operation], intent: Intent, run: ActionRun) -> Operation:
    """Do an operation, and return it; after a conflict it is computed anew, and fails where what was shown is void."""
    for _ in range(_TRIES):
        operation = computed()
        try:
            operation.act(intent)
        except Conflict as error:
            run.say(f"trying again: {error}")
        else:
            return operation
    operation = computed()
    operation.act(intent)
    return operation


def _checked(inputs: Inputs, hub: Hub) -> tuple[Inputs, Config]:
    """Return the inputs with the artifact's name in the configuration, if the run was started as it has to be."""
    job = hub.job
    if job.event != "workflow_dispatch":
        raise WrongDispatch(f"the run was started by {job.event or 'nothing'}, not by a workflow_dispatch")
    if job.ref != f"refs/heads/{hub.default_branch()}":
        raise WrongDispatch(f"the run is on {job.ref}, not on the default branch {hub.default_branch()}")
    if len(inputs.reason) > _MAX_REASON:
        raise WrongDispatch(f"the reason is longer than {_MAX_REASON} characters")
    config = configuration(inputs.given.checked())
    if config is None:
        raise NotConfigured(f"{inputs.operation} needs a configuration, and there is none")
    if not inputs.artifact and len(config.artifacts) > 1:
        names = ", ".join(it.name for it in config.artifacts)
        raise NotConfigured(f"the input artifact is empty, and the configuration has several: {names}")
    artifact = config.find(inputs.artifact) if inputs.artifact else config.artifacts[0]
    return replace(inputs, artifact=artifact.name), config


def _computed(
    goal: Target, wanted: OperationInputs, config: Config, inputs: Inputs, hub: Hub
) -> tuple[Operation, Handover]:
    """Return what the operation would do now, by the default branch's configuration now."""
    folder = goal.configured.overlay or "" if goal.configured else ""
    _, there, at = hub.content().head(folder, inputs.config_path)
    goal = goal.with_ports(lambda it: it.later_than(at))  # GitHub's clock dates merges, and may be ahead of this one
    if there.config is None or config.digest != Digest.of(there.config.encode()):
        raise OldCheckout(inputs.config_path)
    if inputs.operation == "init" and goal.configured and folder:
        wanted = _from_git(wanted, goal, goal.configured, there, at, hub)
    operation = OPERATIONS[inputs.operation](goal, wanted)
    # What hides records stops no way back.
    ledger = replace(goal.ports.ledger(goal.channel), lenient=inputs.operation == "rollback")
    had = operation.before or operation.last
    ends = {it.digest for it in (had, operation.after) if it}
    facts = {
        "facts": operation.facts,
        "holds": [str(name) for name, _ in (ledger.named_holds(had.digest) if had else ())],
        # A run that was interrupted leaves its approval in no record: a channel that came back needs a new one.
        "moves": sorted(str(it.at) for end in ends for it in ledger.records(end)[-1:]),
        "inputs": [inputs.operation, inputs.artifact, inputs.to, inputs.reason],
    }
    return operation, Handover(
        command=inputs.operation,
        name=goal.name,
        artifact=str(goal.channel),
        base=str(operation.before.digest) if operation.before else NOTHING,
        target=str(operation.target),
        content=operation.content,
        rules=str(config.digest),
        head=there.commit,
        plan=str(Digest.of(json.dumps(facts, sort_keys=True, default=str).encode())),
        attempt=hub.job.attempt,
        at=at,
    )


def _from_git(
    wanted: OperationInputs, goal: Target, artifact: Artifact, there: ContentAt, at: datetime, hub: Hub
) -> OperationInputs:
    """Return the same with the overlay in the checkout, and what a record says of it, by which later merges can count.

    Its bytes are believed only where Git has the same on the default branch.
    """
    from ci_automation.approval.content import rules_of
    from ci_automation.flows.workspace import read_overlay_folder, require_shown

    found = read_overlay_folder(hub.job.workspace or Path(), artifact.overlay or "", config=hub.inputs.config_path)
    require_shown(there.attributes, found.paths)
    if found.tree_id != there.overlay:
        raise OldCheckout(found.path)
    options = Options().with_flags(goal.intent.flags).digest
    content = RecordedContent(hub.place, there.commit, found.tree_id, options, at, rules_of(artifact))
    return replace(wanted, overlay=found, content=content, look_again=partial(hub.require_head, found.path, there))


def _require_shown(shown: Handover, anew: Handover, operation: Operation) -> None:
    """Check that the operation is the one that was shown, or that an earlier attempt of this job has done it."""
    if shown.base != shown.target == anew.base and operation.after.digest == operation.target:
        if shown.command == "rollback":
            hold = operation.facts["hold"]
            left = {hold and hold["refused"]["digest"], operation.facts["put back"]}
            if not operation.idle or shown.base not in left:
                missing = "the hold of the rollback is missing or changed, and no record says that it was put back"
                raise HandoverVoid(f"nothing shows that this run moved the channel there: {missing}")
        # What is left is to write the record.
        anew = replace(anew, base=shown.base, content=shown.content, plan=shown.plan)
    shown.require_same(anew)


def _consent(goal: Target, operation: Operation, handover: Handover, inputs: Inputs, hub: Hub) -> tuple[Consent, str]:
    """Return how a person agrees to an operation, and a warning of what is left to do first, or nothing."""
    if operation.idle:
        return Consent(idle=True), ""
    settings = _settings(goal, handover)
    problem = why_unprotected(settings, hub, settings_of(goal))
    if problem and one_is_enough(settings):
        found = Consent(handover.code, inputs.code)
        left = "This run changed nothing. Read its page: a second run, with the code there, does"
        return found, "" if found.goes_on else left
    return Consent(), problem


def _settings(goal: Target, shown: Handover) -> ApprovalConfig:
    """Return what an approval is judged by; that of what brings content, by the rules of what was there, too."""
    base = Digest.parse(shown.base) if shown.base != NOTHING else None
    return settings_from(goal, base) if shown.command in {"promote", "adopt", "init"} else settings_of(goal)


def _approval(goal: Target, shown: Handover, hub: Hub) -> Approval:
    """Return the approval of this run: by its reviewers, or by its code where it can have none."""
    settings = _settings(goal, shown)
    facts = reviewed_run(settings, hub)
    if not by_code(facts.environment, settings):
        found = judge_reviews(facts, settings, now())
    elif hub.inputs.code == shown.code:
        found = judge_starter(facts, settings, now())
    else:
        found = "it was not started with the code of what it does"
    if isinstance(found, Approval):
        return found
    raise ReviewNotCounted(found)


def _require_unused(goal: Target, operation: Operation, approval: Approval) -> None:
    """Raise `RunUsed` if the approval led to a move, or an adoption, that the channel has left since."""
    ledger, digest = goal.ports.ledger(goal.channel), operation.after.digest
    used = any(is_same_approval(it.approval, approval) for it in ledger.records(digest))
    if used and (operation.before != operation.after or not (last := ledger.newest()) or last.digest != digest):
        raise RunUsed(approval.how.removeprefix(how_approved("")))
