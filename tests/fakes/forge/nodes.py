"""Repositories, pull requests and issues as GraphQL shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.forge import shown
from tests.fakes.forge.connections import connection, paged
from tests.fakes.forge.git_nodes import GitNodes
from tests.fakes.forge.state import Issue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.fakes.forge.repository import Repository
    from tests.fakes.forge.state import Comment, Environment, Pull, Review

Json = dict[str, Any]
_ORDER: dict[str, Callable[[Issue], Any]] = {
    "CREATED_AT": lambda issue: (issue.created, issue.number),
    "UPDATED_AT": lambda issue: (issue.updated, issue.number),
    "COMMENTS": lambda issue: (len(issue.comments), issue.number),
}
_TIMELINE = (
    "AUTOMATIC_BASE_CHANGE_SUCCEEDED_EVENT", "AUTO_MERGE_DISABLED_EVENT", "AUTO_MERGE_ENABLED_EVENT",
    "AUTO_REBASE_ENABLED_EVENT", "AUTO_SQUASH_ENABLED_EVENT", "BASE_REF_CHANGED_EVENT", "REOPENED_EVENT",
)  # fmt: skip
_OPINIONS = frozenset({"APPROVED", "CHANGES_REQUESTED", "DISMISSED"})


class Nodes(GitNodes):
    """Shows values to one token."""

    def repository(self, repo: Repository) -> Json:
        """Return a repository."""
        return {
            "__typename": "Repository",
            "id": f"R_{repo.id}",
            "databaseId": repo.id,
            "name": repo.name,
            "nameWithOwner": repo.full_name,
            "owner": {**self.person(repo.owner), "__typename": "User"},
            "url": f"{self.forge.host}/{repo.full_name}",
            "isPrivate": repo.private,
            "isFork": repo.parent is not None,
            "isArchived": repo.archived,
            "autoMergeAllowed": repo.allow_auto_merge,
            "deleteBranchOnMerge": repo.delete_branch_on_merge,
            "viewerDefaultMergeMethod": "MERGE",
            "viewerPermission": None if self.token.login.endswith("[bot]") else self._viewer_permission(repo),
            "defaultBranchRef": lambda _info: self.ref(repo, repo.default_branch) if repo.branches else None,
            "ref": lambda _info, *, qualifiedName: self.ref(repo, qualifiedName),  # noqa: N803  # GitHub's name
            "refs": lambda _info, **named: self.refs(repo, named),
            "object": lambda _info, **named: self.object_of(repo, named),
            "pullRequest": lambda _info, *, number: self._pull_by_number(repo, number),
            "pullRequests": lambda _info, **named: self.pulls(repo, repo.pulls, named),
            "issue": lambda _info, *, number: self.issue(repo, repo.issue(number)),
            "issues": lambda _info, **named: self._issues(repo, named),
            "environment": lambda _info, *, name: self._environment(repo, repo.environments.get(name)),
        }

    def _viewer_permission(self, repo: Repository) -> str | None:
        level = repo.permission(self.token.login)
        return None if level == "none" else level.upper()

    def _pull_by_number(self, repo: Repository, number: int) -> Json:
        self.may(repo, "pull_requests=read")
        return self.pull(repo, repo.pull(number))

    def pulls(self, repo: Repository, pulls: Iterable[Pull], named: Json) -> Json:
        """Return those pull requests that the arguments ask for."""
        self.may(repo, "pull_requests=read")
        states, head, base = named.get("states"), named.get("headRefName"), named.get("baseRefName")
        found = [
            p
            for p in pulls
            if (not states or p.state in states) and head in {None, p.branch} and base in {None, p.base}
        ]
        found = [p for p in found if not named.get("labels") or set(named["labels"]) & set(p.labels)]
        order = named.get("orderBy") or {"field": "CREATED_AT", "direction": "ASC"}
        found.sort(key=_ORDER[order["field"]], reverse=order["direction"] == "DESC")
        return connection([self.pull(repo, pull) for pull in found], named)

    def _issue(self, repo: Repository, issue: Issue) -> Json:
        return {
            "__typename": "Issue",
            "id": shown.node_id(issue),
            "databaseId": issue.id,
            "number": issue.number,
            "url": shown.web(repo, issue),
            "title": issue.title,
            "body": issue.body,
            "state": issue.state,
            "author": self.actor(issue.author),
            "createdAt": shown.when(issue.created),
            "updatedAt": shown.when(issue.updated),
            "lastEditedAt": shown.when(issue.edited),
            "editor": self.actor(issue.editor),
            "closedAt": shown.when(issue.closed),
            "closed": issue.state != "OPEN",
            "labels": paged(lambda: [self._label(name) for name in issue.labels]),
            "assignees": paged(lambda: [{**self.person(who), "__typename": "User"} for who in issue.assignees]),
            "comments": paged(lambda: [self.comment(repo, issue, comment) for comment in issue.comments]),
        }

    def issue(self, repo: Repository, issue: Issue) -> Json:
        """Return an issue."""
        self.may(repo, "issues=read")
        return self._issue(repo, issue)

    def _issues(self, repo: Repository, named: Json) -> Json:
        self.may(repo, "issues=read")
        states, labels = named.get("states"), set(named.get("labels") or ())
        found = [
            i for i in repo.issues if type(i) is Issue and (not states or i.state in states) and labels <= set(i.labels)
        ]
        return connection([self._issue(repo, issue) for issue in found], named)

    def pull(self, repo: Repository, pull: Pull) -> Json:
        """Return a pull request."""
        source = self.forge.repositories.get(pull.source)
        merge = pull.merge_commit
        auto = pull.auto_merge
        return self._issue(repo, pull) | {
            "__typename": "PullRequest",
            "isDraft": pull.draft,
            "merged": pull.merged,
            "mergedAt": shown.when(pull.merged_at),
            "mergedBy": self.actor(pull.merged_by),
            "mergeCommit": lambda _info: self.commit(repo, merge) if merge else None,
            "mergeable": lambda _info: _mergeable(repo, pull),
            "mergeStateStatus": lambda _info: repo.obstacle(pull)[0] if pull.state == "OPEN" else "UNKNOWN",
            "authorAssociation": "COLLABORATOR",
            "baseRefName": pull.base,
            "baseRefOid": pull.base_sha,
            "baseRef": lambda _info: self.ref(repo, pull.base),
            "headRefName": pull.branch,
            "headRefOid": pull.head,
            "headRef": lambda _info: self.ref(source, pull.branch) if source else None,
            "headRepository": lambda _info: self.repository(source) if source else None,
            "headRepositoryOwner": lambda _info: (
                {**self.person(source.owner), "__typename": "User"} if source else None
            ),
            "isCrossRepository": pull.source != repo.full_name,
            "maintainerCanModify": pull.maintainer_can_modify,
            "repository": lambda _info: self.repository(repo),
            "reviews": lambda _info, **named: self._reviews(repo, pull, named),
            "latestReviews": lambda _info, **named: connection(self._latest(repo, pull, named, frozenset()), named),
            "latestOpinionatedReviews": lambda _info, **named: connection(
                self._latest(repo, pull, named, _OPINIONS), named
            ),
            "reviewRequests": paged(lambda: [self._asked(repo, name) for name in [*pull.asked, *pull.asked_teams]]),
            "reviewDecision": lambda _info: _decision(repo, pull),
            "autoMergeRequest": auto
            and {
                "enabledAt": shown.when(auto.at),
                "enabledBy": self.actor(auto.by),
                "mergeMethod": auto.how.upper(),
            },
            "timelineItems": lambda _info, **named: self._timeline(pull, named),
            "changedFiles": lambda _info: len(repo.changed_by(pull)),
            "additions": lambda _info: sum(new for new, _ in repo.changed_by(pull).values()),
            "deletions": lambda _info: sum(old for _, old in repo.changed_by(pull).values()),
            "commits": paged(
                lambda: [
                    {"id": f"PRC_{commit.sha}", "commit": self.commit(repo, commit.sha)}
                    for commit in reversed(repo.objects.since(pull.base_sha, pull.head))
                ]
            ),
        }

    def _timeline(self, pull: Pull, named: Json) -> Json:
        wanted = {_type_of(item) for item in named.get("itemTypes") or _TIMELINE}
        events = [
            {
                "__typename": event.kind,
                "id": f"{event.kind}_{pull.id}_{place}",
                "actor": self.actor(event.by),
                "createdAt": shown.when(event.at),
                **event.more,
            }
            for place, event in enumerate(pull.timeline)
            if event.kind in wanted
        ]
        return connection(events, named) | {"filteredCount": len(events)}

    def _asked(self, repo: Repository, name: str) -> Json:
        team = self.forge.teams.get(f"{repo.owner}/{name}")
        if team:
            slug = {"name": name, "slug": name, "combinedSlug": f"{repo.owner}/{name}"}
            who = {"__typename": "Team", "id": team.node_id, "databaseId": team.id, **slug}
        else:
            who = {**self.person(name), "__typename": "User"}
        return {"id": f"RR_{name}", "requestedReviewer": who}

    def _reviews(self, repo: Repository, pull: Pull, named: Json) -> Json:
        states, author = named.get("states"), named.get("author")
        found = [r for r in pull.reviews if (not states or r.state in states) and author in {None, r.author}]
        return connection([self._review(repo, pull, review) for review in found], named)

    def _latest(self, repo: Repository, pull: Pull, named: Json, states: frozenset[str]) -> list[Json]:
        latest = {review.author: review for review in pull.reviews if not states or review.state in states}
        found = [r for r in latest.values() if not named.get("writersOnly") or repo.may(r.author, "write")]
        return [self._review(repo, pull, review) for review in found]

    def _review(self, repo: Repository, pull: Pull, review: Review) -> Json:
        return {
            "id": f"PRR_{review.id}",
            "databaseId": review.id,
            "author": self.actor(review.author),
            "authorCanPushToRepository": repo.may(review.author, "write"),
            "authorAssociation": "COLLABORATOR",
            "body": review.body,
            "commit": lambda _info: self.commit(repo, review.commit),
            "state": review.state,
            "submittedAt": shown.when(review.at),
            "url": f"{shown.web(repo, pull)}#pullrequestreview-{review.id}",
        }

    def comment(self, repo: Repository, issue: Issue, comment: Comment) -> Json:
        """Return a comment."""
        return {
            "id": f"IC_{comment.id}",
            "databaseId": comment.id,
            "author": self.actor(comment.author),
            "body": comment.body,
            "createdAt": shown.when(comment.created),
            "url": f"{shown.web(repo, issue)}#issuecomment-{comment.id}",
            "isMinimized": False,
        }

    def _label(self, name: str) -> Json:
        return {"id": f"LA_{name}", "name": name, "color": "ededed", "description": None}

    def _environment(self, repo: Repository, found: Environment | None) -> Json | None:
        self.may(repo, "actions=read")
        if found is None:
            return None
        return {"id": f"EN_{found.id}", "databaseId": found.id, "name": found.name}


def _type_of(item: str) -> str:
    """Return the name of the type that an item of the timeline has."""
    return "".join(word.capitalize() for word in item.split("_"))


def _mergeable(repo: Repository, pull: Pull) -> str:
    if pull.state != "OPEN":
        return "UNKNOWN"
    return "CONFLICTING" if repo.obstacle(pull)[0] == "DIRTY" else "MERGEABLE"


def _decision(repo: Repository, pull: Pull) -> str | None:
    rule = repo.protections.get(pull.base)
    opinions = {review.author: review.state for review in pull.reviews if repo.may(review.author, "write")}
    if "CHANGES_REQUESTED" in opinions.values():
        return "CHANGES_REQUESTED"
    if rule is None or not rule.reviews:
        return None
    return "APPROVED" if repo.approvals(pull) >= rule.reviews else "REVIEW_REQUIRED"
