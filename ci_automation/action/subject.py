"""The job that signs: who started it, on which branch, and whether its keyless subject is its own workflow.

GitHub puts the workflow that a job is written in into the identity token (`job_workflow_ref`), and Fulcio puts that
into the certificate. A job of a called workflow bears the called one's name, as every caller's does; a cluster that
trusts the name trusts them all (GitHub, "OpenID Connect reference").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.action.job import Job

# None of these runs code of a pull request, or hands our secrets to one.
EVENTS = ("schedule", "workflow_dispatch", "push", "repository_dispatch")


class SharedSubject(UsageError):
    """The job would sign keyless under a name that every caller of its workflow shares."""

    hint = (
        "Use the action in a job of your own workflow, which then signs as itself; or sign with a key or a KMS. Where "
        "everybody who can call that workflow may sign for your clusters, say so: accept-shared-subject: true."
    )

    def __init__(self, workflow: str, caller: str) -> None:
        called = f"called by {caller}" if caller else "and what called it is not known"
        super().__init__(f"this job is in {workflow}, {called}: every caller of that workflow signs with the same name")


class NotTheDefaultBranch(UsageError):
    """A job would publish on an event, a branch or in a repository whose jobs must not."""

    hint = f"Nothing was signed. Start the workflow on the default branch, by {', '.join(EVENTS[:-1])} or {EVENTS[-1]}."

    def __init__(self, problem: str) -> None:
        super().__init__(f"this job may not sign: {problem}")


def require_own_event(event: str, ref: str, branch: str) -> None:
    """Check that a job was started by an event of its own repository's default branch.

    Raises:
        NotTheDefaultBranch: it was not.
    """
    if event not in EVENTS:
        raise NotTheDefaultBranch(f"it was started by {event or 'no event'}")
    if ref != f"refs/heads/{branch}":
        raise NotTheDefaultBranch(f"it runs on {ref or 'no branch'}, and the default branch is {branch}")


def require_own_claims(claims: Mapping[str, Any], job: Job, branch: str) -> None:
    """Check that an identity token of GitHub's is of a job in the workflow that was started here, by the claims in it.

    Raises:
        SharedSubject: the job is in another workflow, which this one called.
        NotTheDefaultBranch: the token is of another event, branch or repository.
    """
    if "job_workflow_ref" not in claims:
        return  # an identity of another kind, which was handed over
    written, started = (str(claims.get(name) or "") for name in ("job_workflow_ref", "workflow_ref"))
    if not written == started == job.workflow_ref:
        raise SharedSubject(written, started if started != written else job.workflow_ref)
    require_own_event(str(claims.get("event_name")), str(claims.get("ref")), branch)
    identity = str(claims.get("repository_id"))
    if claims.get("repository") != job.repository or job.repository_id not in {"", identity}:
        raise NotTheDefaultBranch(f"its token is for the repository {claims.get('repository')}")
