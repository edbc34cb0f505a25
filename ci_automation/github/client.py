"""The one client of GitHub, on PyGithub, with few verbs and checked answers.

PyGithub adds authentication and addresses. It sends through the session of `net`, and `waiting` does the waits, because
PyGithub buffers answers of any size, sends a POST up to eleven times, and sleeps silently until a limit is over (ADR
0010). Use a client in one thread only.
"""

from __future__ import annotations

import logging
import os
import re
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import github  # noqa: TID251  # this is the module that may
from github.Requester import HTTPRequestsConnectionClass, RequestsResponse  # noqa: TID251  # same

from ci_automation.github.answers import GitHubValue, document
from ci_automation.github.errors import (
    GitHubAnswerTooLarge,
    GitHubDenied,
    InvalidApiUrl,
    InvalidToken,
    UnexpectedGitHubAnswer,
)
from ci_automation.github.refusals import REDIRECTS, Asker, graphql_data, said_in
from ci_automation.github.waiting import PATIENCE, GitHubPatience, Spent, Waiting
from ci_automation.net.network import Network, Origin, UnsafeAddress
from ci_automation.net.session import Session
from ci_automation.net.values import Answer, Call, TooLong
from ci_automation.net.waiting import Deadline, http_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

PUBLIC_API = "https://api.github.com"
_MAX_ANSWER_BYTES = 32 << 20  # a page of a hundred releases with their notes has 5 MB
_MAXREDIRECTS = 5
_USER_AGENT = "flux-manifests"
_TOKEN = re.compile(r"[!-~]{1,4096}")
_DONE = frozenset({200, 201, 202, 204})
_JWT = re.compile(r"eyJ[\w-]+(?:\.[\w-]+){2}")  # an App's own token; tokens of its installations have another form
_MUTATION = re.compile(r"\{\s*(\w+)")

# At DEBUG, PyGithub prints whole answers with the tokens in them.
logging.getLogger("github").setLevel(logging.WARNING)


class _Connection(HTTPRequestsConnectionClass):
    """Connection for PyGithub's requests: streamed, capped, and without redirects."""

    deadline: Deadline  # of the next request

    def __init__(self, origin: Origin, session: Session) -> None:
        super().__init__(origin.name, origin.port, retry=0)
        self.session.close()
        self.session: Session = session
        self._base = f"{origin.scheme}://{origin.host}"

    def getresponse(self) -> RequestsResponse:
        """Send the request that PyGithub prepared, and return its answer in the form that PyGithub wants."""
        body: str | None = self.input  # PyGithub declares less than it gives
        headers = {**self.headers, "Accept-Encoding": "gzip"}
        call = Call(self.verb, self._base + self.url, headers, body.encode() if body else None, _MAX_ANSWER_BYTES)
        raise _Received(self.session.answer(call, self.deadline))


class _Received(Exception):  # not an error: it carries an answer past PyGithub's handling
    """PyGithub calls 3xx a success, follows 301 without its query, and fails on errors that are not JSON objects."""

    def __init__(self, reply: Answer) -> None:
        super().__init__()
        self.reply = reply


class GitHub:
    """GitHub as a user, as an App, or anonymously; the client remembers reads with their ETag.

    The token may be of any kind; an App's own token (a JWT) gets its own scheme. The client reports waits through
    `say`. The environment names the proxy and the certificates. Clients that share one `spent` together wait no longer,
    and write no faster, than one client. Each request can raise `GitHubUnreachable`, `GitHubDenied`, `RateLimited`,
    `UnexpectedGitHubAnswer` and `GitHubAnswerTooLarge`.
    """

    def __init__(
        self,
        token: str | None = None,
        api_url: str = PUBLIC_API,
        *,
        token_name: str = "GITHUB_TOKEN",  # noqa: S107  # the name of a variable
        patience: GitHubPatience = PATIENCE,
        say: Callable[[str], None] = lambda _: None,
        spent: Spent | None = None,
    ) -> None:
        if token is not None and not _TOKEN.fullmatch(token):
            raise InvalidToken(token_name)
        if urlsplit(api_url).query or urlsplit(api_url).fragment:
            raise InvalidApiUrl(api_url)
        try:
            self._origin = Origin.secure(api_url)
        except UnsafeAddress:
            raise InvalidApiUrl(api_url.rsplit("@", maxsplit=1)[-1]) from None
        self._base = api_url.rstrip("/")
        self._asker = Asker(token, token_name)
        self._waiting = Waiting(patience, self.host, self._hint, say, spent)
        self._remembered: dict[str, tuple[str, GitHubValue]] = {}
        self.time: datetime | None = None  # GitHub's clock at its last answer
        self._session = Session(Network.from_environment(os.environ))
        self._connection = _Connection(self._origin, self._session)
        self._requester = github.Github(
            auth=_credential(token),
            base_url=self._base,
            user_agent=_USER_AGENT,
            retry=0,
            seconds_between_requests=None,
            seconds_between_writes=None,
            lazy=True,
        ).requester

    @property
    def host(self) -> str:
        """Return the host, with its port unless it is the default one."""
        return self._origin.host

    @property
    def authenticated(self) -> bool:
        """Return whether requests carry a token, which GraphQL needs."""
        return self._asker.token is not None

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def get(self, path: str) -> GitHubValue | None:
        """Return the value at `path`, or None if GitHub has none; a repeated read only asks whether it changed."""
        what = f"GET {self.host}{path}"
        etag, remembered = self._remembered.get(path, ("", None))
        reply = self._call("GET", path, what, {"If-None-Match": etag} if remembered else {})
        if reply.status == HTTPStatus.NOT_MODIFIED and remembered:
            return remembered
        if reply.status == HTTPStatus.NOT_FOUND:
            return None
        self._require_ok(reply, what)
        answer = GitHubValue(document(reply, what), reply.headers.get("link", ""))
        if etag := reply.headers.get("etag", ""):
            self._remembered[path] = (etag, answer)
        return answer

    def graphql(self, query: str, variables: Mapping[str, object]) -> Any:  # noqa: ANN401  # whatever was asked for
        """Return the data of a GraphQL query, which must not change anything, with None for missing objects."""
        what = f"a GraphQL query to {self.host}"
        reply = self._ask(query, variables, what)
        self._require_ok(reply, what)
        return graphql_data(reply, what, self._asker, self._waiting, changes=False)

    def mutate(self, mutation: str, variables: Mapping[str, object]) -> Any:  # noqa: ANN401  # same
        """Return the data of a GraphQL mutation, which is sent once.

        Raises:
            AnswerLost: GitHub may have done it.
            PermissionMissing, NotOnGitHub, GitHubRefused: GitHub did not do it.
        """
        named = _MUTATION.search(mutation)
        what = f"{named[1] if named else 'a mutation'} on {self.host}"
        self._require_token(what)
        self._waiting.pace()
        reply = self._ask(mutation, variables, what, once=True)
        if reply.status != HTTPStatus.OK:
            raise self._asker.refused(reply, what)
        return graphql_data(reply, what, self._asker, self._waiting, changes=True)

    def send(self, verb: str, path: str, body: Mapping[str, object] | None = None) -> GitHubValue:
        """Return the answer to a POST, which is sent once, or to a PUT, PATCH or DELETE, which may be sent again.

        Raises:
            AnswerLost: GitHub may have done a POST.
            RepositoryRenamed, PermissionMissing, NotOnGitHub, GitHubRefused: GitHub did not do it.
        """
        what = f"{verb} {self.host}{path}"
        self._require_token(what)
        self._waiting.pace()
        reply = self._call(verb, path, what, {}, None if body is None else dict(body), once=verb == "POST")
        if reply.status not in _DONE:
            raise self._asker.refused(reply, what)
        return GitHubValue(document(reply, what) if reply.body else None)

    def asset(self, repository: str, identity: int, limit: int) -> bytes:
        """Return the bytes of a release's asset, at most `limit`; only the API's host gets the token."""
        what = f"the download of asset {identity} of {repository}"
        url = f"{self._base}/repos/{repository}/releases/assets/{identity}"
        for _ in range(_MAXREDIRECTS + 1):
            send = partial(self._download, url, limit, what)
            reply = self._waiting.persist(send, what)
            if reply.status not in REDIRECTS:
                self._require_ok(reply, what, of_api=Origin.of(url) == self._origin)
                return reply.body
            url = self._redirected(url, reply, what)
        raise UnexpectedGitHubAnswer(f"{what} was redirected more than {_MAXREDIRECTS} times")

    def _download(self, url: str, limit: int, what: str, deadline: Deadline) -> Answer:
        headers = {"Accept": "application/octet-stream"}
        if self._asker.token and Origin.of(url) == self._origin:
            headers["Authorization"] = f"token {self._asker.token}"
        try:
            reply = self._session.answer(Call("GET", url, headers, cap=limit), deadline)
        except TooLong as longer:
            raise _too_large(longer, what) from None
        return reply if reply.status == HTTPStatus.OK else self._asker.unheard(reply)

    def _redirected(self, url: str, reply: Answer, what: str) -> str:
        """Return the target of a download's redirect, which needs TLS unless GitHub itself is on this machine."""
        try:
            target = urljoin(url, reply.headers.get("location", ""))
            origin = Origin.secure(target)
        except ValueError:
            raise UnexpectedGitHubAnswer(f"{what} was redirected to an address that is not https://") from None
        if origin.is_loopback and not self._origin.is_loopback:
            raise UnexpectedGitHubAnswer(f"{what} was redirected to this machine")
        return target

    def _ask(self, document: str, variables: Mapping[str, object], what: str, *, once: bool = False) -> Answer:
        body = {"query": document, "variables": dict(variables)}
        return self._call("POST", self._requester.graphql_url, what, {}, body, once=once)

    def _require_token(self, what: str) -> None:
        if not self.authenticated:
            raise GitHubDenied(f"{what} needs a token", f"Set {self._asker.token_name} to one that may write there.")

    def _call(
        self, verb: str, url: str, what: str, headers: dict[str, str], body: object = None, *, once: bool = False
    ) -> Answer:
        def send(deadline: Deadline) -> Answer:
            self._connection.deadline = deadline
            try:
                self._requester.requestJson(verb, url, None, {**headers}, body, self._connection)
            except _Received as received:
                return self._asker.unheard(received.reply)
            except TooLong as longer:
                raise _too_large(longer, what) from None
            except (github.GithubException, AssertionError) as error:
                raise UnexpectedGitHubAnswer(f"{what} cannot be asked: {type(error).__name__}") from None
            raise AssertionError("the connection always raises")

        reply = self._waiting.persist(send, what, once=once)
        if said := http_time(reply.headers.get("date", "")):
            self.time = said
            self._waiting.heard(said)
        return reply

    @property
    def _hint(self) -> str:
        """Return the hint for a rate limit."""
        if self.authenticated:
            return "Run again after that time."
        return (
            f"Set {self._asker.token_name}: GitHub takes many more requests with a token. Or run again after that time."
        )

    def _require_ok(self, reply: Answer, what: str, *, of_api: bool = True) -> None:
        if reply.status == HTTPStatus.OK:
            return
        if of_api and reply.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise self._asker.denied(reply, what, said_in(reply))
        if reply.status in REDIRECTS:
            raise UnexpectedGitHubAnswer(f"{what} was redirected ({reply.status}): the repository may have a new name")
        raise UnexpectedGitHubAnswer(f"{what} was answered with {reply.status}: {said_in(reply)}")


def _too_large(longer: TooLong, what: str) -> GitHubAnswerTooLarge:
    return GitHubAnswerTooLarge(what if longer.begun else f"the header of {what}", longer.limit)


def _credential(token: str | None) -> github.Auth.Auth | None:
    if token is None:
        return None
    return github.Auth.AppAuthToken(token) if _JWT.fullmatch(token) else github.Auth.Token(token)
