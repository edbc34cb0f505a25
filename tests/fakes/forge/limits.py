"""How many requests GitHub takes: so many an hour (core, GraphQL), and so many that create content a minute."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.fakes.forge.state import Refused

if TYPE_CHECKING:
    from tests.fakes.forge.forge import Forge

_HOUR = dt.timedelta(hours=1)
_MINUTE = dt.timedelta(minutes=1)
ANONYMOUS = 60


class LimitReached(Refused):
    """No more requests for now; the headers say until when."""

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(403, message, kind="RATE_LIMITED")
        self.headers = {"Retry-After": str(retry_after)} if retry_after else {}


@dataclass
class Budget:
    """What one token has left of one resource."""

    limit: int
    used: int
    reset: dt.datetime

    @property
    def left(self) -> int:
        """How many more requests are taken."""
        return max(0, self.limit - self.used)


@dataclass
class Limits:
    """The limits; a test sets them lower than GitHub's to see them reached."""

    forge: Forge
    hourly: int = 5000
    anonymous: int = ANONYMOUS
    creations_a_minute: int = 80
    _budgets: dict[tuple[str, str], Budget] = field(default_factory=dict)
    _creations: dict[str, list[dt.datetime]] = field(default_factory=dict)

    def budget(self, token: str, resource: str) -> Budget:
        """Return what a token has left in this hour."""
        now = self.forge.now()
        found = self._budgets.get((token, resource))
        if found is None or found.reset <= now:
            found = Budget(self.hourly if token else min(self.anonymous, self.hourly), 0, now + _HOUR)
            self._budgets[token, resource] = found
        return found

    def spend(self, token: str, resource: str, *, creates: bool) -> None:
        """Count a request.

        Raises:
            LimitReached: there were too many.
        """
        budget = self.budget(token, resource)
        if not budget.left:
            raise LimitReached("API rate limit exceeded for installation ID 1.")
        budget.used += 1
        if creates:
            now = self.forge.now()
            recent = [at for at in self._creations.get(token, []) if now - at < _MINUTE]
            if len(recent) >= self.creations_a_minute:
                raise LimitReached("You have exceeded a secondary rate limit. Please wait a few minutes.", 60)
            self._creations[token] = [*recent, now]

    def headers(self, token: str, resource: str) -> dict[str, str]:
        """Return what every answer says about the limit."""
        budget = self.budget(token, resource)
        return {
            "X-RateLimit-Limit": str(budget.limit),
            "X-RateLimit-Remaining": str(budget.left),
            "X-RateLimit-Used": str(budget.used),
            "X-RateLimit-Reset": str(int(budget.reset.timestamp())),
            "X-RateLimit-Resource": resource,
        }
