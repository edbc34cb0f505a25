"""A rollback in an emergency: what an attacker planted beside its way does not stop it, nor does a killed run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB, OCI_INDEX, Manifest
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.flows.apply import apply
from ci_automation.flows.init import init
from ci_automation.flows.lift import lift
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.publication.leaving import NotBack
from ci_automation.flows.publication.placement import ChannelMovedBack
from ci_automation.flows.publication.tags import ImmutableTagTaken, VersionTagTaken
from ci_automation.flows.rollback import Wish, propose_rollback, roll_back
from ci_automation.flows.update import update
from ci_automation.flows.verify import verify_channel
from ci_automation.policy.decision import Decision
from ci_automation.records.attached import TooManyRecords
from ci_automation.records.ledger import Ledger, left_at
from ci_automation.registry import open_registry
from ci_automation.signing.trust import TrustedKeys
from tests.contract.interference import Killed
from tests.contract.planting import (
    EVERY,
    at,
    attach_junk,
    forget_records,
    forget_signature,
    lose_contents,
    made,
    plant,
    put_in_place_of_the_list,
)
from tests.contract.publishing import publish_text
from tests.contract.rolled_back import AUTO, OURS, back, grown, kill_after_the_move, version_of
from tests.fakes.registry import Asked, InMemoryRegistry
from tests.fakes.world import CHANNEL, MINOR, OLD, OVERLAY, PATCH, World, intent, signing_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ci_automation.artifact.tree import Tree
    from ci_automation.flux.version import Version
    from ci_automation.report.adoption import Adoption

pytestmark = pytest.mark.usefixtures("unjudged")
STAGING = CHANNEL.at_tag("staging")
LESS = type(OVERLAY)(OVERLAY.files[:1])


@pytest.fixture
def world() -> World:
    """Return a channel that has the newest release, after its patch."""
    return grown()


def of(world: World, version: Version) -> Digest:
    tag = next(tag for tag in world.registry.tags(CHANNEL) if tag.startswith(f"{version}-"))
    digest = world.registry.resolve(CHANNEL.at_tag(tag))
    assert digest is not None
    return digest


def held(world: World) -> list[Version]:
    return [hold.version for hold in Ledger(world.registry, CHANNEL, OURS).holds(at(world))]


def change(world: World, overlay: Tree) -> None:
    """Publish other content, which a person approves."""
    wish = intent(overlay=overlay, policy=EVERY)
    plan = make_plan(CHANNEL, world.ports(), wish).plan
    apply(plan, (plan.steps[0].target,), world.ports(), wish)


def point_at(world: World, digest: Digest) -> None:
    world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(digest)))


def plant_beside(world: World, version: Version) -> Digest:
    """Let somebody give an artifact of their own an immutable tag, as a run would, with more than a run reads on it."""
    composed = made(OLD, LESS)
    world.registry.put_blob(CHANNEL, composed.recipe.layer)
    world.registry.put_blob(CHANNEL, CONFIG_BLOB)
    world.registry.put_manifest(CHANNEL.at_tag(f"{version}-{composed.digest.short}"), composed.manifest)
    attach_junk(world, composed.digest)
    return composed.digest


class TestWhatIsPlanted:
    @pytest.mark.parametrize(
        "raw",
        [
            b'{"schemaVersion":2,"mediaType":"%s","manifests":[]}' % OCI_INDEX.encode(),
            b"{}",
            b"no JSON",
            b'{"schemaVersion":2,"config":{},"layers":[7]}',
        ],
        ids=["an index", "nothing in it", "no JSON", "no layers"],
    )
    def test_a_manifest_that_nobody_can_read_is_left_like_all_else(self, world: World, raw: bytes) -> None:
        back(world)
        repository, planted = world.registry.repositories[str(CHANNEL.repository)], Digest.of(raw)
        repository.manifests[planted] = raw
        repository.tags["production"] = planted
        shown = back(world, str(OLD))
        assert (shown.base, version_of(world)) == (planted, OLD)
        assert shown.problem.startswith("the manifest is not a Flux artifact")
        assert {it.gate for it in shown.findings.gates} == {"content"}  # nothing is claimed about options and files
        assert MINOR in held(world)
        update(CHANNEL, world.ports(), intent(policy=EVERY))

    @pytest.mark.parametrize("ours", [True, False], ids=["from a release", "from what was planted"])
    @pytest.mark.parametrize("where", ["of the team", "planted", "present"])
    def test_records_without_number_are_no_obstacle_beside_the_way(
        self, world: World, where: str, *, ours: bool
    ) -> None:
        if not ours:
            plant(world, made(PATCH, LESS))
        if where == "planted":
            plant_beside(world, MINOR)
        else:
            attach_junk(world, of(world, OLD) if where == "of the team" else at(world))
        base = at(world)
        back(world)
        (hold,) = Ledger(world.registry, CHANNEL, OURS).holds(at(world))
        assert (version_of(world), hold.digest) == (PATCH, base)

    @pytest.mark.parametrize("ours", [True, False], ids=["from a release", "from what was planted"])
    def test_neither_is_what_is_in_the_place_of_a_list(self, *, ours: bool) -> None:
        world = World()
        world.registry.referrers_api = False
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        update(CHANNEL, world.ports(), intent())
        update(CHANNEL, world.ports(), intent(policy=AUTO))
        put_in_place_of_the_list(world, of(world, PATCH))
        if not ours:
            plant(world, made(PATCH, LESS))
        back(world, str(OLD))
        assert version_of(world) == OLD

    @pytest.mark.parametrize("listed", [True, False], ids=["too many records", "no list of them"])
    def test_neither_is_what_hides_the_marks_of_a_rollback_of_before(self, *, listed: bool) -> None:
        world = World()
        world.registry.referrers_api = listed
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        update(CHANNEL, world.ports(), intent())
        update(CHANNEL, world.ports(), intent(policy=AUTO))
        refused = at(world)
        back(world)
        if listed:
            attach_junk(world, refused, kind="hold")
        else:
            put_in_place_of_the_list(world, refused)
        back(world, str(OLD))
        record = Ledger(world.registry, CHANNEL, OURS).records(at(world))[-1]
        assert (record.version, record.rolled_back, held(world)) == (OLD, True, [MINOR, PATCH])

    def test_neither_is_another_digest_of_the_version_that_is_named(self, world: World) -> None:
        wanted = of(world, PATCH)
        plant_beside(world, PATCH)
        back(world)
        assert at(world) == wanted

    @pytest.mark.parametrize("ours", [True, False], ids=["from a release", "from what was planted"])
    def test_tags_without_number_are_looked_at_a_few_at_a_time(
        self, world: World, monkeypatch: pytest.MonkeyPatch, *, ours: bool
    ) -> None:
        if not ours:
            plant(world, made(PATCH, LESS))
        present = world.registry.manifest(CHANNEL)
        for number in range(40):
            other = Manifest.build(present.config, present.layers, {"number": str(number)})
            world.registry.put_manifest(CHANNEL.at_tag(f"v9.9.{number}-{other.digest.short}"), other)
        together: list[int] = []
        at_once = InMemoryRegistry.at_once

        def counted(registry: InMemoryRegistry, *work: Callable[[], object]) -> list[object]:
            together.append(len(work))
            return at_once(registry, *work)

        monkeypatch.setattr(InMemoryRegistry, "at_once", counted)
        back(world)
        assert version_of(world) == PATCH
        assert max(together) == 16
        assert len(together) < 20

    def test_version_tags_go_back_beside_one_that_was_planted(self) -> None:
        world, wish = World(), intent(version_tags=True)
        init(CHANNEL, OLD, world.ports(), intent(version_tags=True, overlay=OVERLAY))
        update(CHANNEL, world.ports(), wish)
        update(CHANNEL, world.ports(), intent(version_tags=True, policy=AUTO))
        planted = plant_beside(world, OLD)
        world.registry.put_manifest(CHANNEL.at_tag("v9.9.9"), world.registry.manifest(CHANNEL.at_digest(planted)))
        proposal = propose_rollback(CHANNEL, Wish(str(PATCH)), world.ports(), wish)
        with pytest.raises(VersionTagTaken, match=r"v9\.9\.9"):
            roll_back(proposal, world.ports(), wish)
        assert world.registry.resolve(CHANNEL.at_tag(str(MINOR))) == at(world) == of(world, PATCH)

    def test_an_immutable_tag_that_was_moved_is_told_when_all_else_is_done(self, world: World) -> None:
        wanted = of(world, PATCH)
        tag = CHANNEL.at_tag(f"{PATCH}-{wanted.short}")
        world.registry.put_manifest(tag, world.registry.manifest(CHANNEL))
        with pytest.raises(ImmutableTagTaken, match=str(tag.tag)):
            back(world, str(wanted))
        assert at(world) == wanted
        assert Ledger(world.registry, CHANNEL, OURS).records(wanted)[-1].rolled_back

    @pytest.mark.parametrize("signed", [True, False], ids=["", "unsigned too"])
    def test_contents_that_were_deleted_are_not_and_the_release_is_held(self, world: World, *, signed: bool) -> None:
        refused = at(world)
        lose_contents(world, refused)
        if not signed:
            forget_signature(world, refused)
        shown = back(world)
        assert (shown.problem, shown.base_version, version_of(world), held(world)) == ("", MINOR, PATCH, [MINOR])
        assert [it.gate for it in shown.findings.gates] == ["content"]
        note = left_at(Ledger(world.registry, CHANNEL, OURS).said(refused), f"{CHANNEL}")
        assert shown.hold
        assert note == shown.hold.since

    def test_neither_is_a_manifest_that_was_deleted_in_a_folder(self, tmp_path: Path) -> None:
        world, channel = World(), Reference.parse(f"layout:{tmp_path}:production")
        ports = replace(world.ports(), registry=open_registry(channel))
        init(channel, OLD, ports, intent(overlay=OVERLAY))
        update(channel, ports, intent(policy=AUTO))
        newest = ports.registry.resolve(channel)
        assert newest
        (tmp_path / "blobs/sha256" / newest.hex).unlink()
        ports = replace(world.ports(), registry=open_registry(channel))
        roll_back(propose_rollback(channel, Wish(str(OLD)), ports, intent()), ports, intent())
        there = ports.registry.resolve(channel)
        assert there
        assert [it.digest for it in ports.ledger(channel).holds(there)] == [newest]

    def test_contents_that_were_deleted_let_nobody_go_up(self, world: World) -> None:
        newest = at(world)
        back(world)
        lose_contents(world, at(world))
        with pytest.raises(NotBack, match=f"{MINOR} is newer than {PATCH}"):
            propose_rollback(CHANNEL, Wish(str(newest)), world.ports(), intent())

    def test_contents_of_another_tool_that_were_deleted_have_the_version_of_their_record(self) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        forget_signature(world, publish_text(world, made(MINOR).recipe.components.encode()))
        update(CHANNEL, world.ports(), intent(adopt=True))
        lose_contents(world, at(world))
        assert (back(world, str(OLD)).base_version, held(world)) == (MINOR, [MINOR])

    @pytest.mark.parametrize("what", ["target", "present"])
    def test_what_hides_the_holds_on_the_way_is(self, world: World, what: str) -> None:
        before = at(world)
        attach_junk(world, of(world, PATCH) if what == "target" else before, kind="hold")
        with pytest.raises(TooManyRecords, match=str(of(world, PATCH) if what == "target" else before)):
            back(world)
        assert at(world) == before


class TestTheHoldAgain:
    def test_going_back_from_where_an_attacker_moved_the_channel_up_again_holds_the_release(self, world: World) -> None:
        refused = at(world)
        back(world)
        point_at(world, refused)
        forget_signature(world, refused)
        shown = back(world)
        assert (shown.problem != "", shown.hold and shown.hold.version) == (True, MINOR)
        kept = at(world)
        update(CHANNEL, world.ports(), intent(policy=AUTO))
        assert (at(world), held(world)) == (kept, [MINOR])

    def test_so_it_does_where_the_records_of_the_release_are_gone(self, world: World) -> None:
        refused = at(world)
        back(world)
        point_at(world, refused)
        forget_signature(world, refused)
        forget_records(world, refused)
        back(world)
        kept = at(world)
        update(CHANNEL, world.ports(), intent(policy=AUTO))
        assert (at(world), held(world)) == (kept, [MINOR])

    def test_one_that_never_moved_long_ago_lends_it_no_date(self, world: World) -> None:
        long_ago = replace(world.ports(), clock=lambda: datetime.now(UTC) + timedelta(hours=1))

        def before(asked: Asked) -> None:
            if asked == Asked("put_manifest", str(CHANNEL)):
                raise Killed

        proposal = propose_rollback(CHANNEL, Wish(str(PATCH)), long_ago, intent())
        world.registry.before = before
        with pytest.raises(Killed):
            roll_back(proposal, long_ago, intent())
        world.registry.before = lambda _: None
        now = datetime.now(UTC) + timedelta(days=30)
        today = replace(world.ports(), clock=lambda: now)
        proposal = propose_rollback(CHANNEL, Wish(str(PATCH)), today, intent())
        roll_back(proposal, today, intent())
        (hold,) = Ledger(world.registry, CHANNEL, OURS).holds(at(world))
        assert hold.since >= now


def test_what_a_run_publishes_that_began_before_the_release_came_and_went_is_noticed_by_the_next() -> None:
    world = World()
    oldest = init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY)).digest
    world.registry.requests.clear()

    def meanwhile(asked: Asked) -> None:
        if asked == Asked("resolve", str(CHANNEL)):  # the last look before the move
            world.registry.before = lambda _: None
            update(CHANNEL, world.ports(), intent())
            back(world, str(OLD))
            assert at(world) == oldest

    world.registry.before = meanwhile
    update(CHANNEL, world.ports(), intent())
    assert version_of(world) == PATCH
    with pytest.raises(ChannelMovedBack, match="rolled back"):
        update(CHANNEL, world.ports(), intent())


def test_a_hold_that_the_old_key_alone_signed_ends_with_it(world: World) -> None:
    back(world)
    assert held(world) == [MINOR]
    shown: list[Adoption] = []

    def ask(adoption: Adoption) -> bool:
        shown.append(adoption)
        return True

    new = replace(world.ports("theirs", "theirs"), confirm=ask)
    update(CHANNEL, new, intent(adopt=True, policy=EVERY))
    assert [adoption.holds for adoption in shown] == [()]
    assert Ledger(world.registry, CHANNEL, TrustedKeys((signing_key("theirs").public,))).holds(at(world)) == ()


class TestWhatOnlyAnotherChannelPublished:
    """Somebody, or a promotion that ended half-way, moves the channel to a release that it never was said to have."""

    @pytest.fixture
    def staged(self) -> World:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        init(STAGING, MINOR, world.ports(), intent(overlay=OVERLAY))
        other = world.registry.resolve(STAGING)
        assert other is not None
        point_at(world, other)
        return world

    def test_holds_back_itself_alone_where_the_channel_goes_back_to_what_it_had(self, staged: World) -> None:
        other = at(staged)
        shown = back(staged, str(OLD))
        (hold,) = Ledger(staged.registry, CHANNEL, OURS).holds(at(staged))
        assert (hold.version, hold.digest, hold.alone, hold) == (MINOR, other, True, shown.hold)
        assert update(CHANNEL, staged.ports(), intent()).done == 1
        assert version_of(staged) == PATCH

    def test_holds_back_what_is_older_where_it_goes_further_back(self, staged: World) -> None:
        other = at(staged)
        point_at(staged, of(staged, OLD))
        update(CHANNEL, staged.ports(), intent())
        point_at(staged, other)
        back(staged, str(OLD))
        assert held(staged) == [MINOR]
        assert update(CHANNEL, staged.ports(), intent()).done == 0


@pytest.mark.parametrize("by", ["adoption", "rollback"])
def test_the_hold_on_what_another_writer_put_there_keeps_no_release_back_once_the_channel_is_lower(by: str) -> None:
    world = World()
    init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
    oldest = world.registry.manifest(CHANNEL)
    update(CHANNEL, world.ports(), intent())
    planted = plant(world, made(MINOR))
    back(world)
    if by == "adoption":
        world.registry.put_manifest(CHANNEL, oldest)
        update(CHANNEL, world.ports(), intent(adopt=True))
    else:
        back(world, str(OLD), until=datetime(2026, 11, 22, tzinfo=UTC))
    kept = Ledger(world.registry, CHANNEL, OURS).holds(at(world))
    assert [(hold.version, hold.alone) for hold in kept if hold.digest == planted] == [(MINOR, True)]
    later = replace(world.ports(), clock=lambda: datetime(2026, 11, 25, tzinfo=UTC))
    update(CHANNEL, later, intent(now=datetime(2026, 11, 25, tzinfo=UTC)))
    assert version_of(world) == PATCH


def test_other_content_that_was_left_stays_away_when_a_release_below_it_is_taken() -> None:
    world = World()
    init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
    update(CHANNEL, world.ports(), intent(policy=AUTO))
    left = at(world)
    change(world, LESS)
    changed = at(world)
    for to in (left, changed, of(world, OLD)):
        back(world, str(to))
    names = {hold.digest: name for name, hold in Ledger(world.registry, CHANNEL, OURS).named_holds(at(world))}
    assert names.keys() == {left, changed}
    lift(CHANNEL, "", world.ports(), intent(), only=names[changed])
    outcome = update(CHANNEL, world.ports(), intent(policy=AUTO))
    assert (version_of(world), outcome.left) == (PATCH, Decision.WAIT)
    assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 0


def test_what_another_writer_puts_there_again_still_holds_no_release(world: World) -> None:
    published = world.registry.manifest(CHANNEL)
    planted = plant(world, made(MINOR, LESS))
    back(world, str(OLD))
    plant(world, made(MINOR, LESS))
    back(world, str(OLD))
    kept = Ledger(world.registry, CHANNEL, OURS).holds(at(world))
    assert [(hold.version, hold.alone) for hold in kept if hold.digest == planted] == [(MINOR, True)]
    assert [hold.digest for hold in kept] == [planted]
    update(CHANNEL, world.ports(), intent(policy=AUTO))
    assert at(world) == published.digest


def test_a_second_rollback_of_a_day_counts_after_what_came_in_between_though_it_is_killed(world: World) -> None:
    newest, older = at(world), of(world, PATCH)
    back(world)
    change(world, LESS)
    point_at(world, newest)
    second = propose_rollback(CHANNEL, Wish(str(older)), world.ports(), intent())
    kill_after_the_move(world, lambda: roll_back(second, world.ports(), intent()))
    assert update(CHANNEL, world.ports(), intent(policy=EVERY)).done == 0
    assert Ledger(world.registry, CHANNEL, OURS).records(older)[-1].rolled_back
    assert verify_channel(CHANNEL, world.ports(), intent()).problem is None


class TestAfterAKilledPublication:
    """A run moved the channel, and ended before it wrote the record of that."""

    def killed(self, before_it: Callable[[World], object]) -> World:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        before_it(world)
        kill_after_the_move(world, lambda: update(CHANNEL, world.ports(), intent(policy=AUTO)))
        return world

    def test_what_follows_it_is_no_step_back_though_a_clock_was_ahead_before(self) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        ahead = replace(world.ports(), clock=lambda: datetime.now(UTC) + timedelta(days=90))
        update(CHANNEL, ahead, intent(policy=AUTO))
        kill_after_the_move(world, lambda: change(world, LESS))
        change(world, type(OVERLAY)(OVERLAY.files[:2]))
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 0

    @pytest.mark.parametrize("to", [PATCH, OLD], ids=str)
    def test_the_digest_that_was_left_does_not_come_back_though_nothing_signed_is_about_it(self, to: Version) -> None:
        world = self.killed(lambda world: to == OLD or update(CHANNEL, world.ports(), intent()))
        left = at(world)
        forget_signature(world, left)
        back(world, str(to))
        outcome = update(CHANNEL, world.ports(), intent(policy=AUTO))
        assert (version_of(world), outcome.left) == (PATCH, Decision.WAIT)
        assert at(world) != left

    @pytest.mark.parametrize("fast", [timedelta(), timedelta(days=90)], ids=["clocks agree", "one was ahead"])
    def test_nobody_moves_the_channel_up_again_to_what_it_had_before_that(self, fast: timedelta) -> None:
        def patched(world: World) -> None:
            ahead = replace(world.ports(), clock=lambda: datetime.now(UTC) + fast)
            assert update(CHANNEL, ahead, intent()).done == 1

        world = self.killed(patched)
        left = at(world)
        back(world, str(OLD))
        oldest = at(world)
        update(CHANNEL, world.ports(), intent(policy=AUTO))
        assert (at(world), held(world)) == (oldest, [MINOR])
        assert verify_channel(CHANNEL, world.ports(), intent()).problem is None
        for other in (of(world, PATCH), left):
            point_at(world, other)
            with pytest.raises(ChannelMovedBack):
                update(CHANNEL, world.ports(), intent(policy=AUTO))
