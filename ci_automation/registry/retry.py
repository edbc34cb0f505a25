"""When a request is tried again, how long is waited, and when enough is enough."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.errors import Error
    from ci_automation.registry.exchange import Answer

T = TypeVar("T")

TRANSIENT = frozenset({429, 502, 503, 504})
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
_MAX_DATE = 64


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, as it is given to whoever must wait: seconds that only grow, the time of day, and a way to let it pass."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Deadline:
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


@dataclass(frozen=True, slots=True)
class Patience:
    """How often an operation is attempted, and how many seconds all of it may take."""

    attempts: int = 4
    seconds: float = 300.0
    clock: Clock = field(default_factory=Clock)

    def run(self, attempt: Callable[[Deadline], T]) -> T:
        """Return what `attempt` returns, which is called anew as long as it raises `Again`.

        Raises:
            Error: what the last attempt said.
        """
        deadline = Deadline(self.clock.monotonic() + self.seconds, self.clock)
        for number in range(self.attempts):
            try:
                return attempt(deadline)
            except Again as failure:
                wait = _FIRST_WAIT * 2**number if failure.wait is None else min(failure.wait, _LONGEST_WAIT)
                if number + 1 == self.attempts or wait >= deadline.left:
                    raise failure.error from None
            self.clock.sleep(wait)
        raise AssertionError  # pragma: no cover - there is at least one attempt


def retry_after(answer: Answer, clock: Clock) -> float | None:
    """Return how many seconds an answer asks to wait, or None where it does not say (RFC 9110, *Retry-After*)."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    then, today = _seconds(text), _seconds(answer.headers.get("date", ""))
    if then is None:
        return None
    return max(0.0, then - (clock.now() if today is None else today))  # the other side's clock, where it shows it


def _seconds(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date[:_MAX_DATE]).timestamp()
    except (ValueError, OverflowError):
        return None
