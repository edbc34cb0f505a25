"""Approval by pull request: one branch and one pull request for each artifact and kind, and its merge approves.

What is wanted is compared with what is there, and the difference is made, so that a run that was cut off is finished by
the next. A commit of ours says what it asks for, and the page what people were told; each is changed last of all that
it speaks of. What people did is never overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.approval.judge import claimed, judge_merge, may_be_claimed, merge_of, merge_to_judge, witnesses
from ci_automation.approval.lock import LOCK_FILE, Lock, LockEntry
from ci_automation.approval.people import People
from ci_automation.approval.port import ApprovalRequest, Asked, AskedState, RequestKind
from ci_automation.approval.work import Trace, Work
from ci_automation.flux.artifact import called
from ci_automation.github.commits import branch_name
from ci_automation.github.errors import HeadMoved
from ci_automation.github.model import Making, PullState
from ci_automation.report.markdown import one_line
from ci_automation.report.request import Mark, MarkState, Page, superseded, withdrawn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ci_automation.approval.port import GrantedApproval, NotCounted, Question
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.config.model import ApprovalConfig
    from ci_automation.github.commits import Commits
    from ci_automation.github.model import PullRequest, PullSnapshot
    from ci_automation.github.pulls import Pulls
    from ci_automation.github.repository import Repository

_ATTEMPTS = 3


class _Wish(Struct, frozen=True):
    """Wanted request: the entry, on top of the default branch's lock file, and the page."""

    entry: LockEntry
    default: Lock
    page: Page

    @property
    def mark(self) -> Mark:
        return Mark(self.page.step.base, self.page.step.target)

    @property
    def opened(self) -> str:
        """Return the page as long as not all were told."""
        return replace(self.mark, state=MarkState.OPENED).put(self.page.body)


class AskedArtifact(Struct, frozen=True):
    """Artifact whose steps of one kind are asked for, and the settings: for all of them, or by `judged_by` for each.

    With a `workspace`, GitHub is asked for an approval only if the lock file that is checked out there may have one.
    """

    name: str
    channel: Reference
    settings: ApprovalConfig
    kind: RequestKind = RequestKind.VERSION
    judged_by: Callable[[ApprovalRequest], ApprovalConfig] | None = None
    workspace: Path | None = None


class PullRequestApprovals:
    """Approvals of one artifact in one repository; for one run, which looks for approvals before it asks for any."""

    def __init__(self, repository: Repository, commits: Commits, pulls: Pulls, asked: AskedArtifact) -> None:
        self._repository, self._commits, self._pulls = repository, commits, pulls
        self._name, self._channel, self._settings = asked.name, asked.channel, asked.settings
        self._kind, self._judged_by, self._workspace = asked.kind, asked.judged_by, asked.workspace
        self._branch = branch_name(asked.name, f"{asked.kind}-" if asked.kind is RequestKind.CONTENT else "")
        self._seen: PullSnapshot | None = None
        repository.ahead.wanted[self._branch] = LOCK_FILE
        self._judged: str | None = None  # the merge that was judged in this run

    def granted(self, base: Digest) -> GrantedApproval | NotCounted | None:
        """Return the approval of a step from `base`, judged now, or None.

        Raises:
            InvalidLock: the lock file of the default branch is damaged.
            ReleaseSourceError: GitHub does not answer, or not as it should.
        """
        if self._workspace and not may_be_claimed(base, self._channel, self._kind, self._workspace):
            return None
        self._seen = snapshot = self._look()
        if (entry := claimed(base, self._channel, snapshot, self._kind)) is None:
            return None
        to_judge = merge_to_judge(entry, snapshot)
        making = self._repository.making(to_judge, snapshot) if to_judge else Making()
        if making is None:  # the next run judges it
            return None
        settings = self._settings_for(entry.request)
        people = People.of(witnesses(entry, snapshot, making, settings), settings.team, self._repository)
        merged = merge_of(entry, snapshot)
        self._judged = merged.url if merged else None
        return judge_merge(entry, snapshot, making, people, settings)

    def ask(self, question: Question) -> Asked:
        """Ask, or find that it was asked already; what was asked before of this artifact is superseded.

        Raises:
            InvalidLock: the lock file of the default branch is damaged.
            HeadMoved: others keep moving the branch.
            ReleaseSourceError: GitHub does not answer, or not as it should.
        """
        # What was seen before the step was rendered serves to open a pull request, or to find that nothing is to do.
        seen = self._take()
        if seen and (asked := self._settled(seen, self._wish(seen, question))):
            return asked
        snapshot = seen if seen and seen.branch is None else self._look()
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._ask(snapshot, question)
            except HeadMoved:
                snapshot = self._look()
        return self._ask(snapshot, question)

    def withdraw(self, reason: str) -> None:
        """Close all open requests of this kind for this artifact and say why.

        A branch that people changed stays; where they changed what it asks for, its pull request stays open too.

        Raises:
            ReleaseSourceError: GitHub does not answer, or not as it should.
        """
        seen = self._take()
        snapshot = seen if seen and seen.branch is None else self._look()
        if (work := Work.of(snapshot, self._channel, self._kind)) is None:
            return
        if pull := snapshot.open_pull:
            if work.entry is None or work.is_altered:
                return
            self._close(pull, work.entry.request, snapshot, reason)
        if not work.has_people and (pull or not _refused(snapshot)):
            self._commits.delete_branch(self._branch)

    def _take(self) -> PullSnapshot | None:
        """Return what was seen in this run, by this desk or by a later look at the default branch; it serves once."""
        seen = self._repository.ahead.taken.pop(self._branch, self._seen)
        self._seen = None
        return seen

    def _settings_for(self, request: ApprovalRequest) -> ApprovalConfig:
        return self._judged_by(request) if self._judged_by else self._settings

    def _look(self) -> PullSnapshot:
        return self._repository.snapshot(self._branch, LOCK_FILE)

    def _wish(self, snapshot: PullSnapshot, question: Question) -> _Wish:
        request = ApprovalRequest.of(question.plan, question.step, self._kind)
        default = Lock.parse(snapshot.file)
        there = default.find(self._channel, self._kind)
        # What was merged and did not count, or was used up, is asked for in a way that its old merge does not answer.
        ask = there.ask + 1 if there and there.request == request else 1
        settings = self._settings_for(request)
        page = Page(self._name, self._channel, question.step, question.notes, settings.approvals, settings.team)
        return _Wish(LockEntry(request, ask), default, page)

    def _settled(self, snapshot: PullSnapshot, wish: _Wish) -> Asked | None:
        """Return what is to be said where nothing is to be done."""
        there = wish.default.find(self._channel, self._kind)
        merged = merge_of(there, snapshot) if there and there.request == wish.entry.request else None
        if merged and merged.url != self._judged:
            return Asked(merged.url, AskedState.UNCHANGED, "it was merged just now; the next run picks it up")
        pull, work = snapshot.open_pull, Work.of(snapshot, self._channel, self._kind)
        no = None if pull else _refused(snapshot)
        if no and replace(no[1], state=MarkState.ASKED) == wish.mark:
            remark = f"a person closed it; to have it asked for again, reopen it or delete the branch {self._branch}"
            return Asked(no[0].url, AskedState.KEPT, remark)
        if work and work.has_people and work.entry != wish.entry:
            url = next((each.url for each in (pull, *snapshot.pulls) if each), "")
            return Asked(url, AskedState.KEPT, self._kept(work, wish))
        page = wish.page
        is_ours = pull and pull.is_written_by(snapshot.viewer) and _shows(pull, page.title, page.body)
        if pull and is_ours and work and work.serves(wish.entry, wish.default):
            return Asked(pull.url, AskedState.UNCHANGED)
        return None

    def _kept(self, work: Work, wish: _Wish) -> str:
        asks = f"asks for {work.entry.request.version}" if work.entry else "asks for nothing"
        return (
            f"a person changed the branch {self._branch}, which {asks}; {wish.entry.request.version} "
            f"({wish.entry.request.target}) is asked for once the branch is merged or deleted"
        )

    def _ask(self, snapshot: PullSnapshot, question: Question) -> Asked:
        wish = self._wish(snapshot, question)
        if asked := self._settled(snapshot, wish):
            return asked
        head = self._write(snapshot, wish)
        if pull := snapshot.open_pull:
            self._update(replace(pull, head=head), wish, snapshot)
            return Asked(pull.url, AskedState.UPDATED)
        told = self._is_told
        body = wish.opened if told else wish.page.body
        draft = self._settings.draft
        pull = self._pulls.open_pull(self._branch, snapshot.default_branch, wish.page.title, body, draft=draft)
        if told:
            self._dress(pull, wish, snapshot)
        return Asked(pull.url, AskedState.OPENED)

    @property
    def _is_told(self) -> bool:
        """Return whether anybody is to be told, or GitHub, once the pull request is open."""
        settings = self._settings
        people = settings.reviewers or settings.team_reviewers or settings.assignees
        return bool(people or settings.labels or settings.auto_merge)

    def _write(self, snapshot: PullSnapshot, wish: _Wish) -> str:
        """Return the head of the branch, once it asks for what is wanted, and can be merged."""
        work = Work.of(snapshot, self._channel, self._kind)
        if work and work.serves(wish.entry, wish.default):
            return work.branch.head
        if not work or work.entry != wish.entry:
            self._hold_back(snapshot.open_pull)
        trace = Trace.of(wish.entry, wish.default)
        version = wish.entry.request.version
        message = f"{one_line(f'Ask for {called(version)} for {self._name}', 100)}\n\n{trace}\n"
        files = {LOCK_FILE: wish.default.with_entry(wish.entry).text.encode()}
        if work and not work.is_merged and work.base != trace.base:
            return self._commits.rebase_commit(self._branch, work.branch.head, snapshot.head, message, files)
        head = snapshot.head
        if work and work.base == trace.base:
            head = work.branch.head
            files = {LOCK_FILE: work.lock.with_entry(wish.entry).text.encode()}
        else:
            if work:  # merged, as one commit maybe, so that its own would come along
                self._commits.delete_branch(self._branch)
            self._commits.create_branch(self._branch, head)
        return self._commits.commit(self._branch, head, message, files)

    def _hold_back(self, pull: PullRequest | None) -> None:
        """Switch auto-merge off for commits that the person who switched it on has not seen.

        It would: auto-merge stays on when somebody who may write pushes. Where it is configured, reviews of the last
        commit are what counts.
        """
        if pull and pull.auto_merge and not self._settings.auto_merge:
            self._pulls.disable_auto_merge(pull)

    def _update(self, pull: PullRequest, wish: _Wish, snapshot: PullSnapshot) -> None:
        """Bring the page up to date, and at last what it says of itself."""
        old = Mark.find(pull.body)
        if old and old.target != wish.mark.target:
            self._comment(pull, snapshot, wish.mark, superseded(old, wish.mark, wish.entry.request.version))
        opened = old is not None and old.state is MarkState.OPENED
        body = wish.opened if opened else wish.page.body
        is_ours, shows = pull.is_written_by(snapshot.viewer), _shows(pull, wish.page.title, body)
        if shows and not (is_ours or opened):
            self._pulls.edit_pull(pull.number, body=wish.opened)  # GitHub notes no writer of a body that stays the same
        if not (shows and is_ours):
            self._pulls.edit_pull(pull.number, title=wish.page.title, body=body)
        if opened:
            self._dress(pull, wish, snapshot)

    def _dress(self, pull: PullRequest, wish: _Wish, snapshot: PullSnapshot) -> None:
        """Tell those who shall answer, and at last that it was done."""
        settings = self._settings
        if settings.reviewers or settings.team_reviewers:
            self._pulls.request_review(pull.number, settings.reviewers, settings.team_reviewers)
        # What GitHub merged by itself and did not count would be merged so again and again.
        if settings.auto_merge and wish.entry.ask == 1 and not pull.auto_merge:
            self._pulls.enable_auto_merge(pull, snapshot.merge_method)
        if settings.labels or settings.assignees:
            self._pulls.dress(pull.number, settings.labels, settings.assignees, body=wish.page.body)
        else:
            self._pulls.edit_pull(pull.number, body=wish.page.body)

    def _close(self, pull: PullRequest, request: ApprovalRequest, snapshot: PullSnapshot, reason: str) -> None:
        """Close a pull request after a comment, and have its page say that no person did."""
        mark = Mark(request.base, request.target, MarkState.WITHDRAWN)
        self._comment(pull, snapshot, mark, withdrawn(mark, reason))
        self._pulls.edit_pull(pull.number, body=mark.put(pull.body), state=PullState.CLOSED)

    def _comment(self, pull: PullRequest, snapshot: PullSnapshot, mark: Mark, text: str) -> None:
        """Write a comment, unless the last of ours has its mark: a run before may have been cut off after it."""
        comments = self._pulls.comments(pull.number)
        ours = [Mark.find(comment.body) for comment in comments if comment.author == snapshot.viewer]
        if [found for found in ours if found][-1:] != [mark]:
            self._pulls.comment(pull.number, text)


def _refused(snapshot: PullSnapshot) -> tuple[PullRequest, Mark] | None:
    """Return the pull request that people closed, and what it asked for."""
    pull = snapshot.refused_pull
    mark = Mark.find(pull.body) if pull else None
    return (pull, mark) if pull and mark and mark.state is not MarkState.WITHDRAWN else None


def _shows(pull: PullRequest, title: str, body: str) -> bool:
    """Return whether a pull request has this page; who edits one in a browser makes other ends of lines."""
    return pull.title == title and pull.body.replace("\r\n", "\n").strip() == body.strip()
