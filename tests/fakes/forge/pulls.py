"""What people and programs do with issues and pull requests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.fakes.forge.branches import NOTHING, Branches
from tests.fakes.forge.people import ACTIONS
from tests.fakes.forge.state import AutoMerge, Comment, Issue, Pull, Refused, Review, TimelineEvent, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_BODY = 65536
QUEUE = "github-merge-queue[bot]"
_EVENTS = {
    "merge": "AutoMergeEnabledEvent",
    "squash": "AutoSquashEnabledEvent",
    "rebase": "AutoRebaseEnabledEvent",
}


def _bounded(body: str) -> str:
    if len(body) > MAX_BODY:
        raise Refused(422, "Validation Failed", ({"resource": "Issue", "code": "too_long", "field": "body"},))
    return body


class Pulls(Branches):
    """Issues and pull requests of a repository."""

    def issue(self, number: int) -> Issue:
        """Return an issue or pull request.

        Raises:
            Refused: there is none.
        """
        if not 0 < number <= len(self.issues):
            raise Refused(404, "Not Found", kind="NOT_FOUND")
        return self.issues[number - 1]

    def pull(self, number: int) -> Pull:
        """Return a pull request.

        Raises:
            Refused: there is none.
        """
        found = self.issue(number)
        if not isinstance(found, Pull):
            raise Refused(404, "Not Found", kind="NOT_FOUND")
        return found

    def pulls_with(self, commit: str) -> list[Pull]:
        """Return the pull requests that brought a commit, or have it."""
        return [
            pull
            for pull in self.pulls
            if pull.merge_commit == commit
            or any(each.sha == commit for each in self.objects.since(pull.base_sha, pull.head))
        ]

    def changed_by(self, pull: Pull) -> dict[str, tuple[int, int]]:
        """Return how many lines a pull request adds to and takes from each file that it changes."""
        start = self.objects.merge_base(pull.base_sha, pull.head) or pull.base_sha
        changed = self.objects.difference(*(self.objects.commits[sha].tree for sha in (start, pull.head)))
        lines = {
            path: [Counter(self.objects.blobs[leaf.sha].splitlines()) if leaf else Counter() for leaf in both]
            for path, both in changed.items()
        }
        return {path: ((new - old).total(), (old - new).total()) for path, (old, new) in lines.items()}

    def open_issue(self, title: str, by: str, body: str = "", labels: Iterable[str] = ()) -> Issue:
        """Open an issue."""
        number, now = len(self.issues) + 1, self.now()
        issue = Issue(number, self.forge.next_id(), by, title, _bounded(body), now, now, labels=list(labels))
        self.issues.append(issue)
        return issue

    def open_pull(  # as a person says it
        self,
        branch: str,
        by: str,
        title: str = "A change",
        body: str = "",
        *,
        base: str = "",
        draft: bool = False,
        head_repo: str = "",
    ) -> Pull:
        """Open a pull request; the branch of a fork is `owner:branch`, with `head_repo` if one account has both.

        Raises:
            Refused: it is open already, has nothing to merge, or may not be opened by this one.
        """
        if by == ACTIONS and not self.can_create_pulls:
            message = "GitHub Actions is not permitted to create or approve pull requests."
            raise Refused(403, message, kind="FORBIDDEN")
        owner, _, name = branch.rpartition(":")
        source = self.forge.repositories.get(f"{owner}/{head_repo}") if head_repo else None
        source = source or self.forge.fork_of(self.full_name, owner or self.owner)
        base = base or self.default_branch
        if source is None or name not in source.branches:
            raise invalid("PullRequest", "", "head")
        if base not in self.branches:
            raise invalid("PullRequest", "", "base")
        for pull in self.forge.pulls_of(source.full_name, name):
            if pull in self.issues and pull.base == base:
                raise invalid("PullRequest", f"A pull request already exists for {source.owner}:{name}.")
        if not self.objects.since(self.branches[base], source.branches[name]):
            raise invalid("PullRequest", f"No commits between {base} and {name}")
        number, now = len(self.issues) + 1, self.now()
        opened = Pull(number, self.forge.next_id(), by, title, _bounded(body), now, now, source=source.full_name)
        opened.branch, opened.base, opened.draft = name, base, draft
        opened.head, opened.base_sha = source.branches[name], self.branches[base]
        self.issues.append(opened)
        return opened

    def edit(self, number: int, by: str, title: str | None = None, body: str | None = None) -> None:
        """Change the words of an issue or pull request."""
        issue = self.issue(number)
        self._require_author_or_writer(issue, by)
        issue.title = issue.title if title is None else title
        if body is not None and body != issue.body:
            issue.body, issue.edited, issue.editor = _bounded(body), self.now(), by
        issue.updated = self.now()

    def close(self, number: int, by: str) -> None:
        """Close without merging."""
        issue = self.issue(number)
        self._require_author_or_writer(issue, by)
        if issue.state == "OPEN":
            issue.state, issue.closed, issue.closed_by, issue.updated = "CLOSED", self.now(), by, self.now()
            if isinstance(issue, Pull):
                self.switch_off(issue, by)

    def reopen(self, number: int, by: str) -> None:
        """Open again what was closed and not merged.

        Raises:
            Refused: it was merged, or its branch is gone.
        """
        issue = self.issue(number)
        self._require_author_or_writer(issue, by)
        if isinstance(issue, Pull):
            branches = self.forge.repositories[issue.source].branches
            if issue.merged or issue.branch not in branches:
                raise invalid(
                    "PullRequest", f"state cannot be changed. The {issue.branch} branch has been deleted.", "state"
                )
            issue.head = branches[issue.branch]
            issue.timeline.append(TimelineEvent("ReopenedEvent", by, self.now()))
        issue.state, issue.closed, issue.closed_by, issue.updated = "OPEN", None, None, self.now()

    def comment(self, number: int, by: str, body: str) -> Comment:
        """Comment on an issue or pull request."""
        comment = Comment(self.forge.next_id(), by, _bounded(body), self.now(), self.now())
        self.issue(number).comments.append(comment)
        return comment

    def request_reviews(self, number: int, users: Sequence[str], teams: Sequence[str]) -> None:
        """Ask people and teams for a review.

        Raises:
            Refused: one of them has no access, or is the author.
        """
        pull = self.pull(number)
        if pull.author in users:
            raise Refused(422, "Review cannot be requested from pull request author.")
        known = {team.partition("/")[2] for team in self.team_permissions}
        people = {user for user in users if user in self.forge.users and self.may(user, "read")}
        if set(users) - people or set(teams) - known:
            message = (
                "Reviews may only be requested from collaborators. One or more of the users or teams you specified is "
                f"not a collaborator of the {self.full_name} repository."
            )
            raise Refused(422, message)
        pull.asked += [user for user in users if user not in pull.asked]
        pull.asked_teams += [team for team in teams if team not in pull.asked_teams]

    def review(self, number: int, by: str, state: str = "APPROVED", body: str = "", commit: str = "") -> Review:
        """Review the head of a pull request.

        Raises:
            Refused: of one's own pull request, or by a bot that may not.
        """
        pull = self.pull(number)
        if state != "COMMENTED" and by == pull.author:
            raise Refused(
                422, f"Can not {'approve' if state == 'APPROVED' else 'request changes on'} your own pull request"
            )
        if by == ACTIONS and state == "APPROVED" and not self.can_create_pulls:
            raise Refused(422, "GitHub Actions is not permitted to approve pull requests.")
        review = Review(self.forge.next_id(), by, state, commit or pull.head, self.now(), body)
        pull.reviews.append(review)
        pull.asked = [user for user in pull.asked if user != by]
        self.forge.settle()
        return review

    def dismiss(self, number: int, review: int) -> None:
        """Let a review count no more."""
        for found in self.pull(number).reviews:
            if found.id == review:
                found.state = "DISMISSED"

    def approvals(self, pull: Pull) -> int:
        """Return by how many who may write a pull request stands approved; 0 where one of them wants changes."""
        latest = {r.author: r.state for r in pull.reviews if r.state != "COMMENTED" and self.may(r.author, "write")}
        return 0 if "CHANGES_REQUESTED" in latest.values() else list(latest.values()).count("APPROVED")

    def obstacle(self, pull: Pull) -> tuple[str, str]:
        """Return why a pull request cannot be merged: GitHub's status of it, and its words."""
        rule = self.protections.get(pull.base)
        if pull.draft:
            return "DRAFT", "Pull Request is still a draft"
        if self.merged_tree(self.branches[pull.base], pull.head) is None:
            return "DIRTY", "Pull Request is not mergeable"
        if rule and self.approvals(pull) < rule.reviews:
            return "BLOCKED", f"At least {rule.reviews} approving review is required by reviewers with write access."
        return "CLEAN", ""

    def ready(self, number: int, *, draft: bool = False) -> None:
        """Let a pull request be no draft any more, or be one again."""
        self.pull(number).draft = draft
        self.forge.settle()

    def enable_auto_merge(self, number: int, by: str, how: str = "merge") -> None:
        """Let a pull request be merged once it may be.

        Raises:
            Refused: the repository does not allow it, or it could be merged at once.
        """
        pull = self.pull(number)
        if not self.allow_auto_merge:
            raise Refused(422, "Pull request Auto merge is not allowed for this repository")
        if pull.state != "OPEN" or self.obstacle(pull)[0] == "CLEAN":
            status = "clean status" if pull.state == "OPEN" else "closed state"
            raise Refused(422, f"Pull request Pull request is in {status}")
        pull.auto_merge = AutoMerge(by, how, self.now())
        pull.timeline.append(TimelineEvent(_EVENTS[how], by, self.now()))

    def retarget(self, number: int, base: str, by: str) -> None:
        """Let a pull request go into another branch; its reviews stay.

        Raises:
            Refused: it is not open, or there is no such branch.
        """
        pull = self.pull(number)
        self._require_author_or_writer(pull, by)
        if pull.state != "OPEN" or base not in self.branches:
            raise invalid("PullRequest", "", "base")
        more = {"currentRefName": base, "previousRefName": pull.base}
        pull.timeline.append(TimelineEvent("BaseRefChangedEvent", by, self.now(), more))
        pull.base, pull.base_sha = base, self.branches[base]
        if not self.writes(by):
            self.switch_off(pull, by)

    def disable_auto_merge(self, number: int, by: str) -> None:
        """Let a pull request not be merged by itself any more.

        Raises:
            Refused: nobody wanted it to be.
        """
        pull = self.pull(number)
        if pull.auto_merge is None or pull.state != "OPEN":
            raise Refused(422, "Pull request Can't disable auto-merge for this pull request")
        self.switch_off(pull, by)

    def merge(self, number: int, by: str, how: str = "merge", head: str = "", message: str = "") -> str:
        """Merge a pull request and return the commit that the base branch then has; `how` may be `squash` or `rebase`.

        Raises:
            Refused: it is not open, may not be merged yet, or not by this one, or its head is not `head`.
        """
        pull = self.pull(number)
        self.require_writer(by)
        if pull.state != "OPEN":
            raise Refused(405, "Pull Request is not mergeable")
        status, words = self.obstacle(pull)
        if status != "CLEAN":
            raise Refused(405, words)
        if head and head != pull.head:
            raise Refused(409, "Head branch was modified. Review and try the merge again.")
        commit = self._merged(pull, by, self._merge_commit(pull, by, how, message))
        self.move(pull.base, commit, by, kind="pr_merge")
        if self.delete_branch_on_merge and pull.source == self.full_name:
            self._note("branch_deletion", pull.branch, self.branches.pop(pull.branch, NOTHING), NOTHING, by)
        return commit

    def merge_queue(self, *numbers: int, how: str = "merge") -> list[str]:
        """Let the merge queue merge pull requests into the default branch, all in one update; return their commits."""
        commits: list[str] = []
        for pull in map(self.pull, numbers):
            commit = self._merge_commit(pull, QUEUE, how, "", onto=commits[-1] if commits else "")
            commits.append(self._merged(pull, QUEUE, commit))
        self.move(self.default_branch, commits[-1], QUEUE, kind="merge_queue_merge")
        return commits

    def _merged(self, pull: Pull, by: str, commit: str) -> str:
        pull.state, pull.merged_by, pull.merged_at, pull.merge_commit = "MERGED", by, self.now(), commit
        pull.closed, pull.closed_by, pull.updated = pull.merged_at, by, self.now()
        return commit

    def _merge_commit(self, pull: Pull, by: str, how: str, message: str, *, onto: str = "") -> str:
        pull.base_sha = base = onto or self.branches[pull.base]
        who = self.signature(by)
        if how == "rebase":
            for commit in reversed(self.objects.since(base, pull.head)):
                start, onto = (self.objects.commits[sha].tree for sha in (*commit.parents[:1], base))
                picked = self.objects.merged(start, onto, commit.tree)
                base = self.objects.commit(picked, [base], commit.author, self.web_flow, commit.message)
            return base
        tree = self.merged_tree(base, pull.head)
        if tree is None:
            raise Refused(405, "Pull Request is not mergeable")
        owner = self.forge.repositories[pull.source].owner
        if how == "squash":
            text, parents = message or f"{pull.title} (#{pull.number})", [base]
        else:
            text = message or f"Merge pull request #{pull.number} from {owner}/{pull.branch}\n\n{pull.title}"
            parents = [base, pull.head]
        return self.objects.commit(tree, parents, who, self.web_flow, text, signed=True)

    def _require_author_or_writer(self, issue: Issue, by: str) -> None:
        if by != issue.author:
            self.require_writer(by)
