"""Waits of one client: for a failing server, for a rate limit that ends soon, and between writes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ci_automation.github.errors import AnswerLost, GitHubUnreachable, RateLimited
from ci_automation.github.refusals import said_in
from ci_automation.net.values import TOO_LATE, Answer, NoAnswer
from ci_automation.net.waiting import TOLD_AFTER, Clock, Deadline, Overdue, watched

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_ANSWER = 120.0  # seconds for a whole answer
_GRACE = 20.0  # more seconds for an attempt to report by itself that its time is over
_STUMBLED = frozenset({500, 502, 503, 504})
_LIMITED = frozenset({403, 429})
_SECONDARY_LIMIT = 60.0  # seconds to wait where GitHub does not say how long
_UNPACED = 10  # writes of a job without pauses; GitHub asks for a pause between many writes


class GitHubPatience(Struct, frozen=True):
    """Limits on attempts and waits."""

    attempts: int = 4
    longest_wait: float = 30.0  # seconds for one limit
    budget: float = 60.0  # seconds for all limits of a client
    pace: float = 1.0  # seconds between two writes, after the first few
    seconds: float = 60.0  # after these, a request without an answer is not sent again
    clock: Clock = field(default_factory=Clock)


PATIENCE = GitHubPatience()


class Spent(Struct):
    """Waits and writes of all clients of one run, because GitHub counts by account and not by repository."""

    waited: float = 0.0  # seconds for limits
    writes: int = 0
    last: float = 0.0  # the time of the last write
    ahead: timedelta = timedelta()  # of GitHub's clock, this machine's


class Waiting:
    """Waits of one client. It reports them through `say`, and counts waits and writes in `spent`."""

    def __init__(
        self, patience: GitHubPatience, host: str, hint: str, say: Callable[[str], None], spent: Spent | None = None
    ) -> None:
        self._patience, self._host, self._hint, self._say = patience, host, hint, say
        self._spent = spent or Spent()

    def heard(self, time: datetime) -> None:
        """Note the time of an answer, by GitHub's clock."""
        self._spent.ahead = datetime.now(UTC) - time

    def persist(self, send: Callable[[Deadline], Answer], what: str, *, once: bool = False) -> Answer:
        """Return the answer to a request; send it again a few times after resets, time-outs, 429 and most 5xx.

        A request with `once` is only sent again if GitHub certainly did not take it: there was no connection, or
        GitHub refused it because of a rate limit.

        Raises:
            GitHubUnreachable: no answer came.
            AnswerLost: no answer came to a request with `once`, and GitHub may have done it.
            RateLimited: the rate limit lasts longer than this client waits.
            UnexpectedGitHubAnswer: the request cannot be made.
        """
        until = self._patience.clock.now() + self._patience.seconds
        for attempt in range(1, self._patience.attempts + 1):
            backoff = float(2 ** (attempt - 1))
            try:
                reply = self._sent(send, what)
            except NoAnswer as none:
                if once and not none.unsent:
                    raise AnswerLost(what, none.reason) from None
                if none.hopeless or self._is_last(attempt, until, backoff):
                    raise GitHubUnreachable(f"{what} got no answer: {none.reason}") from None
                self._sleep(backoff, f"{what} got no answer")
                continue
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

    def _sent(self, send: Callable[[Deadline], Answer], what: str) -> Answer:
        clock = self._patience.clock
        deadline = Deadline(clock.monotonic() + LONGEST_ANSWER, clock)
        try:
            tell = partial(self._say, f"still waiting for {what} after {TOLD_AFTER:.0f} s")
            return watched(lambda: send(deadline), LONGEST_ANSWER + _GRACE, tell, clock.wait)
        except Overdue:
            raise NoAnswer(TOO_LATE, hopeless=True) from None

    def _is_last(self, attempt: int, until: float, backoff: float) -> bool:
        return attempt == self._patience.attempts or self._patience.clock.now() + backoff >= until

    def pace(self) -> None:
        """Wait before a write, after the first few, so that writes keep their distance."""
        spent = self._spent
        spent.writes += 1
        since = self._patience.clock.now() - spent.last
        if spent.writes > _UNPACED and since < self._patience.pace:
            self._patience.clock.sleep(self._patience.pace - max(since, 0.0))
        spent.last = self._patience.clock.now()

    def limited(self, reply: Answer) -> RateLimited:
        """Return the error that says when GitHub takes requests again."""
        return self._limited(self._until_reset(reply))

    def _sleep(self, seconds: float, why: str) -> None:
        self._say(f"{why}; asking again in {seconds:.0f} s")
        self._patience.clock.sleep(seconds)

    def _spend(self, wait: float, *, give_up: bool) -> None:
        if give_up or wait > min(self._patience.longest_wait, self._patience.budget - self._spent.waited):
            raise self._limited(wait)
        self._spent.waited += wait
        self._sleep(wait, f"{self._host} takes no more requests at the moment")

    def _limited(self, wait: float) -> RateLimited:
        return RateLimited(self._host, datetime.fromtimestamp(self._patience.clock.now() + wait, UTC), self._hint)

    def _asked_for(self, reply: Answer) -> float | None:
        """Return the seconds that GitHub asks to wait, or None (GitHub's *Rate limits for the REST API*)."""
        if reply.status not in {403, 429, 503}:
            return None
        if (after := reply.headers.get("retry-after", "")).isdecimal():
            return float(after[:9])
        if reply.status == HTTPStatus.SERVICE_UNAVAILABLE:
            return None
        if reply.headers.get("x-ratelimit-remaining") == "0":
            return self._until_reset(reply)
        said_so = reply.status == HTTPStatus.TOO_MANY_REQUESTS or "rate limit" in said_in(reply).lower()
        return _SECONDARY_LIMIT if said_so else None

    def _until_reset(self, reply: Answer) -> float:
        """Return the seconds until GitHub resets its count of requests."""
        reset = reply.headers.get("x-ratelimit-reset", "")
        return max(float(reset[:11]) - self._patience.clock.now(), 0.0) + 1 if reset.isdecimal() else _SECONDARY_LIMIT
