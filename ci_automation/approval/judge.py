"""Judge which merge is an approval from GitHub's present answers, never from a workspace.

A lock file's entry at the head of the default branch is no more than a claim. It counts if a pull request of ours was
merged with exactly that entry, and people who did not make it merged or approved it: `counting` says who counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.approval.counting import MergedRequest, People
from ci_automation.approval.lock import LOCK_FILE, InvalidLock, Lock, LockEntry
from ci_automation.approval.port import GrantedApproval, NotCounted, RequestKind
from ci_automation.errors import Error
from ci_automation.github.model import MOST_LISTED, Actor, Making, PullRequest, PullSnapshot, PullState, UpdateKind
from ci_automation.records.notes import Approval
from ci_automation.report.markdown import MarkState, find_marks, place_digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.config.model import ApprovalConfig

_PUSHED = frozenset({UpdateKind.PUSH, UpdateKind.FORCE_PUSH, UpdateKind.BRANCH_CREATION})


def may_be_claimed(base: Digest, channel: Reference, kind: RequestKind, workspace: Path) -> bool:
    """Return whether the checked out lock file may have an entry that lets `channel` be moved from `base`.

    The file alone proves nothing: GitHub is asked then. What is merged after the checkout is found by the next run, or
    by the one that the merge starts.
    """
    if (workspace / ".git/info/sparse-checkout").exists() or not (workspace / ".git").exists():
        return True
    try:
        lock = Lock.parse((workspace / LOCK_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    except (OSError, ValueError, Error):  # GitHub's answer says what is wrong with it
        return True
    entry = lock.find(channel, kind)
    return entry is not None and entry.request.base == base


def claimed(
    base: Digest, channel: Reference, snapshot: PullSnapshot, kind: RequestKind = RequestKind.VERSION
) -> LockEntry | None:
    """Return the entry of one kind at the default branch's head that lets `channel` be moved from `base`, or None.

    An entry for another base approves nothing from this one.

    Raises:
        InvalidLock: the lock file there is damaged.
    """
    entry = Lock.parse(snapshot.file).find(channel, kind)
    return entry if entry and entry.request.base == base != entry.request.target else None


def merge_of(entry: LockEntry, snapshot: PullSnapshot) -> PullRequest | None:
    """Return the last pull request that was merged, if its merge commit has exactly `entry`.

    One that was merged before, and undone or replaced by another since, is not brought back by a change of the file. A
    merge of a group's request that says nothing of the artifact, and left its entry as it was, is passed over.
    """
    merged = (
        pull
        for pull in snapshot.pulls
        if pull.state is PullState.MERGED and (not pull.cross_repository or has_entry(pull.merged_file, entry))
    )
    for pull in sorted(merged, key=lambda pull: pull.merged_at.timestamp() if pull.merged_at else 0, reverse=True):
        if not has_entry(pull.merged_file, entry):
            return None
        if not is_silent(pull, entry.request.artifact, snapshot.viewer):
            return pull
    return None


def is_silent(pull: PullRequest, artifact: Reference, viewer: Actor) -> bool:
    """Return whether the page, as this program wrote it last, names other artifacts, and not this one."""
    named = {mark.of for mark in find_marks(pull.body)}
    return bool(named) and place_digest(artifact) not in named and not _rewritten(pull, viewer)


def merge_to_judge(entry: LockEntry, snapshot: PullSnapshot) -> PullRequest | None:
    """Return the merge whose circumstances `judge_merge` needs."""
    pull = merge_of(entry, snapshot)
    return pull if pull and not _out_of_place(pull, snapshot) else None


def witnesses(entry: LockEntry, snapshot: PullSnapshot, making: Making, settings: ApprovalConfig) -> tuple[str, ...]:
    """Return the logins whose permission and team membership `judge_merge` needs."""
    pull = merge_to_judge(entry, snapshot)
    return MergedRequest(pull, making, snapshot.viewer, pull.edited_at).possible(settings).people if pull else ()


def judge_merge(
    entry: LockEntry, snapshot: PullSnapshot, making: Making, people: People, settings: ApprovalConfig
) -> GrantedApproval | NotCounted:
    """Return the approval of the default branch's entry, with approver and time, or why it does not count."""
    if (pull := merge_of(entry, snapshot)) is None:
        reason = "the last merged pull request did not ask for exactly these digests; the file was edited"
        return NotCounted(entry.request, reason)
    found = _verdict(entry, pull, snapshot, making, people, settings)
    if isinstance(found, str):
        return NotCounted(entry.request, f"pull request {pull.number} {found}")
    return GrantedApproval(entry.request, found, shown=shown_by(pull, entry))


def shown_by(pull: PullRequest, entry: LockEntry) -> frozenset[str]:
    """Return the names of the hazards that the page of a merged pull request shows for an entry: a page lists them."""
    here = place_digest(entry.request.artifact)
    return next((mark.shown for mark in find_marks(pull.body) if mark.of == here and mark.shown), frozenset())


def _verdict(
    entry: LockEntry,
    pull: PullRequest,
    snapshot: PullSnapshot,
    making: Making,
    people: People,
    settings: ApprovalConfig,
) -> Approval | str:
    """Return the approval by a merge, or a sentence on why it is not one."""
    if reason := _out_of_place(pull, snapshot) or _by_the_way(making):
        return reason
    if pull.merged_at is None:
        return "was merged, but GitHub does not say when"
    merged = MergedRequest(pull, making, snapshot.viewer, pull.edited_at)
    found = merged.counted(people, settings)
    if isinstance(found, str):
        return f"was merged {f'by {pull.merged_by.login} ' if pull.merged_by else ''}{found}"
    if reason := _told_otherwise(pull, entry, snapshot.viewer) or _asked_again(pull, entry, snapshot):
        return reason
    how = f"pull request {pull.url}{', merged by its author' if found.is_own else ''}"
    by = found.merger or ", ".join(found.reviewers)
    return Approval(by, how, pull.merged_at, (merged.recorded(found, people),))


def _asked_again(pull: PullRequest, entry: LockEntry, snapshot: PullSnapshot) -> str:
    """Return which request asked again after a merge, and is open, or was closed by a person and not by this program.

    The open one means that the file lost the entry since, and has it back without a person's word, or that the
    merge did not count once; a no to that is not overruled by the merge before, whatever people made of its page, and
    wherever they sent it.
    """
    request = entry.request
    opened = snapshot.open_pull
    if opened and not is_silent(opened, request.artifact, snapshot.viewer):
        return f"was merged before pull request {opened.number} was opened, which asks again"
    same = request.base, request.target, place_digest(request.artifact)

    def asks(other: PullRequest) -> bool:
        found = {(mark.base, mark.target, mark.of) for mark in find_marks(other.body)}
        # A run may have made it ask for something else, or no more for this, after a person opened it again.
        return same in found or other.reopened or not other.is_written_by(snapshot.viewer)

    later = declined_since(pull.number, pull.merged_at, snapshot, asks)
    return f"was merged before {later}" if later else ""


def declined_since(
    number: int, at: datetime | None, snapshot: PullSnapshot, asks: Callable[[PullRequest], bool] = lambda _: True
) -> str:
    """Return which request from the branch was open since a merge, and that it was closed, merged or sent elsewhere.

    That may be a no to what it `asks`, also if this program closed it in the end, or if its own merge came after that:
    people can reopen what a person closed. If so many came later that older ones are out of sight, one of these may be.
    Nothing if there is none; otherwise the end of a sentence.
    """
    closed = [it for it in snapshot.own_pulls if it.state is PullState.CLOSED]
    merged = [it for it in snapshot.own_pulls if at and it.merged_at and it.merged_at > at]
    for listed in (snapshot.strayed, closed, merged):
        later = [it for it in listed if it.asks_since(number, at)]
        if it := next(filter(asks, later), None):
            what = "was merged, which does not count" if it.state is PullState.MERGED else "was closed"
            what = what if it.base == snapshot.default_branch else f"was sent to {it.base}"
            return f"pull request {it.number} asked again, and that one {what}"
        if len(later) == len(listed) >= MOST_LISTED:
            return f"{len(listed)} other pull requests from its branch ended, behind which a run does not look"
    return ""


def _out_of_place(pull: PullRequest, snapshot: PullSnapshot) -> str:
    """Return what is wrong with where a pull request came from, or went to."""
    if pull.cross_repository:
        return "comes from a fork"
    if pull.base != snapshot.default_branch:
        return f"went into {pull.base}, which is not the default branch"
    return ""


def _told_otherwise(pull: PullRequest, entry: LockEntry, viewer: Actor) -> str:
    """Return how the description, when it was merged, may have been another than that of a run for this entry."""
    if reason := _rewritten(pull, viewer):
        return reason
    request = entry.request
    here = place_digest(request.artifact)
    marks = [mark for mark in find_marks(pull.body) if mark.of == here]
    if any(mark.state is MarkState.WITHDRAWN for mark in marks):  # which says no more what the page showed
        return "was withdrawn before it was merged"
    if {(mark.base, mark.target) for mark in marks} != {(request.base, request.target)}:
        return "had a description of other digests than those that it set"
    return ""


def _rewritten(pull: PullRequest, viewer: Actor) -> str:
    """Return who else wrote the description, or that it changed after the merge, or nothing."""
    if not pull.is_written_by(viewer):
        name = pull.writer.login if pull.writer else "an account that is gone"
        return f"had a description that {name} wrote last, and not {viewer.login}, as which this run asks"
    if pull.edited_at and pull.merged_at and pull.edited_at > pull.merged_at:
        return "got another description after it was merged"
    return ""


def _by_the_way(making: Making) -> str:
    """Return how a pull request was merged that no person merged, but a push of its commits."""
    if making.merged_as in _PUSHED:
        return "was merged by a push of its commits to the default branch, not by its own merge"
    if making.merged_with:
        others = ", ".join(map(str, making.merged_with))
        return f"was merged by the same commit as pull request {others}, whose page may not have shown it"
    if making.is_forgotten:
        return "was merged before what a run reads of GitHub's log of the default branch, which may have lost it since"
    return ""


def has_entry(text: str | None, entry: LockEntry) -> bool:
    """Return whether a lock file, as it was once, has exactly `entry`."""
    try:
        return Lock.parse(text).find(*entry.place) == entry
    except InvalidLock:
        return False
