"""Pull requests in the repositories that pin an artifact: one for each, with all its files in one commit.

The next run finds every step again, so it can repeat a run that was interrupted: the commit by a key in its message,
the pull request by its branch and by a mark in its text. People take precedence: their commits on the branch stay, and
a run does not reopen a pull request for the same subject that a person closed, as long as its branch exists.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.consumers.edit import Edited, edit
from ci_automation.consumers.model import (
    ConsumersReport,
    FileOutcome,
    MentionKind,
    Published,
    RepositoryOutcome,
    State,
    body,
    message,
    title,
)
from ci_automation.errors import Error, UsageError
from ci_automation.github.commits import Commits, branch_name
from ci_automation.github.errors import RateLimited
from ci_automation.github.files import Files
from ci_automation.github.model import Actor, Commit, PullRequest, PullSnapshot, PullState
from ci_automation.github.pulls import Pulls
from ci_automation.github.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ci_automation.config.model import ConsumerConfig
    from ci_automation.github.client import GitHub

MAX_FILES = 2000  # forty requests
_SUFFIXES = (".yaml", ".yml")
_WORKFLOWS = ".github/workflows/"
_ANY_FILE = ".github/flux-manifests.yaml"  # a snapshot comes with the text of one
_TRAILER = "Flux-Manifests-Key"
_KEY = re.compile(rf"^{_TRAILER}: (?P<key>[0-9a-f]+)$", re.MULTILINE)
_MARK = re.compile(r"<!-- flux-manifests (?P<subject>[!-~]+) (?P<key>[0-9a-f]+) (?P<commit>[0-9a-f]+) -->")


class TooManyConsumerFiles(UsageError):
    """A repository with more YAML files than the limit."""

    hint = "List the folders that pin the artifact under `paths` of the consumer."

    def __init__(self, repository: str, number: int) -> None:
        super().__init__(f"{repository} has {number} YAML files to read, more than the limit of {MAX_FILES}")


def update_consumers(
    published: Published, consumers: Iterable[ConsumerConfig], connect: Callable[[str], GitHub]
) -> ConsumersReport:
    """Offer the published digest to each repository that pins the artifact, and return the results.

    `connect` returns a client with rights on one repository, which is closed here. A failure in one repository does not
    stop the others; a rate limit of GitHub ends the run. A repeated run continues where this one ended, and leaves
    finished pull requests as they are.
    """
    places = _grouped(consumers)
    outcomes: list[RepositoryOutcome] = []
    for name, paths in places.items():
        try:
            with closing(connect(name)) as client:
                outcomes.append(_Consumer(client, name, published).update(paths))
        except RateLimited as error:
            rest = list(places)[len(outcomes) :]
            why = f"{error}; run again after that"
            outcomes += [RepositoryOutcome(each, State.NOT_REACHED, "", why, (), error.exit_code) for each in rest]
            break
        except Error as error:
            why = f"{error}. {error.hint}" if error.hint else str(error)
            outcomes.append(RepositoryOutcome(name, State.FAILED, "", why, (), error.exit_code))
    return ConsumersReport(published, tuple(outcomes))


def _grouped(consumers: Iterable[ConsumerConfig]) -> dict[str, tuple[str, ...]]:
    """Return the paths by repository, one pull request each; GitHub ignores the case of names."""
    names: dict[str, str] = {}
    paths: dict[str, tuple[str, ...]] = {}
    for consumer in consumers:
        name = names.setdefault(consumer.repository.lower(), consumer.repository)
        everything = () in (consumer.paths, paths.get(name))
        paths[name] = () if everything else (*paths.get(name, ()), *consumer.paths)
    return paths


class _Consumer:
    """One repository that names the artifact."""

    def __init__(self, client: GitHub, name: str, published: Published) -> None:
        self._published = published
        self._repository, self._files = Repository(client, name), Files(client, name)
        self._commits, self._pulls = Commits(client, name), Pulls(client, name)

    def update(self, paths: tuple[str, ...]) -> RepositoryOutcome:
        """Update this repository and return the result."""
        branch = branch_name(self._published.name, "consumer-")
        seen = self._repository.snapshot(branch, _ANY_FILE)
        listed = [entry for entry in self._files.listed(seen.head, paths) if entry[0].endswith(_SUFFIXES)]
        if len(listed) > MAX_FILES:
            raise TooManyConsumerFiles(self._repository.name, len(listed))
        edits = dict(self._edits(seen.head, listed))
        places = [(path, sha, _permitted(path, edits[sha])) for path, sha in listed if sha in edits]
        files = tuple(FileOutcome(path, each.findings) for path, _, each in places)
        changed = [place for place in places if any(it.kind is MentionKind.EDITED for it in place[2].findings)]
        if changed:
            done = _propose(self._commits, self._pulls, seen, self._proposal(branch, changed, files))
        else:
            done = _withdraw(self._pulls, seen, "nothing is left to be changed")
        return RepositoryOutcome(self._repository.name, *done, files)

    def _edits(self, commit: str, listed: list[tuple[str, str]]) -> Iterator[tuple[str, Edited]]:
        """Yield the edit of each blob that names the artifact."""
        for sha, data in self._files.contents(commit, listed):
            if (edited := edit(data, self._published)).findings:
                yield sha, edited

    def _proposal(
        self, branch: str, changed: list[tuple[str, str, Edited]], files: tuple[FileOutcome, ...]
    ) -> _Proposal:
        """Return the pull request that is wanted; its key says which contents were made from which."""
        blobs = ((path, sha, hashlib.sha256(each.data).hexdigest()) for path, sha, each in changed)
        key = hashlib.sha256("\0".join(chain.from_iterable(sorted(blobs))).encode()).hexdigest()[:16]
        published = self._published
        return _Proposal(
            branch=branch,
            subject=str(published.digest),
            key=key,
            title=title(published),
            body=body(published, files),
            message=message(published),
            files={path: each.data for path, _, each in changed},
        )


def _permitted(path: str, edited: Edited) -> Edited:
    """Return what may be written: no token of a job may change workflows, and one of them would hold up all files."""
    if not path.startswith(_WORKFLOWS):
        return edited
    why = "this run never changes workflows; change it yourself"
    left = (
        replace(it, kind=MentionKind.LEFT, reason=why) if it.kind is MentionKind.EDITED else it
        for it in edited.findings
    )
    return Edited(edited.data, tuple(left))


class _Proposal(Struct, frozen=True):
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


def _propose(commits: Commits, pulls: Pulls, seen: PullSnapshot, proposal: _Proposal) -> tuple[State, str, str]:
    """Make sure that the repository, as just `seen`, has one pull request with the proposal.

    Return what was done, the page that shows it, and a remark.
    """
    pull = seen.open_pull
    if pull is None and (no := _declined(seen, proposal)):
        remark = f"a person closed it; to have it offered again, reopen it or delete the branch {proposal.branch}"
        return State.DECLINED, no.url, remark
    commit, written = _written(seen)
    wrote = written != proposal.key
    if wrote and (people := _people(seen)):
        url = pull.url if pull else ""
        return State.KEPT, url, f"{proposal.branch} has commits of {people}; delete it to start again"
    if wrote:
        commit = _write(commits, seen, proposal)
    if pull is None:
        pull = pulls.open_pull(proposal.branch, seen.default_branch, proposal.title, proposal.text(commit))
        return State.OPENED, pull.url, ""
    mark = _MARK.search(pull.body)
    retold = mark is not None and (mark["subject"], mark["key"]) != (proposal.subject, proposal.key)
    if retold:
        pulls.edit_pull(pull.number, title=proposal.title, body=proposal.text(commit))
    return State.UPDATED if wrote or retold else State.UNCHANGED, pull.url, ""


def _withdraw(pulls: Pulls, seen: PullSnapshot, reason: str) -> tuple[State, str, str]:
    """Close the pull request, with the reason in its text; return as `_propose`.

    A pull request with commits of people, or with a text that this program did not write, stays open. The branch stays.
    """
    pull = seen.open_pull
    if pull is None:
        return State.CURRENT, "", ""
    if not _MARK.search(pull.body) or _people(seen):
        return State.KEPT, pull.url, f"{reason}, but a person changed the pull request; close it yourself"
    # Without the mark no run takes it for a pull request that a person closed.
    body = f"**Closed: {reason}.**\n\n{_MARK.sub('', pull.body).rstrip()}\n"
    pulls.edit_pull(pull.number, body=body, state=PullState.CLOSED)
    return State.WITHDRAWN, pull.url, ""


def _declined(seen: PullSnapshot, proposal: _Proposal) -> PullRequest | None:
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


def _write(commits: Commits, seen: PullSnapshot, proposal: _Proposal) -> str:
    """Commit, so that the branch differs from the default branch only by the proposal's files; return the commit."""
    message = f"{proposal.message.rstrip()}\n\n{_TRAILER}: {proposal.key}\n"
    if seen.branch is None:
        commits.create_branch(proposal.branch, seen.head)
    if seen.branch is None or seen.branch.head == seen.head:
        return commits.commit(proposal.branch, seen.head, message, proposal.files)
    return commits.rebase_commit(proposal.branch, seen.branch.head, seen.head, message, proposal.files)
