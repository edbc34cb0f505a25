"""The settings by which the approvals of one artifact are judged, and what GitHub says of a run that has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.approval.port import RequestKind
from ci_automation.config.model import ApprovalConfig

if TYPE_CHECKING:
    from ci_automation.action.github import Hub
    from ci_automation.approval.approved_run import RunFacts
    from ci_automation.approval.port import ApprovalRequest
    from ci_automation.artifact.digest import Digest
    from ci_automation.cli.target import Target
    from ci_automation.flux.version import Version


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

    Without a base, the channel has nothing, or somebody deleted it: then what it had last counts.

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
    if (content := record.content or (None if goal.configured.promote else ledger.last_content())) is None:
        return settings
    from ci_automation.approval.content import stricter
    from ci_automation.flows.planning.git_content import rules_of

    rules = content.rules
    return settings if rules == rules_of(goal.configured) else stricter(settings, rules.approvals, rules.team)


def why_unprotected(settings: ApprovalConfig, hub: Hub) -> str:
    """Return what would let a run pass the environment without a review, as far as the job may see it, or nothing."""
    from ci_automation.approval.approved_run import how_to_protect, unprotected
    from ci_automation.errors import ReleaseSourceError
    from ci_automation.github.runs import Runs

    name = settings.environment
    try:
        reason = unprotected(Runs(hub.client(actions="read"), hub.repository).environment(name), name)
    except ReleaseSourceError:  # without `actions: read`; the job that does it looks again
        return ""
    return f"{reason}, and the job that does it refuses that. {how_to_protect(name)}" if reason else ""


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
