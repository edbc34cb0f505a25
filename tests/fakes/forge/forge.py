"""The double of GitHub: all accounts and repositories, a server, and a record of what was asked."""

from __future__ import annotations

import datetime as dt
import re
import threading
from copy import deepcopy
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Self

from tests.fakes.forge.described import PUBLIC
from tests.fakes.forge.exchange import Exchanges, Request
from tests.fakes.forge.limits import Limits
from tests.fakes.forge.objects import Objects
from tests.fakes.forge.people import ACTIONS, App, Installation, Team, Token, User, new_token, normalized
from tests.fakes.forge.releases import Releases
from tests.fakes.forge.repository import Repository
from tests.fakes.forge.server import serve
from tests.fakes.forge.state import Pull, Refused
from tests.fakes.forge.workflows import FOLDER, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from tests.fakes.forge.faults import Faults
    from tests.fakes.forge.server import Server
    from tests.fakes.forge.state import Issue, Run

TOKEN = "ghs_canary-of-the-tests"  # reads what is public
RELEASES = "fluxcd/flux2"
_HOUR = dt.timedelta(hours=1)
_SKIPPED = re.compile(r"\[(?:skip ci|ci skip|no ci|skip actions|actions skip)\]")
_DIFFED = 300


class WrongExchange(AssertionError):
    """An exchange was not as GitHub describes it: the double, or the program, is wrong."""


@dataclass
class Forge:
    """GitHub, or an Enterprise Server where `flavour` is `ghes`; as a context manager it listens on loopback.

    What is not as GitHub's description says is kept in `violations`; leaving the context with any is an error.
    """

    flavour: str = PUBLIC
    releases: Path | None = None  # a folder of releases, which `fluxcd/flux2` then has
    releases_repository: str = RELEASES
    now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC).replace(microsecond=0)
    faults: list[Faults] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    largest_tree: int = 100_000  # entries of a tree that are listed at once
    largest_text: int = 512_000  # characters of a file that GraphQL shows

    def __post_init__(self) -> None:
        self._last_id = 1000
        self.objects = Objects()
        self.users: dict[str, User] = {}
        self.teams: dict[str, Team] = {}
        self.apps: dict[int, App] = {}
        self.installations: dict[int, Installation] = {}
        self.tokens: dict[str, Token] = {}
        self.repositories: dict[str, Repository] = {}
        self.renamed: dict[str, str] = {}
        self.limits = Limits(self)
        self.lock = threading.RLock()
        self.exchanges = Exchanges(self)
        self.store = Releases(self.releases, self.releases_repository) if self.releases else None
        self._server: Server | None = None
        self._downloads: Server | None = None
        for login in (ACTIONS, "web-flow"):
            self.user(login)
        self.tokens[TOKEN] = Token(TOKEN, "app", ACTIONS, None, {})

    def __enter__(self) -> Self:
        self._server = serve(self)
        if self.store:
            self._downloads = serve(self, "assets")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for server in filter(None, (self._server, self._downloads)):
            server.shutdown()
            server.server_close()
        if self.violations and kind is None:
            raise WrongExchange("\n".join(self.violations))

    def saved(self) -> Callable[[], None]:
        """Return what brings the present state back, in new repositories and accounts; it may be called often."""
        own = (self, self.lock, self.exchanges, self._server, self._downloads)
        stay = (*own, self.objects, self.violations, *self.requests)

        def copy(state: dict[str, object]) -> dict[str, object]:
            return deepcopy(state, {id(each): each for each in stay})

        state = copy(vars(self))
        return lambda: vars(self).update(copy(state))

    @property
    def is_public(self) -> bool:
        """Whether it is github.com, not an Enterprise Server."""
        return self.flavour == PUBLIC

    @property
    def host(self) -> str:
        """The address without a path; pages for people are there too."""
        port = self._server.server_address[1] if self._server else 0
        return f"http://127.0.0.1:{port}"

    @property
    def published(self) -> Releases:
        """The releases, where it was given any."""
        assert self.store
        return self.store

    @property
    def downloads(self) -> str:
        """The address of the host that has the assets of releases."""
        assert self._downloads
        return f"http://127.0.0.1:{self._downloads.server_address[1]}"

    @property
    def url(self) -> str:
        """The address of the REST API, what `GITHUB_API_URL` is in a job."""
        return self.host if self.is_public else f"{self.host}/api/v3"

    @property
    def graphql_url(self) -> str:
        """The address of GraphQL."""
        return f"{self.host}/graphql" if self.is_public else f"{self.host}/api/graphql"

    def next_id(self) -> int:
        """Return a number that nothing else has."""
        self._last_id += 1
        return self._last_id

    def user(self, login: str) -> User:
        """Return the account of that name, made where it is not there."""
        if login not in self.users:
            self.users[login] = User(login, self.next_id())
        return self.users[login]

    def team(self, name: str, members: Iterable[str] = ()) -> Team:
        """Return the team `organisation/slug`, with these members added."""
        organisation, _, slug = name.partition("/")
        if name not in self.teams:
            self.teams[name] = Team(organisation, slug, self.next_id())
        self.teams[name].members |= {self.user(member).login for member in members}
        return self.teams[name]

    def repository(
        self, name: str, files: Mapping[str, bytes] | None = None, *, private: bool = True, branch: str = "main"
    ) -> Repository:
        """Return the repository of that name, made with one commit where it is not there."""
        if name not in self.repositories:
            made = Repository(self, name, self.objects, private=private)
            made.default_branch = branch
            self.repositories[name] = made
            self.user(made.owner)
            made.push(branch, {"README.md": f"# {made.name}\n".encode(), **(files or {})}, made.owner, "First commit")
        return self.repositories[name]

    def fork(self, name: str, owner: str, short: str = "") -> Repository:
        """Return an account's fork of a repository, under another name where the account owns the repository."""
        parent = self.repositories[name]
        made = Repository(self, f"{owner}/{short or parent.name}", self.objects, private=parent.private)
        made.default_branch, made.branches, made.parent = parent.default_branch, dict(parent.branches), name
        self.user(owner)
        self.repositories[made.full_name] = made
        return made

    def fork_of(self, name: str, owner: str) -> Repository | None:
        """Return the repository itself where `owner` owns it, or that owner's fork of it."""
        parent = self.repositories[name]
        forks = (fork for fork in self.repositories.values() if fork.parent == name and fork.owner == owner)
        return parent if owner == parent.owner else next(forks, None)

    def app(self, slug: str) -> App:
        """Register a GitHub App."""
        made = App(self.next_id(), slug)
        self.user(made.login)
        self.apps[made.id] = made
        return made

    def install(self, app: App, repositories: Iterable[str], permissions: Mapping[str, str]) -> Installation:
        """Give an App permissions in repositories of one account."""
        names = set(repositories)
        account = next(iter(names)).partition("/")[0]
        made = Installation(self.next_id(), app, account, names, normalized(dict(permissions)))
        self.installations[made.id] = made
        return made

    def token(
        self,
        kind: str = "actions",
        repository: str | None = None,
        permissions: Mapping[str, str] | None = None,
        *,
        login: str = ACTIONS,
        expires: dt.datetime | None = None,
    ) -> str:
        """Return a new token: of a job (`actions`), of an App's bot (`app`), or of a person (`pat`)."""
        names = frozenset({repository}) if repository else None
        ends = expires or (None if kind == "pat" else self.now() + _HOUR)
        made = Token(new_token(kind), kind, self.user(login).login, names, normalized(dict(permissions or {})), ends)
        self.tokens[made.text] = made
        return made.text

    def job_token(self, pull: Pull, permissions: Mapping[str, str]) -> str:
        """Return the token of a job that a pull request starts: for one of a fork it can write nothing."""
        place = self.place_of(pull)
        if pull.source != place:
            permissions = {name: "read" if level == "write" else level for name, level in permissions.items()}
        return self.token("actions", place, permissions)

    def run(self, identity: int) -> Run:
        """Return a run of whatever repository has it."""
        return self._place(identity).run(identity)

    def approve(self, identity: int, by: str, comment: str = "") -> None:
        """Approve, as a reviewer, what a run waits for."""
        self._place(identity).answer(identity, by, comment=comment)

    def reject(self, identity: int, by: str, comment: str = "") -> None:
        """Reject, as a reviewer, what a run waits for."""
        self._place(identity).answer(identity, by, approved=False, comment=comment)

    def _place(self, identity: int) -> Repository:
        for repository in self.repositories.values():
            if any(run.id == identity for run in repository.runs):
                return repository
        raise Refused(404, "Not Found", kind="NOT_FOUND")

    def pulls_of(self, source: str, branch: str) -> Iterator[Pull]:
        """Yield the open pull requests of a branch, into whatever repository."""
        for repository in self.repositories.values():
            for pull in repository.pulls:
                if (pull.source, pull.branch, pull.state) == (source, branch, "OPEN"):
                    yield pull

    def place_of(self, issue: Issue) -> str:
        """Return the name of the repository that an issue or pull request is in."""
        return next(name for name, place in self.repositories.items() if any(one is issue for one in place.issues))

    def settle(self) -> None:
        """Merge what was to be merged once it may be, and now may."""
        for repository in self.repositories.values():
            for pull in repository.pulls:
                if pull.state == "OPEN" and pull.auto_merge and repository.obstacle(pull)[0] == "CLEAN":
                    repository.merge(pull.number, pull.auto_merge.by, pull.auto_merge.how)

    def pushed(self, name: str, branch: str, by: str, paths: list[str]) -> None:
        """Start the workflows that run on a push to those paths; what a job's own token pushes starts none.

        So does a commit that says so ("Skipping workflow runs"), and of the paths the first 300 count ("Git diff
        comparisons").
        """
        repository = self.repositories[name]
        if by == ACTIONS or _SKIPPED.search(repository.objects.commits[repository.branches[branch]].message):
            return
        for path, workflow in repository.workflows.items():
            text = repository.read(path)
            trigger = parsed(text)["on"].get("push") if text else None
            if trigger is None or workflow.state != "active":
                continue
            wanted = trigger.get("paths", ["*"])
            here = any(fnmatch(branch, pattern) for pattern in trigger.get("branches", ["*"]))
            if here and any(fnmatch(path, pattern) for path in paths[:_DIFFED] for pattern in wanted):
                repository.start(path.removeprefix(FOLDER), "push", by, branch=branch)
