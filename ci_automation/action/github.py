"""This GitHub as a job sees it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import Struct, field
from msgspec.structs import replace

from ci_automation.action.inputs import in_clone
from ci_automation.action.job import OldCheckout
from ci_automation.artifact.reference import Digest
from ci_automation.config.model import in_repository, named_files
from ci_automation.errors import UsageError
from ci_automation.hiding import Hiding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ci_automation.action.inputs import Inputs
    from ci_automation.action.job import Job
    from ci_automation.action.run import ActionRun
    from ci_automation.approval.dispatch import Sender
    from ci_automation.approval.pull_request import PullRequestApprovals
    from ci_automation.cli.target import Target
    from ci_automation.config.model import Config
    from ci_automation.config.sections import Artifact
    from ci_automation.flows.planning.git_content import GitContent
    from ci_automation.github.app import AppTokens
    from ci_automation.github.client import GitHub
    from ci_automation.github.content_history import ContentHistory
    from ci_automation.github.model import ContentAt, Making
    from ci_automation.github.repository import Ahead
    from ci_automation.github.waiting import Spent

_LOCAL = re.compile(r"""\buses['"]?\s*:\s*(?:&\S+\s+)?['"]?\./([^\s'"#,}]*)""")  # in a workflow's text


class NoRepository(UsageError):
    """Something is asked of GitHub, and it is not known of which repository."""

    hint = "Run it in GitHub Actions, which sets GITHUB_REPOSITORY; or with approval: none."
    message = "it is not known in which repository approvals are asked for: GITHUB_REPOSITORY is not set"


class NoToken(UsageError):
    """Something is asked of GitHub, and there is no token."""

    hint = "Leave the input github-token at its default, or set it, or app-id and app-private-key; or approval: none."
    message = "there is no token for GitHub: the input github-token is empty"


def now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


class Hub(Hiding, Struct):
    """This GitHub: who asks (a token, or an App), of which repository, and who hears of it."""

    hides = ("inputs", "_app")

    inputs: Inputs
    job: Job
    say: Callable[[str], None]
    hide: Callable[[str], None]
    groups: dict[str, list[PullRequestApprovals]] = field(default_factory=dict)  # that were looked at in this run
    made: dict[int, Making] = field(default_factory=dict)  # of the pull requests that were merged, by number
    _app: AppTokens | None = None
    _branch: str = ""
    _spent: Spent | None = None
    _ahead: dict[str, Ahead] = field(default_factory=dict)  # by artifact

    @classmethod
    def of(cls, inputs: Inputs, run: ActionRun) -> Self:
        """Return the GitHub of a run."""
        return cls(inputs, run.job, run.say, run.hide)

    @property
    def repository(self) -> str:
        """Return the repository that the job runs in; raise `NoRepository` if it runs in none."""
        if not self.job.repository:
            raise NoRepository
        return self.job.repository

    def client(self, repository: str | None = None, **permissions: str) -> GitHub:
        """Return a new client for a repository, whose token goes to the API of this GitHub alone.

        The token of an App is for that repository and these permissions; any other has the rights that it has.

        Raises:
            NoRepository, NoToken: the job does not say which repository it is in, or has no token.
            ReleaseSourceError: the App gets no token.
        """
        name = repository or self.repository
        if not self.inputs.app_id:
            if not self.inputs.github_token:
                raise NoToken
            return self._open(self.inputs.github_token, "github-token")
        from ci_automation.github.app import App, AppTokens

        if self._app is None:
            app = App(str(self.inputs.app_id), self.inputs.app_private_key)
            self._app = AppTokens(app, self.job.api, mask=self.hide, say=self.say)
        return self._open(self._app.token(name, permissions), "the GitHub App")

    def _open(self, token: str, name: str) -> GitHub:
        from ci_automation.github.client import GitHub
        from ci_automation.github.waiting import Spent

        self._spent = self._spent or Spent()
        return GitHub(token, self.job.api, token_name=name, say=self.say, spent=self._spent)

    def clock(self) -> datetime:
        """Return the time by GitHub's clock, or by this machine's as long as GitHub did not answer."""
        return now() - self._spent.ahead if self._spent else now()

    def content(self) -> ContentHistory:
        """Return the history of the content of this repository."""
        from ci_automation.github.content_history import ContentHistory

        return ContentHistory(self.client(contents="read"), self.repository)

    def ahead(self, goal: Target) -> Ahead:
        """Return the snapshots that the look at an artifact's content takes along for those who ask."""
        from ci_automation.github.repository import Ahead

        return self._ahead.setdefault(goal.name, Ahead())

    @property
    def place(self) -> str:
        """Return the number of this repository, which a new name does not change, or its name."""
        return self.job.repository_id or self.repository

    @property
    def sender(self) -> Sender:
        """Return who sends events: this repository, in this run."""
        from ci_automation.approval.dispatch import Sender

        return Sender(self.repository, self.job.url)

    def require_head(self, folder: str, there: ContentAt) -> None:
        """Check that the default branch has the overlay folder and the configuration of a moment ago."""
        _, now, _ = self.content().head(folder, self.inputs.config_path)
        if (now.overlay, now.config) != (there.overlay, there.config):
            raise OldCheckout(folder if now.overlay != there.overlay else self.inputs.config_path)

    def default_branch(self) -> str:
        """Return the repository's default branch: from the event that the runner wrote, or else as GitHub says.

        Raises:
            ReleaseSourceError: GitHub failed or refused.
        """
        if not self._branch:
            match self.job.payload():
                case {"repository": {"default_branch": str(branch), "full_name": str(name)}} if name == self.repository:
                    self._branch = branch
                case _ if self.job.event == "schedule":  # which there is on the default branch alone
                    self._branch = self.job.ref.removeprefix("refs/heads/")
                case _:
                    self._branch = self._asked_branch()
        return self._branch

    def require_present(self, config: Config | None) -> None:
        """Check that a job that begins late, or again, has the files of the default branch.

        GitHub runs it with the commit of the run's first attempt. Since then a person may have paused the artifact; a
        job that begins again may have an old version of this program, or old inputs, which its workflow names.

        Raises:
            OldCheckout: it has another configuration, or another workflow.
            ReleaseSourceError: GitHub failed or refused.
        """
        if self._knows_github and self._looks_first:
            self._require_present_config(config)
        if self._knows_github and self.job.attempt > 1 and (path := self.job.workflow_path):
            self._require_present_workflow(path, {path})

    def require_still_present(self, config: Config | None) -> None:
        """Check the configuration, right before the first signature, of a job that may have waited in its group.

        `do` and what looked when it began need not: neither waits after that.

        Raises:
            OldCheckout: the default branch has another one.
            ReleaseSourceError: GitHub failed or refused.
        """
        if self._knows_github and not self._looks_first and self.inputs.command != "do":
            self._require_present_config(config)

    @property
    def _knows_github(self) -> bool:
        return self.job.runner and bool(self.inputs.github_token or self.inputs.app_id)

    @property
    def _looks_first(self) -> bool:
        return self.inputs.command == "approve" or self.job.attempt > 1

    def _require_present_config(self, config: Config | None) -> None:
        """Check the configuration, which may have been changed, deleted or moved since this run was started.

        So may files that it names; while a run waits for people, those may well be. What the job made of the
        configuration by itself is the job's own, as long as the default branch has the file of then.
        """
        local, sha = self.inputs.config_file, self.job.sha
        _, there, _ = self.content().head("", self.inputs.config_path)
        if there.commit == sha:
            return
        is_present = there.config and config and config.digest == Digest.of(there.config.encode())
        if there.config and not (sha or is_present):
            raise OldCheckout(local)
        waited = self.inputs.command == "approve" and self.job.attempt == 1
        given = self.inputs.given
        by_inputs = in_repository((*given.public_key, given.trust_config, given.releases))
        named = () if waited else (*(named_files(config) if config else ()), *by_inputs)
        self._require_same(there.commit, [*(() if is_present else (local,)), *named])

    def _require_same(self, commit: str, paths: Iterable[str]) -> None:
        """Check that a commit has the same files and folders as that of this run; what a link leads to is not known."""
        if self.job.sha in {"", commit}:
            return
        asked = {in_clone(path): path for path in paths}
        if linked := next(
            (it for it in asked.values() if any(map(Path.is_symlink, (Path(it), *Path(it).parents)))), None
        ):
            raise OldCheckout(linked, linked=True)
        if found := self.content().differing(commit, self.job.sha, asked):
            raise OldCheckout(asked[found[0]])

    def _require_present_workflow(self, path: str, known: set[str]) -> None:
        """Check a workflow, and the workflows and actions of this repository that it uses."""
        _, there, _ = self.content().head("", path)
        self._require_same(there.commit, (path,))
        used = {it.strip("/") for it in _LOCAL.findall(there.config or "")} - known
        known |= used
        if "" in used and there.commit != self.job.sha:  # an action at the root may use any file
            raise OldCheckout("./")
        workflows = sorted(it for it in used if it.endswith((".yaml", ".yml")))
        self._require_same(there.commit, used.difference(workflows, [""]))
        for each in workflows:
            self._require_present_workflow(each, known)

    def _asked_branch(self) -> str:
        from ci_automation.github.errors import UnexpectedGitHubAnswer

        answer = self.client(metadata="read").get(f"/repos/{self.repository}")
        match answer.value if answer else None:
            case {"default_branch": str(branch)}:
                return branch
        raise UnexpectedGitHubAnswer(f"GitHub does not say what the default branch of {self.repository} is")


def presence(inputs: Inputs, run: ActionRun, config: Config | None) -> Callable[[], None]:
    """Return what looks, once in a run, whether the default branch still has the configuration of this run."""

    def look() -> None:
        if not run.looked:
            Hub.of(inputs, run).require_still_present(config)
            run.looked = True

    return look


def with_git(goal: Target, hub: Hub) -> Target:
    """Return an artifact whose overlay is in Git with the history of its content, if there is a token to ask for it."""
    known = hub.job.repository and (hub.inputs.github_token or hub.inputs.app_id)
    if not known or goal.configured is None or goal.configured.overlay is None:
        return goal
    find = cache(partial(_git_content, goal, goal.configured, hub))
    return goal.with_ports(lambda ports: replace(ports, find_git=find))


def _git_content(goal: Target, artifact: Artifact, hub: Hub) -> GitContent | None:
    """Return the content of an artifact in Git, or None where nothing is checked out."""
    from ci_automation.flows.planning.git_content import GitContent, GitPlace
    from ci_automation.github.content_history import ContentHistory
    from ci_automation.github.repository import Repository

    if (folder := goal.ports.find_overlay()) is None:
        return None
    inputs, job, name = hub.inputs, hub.job, hub.repository
    text = Path(inputs.config_file).read_bytes().decode()
    rights = {"contents": "read", "pull_requests": "read"} | ({"members": "read"} if artifact.approval.team else {})
    client = hub.client(**rights)
    place = GitPlace(hub.place, inputs.config_path, text, job.sha, folder, artifact)
    history, people = ContentHistory(client, name, hub.ahead(goal)), Repository(client, name)
    return GitContent(history, people, place, partial(_rejected, goal, hub))


def _rejected(goal: Target, hub: Hub, since: datetime) -> str:
    """Return which run asked for content since a moment and got a no, if approvals are asked for by runs."""
    from ci_automation.action.approval_rules import approvals_of
    from ci_automation.approval.port import RequestKind
    from ci_automation.approval.workflow_run import WorkflowApprovals

    desk = approvals_of(goal, hub, RequestKind.CONTENT)
    return desk.rejected(since) if isinstance(desk, WorkflowApprovals) else ""
