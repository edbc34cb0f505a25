"""Pull requests: read them from the answers of GraphQL and REST, open and edit them, and set auto-merge.

A list of GraphQL's also has requests of forks, and those that go elsewhere. An attacker who opens many of these pushes
the run's own requests out of it: then the run asks for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.github.answers import Fields, OfRepository, segment
from ci_automation.github.errors import GitHubRefused, NotOnGitHub, UnexpectedGitHubAnswer
from ci_automation.github.model import MOST_LISTED, Actor, Comment, PullRequest, PullState, Review

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PULL = """
fragment Pull on PullRequest {
  id number url state title body headRefName baseRefName headRefOid isCrossRepository mergedAt
  closedAt lastEditedAt
  author { login __typename }
  editor { login __typename }
  mergedBy { login __typename }
  autoMergeRequest { enabledAt }
  reopening: timelineItems(last: 1, itemTypes: [REOPENED_EVENT]) { nodes { __typename } }
  latestOpinionatedReviews(first: 100, writersOnly: true) {
    nodes { state submittedAt author { login __typename } commit { oid } }
  }
}
"""
FILE = "fragment File on Commit { file(path: $file) { object { ... on Blob { text isTruncated } } } }"
_COMMENTS = """
pullRequest(number: $number) {
  oldest: comments(first: 100) { nodes { databaseId body author { login __typename } } }
  newest: comments(last: 100) { nodes { databaseId body author { login __typename } } }
}
"""
_MANY_COMMENTS = 300


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
        is_home = found.fields("base").text("ref") == base
        if is_home or viewer.is_account_of(found.actor("user")):
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
        closed_at=node.time("closedAt") if node.has("closedAt") else None,
        reopened=bool(node.fields("reopening").each("nodes")),
    )


def _reviews(node: Fields) -> Iterator[Review]:
    """Yield the reviews whose account and commit still exist."""
    for review in node.nodes("latestOpinionatedReviews"):
        author, commit = review.actor("author"), review.maybe("commit")
        if author and commit and review.has("submittedAt"):
            yield Review(author, review.text("state"), commit.oid("oid"), review.time("submittedAt"))


_AUTO_MERGE = """
mutation($input: EnablePullRequestAutoMergeInput!) {
  enablePullRequestAutoMerge(input: $input) { pullRequest { number autoMergeRequest { enabledAt } } }
}
"""
_NO_AUTO_MERGE = """
mutation($input: DisablePullRequestAutoMergeInput!) {
  disablePullRequestAutoMerge(input: $input) { pullRequest { number autoMergeRequest { enabledAt } } }
}
"""


class Pulls(OfRepository):
    """Pull requests of one repository; the token must allow writes."""

    def open_pull(self, branch: str, base: str, title: str, body: str, *, draft: bool = False) -> PullRequest:
        """Open a pull request from a branch into another, or return the one that is already open.

        A pull request that was already open may have another title and body.

        Raises:
            PullRequestsForbidden: the repository does not let workflows open pull requests.
            GitHubRefused: for example, the branches do not differ.
        """
        asked = {"title": title, "head": branch, "base": base, "body": body, "draft": draft}
        try:
            return _pull(self._created("/pulls", asked))
        except GitHubRefused as refused:
            if not refused.says("already exists"):
                raise
            owner = self.name.partition("/")[0]
            query = f"?state=open&head={segment(f'{owner}:{branch}')}&base={segment(base)}"
            for found in self._listed(f"/pulls{query}"):
                if not is_of_fork(found):
                    return _pull(found)
            raise

    def edit_pull(
        self, number: int, *, title: str | None = None, body: str | None = None, state: PullState | None = None
    ) -> None:
        """Change the given parts of a pull request; `state` is OPEN or CLOSED."""
        changes = {"title": title, "body": body, "state": state and state.lower()}
        asked = {name: value for name, value in changes.items() if value is not None}
        self._send("PATCH", f"/pulls/{number}", asked)

    def comment(self, number: int, body: str) -> None:
        """Write a comment on a pull request or an issue."""
        self._send("POST", f"/issues/{number}/comments", {"body": body})

    def comments(self, number: int) -> tuple[Comment, ...]:
        """Return the comments on a pull request or an issue, oldest first, at most 300.

        Raises:
            NotOnGitHub: the pull request or issue does not exist.
        """
        found = self._listed(f"/issues/{number}/comments", limit=_MANY_COMMENTS)
        return tuple(Comment(comment.actor("user"), comment.maybe_text("body") or "") for comment in found)

    def keep_comment(self, number: int, mark: str, text: str) -> None:
        """Write a comment that begins with `mark`, or change the one that this token's own account wrote before.

        A comment of another account with the same mark is left alone: all accounts can write one. The one to change is
        looked for among the hundred oldest and the hundred newest.

        Raises:
            NotOnGitHub: there is no such pull request.
        """
        found, viewer = self._query(_COMMENTS, {"number": number}, types={"number": "Int!"})
        if (pull := found.maybe("pullRequest")) is None:
            raise NotOnGitHub(f"the comments on #{number} of {self.name}")
        body = f"{mark}\n{text}"
        for node in (*pull.nodes("oldest"), *pull.nodes("newest")):
            author = node.actor("author")
            if author and author.login == viewer.login and node.text("body").startswith(mark):
                self._send("PATCH", f"/issues/comments/{node.number('databaseId')}", {"body": body})
                return
        self.comment(number, body)

    def dress(
        self, number: int, labels: Iterable[str] = (), assignees: Iterable[str] = (), *, body: str | None = None
    ) -> None:
        """Set the labels and assignees of a pull request; GitHub creates missing labels."""
        asked = {"labels": list(labels), "assignees": list(assignees)} | ({} if body is None else {"body": body})
        self._send("PATCH", f"/issues/{number}", asked)

    def request_review(self, number: int, users: Iterable[str] = (), teams: Iterable[str] = ()) -> None:
        """Ask people, and teams of the organisation by their slugs, to review.

        Raises:
            GitHubRefused: one of them may not review in this repository.
        """
        asked = {"reviewers": list(users), "team_reviewers": list(teams)}
        self._send("POST", f"/pulls/{number}/requested_reviewers", asked)

    def enable_auto_merge(self, pull: PullRequest, merge_method: str = "MERGE") -> None:
        """Switch auto-merge on: GitHub merges a pull request at this head when the branch rules allow it.

        Raises:
            GitHubRefused: the repository does not allow auto-merge, or the rules already allow the merge.
        """
        asked = {"pullRequestId": pull.id, "expectedHeadOid": pull.head, "mergeMethod": merge_method}
        self._auto_merge(_AUTO_MERGE, "enablePullRequestAutoMerge", pull, asked, wanted=True)

    def disable_auto_merge(self, pull: PullRequest) -> None:
        """Switch auto-merge off, also if a person switched it on.

        Raises:
            GitHubRefused: auto-merge was off, or the pull request was merged.
        """
        self._auto_merge(_NO_AUTO_MERGE, "disablePullRequestAutoMerge", pull, {"pullRequestId": pull.id}, wanted=False)

    def _auto_merge(
        self, mutation: str, name: str, pull: PullRequest, asked: Mapping[str, object], *, wanted: bool
    ) -> None:
        what = f"auto-merge of {pull.url}"
        changed = Fields(self._client.mutate(mutation, {"input": asked}), what).fields(name).fields("pullRequest")
        if changed.has("autoMergeRequest") is not wanted:
            raise UnexpectedGitHubAnswer(f"{what} was answered as if this run had not asked for it")


def _pull(found: Fields) -> PullRequest:
    """Return a pull request from REST, which has no reviews in it."""
    head, base = found.fields("head"), found.fields("base")
    return PullRequest(
        id=found.text("node_id"),
        number=found.number("number"),
        url=found.text("html_url"),
        state=PullState(found.text("state").upper()),
        title=found.text("title"),
        body=found.maybe_text("body") or "",
        branch=head.text("ref"),
        base=base.text("ref"),
        head=head.oid("sha"),
        cross_repository=is_of_fork(found),
        author=found.actor("user"),
        auto_merge=found.has("auto_merge"),
    )
