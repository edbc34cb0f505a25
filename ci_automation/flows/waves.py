"""Waves: promotions in the order in which one channel hands on to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.artifact.reference import Reference


class CircularPromotion(UsageError):
    """Channels are promoted from one another in a circle, so that none of them is ever rendered."""

    hint = "Remove `promote` from one of them: one channel has to be rendered."

    def __init__(self, channels: Iterable[Reference]) -> None:
        super().__init__(f"these channels are promoted from one another in a circle: {', '.join(map(str, channels))}")


class Leg(Protocol):
    """From one channel to another."""

    @property
    def source(self) -> Reference:
        """Return where from."""
        ...

    @property
    def target(self) -> Reference:
        """Return where to."""
        ...


L = TypeVar("L", bound=Leg)


def in_waves(legs: Iterable[L]) -> tuple[tuple[L, ...], ...]:
    """Return the legs wave by wave: what a leg starts from was reached by a wave before, or by none of them.

    Raises:
        CircularPromotion: there is no such order.
    """
    left, waves = list(legs), []
    while left:
        reached_later = {leg.target for leg in left}
        wave = tuple(leg for leg in left if leg.source not in reached_later)
        if not wave:
            raise CircularPromotion(sorted(reached_later, key=str))
        waves.append(wave)
        left = [leg for leg in left if leg.source in reached_later]
    return tuple(waves)
