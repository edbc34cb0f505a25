"""Asking by a run that waits in a protected environment: how it is started, and how it is found again.

GitHub lets the job of a workflow wait for a person where its environment has required reviewers ("Reviewing
deployments"), for 30 days. A run is found again by its title, which the workflow's `run-name` makes. What the people
then say is judged in the job itself (`approved_run`).
"""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.approval.approved_run import how_to_protect, unprotected
from ci_automation.approval.dispatch import MOST_RUNS, midnight
from ci_automation.approval.port import ApprovalRequest, Asked, AskedState, GrantedApproval, Question, RequestKind
from ci_automation.errors import ReleaseSourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.config.model import ApprovalConfig
    from ci_automation.github.model import WorkflowRun
    from ci_automation.github.runs import Runs

MEMORY = timedelta(days=62)  # a run can be repeated for 30 days, and then wait for another 30
_WAITS = (1.0, 2.0, 4.0)  # seconds until GitHub lists a run that it did not name when it was started
_LAST_WORDS = 5  # runs that are asked for what their reviewers said
_EVENT = "workflow_dispatch"
# Not `queued` or `in_progress`: such a run may have its yes, and a publication is never cancelled.
_STILL_WAITS = frozenset({"waiting", "pending", "requested", "action_required"})
_TITLE_END = re.compile(r" v[^ ]{1,64} \((?P<key>(content-)?[0-9a-f]{16})\)")
_TITLE = re.compile(rf"Approve \S+{_TITLE_END.pattern}")


class UnprotectedEnvironment(ReleaseSourceError):
    """An environment without protection, which lets every run pass."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"no reviewer would be asked: {reason}")
        self.hint = how_to_protect(name)


class AskingRuns(Struct, frozen=True):
    """Runs of an artifact in relation to one request: the one that asks for it, those to cancel, those that ended."""

    asks: WorkflowRun | None = None
    outdated: tuple[WorkflowRun, ...] = ()
    ended: tuple[WorkflowRun, ...] = ()  # newest first


def asking_runs(
    runs: Iterable[WorkflowRun],
    channel: Reference,
    branch: str,
    key: str | None,
    kind: RequestKind = RequestKind.VERSION,
) -> AskingRuns:
    """Return what `runs` are to the request of this kind with `key` (None: to no request at all).

    Only runs of the default branch are looked at: on another one, the workflow's file can make any title.
    """
    asking: list[WorkflowRun] = []
    outdated: list[WorkflowRun] = []
    ended: list[WorkflowRun] = []
    for run in sorted(runs, key=lambda run: run.id, reverse=True):
        if (asked := _asked_key(run, channel, branch, kind)) is None:
            continue
        if asked == key:
            (ended if run.status == "completed" else asking).append(run)
        elif run.status in _STILL_WAITS:
            outdated.append(run)
    if not asking:
        return AskingRuns(None, tuple(outdated), tuple(ended))
    # Two checks at the same moment may both have asked: the one that went on is kept, or the one that was first.
    kept = min(asking, key=lambda run: (run.status in _STILL_WAITS, run.id))
    twice = [run for run in asking if run is not kept and run.status in _STILL_WAITS]
    return AskingRuns(kept, (*outdated, *twice), tuple(ended))


def _asked_key(run: WorkflowRun, channel: Reference, branch: str, kind: RequestKind) -> str | None:
    """Return the key of the request of this kind that a run asks for, or None if it is another run."""
    key = _key(run.title, channel)
    is_ours = run.event == _EVENT and run.branch == branch
    return key if key and is_ours and RequestKind.of_key(key) is kind else None


def _key(title: str, channel: Reference) -> str | None:
    """Return the key in a title that asks about `channel`; a tag has no blanks, so no other address begins like it."""
    start = f"Approve {channel}"
    match = _TITLE_END.fullmatch(title.removeprefix(start)) if title.startswith(start) else None
    return match["key"] if match else None


class WorkflowApprovals(Struct, frozen=True):
    """Approvals by runs of a workflow; the run itself gets and judges the approval."""

    runs: Runs
    server: str
    branch: str
    channel: Reference
    settings: ApprovalConfig
    clock: Callable[[], datetime]
    sleep: Callable[[float], None] = time.sleep
    kind: RequestKind = RequestKind.VERSION

    def granted(self, base: Digest) -> GrantedApproval | None:
        """Return None: an approved run publishes its step itself."""
        del base
        return None

    def ask(self, question: Question) -> Asked:
        """Start a run that waits, unless there is one; those that ask for another step of this kind are cancelled.

        What a person rejected is not asked again as long as GitHub's list of the last two months shows it; what was
        cancelled, or agreed to and then failed, is.

        Raises:
            UnprotectedEnvironment: the run would not wait for a reviewer.
            ReleaseSourceError: GitHub failed or refused. A run whose start was not answered is found by the next check.
        """
        request = ApprovalRequest.of(question.plan, question.step, self.kind)
        found = self._standing(request.key)
        self._cancel(found.outdated)
        if found.asks:
            return Asked(found.asks.url, AskedState.UNCHANGED)
        if rejected := self._rejected(found.ended):
            remark = "A reviewer rejected it. No run asks again for two months, or until another step needs approval. "
            return Asked(rejected.url, AskedState.KEPT, remark + "You can start the workflow by hand, with its inputs.")
        name = self.settings.environment
        if reason := unprotected(self.runs.environment(name), name):
            raise UnprotectedEnvironment(name, reason)
        return self._start(request, found)

    def withdraw(self, reason: str) -> None:
        """Cancel the runs of this artifact and kind that still wait; a cancelled run has no room for the reason."""
        del reason
        self._cancel(self._standing(None).outdated)

    def rejected(self, since: datetime) -> str:
        """Return which run for a step of this kind did not end before a moment, and that a reviewer may have said no.

        That counts whatever became of the run since: who may write can start it again. A run that a person started may
        be for any step. Nothing if there is none; otherwise the end of a sentence.
        """
        listed = self._listed(midnight(min(since, self.clock() - MEMORY)))
        asked = [run for run in listed if run.updated_at >= since and not self._is_of_another(run)]
        if no := next((run for run in asked[:_LAST_WORDS] if self._rejected((run,))), None):
            return f"a reviewer rejected the run {no.url}"
        if len(asked) > _LAST_WORDS:
            return f"{len(asked)} runs asked for content, more than this run reads"
        if len(listed) >= MOST_RUNS:  # one that began before all of them may have ended since
            return f"{len(listed)} runs began, more than this run reads"
        return ""

    def _is_of_another(self, run: WorkflowRun) -> bool:
        """Return whether a run asks for something else than a step of this kind, or for nothing that counts."""
        if (run.event, run.branch) != (_EVENT, self.branch):
            return True
        is_of_check = _TITLE.fullmatch(run.title)
        return is_of_check is not None and _asked_key(run, self.channel, self.branch, self.kind) is None

    def _standing(self, key: str | None) -> AskingRuns:
        runs = self._listed(midnight(self.clock() - MEMORY))
        return asking_runs(runs, self.channel, self.branch, key, self.kind)

    def _listed(self, since: datetime) -> tuple[WorkflowRun, ...]:
        return self.runs.runs(workflow=self.settings.workflow, event=_EVENT, since=since, limit=MOST_RUNS)

    def _cancel(self, runs: Iterable[WorkflowRun]) -> None:
        for run in runs:
            self.runs.cancel(run.id)

    def _rejected(self, ended: tuple[WorkflowRun, ...]) -> WorkflowRun | None:
        """Return the newest of the runs that people had a word on, if the word was no."""
        for run in ended[:_LAST_WORDS]:
            if said := self.runs.run_approvals(run.id):
                return run if any(word.state == "rejected" for word in said) else None
        return None

    def _start(self, request: ApprovalRequest, before: AskingRuns) -> Asked:
        again = (
            "This run asks again, because an earlier run ended without a rejection. Reject it to stop the questions."
        )
        remark = again if before.ended else ""
        if started := self.runs.dispatch_workflow(self.settings.workflow, self.branch, request.texts):
            return Asked(started.url, AskedState.OPENED, remark)
        for wait in _WAITS:
            self.sleep(wait)
            if run := self._standing(request.key).asks:
                return Asked(run.url, AskedState.OPENED, remark)
        page = f"{self.server}/{self.runs.name}/actions/workflows/{self.settings.workflow}"
        return Asked(page, AskedState.OPENED, remark)
