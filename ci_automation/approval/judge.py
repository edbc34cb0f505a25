"""Judge which merge is an approval, from GitHub's present answers, never from a workspace or an event.

A lock file's entry at the head of the default branch is no more than a claim. It counts if a pull request of ours was
merged with exactly that entry, by a person who may write to the repository, or, where GitHub merged by itself, after
reviews of exactly the merged commit by such people. A review counts if its author has no hand in the branch. Branch
rules and CODEOWNERS are GitHub's to enforce.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ci_automation.approval.lock import InvalidLock, Lock
from ci_automation.approval.port import GrantedApproval, NotCounted, RequestKind
from ci_automation.github.model import PullState
from ci_automation.records.notes import Approval

if TYPE_CHECKING:
    from ci_automation.approval.lock import LockEntry
    from ci_automation.approval.people import People
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.config.model import ApprovalConfig
    from ci_automation.github.model import Actor, Making, PullRequest, PullSnapshot

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_OPINIONS = frozenset({"APPROVED", "CHANGES_REQUESTED", "DISMISSED"})


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

    One that was merged before, and undone or replaced by another since, is not brought back by a change of the file.
    """
    merged = (
        pull
        for pull in snapshot.pulls
        if pull.state is PullState.MERGED and (not pull.cross_repository or _has(pull.merged_file, entry))
    )
    last = max(merged, key=lambda pull: pull.merged_at or _LONG_AGO, default=None)
    return last if last and _has(last.merged_file, entry) else None


def merge_to_judge(entry: LockEntry, snapshot: PullSnapshot) -> PullRequest | None:
    """Return the merge whose circumstances `judge_merge` needs."""
    pull = merge_of(entry, snapshot)
    return pull if pull and not _out_of_place(pull, snapshot) else None


def witnesses(entry: LockEntry, snapshot: PullSnapshot, making: Making, settings: ApprovalConfig) -> tuple[str, ...]:
    """Return the logins whose permission and team membership `judge_merge` needs."""
    if (pull := merge_to_judge(entry, snapshot)) is None:
        return ()
    merger = _merger(pull, snapshot, making)
    reviewers = _approving(pull, snapshot, making) if _reviews_needed(merger, settings) else ()
    return tuple(dict.fromkeys([merger, *reviewers] if merger else reviewers))


def judge_merge(
    entry: LockEntry, snapshot: PullSnapshot, making: Making, people: People, settings: ApprovalConfig
) -> GrantedApproval | NotCounted:
    """Return the approval of the default branch's entry, with approver and time, or why it does not count."""
    if (pull := merge_of(entry, snapshot)) is None:
        reason = "the last merged pull request did not ask for exactly these digests; the file was edited"
        return NotCounted(entry.request, reason)
    found = _verdict(pull, snapshot, making, people, settings)
    if isinstance(found, str):
        return NotCounted(entry.request, f"pull request {pull.number} {found}")
    return GrantedApproval(entry.request, found)


def _verdict(
    pull: PullRequest, snapshot: PullSnapshot, making: Making, people: People, settings: ApprovalConfig
) -> Approval | str:
    """Return the approval by a merge, or a sentence on why it is not one."""
    if reason := _out_of_place(pull, snapshot):
        return reason
    if pull.merged_at is None:
        return "was merged, but GitHub does not say when"
    merger = _merger(pull, snapshot, making)
    if merger and (lacking := people.lacking(merger, settings.team)):
        return f"was merged by {merger}, who {lacking}"
    approving = [login for login in _approving(pull, snapshot, making) if not people.lacking(login, settings.team)]
    needed = _reviews_needed(merger, settings)
    if len(approving) < needed:
        by = f"by {merger}" if merger else "by no person"
        counted = f"was merged {by} with {len(approving)} of {needed} approving reviews of its last commit that count"
        return f"{counted}{_remark(pull, snapshot, making)}"
    if again := snapshot.open_pull:  # the file lost the entry since, and has it back without a word of anybody's
        return f"was merged before pull request {again.number} was opened, which asks again"
    return Approval(merger or ", ".join(approving), f"pull request {pull.url}", pull.merged_at)


def _out_of_place(pull: PullRequest, snapshot: PullSnapshot) -> str:
    """Return what is wrong with where a pull request came from, or went to."""
    if pull.cross_repository:
        return "comes from a fork"
    if pull.base != snapshot.default_branch:
        return f"went into {pull.base}, which is not the default branch"
    return ""


def _reviews_needed(merger: str | None, settings: ApprovalConfig) -> int:
    """Return how many reviews a merge needs; a merge that no person made needs at least one."""
    return settings.approvals if merger else max(1, settings.approvals)


def _approving(pull: PullRequest, snapshot: PullSnapshot, making: Making) -> tuple[str, ...]:
    """Return the approvers of the last commit who made no part of the branch; none if not all authors are known."""
    if making.pushed_at is None:
        return ()
    return tuple(login for login in _reviewers(pull, snapshot) if login.casefold() not in making.hands)


def _reviewers(pull: PullRequest, snapshot: PullSnapshot) -> tuple[str, ...]:
    """Return who approved the last commit: people, by their last opinion, and not the author."""
    latest = {}
    for review in sorted(pull.reviews, key=lambda review: review.at):
        if review.state in _OPINIONS and review.author != pull.author and _is_person(review.author, snapshot):
            latest[review.author.login] = review
    return tuple(login for login, review in latest.items() if review.state == "APPROVED" and review.commit == pull.head)


def _merger(pull: PullRequest, snapshot: PullSnapshot, making: Making) -> str | None:
    """Return the person who merged, or None where GitHub, an App or this program did.

    GitHub merges in the name of who switched auto-merge on, and that person has not seen what was pushed afterwards.
    """
    if pull.merged_by is None or not _is_person(pull.merged_by, snapshot) or _is_blind(making):
        return None
    return pull.merged_by.login


def _is_blind(making: Making) -> bool:
    """Return whether auto-merge was not switched on after the last push; GitHub's moments are whole seconds."""
    return making.auto_merge is not None and not (making.pushed_at and making.pushed_at < making.auto_merge)


def _remark(pull: PullRequest, snapshot: PullSnapshot, making: Making) -> str:
    """Return what explains that a merge or a review does not count."""
    blind = "; auto-merge was switched on before its last commit" if _is_blind(making) else ""
    reviewers = _reviewers(pull, snapshot)
    if reviewers and making.pushed_at is None:
        return f"{blind}; GitHub does not say who pushed its last commit"
    own = [login for login in reviewers if login.casefold() in making.hands]
    return f"{blind}; {', '.join(own)} made or pushed commits of it" if own else blind


def _is_person(actor: Actor, snapshot: PullSnapshot) -> bool:
    return not actor.is_bot and actor.login.casefold() != snapshot.viewer.login.casefold()


def _has(text: str | None, entry: LockEntry) -> bool:
    """Return whether a lock file, as it was once, has exactly `entry`."""
    try:
        return Lock.parse(text).find(*entry.place) == entry
    except InvalidLock:
        return False
