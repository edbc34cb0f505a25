"""What a rollback refused stays away, whatever a team, a writer of the registry and kills do in whatever order."""

from __future__ import annotations

import contextlib
import random
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.errors import Error
from ci_automation.flows.apply import apply
from ci_automation.flows.init import init
from ci_automation.flows.lift import lift
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.prune import prune, survey
from ci_automation.flows.rollback import Wish, propose_rollback, roll_back
from ci_automation.flows.update import heal, update
from ci_automation.flux.artifact import immutable_version
from ci_automation.policy.retention import Window
from ci_automation.records.ledger import Ledger
from tests.contract.interference import Killed, interfere
from tests.contract.planting import EVERY, made, plant
from tests.contract.rolled_back import AUTO, OURS
from tests.fakes.world import CHANNEL, MINOR, NOW, OLD, OVERLAY, PATCH, MemoryReleases, World, intent, release

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.version import Version

pytestmark = pytest.mark.usefixtures("unjudged")
OVERLAYS = tuple(type(OVERLAY)(OVERLAY.files[:number]) for number in (1, 2, 3))
STEPS = 30
BACK, TAG = (re.compile(rf"`{it}(sha256:[0-9a-f]+)") for it in (r"rollback \S+ --to ", r"flux tag artifact [^\s@]+@"))


@dataclass
class Story:
    """One channel, and what happens to it; `refused` are the digests that a rollback left and nothing allowed since."""

    chance: random.Random
    world: World = field(default_factory=World)
    now: datetime = NOW
    refused: dict[Digest, Version] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    belongs: Digest | None = None

    def begin(self) -> None:
        """Publish the oldest release."""
        newer = release("v2.98.9", published_at="2026-09-01T00:00:00Z")
        self.world.releases = MemoryReleases((*self.world.releases.samples, newer))
        self.belongs = init(CHANNEL, OLD, self.ports(), self.intent(overlay=OVERLAY)).digest

    def ports(self) -> Ports:
        """Return the world of a run, whose clock may be a day ahead or behind."""
        self.now += timedelta(minutes=1)
        moment = self.now + timedelta(hours=self.chance.choice((0, 0, 0, 30, -30)))
        return replace(self.world.ports(), clock=lambda: moment)

    def intent(self, **changes: object) -> Intent:
        """Return what a run wants."""
        return intent(now=self.now, **changes)

    @property
    def tags(self) -> dict[str, Digest]:
        """Return where every tag is."""
        return self.world.registry.repositories[str(CHANNEL.repository)].tags

    @property
    def versions(self) -> dict[Digest, Version]:
        """Return what has an immutable tag."""
        return {digest: found for tag, digest in self.tags.items() if (found := immutable_version(tag))}

    def recorded(self, digest: Digest) -> int:
        """Return how often the channel came to a digest."""
        return len(Ledger(self.world.registry, CHANNEL, OURS).records(digest))

    def on_hold(self, digest: Digest) -> set[Digest]:
        """Return what holds on a digest keep back."""
        holds = Ledger(self.world.registry, CHANNEL, OURS, lenient=True).holds(digest)
        return {it.digest for it in holds if it.is_on(self.now)}

    def run(self, what: Callable[[], object], *, killed: bool = True) -> None:
        """Do something, which may end by an error, or by a kill at any request."""
        self.world.registry.requests.clear()

        def die() -> None:
            raise Killed

        if killed and self.chance.random() < 0.4:
            interfere(self.world, self.chance.randrange(45), die)
        with contextlib.suppress(Error, Killed):
            what()
        self.world.registry.before = lambda _: None

    def publishes(self, what: Callable[[], object]) -> None:
        """Do what may move the channel on, and check that it does not move it to what is refused."""
        before, counts = self.tags.get("production"), {digest: self.recorded(digest) for digest in self.refused}
        self.run(what)
        assert {digest: self.recorded(digest) for digest in counts} == counts, self.told
        if (found := self.tags.get("production")) != before:
            assert found
            assert found not in self.refused, self.told
            version = self.versions[found]
            self.refused = {digest: held for digest, held in self.refused.items() if version <= held}
            self.belongs = found

    def scheduled(self) -> None:
        """Let the schedule run."""
        self.publishes(lambda: update(CHANNEL, self.ports(), self.intent(policy=AUTO)))

    def healed(self) -> None:
        """Let a run look for lost signatures."""
        self.publishes(lambda: heal(CHANNEL, self.ports(), self.intent(policy=EVERY)))

    def changed(self) -> None:
        """Let a person approve other content."""
        wish = self.intent(overlay=self.chance.choice(OVERLAYS), policy=EVERY)

        def approve() -> None:
            plan = make_plan(CHANNEL, self.ports(), wish).plan
            apply(plan, tuple(step.target for step in plan.steps), self.ports(), wish)

        self.publishes(approve)

    def rolled_back(self) -> None:
        """Let a person go back to what is no newer."""
        base, versions = self.tags.get("production"), self.versions
        if base is None:
            return
        older = [it for it in versions if base not in versions or versions[it] <= versions[base]]
        target = self.chance.choice(older)
        ports, wish = self.ports(), self.intent()
        held = self.on_hold(base)
        self.run(lambda: roll_back(propose_rollback(CHANNEL, Wish(str(target)), ports, wish), ports, wish))
        if self.tags.get("production") == target != base:
            if base == self.belongs:
                assert held - {target} <= self.on_hold(target), self.told
            self.refused.pop(target, None)
            if base == self.belongs:
                self.refused[base] = versions[base]
            self.belongs = target

    def lifted(self) -> None:
        """Let a person lift the holds of the channel."""
        ended: list[Digest] = []

        def end() -> None:
            ended.extend(hold.digest for hold in lift(CHANNEL, "", self.ports(), self.intent()).holds)

        self.run(end, killed=False)
        assert not {it for digest in self.versions for it in self.on_hold(digest)} & {*ended}, self.told
        self.refused = {digest: held for digest, held in self.refused.items() if digest not in ended}

    def pruned(self) -> None:
        """Delete what nothing needs."""
        self.run(lambda: list(prune(survey(CHANNEL, Window(2), self.ports(), self.now), self.ports())))

    def moved(self) -> None:
        """Let a writer of the registry point the channel at what it had once, and delete its signature."""
        goal = self.chance.choice([*self.versions, *(it for it in self.refused if it in self.versions)])
        self.tags["production"] = goal
        if self.chance.random() < 0.3:
            self.tags.pop(f"sha256-{goal.hex}.sig", None)

    def planted(self) -> None:
        """Let such a writer point it at something of their own."""
        plant(self.world, made(self.chance.choice((OLD, PATCH, MINOR)), self.chance.choice(OVERLAYS[:2])))

    def restored(self) -> None:
        """Let a person point the channel at where it belongs."""
        if self.belongs in self.versions:
            self.tags["production"] = self.belongs

    def deleted(self) -> None:
        """Let a writer of the registry delete the tag."""
        self.tags.pop("production", None)

    def followed(self) -> None:
        """Let a person put the channel back as the message of a run says."""
        try:
            update(CHANNEL, self.ports(), self.intent(policy=EVERY))
        except Error as error:
            back, tag = BACK.search(error.hint), TAG.search(error.hint)
        else:
            return
        if found := back or tag:
            goal, ports, wish = Digest.parse(found[1]), self.ports(), self.intent()
            assert goal not in self.refused, self.told
            if back:
                self.run(lambda: roll_back(propose_rollback(CHANNEL, Wish(str(goal)), ports, wish), ports, wish))
            else:
                self.tags["production"] = goal
            self.belongs = self.tags.get("production", self.belongs)

    def step(self) -> None:
        """Let something happen."""
        deeds = {self.scheduled: 6, self.rolled_back: 5, self.changed: 2, self.moved: 4, self.restored: 3}
        deeds |= {self.planted: 1, self.healed: 1, self.lifted: 1, self.pruned: 1}
        deeds |= {self.deleted: 1, self.followed: 2}
        (deed,) = self.chance.choices(list(deeds), list(deeds.values()))
        self.told.append(deed.__name__)
        deed()


@pytest.mark.parametrize("seed", range(16))
def test_what_a_rollback_refused_comes_back_by_no_run_alone(seed: int) -> None:
    story = Story(random.Random(seed))  # noqa: S311  # a story that can be told again
    story.begin()
    for _ in range(STEPS):
        story.step()
