"""Waiting for others: it is told once it gets long, and it ends."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    Wait = Callable[[threading.Event, float], bool]  # for an event, for so many seconds; whether it came

T = TypeVar("T")

TOLD_AFTER = 5.0  # seconds


class Overdue(Exception):
    """Something takes longer than it may."""


def aloud(text: str) -> None:
    """Print a line on standard error, over a line of progress on a terminal."""
    print(f"\r\x1b[K{text}" if sys.stderr.isatty() else text, file=sys.stderr, flush=True)  # noqa: T201


def _silent(_: str) -> None:
    """Say nothing."""


class Watch(Struct, frozen=True):
    """How many seconds a host may take for one operation, with all its attempts, and who hears of long waits."""

    seconds: float = 60.0
    say: Callable[[str], None] = _silent


def watched(work: Callable[[], T], seconds: float, tell: Callable[[], None], wait: Wait = threading.Event.wait) -> T:
    """Return what `work` returns, and call `tell` once if it takes longer than 5 seconds.

    The limits of a socket are for each read. Name resolution, or headers that come byte by byte, never meet them: the
    work has a thread of its own, which is left behind when its time is over.

    Raises:
        Overdue: it takes longer than `seconds`.
    """
    ended = threading.Event()
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as failure:  # noqa: BLE001  # it is raised where the work is waited for
            failures.append(failure)
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    untold = min(TOLD_AFTER, seconds)
    if not wait(ended, untold):
        if seconds > TOLD_AFTER:
            tell()
        if not wait(ended, seconds - untold):
            raise Overdue
    if failures:
        raise failures.pop()  # the list would keep itself alive by the traceback
    return results[0]
