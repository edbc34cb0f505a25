"""The branch of a request and its pull request: compare what is wanted with what is there, and make the difference.

So the next run finishes what a run did that was cut off. A commit of ours says what it asks for, and the page what
people were told; each is changed last of all that it speaks of. What people did is never overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.approval.branch_work import Trace, Work
from ci_automation.approval.judge import is_silent
from ci_automation.approval.lock import LOCK_FILE, Lock, LockEntry
from ci_automation.approval.port import Asked, AskedState
from ci_automation.flux.artifact import called
from ci_automation.github.errors import HeadMoved
from ci_automation.github.model import PullState
from ci_automation.report.markdown import (
    Mark,
    MarkState,
    find_marks,
    one_line,
    place_digest,
    put_marks,
    superseded,
    withdrawn,
)
from ci_automation.report.request import GroupPage, Page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from ci_automation.approval.branch_work import Place
    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.config.model import ApprovalConfig
    from ci_automation.github.commits import Commits
    from ci_automation.github.model import PullRequest, PullSnapshot
    from ci_automation.github.pulls import Pulls
    from ci_automation.github.repository import Repository

    T = TypeVar("T")

_ATTEMPTS = 3
# What people send elsewhere or close of others, or of older ones, a run might not see again.
_NOT_THE_NEWEST = "a run asks only in the newest pull request from this branch, and only if it opened that itself"


class WantedRequest(Struct, frozen=True):
    """Wanted request: the entries, on top of the default branch's lock file, and the page."""

    entries: tuple[LockEntry, ...]
    default: Lock
    page: Page | GroupPage

    @classmethod
    def of_group(cls, name: str, wishes: Sequence[Self]) -> Self:
        """Return one wanted request for the artifacts of a group."""
        entries = tuple(entry for wish in wishes for entry in wish.entries)
        pages = tuple(wish.page for wish in wishes if isinstance(wish.page, Page))
        return cls(entries, wishes[0].default, GroupPage(name, pages))

    @property
    def opened(self) -> str:
        """Return the page as long as not all were told."""
        return put_marks(self.page.body, (replace(mark, state=MarkState.OPENED) for mark in self.page.marks))


class RequestBranch(Struct, frozen=True):
    """A branch with the requests for one artifact, or for those of a group, one after the other."""

    repository: Repository
    commits: Commits
    pulls: Pulls
    name: str  # of the branch
    settings: ApprovalConfig
    asker: str  # the artifact, or the group
    places: tuple[Place, ...]  # of the entries that it can ask for

    def look(self) -> PullSnapshot:
        """Return what is there now."""
        return self.repository.snapshot(self.name, LOCK_FILE)

    def insist(self, act: Callable[[PullSnapshot], T], snapshot: PullSnapshot | None = None) -> T:
        """Return what `act` makes of what is there; a branch that others moved meanwhile is looked at again.

        Raises:
            HeadMoved: others keep moving the branch.
        """
        for _ in range(_ATTEMPTS - 1):
            try:
                return act(snapshot or self.look())
            except HeadMoved:
                snapshot = None
        return act(snapshot or self.look())

    def left_alone(self, snapshot: PullSnapshot, wish: WantedRequest, unknown: frozenset[Digest]) -> Asked | None:
        """Return the open request that asks for what is wanted, and for artifacts of which this run knows nothing."""
        pull, work = snapshot.open_pull, self._work(snapshot)
        if pull is None or work is None or not pull.is_written_by(snapshot.viewer):
            return None
        marks = find_marks(pull.body)
        wanted = {mark for mark in marks if mark.of not in unknown}
        if len(wanted) == len(marks) or wanted != set(wish.page.marks) or not set(wish.entries) <= set(work.entries):
            return None
        shows = isinstance(wish.page, GroupPage) and wish.page.is_part_of(pull.body)
        return Asked(pull.url, AskedState.UNCHANGED) if shows else None

    def settled(self, snapshot: PullSnapshot, wish: WantedRequest) -> Asked | None:
        """Return what is to be said where nothing is to be done."""
        pull, work = snapshot.open_pull, self._work(snapshot)
        if work and work.has_people and not work.asks_for(wish.entries):
            url = next((each.url for each in (pull, *snapshot.pulls) if each), "")
            return Asked(url, AskedState.KEPT, self._kept(work, wish))
        page = wish.page
        viewer = snapshot.viewer
        is_ours = pull and _is_newest_of_ours(pull, snapshot) and pull.is_written_by(viewer)
        shows = is_ours and pull and _shows(pull, page.title, page.body)
        if pull and shows and work and work.serves(wish.entries, wish.default):
            return Asked(pull.url, AskedState.UNCHANGED)
        return None

    def _kept(self, work: Work, wish: WantedRequest) -> str:
        asks = ", ".join(dict.fromkeys(str(entry.request.version) for entry in work.entries)) or "nothing"
        wanted = ", ".join(f"{entry.request.version} ({entry.request.target})" for entry in wish.entries)
        return (
            f"a person changed the branch {self.name}, which asks for {asks}; {wanted} is asked for once the branch is "
            "merged or deleted"
        )

    def made(self, snapshot: PullSnapshot, wish: WantedRequest) -> Asked:
        """Ask for what is wanted, in the open pull request or in a new one."""
        head = self._write(snapshot, wish)
        if pull := snapshot.open_pull:
            if _is_newest_of_ours(pull, snapshot):
                self._update(replace(pull, head=head), wish, snapshot)
                return Asked(pull.url, AskedState.UPDATED)
            self._close(pull, wish.entries, snapshot, _NOT_THE_NEWEST)
        told = self._is_told
        body = wish.opened if told else wish.page.body
        draft = self.settings.draft
        pull = self.pulls.open_pull(self.name, snapshot.default_branch, wish.page.title, body, draft=draft)
        if told and pull.is_opened_by(snapshot.viewer):  # else a person was faster: the next run closes that one
            self._dress(pull, wish, snapshot)
        return Asked(pull.url, AskedState.OPENED)

    def withdraw(self, snapshot: PullSnapshot, reason: str) -> None:
        """Close the open request and say why.

        A branch that people changed stays; where they changed what it asks for, its pull request stays open too.
        """
        if (work := self._work(snapshot)) is None:
            return
        if pull := snapshot.open_pull:
            if not work.entries or work.is_altered:
                return
            self._close(pull, work.entries, snapshot, reason)
        if not work.has_people and not any(refused(snapshot, artifact) for artifact, _ in self.places):
            self.commits.delete_branch(self.name)

    def _work(self, snapshot: PullSnapshot) -> Work | None:
        return Work.of(snapshot, self.places)

    @property
    def _is_told(self) -> bool:
        """Return whether people or GitHub are to be told once the pull request is open."""
        settings = self.settings
        people = settings.reviewers or settings.team_reviewers or settings.assignees
        return bool(people or settings.labels or settings.auto_merge)

    def _write(self, snapshot: PullSnapshot, wish: WantedRequest) -> str:
        """Return the head of the branch, once it asks for what is wanted, and can be merged."""
        work = self._work(snapshot)
        if work and work.serves(wish.entries, wish.default):
            return work.branch.head
        if not work or not work.asks_for(wish.entries):
            self._hold_back(snapshot.open_pull)
        trace = Trace.of(wish.entries, wish.default)
        versions = ", ".join(dict.fromkeys(called(entry.request.version) for entry in wish.entries))
        message = f"{one_line(f'Ask for {versions} for {self.asker}', 100)}\n\n{trace}\n"
        files = {LOCK_FILE: wish.default.with_entries(wish.entries).text.encode()}
        goes_on = work is not None and work.base == trace.base and not work.has_others(wish.entries)
        if work and not work.is_merged and not goes_on:
            return self.commits.rebase_commit(self.name, work.branch.head, snapshot.head, message, files)
        head = snapshot.head
        if work and goes_on:
            head = work.branch.head
            files = {LOCK_FILE: work.lock.with_entries(wish.entries).text.encode()}
        else:
            if work:  # merged, as one commit maybe, so that its own would come along
                self.commits.delete_branch(self.name)
            self.commits.create_branch(self.name, head)
        return self.commits.commit(self.name, head, message, files)

    def _hold_back(self, pull: PullRequest | None) -> None:
        """Switch auto-merge off for commits that the person who switched it on has not seen.

        It would: auto-merge stays on when an account that may write pushes. Where it is configured, reviews of the last
        commit are what counts.
        """
        if pull and pull.auto_merge and not self.settings.auto_merge:
            self.pulls.disable_auto_merge(pull)

    def _update(self, pull: PullRequest, wish: WantedRequest, snapshot: PullSnapshot) -> None:
        """Bring the page up to date, and at last what it says of itself."""
        marks = wish.page.marks
        old = {mark.of: mark for mark in find_marks(pull.body)}
        both = [(what, old[mark.of], mark) for what, mark in zip(wish.page.steps, marks, strict=True) if mark.of in old]
        if changes := [each for each in both if each[1].target != each[2].target]:
            self._comment(pull, snapshot, marks, superseded(changes, marks))
        opened = any(mark.state is MarkState.OPENED for mark in old.values())
        body = wish.opened if opened else wish.page.body
        is_ours, shows = pull.is_written_by(snapshot.viewer), _shows(pull, wish.page.title, body)
        if shows and not (is_ours or opened):
            self.pulls.edit_pull(pull.number, body=wish.opened)  # GitHub notes no writer of a body that stays the same
        if not (shows and is_ours):
            self.pulls.edit_pull(pull.number, title=wish.page.title, body=body)
        if opened:
            self._dress(pull, wish, snapshot)

    def _dress(self, pull: PullRequest, wish: WantedRequest, snapshot: PullSnapshot) -> None:
        """Tell the people who are asked, and note at last that this was done."""
        settings = self.settings
        if settings.reviewers or settings.team_reviewers:
            self.pulls.request_review(pull.number, settings.reviewers, settings.team_reviewers)
        # What GitHub merged by itself and did not count would be merged so again and again.
        first = all(entry.ask == 1 for entry in wish.entries)
        if settings.auto_merge and first and not pull.auto_merge:
            self.pulls.enable_auto_merge(pull, snapshot.merge_method)
        if settings.labels or settings.assignees:
            self.pulls.dress(pull.number, settings.labels, settings.assignees, body=wish.page.body)
        else:
            self.pulls.edit_pull(pull.number, body=wish.page.body)

    def _close(self, pull: PullRequest, entries: Sequence[LockEntry], snapshot: PullSnapshot, reason: str) -> None:
        """Close a pull request after a comment, and have its page say that no person did."""
        requests = [entry.request for entry in entries]
        marks = [Mark(it.base, it.target, place_digest(it.artifact), MarkState.WITHDRAWN) for it in requests]
        self._comment(pull, snapshot, marks, withdrawn(marks, reason))
        self.pulls.edit_pull(pull.number, body=put_marks(pull.body, marks), state=PullState.CLOSED)

    def _comment(self, pull: PullRequest, snapshot: PullSnapshot, marks: Sequence[Mark], text: str) -> None:
        """Write a comment, unless the last of ours has its marks: a run before may have been cut off after it."""
        comments = self.pulls.comments(pull.number)
        ours = [find_marks(comment.body) for comment in comments if comment.author == snapshot.viewer]
        if [found for found in ours if found][-1:] != [tuple(marks)]:
            self.pulls.comment(pull.number, text)


def refused(snapshot: PullSnapshot, artifact: Reference) -> tuple[PullRequest, Mark] | None:
    """Return the last pull request about an artifact if people closed it, and what it asked for.

    To delete the branch undoes that.
    """
    viewer, again = snapshot.viewer, snapshot.open_pull
    if snapshot.branch is None or (again and not is_silent(again, artifact, viewer)):
        return None
    last = next((pull for pull in snapshot.own_pulls if not is_silent(pull, artifact, viewer)), None)
    if last is None or last.state is not PullState.CLOSED:
        return None
    marks = {mark.of: mark for mark in find_marks(last.body) if mark.state is not MarkState.WITHDRAWN}
    mark = marks.get(place_digest(artifact))
    return (last, mark) if mark else None


def _is_newest_of_ours(pull: PullRequest, snapshot: PullSnapshot) -> bool:
    return pull.is_opened_by(snapshot.viewer) and pull.number == snapshot.own_pulls[0].number


def _shows(pull: PullRequest, title: str, body: str) -> bool:
    """Return whether a pull request has this page; who edits one in a browser makes other ends of lines."""
    return pull.title == title and pull.body.replace("\r\n", "\n").strip() == body.strip()
