"""Freezes: times in which nothing is published."""

from __future__ import annotations

import difflib
import re
import zoneinfo
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import dropwhile

from cronsim import CronSim, CronSimError
from msgspec import Struct

from ci_automation.errors import UsageError

_FIELDS = 5
_MAX_CRON = 120
_ZONE = re.compile(r"[A-Z][A-Za-z0-9_+-]*(/[A-Z][A-Za-z0-9_+-]*)*")
_PUT_BACK_AT_MOST = timedelta(hours=3)  # two hours, in Antarctica/Troll, and one to spare


class InvalidFreeze(UsageError):
    """A freeze is malformed, or never occurs."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Freeze(Struct, frozen=True):
    """A time that begins when `cron` says, on the clocks of `time_zone`, and lasts for `duration`.

    The rules are those of Debian's cron: minute, hour, day of month, month and day of week, the two days meaning *or*
    where neither begins with a star. A time that the clocks skip comes when they go on; one that they show twice comes
    at the first.
    """

    cron: str
    duration: timedelta
    time_zone: zoneinfo.ZoneInfo
    reason: str = ""

    def __post_init__(self) -> None:
        """Raise `InvalidFreeze` where `cron` is not understood or never comes, or the freeze has no duration."""
        five = "minute, hour, day of month, month, day of week: five fields, such as 0 0 20 12 *"
        if len(self.cron) > _MAX_CRON or len(self.cron.split()) != _FIELDS:
            raise InvalidFreeze(f"{self.cron[:80]!r} does not have five fields", f"Write {five}.")
        try:
            next(CronSim(self.cron, datetime(2000, 1, 1, tzinfo=UTC)))
        except CronSimError as error:
            reason = str(error).replace("Bad", "it has no valid", 1)
            raise InvalidFreeze(f"{self.cron!r} cannot be understood: {reason}", f"Write {five}.") from None
        except StopIteration:
            raise InvalidFreeze(f"{self.cron!r} never comes", "Correct day and month.") from None
        if self.duration <= timedelta(0):
            raise InvalidFreeze("the freeze has no duration", "Say how long it lasts, for example 336h.")

    def active(self, now: datetime) -> datetime | None:
        """Return until when the freeze lasts that `now` lies in, in UTC; none if it lies in none.

        A freeze begins at its first instant, and its last is the one before the returned.
        """
        # Backwards on the wall clock; where it was put back, what is ahead on it may have been before.
        ahead = now.astimezone(self.time_zone) + _PUT_BACK_AT_MOST
        began = (time.astimezone(UTC) for time in CronSim(self.cron, ahead, reverse=True))
        until = next(dropwhile(lambda time: time > now, began), now - self.duration) + self.duration
        return until if until > now else None


def time_zone(name: str) -> zoneinfo.ZoneInfo:
    """Return the time zone of that name in the IANA database.

    Raises:
        InvalidFreeze: it has none of that name; the hint has the nearest.
    """
    if _ZONE.fullmatch(name):  # `localtime` and the like differ from machine to machine
        with suppress(zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            return zoneinfo.ZoneInfo(name)
    near = difflib.get_close_matches(name[:80].title(), sorted(zoneinfo.available_timezones()), n=1)
    hint = f"Did you mean {near[0]}?" if near else "Write it as in the IANA database, for example Europe/Berlin."
    raise InvalidFreeze(f"there is no time zone {name[:80]!r}", hint)
