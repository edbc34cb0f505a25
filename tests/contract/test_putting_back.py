"""A channel whose tag somebody moved back without a record: the way back to what it had last, and to nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Reference
from ci_automation.errors import UsageError
from ci_automation.flows.history import history
from ci_automation.flows.init import init
from ci_automation.flows.observe import ChannelMoved
from ci_automation.flows.publication.leaving import NotBack
from ci_automation.flows.publication.past import NotInHistory
from ci_automation.flows.publication.placement import ChannelMovedBack, PublishedElsewhere
from ci_automation.flows.rollback import NothingHeld, Wish, propose_rollback, roll_back
from ci_automation.flows.update import update
from ci_automation.flows.verify import verify_channel
from ci_automation.flux.artifact import immutable_tag
from ci_automation.flux.proof import Proof
from ci_automation.impact.assess import Impact
from ci_automation.records.ledger import ImmutableTagMoved, Ledger
from ci_automation.records.writer import RecordWriter
from ci_automation.registry import open_registry
from ci_automation.registry.port import NotFound
from ci_automation.report.rollback import rollback_parts
from ci_automation.signing.signer import KeySigner
from tests.contract.interference import kill_at
from tests.contract.planting import (
    at,
    attach_junk,
    delete_channel,
    forget_records,
    forget_signature,
    lose_contents,
    made,
    plant,
)
from tests.contract.rolled_back import AUTO, OURS, back, grown, kill_after_the_move, killed_after_the_move
from tests.contract.test_placement import HOUR, SMALLER, STAGING, change_overlay, later, point
from tests.fakes.world import CHANNEL, MINOR, NOW, OLD, OVERLAY, PATCH, World, intent, signing_key

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.artifact.reference import Digest
    from ci_automation.flux.version import Version
    from ci_automation.policy.decision import Hold


@pytest.fixture(autouse=True)
def unjudged(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("findings", "step"):
        monkeypatch.setattr(f"ci_automation.flows.planning.{module}.impact_of", lambda *_: Impact())


@pytest.fixture
def world() -> World:
    """Return a channel that has the newest release, after its patch."""
    return grown()


def tagged(world: World, version: Version) -> Digest:
    """Return the only digest with that version."""
    found = [digest for tag, digest in tags(world).items() if tag.startswith(f"{version}-")]
    assert len(found) == 1
    return found[0]


def tags(world: World) -> dict[str, Digest]:
    return world.registry.repositories[str(CHANNEL.repository)].tags


def holds(world: World) -> list[Hold]:
    """Return the holds on each digest of the channel."""
    ledger = Ledger(world.registry, CHANNEL, OURS)
    return [hold for tag, digest in tags(world).items() if tag.startswith("v") for hold in ledger.holds(digest)]


class TestTheWayBack:
    @pytest.mark.parametrize("adopts", [False, True])
    def test_content_that_is_back_without_its_record_goes_on_by_either_command_of_the_message(
        self, world: World, adopts: bool
    ) -> None:
        first, second = at(world), change_overlay(world, 1)
        kill_after_the_move(world, lambda: change_overlay(world, 2, OVERLAY))
        assert at(world) == first
        with pytest.raises(ChannelMovedBack) as caught:
            update(CHANNEL, world.ports(), intent())
        assert f"`rollback {CHANNEL} --to {second}`" in caught.value.hint
        assert f"`update {CHANNEL} --adopt`" in caught.value.hint
        if adopts:
            update(CHANNEL, world.ports(), intent(adopt=True))
        else:
            back(world, str(second))
        assert at(world) == (first if adopts else second)
        assert update(CHANNEL, world.ports(), intent()).done == 0

    @pytest.mark.parametrize("form", ["version", "tag", "digest"])
    @pytest.mark.parametrize("moved", [OLD, PATCH], ids=str)
    def test_leads_to_what_the_channel_had_last(self, world: World, moved: Version, form: str) -> None:
        last, older = at(world), tagged(world, moved)
        point(world, older)
        with pytest.raises(ChannelMovedBack) as caught:
            update(CHANNEL, world.ports(), intent())
        assert f"`rollback {CHANNEL} --to {last}`" in caught.value.hint
        shown = back(world, {"version": str(MINOR), "tag": immutable_tag(MINOR, last), "digest": str(last)}[form])
        assert (shown.base, shown.base_version, shown.target, shown.hold) == (older, moved, last, None)
        assert at(world) == last
        record = Ledger(world.registry, CHANNEL, OURS).records(last)[-1]
        assert (record.put_back, record.rolled_back, record.previous, record.version) == (True, False, older, MINOR)
        assert record.at > max(it.at for it in Ledger(world.registry, CHANNEL, OURS).records(older))
        assert holds(world) == []
        assert verify_channel(CHANNEL, world.ports(), intent()).problem is None
        assert update(CHANNEL, world.ports(), intent()).done == 0

    def test_is_what_is_left_if_an_attacker_deleted_the_newest_tag(self, world: World) -> None:
        last, patch = at(world), tagged(world, PATCH)
        del tags(world)[immutable_tag(MINOR, last)]
        point(world, tagged(world, OLD))
        shown = back(world, str(PATCH))
        assert (shown.puts_back, at(world)) == (True, patch)

    def test_says_what_happened(self, world: World) -> None:
        point(world, tagged(world, OLD))
        page = "\n".join(map(str, rollback_parts(back(world, str(MINOR)), None, name="production")))
        assert f"The tag was moved back from {MINOR} to {OLD} without a record. This puts it back at {MINOR}." in page
        assert f"production goes back to {MINOR}, which it had last:" in page
        assert "No hold is written" in page
        assert "on hold" not in page

    def test_is_named_where_no_target_is(self, world: World) -> None:
        last = at(world)
        point(world, tagged(world, OLD))
        with pytest.raises(NotInHistory) as caught:
            propose_rollback(CHANNEL, Wish(""), world.ports(), intent())
        assert f"one of these tags: {immutable_tag(MINOR, last)}" in caught.value.hint

    def test_forgets_nothing_that_the_record_said_of_the_digest(self, world: World) -> None:
        last = at(world)
        writer = RecordWriter(world.registry, CHANNEL, KeySigner(signing_key()))
        (made,) = writer.own.records(last)
        said = replace(made, at=made.at + HOUR, proof=Proof.NONE, promoted_from="oci://registry.example/acme/a:staging")
        writer.write(world.registry.manifest(CHANNEL), said)
        point(world, tagged(world, OLD))
        back(world, str(MINOR))
        *_, now = writer.own.records(last)
        assert (now.put_back, now.proof, now.promoted_from) == (True, said.proof, said.promoted_from)
        assert (now.content, now.options) == (said.content, said.options)

    def test_is_taken_while_the_channel_is_paused_or_frozen(self, world: World) -> None:
        last = at(world)
        point(world, tagged(world, OLD))
        paused = intent(paused=True)
        roll_back(propose_rollback(CHANNEL, Wish(str(last)), world.ports(), paused), world.ports(), paused)
        assert at(world) == last

    def test_signs_again_what_lost_its_signature(self, world: World) -> None:
        last = at(world)
        forget_signature(world, last)
        point(world, tagged(world, OLD))
        assert back(world, str(MINOR)).signs
        assert verify_channel(CHANNEL, world.ports(), intent()).problem is None

    def test_leads_from_contents_that_were_deleted(self, world: World) -> None:
        last = at(world)
        point(world, tagged(world, OLD))
        lose_contents(world, at(world))
        assert back(world, str(MINOR)).puts_back
        assert (at(world), holds(world)) == (last, [])

    def test_leads_from_other_content_of_the_same_version(self, world: World) -> None:
        before = at(world)
        last = change_overlay(world, 1)
        point(world, before)
        wish = Wish(str(last))
        proposal = propose_rollback(CHANNEL, wish, later(world, 2), intent())
        roll_back(proposal, later(world, 2), intent())
        (line, *_) = map(str, rollback_parts(proposal.shown, None))
        assert f"moved back from {MINOR} to other content of it without a record" in line
        assert (at(world), holds(world)) == (last, [])

    def test_can_be_taken_each_time_somebody_moves_the_tag(self, world: World) -> None:
        last = at(world)
        for moved in (OLD, PATCH, OLD):
            point(world, tagged(world, moved))
            back(world, str(MINOR))
        records = Ledger(world.registry, CHANNEL, OURS).records(last)
        assert [it.put_back for it in records] == [False, True, True, True]
        entries = {it.digest: it for it in history(CHANNEL, world.ports()).entries}
        assert (entries[last].number, len(entries[last].records)) == (1, 4)

    def test_dates_its_record_after_what_faster_clocks_wrote(self, world: World) -> None:
        last = at(world)
        point(world, tagged(world, PATCH))
        proposal = propose_rollback(CHANNEL, Wish(str(last)), later(world, 1), intent())
        roll_back(proposal, later(world, 1), intent())
        was, now = Ledger(world.registry, CHANNEL, OURS).records(last)
        assert now.put_back
        assert now.at > was.at > NOW + HOUR

    def test_that_was_killed_is_finished_by_the_same_command(self, world: World) -> None:
        last, older = at(world), tagged(world, OLD)
        point(world, older)
        world.registry.requests.clear()
        back(world, str(MINOR))
        for request in range(len(world.registry.requests)):
            killed = grown()
            point(killed, older)
            killed.registry.requests.clear()
            kill_at(killed, request, partial(back, killed, str(MINOR)))
            assert at(killed) in {older, last}
            back(killed, str(MINOR))
            assert (at(killed), holds(killed)) == (last, []), request
            assert verify_channel(CHANNEL, killed.ports(), intent()).problem is None


class TestNoOtherWay:
    def test_no_other_way_leads_up_to_what_the_channel_had_before_that(self, world: World) -> None:
        last, patch = at(world), tagged(world, PATCH)
        point(world, tagged(world, OLD))
        with pytest.raises(NotBack) as caught:
            propose_rollback(CHANNEL, Wish(str(patch)), world.ports(), intent())
        assert f"To put it back at {MINOR}, which it had last: `rollback {CHANNEL} --to {last}`" in caught.value.hint

    def test_no_other_way_leads_up_where_nothing_was_moved(self, world: World) -> None:
        newest = at(world)
        back(world)
        with pytest.raises(NotBack) as caught:
            propose_rollback(CHANNEL, Wish(str(newest)), world.ports(), intent())
        assert "--to" not in caught.value.hint

    def test_no_other_way_leads_to_what_is_on_hold(self, world: World) -> None:
        newest = at(world)
        back(world)
        (held,) = holds(world)
        point(world, tagged(world, OLD))
        with pytest.raises(NotBack, match=f"{MINOR} is newer than {OLD}"):
            propose_rollback(CHANNEL, Wish(str(newest)), world.ports(), intent())
        assert back(world, str(PATCH)).also == (held,)
        assert (at(world), holds(world)) == (tagged(world, PATCH), [held])
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 0

    def test_no_other_way_leads_to_what_was_rolled_back_though_its_hold_was_deleted(self, world: World) -> None:
        newest, patch = at(world), tagged(world, PATCH)
        back(world)
        forget_records(world, patch)
        point(world, tagged(world, OLD))
        with pytest.raises(NotBack):
            propose_rollback(CHANNEL, Wish(str(newest)), world.ports(), intent())

    def test_no_other_way_leads_up_again_after_a_rollback_that_wrote_no_record(self, world: World) -> None:
        newest, patch = at(world), tagged(world, PATCH)
        killed_after_the_move(world)
        point(world, tagged(world, OLD))
        with pytest.raises(NotBack):
            propose_rollback(CHANNEL, Wish(str(newest)), world.ports(), intent())
        back(world, str(PATCH))
        assert at(world) == patch
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 0
        point(world, newest)
        with pytest.raises(ChannelMovedBack, match="rolled back"):
            update(CHANNEL, world.ports(), intent(policy=AUTO))

    def test_no_other_way_leads_to_what_another_channel_had_last(self, world: World) -> None:
        old, last = tagged(world, OLD), at(world)
        init(STAGING, OLD, world.ports(), intent(overlay=SMALLER))
        staged = world.registry.resolve(STAGING)
        assert staged
        update(STAGING, world.ports(), intent())
        newer = world.registry.resolve(STAGING)
        point(world, staged)
        with pytest.raises(PublishedElsewhere):
            update(CHANNEL, world.ports(), intent())
        with pytest.raises(Exception, match="never had"):
            propose_rollback(CHANNEL, Wish(str(newer)), world.ports(), intent())
        assert old != staged
        shown = back(world, str(last))
        assert (at(world), shown.puts_back, holds(world)) == (last, True, [])
        assert world.registry.resolve(STAGING) == newer

    def test_no_way_leads_up_while_an_attacker_hides_what_was_last(self, world: World) -> None:
        last, patch = at(world), tagged(world, PATCH)
        tags(world)[immutable_tag(MINOR, last)] = patch
        point(world, tagged(world, OLD))
        for to in (patch, last):
            with pytest.raises(ImmutableTagMoved):
                propose_rollback(CHANNEL, Wish(str(to)), world.ports(), intent())

    def test_none_holds_anything_until_a_date(self, world: World) -> None:
        point(world, tagged(world, OLD))
        with pytest.raises(NothingHeld) as caught:
            propose_rollback(CHANNEL, Wish(str(MINOR), datetime(2027, 1, 1, tzinfo=UTC)), world.ports(), intent())
        assert isinstance(caught.value, UsageError)

    def test_none_is_taken_once_another_run_went_on_from_there(self, world: World) -> None:
        last, older = at(world), tagged(world, OLD)
        point(world, older)
        proposal = propose_rollback(CHANNEL, Wish(str(last)), world.ports(), intent())
        back(world, str(MINOR))
        change_overlay(world, 1)
        point(world, older)
        world.registry.requests.clear()
        with pytest.raises(ChannelMoved):
            roll_back(proposal, later(world, 2), intent())
        assert at(world) == older
        assert not [it for it in world.registry.requests if it.method.startswith("put")]


def test_a_rollback_within_a_version_is_stopped_by_nothing_that_an_attacker_hides(world: World) -> None:
    before = at(world)
    last = change_overlay(world, 1)
    point(world, before)
    tags(world)[immutable_tag(PATCH, tagged(world, PATCH))] = last
    proposal = propose_rollback(CHANNEL, Wish(str(last)), later(world, 2), intent())
    roll_back(proposal, later(world, 2), intent())
    assert (at(world), {hold.digest for hold in holds(world)}) == (last, {before})


def test_a_rollback_from_an_untrusted_digest_says_if_its_target_was_refused(world: World) -> None:
    refused = at(world)
    back(world, str(OLD), reason="webhooks time out")
    plant(world, made(PATCH, SMALLER))
    shown = propose_rollback(CHANNEL, Wish(str(refused)), world.ports(), intent()).shown
    told = [str(getattr(part, "text", "")) for part in rollback_parts(shown, None)]
    (line,) = [each for each in told if "A rollback refused" in each]
    assert line.startswith(f"A rollback refused {MINOR} ({refused.short}) at 20")
    assert line.endswith("UTC (webhooks time out). Going back to it ends that hold.")
    other = propose_rollback(CHANNEL, Wish(str(OLD)), world.ports(), intent()).shown
    assert other.ended is None


class TestADeletedTag:
    def test_is_said_to_be_put_back_at_what_the_channel_had_last(self, world: World) -> None:
        last = at(world)
        delete_channel(world)
        for run in (partial(update, CHANNEL, world.ports(), intent()), partial(back, world)):
            with pytest.raises(NotFound) as caught:
                run()
            repository = str(CHANNEL.repository)
            command = f"`flux tag artifact {repository}@{last} --tag production`"
            assert f"its signed records say that it had {MINOR} last" in caught.value.hint
            assert f"To put it back: {command}. " in caught.value.hint
        point(world, last)  # as that command does
        assert verify_channel(CHANNEL, world.ports(), intent()).problem is None
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 0

    def test_is_not_said_to_be_put_back_at_what_a_rollback_left(self, world: World) -> None:
        patch = tagged(world, PATCH)
        back(world)
        forget_records(world, patch)
        delete_channel(world)
        with pytest.raises(NotFound) as caught:
            update(CHANNEL, world.ports(), intent())
        assert "flux tag" not in caught.value.hint

    def test_is_put_back_where_a_rollback_led_that_wrote_no_record(self, world: World) -> None:
        patch = tagged(world, PATCH)
        killed_after_the_move(world)
        delete_channel(world)
        with pytest.raises(NotFound) as caught:
            update(CHANNEL, world.ports(), intent())
        assert f"@{patch} --tag production`" in caught.value.hint
        point(world, patch)
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 0
        assert at(world) == patch

    def test_of_a_channel_without_records_is_a_channel_that_was_never_there(self, world: World) -> None:
        with pytest.raises(NotFound) as caught:
            update(STAGING, world.ports(), intent())
        assert caught.value.hint.startswith("Channels there: production. Check the spelling")

    def test_says_no_more_where_an_attacker_hides_a_part_of_the_past(self, world: World) -> None:
        attach_junk(world, at(world))
        delete_channel(world)
        with pytest.raises(NotFound) as caught:
            update(CHANNEL, world.ports(), intent())
        assert "flux tag" not in caught.value.hint

    def test_in_a_folder_is_pointed_at_the_digest(self, world: World, tmp_path: Path) -> None:
        channel = Reference.parse(f"layout:{tmp_path}:production")
        ports = replace(world.ports(), registry=open_registry(channel))
        first = init(channel, OLD, ports, intent(overlay=OVERLAY))
        index = tmp_path / "index.json"
        index.write_text(index.read_text().replace('"production"', '"gone"'))
        with pytest.raises(NotFound) as caught:
            update(channel, replace(ports, registry=open_registry(channel)), intent())
        assert f"To put it back: let the tag point at {first.digest}" in caught.value.hint
