"""The one client to GitHub, on PyGithub: few verbs, and answers that are what they were asked to be.

PyGithub brings authentication and the addresses; the connection under it is ours (`exchange`). A client is for one
thread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin, urlsplit

import github  # noqa: TID251  # this is the module that may
from github.Requester import HTTPRequestsConnectionClass, RequestsResponse  # noqa: TID251  # same

from ci_automation.github.errors import (
    GitHubDenied,
    InvalidApiUrl,
    InvalidToken,
    RateLimited,
    UnexpectedGitHubAnswer,
)
from ci_automation.github.exchange import (
    PATIENCE,
    TIMEOUT,
    USER_AGENT,
    Origin,
    Patience,
    Reply,
    printable,
    receive,
    session,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import requests

PUBLIC_API = "https://api.github.com"
_MAX_ANSWER_BYTES = 32 << 20  # a page of a hundred releases with their notes has 5 MB
_MAX_REDIRECTS = 5
_MAX_TAGS = 4  # a tag may be of a tag
_TOKEN = re.compile(r"[!-~]{1,4096}")
_SHA = re.compile(r"[0-9a-f]{40}")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_GRAPHQL_DENIALS = frozenset({"FORBIDDEN", "INSUFFICIENT_SCOPES", "UNAUTHORIZED", "UNAUTHENTICATED"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a GET brought: the value, and whether a further page follows it."""

    value: Any
    has_next: bool


class _Connection(HTTPRequestsConnectionClass):
    """The connection that PyGithub's requests go over: streamed, capped, and redirected nowhere."""

    def __init__(self, origin: Origin, shared: requests.Session) -> None:
        super().__init__(origin.host, origin.port, timeout=TIMEOUT, retry=0)
        self.session.close()
        self.session = shared
        self._base = f"{origin.scheme}://{origin}"

    def getresponse(self) -> RequestsResponse:
        """Send the request that PyGithub prepared, and return its answer in the form that PyGithub wants."""
        response = self.session.request(
            self.verb,
            self._base + self.url,
            headers=self.headers,
            data=self.input,
            timeout=self.timeout,
            allow_redirects=False,
            stream=True,
        )
        raise _Received(receive(response, _MAX_ANSWER_BYTES, f"{self.verb} {urlsplit(self.url).path}"))


class _Received(Exception):  # not an error: it carries an answer past what PyGithub would make of it
    """PyGithub calls 3xx a success, follows 301 without its query, and fails on errors that are not JSON objects."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply


class GitHub:
    """GitHub as one user, or as nobody; answers are remembered with their ETag as long as the client lives."""

    def __init__(
        self,
        token: str | None = None,
        api_url: str = PUBLIC_API,
        *,
        token_name: str = "GITHUB_TOKEN",  # noqa: S107  # the name of a variable
        patience: Patience = PATIENCE,
    ) -> None:
        if token is not None and not _TOKEN.fullmatch(token):
            raise InvalidToken(token_name)
        if urlsplit(api_url).query or urlsplit(api_url).fragment:
            raise InvalidApiUrl(api_url)
        self._origin = Origin.of(api_url)
        self._base = api_url.rstrip("/")
        self._token, self._token_name, self._patience = token, token_name, patience
        self._remembered: dict[str, tuple[str, Answer]] = {}
        self._session = session(self._origin)
        self._connection = _Connection(self._origin, self._session)
        self._requester = github.Github(
            auth=github.Auth.Token(token) if token else None,
            base_url=self._base,
            timeout=TIMEOUT,
            user_agent=USER_AGENT,
            retry=0,
            seconds_between_requests=None,
            seconds_between_writes=None,
            lazy=True,
        ).requester

    @property
    def host(self) -> str:
        """Return the host that is spoken to, with its port where that is an unusual one."""
        return str(self._origin)

    @property
    def authenticated(self) -> bool:
        """Return whether requests carry a token, without which there is no GraphQL."""
        return self._token is not None

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def get(self, path: str) -> Answer | None:
        """Return what GitHub has at `path`, or None where it has nothing; asked again, only whether it changed.

        Raises:
            GitHubUnreachable, GitHubDenied, RateLimited, UnexpectedGitHubAnswer, GitHubAnswerTooLarge: as they say.
        """
        what = f"GET {self.host}{path}"
        etag, remembered = self._remembered.get(path, ("", None))
        reply = self._call("GET", path, {"If-None-Match": etag} if remembered else {})
        if reply.status == HTTPStatus.NOT_MODIFIED and remembered:
            return remembered
        if reply.status == HTTPStatus.NOT_FOUND:
            return None
        self._require_ok(reply, what)
        answer = Answer(reply.json(what), 'rel="next"' in reply.headers.get("link", ""))
        if etag := reply.headers.get("etag", ""):
            self._remembered[path] = (etag, answer)
        return answer

    def graphql(self, query: str, variables: Mapping[str, object]) -> Any:  # noqa: ANN401  # whatever was asked for
        """Return the data that a GraphQL query, which must not change anything, asks for; what is not there is None.

        Raises:
            GitHubUnreachable, GitHubDenied, RateLimited, UnexpectedGitHubAnswer, GitHubAnswerTooLarge: as they say.
        """
        what = f"a GraphQL query to {self.host}"
        reply = self._call("POST", self._requester.graphql_url, {}, {"query": query, "variables": dict(variables)})
        self._require_ok(reply, what)
        answer = reply.json(what)
        if not isinstance(answer, dict):
            raise UnexpectedGitHubAnswer(f"{what} was answered without data")
        errors = answer.get("errors") or []
        for error in errors if isinstance(errors, list) else [errors]:
            self._judge(error if isinstance(error, dict) else {}, reply, what)
        if not isinstance(answer.get("data"), dict):
            raise UnexpectedGitHubAnswer(f"{what} was answered without data")
        return answer["data"]

    def tag_commit(self, repository: str, tag: str) -> str | None:
        """Return the commit that a tag, annotated or not, stands for, or None where there is no such tag.

        Raises:
            GitHubUnreachable, GitHubDenied, RateLimited, UnexpectedGitHubAnswer, GitHubAnswerTooLarge: as they say.
        """
        path = f"/repos/{repository}/git/ref/tags/{quote(tag, safe='')}"
        for _ in range(_MAX_TAGS):
            if (answer := self.get(path)) is None:
                return None
            target = answer.value.get("object") if isinstance(answer.value, dict) else None
            kind, sha = (target.get("type"), target.get("sha")) if isinstance(target, dict) else (None, None)
            if kind not in {"commit", "tag"} or not isinstance(sha, str) or not _SHA.fullmatch(sha):
                raise UnexpectedGitHubAnswer(f"GET {self.host}{path} was answered with neither a commit nor a tag")
            if kind == "commit":
                return sha
            path = f"/repos/{repository}/git/tags/{sha}"
        raise UnexpectedGitHubAnswer(f"the tag {tag} of {repository} is a tag of a tag of a tag without end")

    def asset(self, repository: str, identity: int, limit: int) -> bytes:
        """Return the bytes of a release's asset, at most `limit`; the token goes to the API's host alone.

        Raises:
            GitHubUnreachable, GitHubDenied, RateLimited, UnexpectedGitHubAnswer, GitHubAnswerTooLarge: as they say.
        """
        what = f"the download of asset {identity} of {repository}"
        url = f"{self._base}/repos/{repository}/releases/assets/{identity}"
        for _ in range(_MAX_REDIRECTS + 1):
            send = partial(self._download, url, limit, what)
            reply = self._patience.persist(send, what, self.host, self._hint)
            if reply.status not in _REDIRECTS:
                self._require_ok(reply, what, of_api=Origin.of(url) == self._origin)
                return reply.body
            url = self._redirected(url, reply, what)
        raise UnexpectedGitHubAnswer(f"{what} was redirected more than {_MAX_REDIRECTS} times")

    def _download(self, url: str, limit: int, what: str) -> Reply:
        headers = {"Accept": "application/octet-stream", "Accept-Encoding": "identity", "User-Agent": USER_AGENT}
        if self._token and Origin.of(url) == self._origin:
            headers["Authorization"] = f"token {self._token}"
        response = self._session.get(url, headers=headers, timeout=TIMEOUT, allow_redirects=False, stream=True)
        return receive(response, limit, what)

    def _redirected(self, url: str, reply: Reply, what: str) -> str:
        """Return where an answer sends a download to: over TLS, unless GitHub itself is on this machine."""
        try:
            target = urljoin(url, reply.headers.get("location", ""))
            origin = Origin.of(target)
        except (ValueError, InvalidApiUrl):
            raise UnexpectedGitHubAnswer(f"{what} was redirected to an address that is not https://") from None
        if origin.is_loopback and not self._origin.is_loopback:
            raise UnexpectedGitHubAnswer(f"{what} was redirected to this machine")
        return target

    def _call(self, verb: str, url: str, headers: dict[str, str], body: object = None) -> Reply:
        what = f"{verb} {self.host}{urlsplit(url).path}"

        def send() -> Reply:
            try:
                self._requester.requestJson(verb, url, None, {**headers}, body, self._connection)
            except _Received as received:
                return received.reply
            except (github.GithubException, AssertionError) as error:
                raise UnexpectedGitHubAnswer(f"{what} cannot be asked: {type(error).__name__}") from None
            raise AssertionError("the connection always raises")

        return self._patience.persist(send, what, self.host, self._hint)

    @property
    def _hint(self) -> str:
        """Return what to do where GitHub has had enough."""
        if self.authenticated:
            return "Run again after that."
        return f"Set {self._token_name}: with a token GitHub takes many more requests. Or run again after that."

    def _require_ok(self, reply: Reply, what: str, *, of_api: bool = True) -> None:
        if reply.status == HTTPStatus.OK:
            return
        if of_api and reply.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise self._denied(reply, what, reply.message)
        if reply.status in _REDIRECTS:
            raise UnexpectedGitHubAnswer(f"{what} was redirected ({reply.status}): the repository may have a new name")
        raise UnexpectedGitHubAnswer(f"{what} was answered with {reply.status}: {reply.message}")

    def _denied(self, reply: Reply, what: str, said: str) -> GitHubDenied:
        if self._token is None:
            return GitHubDenied(
                f"{what} was refused without a token: {said}",
                f"Set {self._token_name} to a token that may read the repository's contents.",
            )
        wanted = reply.headers.get("x-accepted-github-permissions") or reply.headers.get("x-accepted-oauth-scopes")
        rights = printable(wanted) if wanted else "contents=read on the repository"
        said = said.replace(self._token, "***")
        return GitHubDenied(
            f"{what} was refused with the token of {self._token_name}: {said}",
            f"It may have expired, be of another host, or lack rights; it needs {rights}. A public repository is read "
            f"without a token too: unset {self._token_name} for that.",
        )

    def _judge(self, error: Mapping[str, object], reply: Reply, what: str) -> None:
        said, kind = printable(error.get("message", "without a word")), error.get("type")
        if kind == "NOT_FOUND":
            return
        if kind == "RATE_LIMITED":
            reset = self._patience.now() + self._patience.until_reset(reply)
            raise RateLimited(self.host, datetime.fromtimestamp(reset, UTC), self._hint)
        if kind in _GRAPHQL_DENIALS:
            raise self._denied(reply, what, said)
        raise UnexpectedGitHubAnswer(f"{what} was answered with an error: {said}")
