"""A team's policy: which steps run without approval, from which releases, when, and when none do."""

from __future__ import annotations

import enum
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from fractions import Fraction
from itertools import dropwhile
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ci_automation.errors import UsageError
from ci_automation.flux.version import Bump
from ci_automation.impact.change import ChangeClass
from ci_automation.policy.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

BUMPS = (Bump.PATCH, Bump.MINOR, Bump.MAJOR)
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([dhms])")
_DURATION = re.compile(rf"(?:{_PART.pattern})+|0")
_MAX_TEXT = 64
_LONGEST = timedelta(days=3660)
# What a run could not check; a policy names it like a class of change.
NOT_CHECKED = "notChecked"
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_RUN = timedelta(days=1)  # no run lasts longer
# What turns an automatic step into one that a person approves, where the policy does not say.
ESCALATE = frozenset(
    {
        ChangeClass.RBAC,
        ChangeClass.NETWORK_POLICY,
        ChangeClass.CRD_REMOVAL,
        ChangeClass.CRD_TIGHTENED,
        ChangeClass.SECURITY_CONTEXT,
        ChangeClass.NEW_WORKLOAD,
        ChangeClass.OTHER,
    }
)
_FIELDS = 5
_MAX_CRON = 120
_ZONE = re.compile(r"[A-Z][A-Za-z0-9_+-]*(/[A-Z][A-Za-z0-9_+-]*)*")
_PUT_BACK_AT_MOST = timedelta(hours=3)  # two hours, in Antarctica/Troll, and one to spare


class InvalidDuration(UsageError):
    """A text is not a duration."""

    hint = "Write it with d, h, m or s, for example 7d, 24h or 1h30m; at most ten years."

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:80]!r} is not a duration")


class IncompletePolicy(UsageError):
    """A policy does not say what to do for a bump; silence is no permission."""

    def __init__(self, what: str, missing: str) -> None:
        super().__init__(f"the policy has no {what} for {missing} releases")


class Action(enum.StrEnum):
    """What happens when a step to a newer release is possible."""

    AUTO = "auto"
    APPROVAL = "approval"
    NEVER = "never"


class SignatureFormat(enum.StrEnum):
    """How a signature is stored beside an artifact: cosign's `.sig` tag, a Sigstore bundle as referrer, or as both."""

    LEGACY = "legacy"
    BOTH = "both"
    BUNDLE = "bundle"

    @property
    def has_legacy(self) -> bool:
        """Return whether a `.sig` belongs to it."""
        return self is not SignatureFormat.BUNDLE

    @property
    def has_bundle(self) -> bool:
        """Return whether a bundle belongs to it."""
        return self is not SignatureFormat.LEGACY


class MinorStep(enum.StrEnum):
    """Which of several newer minor releases is next."""

    LATEST = "latest"
    NEXT = "next"


class InvalidFingerprint(UsageError):
    """A text is not the fingerprint of a change or hazard."""

    hint = "Copy the 16 hex digits from the plan."

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:80]!r} is not a fingerprint")


class Acknowledgement(Struct, frozen=True):
    """A person's acceptance of one change or hazard, with a reason, until a date."""

    fingerprint: str
    until: datetime
    reason: str

    def __post_init__(self) -> None:
        """Raise `InvalidFingerprint` where the fingerprint is none."""
        if not _FINGERPRINT.fullmatch(self.fingerprint):
            raise InvalidFingerprint(self.fingerprint)

    def is_on(self, now: datetime) -> bool:
        """Return whether its date is yet to come."""
        return now < self.until


class Allowance(Struct, frozen=True):
    """A person's permission, with a reason and until a date: to remove an object, or to drop the edits of a digest."""

    of: str
    until: datetime
    reason: str

    def is_on(self, now: datetime) -> bool:
        """Return whether its date is yet to come."""
        return now < self.until

    @property
    def told(self) -> str:
        """Return who allows it, until when and why."""
        return f"the configuration allows until {self.until:%Y-%m-%d}: {self.reason}"


_ACTIONS = {Bump.PATCH: Action.AUTO, Bump.MINOR: Action.APPROVAL, Bump.MAJOR: Action.NEVER}
_AGES = {Bump.PATCH: timedelta(hours=24), Bump.MINOR: timedelta(days=7), Bump.MAJOR: timedelta(days=7)}


class Policy(Struct, frozen=True):
    """The policy of one artifact (design section 5.2); what is not said is the default."""

    actions: Mapping[Bump, Action] = field(default_factory=_ACTIONS.copy)
    range: Range = field(default_factory=lambda: Range.parse(">=2.0.0"))
    prereleases: bool = False
    min_release_age: Mapping[Bump, timedelta] = field(default_factory=_AGES.copy)
    security_age: timedelta | None = None  # of a release that fixes a known vulnerability; None: as any other
    minor_step: MinorStep = MinorStep.LATEST
    freeze: tuple[Period, ...] = ()
    window: tuple[Period, ...] = ()  # where there are any, runs publish in them alone
    escalate: frozenset[ChangeClass] = ESCALATE
    refuse: frozenset[str] = frozenset()  # classes of change, and `NOT_CHECKED`
    acknowledge: tuple[Acknowledgement, ...] = ()
    allow_removal: tuple[Allowance, ...] = ()  # of objects by `Deployment/NAME` or `CustomResourceDefinition/NAME`
    accept_edits: tuple[Allowance, ...] = ()  # of digests

    def __post_init__(self) -> None:
        """Raise `IncompletePolicy` where a bump has no action or no age."""
        for bump in BUMPS:
            if bump not in self.actions:
                raise IncompletePolicy("action", bump)
            if bump not in self.min_release_age:
                raise IncompletePolicy("minimum age", bump)

    def acknowledging(self, fingerprints: Iterable[str], now: datetime) -> Self:
        """Return the policy of a run that accepts these changes and hazards."""
        given = (Acknowledgement(each, now + _RUN, "--acknowledge") for each in fingerprints)
        return replace(self, acknowledge=(*self.acknowledge, *given))

    def acknowledged(self, fingerprint: str, now: datetime) -> Acknowledgement | None:
        """Return by what a change or a hazard is accepted now, or None."""
        return next((it for it in self.acknowledge if it.fingerprint == fingerprint and it.is_on(now)), None)


def duration(text: str) -> timedelta:
    """Return the duration that `text` writes, as Go does (`time.ParseDuration`), with days of 24 hours besides.

    Raises:
        InvalidDuration: it is not one, is negative, or is longer than ten years.
    """
    if len(text) > _MAX_TEXT or not _DURATION.fullmatch(text):
        raise InvalidDuration(text)
    seconds = sum((Fraction(number) * _SECONDS[unit] for number, unit in _PART.findall(text)), Fraction(0))
    if seconds > _LONGEST.total_seconds():
        raise InvalidDuration(text)
    return timedelta(microseconds=int(seconds * 1_000_000))


class InvalidPeriod(UsageError):
    """A freeze or a window is malformed, or never occurs."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Period(Struct, frozen=True):
    """A freeze or a window: it begins when `cron` says, on the clocks of `time_zone`, and lasts for `duration`.

    The rules are those of Debian's cron: minute, hour, day of month, month and day of week, the two days meaning *or*
    where neither begins with a star. A time that the clocks skip comes when they go on; one that they show twice comes
    at the first.
    """

    cron: str
    duration: timedelta
    time_zone: tzinfo
    reason: str = ""

    def __post_init__(self) -> None:
        """Raise `InvalidPeriod` where `cron` is not understood or never comes, or the period has no duration."""
        from cronsim import CronSim, CronSimError

        five = "minute, hour, day of month, month, day of week: five fields, such as 0 0 20 12 *"
        if len(self.cron) > _MAX_CRON or len(self.cron.split()) != _FIELDS:
            raise InvalidPeriod(f"{self.cron[:80]!r} does not have five fields", f"Write {five}.")
        try:
            next(CronSim(self.cron, datetime(2000, 1, 1, tzinfo=UTC)))
        except CronSimError as error:
            reason = str(error).replace("Bad", "it has no valid", 1)
            raise InvalidPeriod(f"{self.cron!r} cannot be understood: {reason}", f"Write {five}.") from None
        except StopIteration:
            raise InvalidPeriod(f"{self.cron!r} never comes", "Correct day and month.") from None
        if self.duration <= timedelta(0):
            raise InvalidPeriod("the period has no duration", "Say how long it lasts, for example 336h.")

    def active(self, now: datetime) -> datetime | None:
        """Return until when the period lasts that `now` lies in, in UTC; none if it lies in none.

        A period begins at its first instant, and its last is the one before the returned.
        """
        from cronsim import CronSim

        # Backwards on the wall clock; where it was put back, what is ahead on it may have been before.
        ahead = now.astimezone(self.time_zone) + _PUT_BACK_AT_MOST
        began = (time.astimezone(UTC) for time in CronSim(self.cron, ahead, reverse=True))
        until = next(dropwhile(lambda time: time > now, began), now - self.duration) + self.duration
        return until if until > now else None

    def opens(self, now: datetime) -> datetime:
        """Return when the period begins next, in UTC, after a `now` that lies in none."""
        from cronsim import CronSim

        ahead = CronSim(self.cron, now.astimezone(self.time_zone) - _PUT_BACK_AT_MOST)
        return next(begins for time in ahead if (begins := time.astimezone(UTC)) > now)


def time_zone(name: str) -> tzinfo:
    """Return the time zone of that name in the IANA database.

    Raises:
        InvalidPeriod: it has none of that name; the hint has the nearest.
    """
    import zoneinfo  # only for freezes and windows

    if _ZONE.fullmatch(name):  # `localtime` and the like differ from machine to machine
        with suppress(zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            return zoneinfo.ZoneInfo(name)
    import difflib

    near = difflib.get_close_matches(name[:80].title(), sorted(zoneinfo.available_timezones()), n=1)
    hint = f"Did you mean {near[0]}?" if near else "Write it as in the IANA database, for example Europe/Berlin."
    raise InvalidPeriod(f"there is no time zone {name[:80]!r}", hint)
