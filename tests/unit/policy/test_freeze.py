from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_automation.policy.model import InvalidPeriod, Period, time_zone

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def freeze(cron: str, hours: float = 1, zone: str = "UTC") -> Period:
    return Period(cron, timedelta(hours=hours), time_zone(zone), "a reason")


def at(text: str) -> datetime:
    """Return an instant; without an offset it is UTC."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "zone", "now", "opens"),
    [
        pytest.param("0 0 * * *", "UTC", "2026-11-22T00:00", "2026-11-23T00:00", id="not the present instant"),
        pytest.param("0 12 * * *", "Europe/Berlin", "2026-07-01T09:00", "2026-07-01T10:00", id="summer time"),
        # On 2026-03-29 Berlin's clocks go from 02:00 (+01:00) to 03:00 (+02:00).
        pytest.param(
            "30 2 29 3 *", "Europe/Berlin", "2026-03-29T00:30", "2026-03-29T01:00", id="skipped: when they go on"
        ),
        # On 2026-10-25 they go from 03:00 (+02:00) back to 02:00 (+01:00).
        pytest.param("30 2 25 10 *", "Europe/Berlin", "2026-10-25T00:00", "2026-10-25T00:30", id="twice: the first"),
        pytest.param("0 4 25 10 *", "Europe/Berlin", "2026-10-25T01:30", "2026-10-25T03:00", id="after it"),
    ],
)
def test_it_says_when_it_begins_next(cron: str, zone: str, now: str, opens: str) -> None:
    found = freeze(cron, zone=zone).opens(at(now))
    assert found == at(opens)
    assert freeze(cron, zone=zone).active(found) == found + HOUR


@pytest.mark.parametrize(
    ("cron", "hours", "zone", "now", "until"),
    [
        pytest.param("0 0 20 12 *", 336, "Europe/Berlin", "2026-12-19T22:59:59", None, id="year end: a second before"),
        pytest.param("0 0 20 12 *", 336, "Europe/Berlin", "2026-12-19T23:00", "2027-01-02T23:00", id="first instant"),
        pytest.param(
            "0 0 20 12 *", 336, "Europe/Berlin", "2027-01-01T12:00", "2027-01-02T23:00", id="year end: over new year"
        ),
        pytest.param("0 0 20 12 *", 336, "Europe/Berlin", "2027-01-02T23:00", None, id="year end: over"),
        pytest.param("0 18 * * FRI", 62, "UTC", "2026-11-22T10:00", "2026-11-23T08:00", id="weekends, by name"),
        pytest.param("0 18 * * 5", 62, "UTC", "2026-11-23T08:00", None, id="Monday morning"),
        pytest.param("0 0 * * 7", 24, "UTC", "2026-11-22T10:00", "2026-11-23T00:00", id="7 is Sunday too"),
        pytest.param("0 9-17/4 * * *", 1, "UTC", "2026-11-22T13:30", "2026-11-22T14:00", id="a range with a step"),
        pytest.param("0 9-17/4 * * *", 1, "UTC", "2026-11-22T12:30", None, id="between the steps"),
        pytest.param("0 0 1,15 jan-mar *", 24, "UTC", "2026-02-15T05:00", "2026-02-16T00:00", id="months by name"),
        pytest.param("0 0 1,15 jan-mar *", 24, "UTC", "2026-04-15T05:00", None, id="not in April"),
        pytest.param("0 0 13 * FRI", 24, "UTC", "2026-11-20T05:00", "2026-11-21T00:00", id="or: a Friday"),
        pytest.param("0 0 14 * FRI", 24, "UTC", "2026-11-14T05:00", "2026-11-15T00:00", id="or: a 14th, a Saturday"),
        pytest.param("0 0 14 * FRI", 24, "UTC", "2026-11-16T05:00", None, id="or: neither"),
        pytest.param("0 0 */2 * FRI", 24, "UTC", "2026-11-20T05:00", None, id="and, where a day begins with a star"),
        pytest.param("0 0 29 2 *", 24, "UTC", "2028-02-29T05:00", "2028-03-01T00:00", id="a leap day"),
        pytest.param("0 0 29 2 *", 24, "UTC", "2027-03-01T05:00", None, id="no leap day"),
        pytest.param("* * * * *", 0.5, "UTC", "2026-11-22T10:00:30", "2026-11-22T10:30", id="always"),
        pytest.param("0 0 * * *", 36, "UTC", "2026-11-22T10:00", "2026-11-23T12:00", id="overlapping: the last to end"),
        pytest.param("0 12 * * *", 1, "Europe/Berlin", "2026-07-01T10:30", "2026-07-01T11:00", id="summer time"),
        pytest.param("0 12 * * *", 1, "Europe/Berlin", "2026-12-01T10:30", None, id="winter time"),
        pytest.param("0 12 * * *", 1, "UTC", "2026-12-01T13:30+01:00", "2026-12-01T13:00", id="now on another clock"),
        # On 2026-10-25 Berlin's clocks go from 03:00 (+02:00) back to 02:00 (+01:00).
        pytest.param("30 2 25 10 *", 1, "Europe/Berlin", "2026-10-25T00:30", "2026-10-25T01:30", id="twice: the first"),
        pytest.param("45 2 25 10 *", 1, "Europe/Berlin", "2026-10-25T01:30", "2026-10-25T01:45", id="put back since"),
        pytest.param("30 2 25 10 *", 1, "Europe/Berlin", "2026-10-25T01:30", None, id="twice: not the second"),
        pytest.param("0 0 25 10 *", 24, "Europe/Berlin", "2026-10-25T21:59", "2026-10-25T22:00", id="24 of 25 hours"),
        pytest.param("0 0 25 10 *", 24, "Europe/Berlin", "2026-10-25T22:30", None, id="the 25th hour"),
        pytest.param("30 0 * * *", 1, "Antarctica/Troll", "2026-10-25T01:00", None, id="put back by two hours"),
        pytest.param("45 2 * * *", 1, "Antarctica/Troll", "2026-10-25T01:15", "2026-10-25T01:45", id="two hours since"),
        pytest.param("45 1 * * *", 1, "Australia/Lord_Howe", "2026-04-04T15:15", "2026-04-04T15:45", id="half an hour"),
        # On 2026-03-29 Berlin's clocks go from 02:00 (+01:00) on to 03:00 (+02:00).
        pytest.param("30 2 29 3 *", 1, "Europe/Berlin", "2026-03-29T01:00", "2026-03-29T02:00", id="skipped: at 3:00"),
        pytest.param("30 2 29 3 *", 1, "Europe/Berlin", "2026-03-29T00:59", None, id="skipped: not before"),
        pytest.param("0 3 29 3 *", 1, "Europe/Berlin", "2026-03-29T01:59", "2026-03-29T02:00", id="behind the gap"),
    ],
)  # fmt: skip
def test_lasts_until(cron: str, hours: float, zone: str, now: str, until: str | None) -> None:
    assert freeze(cron, hours, zone).active(at(now)) == (at(until) if until else None)


def test_the_end_is_told_in_utc_whatever_the_clock_of_now() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    # Times of one zone compare by what the clocks show: at the second 02:29, the first 02:30 would be yet to come.
    now = datetime(2026, 10, 25, 2, 29, fold=1, tzinfo=berlin)
    until = freeze("30 2 25 10 *", 2, "Europe/Berlin").active(now)
    assert until == at("2026-10-25T02:30")
    assert until.tzinfo is UTC


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        pytest.param("", "does not have five fields", id="nothing"),
        pytest.param("0 0 20 12", "does not have five fields", id="four fields"),
        pytest.param("0 0 0 20 12 *", "does not have five fields", id="seconds"),
        pytest.param("@yearly", "does not have five fields", id="a nickname"),
        pytest.param("0 0 20 12 " + "1," * 99 + "1", "does not have five fields", id="too long"),
        pytest.param("60 0 20 12 *", "cannot be understood: it has no valid minute", id="minute 60"),
        pytest.param("0 24 20 12 *", "no valid hour", id="hour 24"),
        pytest.param("0 0 20 13 *", "no valid month", id="month 13"),
        pytest.param("0 0 0 1 *", "no valid day-of-month", id="day 0"),
        pytest.param("0 0 20 12 8", "no valid day-of-week", id="day 8 of the week"),
        pytest.param("0 0 20-12 * *", "no valid day-of-month", id="a range that goes backwards"),
        pytest.param("*/0 0 * * *", "no valid minute", id="step 0"),
        pytest.param("0 0 30 feb *", "no valid day-of-month", id="30 February"),
        pytest.param("0 0 LW 2 */7", "never comes", id="the last workday, a Sunday"),
    ],
)
def test_a_wrong_cron_is_refused_at_once(cron: str, message: str) -> None:
    with pytest.raises(InvalidPeriod, match=message) as caught:
        freeze(cron)
    assert caught.value.hint


@pytest.mark.parametrize("hours", [0, -1])
def test_a_freeze_of_no_time_is_refused(hours: float) -> None:
    with pytest.raises(InvalidPeriod, match="has no duration"):
        freeze("0 0 20 12 *", hours)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param("Europe/Berln", "Did you mean Europe/Berlin?", id="a slip"),
        pytest.param("europe/berlin", "Did you mean Europe/Berlin?", id="lower case"),
        pytest.param("Europe", "", id="a folder"),
        pytest.param("localtime", "", id="what differs from machine to machine"),
        pytest.param("posixrules", "", id="the same"),
        pytest.param("../../etc/passwd", "for example Europe/Berlin", id="a way out"),
        pytest.param("/etc/localtime", "", id="a path"),
        pytest.param("", "for example Europe/Berlin", id="nothing"),
        pytest.param("Nowhere\x00", "", id="a null byte"),
        pytest.param("+05:00", "", id="an offset"),
    ],
)
def test_an_unknown_time_zone_is_refused(name: str, hint: str) -> None:
    with pytest.raises(InvalidPeriod, match="there is no time zone") as caught:
        time_zone(name)
    assert hint in caught.value.hint
    assert caught.value.hint


zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Antarctica/Troll"])
changes = st.sampled_from(
    ["2026-10-25T01:00", "2026-03-29T01:00", "2026-11-01T06:00", "2026-04-04T15:00", "2026-10-03T16:00"]
)
moments = st.builds(lambda change, minutes: at(change) + minutes * MINUTE, changes, st.integers(-600, 600))  # fmt: skip


@given(
    hour=st.integers(0, 23), minute=st.integers(0, 59), zone=zones, minutes=st.integers(1, 1500), now=moments
)  # fmt: skip
def test_as_if_every_minute_had_been_looked_at(hour: int, minute: int, zone: str, minutes: int, now: datetime) -> None:
    """A fire is the first minute of its day on the wall clock that is at the cron's time or, in a gap, behind it."""
    clock = ZoneInfo(zone)
    fires = []
    day = (now - 2 * minutes * MINUTE).astimezone(clock).date() - timedelta(days=1)
    while day <= now.astimezone(clock).date():
        wall = datetime(day.year, day.month, day.day, hour, minute, tzinfo=clock)
        while wall.astimezone(UTC).astimezone(clock).replace(fold=0) != wall:
            wall += MINUTE
        fires.append(wall.astimezone(UTC))
        day += timedelta(days=1)
    until = max((fire for fire in fires if fire <= now), default=now - minutes * MINUTE) + minutes * MINUTE
    found = freeze(f"{minute} {hour} * * *", minutes / 60, zone).active(now)
    assert found == (until if until > now else None)
