"""A channel that was published three times, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.flows.apply import apply
from ci_automation.flows.init import init
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.rollback import Wish, propose_rollback, roll_back
from ci_automation.flows.update import update
from ci_automation.policy.model import BUMPS, Action, Policy
from ci_automation.records.ledger import Ledger
from ci_automation.signing.trust import TrustedKeys
from tests.contract.interference import Killed
from tests.contract.planting import EVERY, at
from tests.fakes.registry import Asked
from tests.fakes.world import CHANNEL, MINOR, OLD, OVERLAY, PATCH, World, intent, made_once, signing_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.reference import Digest
    from ci_automation.artifact.tree import Tree
    from ci_automation.flux.version import Version
    from ci_automation.report.rollback import Rollback
OURS = TrustedKeys((signing_key().public,))
AUTO = Policy(actions=dict.fromkeys(BUMPS, Action.AUTO))


@made_once
def grown() -> World:
    """Return a channel that was published with the oldest release, and went to the newest in two steps."""
    world = World()
    init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
    update(CHANNEL, world.ports(), intent())
    update(CHANNEL, world.ports(), intent(policy=AUTO))
    assert version_of(world) == MINOR
    world.registry.requests.clear()
    return world


def version_of(world: World) -> Version:
    found = Ledger(world.registry, CHANNEL, OURS).all_records(at(world))
    return found[-1].version


def killed_after_the_move(world: World, to: str = str(PATCH)) -> None:
    """Roll back in a process that ends right after it moved the channel."""
    go_back = propose_rollback(CHANNEL, Wish(to), world.ports(), intent())
    kill_after_the_move(world, lambda: roll_back(go_back, world.ports(), intent()))


def kill_after_the_move(world: World, run: Callable[[], object]) -> None:
    """End a run right after it moved the channel."""
    world.registry.requests.clear()

    def before(_: Asked) -> None:
        if Asked("put_manifest", str(CHANNEL)) in world.registry.requests:
            raise Killed

    world.registry.before = before
    with pytest.raises(Killed):
        run()
    world.registry.before = lambda _: None


def back(world: World, to: str = str(PATCH), **wish: object) -> Rollback:
    """Roll back, and return what was shown."""
    proposal = propose_rollback(CHANNEL, Wish(to, **wish), world.ports(), intent())  # type: ignore[arg-type]
    roll_back(proposal, world.ports(), intent())
    return proposal.shown


def with_overlay(world: World, overlay: Tree = OVERLAY) -> Digest:
    """Publish the overlay, approved by a person, and return the digest."""
    wish = intent(overlay=overlay, policy=EVERY)
    plan = make_plan(CHANNEL, world.ports(), wish).plan
    apply(plan, (plan.steps[0].target,), world.ports(), wish)
    return at(world)
