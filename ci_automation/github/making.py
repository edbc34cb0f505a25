"""Makers of a pull request: authors, committers and pushers of its commits, and the time of auto-merge.

Pushers are in GitHub's own log of a branch: who moved it from which commit to which, and how.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.github.answers import Fields, OfRepository, segment
from ci_automation.github.model import Actor, BranchUpdate, Making, PullRequest, PullSnapshot, UpdateKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.github.client import GitHub

MAKING = """
fragment Making on PullRequest {
  autoMergeRequest { enabledAt }
  merging: timelineItems(
    last: 1
    itemTypes: [
      AUTO_MERGE_ENABLED_EVENT, AUTO_SQUASH_ENABLED_EVENT, AUTO_REBASE_ENABLED_EVENT, AUTO_MERGE_DISABLED_EVENT
    ]
  ) {
    nodes {
      ... on AutoMergeEnabledEvent { createdAt }
      ... on AutoSquashEnabledEvent { createdAt }
      ... on AutoRebaseEnabledEvent { createdAt }
    }
  }
  retargeting: timelineItems(last: 1, itemTypes: [BASE_REF_CHANGED_EVENT, AUTOMATIC_BASE_CHANGE_SUCCEEDED_EVENT]) {
    nodes {
      ... on BaseRefChangedEvent { createdAt }
      ... on AutomaticBaseChangeSucceededEvent { createdAt }
    }
  }
  commits(last: 100) {
    totalCount
    nodes {
      commit {
        oid committedDate
        signature { isValid wasSignedByGitHub }
        author { user { login } }
        committer { user { login } }
        authors(first: 10) { nodes { user { login } } }
      }
    }
  }
}
"""
_ASKED = """
pullRequest(number: $number) {
  ...Making
  mergeCommit { associatedPullRequests(first: 50) { totalCount nodes { number mergeCommit { oid } } } }
}
"""
_MANY_PUSHES = 100
_MANY_MERGES = 200
_PAGE = 100  # as many as there can be
_KINDS = {kind.value: kind for kind in UpdateKind}


class BranchLog(OfRepository):
    """GitHub's log of the branches of a repository, and how pull requests were made, for which that log speaks.

    `made` keeps how merged requests were made, which does not change: a group's request is judged for each artifact.
    """

    def __init__(self, client: GitHub, name: str, made: dict[int, Making] | None = None) -> None:
        super().__init__(client, name)
        self._made = {} if made is None else made

    def updates(self, branch: str, limit: int = _MANY_MERGES) -> tuple[BranchUpdate, ...] | None:
        """Return the last updates of a branch, newest first; None where GitHub has no log.

        Any other failure is an error: without the log, a push counts as a merge.
        """
        path = f"/repos/{self.name}/activity?ref={segment(f'refs/heads/{branch}')}&per_page={min(limit, _PAGE)}"
        found: list[BranchUpdate] = []
        cursor = ""
        while True:
            if (answer := self._client.get(f"{path}&after={segment(cursor)}" if cursor else path)) is None:
                return None
            found += map(_update, Fields.all(answer.value, f"GET {self._client.host}{path}"))
            cursor = answer.cursor
            if not cursor or len(found) >= limit:
                return tuple(found[:limit])

    def making(self, pull: PullRequest, seen: PullSnapshot) -> Making | None:
        """Return how a pull request of the repository, which was `seen` just now, was made and merged.

        Return None while GitHub's log of the branch does not show the merge yet.
        """
        updates = self.updates(pull.base) if pull.merge_commit else None
        kinds = {update.after: update.kind for update in reversed(updates or ())}
        if updates is not None and pull.merge_commit not in kinds and seen.head not in kinds:
            return None
        if pull.number not in self._made:
            found, viewer = self._query(_ASKED, {"number": pull.number}, MAKING, {"number": "Int!"})
            node = found.fields("pullRequest")
            merged_with = tuple(_merged_with(node, pull))
            self._made[pull.number] = replace(self.read_making(node, pull, viewer), merged_with=merged_with)
        kind = kinds.get(pull.merge_commit or "", UpdateKind.OTHER) if updates is not None else None
        # A log can lose the moment of the merge, or end after it.
        is_there, at = pull.merge_commit in kinds, pull.merged_at
        since = datetime.min.replace(tzinfo=UTC) if is_there else at
        newer = takewhile(lambda update: update.after != pull.merge_commit, updates or ())
        later = tuple(it.after for it in newer if it.after != seen.head and since and it.at > since)
        is_forgotten = bool(updates and not is_there and at and updates[-1].at > at)
        return replace(self._made[pull.number], merged_as=kind, later=later, is_forgotten=is_forgotten)

    def read_making(self, node: Fields, pull: PullRequest, viewer: Actor, *, pushes: bool = True) -> Making:
        """Return how a pull request was made: by the fields that `MAKING` asks for, and by the log of its branch.

        Without `pushes` the log is not asked for, and counts as one that names no other hands.

        Where that log does not have the push of the last commit, or does not go back to the creation of the branch, all
        hands are known only if GitHub itself signed every commit as ours: its author is who asked for it.
        """
        connection = node.fields("commits")
        commits = [found.fields("commit") for found in connection.each("nodes")]
        oids = {commit.oid("oid") for commit in commits}
        log = self.updates(pull.branch, _MANY_PUSHES) if pushes else None
        pushed = tuple(_pushes(log or (), oids, pull))
        hands = {login for commit in commits for login in _makers(commit)}
        hands |= {push.actor.login.casefold() for push in pushed if push.actor}
        is_seen = any(push.kind is UpdateKind.BRANCH_CREATION for push in pushed) and all(push.actor for push in pushed)
        pushed_at = max((push.at for push in pushed if is_seen and push.after == pull.head), default=None)
        if pushed_at is None and (not pushes or all(_is_ours(commit, viewer) for commit in commits)):
            pushed_at = max((commit.time("committedDate") for commit in commits), default=None)
        is_whole = pull.head in oids and connection.number("totalCount") == len(commits)
        return Making(frozenset(hands), pushed_at if is_whole else None, _auto_merge(node), _last(node, "retargeting"))


def _update(entry: Fields) -> BranchUpdate:
    return BranchUpdate(
        before=entry.oid("before"),
        after=entry.oid("after"),
        kind=_KINDS.get(entry.text("activity_type"), UpdateKind.OTHER),
        actor=entry.actor("actor"),
        at=entry.time("timestamp"),
    )


def _merged_with(node: Fields, pull: PullRequest) -> Iterator[int]:
    """Yield the numbers of other requests that the same commit merged, or may have, if GitHub does not list all."""
    merge = node.maybe("mergeCommit")
    listed = merge.maybe("associatedPullRequests") if merge else None
    nodes = listed.each("nodes") if listed else ()
    is_cut = listed is not None and listed.number("totalCount") != len(nodes)
    for other in nodes:
        commit, number = other.maybe("mergeCommit"), other.number("number")
        if number != pull.number and (is_cut or (commit and commit.oid("oid") == pull.merge_commit)):
            yield number


def _pushes(updates: tuple[BranchUpdate, ...], oids: set[str], pull: PullRequest) -> Iterator[BranchUpdate]:
    """Yield the updates that gave a branch what was merged: those since it was made last, and those to its commits."""
    is_of_it = True
    for update in updates:
        # GitHub's moments are whole seconds: a branch may be deleted in the one in which it was merged.
        if update.kind is UpdateKind.BRANCH_DELETION or (pull.merged_at and update.at > pull.merged_at):
            continue
        if is_of_it or update.after in oids:
            yield update
        is_of_it &= update.kind is not UpdateKind.BRANCH_CREATION


def _makers(commit: Fields) -> Iterator[str]:
    named = (commit.maybe("author"), commit.maybe("committer"), *commit.nodes("authors"))
    yield from (user.login.casefold() for who in named if who and (user := who.actor("user")))


def _is_ours(commit: Fields, viewer: Actor) -> bool:
    """Return whether GitHub made a commit for a bot or for us."""
    signed, by = commit.maybe("signature"), commit.maybe("author")
    author = by.actor("user") if by else None
    if signed is None or author is None or not (signed.flag("isValid") and signed.flag("wasSignedByGitHub")):
        return False
    return author.is_bot or viewer.is_account_of(author)


def _auto_merge(node: Fields) -> datetime | None:
    """Return when auto-merge was switched on last, unless it was switched off since."""
    request = node.maybe("autoMergeRequest")
    return request.time("enabledAt") if request else _last(node, "merging")


def _last(node: Fields, name: str) -> datetime | None:
    """Return the time of the last event of a timeline, if it is one whose time was asked for."""
    events = node.nodes(name)
    return events[-1].time("createdAt") if events and events[-1].has("createdAt") else None
