"""Contents of a repository on GitHub, as values; classes made with a client and a name read and write them."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

OUR_BRANCHES = "flux-manifests/"  # what their names begin with
MOST_LISTED = 10  # requests of each state from one branch, the newest, that a run reads


class Actor(Struct, frozen=True):
    """A person or an App. An App's login always ends in `[bot]`, as in REST, although GraphQL omits that."""

    login: str
    is_bot: bool = False

    def is_account_of(self, other: Actor | None) -> bool:
        """Return whether both are one account; case does not count in logins."""
        return other is not None and self.login.casefold() == other.login.casefold()


class Access(Struct, frozen=True):
    """Level of access to a repository, `admin`, `write`, `read` or `none`, and the number of the account."""

    level: str
    account: int = 0


class Review(Struct, frozen=True):
    """The last word of a reviewer with write access, on one commit: `APPROVED`, `CHANGES_REQUESTED` or `DISMISSED`."""

    author: Actor
    state: str
    commit: str
    at: datetime


class Commit(Struct, frozen=True):
    """A commit; its author is unproven, because everyone with write access can write any author into a commit."""

    oid: str
    author: Actor | None
    message: str

    def may_be_of(self, viewer: Actor) -> bool:
        """Return whether this program may have made it, with the present account or an earlier token's bot."""
        return self.author is None or self.author.is_bot or viewer.is_account_of(self.author)


class PullState(enum.StrEnum):
    """State of a pull request."""

    OPEN = "OPEN"
    CLOSED = "CLOSED"
    MERGED = "MERGED"


class PullRequest(Struct, frozen=True):
    """A pull request; `merged_file` is the text of the requested file at `merge_commit`."""

    id: str  # of GraphQL, for `Pulls.enable_auto_merge`
    number: int
    url: str
    state: PullState
    title: str
    body: str
    branch: str  # the name of the head branch
    base: str  # the name of the branch that it goes into
    head: str  # the commit at the tip of the head branch
    cross_repository: bool  # from a fork
    author: Actor | None = None  # None: the account is gone
    merged_by: Actor | None = None
    merged_at: datetime | None = None
    merge_commit: str | None = None
    merged_file: str | None = None
    reviews: tuple[Review, ...] = ()
    auto_merge: bool = False
    edited_at: datetime | None = None  # when its body was edited last; None: never
    editor: Actor | None = None  # by whom; None: the account is gone
    closed_at: datetime | None = None  # or merged; None: it is open
    reopened: bool = False  # after it was closed once

    @property
    def writer(self) -> Actor | None:
        """Return the account that wrote the body last, or None if it is gone."""
        return self.editor if self.edited_at else self.author

    def is_written_by(self, actor: Actor) -> bool:
        """Return whether this account wrote the body last."""
        return actor.is_account_of(self.writer)

    def asks_since(self, number: int, at: datetime | None) -> bool:
        """Return whether it asks, or asked, since a moment at which `number` was merged.

        Then it was opened, written or ended later: a run writes what it asks now into the request that is open, which
        people may have opened again.
        """
        return self.number > number or any(at and it and it > at for it in (self.edited_at, self.closed_at))

    def is_opened_by(self, actor: Actor) -> bool:
        """Return whether this account opened it, from a branch of the repository."""
        return not self.cross_repository and actor.is_account_of(self.author)


class UpdateKind(enum.StrEnum):
    """Type of a branch update, as GitHub's log of the branch names it."""

    PUSH = "push"
    FORCE_PUSH = "force_push"
    PR_MERGE = "pr_merge"  # of a pull request, by its button, the API or auto-merge
    MERGE_QUEUE = "merge_queue_merge"  # of one pull request or several
    BRANCH_CREATION = "branch_creation"
    BRANCH_DELETION = "branch_deletion"
    OTHER = "other"  # a type that this version does not know


class Making(Struct, frozen=True):
    """The origin of a pull request's last commit, and its merge, as far as GitHub knows them."""

    hands: frozenset[str] = frozenset()  # logins, in small letters, of all authors, committers and pushers
    pushed_at: datetime | None = None  # the time of the last push; None: not all hands are known
    auto_merge: datetime | None = None  # the time at which auto-merge was switched on; None: it is off
    retargeted_at: datetime | None = None  # when it last got another base branch
    merged_as: UpdateKind | None = None  # type of the update of its base that merged it; None: GitHub has no log of it
    merged_with: tuple[int, ...] = ()  # the numbers of other requests that the same commit merged
    later: tuple[str, ...] = ()  # the commits that its base had between its merge and now
    is_forgotten: bool = False  # what the run reads of the log of its base does not go back to its merge


class BranchUpdate(Struct, frozen=True):
    """An update of a branch from one commit to another; the commit of a side without the branch is all zeros."""

    before: str
    after: str
    kind: UpdateKind
    actor: Actor | None  # None: the account is gone
    at: datetime


class ContentAt(Struct, frozen=True):
    """Content of a repository at one commit: its overlay folder and its configuration.

    `attributes` has the texts of the `.gitattributes` above the two, by their paths.
    """

    commit: str
    overlay: str | None  # the tree id of the folder; None: there is no such folder
    config: str | None  # the text of the configuration file; None: there is none that GitHub shows whole
    attributes: Mapping[str, str | None] = {}  # None: it is there, and GitHub does not show it whole


class Comparison(Struct, frozen=True):
    """The difference between two commits since the newest one that both have, as the page of a request shows it."""

    base: str  # that newest commit
    paths: tuple[str, ...] | None  # of all files that differ, old names too; None: there are more than GitHub lists
    moved: tuple[tuple[str, str], ...] = ()  # from where to where, each with no lines but those that changed

    def shows(self, folder: str) -> bool:
        """Return whether it shows all files that are new in a folder: no others, and none that was elsewhere before."""
        inside = f"{folder}/"
        came = any(new.startswith(inside) and not old.startswith(inside) for old, new in self.moved)
        return self.paths is not None and not came


class ContentMerge(Struct, frozen=True):
    """A merged pull request, and the content that its page compared: from the merge base to its head."""

    pull: PullRequest
    merge_base: ContentAt | None  # None: not known, or not all was shown, or it is of a fork, or went elsewhere
    head: ContentAt | None  # None: as well, or GitHub does not have that commit any more
    making: Making
    viewer: Actor  # who we are


class Branch(Struct, frozen=True):
    """A branch; its commits newest first, at most 50, back to the fork from the default branch."""

    name: str
    head: str
    file: str | None
    commits: tuple[Commit, ...]


def is_request_branch(name: str) -> bool:
    """Return whether runs ask for digests on a branch; on the others of ours they offer changes to who pins them."""
    return name.startswith(OUR_BRANCHES) and not name.startswith(f"{OUR_BRANCHES}consumer-")


class PullSnapshot(Struct, frozen=True):
    """A repository at one moment: its default branch, one other branch, and the pull requests from that one.

    `file` is the text of one file at the tip, None if the file does not exist. The pull requests go into the default
    branch, newest first, at least the last 10 of each state. Open and closed ones of forks are left out, because
    everyone can open them. `strayed` are those that we opened, and that a person sent to another branch.
    """

    default_branch: str
    head: str
    file: str | None
    branch: Branch | None
    pulls: tuple[PullRequest, ...]
    viewer: Actor  # who we are
    merge_method: str = "MERGE"  # or SQUASH, REBASE: what the repository offers first
    strayed: tuple[PullRequest, ...] = ()

    @property
    def own_pulls(self) -> tuple[PullRequest, ...]:
        """Return the pull requests that are not from a fork."""
        return tuple(pull for pull in self.pulls if not pull.cross_repository)

    @property
    def open_pull(self) -> PullRequest | None:
        """Return the open pull request from the branch."""
        return next((pull for pull in self.own_pulls if pull.state is PullState.OPEN), None)

    @property
    def refused_pull(self) -> PullRequest | None:
        """Return the last pull request if a person closed it and kept its branch; deleting the branch undoes that."""
        last = next(iter(self.own_pulls), None)
        return last if self.branch and last and last.state is PullState.CLOSED else None

    @property
    def is_merged(self) -> bool:
        """Return whether the present tip of the branch was merged."""
        merged = {pull.head for pull in self.own_pulls if pull.state is PullState.MERGED}
        return self.branch is not None and self.branch.head in merged


class Status(Struct, frozen=True):
    """The latest status of a commit under one context: `error`, `failure`, `pending` or `success`, and its time."""

    context: str
    state: str
    commit: str
    at: datetime


class Comment(Struct, frozen=True):
    """A comment on a pull request or an issue."""

    author: Actor | None
    body: str


class Issue(Struct, frozen=True):
    """An open issue."""

    number: int
    url: str
    title: str
    body: str


class WorkflowRun(Struct, frozen=True):
    """A run of a workflow, with the words of GitHub's REST API for status, conclusion and event."""

    id: int
    url: str
    status: str  # queued, in_progress, waiting (for a person), completed, ...
    conclusion: str | None  # success, failure, cancelled, ...; None until it is completed
    event: str
    branch: str | None
    title: str  # what `run-name` made
    created_at: datetime
    updated_at: datetime  # when it last began, waited, was answered or ended
    actor: Actor | None
    triggering_actor: Actor | None = None  # of the present attempt


class StartedRun(Struct, frozen=True):
    """A run that we started, and of which no more is known yet."""

    id: int
    url: str


class RunApproval(Struct, frozen=True):
    """One person's answer to the environments of a run that waited."""

    user: Actor
    state: str  # approved, rejected
    environments: tuple[str, ...]


class Environment(Struct, frozen=True):
    """The protection of an environment; `required_reviewers` counts the people and teams, one of which must approve."""

    name: str
    required_reviewers: int
