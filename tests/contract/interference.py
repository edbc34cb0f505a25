"""What happens to a registry between two requests of a flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.registry import Asked
    from tests.fakes.world import World


class Killed(BaseException):
    """The end of the process, as far as a test can have it."""


def interfere(world: World, at: int, what: Callable[[], None]) -> None:
    """Let `what` happen before the request number `at`, once."""

    def before(_: Asked) -> None:
        if len(world.registry.requests) == at:
            world.registry.before = lambda _: None
            what()

    world.registry.before = before


def kill_at(world: World, at: int, run: Callable[[], object]) -> None:
    """End a run before its request number `at`."""

    def die() -> None:
        raise Killed

    interfere(world, at, die)
    with pytest.raises(Killed):
        run()


def names(world: World) -> dict[str, str]:
    """Return where every tag stands; a signature's manifest is another each time."""
    _, _, tags = world.contents()
    return {tag: "" if tag.endswith(".sig") else digest for tag, digest in tags}
