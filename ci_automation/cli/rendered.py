"""Which artifacts are rendered: one that is promoted from another is never rendered for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.cli.prepared import Target


class PromotedNotRendered(UsageError):
    """An artifact is to be rendered that gets its digests from another channel."""

    hint = "`promote` moves it; to have it rendered again, take `promote` out of the configuration."

    def __init__(self, goals: tuple[Target, ...]) -> None:
        super().__init__("; ".join(map(left_alone, goals)))


def left_alone(goal: Target) -> str:
    """Return why an artifact is left alone."""
    source = goal.configured.promote.source if goal.configured and goal.configured.promote else ""
    return f"{goal.name} is promoted from {source}, and never rendered"


def rendered(goals: tuple[Target, ...], tell: Callable[[str], None]) -> tuple[Target, ...]:
    """Return the artifacts that are rendered; `tell` hears of each that is left alone.

    Raises:
        PromotedNotRendered: none of them is.
    """
    others = tuple(goal for goal in goals if goal.configured and goal.configured.promote)
    if len(others) == len(goals):
        raise PromotedNotRendered(others)
    for goal in others:
        tell(left_alone(goal))
    return tuple(goal for goal in goals if not (goal.configured and goal.configured.promote))
