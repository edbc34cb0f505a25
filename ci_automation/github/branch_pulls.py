"""Pull requests from one branch of a repository, as GitHub's short lists have them, or as it lists all of them.

A list of GraphQL's also has requests of forks, and those that go elsewhere. An attacker who opens many of these pushes
the run's own requests out of it: then the run asks for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.github.model import MOST_LISTED, Actor, PullRequest, PullState, Review

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_automation.github.answers import Fields

PULL = """
fragment Pull on PullRequest {
  id number url state title body headRefName baseRefName headRefOid isCrossRepository mergedAt
  lastEditedAt
  author { login __typename }
  editor { login __typename }
  mergedBy { login __typename }
  autoMergeRequest { enabledAt }
  latestOpinionatedReviews(first: 100, writersOnly: true) {
    nodes { state submittedAt author { login __typename } commit { oid } }
  }
}
"""
FILE = "fragment File on Commit { file(path: $file) { object { ... on Blob { text isTruncated } } } }"


def read_text(entry: Fields | None) -> str | None:
    """Return the text of a file of a commit, or None without a readable text."""
    blob = entry.maybe("object") if entry else None
    if blob is None or not blob.has("text") or blob.flag("isTruncated"):
        return None
    return blob.text("text")


def read_pulls(repository: Fields, number: int) -> dict[int, PullRequest]:
    """Return the requests from a branch by their numbers, without closed ones of forks."""
    at_branch, closed, merged = _lists(repository, number)
    found = (*at_branch, *(node for node in closed if not node.flag("isCrossRepository")), *merged)
    return {pull.number: pull for pull in map(read_pull, found)}


def is_crowded(repository: Fields, number: int, base: str) -> bool:
    """Return whether a list is full, and not only of requests of this repository into its default branch."""
    return any(
        len(nodes) >= MOST_LISTED
        and any(node.flag("isCrossRepository") or node.text("baseRefName") != base for node in nodes)
        for nodes in _lists(repository, number)
    )


def own_numbers(listed: Iterable[Fields], base: str, viewer: Actor) -> Iterator[int]:
    """Yield the numbers of the newest requests of each state into the default branch, and of ours into others.

    Those of a fork are left out, which is listed too if its owner is that of the repository.
    """
    kinds: dict[tuple[bool, str], list[int]] = {}
    for found in listed:
        if is_of_fork(found):
            continue
        is_home, author = found.fields("base").text("ref") == base, found.actor("user")
        if is_home or (author and author.login.casefold() == viewer.login.casefold()):
            state = "merged" if found.has("merged_at") else found.text("state")
            kinds.setdefault((is_home, state), []).append(found.number("number"))
    yield from (number for numbers in kinds.values() for number in numbers[:MOST_LISTED])


def is_of_fork(found: Fields) -> bool:
    """Return whether a pull request of a REST list comes from another repository than it goes into."""
    home = found.fields("head").maybe("repo")
    return home is None or home.number("id") != found.fields("base").fields("repo").number("id")


def _lists(repository: Fields, number: int) -> tuple[tuple[Fields, ...], ...]:
    ref = repository.maybe(f"ref{number}")
    at_branch = ref.nodes("associatedPullRequests") if ref else ()
    return at_branch, repository.nodes(f"closed{number}"), repository.nodes(f"merged{number}")


def read_pull(node: Fields) -> PullRequest:
    """Return a pull request by the fields that `PULL` asks for."""
    merge = node.maybe("mergeCommit")
    return PullRequest(
        id=node.text("id"),
        number=node.number("number"),
        url=node.text("url"),
        state=PullState(node.text("state")),
        title=node.text("title"),
        body=node.text("body"),
        branch=node.text("headRefName"),
        base=node.text("baseRefName"),
        head=node.oid("headRefOid"),
        cross_repository=node.flag("isCrossRepository"),
        author=node.actor("author"),
        merged_by=node.actor("mergedBy"),
        merged_at=node.time("mergedAt") if node.has("mergedAt") else None,
        merge_commit=merge.oid("oid") if merge else None,
        merged_file=read_text(merge.maybe("file")) if merge else None,
        reviews=tuple(_reviews(node)),
        auto_merge=node.has("autoMergeRequest"),
        edited_at=node.time("lastEditedAt") if node.has("lastEditedAt") else None,
        editor=node.actor("editor"),
    )


def _reviews(node: Fields) -> Iterator[Review]:
    """Yield the reviews whose account and commit still exist."""
    for review in node.nodes("latestOpinionatedReviews"):
        author, commit = review.actor("author"), review.maybe("commit")
        if author and commit and review.has("submittedAt"):
            yield Review(author, review.text("state"), commit.oid("oid"), review.time("submittedAt"))
