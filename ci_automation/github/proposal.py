"""A change for a repository as one pull request, which each run brings up to date.

The next run finds every step again, so it can repeat a run that was interrupted: the commit by a key in its message,
the pull request by its branch and by a mark in its text. People take precedence: their commits on the branch stay, and
a run does not reopen a pull request for the same subject that a person closed, as long as its branch exists.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.github.model import Actor, Commit, PullRequest, PullSnapshot, PullState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.github.commits import Commits
    from ci_automation.github.pulls import Pulls

_TRAILER = "Flux-Manifests-Key"
_KEY = re.compile(rf"^{_TRAILER}: (?P<key>[0-9a-f]+)$", re.MULTILINE)
_MARK = re.compile(r"<!-- flux-manifests (?P<subject>[!-~]+) (?P<key>[0-9a-f]+) (?P<commit>[0-9a-f]+) -->")


class ProposedState(enum.StrEnum):
    """Result of a proposal."""

    OPENED = "opened"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    KEPT = "kept"
    DECLINED = "declined"
    WITHDRAWN = "withdrawn"
    NOTHING = "nothing"  # there was nothing to withdraw


class Proposal(Struct, frozen=True):
    """A wanted pull request; `files` are the changed files with their whole content.

    A person who closes it declines its `subject`. `key`, in hex digits, stands for the contents and their sources; for
    another key the run writes the branch again.
    """

    branch: str
    subject: str
    key: str
    title: str
    body: str
    message: str
    files: Mapping[str, bytes]

    def text(self, commit: str) -> str:
        """Return the body with a mark, by which runs find the pull request and notice an amended `commit`."""
        return f"{self.body.rstrip()}\n\n<!-- flux-manifests {self.subject} {self.key} {commit} -->\n"


class Proposed(Struct, frozen=True):
    """Result of a proposal, and the page that shows it; `remark` is for the log."""

    state: ProposedState
    url: str = ""
    remark: str = ""


def propose(commits: Commits, pulls: Pulls, seen: PullSnapshot, proposal: Proposal) -> Proposed:
    """Make sure that the repository, as just `seen`, has one pull request with the proposal; return what was done.

    Raises:
        HeadMoved: another writer changed the branch meanwhile.
        ReleaseSourceError: as `GitHub.send`.
    """
    pull = seen.open_pull
    if pull is None and (no := _declined(seen, proposal)):
        remark = f"a person closed it; to have it offered again, reopen it or delete the branch {proposal.branch}"
        return Proposed(ProposedState.DECLINED, no.url, remark)
    commit, written = _written(seen)
    wrote = written != proposal.key
    if wrote and (people := _people(seen)):
        url = pull.url if pull else ""
        return Proposed(ProposedState.KEPT, url, f"{proposal.branch} has commits of {people}; delete it to start again")
    if wrote:
        commit = _write(commits, seen, proposal)
    if pull is None:
        pull = pulls.open_pull(proposal.branch, seen.default_branch, proposal.title, proposal.text(commit))
        return Proposed(ProposedState.OPENED, pull.url)
    mark = _MARK.search(pull.body)
    retold = mark is not None and (mark["subject"], mark["key"]) != (proposal.subject, proposal.key)
    if retold:
        pulls.edit_pull(pull.number, title=proposal.title, body=proposal.text(commit))
    return Proposed(ProposedState.UPDATED if wrote or retold else ProposedState.UNCHANGED, pull.url)


def withdraw(pulls: Pulls, seen: PullSnapshot, reason: str) -> Proposed:
    """Close the pull request, with the reason in its text; return what was done.

    A pull request with commits of people, or with a text that this program did not write, stays open. The branch stays.

    Raises:
        ReleaseSourceError: as `GitHub.send`.
    """
    pull = seen.open_pull
    if pull is None:
        return Proposed(ProposedState.NOTHING)
    if not _MARK.search(pull.body) or _people(seen):
        return Proposed(
            ProposedState.KEPT, pull.url, (f"{reason}, but a person changed the pull request; close it yourself")
        )
    # Without the mark no run takes it for a pull request that a person closed.
    body = f"**Closed: {reason}.**\n\n{_MARK.sub('', pull.body).rstrip()}\n"
    pulls.edit_pull(pull.number, body=body, state=PullState.CLOSED)
    return Proposed(ProposedState.WITHDRAWN, pull.url)


def _declined(seen: PullSnapshot, proposal: Proposal) -> PullRequest | None:
    """Return the pull request for the same subject that a person closed; this program removes the mark first."""
    mark = _MARK.search(seen.refused_pull.body) if seen.refused_pull else None
    return seen.refused_pull if mark and mark["subject"] == proposal.subject else None


def _key_of(commit: Commit, viewer: Actor) -> str:
    """Return the key in a commit of this program, or nothing for a commit of a person with the same account."""
    found = _KEY.search(commit.message) if commit.may_be_of(viewer) else None
    return found["key"] if found else ""


def _written(seen: PullSnapshot) -> tuple[str, str]:
    """Return this program's last commit on the branch, and its key, both empty without such a commit."""
    keys = ((commit.oid, _key_of(commit, seen.viewer)) for commit in (seen.branch.commits if seen.branch else ()))
    return next(((oid, key) for oid, key in keys if key), ("", ""))


def _people(seen: PullSnapshot) -> str:
    """Return the people with unmerged commits on the branch, or nothing."""
    branch = seen.branch
    if branch is None or seen.is_merged:
        return ""
    commit, key = _written(seen)
    marks = (_MARK.search(pull.body) for pull in seen.own_pulls)
    told = next(filter(None, marks), None)
    amended = told is not None and told["key"] == key and told["commit"] != commit
    others = {each.author.login if each.author else "" for each in branch.commits if not _key_of(each, seen.viewer)}
    return ", ".join(sorted(filter(None, others))) or ("an unknown account" if others or amended else "")


def _write(commits: Commits, seen: PullSnapshot, proposal: Proposal) -> str:
    """Commit, so that the branch differs from the default branch only by the proposal's files; return the commit."""
    message = f"{proposal.message.rstrip()}\n\n{_TRAILER}: {proposal.key}\n"
    if seen.branch is None:
        commits.create_branch(proposal.branch, seen.head)
    if seen.branch is None or seen.branch.head == seen.head:
        return commits.commit(proposal.branch, seen.head, message, proposal.files)
    return commits.rebase_commit(proposal.branch, seen.branch.head, seen.head, message, proposal.files)
