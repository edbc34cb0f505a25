"""Whether a channel is where it belongs: what is recorded, and what an attacker without a key does not get."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB
from ci_automation.artifact.reference import Reference
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.flows.apply import apply
from ci_automation.flows.bootstrap import prepare
from ci_automation.flows.history import history
from ci_automation.flows.init import init
from ci_automation.flows.lift import lift
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.planning.promotion import Promotion
from ci_automation.flows.promote import promote
from ci_automation.flows.publication.copy import copy
from ci_automation.flows.publication.placement import ChannelMovedBack, PublishedElsewhere
from ci_automation.flows.rollback import Wish, propose_rollback, roll_back
from ci_automation.flows.update import NotOurs, heal, update
from ci_automation.flows.verify import pull, verify_channel
from ci_automation.flux.artifact import immutable_tag
from ci_automation.flux.following import SyncSettings
from ci_automation.flux.version import Version
from ci_automation.policy.model import BUMPS, Action, MinorStep, Period, Policy, SignatureFormat
from ci_automation.policy.plan import Plan
from ci_automation.records.ledger import ImmutableTagMoved, Ledger
from ci_automation.registry import open_registry
from ci_automation.registry.layout import IDENTITY
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.trust import TrustedKeys
from ci_automation.signing.verify import Unsigned, ensure_signed
from tests.contract.interference import interfere, kill_at
from tests.contract.planting import EVERY, at, forget_records, forget_signature, made, plant, signatures
from tests.fakes.registry import Asked, InMemoryRegistry
from tests.fakes.world import CHANNEL, MINOR, NOW, OLD, OVERLAY, PATCH, World, intent, signing_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from ci_automation.artifact.reference import Digest
    from ci_automation.flows.ports import Ports

OURS = TrustedKeys((signing_key().public,))
STAGING = CHANNEL.at_tag("staging")
AUTO = Policy(actions=dict.fromkeys(BUMPS, Action.AUTO), escalate=frozenset())
HOUR = timedelta(hours=1)
ADOPTED = Tree((*OVERLAY.files[1:], TreeFile("new.yaml", b"a: 1\n")))
SMALLER = Tree(OVERLAY.files[:1])


@pytest.fixture
def world() -> World:
    """Return a channel that has the oldest release, with a record."""
    world = World()
    init(CHANNEL, OLD, later(world, 0), intent(overlay=OVERLAY))
    return world


def point(world: World, digest: Digest) -> None:
    """Let an attacker point the channel at a digest of the repository."""
    world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(digest)))


def moves(world: World, digest: Digest) -> list[str]:
    """Return which channels have a record of a digest."""
    return [record.channel for record in Ledger(world.registry, CHANNEL, OURS).all_records(digest)]


def later(world: World, hours: int, **changes: Any) -> Any:
    """Return the ports of a run that many hours later."""
    return replace(world.ports(), clock=lambda: NOW + hours * HOUR, **changes)


def change_overlay(world: World, hours: int, overlay: Tree = SMALLER) -> Digest:
    """Publish another overlay with the present version, that many hours later, and return its digest."""
    wanted = intent(overlay=overlay, policy=EVERY)
    plan = make_plan(CHANNEL, later(world, hours), wanted).plan
    apply(plan, {plan.steps[-1].target}, later(world, hours), wanted)
    return at(world)


def patch(world: World, hours: int) -> None:
    """Publish the next patch, that many hours later."""
    assert update(CHANNEL, later(world, hours), intent()).done == 1


class TestTheNextReleaseUnderTheChannel:
    """An attacker renders what the next run would publish, and points the channel at it, unsigned."""

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({}, id="allowed now"),
            pytest.param({"paused": True}, id="paused"),
            pytest.param(
                {"policy": replace(Policy(), freeze=(Period("0 0 * * *", timedelta(days=2), ZoneInfo("UTC")),))},
                id="frozen",
            ),
            pytest.param(
                {"policy": replace(Policy(), window=(Period("0 0 1 1 *", timedelta(hours=1), ZoneInfo("UTC")),))},
                id="outside of the window",
            ),
            pytest.param(
                {"policy": replace(Policy(), min_release_age=dict.fromkeys(BUMPS, timedelta(days=10_000)))}, id="young"
            ),
            pytest.param({"policy": replace(AUTO, minor_step=MinorStep.NEXT)}, id="one minor at a time"),
        ],
    )
    @pytest.mark.parametrize("version", [PATCH, MINOR], ids=str)
    def test_is_not_signed(self, world: World, version: Any, changes: dict[str, Any]) -> None:
        planted = plant(world, made(version))
        before = signatures(world)
        with pytest.raises(NotOurs, match=str(planted)):
            update(CHANNEL, world.ports(), intent(**changes))
        assert (signatures(world), at(world)) == (before, planted)
        with pytest.raises(Unsigned):
            make_plan(CHANNEL, world.ports(), intent())


class TestAdoption:
    """Whatever is signed for a channel leaves a signature, an immutable tag and a record."""

    @pytest.fixture
    def planted(self, world: World) -> Digest:
        return plant(world, made(PATCH, ADOPTED))

    @pytest.mark.parametrize("policy", [EVERY, Policy()], ids=["nothing is newer", "and the next patch is published"])
    def test_leaves_all_three_and_says_who(self, world: World, planted: Digest, policy: Policy) -> None:
        run = replace(intent().run, url="https://github.com/acme/fleet/actions/runs/7", actor="octocat")
        update(CHANNEL, world.ports(), intent(adopt=True, policy=policy, run=run))
        (record,) = Ledger(world.registry, CHANNEL, OURS).all_records(planted)
        assert (record.adopted, record.version, record.recovered, record.proof) == (True, PATCH, False, None)
        assert record.approval is not None
        assert (record.approval.by, record.approval.how) == ("octocat", "--adopt")
        assert world.registry.resolve(CHANNEL.at_tag(immutable_tag(PATCH, planted))) == planted
        assert verify_channel(CHANNEL.at_digest(planted), world.ports(), intent()).problem is None
        shown = next(entry for entry in history(CHANNEL, world.ports()).entries if entry.digest == planted)
        assert (shown.version, shown.tag) == (PATCH, immutable_tag(PATCH, planted))

    def test_can_be_rolled_back_to_by_its_version(self, world: World, planted: Digest) -> None:
        update(CHANNEL, later(world, 1), intent(adopt=True, policy=EVERY))
        plan = make_plan(CHANNEL, later(world, 2), intent()).plan
        apply(plan, {plan.steps[0].target}, later(world, 2), intent())
        assert at(world) != planted
        roll_back(propose_rollback(CHANNEL, Wish(str(PATCH)), later(world, 3), intent()), later(world, 3), intent())
        assert at(world) == planted

    def test_a_later_move_back_to_before_it_is_noticed(self, world: World, planted: Digest) -> None:
        (first,) = (e.digest for e in history(CHANNEL, world.ports()).entries if e.version == OLD)
        update(CHANNEL, later(world, 1), intent(adopt=True, policy=EVERY))
        point(world, first)
        with pytest.raises(ChannelMovedBack, match=str(planted)):
            update(CHANNEL, later(world, 2), intent(policy=EVERY))

    def test_that_was_killed_is_repeated_or_whole(self, world: World, planted: Digest) -> None:
        world.registry.requests.clear()
        wanted = intent(adopt=True, policy=EVERY)
        update(CHANNEL, later(world, 1), wanted)
        requests, kept = len(world.registry.requests), immutable_tag(PATCH, planted)
        for request in range(requests):
            killed = World()
            init(CHANNEL, OLD, later(killed, 0), intent(overlay=OVERLAY))
            plant(killed, made(PATCH, ADOPTED))
            killed.registry.requests.clear()
            kill_at(killed, request, partial(update, CHANNEL, later(killed, 1), wanted))
            update(CHANNEL, later(killed, 2), wanted)
            record = Ledger(killed.registry, CHANNEL, OURS).all_records(planted)[-1]
            assert (record.adopted, killed.registry.resolve(CHANNEL.at_tag(kept))) == (True, planted), request
            assert update(CHANNEL, later(killed, 3), intent(policy=EVERY)).trust == "verified"

    def test_by_check_and_heal_leaves_all_three_too(self, world: World, planted: Digest) -> None:
        assert heal(CHANNEL, later(world, 1), intent(adopt=True, policy=EVERY)).healed
        (record,) = Ledger(world.registry, CHANNEL, OURS).all_records(planted)
        assert record.adopted
        assert world.registry.resolve(CHANNEL.at_tag(immutable_tag(PATCH, planted))) == planted
        assert verify_channel(CHANNEL, world.ports(), intent()).problem is None

    def test_it_is_adopted_once(self, world: World, planted: Digest) -> None:
        update(CHANNEL, later(world, 1), intent(adopt=True, policy=EVERY))
        assert update(CHANNEL, later(world, 2), intent(policy=EVERY)).trust == "verified"
        assert at(world) == planted


def test_the_foreign_base_of_the_first_publication_is_kept_and_can_be_rolled_back_to() -> None:
    world = World()
    foreign = plant(world, made(OLD))
    ensure_signed(world.registry, CHANNEL, foreign, KeySigner(signing_key()), SignatureFormat.LEGACY)
    assert update(CHANNEL, later(world, 1), intent()).done == 1
    assert world.registry.resolve(CHANNEL.at_tag(immutable_tag(OLD, foreign))) == foreign
    roll_back(propose_rollback(CHANNEL, Wish(str(OLD)), later(world, 2), intent()), later(world, 2), intent())
    assert at(world) == foreign


class TestARollbackToAForeignBaseThatWasKilled:
    """The base of the first publication has no record; a rollback to it ended at any request."""

    @staticmethod
    def started() -> World:
        world = World()
        foreign = plant(world, made(OLD))
        ensure_signed(world.registry, CHANNEL, foreign, KeySigner(signing_key()), SignatureFormat.LEGACY)
        patch(world, 1)
        world.registry.requests.clear()
        return world

    @staticmethod
    def go_back(world: World, hours: int) -> None:
        roll_back(
            propose_rollback(CHANNEL, Wish(str(OLD)), later(world, hours), intent()), later(world, hours), intent()
        )

    def test_is_finished_by_the_next_run(self) -> None:
        whole = self.started()
        refused = at(whole)
        whole.registry.requests.clear()
        self.go_back(whole, 2)
        the_move = whole.registry.requests.index(Asked("put_manifest", str(CHANNEL)))
        for request in range(the_move, len(whole.registry.requests)):
            world = self.started()
            kill_at(world, request, partial(self.go_back, world, 2))
            if at(world) == refused or request % 2:
                self.go_back(world, 3)
            else:
                update(CHANNEL, later(world, 3), intent())
            assert (moves(world, at(world)), at(world)) == ([str(CHANNEL)], at(whole)), request
            point(world, refused)
            with pytest.raises(ChannelMovedBack, match="rolled back"):
                update(CHANNEL, later(world, 4), intent())


class TestTheDigestOfAnotherChannel:
    """An attacker points production at what staging has: the same repository, the same signer."""

    @pytest.fixture
    def staged(self, world: World) -> Digest:
        init(STAGING, OLD, later(world, 0), intent(overlay=Tree(OVERLAY.files[:1])))
        update(STAGING, later(world, 1), intent())
        digest = world.registry.resolve(STAGING)
        assert digest is not None
        point(world, digest)
        return digest

    @pytest.mark.parametrize("policy", [Policy(), EVERY], ids=["something is newer", "nothing is newer"])
    def test_is_not_recorded_for_this_one(self, world: World, staged: Digest, policy: Policy) -> None:
        before = signatures(world)
        with pytest.raises(PublishedElsewhere, match=str(STAGING)) as refusal:
            update(CHANNEL, later(world, 2), intent(policy=policy))
        assert (signatures(world), moves(world, staged), at(world)) == (before, [str(STAGING)], staged)
        assert refusal.value.exit_code == 10
        assert "finishes an interrupted promotion while its source still has the digest" in refusal.value.hint

    def test_even_if_the_policy_would_lead_to_it(self, world: World) -> None:
        init(STAGING, OLD, later(world, 0), intent(overlay=OVERLAY))
        update(STAGING, later(world, 1), intent())
        digest = world.registry.resolve(STAGING)
        assert digest is not None
        point(world, digest)
        with pytest.raises(PublishedElsewhere):
            update(CHANNEL, later(world, 2), intent())
        assert moves(world, digest) == [str(STAGING)]

    def test_is_told_by_verify_and_by_a_plan(self, world: World, staged: Digest) -> None:
        assert at(world) == staged
        assert isinstance(verify_channel(CHANNEL, world.ports(), intent()).problem, PublishedElsewhere)
        assert verify_channel(STAGING, world.ports(), intent()).problem is None
        with pytest.raises(PublishedElsewhere):
            make_plan(CHANNEL, world.ports(), intent())

    def test_is_no_alarm_for_whoever_verifies_a_mirror(self, world: World) -> None:
        mirror = Reference.parse("oci://mirror.example/acme/flux-manifests:production")
        copy(world.registry, CHANNEL, world.registry, mirror, at(world))
        assert moves(world, at(world)) == [str(CHANNEL)]
        assert verify_channel(mirror, world.ports(), intent()).problem is None
        with pytest.raises(PublishedElsewhere):
            update(mirror, world.ports(), intent())

    def test_is_told_by_verify_where_runs_publish_though_it_is_from_another_repository(self, world: World) -> None:
        other = Reference.parse("oci://registry.example/acme/other:production")
        taken = init(other, MINOR, world.ports(), intent(overlay=SMALLER)).digest
        copy(world.registry, other, world.registry, CHANNEL, taken)
        assert at(world) == taken
        assert isinstance(verify_channel(CHANNEL, world.ports(), intent()).problem, PublishedElsewhere)

    def test_can_be_adopted(self, world: World, staged: Digest) -> None:
        update(CHANNEL, later(world, 2), intent(adopt=True, policy=EVERY))
        assert moves(world, staged) == [str(STAGING), str(CHANNEL)]
        assert update(CHANNEL, later(world, 3), intent(policy=EVERY)).trust == "verified"


def test_a_channel_that_was_moved_back_is_installed_on_no_cluster(world: World) -> None:
    before = at(world)
    update(CHANNEL, later(world, 1), intent())
    point(world, before)
    with pytest.raises(ChannelMovedBack) as caught:
        prepare(CHANNEL, later(world, 2), SyncSettings(), None, "1m")
    back, _, adopting = caught.value.hint.partition(" If you moved it, ")
    assert re.search(rf"To put it back at {PATCH}: `rollback {CHANNEL} --to sha256:[0-9a-f]{{64}}` \(in GitHub", back)
    assert adopting.startswith(f"use `update {CHANNEL} --adopt` (in GitHub Actions: adopt), which")


class TestARecordThatIsMissing:
    """A digest without any record gets one only if the newest record and today's policy lead to it."""

    @pytest.fixture
    def patched(self, world: World) -> Digest:
        update(CHANNEL, later(world, 1), intent())
        digest = at(world)
        forget_records(world, digest)
        return digest

    def test_is_written_if_they_do(self, world: World, patched: Digest) -> None:
        update(CHANNEL, later(world, 2), intent())
        (record,) = Ledger(world.registry, CHANNEL, OURS).all_records(patched)
        assert (record.recovered, record.approval) == (True, None)

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({"paused": True}, id="paused"),
            pytest.param({"policy": EVERY}, id="never"),
            pytest.param(
                {"policy": replace(Policy(), min_release_age=dict.fromkeys(BUMPS, timedelta(days=10_000)))}, id="young"
            ),
        ],
    )
    def test_is_not_written_if_the_policy_does_not(
        self, world: World, patched: Digest, changes: dict[str, Any]
    ) -> None:
        update(CHANNEL, later(world, 2), intent(**changes))
        assert moves(world, patched) == []

    def test_is_not_written_for_a_minor_that_nobody_approved(self, world: World) -> None:
        update(CHANNEL, later(world, 1), intent())
        before = at(world)
        plan = make_plan(CHANNEL, later(world, 2), intent()).plan
        target = plan.steps[0].target
        apply(plan, {target}, later(world, 2), intent())
        forget_records(world, target)
        update(CHANNEL, later(world, 3), intent())
        assert (moves(world, target), at(world)) == ([], target)
        assert moves(world, before) == [str(CHANNEL)]

    def test_is_written_with_the_approval_by_the_run_that_has_it(self, world: World) -> None:
        update(CHANNEL, later(world, 1), intent())
        plan = make_plan(CHANNEL, later(world, 2), intent()).plan
        target = plan.steps[0].target
        apply(plan, {target}, later(world, 2), intent())
        forget_records(world, target)
        apply(plan, set(), later(world, 3), intent())
        assert moves(world, target) == []
        apply(plan, {target}, later(world, 4), intent())
        (record,) = Ledger(world.registry, CHANNEL, OURS).all_records(target)
        assert (record.recovered, record.approval and record.approval.how) == (True, "--approve")


class TestWithinTheNewestVersion:
    """The channel has the newest release with a new overlay, and is moved back to the same release with the old one."""

    @pytest.fixture
    def old(self, world: World) -> Digest:
        update(CHANNEL, later(world, 1), intent(policy=AUTO))
        before, smaller = at(world), Tree(OVERLAY.files[:1])
        plan = make_plan(CHANNEL, later(world, 2), intent(overlay=smaller)).plan
        apply(plan, {plan.steps[-1].target}, later(world, 2), intent(overlay=smaller))
        assert at(world) != before
        point(world, before)
        return before

    def test_an_update_with_nothing_to_do_notices(self, world: World, old: Digest) -> None:
        with pytest.raises(ChannelMovedBack):
            update(CHANNEL, later(world, 3), intent())
        assert at(world) == old

    def test_verify_notices_on_the_channel_alone(self, world: World, old: Digest) -> None:
        assert isinstance(verify_channel(CHANNEL, world.ports(), intent()).problem, ChannelMovedBack)
        assert verify_channel(CHANNEL.at_digest(old), world.ports(), intent()).problem is None
        immutable = CHANNEL.at_tag(immutable_tag(MINOR, old))
        assert verify_channel(immutable, world.ports(), intent()).problem is None

    @pytest.mark.parametrize(
        "read",
        [
            pytest.param(lambda tag, ports: verify_channel(tag, ports, intent()), id="verify"),
            pytest.param(pull, id="pull"),
        ],
    )
    def test_an_immutable_tag_that_was_moved_is_noticed_by_who_reads_it(
        self, world: World, old: Digest, read: Callable[[Reference, Ports], object]
    ) -> None:
        tags = world.registry.tags(CHANNEL)
        newer = next(tag for tag in tags if tag.startswith(f"{MINOR}-") and not tag.endswith(old.short))
        read(CHANNEL.at_tag(newer), world.ports())
        world.registry.put_manifest(CHANNEL.at_tag(newer), world.registry.manifest(CHANNEL.at_digest(old)))
        with pytest.raises(ImmutableTagMoved, match=f"{newer} points at {old}"):
            read(CHANNEL.at_tag(newer), world.ports())


class TestUpAgainAfterARollback:
    """The channel was rolled back, and an attacker points it at the refused digest again, which is signed."""

    @pytest.fixture
    def refused(self, world: World) -> Digest:
        update(CHANNEL, later(world, 1), intent())
        digest = at(world)
        roll_back(propose_rollback(CHANNEL, Wish(str(OLD)), later(world, 2), intent()), later(world, 2), intent())
        point(world, digest)
        return digest

    @pytest.mark.parametrize("policy", [Policy(), EVERY], ids=["something is newer", "nothing is newer"])
    def test_is_noticed(self, world: World, refused: Digest, policy: Policy) -> None:
        with pytest.raises(ChannelMovedBack, match="rolled back"):
            update(CHANNEL, later(world, 3), intent(policy=policy))
        assert isinstance(verify_channel(CHANNEL, world.ports(), intent()).problem, ChannelMovedBack)
        assert at(world) == refused

    def test_is_no_alarm_if_it_was_published_again(self, world: World, refused: Digest) -> None:
        roll_back(
            propose_rollback(CHANNEL, Wish(str(OLD)), later(world, 4), intent(adopt=True)), later(world, 4), intent()
        )
        until = Wish(str(OLD), until=NOW - HOUR)
        roll_back(propose_rollback(CHANNEL, until, later(world, 5), intent()), later(world, 5), intent())
        assert update(CHANNEL, later(world, 6), intent()).done == 1
        assert at(world) == refused
        assert update(CHANNEL, later(world, 7), intent(policy=EVERY)).trust == "verified"


@pytest.mark.parametrize("version", ["v2.98.5", "v99.0.0"])
def test_no_plan_says_which_version_the_channel_has(world: World, version: str) -> None:
    old, plan = at(world), make_plan(CHANNEL, later(world, 1), intent()).plan
    update(CHANNEL, later(world, 1), intent(policy=AUTO))
    point(world, old)
    lie = Plan.parse(replace(plan, current_version=Version.parse(version)).to_text().encode())
    with pytest.raises(ChannelMovedBack):
        apply(lie, {step.target for step in lie.steps}, later(world, 2), intent())
    assert at(world) == old


class TestWordsAboutAHold:
    """A channel was moved back by an attacker to where a rollback had led once; then somebody speaks of its hold."""

    @pytest.fixture
    def old(self, world: World) -> Digest:
        old = at(world)
        update(CHANNEL, later(world, 1), intent())
        roll_back(propose_rollback(CHANNEL, Wish(str(OLD)), later(world, 2), intent()), later(world, 2), intent())
        change_overlay(world, 3)
        point(world, old)
        return old

    def test_that_it_is_lifted_hide_no_move_back(self, world: World, old: Digest) -> None:
        with pytest.raises(ChannelMovedBack):
            lift(CHANNEL, "", later(world, 4), intent())
        with pytest.raises(ChannelMovedBack):
            update(CHANNEL, later(world, 5), intent())
        assert at(world) == old

    def test_that_it_has_another_reason_hide_no_move_back(self, world: World, old: Digest) -> None:
        wish = Wish(str(old), reason="webhooks time out")
        roll_back(propose_rollback(CHANNEL, wish, later(world, 4), intent()), later(world, 4), intent())
        assert isinstance(verify_channel(CHANNEL, later(world, 5), intent()).problem, ChannelMovedBack)


class TestClocksThatDiffer:
    """The clock of the machine that published before is five hours ahead of those of the machines that follow."""

    def test_are_no_alarm_after_a_publication(self, world: World) -> None:
        ahead = change_overlay(world, 10)
        behind = change_overlay(world, 5, Tree(OVERLAY.files[:2]))
        assert update(CHANNEL, later(world, 20), intent(policy=EVERY)).digest == behind
        point(world, ahead)
        with pytest.raises(ChannelMovedBack, match=str(behind)):
            update(CHANNEL, later(world, 20), intent(policy=EVERY))

    def test_are_no_alarm_after_a_rollback_and_hide_no_way_up(self, world: World) -> None:
        patch(world, 10)
        refused = at(world)
        roll_back(propose_rollback(CHANNEL, Wish(str(OLD)), later(world, 5), intent()), later(world, 5), intent())
        assert update(CHANNEL, later(world, 20), intent()).done == 0
        point(world, refused)
        with pytest.raises(ChannelMovedBack, match="rolled back"):
            update(CHANNEL, later(world, 20), intent())

    def test_are_no_alarm_after_an_adoption(self, world: World) -> None:
        patch(world, 10)
        planted = plant(world, made(PATCH, SMALLER))
        update(CHANNEL, later(world, 5), intent(adopt=True, policy=EVERY))
        assert update(CHANNEL, later(world, 20), intent(policy=EVERY)).digest == planted

    def test_are_no_alarm_after_a_promotion(self, world: World) -> None:
        for hours, overlay in ((10, SMALLER), (5, Tree(OVERLAY.files[:2]))):
            change_overlay(world, hours, overlay)
            ports, wanted = later(world, hours), intent(now=NOW + 20 * HOUR)
            assert promote(Promotion(CHANNEL, ports, STAGING, ports, wanted), {at(world)}).done
        assert update(STAGING, later(world, 20), intent(policy=EVERY)).digest == at(world)


def test_a_publication_while_a_channel_is_verified_is_no_alarm(world: World) -> None:
    world.registry.requests.clear()
    verify_channel(CHANNEL, later(world, 1), intent())
    for request in range(len(world.registry.requests)):
        meanwhile = World()
        init(CHANNEL, OLD, later(meanwhile, 0), intent(overlay=OVERLAY))
        meanwhile.registry.requests.clear()
        interfere(meanwhile, request, partial(patch, meanwhile, 1))
        assert verify_channel(CHANNEL, later(meanwhile, 2), intent()).problem is None, request


class TestLayouts:
    """Each directory has an identity of its own, which its records and holds name."""

    @staticmethod
    def start(folder: Path, **changes: Any) -> tuple[Reference, World]:
        channel = Reference.parse(f"layout:{folder}:production")
        world = World(registry=open_registry(channel))  # type: ignore[arg-type]  # another registry than that of tests
        init(channel, OLD, later(world, 0), intent(overlay=OVERLAY, **changes))
        return channel, world

    def test_have_identities_of_their_own(self, tmp_path: Path) -> None:
        a, one = self.start(tmp_path / "a")
        b, two = self.start(tmp_path / "b")
        assert one.registry.identity(a) not in {None, two.registry.identity(b)}
        (record,) = Ledger(one.registry, a, OURS).all_records(one.registry.manifest(a).digest)
        assert record.channel == f"{one.registry.identity(a)}:production"

    def test_do_not_believe_each_others_records(self, tmp_path: Path) -> None:
        a, one = self.start(tmp_path / "a")
        b, two = self.start(tmp_path / "b")
        update(a, later(one, 1), intent())
        digest = one.registry.manifest(a).digest
        copy(one.registry, a, two.registry, b.at_tag(immutable_tag(PATCH, digest)), digest)
        copy(one.registry, a, two.registry, b, digest)
        with pytest.raises(PublishedElsewhere):
            update(b, later(two, 2), intent())
        two.registry.delete_manifest(b.at_digest(two.registry.manifest(b.at_tag(f"sha256-{digest.hex}.sig")).digest))
        with pytest.raises(NotOurs):
            update(b, later(two, 2), intent())

    def test_may_be_moved_about(self, tmp_path: Path) -> None:
        _, one = self.start(tmp_path / "a")
        update(Reference.parse(f"layout:{tmp_path / 'a'}:production"), later(one, 1), intent())
        (tmp_path / "a").rename(tmp_path / "c")
        channel = Reference.parse(f"layout:{tmp_path / 'c'}:production")
        world = World(registry=open_registry(channel))  # type: ignore[arg-type]  # another registry than that of tests
        digest = world.registry.manifest(channel).digest
        world.registry.delete_manifest(
            channel.at_digest(world.registry.manifest(channel.at_tag(f"sha256-{digest.hex}.sig")).digest)
        )
        assert update(channel, later(world, 2), intent()).healed

    def test_without_one_are_never_healed(self, tmp_path: Path) -> None:
        channel = Reference.parse(f"layout:{tmp_path / 'a'}:production")
        registry = open_registry(channel)
        registry.put_blob(channel, CONFIG_BLOB)
        composed = made(OLD)
        registry.put_blob(channel, composed.recipe.layer)
        registry.put_manifest(channel.at_tag("other"), composed.manifest)
        world = World(registry=registry)  # type: ignore[arg-type]  # another registry than that of tests
        init(channel, PATCH, later(world, 0), intent())
        assert not (tmp_path / "a" / IDENTITY).exists()
        digest = registry.manifest(channel).digest
        registry.delete_manifest(
            channel.at_digest(registry.manifest(channel.at_tag(f"sha256-{digest.hex}.sig")).digest)
        )
        with pytest.raises(NotOurs):
            update(channel, later(world, 1), intent())


def test_a_registry_in_memory_is_named_by_its_address() -> None:
    assert InMemoryRegistry().identity(CHANNEL) == str(CHANNEL.repository)


def test_what_lost_its_signature_is_signed_again_if_its_record_is_the_newest(world: World) -> None:
    forget_signature(world, at(world))
    assert update(CHANNEL, world.ports(), intent(policy=EVERY, paused=True)).healed
