"""Judge whether a job that waited in a protected environment was approved, and does what its reviewers were shown.

A job that continues does not prove an approval: an environment without reviewers lets everything pass, an
administrator may bypass one, and reviewers need no more than read access. So what the run's reviewers said is read
and judged in the job itself. A workflow's file on another branch could leave all this out; what keeps such a run from
the registry is that its credentials belong to the environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.approval.counting import People
from ci_automation.approval.port import ApprovalRequest, GrantedApproval, NotCounted
from ci_automation.records.notes import Approval

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ci_automation.config.model import ApprovalConfig
    from ci_automation.github.model import Actor, Environment, RunApproval, WorkflowRun
    from ci_automation.github.repository import Repository
    from ci_automation.github.runs import Runs

_EVENT = "workflow_dispatch"


def unprotected(environment: Environment | None, name: str) -> str:
    """Return why an environment lets every run pass, or nothing."""
    if environment is not None and environment.required_reviewers:
        return ""
    what = "does not exist" if environment is None else "has no required reviewers"
    return f"the environment {name} {what}, so every run would pass without approval"


def by_code(environment: Environment | None, settings: ApprovalConfig) -> bool:
    """Return whether a code approves an operation: one person is enough, and no reviewer has to approve the run."""
    return one_is_enough(settings) and bool(unprotected(environment, settings.environment))


def one_is_enough(settings: ApprovalConfig) -> bool:
    """Return whether the code may approve what no environment has reviewers for."""
    return settings.operations_by_code and not settings.approvals


def how_to_protect(name: str) -> str:
    """Return what to click so that an environment waits for a person."""
    return f"In the repository's settings, under Environments, choose {name} and tick 'Required reviewers'."


class RunFacts(Struct, frozen=True):
    """Facts of the run that a job is in: from the runner (`event`, `ref`), and from GitHub (the rest)."""

    event: str
    ref: str
    branch: str  # the default branch
    run: WorkflowRun
    environment: Environment | None
    said: tuple[RunApproval, ...]
    people: People  # those who approved, or who started it


def judge_run(
    request: ApprovalRequest, key: str, facts: RunFacts, settings: ApprovalConfig, now: datetime
) -> GrantedApproval | NotCounted:
    """Return the approval of `request` in a run whose inputs are the request and `key`."""
    if key and key != request.key:
        return NotCounted(request, "the key belongs to another request")
    found = judge_reviews(facts, settings, now, by_check=bool(key))
    if isinstance(found, Approval):
        return GrantedApproval(request, found, facts.run.created_at)
    return NotCounted(request, found)


def judge_reviews(
    facts: RunFacts, settings: ApprovalConfig, now: datetime, *, by_check: bool = False
) -> Approval | str:
    """Return the approval that the reviewers of a run gave, or why none counts; `by_check`: a check started the run.

    GitHub keeps what people said by run, not by attempt, and without a time. So a yes to an earlier attempt counts for
    a later one: the inputs of a run never change, and a yes is used up once it was published, which is found by `how`,
    or once the channel was there since the run began. A no to any attempt makes the whole run count for nothing, since
    it may be the last word.
    """
    if reason := _why_none(facts, settings):
        return reason
    reasons = []
    for actor in _approvers(facts.said, settings.environment):
        if not (reason := _why_not(actor, facts, settings, by_check=by_check)):
            return Approval(actor.login, how_approved(facts.run.url), now)
        reasons.append(reason)
    unapproved = (
        f"no reviewer approved this run in the environment {settings.environment}; it may have passed without a review"
    )
    return "; ".join(reasons) or unapproved


def judge_starter(facts: RunFacts, settings: ApprovalConfig, now: datetime) -> Approval | str:
    """Return the approval of the person who started a run with the code of what it does, or why it does not count.

    It counts where `by_code` says so. Who runs a job again is not asked: the inputs of a run never change. A no of a
    reviewer counts, also where the environment has none any more.
    """
    if reason := _wrong_start(facts) or _rejected(facts, settings.environment):
        return reason
    starter = facts.run.actor
    if starter is None or starter.is_bot:
        return "no person started it with the code"
    if lacking := facts.people.lacking(starter.login, settings.team):
        return f"{starter.login} started it with the code, but {lacking}"
    return Approval(starter.login, how_approved(facts.run.url), now)


def how_approved(url: str) -> str:
    """Return how the run at `url` was approved, as records have it: an approval counts once."""
    return f"run {url}"


def _why_none(facts: RunFacts, settings: ApprovalConfig) -> str:
    """Return why no approval in the run can count, or nothing."""
    name = settings.environment
    if reason := _wrong_start(facts):
        return reason
    if reason := unprotected(facts.environment, name):
        return f"{reason}. {how_to_protect(name)}"
    return _rejected(facts, name)


def _rejected(facts: RunFacts, name: str) -> str:
    """Return that a reviewer of an environment said no, or nothing."""
    if any(word.state == "rejected" and _names(word, name) for word in facts.said):
        return "a reviewer rejected this run, in this attempt or an earlier one; start a new run to ask again"
    return ""


def _wrong_start(facts: RunFacts) -> str:
    """Return what is wrong with how the run was started, or nothing."""
    if facts.event != _EVENT or facts.run.event != _EVENT:
        return f"the run was started by {facts.event}, not by a workflow_dispatch"
    if facts.ref != f"refs/heads/{facts.branch}" or facts.run.branch != facts.branch:
        return f"the run is on {facts.ref}, not on the default branch {facts.branch}"
    return ""


def _why_not(actor: Actor, facts: RunFacts, settings: ApprovalConfig, *, by_check: bool) -> str:
    """Return why the yes of one account does not count, or nothing."""
    if actor.is_bot:
        return f"{actor.login} approved it, and is not a person"
    # A check starts its run with any token: a machine's account looks like a person's.
    if by_check and facts.run.actor is not None and facts.run.actor.login == actor.login:
        return f"{actor.login} approved it and also started it; a run started by hand has no key"
    starters = {it.login for it in (facts.run.actor, facts.run.triggering_actor) if it}
    if settings.approvals and actor.login in starters:
        return f"{actor.login} approved it and also started it, and the configuration asks for approvals of others"
    lacking = facts.people.lacking(actor.login, settings.team)
    return f"{actor.login} approved it, but {lacking}" if lacking else ""


def _approvers(said: Iterable[RunApproval], environment: str) -> tuple[Actor, ...]:
    """Return who approved, each once."""
    return tuple(dict.fromkeys(word.user for word in said if word.state == "approved" and _names(word, environment)))


def _names(word: RunApproval, environment: str) -> bool:
    """Return whether a word is about an environment; GitHub takes their names in any case."""
    return environment.casefold() in {name.casefold() for name in word.environments}


def people_of(logins: Iterable[str], team: str | None, repository: Repository) -> People:
    """Return what GitHub says of these people now.

    Raises:
        TeamHidden: there is no such team, or the token may not see it.
        ReleaseSourceError: as `GitHub.get`.
    """
    found = {login: repository.permission(login) for login in logins}
    members = frozenset(login for login in found if team and repository.is_member(team, login))
    levels = {login: permission.level for login, permission in found.items()}
    return People(levels, members, {login: permission.account for login, permission in found.items()})


class JobFacts(Struct, frozen=True):
    """Facts of the approved job, as the runner states them."""

    run: int
    event: str
    ref: str
    branch: str  # the default branch


def run_facts(job: JobFacts, runs: Runs, repository: Repository, settings: ApprovalConfig) -> RunFacts:
    """Return what GitHub says of the run of this job now.

    Raises:
        ReleaseSourceError: GitHub failed or refused.
    """
    said = runs.run_approvals(job.run)
    run, environment = runs.run(job.run), runs.environment(settings.environment)
    asked = _approvers(said, settings.environment)
    if run.actor and by_code(environment, settings):
        asked = (run.actor,)
    people = people_of((actor.login for actor in asked if not actor.is_bot), settings.team, repository)
    return RunFacts(job.event, job.ref, job.branch, run, environment, said, people)
