"""Approval by pull request: one branch for each artifact and kind, or for each group, and its merge approves.

A group is asked for once in a run, after the last of its artifacts: what each wants to ask is collected until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.approval.approved_run import people_of
from ci_automation.approval.judge import (
    claimed,
    has_entry,
    judge_merge,
    may_be_claimed,
    merge_of,
    merge_to_judge,
    shown_by,
    witnesses,
)
from ci_automation.approval.lock import LOCK_FILE, MOST_ASKS, Lock, LockEntry
from ci_automation.approval.port import ApprovalRequest, Asked, AskedState, GrantedApproval, NotCounted, RequestKind
from ci_automation.approval.request_branch import RequestBranch, WantedRequest, refused
from ci_automation.github.commits import Commits, branch_name
from ci_automation.github.model import Making, PullRequest, PullSnapshot
from ci_automation.report.markdown import find_marks, place_digest
from ci_automation.report.request import Page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ci_automation.approval.port import Question
    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.config.model import ApprovalConfig
    from ci_automation.github.pulls import Pulls
    from ci_automation.github.repository import Repository
    from ci_automation.policy.plan import PlannedStep


class AskedArtifact(Struct, frozen=True):
    """Artifact whose steps of one kind are asked for, and the settings: for all of them, or by `judged_by` for each.

    With a `workspace`, GitHub is asked for an approval only if the lock file that is checked out there may have one.
    `rules` is the name of those under which content is approved: a merge counts if its page was made under them.
    """

    name: str
    channel: Reference
    settings: ApprovalConfig
    kind: RequestKind = RequestKind.VERSION
    judged_by: Callable[[ApprovalRequest], ApprovalConfig] | None = None
    workspace: Path | None = None
    group: str = ""
    group_channels: tuple[Reference, ...] = ()  # of all artifacts of the group
    rules: str = ""

    def request_branch(self, repository: Repository, commits: Commits, pulls: Pulls) -> RequestBranch:
        """Return the branch of the requests."""
        kind = "group-" if self.group else f"{self.kind}-" if self.kind is RequestKind.CONTENT else ""
        name = branch_name(self.group or self.name, kind)
        places = tuple((channel, self.kind) for channel in self.group_channels or (self.channel,))
        asker = self.group or self.name
        return RequestBranch(repository, commits, pulls, name, self.settings, asker, places)


class PullRequestApprovals:
    """Approvals of one artifact in one repository; for one run, which looks for approvals before it asks for any."""

    def __init__(self, repository: Repository, commits: Commits, pulls: Pulls, asked: AskedArtifact) -> None:
        self._repository, self.asked = repository, asked
        self.branch = asked.request_branch(repository, commits, pulls)
        self._seen: PullSnapshot | None = None
        repository.ahead.wanted[self.branch.name] = LOCK_FILE
        self._judged: str | None = None  # the merge that was judged in this run
        self.question: Question | None = None  # for the request of the group
        self.withdrawn = ""  # why the group need not ask for this artifact

    def granted(self, base: Digest) -> GrantedApproval | NotCounted | None:
        """Return the approval of a step from `base`, judged now, or None.

        Raises:
            InvalidLock: the lock file of the default branch is damaged.
            ReleaseSourceError: GitHub does not answer, or not as it should.
        """
        asked = self.asked
        if asked.workspace and not may_be_claimed(base, asked.channel, asked.kind, asked.workspace):
            return None
        self._seen = snapshot = self.branch.look()
        if (entry := claimed(base, asked.channel, snapshot, asked.kind)) is None:
            return None
        to_judge = merge_to_judge(entry, snapshot)
        making = self._repository.making(to_judge, snapshot) if to_judge else Making()
        if making is None:  # the next run judges it
            return None
        settings = self._settings_for(entry.request)
        people = people_of(witnesses(entry, snapshot, making, settings), settings.team, self._repository)
        merged = merge_of(entry, snapshot)
        self._judged = merged.url if merged else None
        found = judge_merge(entry, snapshot, making, people, settings)
        if isinstance(found, GrantedApproval) and asked.rules and asked.rules not in (found.shown or ()):
            return NotCounted(entry.request, "the rules of approvals changed after its page was made")
        if isinstance(found, NotCounted) or all(
            has_entry(text, entry) for text in self._repository.texts(making.later, LOCK_FILE)
        ):
            return found
        return NotCounted(entry.request, "the default branch lost its entry since, and had it back by another change")

    def ask(self, question: Question) -> Asked:
        """Ask, or find that it was asked already; what was asked before of this artifact is superseded.

        Raises:
            InvalidLock: the lock file of the default branch is damaged.
            HeadMoved: others keep moving the branch.
            ReleaseSourceError: GitHub does not answer, or not as it should.
        """
        if self.asked.group:
            self.question = question
            return Asked("", AskedState.LATER)
        # What was seen before the step was rendered serves to open a pull request, or to find that nothing is to do.
        seen = self._take()
        if seen and (asked := self._settled(seen, self.wanted(seen, question))):
            return asked
        return self.branch.insist(
            lambda snapshot: self._ask(snapshot, question), seen if seen and seen.branch is None else None
        )

    def withdraw(self, reason: str) -> None:
        """Close all open requests of this kind for this artifact and say why; see `RequestBranch.withdraw`.

        Raises:
            ReleaseSourceError: GitHub does not answer, or not as it should.
        """
        self.withdrawn = reason
        if not self.asked.group:
            seen = self._take()
            self.branch.withdraw(seen if seen and seen.branch is None else self.branch.look(), reason)

    def _take(self) -> PullSnapshot | None:
        """Return what was seen in this run, by this desk or by a later look at the default branch; it serves once."""
        seen = self._repository.ahead.taken.pop(self.branch.name, self._seen)
        self._seen = None
        return seen

    def _settings_for(self, request: ApprovalRequest) -> ApprovalConfig:
        return self.asked.judged_by(request) if self.asked.judged_by else self.asked.settings

    def wanted(self, snapshot: PullSnapshot, question: Question) -> WantedRequest:
        """Return the request that asks for a step of this artifact alone."""
        asked = self.asked
        request = ApprovalRequest.of(question.plan, question.step, asked.kind)
        default = Lock.parse(snapshot.file)
        there = default.find(asked.channel, asked.kind)
        ask, before = 1, ""
        if there and there.request == request:
            # What was merged and did not count, or was used up, is asked for so that its old merge does not answer.
            ask = there.ask % MOST_ASKS + 1
            before = _lacked(merge_of(there, snapshot), there, question.step)
        settings = self._settings_for(request)
        page = Page(asked.name, asked.channel, question.step, question.notes, settings.approvals, settings.team, before)
        page = replace(page, rules=asked.rules)
        return WantedRequest((LockEntry(request, ask),), default, page)

    def _ask(self, snapshot: PullSnapshot, question: Question) -> Asked:
        wanted = self.wanted(snapshot, question)
        return self._settled(snapshot, wanted) or self.branch.made(snapshot, wanted)

    def _settled(self, snapshot: PullSnapshot, wanted: WantedRequest) -> Asked | None:
        return self.answered(snapshot, wanted) or self.branch.settled(snapshot, wanted)

    def answered(self, snapshot: PullSnapshot, wanted: WantedRequest) -> Asked | None:
        """Return what is to be said where people said yes or no to this step."""
        (entry,) = wanted.entries
        there = wanted.default.find(*entry.place)
        merged = merge_of(there, snapshot) if there and there.request == entry.request else None
        if merged and merged.url != self._judged:
            return Asked(merged.url, AskedState.UNCHANGED, "it was merged just now; the next run picks it up")
        no = refused(snapshot, self.asked.channel)
        if no and (no[1].base, no[1].target) == (entry.request.base, entry.request.target):
            again = f"to have it asked for again, reopen it or delete the branch {self.branch.name}"
            return Asked(no[0].url, AskedState.KEPT, f"a person closed it; {again}")
        return None


def _lacked(merged: PullRequest | None, entry: LockEntry, step: PlannedStep) -> str:
    """Return why a merge does not count whose page did not show all that a step can break, or nothing."""
    unseen = step.unseen(shown_by(merged, entry)) if merged else ()
    if merged is None or not unseen:
        return ""
    more = f", and {len(unseen) - 1} more" if unseen[1:] else ""
    return (
        f"pull request {merged.number} was merged for these digests before it was known that {unseen[0].sentence}{more}"
    )


def ask_group(members: Sequence[PullRequestApprovals]) -> dict[Reference, Asked]:
    """Ask once for all that the members of a group asked for in this run, or withdraw what no member needs now.

    An artifact that failed, or waits, said neither: as long as nothing else changes, an open request keeps it.

    Raises:
        InvalidLock, HeadMoved, ReleaseSourceError: as `PullRequestApprovals.ask`.
    """
    known = {it.asked.channel: it for it in members if it.question or it.withdrawn}
    if not known:
        return {}
    first = next(iter(known.values()))
    unknown = frozenset(map(place_digest, first.asked.group_channels)) - frozenset(map(place_digest, known))
    asking = {channel: (it, it.question) for channel, it in known.items() if it.question}
    if asking:
        return first.branch.insist(lambda snapshot: _asked_together(snapshot, first.branch, asking, unknown))
    snapshot = first.branch.look()
    if snapshot.open_pull is None or unknown.isdisjoint(mark.of for mark in find_marks(snapshot.open_pull.body)):
        first.branch.withdraw(snapshot, first.withdrawn)
    return {}


def _asked_together(
    snapshot: PullSnapshot,
    branch: RequestBranch,
    asking: Mapping[Reference, tuple[PullRequestApprovals, Question]],
    unknown: frozenset[Digest],
) -> dict[Reference, Asked]:
    """Return what became of each question: what people answered already is not asked again beside the others."""
    wishes = {channel: it.wanted(snapshot, question) for channel, (it, question) in asking.items()}
    found = ((channel, it.answered(snapshot, wishes[channel])) for channel, (it, _) in asking.items())
    answers = {channel: answer for channel, answer in found if answer}
    if left := [channel for channel in wishes if channel not in answers]:
        wanted = WantedRequest.of_group(branch.asker, [wishes[channel] for channel in left])
        settled = branch.left_alone(snapshot, wanted, unknown) or branch.settled(snapshot, wanted)
        answers |= dict.fromkeys(left, settled or branch.made(snapshot, wanted))
    return answers
