"""One request and its answer, on `requests`: capped, timed, repeated a few times, and without a word to any log.

PyGithub buffers answers of any size, has no time limit for downloads, and its retries neither cap what `Retry-After`
asks for nor repeat a GraphQL query; so all of that is done here, once, for its requests and for downloads.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import threading
import time
from http.cookiejar import DefaultCookiePolicy
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from msgspec import Struct

from ci_automation.github.errors import (
    CertificatesMissing,
    GitHubAnswerTooLarge,
    GitHubUnreachable,
    InvalidApiUrl,
    UnexpectedGitHubAnswer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ci_automation.net.waiting import Wait

USER_AGENT = f"flux-manifests/{version('flux-manifests')}"
TIMEOUT = 20  # seconds for a connection, and for each piece of an answer
LONGEST_ANSWER = 120.0  # seconds for a whole one
_CHUNK = 64 << 10
_MAX_HEADER_BYTES = 64 << 10
_MANY_REASONS = 5
_PORTS = {"http": 80, "https": 443}

# At DEBUG, PyGithub prints whole answers, tokens in them included, and urllib3 the signed addresses of downloads.
for _name in ("github", "urllib3"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class Origin(Struct, frozen=True):
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


class Reply(Struct, frozen=True):
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
        """Return what GitHub says about a failure, fit for a terminal, with the details that it gives."""
        try:
            document = json.loads(self.body)
            said = [document["message"]]
        except (ValueError, RecursionError, LookupError, TypeError):
            return "without a word"
        errors = document.get("errors")
        for error in errors if isinstance(errors, list) else [errors] if isinstance(errors, str) else []:
            named = [error] if isinstance(error, str) else _details(error)
            said += [text for text in named if text not in said]
        return "; ".join(map(printable, said[:_MANY_REASONS]))


def _details(error: object) -> list[str]:
    """Return one entry of GitHub's `errors`: its message, or else the field and what is wrong with it."""
    if not isinstance(error, dict):
        return []
    parts = [error.get("message")] if error.get("message") else [error.get(name) for name in ("field", "code")]
    return [" ".join(str(part) for part in parts if part)] if any(parts) else []


def printable(text: object) -> str:
    """Return a foreign text as one short line."""
    return "".join(character if character.isprintable() else " " for character in str(text)[:200])


class _Session(requests.Session):
    """A session whose certificates come before those of `REQUESTS_CA_BUNDLE`, where it was given any."""

    def merge_environment_settings(self, *asked: Any, **more: Any) -> Any:  # noqa: ANN401  # requests' own
        """Return the settings of one request."""
        settings = super().merge_environment_settings(*asked, **more)
        trusted = settings["verify"] if self.verify is True else self.verify
        if isinstance(trusted, str) and not Path(trusted).exists():  # requests would raise a bare OSError
            raise CertificatesMissing(trusted)
        return {**settings, "verify": trusted}

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return nothing: even where it must not follow, requests would read the whole answer to see where it leads."""
        del resp


def session(origin: Origin, ca_bundle: str | None = None) -> requests.Session:
    """Return a session without a memory: no cookies, no `.netrc`, and no proxy for what is on this machine.

    Its requests raise `CertificatesMissing` where there is nothing at `ca_bundle`, or at REQUESTS_CA_BUNDLE.
    """
    made = _Session()
    made.verify = ca_bundle or True
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
        if sum(map(len, (*response.headers, *response.headers.values()))) > _MAX_HEADER_BYTES:
            raise GitHubAnswerTooLarge(f"the header of {what}", _MAX_HEADER_BYTES)
        declared = response.headers.get("Content-Length", "")
        if declared.isdecimal() and int(declared[:20]) > limit:
            raise GitHubAnswerTooLarge(what, limit)
        body = bytearray()
        deadline = time.monotonic() + LONGEST_ANSWER
        # Not iter_content: it waits for a full chunk, so that a drip of single bytes never meets a time limit.
        while piece := response.raw.read1(_CHUNK, decode_content=True):
            body += piece
            if len(body) > limit:
                raise GitHubAnswerTooLarge(what, limit)
            if time.monotonic() > deadline:
                raise GitHubUnreachable(f"{what} was still being answered after {LONGEST_ANSWER:.0f} seconds")
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Reply(response.status_code, headers, bytes(body))


class Patience(Struct, frozen=True):
    """How often and how long to wait for GitHub; the clock is here so that a test can set it."""

    attempts: int = 4
    longest_wait: float = 30.0  # seconds for one limit
    budget: float = 60.0  # seconds for all the limits that a client meets
    pace: float = 1.0  # seconds between two writes, once there were a few
    seconds: float = 60.0  # after which a request that got no answer is not sent again
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.time
    wait: Wait = threading.Event.wait


PATIENCE = Patience()
