"""The part of a repository that git knows, who may do what in it, and what a push sets off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fakes.forge.objects import MergeConflict, Signature
from tests.fakes.forge.people import LEVELS
from tests.fakes.forge.state import Activity, Issue, Protection, Pull, Refused, TimelineEvent

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from tests.fakes.forge.forge import Forge
    from tests.fakes.forge.objects import Commit, Objects

NOTHING = "0" * 40
GITHUB = ("GitHub", "noreply@github.com", "web-flow")


class Branches:
    """Branches, permissions, settings; the files are in objects that all forks share."""

    def __init__(self, forge: Forge, name: str, objects: Objects, *, private: bool = True) -> None:
        self.forge, self.full_name, self.objects, self.private = forge, name, objects, private
        self.owner, self.name = name.split("/")
        self.id = forge.next_id()
        self.default_branch = "main"
        self.branches: dict[str, str] = {}
        self.tags: dict[str, str] = {}
        self.collaborators: dict[str, str] = {}
        self.team_permissions: dict[str, str] = {}
        self.protections: dict[str, Protection] = {}
        self.issues: list[Issue] = []
        self.activity: list[Activity] = []  # oldest first
        self.lag = 0  # so many of the last updates of a branch its log does not show yet
        self.has_activity = True  # old Enterprise Servers have none
        self.parent: str | None = None
        self.archived = False
        self.can_create_pulls = True  # whether Actions may create and approve pull requests
        self.allow_auto_merge = False
        self.delete_branch_on_merge = False
        self.created = forge.now()

    @property
    def head(self) -> str:
        """The newest commit of the default branch."""
        return self.branches[self.default_branch]

    @property
    def pulls(self) -> list[Pull]:
        """The pull requests, oldest first."""
        return [issue for issue in self.issues if isinstance(issue, Pull)]

    def now(self) -> dt.datetime:
        """Return the time that things get."""
        return self.forge.now()

    def signature(self, login: str) -> Signature:
        """Return a user's signature, now."""
        user = self.forge.user(login)
        return Signature(login, user.email, int(self.now().timestamp()), login)

    @property
    def web_flow(self) -> Signature:
        """The signature of GitHub itself, which commits what is made on its pages."""
        name, email, login = GITHUB
        return Signature(name, email, int(self.now().timestamp()), login)

    def permission(self, login: str) -> str:
        """Return what a user may do here."""
        levels = [self.collaborators.get(login, "none" if self.private else "read")]
        levels += [level for team, level in self.team_permissions.items() if login in self.forge.teams[team].members]
        if login == self.owner:
            levels.append("admin")
        return max(levels, key=LEVELS.index)

    def may(self, login: str, level: str) -> bool:
        """Return whether a user has at least that permission."""
        return LEVELS.index(self.permission(login)) >= LEVELS.index(level)

    def resolve(self, name: str) -> str | None:
        """Return the commit of a branch, a tag, or a commit's own name."""
        name = self.default_branch if name == "HEAD" else name
        plain = name.removeprefix("refs/").removeprefix("heads/").removeprefix("tags/")
        found = self.branches.get(plain) or self.tags.get(plain)
        return found or (name if name in self.objects.commits else None)

    def read(self, path: str, ref: str = "HEAD") -> bytes | None:
        """Return the bytes of a file, or None where it is not there."""
        commit = self.resolve(ref)
        return self.objects.read(commit, path) if commit else None

    def commits(self, branch: str) -> list[Commit]:
        """Return the commits that a branch has over the default branch, newest first."""
        return self.objects.since(self.head, self.branches[branch])

    def protect(self, branch: str = "main", reviews: int = 1, *, dismiss_stale: bool = False) -> None:
        """Let a branch be changed by reviewed pull requests alone."""
        self.protections[branch] = Protection(reviews, dismiss_stale)

    def push(  # as a person says it
        self,
        branch: str,
        files: Mapping[str, bytes | None],
        author: str,
        message: str = "Change files",
        *,
        onto: str | None = None,
        force: bool = False,
        committer: str = "",
        by: str = "",
    ) -> str:
        """Commit and push as a person; `onto` is the parent where it is not the branch's own head.

        The commit may say that others made it: only `by`, the author if it is not given, is who pushes.

        Raises:
            Refused: by permission, a rule of the branch, or because the push loses commits and is not forced.
        """
        if branch in self.branches or self.branches:
            self.require_writer(by or author)
        parent = onto or self.branches.get(branch) or self.branches.get(self.default_branch)
        tree = self.objects.commits[parent].tree if parent else self.objects.tree({})
        made = self.signature(author), self.signature(committer or author)
        commit = self.objects.commit(self.objects.changed(tree, files), [parent] if parent else [], *made, message)
        self.move(branch, commit, by or author, force=force)
        return commit

    def writes(self, login: str) -> bool:
        """Return whether a person may write here, or it is a bot, whose token says what it may."""
        return login.endswith("[bot]") or self.may(login, "write")

    def require_writer(self, login: str) -> None:
        """Refuse whoever may not write here."""
        if not self.writes(login):
            raise Refused(403, "Must have push access to the repository.", kind="FORBIDDEN")
        if self.archived:
            raise Refused(403, "Repository was archived so is read-only.", kind="FORBIDDEN")

    def move(self, branch: str, commit: str, by: str, *, force: bool = False, kind: str = "") -> None:
        """Let a branch point at a commit, with all that this sets off; a new branch is made.

        `kind` is what the log calls it where it is no push.

        Raises:
            Refused: commits would be lost, or the branch is protected.
        """
        old = self.branches.get(branch)
        rule = self.protections.get(branch)
        if rule and old and not kind and self.permission(by) != "admin":
            message = f"Repository rule violations found\n\nChanges must be made through a pull request. ({branch})"
            raise Refused(422, message, kind="UNPROCESSABLE")
        if old and not force and not self.objects.is_ancestor(old, commit):
            raise Refused(422, "Update is not a fast forward")
        self.branches[branch] = commit
        forced = old and not self.objects.is_ancestor(old, commit)
        pushed = "force_push" if forced else "push" if old else "branch_creation"
        self._note(kind or pushed, branch, old or NOTHING, commit, by)
        self._follow(branch, by)
        if old:
            changed = self.objects.difference(*(self.objects.commits[sha].tree for sha in (old, commit)))
            self.forge.pushed(self.full_name, branch, by, sorted(changed))

    def _note(self, kind: str, branch: str, before: str, after: str, by: str) -> None:
        if before != after:
            self.activity.append(Activity(self.forge.next_id(), kind, branch, before, after, by, self.now()))

    def _follow(self, branch: str, by: str) -> None:
        """Take pull requests along with the branches that they are about."""
        for pull in self.forge.pulls_of(self.full_name, branch):
            if pull.head != self.branches[branch]:
                pull.head, pull.updated = self.branches[branch], self.now()
                place = self.forge.repositories[self.forge.place_of(pull)]
                if not place.writes(by):
                    place.switch_off(pull, by)
                rule = place.protections.get(pull.base)
                for review in pull.reviews if rule and rule.dismiss_stale else ():
                    review.state = "DISMISSED" if review.state == "APPROVED" else review.state
        for pull in self.pulls:
            if pull.base != branch or pull.state != "OPEN":
                continue
            if pull.head != pull.base_sha and self.objects.is_ancestor(pull.head, self.branches[branch]):
                pull.state, pull.merged_by, pull.merged_at = "MERGED", by, self.now()
                pull.closed, pull.closed_by, pull.merge_commit = self.now(), by, self.branches[branch]

    def delete_branch(self, branch: str, by: str) -> None:
        """Delete a branch, which closes what asked to merge it; what was to go into it follows it where it was merged.

        Raises:
            Refused: there is no such branch, or it is the default branch.
        """
        self.require_writer(by)
        if branch not in self.branches:
            raise Refused(422, "Reference does not exist")
        if branch == self.default_branch or branch in self.protections:
            raise Refused(422, "Cannot delete this protected branch")
        self._note("branch_deletion", branch, self.branches.pop(branch), NOTHING, by)
        merged_into = {pull.base for pull in self.pulls if pull.merged and pull.branch == branch}
        for pull in [pull for pull in self.pulls if pull.base == branch and pull.state == "OPEN"]:
            if merged_into:
                new = max(merged_into)
                more = {"newBase": new, "oldBase": branch}
                pull.timeline.append(TimelineEvent("AutomaticBaseChangeSucceededEvent", by, self.now(), more))
                pull.base, pull.base_sha = new, self.branches[new]
            else:
                self._shut(pull, by)
        for pull in self.forge.pulls_of(self.full_name, branch):
            self._shut(pull, by)

    def _shut(self, pull: Pull, by: str) -> None:
        pull.state, pull.closed, pull.closed_by, pull.updated = "CLOSED", self.now(), by, self.now()
        self.switch_off(pull, None)

    def switch_off(self, pull: Pull, by: str | None) -> None:
        """Let a pull request not be merged by itself any more."""
        if pull.auto_merge:
            pull.timeline.append(TimelineEvent("AutoMergeDisabledEvent", by, self.now()))
        pull.auto_merge = None

    def merged_tree(self, base: str, head: str) -> str | None:
        """Return the tree that merging `head` into `base` gives, or None where they conflict."""
        start = self.objects.merge_base(base, head)
        trees = [self.objects.commits[sha].tree for sha in (start or base, base, head)]
        try:
            return self.objects.merged(*trees)
        except MergeConflict:
            return None
