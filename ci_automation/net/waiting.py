"""Waiting for other machines: clocks, deadlines, further attempts, and long waits that are told and end."""

from __future__ import annotations

import sys
import threading
import time
from datetime import UTC
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from ci_automation.errors import Error
    from ci_automation.net.values import Answer

    Wait = Callable[[threading.Event, float], bool]  # for an event, for so many seconds; whether it came

T = TypeVar("T")

TOLD_AFTER = 5.0  # seconds
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
_GRACE = 1.0  # second, in which an attempt that knows its deadline says itself what was missing
_MAX_DATE = 64


class Overdue(Exception):
    """Something takes longer than it may."""


def aloud(text: str) -> None:
    """Print a line on standard error, over a line of progress on a terminal."""
    print(f"\r\x1b[K{text}" if sys.stderr.isatty() else text, file=sys.stderr, flush=True)  # noqa: T201


def _silent(_: str) -> None:
    """Say nothing."""


class Watch(Struct, frozen=True):
    """Limit in seconds for one operation with all its attempts, and the listener to long waits."""

    seconds: float = 60.0
    say: Callable[[str], None] = _silent


class Background(Generic[T]):
    """Work in a thread of its own, which the end of the program does not wait for."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.ended = threading.Event()
        self._results: list[T] = []
        self._failures: list[BaseException] = []
        threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._results.append(work())
        except BaseException as failure:  # noqa: BLE001  # it is raised where the work is waited for
            self._failures.append(failure)
        self.ended.set()

    def result(self) -> T:
        """Wait for the work, and return what it returned, or raise what it raised."""
        self.ended.wait()
        if self._failures:
            raise self._failures.pop()  # the list would keep itself alive by the traceback
        return self._results[0]


def at_once(first: Callable[[], Any], *others: Callable[[], Any]) -> list[Any]:
    """Call all of them at the same time, and return the results, or raise the first error in this order, once all end.

    `first` has no thread of its own: Ctrl-C ends it where it is, so that it cleans up. Nobody waits for `others` then.
    """
    begun = [Background(each) for each in others]
    try:
        result = first()
    except Exception:
        _wait_for(begun)
        raise
    _wait_for(begun)
    return [result, *(each.result() for each in begun)]


def _wait_for(begun: Iterable[Background[Any]]) -> None:
    for each in begun:
        each.ended.wait()


def watched(work: Callable[[], T], seconds: float, tell: Callable[[], None], wait: Wait = threading.Event.wait) -> T:
    """Return what `work` returns, and call `tell` once if it takes longer than 5 seconds.

    The limits of a socket are for each read. Name resolution, or headers that come byte by byte, never meet them: the
    work has a thread of its own, which is left behind when its time is over.

    Raises:
        Overdue: it takes longer than `seconds`.
    """
    begun = Background(work)
    untold = min(TOLD_AFTER, seconds)
    if not wait(begun.ended, untold):
        if seconds > TOLD_AFTER:
            tell()
        if not wait(begun.ended, seconds - untold):
            raise Overdue
    return begun.result()


_UNTOLD = Watch()


class Clock(Struct, frozen=True):
    """Time, as it is given to whoever must wait: seconds that only grow, the time of day, and ways to let it pass."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    wait: Wait = threading.Event.wait


class Deadline(Struct, frozen=True):
    """A point in time that an operation must not outlive."""

    at: float
    clock: Clock

    @property
    def left(self) -> float:
        """Return how many seconds remain; negative when it has passed."""
        return self.at - self.clock.monotonic()


class Again(Exception):
    """An attempt failed as another may not: `error` is for when there is none, `wait` what the other side asks for."""

    def __init__(self, error: Error, wait: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait = wait


class Patience(Struct, frozen=True):
    """Number of attempts of an operation, and its limit in seconds if that is not left to the watch."""

    attempts: int = 4
    seconds: float | None = None
    clock: Clock = field(default_factory=Clock)

    def run(
        self, attempt: Callable[[Deadline], T], host: str, late: Callable[[str], Error], watch: Watch = _UNTOLD
    ) -> T:
        """Return what `attempt` returns, which is called anew as long as it raises `Again`.

        Long waits for `host` and further attempts are told.

        Raises:
            Error: what the last attempt said, or `late` says of one that did not come back.
        """
        seconds = watch.seconds if self.seconds is None else self.seconds
        deadline = Deadline(self.clock.monotonic() + seconds, self.clock)

        def tell() -> None:
            watch.say(f"still waiting for {host} after {TOLD_AFTER:.0f} s")

        for number in range(self.attempts):
            try:
                return watched(lambda: attempt(deadline), deadline.left + _GRACE, tell, self.clock.wait)
            except Overdue:
                raise late("it took longer than is allowed") from None
            except Again as failure:
                wait = _FIRST_WAIT * 2**number if failure.wait is None else min(failure.wait, _LONGEST_WAIT)
                if number + 1 == self.attempts or wait >= deadline.left:
                    raise failure.error from None
                watch.say(f"{failure.error}; asking again in {wait:g} s")
            self.clock.sleep(wait)
        raise AssertionError  # pragma: no cover - there is at least one attempt


def retry_after(answer: Answer, clock: Clock) -> float | None:
    """Return how many seconds an answer asks to wait, or None where it does not say (RFC 9110, *Retry-After*)."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    if (then := http_time(text)) is None:
        return None
    today = http_time(answer.headers.get("date", ""))  # the other side's clock, where it shows it
    return max(0.0, then.timestamp() - (today.timestamp() if today else clock.now()))


def http_time(date: str) -> datetime | None:
    """Return the moment that a header states, in UTC, or None where it states none."""
    from email.utils import parsedate_to_datetime  # takes a while to import

    try:
        return parsedate_to_datetime(date[:_MAX_DATE]).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
