"""Judge whether a job that waited in a protected environment was approved, and does what its reviewers were shown.

A job that continues does not prove an approval: an environment without reviewers lets everything pass, an
administrator may bypass one, and reviewers need no more than read access. So what the run's reviewers said is read
and judged in the job itself. A workflow's file on another branch could leave all this out; what keeps such a run from
the registry is that its credentials belong to the environment.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self

from msgspec import DecodeError, Struct, ValidationError, json
from msgspec.structs import replace

from ci_automation.approval.counting import People
from ci_automation.approval.port import ApprovalRequest, GrantedApproval, NotCounted
from ci_automation.artifact.reference import Digest, InvalidDigest
from ci_automation.errors import Conflict, UsageError
from ci_automation.records.notes import Approval

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.config.model import ApprovalConfig
    from ci_automation.github.model import Actor, Environment, RunApproval, WorkflowRun
    from ci_automation.github.repository import Repository
    from ci_automation.github.runs import Runs

_EVENT = "workflow_dispatch"
MAX_AGE = timedelta(days=7)
NOTHING = "none"  # in place of a digest; an empty text would look like a lost one
_MAX_CHARACTERS = 8192
_TEXT = re.compile(r"[!-~]{1,1024}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_START_AGAIN = "Nothing was changed. Start a new run: it shows what would happen now, and waits for a new approval."


def unprotected(environment: Environment | None, name: str) -> str:
    """Return why an environment lets every run pass, or nothing."""
    if environment is not None and environment.required_reviewers:
        return ""
    what = "does not exist" if environment is None else "has no required reviewers"
    return f"the environment {name} {what}, so every run would pass without approval"


def how_to_protect(name: str) -> str:
    """Return what to click so that an environment waits for a person."""
    return f"In the repository's settings, under Environments, choose {name} and tick 'Required reviewers'."


class ShownRequest(Struct, frozen=True):
    """The digest that the reviewers of a run were asked for, with the names of the hazards that they were shown."""

    target: str
    hazards: tuple[str, ...]

    def to_text(self) -> str:
        """Return it as one line of JSON."""
        return json.encode(self).decode()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what a job of the same run handed over.

        Raises:
            InvalidHandover: it is malformed.
        """
        try:
            return json.decode(text, type=cls)
        except (ValidationError, DecodeError):
            raise InvalidHandover("it is not what the command review hands over") from None


# Of a run that asks no reviewer. An empty output will not do: a run that cannot see the registry asks without a page.
NOTHING_SHOWN = ShownRequest("nothing", ()).to_text()


class RunFacts(Struct, frozen=True):
    """Facts of the run that a job is in: from the runner (`event`, `ref`), and from GitHub (the rest)."""

    event: str
    ref: str
    branch: str  # the default branch
    run: WorkflowRun
    environment: Environment | None
    said: tuple[RunApproval, ...]
    people: People  # those who approved


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


def how_approved(url: str) -> str:
    """Return how the run at `url` was approved, as records have it: an approval counts once."""
    return f"run {url}"


def _why_none(facts: RunFacts, settings: ApprovalConfig) -> str:
    """Return why no approval in the run can count, or nothing."""
    name = settings.environment
    if facts.event != _EVENT or facts.run.event != _EVENT:
        return f"the run was started by {facts.event}, not by a workflow_dispatch"
    if facts.ref != f"refs/heads/{facts.branch}" or facts.run.branch != facts.branch:
        return f"the run is on {facts.ref}, not on the default branch {facts.branch}"
    if reason := unprotected(facts.environment, name):
        return f"{reason}. {how_to_protect(name)}"
    if any(word.state == "rejected" and _names(word, name) for word in facts.said):
        return "a reviewer rejected this run, in this attempt or an earlier one; start a new run to ask again"
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
    persons = (actor.login for actor in _approvers(said, settings.environment) if not actor.is_bot)
    people = people_of(persons, settings.team, repository)
    environment = runs.environment(settings.environment)
    return RunFacts(job.event, job.ref, job.branch, runs.run(job.run), environment, said, people)


class InvalidHandover(UsageError):
    """What the job `show` handed over is missing or malformed."""

    hint = f"GitHub drops an output that contains a masked secret. {_START_AGAIN}"

    def __init__(self, reason: str) -> None:
        super().__init__(f"what the job `show` handed over cannot be used: {reason}")


class HandoverVoid(Conflict):
    """The reviewers saw something else than what would be done now."""

    hint = _START_AGAIN

    def __init__(self, reason: str) -> None:
        super().__init__(f"the approval does not count any more: {reason}")


class Handover(Struct, frozen=True, forbid_unknown_fields=True):
    """One operation as reviewers saw it.

    `name` is the artifact's in the configuration. `base` and `target` are digests, `base` or NOTHING. `content` names
    the overlay and options, `rules` the configuration, `head` the commit of the default branch, `plan` what the page
    says.
    """

    command: str
    name: str
    artifact: str
    base: str
    target: str
    content: str
    rules: str
    head: str
    plan: str
    attempt: int
    at: datetime

    def to_text(self) -> str:
        """Return it as one line of JSON."""
        return json.encode(self).decode()

    @classmethod
    def parse(cls, text: str) -> Handover:
        """Return what `to_text` wrote.

        Raises:
            InvalidHandover: a part is missing, empty or malformed.
        """
        if not text or len(text) > _MAX_CHARACTERS:
            raise InvalidHandover("it is empty" if not text else "it is too long")
        try:
            found = json.decode(text, type=cls)
        except ValidationError as error:
            raise InvalidHandover(str(error)) from None
        except ValueError:
            raise InvalidHandover("it is not JSON") from None
        texts = {name: value for name in cls.__struct_fields__ if isinstance(value := getattr(found, name), str)}
        if wrong := next((name for name, value in texts.items() if not _TEXT.fullmatch(value)), ""):
            raise InvalidHandover(f"its {wrong} is empty or not printable")
        try:
            for value in (found.target, found.rules, found.plan, *({found.base} - {NOTHING})):
                Digest.parse(value)
        except InvalidDigest as error:
            raise InvalidHandover(str(error)) from None
        if not _COMMIT.fullmatch(found.head) or found.at.tzinfo is None:
            raise InvalidHandover("its commit or time is malformed")
        return found

    def require_same(self, anew: Handover) -> None:
        """Check that `anew`, computed now in any attempt, is what was shown in the first.

        The head of the default branch may have moved on: what counts of it is in `content` and `rules`.

        Raises:
            HandoverVoid: it is not, it is too old, or another attempt showed it.
        """
        if self.attempt != 1:
            raise HandoverVoid(f"attempt {self.attempt} of the run showed it, and an approval counts for the first")
        if not timedelta() <= anew.at - self.at <= MAX_AGE:
            raise HandoverVoid(f"it was shown at {self.at:%Y-%m-%d %H:%M} UTC, and counts for {MAX_AGE.days} days")
        if self == replace(anew, attempt=1, at=self.at, head=self.head):
            return
        changed = [
            f"{name} was {old}, and is {new}"
            for name in ("command", "name", "artifact", "base", "target", "content", "rules", "plan")
            if (old := getattr(self, name)) != (new := getattr(anew, name))
        ]
        raise HandoverVoid("; ".join(changed))
