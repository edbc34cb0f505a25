"""The subject of this job's keyless signatures: its own workflow, or one that it shares with others.

GitHub puts the workflow that a job is written in into the identity token (`job_workflow_ref`), and Fulcio puts that
into the certificate. A job of a called workflow bears the called one's name, as everybody does who calls it; a cluster
that trusts the name trusts them all (GitHub, "OpenID Connect reference").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.errors import SigningError

if TYPE_CHECKING:
    from ci_automation.action.job import Job

_WORKFLOWS = "/.github/workflows/"


class SharedSubject(SigningError):
    """The job would sign keyless under a name that every caller of its workflow shares."""

    hint = (
        "Use the action in a job of your own workflow, which then signs as itself; or sign with a key or a KMS. Where "
        "everybody who can call that workflow may sign for your clusters, say so: accept-shared-subject: true."
    )

    def __init__(self, subject: str, caller: str) -> None:
        called = f"called by {caller}" if caller else "and what called it is not known"
        super().__init__(f"this job is in {subject}, {called}: every caller of that workflow signs with the same name")


def require_own_subject(subject: str, job: Job) -> None:
    """Check that the subject of a certificate is the workflow that was started, if it is a workflow of this GitHub's.

    Raises:
        SharedSubject: it is another workflow, which this one called.
    """
    if not subject.startswith(f"{job.server}/") or _WORKFLOWS not in subject:
        return  # somebody's own identity, which was handed over
    if subject != job.subject:
        raise SharedSubject(subject, job.workflow_ref)
