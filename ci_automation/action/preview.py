"""The command `preview`: what a pull request changes and can break, read from GitHub with read rights alone.

The files of both commits come from GitHub's API, not from a checkout: `actions/checkout` has the base in no form, and
writes files through filters that the request itself can set (`.gitattributes`). So the job needs no checkout.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from ci_automation.action.github import Hub, now
from ci_automation.cli.places import release_ports
from ci_automation.config import DEFAULT_PATH
from ci_automation.config.load import parse_config
from ci_automation.config.model import named_files
from ci_automation.errors import PolicyRefused, UsageError
from ci_automation.flows.ports import Intent
from ci_automation.flows.preview import FolderState, Reviewer, changed_between, grouped, matching
from ci_automation.github.model import Comparison, is_request_branch
from ci_automation.impact.change import some_of
from ci_automation.report.preview import ArtifactReview, FailOn, FileReview, PreviewPage, fails

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.action.inputs import Inputs
    from ci_automation.action.job import Job
    from ci_automation.action.run import ActionRun
    from ci_automation.github.files import Files

_OID = re.compile(r"[0-9a-f]{40}")
_MOST_REVIEWS, _MOST_BESIDE, _MOST_FILES = 200, 100, 2_000
_MARK = "<!-- flux-manifests preview -->"
_NOT_ALL = f"Only the first {_MOST_REVIEWS} files were reviewed."


class NotOnPullRequest(UsageError):
    """A preview in a run that another event than `pull_request` started."""

    hint = (
        "Run preview `on: pull_request` alone. Other events run with the rights and secrets of the default branch: "
        "a request must not reach those."
    )

    def __init__(self, event: str) -> None:
        super().__init__(f"preview does not run on {event or 'no event'}")


class BrokenPullRequest(UsageError):
    """An event without the facts of a pull request into this repository."""

    hint = "The runner writes the event. Run it again; leave GITHUB_EVENT_PATH alone."
    message = "the event does not name the commits of a pull request into this repository"


class TooGrave(PolicyRefused):
    """A pull request with findings that the input `fail-on` names."""

    hint = "The summary of this run lists them. To only read them, leave out fail-on."

    def __init__(self, limit: FailOn) -> None:
        super().__init__(f"the preview found what it is to fail on: {limit}")


class PreviewedPull(Struct, frozen=True):
    """The pull request that started the run: its number, the tip of its base branch, and its head."""

    number: int
    base: str
    head: str
    is_of_fork: bool
    asks: bool  # for digests: it is on a branch of runs
    into: str = ""  # the branch that it goes into, if that is not the default branch

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return the pull request that started a run.

        Raises:
            NotOnPullRequest: another event did.
            BrokenPullRequest: the event says too little of it.
            UnreadableEvent: there is no event.
        """
        if job.event != "pull_request":
            raise NotOnPullRequest(job.event)
        match job.payload():
            case {
                "pull_request": {
                    "number": int(number),
                    "base": {"sha": str(base), "ref": str(into), "repo": {"full_name": str(name), **more}},
                    "head": {"sha": str(head), "ref": str(branch), "repo": home},
                }
            } if name == job.repository and _OID.fullmatch(base) and _OID.fullmatch(head):
                fork = not (isinstance(home, dict) and home.get("full_name") == name)
                elsewhere = "" if into == more.get("default_branch") else into
                return cls(number, base, head, fork, not fork and is_request_branch(branch), elsewhere)
        raise BrokenPullRequest

    @property
    def obstacles(self) -> Iterator[str]:
        """Yield why no merge of it can approve content."""
        if self.is_of_fork:
            yield "the request comes from a fork"
        if self.asks:
            yield "runs ask for digests alone on its branch"
        if self.into:
            yield f"it goes into {self.into}, which is not the default branch"


class _Commit(Struct, frozen=True):
    """The files of one commit, each with its blob."""

    oid: str
    blobs: Mapping[str, str]

    def folder(self, path: str) -> dict[str, str]:
        """Return the files in the folder of a file, and below, each with its blob."""
        folder = path.rpartition("/")[0]
        return {it: blob for it, blob in self.blobs.items() if it.startswith(f"{folder}/" if folder else "")}

    def around(self, path: str) -> dict[str, str]:
        """Return a file, if it is there, and the files in its folder; of too many, the file alone."""
        if path not in self.blobs:
            return {}
        found = self.folder(path)
        return found if len(found) <= _MOST_BESIDE else {path: self.blobs[path]}

    def state(self, path: str, contents: Mapping[str, bytes | None]) -> FolderState | None:
        """Return a components file with those around it; `contents` has what was read, by blob, None for the rest."""
        if path not in self.blobs:
            return None
        folder = path.removesuffix(path.rpartition("/")[2])
        read = {it.removeprefix(folder): contents.get(blob) for it, blob in self.around(path).items() if it != path}
        beside = tuple((name, data) for name, data in read.items() if data is not None)
        whole = len(beside) + 1 == len(self.folder(path))
        return FolderState(path.removeprefix(folder), contents.get(self.blobs[path]), beside if whole else None)


def preview(inputs: Inputs, run: ActionRun) -> int:
    """Show what the pull request that started the run changes, and what that can break.

    Raises:
        TooGrave: it is as grave as the input `fail-on` says.
        NotOnPullRequest: another event started it.
    """
    pull = PreviewedPull.of(run.job)
    from ci_automation.github.files import Files
    from ci_automation.github.repository import Repository

    hub = Hub.of(inputs, run)
    client = hub.client(contents="read")
    repository, files = Repository(client, hub.repository), Files(client, hub.repository)
    page = repository.compared(pull.base, pull.head)
    base, changed = page.base, _changed(page, files, pull.head)
    reviews = _file_reviews(inputs, run, base, pull.head, files)
    artifacts: tuple[ArtifactReview, ...] = ()
    remarks: tuple[str, ...] = ()
    if not inputs.path:
        from ci_automation.action.previewed import CommitFiles, artifact_reviews

        since = () if pull.base == base else _changed(repository.compared(base, pull.base), files, pull.base)
        commits = CommitFiles(files, pull.base), CommitFiles(files, pull.head)
        artifacts, remarks = artifact_reviews(inputs, run, *commits, since, partial(_obstacles, pull, page))
        remarks = (*_named(commits[0].read(inputs.config_path), changed), *remarks)
    elif len(reviews) == _MOST_REVIEWS:
        remarks = (_NOT_ALL,)
    config = inputs.config_path
    if config in set(changed) - {DEFAULT_PATH.as_posix()}:  # which has a line of its own
        remarks = (f"The request changes the rules in {config}: look at that first.", *remarks)
    run.page = PreviewPage(base, pull.head, changed, grouped(reviews), artifacts, remarks)
    if inputs.fail_on and fails(run.page, FailOn(inputs.fail_on)):
        raise TooGrave(FailOn(inputs.fail_on))
    return 0


def _named(config: bytes | None, changed: tuple[str, ...]) -> Iterator[str]:
    """Yield which files a request changes that the base's configuration names: keys and trust roots, for example."""
    named = tuple(f"{it}/" for it in named_files(parse_config(config, ""))) if config else ()
    if found := [it for it in changed if f"{it}/".startswith(named)]:
        yield f"The request changes {some_of(found)}, which the configuration names: look at that first."


def _changed(page: Comparison, files: Files, head: str) -> tuple[str, ...]:
    """Return every path that differs between the merge base of a comparison and its head."""
    if page.paths is None:
        return changed_between(*(dict(files.listed(oid)) for oid in (page.base, head)))
    return page.paths


def _obstacles(pull: PreviewedPull, page: Comparison, folder: str) -> Iterator[str]:
    """Yield why no merge of a request can approve content in a folder."""
    yield from pull.obstacles
    if folder and not page.shows(folder):
        yield f"its page shows not all lines of {folder}: it moves files there, or changes 300 files or more"


def _file_reviews(
    inputs: Inputs, run: ActionRun, base: str, head: str, files: Files
) -> tuple[tuple[str, FileReview], ...]:
    if not inputs.path:
        return ()
    before, after = (_Commit(oid, dict(files.listed(oid))) for oid in (base, head))
    reviewer = Reviewer(release_ports(inputs.given, None, run.say), Intent(now=now()))
    states = _states(inputs.path, before, after, files)
    run.say(f"{len(states)} components files or their folders change from {before.oid} to {after.oid}")
    return tuple((path, reviewer.review(*pair)) for path, pair in states.items())


def _states(
    patterns: tuple[str, ...], before: _Commit, after: _Commit, files: Files
) -> dict[str, tuple[FolderState | None, FolderState | None]]:
    """Return both states of each file that a pattern matches, and that differs, or has a file beside it that does."""
    both = matching(patterns, before.blobs.keys() | after.blobs.keys())
    paths = [path for path in both if before.around(path) != after.around(path)][:_MOST_REVIEWS]
    contents: dict[str, bytes | None] = {}
    for commit in (before, after):
        first = {commit.blobs[path]: path for path in paths if path in commit.blobs}  # before what is around them
        needed = first | {blob: each for path in paths for each, blob in commit.around(path).items()}
        wanted = [(path, blob) for blob, path in needed.items() if blob not in contents]
        contents |= files.contents(commit.oid, wanted[:_MOST_FILES])
    return {path: (before.state(path, contents), after.state(path, contents)) for path in paths}


def comment_preview(inputs: Inputs, run: ActionRun) -> int:
    """Keep one comment with a preview on the pull request that started the run; the text is all that this job has.

    Raises:
        NotOnPullRequest: another event started it.
    """
    pull = PreviewedPull.of(run.job)
    if pull.is_of_fork:  # whose token may not write, and must not
        run.tell("notice", "the request comes from a fork, so the preview is in the summary alone")
        return 0
    from ci_automation.github.pulls import Pulls

    hub = Hub.of(inputs, run)
    Pulls(hub.client(pull_requests="write"), hub.repository).keep_comment(pull.number, _MARK, inputs.text)
    return 0
