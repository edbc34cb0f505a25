"""Waits for other machines: clocks, deadlines, retries, and reports of long waits."""

from __future__ import annotations

import sys
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ci_automation.errors import Error
    from ci_automation.net.values import Answer

    Wait = Callable[[threading.Event, float], bool]  # for an event, with a limit in seconds; whether it came

T = TypeVar("T")

TOLD_AFTER = 5.0  # seconds
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
_GRACE = 1.0  # second for an attempt to report by itself that its deadline has passed
_MAX_DATE = 64


class Overdue(Exception):
    """Work exceeds its time limit."""


def aloud(text: str) -> None:
    """Print a line on standard error; on a terminal, replace the line of progress."""
    print(f"\r\x1b[K{text}" if sys.stderr.isatty() else text, file=sys.stderr, flush=True)  # noqa: T201


def _silent(_: str) -> None:
    """Say nothing."""


class Watch(Struct, frozen=True):
    """Limit in seconds for one operation with all its attempts, and the function that reports long waits."""

    seconds: float = 60.0
    say: Callable[[str], None] = _silent


class Background(Generic[T]):
    """Work in its own thread, which does not delay the end of the program."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.ended = threading.Event()
        self._results: list[T] = []
        self._failures: list[BaseException] = []
        threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._results.append(work())
        except BaseException as failure:  # noqa: BLE001  # `result` raises it
            self._failures.append(failure)
        self.ended.set()

    def result(self) -> T:
        """Wait for the work, and return its result, or raise its error."""
        self.ended.wait()
        if self._failures:
            raise self._failures.pop()  # the list would keep itself alive by the traceback
        return self._results[0]


def at_once(first: Callable[[], Any], *others: Callable[[], Any]) -> list[Any]:
    """Call all functions in parallel; after all have ended, return the results or raise the first error in this order.

    `first` runs in the present thread, so Ctrl-C interrupts it and it can clean up. Ctrl-C does not wait for `others`.
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
    """Return the result of `work`, and call `tell` once if it takes longer than 5 seconds.

    A socket's limits apply to each read, so name resolution or a drip of single bytes evades them. The work therefore
    has its own thread, which is abandoned at the time limit.

    Raises:
        Overdue: the work takes longer than `seconds`.
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
    """Source of time: monotonic seconds, the time of day, and functions that wait."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    wait: Wait = threading.Event.wait


class Deadline(Struct, frozen=True):
    """Latest end of an operation."""

    at: float
    clock: Clock

    @property
    def left(self) -> float:
        """Return the remaining seconds, negative after the deadline."""
        return self.at - self.clock.monotonic()


class Again(Exception):
    """An attempt failed, but another may succeed: `error` ends the last attempt, and the other side asks for `wait`."""

    def __init__(self, error: Error, wait: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait = wait


class Patience(Struct, frozen=True):
    """Number of attempts of an operation, and its limit in seconds if it differs from the watch's."""

    attempts: int = 4
    seconds: float | None = None
    clock: Clock = field(default_factory=Clock)

    def run(
        self, attempt: Callable[[Deadline], T], host: str, late: Callable[[str], Error], watch: Watch = _UNTOLD
    ) -> T:
        """Return the result of `attempt`; call it again while it raises `Again`.

        The watch reports long waits for `host`, and retries.

        Raises:
            Error: the error of the last attempt, or the one from `late` if the attempt does not return in time.
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
    """Return the seconds that an answer asks to wait, or None if it does not say (RFC 9110, *Retry-After*)."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    if (then := http_time(text)) is None:
        return None
    today = http_time(answer.headers.get("date", ""))  # by the other side's clock, if known
    return max(0.0, then.timestamp() - (today.timestamp() if today else clock.now()))


def http_time(date: str) -> datetime | None:
    """Return the time in a header, in UTC, or None without a valid one."""
    from email.utils import parsedate_to_datetime  # takes a while to import

    try:
        return parsedate_to_datetime(date[:_MAX_DATE]).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
