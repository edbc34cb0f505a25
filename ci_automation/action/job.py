"""The job as the runner describes it: the variables that it sets, and the event that started the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from ci_automation.errors import Conflict, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

PUBLIC_SERVER, PUBLIC_API = "https://github.com", "https://api.github.com"
_MAX_EVENT_BYTES = 32 << 20
# None of these runs code of a pull request, or hands our secrets to one.
EVENTS = ("schedule", "workflow_dispatch", "push", "repository_dispatch")


class UnreadableEvent(UsageError):
    """The file with the event that started the run cannot be read."""

    hint = "The runner writes it. Run it again; in a workflow of your own, leave GITHUB_EVENT_PATH alone."

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"the event in {path} cannot be read: {reason}")


class Job(Struct, frozen=True):
    """One job of a run of GitHub Actions, or nothing of the kind where `runner` is false."""

    runner: bool = False
    server: str = PUBLIC_SERVER
    api: str = PUBLIC_API
    repository: str = ""
    repository_id: str = ""
    sha: str = ""  # the commit that started the run
    actor: str = ""
    ref: str = ""
    run_id: str = ""
    attempt: int = 1  # how often the run was started, re-runs included
    workflow_ref: str = ""  # of the workflow that was started, which may have called the one that this job is in
    event: str = ""
    event_path: Path | None = None
    workspace: Path | None = None
    output: Path | None = None
    summary: Path | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Return the job whose variables `environment` has (GitHub, "Variables reference")."""

        def path(name: str) -> Path | None:
            return Path(text) if (text := environment.get(name)) else None

        return cls(
            runner=environment.get("GITHUB_ACTIONS") == "true",
            server=(environment.get("GITHUB_SERVER_URL") or PUBLIC_SERVER).rstrip("/"),
            api=(environment.get("GITHUB_API_URL") or PUBLIC_API).rstrip("/"),
            repository=environment.get("GITHUB_REPOSITORY", ""),
            repository_id=environment.get("GITHUB_REPOSITORY_ID", ""),
            sha=environment.get("GITHUB_SHA", ""),
            actor=environment.get("GITHUB_ACTOR", ""),
            ref=environment.get("GITHUB_REF", ""),
            run_id=environment.get("GITHUB_RUN_ID", ""),
            attempt=int(tries) if (tries := environment.get("GITHUB_RUN_ATTEMPT", "")).isdecimal() else 1,
            workflow_ref=environment.get("GITHUB_WORKFLOW_REF", ""),
            event=environment.get("GITHUB_EVENT_NAME", ""),
            event_path=path("GITHUB_EVENT_PATH"),
            workspace=path("GITHUB_WORKSPACE"),
            output=path("GITHUB_OUTPUT"),
            summary=path("GITHUB_STEP_SUMMARY"),
        )

    @property
    def subject(self) -> str:
        """Return the subject of certificates for jobs that are written in the started workflow itself."""
        return f"{self.server}/{self.workflow_ref}"

    @property
    def workflow_path(self) -> str:
        """Return where in the repository the started workflow is, or nothing where it is in another one."""
        path, own = self.workflow_ref.partition("@")[0], f"{self.repository}/"
        return path.removeprefix(own) if path.startswith(own) else ""

    @property
    def url(self) -> str:
        """Return the address of the run, or nothing outside of one."""
        if not (self.repository and self.run_id):
            return ""
        return f"{self.server}/{self.repository}/actions/runs/{self.run_id}"

    def payload(self) -> Mapping[str, Any]:
        """Return the event that started the run, as it came. It is a request, and proves nothing.

        Raises:
            UnreadableEvent: the file is not there, or holds no JSON object.
        """
        if self.event_path is None:
            return {}
        try:
            with self.event_path.open("rb") as file:
                data = file.read(_MAX_EVENT_BYTES + 1)
            value = json.loads(data) if len(data) <= _MAX_EVENT_BYTES else None
        except OSError as error:
            raise UnreadableEvent(self.event_path, error.strerror or str(error)) from None
        except (ValueError, RecursionError):
            raise UnreadableEvent(self.event_path, "it is not JSON") from None
        if not isinstance(value, dict):
            raise UnreadableEvent(self.event_path, "it is not a JSON object of an event's size")
        return value


class OldCheckout(Conflict):
    """The default branch now has another configuration, overlay or workflow than this checkout."""

    hint = (
        "The channel was not moved. The next run goes by what the default branch has; start it by hand if it is urgent."
    )

    def __init__(self, path: str, *, linked: bool = False) -> None:
        what = "is a symbolic link or behind one, and may not be" if linked else "is not"
        super().__init__(f"{path} in this checkout {what} what the default branch has now")


class SharedSubject(UsageError):
    """The job would sign under a name that all callers of its workflow share."""

    hint = (
        "Use the action in a job of your own workflow, which then signs as itself; or sign with a key or a KMS. Where "
        "all who can call that workflow may sign for your clusters, say so: accept-shared-subject: true."
    )

    def __init__(self, workflow: str, caller: str) -> None:
        called = f"called by {caller}" if caller else "and what called it is not known"
        super().__init__(f"this job is in {workflow}, {called}: every caller of that workflow signs with the same name")


class NotTheDefaultBranch(UsageError):
    """A job would publish on a wrong event, branch or repository."""

    hint = f"Nothing was signed. Start the workflow on the default branch, by {', '.join(EVENTS[:-1])} or {EVENTS[-1]}."

    def __init__(self, problem: str) -> None:
        super().__init__(f"this job may not sign: {problem}")


def require_own_event(event: str, ref: str, branch: str) -> None:
    """Raise `NotTheDefaultBranch` unless an event of the repository's own default branch started the job."""
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
