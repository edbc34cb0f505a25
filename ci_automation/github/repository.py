"""Contents, statuses and permissions of a repository, read only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ci_automation.github.answers import Fields, object_at, segment
from ci_automation.github.errors import EmptyRepository, NotOnGitHub, TeamHidden, TooManyPulls, UnexpectedGitHubAnswer
from ci_automation.github.making import BranchLog
from ci_automation.github.model import (
    Access,
    Actor,
    Branch,
    Commit,
    Comparison,
    Making,
    PullRequest,
    PullSnapshot,
    Status,
)
from ci_automation.github.pulls import FILE, PULL, is_crowded, own_numbers, read_pull, read_pulls, read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ci_automation.github.client import GitHub

_SNAPSHOT = """
    viewerDefaultMergeMethod
    defaultBranchRef {
      name
      target { oid ... on Commit { ...File } }
      compare: compare(headRef: $branch) { commits(last: 50) { nodes { oid message author { user { login } } } } }
    }
    ref: ref(qualifiedName: $ref) {
      target { oid ... on Commit { ...File } }
      associatedPullRequests(states: [OPEN, CLOSED], first: 10, orderBy: {field: CREATED_AT, direction: DESC}) {
        nodes { ...Pull }
      }
    }
    closed: pullRequests(
      headRefName: $branch, states: CLOSED, first: 10, orderBy: {field: CREATED_AT, direction: DESC}
    ) { nodes { ...Pull } }
    merged: pullRequests(
      headRefName: $branch, states: MERGED, first: 10, orderBy: {field: CREATED_AT, direction: DESC}
    ) { nodes { ...Pull mergeCommit { oid ...File } } }
"""
_NUMBERED = re.compile(r"(?:\b(?:compare|ref|closed|merged)(?=: )|\$(?:branch|ref)\b)")
_MOST_COMPARED = 300  # files of a comparison (GitHub, "Compare two commits")
_MAX_TAGS = 4  # a tag may be of a tag
_PAGE, _MAX_PAGES = 100, 10  # of statuses
_MOST_PULLS = 1000  # of one branch


class Ahead(Struct):
    """Snapshots that the look at the content of the default branch takes along, for who asks for approval later.

    `wanted` has a file by branch; all want the same file.
    """

    wanted: dict[str, str] = field(default_factory=dict)
    taken: dict[str, PullSnapshot] = field(default_factory=dict)


class Repository(BranchLog):
    """One repository with the permissions of the client's token."""

    def __init__(
        self, client: GitHub, name: str, ahead: Ahead | None = None, made: dict[int, Making] | None = None
    ) -> None:
        super().__init__(client, name, made)
        self.ahead = ahead or Ahead()

    def snapshot(self, branch: str, file: str) -> PullSnapshot:
        """Return the repository at one moment, in one request, with `branch` and its pull requests.

        This leaves out closed pull requests from a branch of the same name in a fork, but not merged ones, because a
        merge needs write access.

        Raises:
            NotOnGitHub: the repository does not exist, or the token may not see it.
            EmptyRepository: the repository has no commit.
            UnexpectedGitHubAnswer: the file is not text, or too large; or the answer is broken.
        """
        asked, variables = snapshot_fields([branch], file)
        return self.snapshots(*self._query(asked, variables, PULL + FILE), [branch], file)[branch]

    def snapshots(
        self, repository: Fields, viewer: Actor, branches: Sequence[str], file: str
    ) -> dict[str, PullSnapshot]:
        """Return the answer to a query with `snapshot_fields`, by branch; raise as `snapshot`."""
        if (default := repository.maybe("defaultBranchRef")) is None:
            raise EmptyRepository(self.name)
        tip = default.fields("target")
        text = read_text(tip.maybe("file"))
        if text is None and tip.has("file"):
            raise UnexpectedGitHubAnswer(f"{file} in {self.name} is not a text, or larger than GitHub shows")
        base = default.text("name")
        found = {}
        for n, branch in enumerate(branches):
            pulls = read_pulls(repository, n)
            if is_crowded(repository, n, base):
                pulls |= self._own_pulls(branch, base, viewer, file)
            newest = tuple(pulls[number] for number in sorted(pulls, reverse=True))
            found[branch] = PullSnapshot(
                default_branch=base,
                head=tip.oid("oid"),
                file=text,
                branch=_branch(branch, repository.maybe(f"ref{n}"), default.maybe(f"compare{n}"), self._what),
                pulls=tuple(pull for pull in newest if pull.base == base),
                viewer=viewer,
                merge_method=repository.text("viewerDefaultMergeMethod"),
                strayed=tuple(pull for pull in newest if pull.base != base and pull.is_opened_by(viewer)),
            )
        return found

    def _own_pulls(self, branch: str, base: str, viewer: Actor, file: str) -> dict[int, PullRequest]:
        """Return the newest requests from a branch of this repository by their numbers, whatever others there are."""
        owner = self.name.partition("/")[0]
        listed = tuple(self._listed(f"/pulls?state=all&head={segment(f'{owner}:{branch}')}", limit=_MOST_PULLS))
        if len(listed) == _MOST_PULLS:
            raise TooManyPulls(self.name, branch, _MOST_PULLS)
        numbers = tuple(own_numbers(listed, base, viewer))
        if not numbers:
            return {}
        asked = " ".join(
            f"p{it}: pullRequest(number: {it}) {{ ...Pull mergeCommit {{ oid ...File }} }}" for it in numbers
        )
        found, _ = self._query(asked, {"file": file}, PULL + FILE)
        pulls = (read_pull(node) for it in numbers if (node := found.maybe(f"p{it}")))
        return {pull.number: pull for pull in pulls if not pull.cross_repository}

    def texts(self, commits: Sequence[str], file: str) -> tuple[str | None, ...]:
        """Return the text of a file at each of the commits, or None without a readable text."""
        if not commits:
            return ()
        asked = " ".join(f'c{place}: object(oid: "{oid}") {{ ...File }}' for place, oid in enumerate(commits))
        found, _ = self._query(asked, {"file": file}, FILE)
        nodes = [found.maybe(f"c{place}") for place in range(len(commits))]
        return tuple(read_text(node.maybe("file")) if node else None for node in nodes)

    def tag_commit(self, tag: str) -> str | None:
        """Return the commit of a tag, annotated or not, or None if the tag does not exist."""
        path = f"/repos/{self.name}/git/ref/tags/{segment(tag)}"
        for _ in range(_MAX_TAGS):
            if (answer := self._client.get(path)) is None:
                return None
            what = f"GET {self._client.host}{path}"
            target = Fields(answer.value, what).fields("object")
            kind, sha = target.text("type"), target.oid("sha")
            if kind == "commit":
                return sha
            if kind != "tag":
                raise UnexpectedGitHubAnswer(f"{what} was answered with neither a commit nor a tag")
            path = f"/repos/{self.name}/git/tags/{sha}"
        raise UnexpectedGitHubAnswer(f"the tag {tag} of {self.name} is a tag of a tag of a tag without end")

    def compared(self, base: str, head: str) -> Comparison:
        """Return the difference between a commit and the head of a pull request into it.

        Raises:
            NotOnGitHub: a commit does not exist, or the two have no common ancestor.
        """
        # Commits are not asked for.
        found = self._one(f"/compare/{segment(base)}...{segment(head)}?per_page=1")
        since = found.fields("merge_base_commit").oid("sha")
        if not found.has("files") or len(files := found.each("files")) >= _MOST_COMPARED:
            return Comparison(since, None)
        names = [(file.maybe_text("previous_filename"), file.text("filename")) for file in files]
        moved = tuple((old, new) for old, new in names if old)
        return Comparison(since, tuple(sorted({name for both in names for name in both if name})), moved)

    def head_status(self, context: str) -> Status | None:
        """Return the status under a context at the head of the default branch, or None without one.

        A status is not a check, which jobs of GitHub Actions have.

        Raises:
            NotOnGitHub: the repository does not exist, or the token may not see it.
        """
        branch = self._one("").text("default_branch")
        for page in range(1, _MAX_PAGES + 1):
            path = f"/repos/{self.name}/commits/{segment(branch)}/status?per_page={_PAGE}&page={page}"
            if (answer := self._client.get(path)) is None:
                raise NotOnGitHub(f"the branch {branch} of {self.name} on {self._client.host}")
            combined = Fields(answer.value, f"GET {self._client.host}{path}")
            for each in combined.each("statuses"):
                if each.text("context") == context:
                    return Status(context, each.text("state"), combined.oid("sha"), each.time("updated_at"))
            if not answer.has_next:
                return None
        raise UnexpectedGitHubAnswer(f"{self._client.host} never ends its list of statuses of {self.name}")

    def permission(self, login: str) -> Access:
        """Return a user's permission (`maintain` is `write`, `triage` is `read`), and the number of the account."""
        try:
            found = self._one(f"/collaborators/{segment(login)}/permission")
        except NotOnGitHub:
            return Access("none")
        user = found.maybe("user")
        return Access(found.text("permission"), user.number("id") if user and user.has("id") else 0)

    def is_member(self, team: str, login: str) -> bool:
        """Return whether a user is in the team `ORGANISATION/TEAM`, and not just invited.

        Raises:
            TeamHidden: the team does not exist, or the token may not see it.
        """
        organisation, _, slug = team.partition("/")
        path = f"/orgs/{segment(organisation)}/teams/{segment(slug)}"
        try:
            return object_at(self._client, f"{path}/memberships/{segment(login)}").text("state") == "active"
        except NotOnGitHub:
            if self._client.get(path) is None:  # else no approval could ever count, and no message would say why
                raise TeamHidden(team) from None
            return False


def snapshot_fields(branches: Iterable[str], file: str) -> tuple[str, dict[str, str]]:
    """Return what a query asks of a repository to see its branches, with the variables, which are strings."""
    asked, variables = "", {"file": file}
    for number, branch in enumerate(branches):
        asked += _NUMBERED.sub(rf"\g<0>{number}", _SNAPSHOT)
        variables |= {f"branch{number}": branch, f"ref{number}": f"refs/heads/{branch}"}
    return asked, variables


def _branch(name: str, ref: Fields | None, compared: Fields | None, what: str) -> Branch | None:
    if ref is None:
        return None
    tip = ref.fields("target")
    head = tip.oid("oid")
    nodes = compared.nodes("commits") if compared else ()
    commits = tuple(Commit(node.oid("oid"), _committer(node), node.text("message")) for node in nodes)
    if commits and commits[0].oid != head:  # GitHub lists them oldest first
        commits = commits[::-1]
    if commits and commits[0].oid != head:
        raise UnexpectedGitHubAnswer(f"{what} was answered with commits of {name} that do not lead to its tip")
    return Branch(name, head, read_text(tip.maybe("file")), commits)


def _committer(commit: Fields) -> Actor | None:
    author = commit.maybe("author")
    return author.actor("user") if author else None
