"""The makers of a pull request: authors, committers and pushers of its commits, and who switched auto-merge on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.github.answers import Fields
from ci_automation.github.errors import GitHubDenied, UnexpectedGitHubAnswer
from ci_automation.github.model import Making

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ci_automation.github.client import GitHub
    from ci_automation.github.model import Actor, PullRequest

_MAKING = """
query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      autoMergeRequest { enabledAt }
      timelineItems(
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
  }
}
"""


def making_of(client: GitHub, name: str, pull: PullRequest, viewer: Actor) -> Making:
    """Return how a pull request of the repository `name` was made.

    Who pushed a commit is in the activity of its branch. Where GitHub does not show that of the last commit, all hands
    are known only if GitHub itself signed every commit as ours: the author of such a commit is who asked GitHub for it.

    Raises:
        ReleaseSourceError: as `GitHub.graphql`.
    """
    what = f"a GraphQL query for pull request {pull.number} of {name} to {client.host}"
    owner, _, plain = name.partition("/")
    data = Fields(client.graphql(_MAKING, {"owner": owner, "name": plain, "number": pull.number}), what)
    node = data.fields("repository").fields("pullRequest")
    connection = node.fields("commits")
    commits = [found.fields("commit") for found in connection.each("nodes")]
    oids = {commit.oid("oid") for commit in commits}
    pushes = [push for push in _pushes(client, name, pull.branch) if push.text("after") in oids]
    hands = {login for commit in commits for login in _makers(commit)}
    hands |= {actor.login.casefold() for push in pushes if (actor := push.actor("actor"))}
    times = (push.time("timestamp") for push in pushes if push.text("after") == pull.head)
    pushed_at = max((at for at in times if pull.merged_at is None or at <= pull.merged_at), default=None)
    if pushed_at is None and all(_is_ours(commit, viewer) for commit in commits):
        pushed_at = max((commit.time("committedDate") for commit in commits), default=None)
    is_whole = pull.head in oids and connection.number("totalCount") == len(commits)
    return Making(frozenset(hands), pushed_at if is_whole else None, _auto_merge(node))


def _pushes(client: GitHub, name: str, branch: str) -> tuple[Fields, ...]:
    """Return the last 100 changes of a branch, or none where GitHub does not show them to this token."""
    path = f"/repos/{name}/activity?ref=refs/heads/{branch}&per_page=100"
    try:
        answer = client.get(path)
    except (GitHubDenied, UnexpectedGitHubAnswer):
        return ()
    return Fields.all(answer.value, f"GET {client.host}{path}") if answer else ()


def _makers(commit: Fields) -> Iterator[str]:
    named = (commit.maybe("author"), commit.maybe("committer"), *commit.nodes("authors"))
    yield from (user.login.casefold() for who in named if who and (user := who.actor("user")))


def _is_ours(commit: Fields, viewer: Actor) -> bool:
    """Return whether GitHub made a commit for a bot or for us."""
    signed, by = commit.maybe("signature"), commit.maybe("author")
    author = by.actor("user") if by else None
    if signed is None or author is None or not (signed.flag("isValid") and signed.flag("wasSignedByGitHub")):
        return False
    return author.is_bot or author.login.casefold() == viewer.login.casefold()


def _auto_merge(node: Fields) -> datetime | None:
    """Return when auto-merge was switched on last, unless it was switched off since."""
    if request := node.maybe("autoMergeRequest"):
        return request.time("enabledAt")
    events = node.nodes("timelineItems")
    return events[-1].time("createdAt") if events and events[-1].has("createdAt") else None
