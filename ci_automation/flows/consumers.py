"""Pull requests in the repositories that pin an artifact: one for each, with all its files in one commit."""

from __future__ import annotations

import hashlib
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.consumers.edit import MAX_BYTES, Edited, edit
from ci_automation.consumers.model import (
    ConsumersReport,
    FileOutcome,
    Mention,
    MentionKind,
    Published,
    RepositoryOutcome,
    State,
)
from ci_automation.errors import Error, UsageError
from ci_automation.github.commits import Commits, branch_name
from ci_automation.github.errors import RateLimited
from ci_automation.github.files import Files
from ci_automation.github.proposal import Proposal, Proposed, ProposedState, propose, withdraw
from ci_automation.github.pulls import Pulls
from ci_automation.github.repository import Repository
from ci_automation.report.consumers import body, message, title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ci_automation.config.model import ConsumerConfig
    from ci_automation.github.client import GitHub

MAX_FILES = 2000  # forty requests
_SUFFIXES = (".yaml", ".yml")
_WORKFLOWS = ".github/workflows/"
_ANY_FILE = ".github/flux-manifests.yaml"  # a snapshot comes with the text of one


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
            done = propose(self._commits, self._pulls, seen, self._proposal(branch, changed, files))
        else:
            done = withdraw(self._pulls, seen, "nothing is left to be changed")
        return RepositoryOutcome(self._repository.name, _state(done), done.url, done.remark, files)

    def _edits(self, commit: str, listed: list[tuple[str, str]]) -> Iterator[tuple[str, Edited]]:
        """Yield the edit of each blob that names the artifact."""
        for sha, data in self._files.contents(commit, listed):
            if data is None:
                reason = f"it is larger than {MAX_BYTES >> 20} MiB"
                yield sha, Edited(b"", (Mention(1, "file", MentionKind.LEFT, reason=reason),))
            elif (edited := edit(data, self._published)).findings:
                yield sha, edited

    def _proposal(
        self, branch: str, changed: list[tuple[str, str, Edited]], files: tuple[FileOutcome, ...]
    ) -> Proposal:
        """Return the pull request that is wanted; its key says which contents were made from which."""
        blobs = ((path, sha, hashlib.sha256(each.data).hexdigest()) for path, sha, each in changed)
        key = hashlib.sha256("\0".join(chain.from_iterable(sorted(blobs))).encode()).hexdigest()[:16]
        published = self._published
        return Proposal(
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


def _state(done: Proposed) -> State:
    return State.CURRENT if done.state is ProposedState.NOTHING else State(done.state.value)
