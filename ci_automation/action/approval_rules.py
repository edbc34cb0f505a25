"""How the approvals of one artifact are asked for, and the settings by which they are judged."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.action.github import Hub, now
from ci_automation.approval.port import ApprovalRequest, Approvals, RequestKind
from ci_automation.cli.arguments import configuration
from ci_automation.config.model import ApprovalConfig, ApprovalVia
from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from ci_automation.approval.approved_run import RunFacts
    from ci_automation.artifact.reference import Digest
    from ci_automation.cli.target import Target
    from ci_automation.flux.version import Version


class NoReceiver(UsageError):
    """An approval is to be asked for in another repository, and none is named."""

    hint = "Set approval.repository: OWNER/NAME in the configuration."
    message = "approvals are asked for by repository dispatch, and no repository is named"


def settings_of(goal: Target) -> ApprovalConfig:
    """Return what is configured about the approvals of an artifact."""
    return goal.configured.approval if goal.configured else ApprovalConfig()


def judged_by(goal: Target, request: ApprovalRequest) -> ApprovalConfig:
    """Return the settings by which the approval of a step is judged; see `settings_from`.

    A promotion brings the content of its source, whatever its version.
    """
    keeps = request.kind is not RequestKind.CONTENT and not (goal.configured and goal.configured.promote)
    return settings_from(goal, request.base, request.version if keeps else None)


def settings_from(goal: Target, base: Digest | None, version: Version | None = None) -> ApprovalConfig:
    """Return the settings that judge other content than that of `base`, or a step to a `version`, which keeps it.

    Without a base, the channel has nothing, or its tag was deleted: then what it had last counts.

    If the rules changed since the content of the channel was approved, content is judged by the stricter ones. A step
    to the version that the channel has is one of content, whatever kind of request names it.
    """
    settings, ledger = settings_of(goal), goal.ports.ledger(goal.channel)
    records = ledger.records(base) if base else ()
    record = records[-1] if records else ledger.newest()  # deleted, or never written: the last one
    if record is None or goal.configured is None:
        return settings
    if version is not None and records and version != record.version:  # else the version of the base is not known
        return settings
    # A rollback that was interrupted, or an adoption, names no content: the rules of the last one go on counting.
    if (content := record.content or (None if record.promoted_from else ledger.last_content())) is None:
        return settings
    from ci_automation.approval.content import rules_of, stricter

    rules = content.rules
    return settings if rules == rules_of(goal.configured) else stricter(settings, rules.approvals, rules.team)


def why_unprotected(settings: ApprovalConfig, hub: Hub, configured: ApprovalConfig) -> str:
    """Return what would let a run pass the environment without a review, as far as the job may see it, or nothing.

    `settings` may be stricter than what is `configured`.

    Raises:
        ReleaseSourceError: the job does not see it, and so not whether a code counts.
    """
    from ci_automation.approval.approved_run import how_to_protect, one_is_enough, unprotected
    from ci_automation.errors import ReleaseSourceError
    from ci_automation.github.runs import Runs

    name = settings.environment
    try:
        reason = unprotected(Runs(hub.client(actions="read"), hub.repository).environment(name), name)
    except ReleaseSourceError:  # without `actions: read`; the job that does it looks again
        if one_is_enough(settings):
            raise
        return ""
    code = "If GitHub offers none for this repository, set approval.operationsByCode to true in the configuration."
    if configured.operations_by_code:
        code = (
            "No code counts either: the rules of approvals changed since the content of the channel was approved. From "
            "a terminal, the command needs neither."
        )
    return f"{reason}, and the job that does it refuses that. {how_to_protect(name)} {code}" if reason else ""


def reviewed_run(settings: ApprovalConfig, hub: Hub) -> RunFacts:
    """Return what GitHub says of the run that this job is in, for a judge who goes by these settings.

    Raises:
        ReleaseSourceError: GitHub failed or refused.
    """
    from ci_automation.approval.approved_run import JobFacts, run_facts
    from ci_automation.github.repository import Repository
    from ci_automation.github.runs import Runs

    rights = {"actions": "read"} | ({"members": "read"} if settings.team else {})
    client = hub.client(**rights)
    job = JobFacts(int(hub.job.run_id or 0), hub.job.event, hub.job.ref, hub.default_branch())
    return run_facts(job, Runs(client, hub.repository), Repository(client, hub.repository), settings)


def desks_of(goal: Target, hub: Hub) -> dict[RequestKind, Approvals]:
    """Return the ways to ask for approvals of an artifact, one for each kind of step; none if the run asks no one.

    Raises:
        UsageError, ReleaseSourceError: as `approvals_of`.
    """
    kinds = tuple(RequestKind) if goal.configured and goal.configured.overlay is not None else (RequestKind.VERSION,)
    found = {kind: approvals_of(goal, hub, kind) for kind in kinds}
    return {kind: approvals for kind, approvals in found.items() if approvals}


def approvals_of(goal: Target, hub: Hub, kind: RequestKind = RequestKind.VERSION) -> Approvals | None:
    """Return the way to ask for one kind of step of an artifact: as the configuration says, else the input, or none.

    Raises:
        UsageError: it is not known of which repository, as whom, or where.
        ReleaseSourceError: GitHub failed or refused.
    """
    from ci_automation.github.runs import Runs

    settings = settings_of(goal)
    match settings.via or ApprovalVia(hub.inputs.approval):
        case ApprovalVia.NONE:
            return None
        case ApprovalVia.PULL_REQUEST:
            return _by_pull_request(goal, hub, kind, settings)
        case ApprovalVia.WORKFLOW_DISPATCH:
            from ci_automation.approval.workflow_run import WorkflowApprovals

            runs = Runs(hub.client(actions="write"), hub.repository)
            return WorkflowApprovals(runs, hub.job.server, hub.default_branch(), goal.channel, settings, now, kind=kind)
        case ApprovalVia.REPOSITORY_DISPATCH:
            from ci_automation.approval.dispatch import DispatchApprovals

            if settings.repository is None:
                raise NoReceiver
            receiver = Runs(hub.client(settings.repository, contents="write", actions="read"), settings.repository)
            return DispatchApprovals(receiver, hub.job.server, hub.sender, now, kind=kind)


def _by_pull_request(goal: Target, hub: Hub, kind: RequestKind, settings: ApprovalConfig) -> Approvals:
    from ci_automation.approval.content import rules_of
    from ci_automation.approval.pull_request import AskedArtifact, PullRequestApprovals
    from ci_automation.github.commits import Commits
    from ci_automation.github.pulls import Pulls
    from ci_automation.github.repository import Repository

    rights = {"contents": "write", "pull_requests": "write"} | ({"members": "read"} if settings.team else {})
    client, name = hub.client(**rights), hub.repository
    places = Repository(client, name, hub.ahead(goal), hub.made), Commits(client, name), Pulls(client, name)
    place = hub.job.workspace if hub.inputs.command in {"update", "promote"} else None
    asked = AskedArtifact(goal.name, goal.channel, settings, kind, partial(judged_by, goal), place)
    if kind is RequestKind.CONTENT and goal.configured:
        return PullRequestApprovals(*places, replace(asked, rules=rules_of(goal.configured).name))
    if goal.configured is None or not goal.configured.group:
        return PullRequestApprovals(*places, asked)
    group = goal.configured.group
    config = configuration(hub.inputs.given)
    channels = tuple(it.channel for it in (config.artifacts if config else ()) if it.group == group)
    desk = PullRequestApprovals(*places, replace(asked, group=group, group_channels=channels))
    hub.groups.setdefault(group, []).append(desk)
    return desk
