"""A team's policy: which steps run without approval, from which releases, and when."""

from __future__ import annotations

import enum
import re
from datetime import datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ci_automation.errors import UsageError
from ci_automation.flux.version import Bump
from ci_automation.impact.change import ChangeClass
from ci_automation.policy.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.policy.freeze import Freeze

BUMPS = (Bump.PATCH, Bump.MINOR, Bump.MAJOR)
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([dhms])")
_DURATION = re.compile(rf"(?:{_PART.pattern})+|0")
_MAX_TEXT = 64
_LONGEST = timedelta(days=3660)


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


# What a run could not check; a policy names it like a class of change.
NOT_CHECKED = "notChecked"
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


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


def _actions() -> dict[Bump, Action]:
    return {Bump.PATCH: Action.AUTO, Bump.MINOR: Action.APPROVAL, Bump.MAJOR: Action.NEVER}


def _ages() -> dict[Bump, timedelta]:
    return {Bump.PATCH: timedelta(hours=24), Bump.MINOR: timedelta(days=7), Bump.MAJOR: timedelta(days=7)}


class Policy(Struct, frozen=True):
    """The policy of one artifact (design section 5.2); what is not said is the default."""

    actions: Mapping[Bump, Action] = field(default_factory=_actions)
    range: Range = field(default_factory=lambda: Range.parse(">=2.0.0"))
    prereleases: bool = False
    min_release_age: Mapping[Bump, timedelta] = field(default_factory=_ages)
    minor_step: MinorStep = MinorStep.LATEST
    freeze: tuple[Freeze, ...] = ()
    escalate: frozenset[ChangeClass] = ESCALATE
    refuse: frozenset[str] = frozenset()  # classes of change, and `NOT_CHECKED`
    acknowledge: tuple[Acknowledgement, ...] = ()

    def __post_init__(self) -> None:
        """Raise `IncompletePolicy` where a bump has no action or no age."""
        for bump in BUMPS:
            if bump not in self.actions:
                raise IncompletePolicy("action", bump)
            if bump not in self.min_release_age:
                raise IncompletePolicy("minimum age", bump)


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
