"""One request and its answer, on `requests`: capped, timed, repeated a few times, and without a word to any log.

PyGithub buffers answers of any size, has no time limit for downloads, and its retries neither cap what `Retry-After`
asks for nor repeat a GraphQL query; so all of that is done here, once, for its requests and for downloads.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
import urllib3

from ci_automation.github.errors import (
    GitHubAnswerTooLarge,
    GitHubUnreachable,
    InvalidApiUrl,
    RateLimited,
    UnexpectedGitHubAnswer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

USER_AGENT = f"flux-manifests/{version('flux-manifests')}"
TIMEOUT = 20  # seconds for a connection, and for each piece of an answer
_LONGEST_ANSWER = 120.0  # seconds for a whole one
_CHUNK = 64 << 10
_WORTH_A_REPEAT = frozenset({500, 502, 503, 504})
_SECONDARY_LIMIT = 60.0  # seconds to wait where GitHub does not say how long
_PORTS = {"http": 80, "https": 443}

# At DEBUG, PyGithub prints whole answers, tokens in them included, and urllib3 the signed addresses of downloads.
for _name in ("github", "urllib3"):
    logging.getLogger(_name).setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request goes to: what a credential is bound to (RFC 6454)."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Origin:
        """Return the origin of a URL.

        Raises:
            InvalidApiUrl: it has none, has a user or password in it, or is plain HTTP to another machine.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise InvalidApiUrl(url) from None
        if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
            raise InvalidApiUrl(url.rsplit("@", maxsplit=1)[-1])
        origin = cls(parts.scheme, parts.hostname, port or _PORTS[parts.scheme])
        if origin.scheme == "http" and not origin.is_loopback:
            raise InvalidApiUrl(url)
        return origin

    @property
    def is_loopback(self) -> bool:
        """Return whether it is on this machine."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it came; the names of the headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self, what: str) -> Any:  # noqa: ANN401  # whatever JSON has
        """Return the value that the body stands for.

        Raises:
            UnexpectedGitHubAnswer: it is not JSON.
        """
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise UnexpectedGitHubAnswer(
                f"{what} was answered with {self.status} and something else than JSON"
            ) from None

    @property
    def message(self) -> str:
        """Return what GitHub says about a failure, fit for a terminal."""
        try:
            said = json.loads(self.body)["message"]
        except (ValueError, RecursionError, LookupError, TypeError):
            return "without a word"
        return printable(said)


def printable(text: object) -> str:
    """Return a foreign text as one short line."""
    return "".join(character if character.isprintable() else " " for character in str(text)[:200])


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return nothing: even where it must not follow, requests would read the whole answer to see where it leads."""
        del resp


def session(origin: Origin) -> requests.Session:
    """Return a session without a memory: no cookies, no `.netrc`, and no proxy for what is on this machine."""
    made = _Session()
    made.auth = _nobody  # else requests looks into ~/.netrc
    made.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    made.trust_env = not origin.is_loopback
    return made


def _nobody(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def receive(response: requests.Response, limit: int, what: str) -> Reply:
    """Return a streamed answer, read to its end, and let its connection go.

    Raises:
        GitHubAnswerTooLarge: it has more than `limit` bytes.
        GitHubUnreachable: it does not come to its end in time.
    """
    with response:
        declared = response.headers.get("Content-Length", "")
        if declared.isdecimal() and int(declared[:20]) > limit:
            raise GitHubAnswerTooLarge(what, limit)
        body = bytearray()
        deadline = time.monotonic() + _LONGEST_ANSWER
        # Not iter_content: it waits for a full chunk, so that a drip of single bytes never meets a time limit.
        while piece := response.raw.read1(_CHUNK, decode_content=True):
            body += piece
            if len(body) > limit:
                raise GitHubAnswerTooLarge(what, limit)
            if time.monotonic() > deadline:
                raise GitHubUnreachable(f"{what} was still being answered after {_LONGEST_ANSWER:.0f} seconds")
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Reply(response.status_code, headers, bytes(body))


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long to wait for GitHub; the clock is here so that a test can set it."""

    attempts: int = 4
    longest_wait: float = 30.0
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.time

    def persist(self, send: Callable[[], Reply], what: str, host: str, hint: str) -> Reply:
        """Return the answer to a request that may be repeated: on resets, time-outs, 429 and most 5xx, a few times.

        Raises:
            GitHubUnreachable: no answer came.
            RateLimited: GitHub wants to be left alone for longer than we wait.
            UnexpectedGitHubAnswer: the request cannot be made, or the answer not be read.
        """
        for attempt in range(1, self.attempts + 1):
            last = attempt == self.attempts
            backoff = float(2 ** (attempt - 1))
            try:
                reply = send()
            except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
                if last or not _is_transient(error):
                    raise GitHubUnreachable(f"{what} got no answer: {_reason(error)}") from None
                self.sleep(backoff)
                continue
            wait = self._asked_for(reply)
            if wait is not None and (last or wait > self.longest_wait):
                raise RateLimited(host, datetime.fromtimestamp(self.now() + wait, UTC), hint)
            if wait is None and (last or reply.status not in _WORTH_A_REPEAT):
                return reply
            self.sleep(backoff if wait is None else wait)
        raise AssertionError("the last attempt returns or raises")

    def _asked_for(self, reply: Reply) -> float | None:
        """Return how many seconds GitHub asks to be left alone, or None (GitHub's *Rate limits for the REST API*)."""
        if reply.status not in {403, 429, 503}:
            return None
        if (after := reply.headers.get("retry-after", "")).isdecimal():
            return float(after[:9])
        if reply.status == HTTPStatus.SERVICE_UNAVAILABLE:
            return None
        if reply.headers.get("x-ratelimit-remaining") == "0":
            return self.until_reset(reply)
        said_so = reply.status == HTTPStatus.TOO_MANY_REQUESTS or "rate limit" in reply.message.lower()
        return _SECONDARY_LIMIT if said_so else None

    def until_reset(self, reply: Reply) -> float:
        """Return how many seconds it takes until GitHub counts requests anew."""
        reset = reply.headers.get("x-ratelimit-reset", "")
        return max(float(reset[:11]) - self.now(), 0.0) + 1 if reset.isdecimal() else _SECONDARY_LIMIT


PATIENCE = Patience()


_SSL = (requests.exceptions.SSLError, urllib3.exceptions.SSLError)
_SLOW = (requests.Timeout, urllib3.exceptions.TimeoutError)
_BROKEN = (requests.ConnectionError, urllib3.exceptions.ProtocolError)
_REASONS: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    (_SSL, "its certificate is not trusted, or it does not speak TLS"),
    (_SLOW, f"it took more than {TIMEOUT} seconds"),
    ((requests.exceptions.ProxyError,), "the proxy failed"),
    (_BROKEN, "the connection was refused or broke off"),
    ((urllib3.exceptions.DecodeError,), "what came cannot be unpacked"),
)


def _is_transient(error: Exception) -> bool:
    return isinstance(error, _SLOW + _BROKEN) and not isinstance(error, _SSL)


def _reason(error: Exception) -> str:
    """Return why a request failed, without the address: that of a download has a signature in it."""
    if "NameResolution" in str(error):
        return "its name cannot be resolved"
    return next((reason for kinds, reason in _REASONS if isinstance(error, kinds)), type(error).__name__)
