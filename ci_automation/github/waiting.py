"""What one client waits for: a server that stumbled, a limit that is over soon, and its own pace of writing."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

import requests
import urllib3
from msgspec import Struct

from ci_automation.github.errors import AnswerLost, GitHubUnreachable, RateLimited
from ci_automation.github.exchange import LONGEST_ANSWER, TIMEOUT
from ci_automation.net.waiting import TOLD_AFTER, Overdue, watched

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.github.exchange import Patience, Reply

_STUMBLED = frozenset({500, 502, 503, 504})
_LIMITED = frozenset({403, 429})
_SECONDARY_LIMIT = 60.0  # seconds to wait where GitHub does not say how long
_UNPACED = 10  # writes that a job may do at once: GitHub asks for a pause between them where they are many


class Spent(Struct):
    """What the clients of one run waited and wrote together: GitHub counts by who asks, and not by repository."""

    waited: float = 0.0  # seconds for limits
    writes: int = 0
    last: float = 0.0  # when the last write was


class Waiting:
    """The waits of one client, all of them told through `say`; what it waits and writes is counted in `spent`."""

    def __init__(
        self, patience: Patience, host: str, hint: str, say: Callable[[str], None], spent: Spent | None = None
    ) -> None:
        self._patience, self._host, self._hint, self._say = patience, host, hint, say
        self._spent = spent or Spent()

    def persist(self, send: Callable[[], Reply], what: str, *, once: bool = False) -> Reply:
        """Return the answer to a request: repeated a few times on resets, time-outs, 429 and most 5xx.

        What must be sent `once` is repeated only where it surely was not taken: no connection came about, or GitHub
        turned it away for its limits.

        Raises:
            GitHubUnreachable: no answer came.
            AnswerLost: no answer came to what must be sent once, and it may have been done.
            RateLimited: GitHub wants to be left alone for longer than we wait.
            UnexpectedGitHubAnswer: the request cannot be made, or the answer not be read.
        """
        until = self._patience.now() + self._patience.seconds
        for attempt in range(1, self._patience.attempts + 1):
            backoff = float(2 ** (attempt - 1))
            try:
                reply = self._sent(send, what)
            except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
                if once and not _unsent(error):
                    raise AnswerLost(what, _reason(error)) from None
                if self._is_last(attempt, until, backoff) or not _is_transient(error):
                    raise GitHubUnreachable(f"{what} got no answer: {_reason(error)}") from None
                self._sleep(backoff, f"{what} got no answer")
                continue
            except GitHubUnreachable as error:
                raise (AnswerLost(what, "its answer did not come to its end") if once else error) from None
            wait = self._asked_for(reply)
            last = self._is_last(attempt, until, backoff)
            if wait is not None and (not once or reply.status in _LIMITED):
                self._spend(wait, give_up=attempt == self._patience.attempts)
                until += wait
            elif reply.status not in _STUMBLED or (last and not once):
                return reply
            elif once:
                raise AnswerLost(what, f"it was answered with {reply.status}")
            else:
                self._sleep(backoff, f"{what} was answered with {reply.status}")
        raise AssertionError("the last attempt returns or raises")

    def _sent(self, send: Callable[[], Reply], what: str) -> Reply:
        longest = LONGEST_ANSWER + TIMEOUT
        try:
            return watched(send, longest, lambda: self._tell(what), self._patience.wait)
        except Overdue:
            raise GitHubUnreachable(f"{what} was not answered after {longest:.0f} seconds") from None

    def _tell(self, what: str) -> None:
        self._say(f"still waiting after {TOLD_AFTER:.0f} s: {what}")

    def _is_last(self, attempt: int, until: float, backoff: float) -> bool:
        return attempt == self._patience.attempts or self._patience.now() + backoff >= until

    def pace(self) -> None:
        """Wait before a write, once there were a few, until the one before is a moment ago."""
        spent = self._spent
        spent.writes += 1
        since = self._patience.now() - spent.last
        if spent.writes > _UNPACED and since < self._patience.pace:
            self._patience.sleep(self._patience.pace - max(since, 0.0))
        spent.last = self._patience.now()

    def limited(self, reply: Reply) -> RateLimited:
        """Return the error that says when GitHub takes requests again."""
        return self._limited(self._until_reset(reply))

    def _sleep(self, seconds: float, why: str) -> None:
        self._say(f"{why}; asking again in {seconds:.0f} s")
        self._patience.sleep(seconds)

    def _spend(self, wait: float, *, give_up: bool) -> None:
        if give_up or wait > min(self._patience.longest_wait, self._patience.budget - self._spent.waited):
            raise self._limited(wait)
        self._spent.waited += wait
        self._sleep(wait, f"{self._host} takes no more requests for now")

    def _limited(self, wait: float) -> RateLimited:
        return RateLimited(self._host, datetime.fromtimestamp(self._patience.now() + wait, UTC), self._hint)

    def _asked_for(self, reply: Reply) -> float | None:
        """Return how many seconds GitHub asks to be left alone, or None (GitHub's *Rate limits for the REST API*)."""
        if reply.status not in {403, 429, 503}:
            return None
        if (after := reply.headers.get("retry-after", "")).isdecimal():
            return float(after[:9])
        if reply.status == HTTPStatus.SERVICE_UNAVAILABLE:
            return None
        if reply.headers.get("x-ratelimit-remaining") == "0":
            return self._until_reset(reply)
        said_so = reply.status == HTTPStatus.TOO_MANY_REQUESTS or "rate limit" in reply.message.lower()
        return _SECONDARY_LIMIT if said_so else None

    def _until_reset(self, reply: Reply) -> float:
        """Return how many seconds it takes until GitHub counts requests anew."""
        reset = reply.headers.get("x-ratelimit-reset", "")
        return max(float(reset[:11]) - self._patience.now(), 0.0) + 1 if reset.isdecimal() else _SECONDARY_LIMIT


_SSL = (requests.exceptions.SSLError, urllib3.exceptions.SSLError)
_SLOW = (requests.Timeout, urllib3.exceptions.TimeoutError)
_BROKEN = (requests.ConnectionError, urllib3.exceptions.ProtocolError)
_UNCONNECTED = (
    urllib3.exceptions.NewConnectionError,  # and NameResolutionError
    urllib3.exceptions.ConnectTimeoutError,
    urllib3.exceptions.ProxyError,
)
_REASONS: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    (_SSL, "its certificate is not trusted, or it does not speak TLS"),
    (_SLOW, f"it took more than {TIMEOUT} seconds"),
    ((requests.exceptions.ProxyError,), "the proxy failed"),
    (_BROKEN, "the connection was refused or broke off"),
    ((urllib3.exceptions.DecodeError,), "what came cannot be unpacked"),
)


def _is_transient(error: Exception) -> bool:
    return isinstance(error, _SLOW + _BROKEN) and not isinstance(error, _SSL)


def _unsent(error: Exception) -> bool:
    """Return whether a request surely never left: no connection came about."""
    if isinstance(error, _SSL):
        return "EOF" not in str(error)  # of the handshake; but TLS can end later too, and that has the same class
    cause = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(cause, _UNCONNECTED)


def _reason(error: Exception) -> str:
    """Return why a request failed, without the address: that of a download has a signature in it."""
    if "NameResolution" in str(error):
        return "its name cannot be resolved"
    return next((reason for kinds, reason in _REASONS if isinstance(error, kinds)), type(error).__name__)
