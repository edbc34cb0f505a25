"""Pull requests: open and edit them, and set labels, assignees, reviewers and auto-merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.github.answers import Fields, OfRepository, segment
from ci_automation.github.branch_pulls import is_of_fork
from ci_automation.github.errors import GitHubRefused, NotOnGitHub, UnexpectedGitHubAnswer
from ci_automation.github.model import Comment, PullRequest, PullState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
_COMMENTS = """
pullRequest(number: $number) { comments(first: 100) { nodes { databaseId body author { login __typename } } } }
"""
_MANY_COMMENTS = 300


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

        A comment of another account with the same mark is left alone: all accounts can write one.

        Raises:
            NotOnGitHub: there is no such pull request.
        """
        found, viewer = self._query(_COMMENTS, {"number": number}, types={"number": "Int!"})
        if (pull := found.maybe("pullRequest")) is None:
            raise NotOnGitHub(f"the comments on #{number} of {self.name}")
        body = f"{mark}\n{text}"
        for node in pull.nodes("comments"):
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
