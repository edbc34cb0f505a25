"""Rolling back: what may be gone back to, what is shown, what is held afterwards, and crashes at any point of it."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.approval.port import ApprovalRequest, GrantedApproval
from ci_automation.artifact.reference import Digest
from ci_automation.cli import run
from ci_automation.errors import Conflict
from ci_automation.flows.apply import PlanUsed, StepRefused, apply
from ci_automation.flows.approved import ApprovalUsed, CameBack, apply_granted
from ci_automation.flows.init import StillHeld, WasNewer, init
from ci_automation.flows.lift import lift
from ci_automation.flows.observe import ChannelMoved
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.ports import NoSigner
from ci_automation.flows.publication.leaving import NotBack
from ci_automation.flows.publication.past import (
    AmbiguousVersion,
    NotInHistory,
    NotOfThisChannel,
    OtherVersion,
    PastNotOurs,
    find_past,
)
from ci_automation.flows.publication.placement import ChannelMovedBack
from ci_automation.flows.rollback import RollbackRefused, Wish, propose_rollback, roll_back
from ci_automation.flows.update import NotOurs, adopt, heal, update
from ci_automation.flows.verify import verify_channel
from ci_automation.flux.artifact import immutable_tag
from ci_automation.flux.version import Version
from ci_automation.impact.assess import Impact
from ci_automation.impact.change import Certainty, Change, ChangeKind, Hazard, ObjectId, Severity
from ci_automation.policy.decision import Decision
from ci_automation.policy.model import BUMPS, Action, Policy, SignatureFormat
from ci_automation.policy.plan import Plan
from ci_automation.records import attached
from ci_automation.records.ledger import ImmutableTagMoved, Ledger, notes_in
from ci_automation.records.notes import Approval, HoldStatement
from ci_automation.records.writer import HoldNotKept, RecordWriter
from ci_automation.registry.contents import referrers_tag
from ci_automation.report.adoption import adoption_text
from ci_automation.report.rollback import rollback_parts
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.trust import NobodyTrusted
from ci_automation.signing.verify import ForeignSignature, Unsigned, ensure_signed, verify
from tests.contract.interference import Killed, interfere, kill_at, names
from tests.contract.planting import EVERY, at, delete_channel, forget_records, forget_signature, made, plant
from tests.contract.rolled_back import AUTO, OURS, back, grown, killed_after_the_move, version_of, with_overlay
from tests.fakes.registry import Asked
from tests.fakes.world import (
    CHANNEL,
    MINOR,
    NOW,
    OLD,
    OVERLAY,
    PATCH,
    MemoryReleases,
    World,
    intent,
    made_once,
    release,
    signing_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.records.attached import Said
    from ci_automation.report.adoption import Adoption

NEWER = release("v2.99.5", like="v2.99.4", published_at="2026-11-01T00:00:00Z")
CERTAIN = Hazard(
    "crds", Certainty.CERTAIN, "crd buckets storage v1", "the storage version of buckets would go backwards"
)


@pytest.fixture(autouse=True)
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[[Impact], None]:
    """Let nobody find anything in a rollback, unless the test says so; who does has tests of its own."""

    def let(found: Impact) -> None:
        monkeypatch.setattr("ci_automation.flows.planning.findings.impact_of", lambda *_: found)

    monkeypatch.setattr("ci_automation.flows.planning.step.impact_of", lambda *_: Impact())
    let(Impact())
    return let


@pytest.fixture
def world() -> World:
    """Return a channel that has the newest release, after its patch."""
    return grown()


def held(world: World, digest: Digest | None = None) -> list[Version]:
    return [hold.version for hold in Ledger(world.registry, CHANNEL, OURS).holds(digest or at(world))]


class TestGoingBack:
    def test_the_channel_has_the_very_digest_that_it_had(self, world: World) -> None:
        newest, manifests = at(world), set(world.registry.repositories[str(CHANNEL.repository)].manifests)
        past = world.registry.resolve(CHANNEL.at_tag(next(t for t in world.registry.tags(CHANNEL) if "98.8" in t)))
        shown = back(world, reason="webhooks time out")
        assert (at(world), shown.target, shown.base, shown.target_version) == (past, past, newest, PATCH)
        added = set(world.registry.repositories[str(CHANNEL.repository)].manifests) - manifests
        assert len(added) == 3  # the hold on each of the two, and the record
        verify(world.registry, CHANNEL, at(world), OURS)

    def test_it_is_recorded_as_a_rollback_from_what_was_there(self, world: World) -> None:
        newest = at(world)
        back(world)
        record = Ledger(world.registry, CHANNEL, OURS).all_records(at(world))[-1]
        assert (record.rolled_back, record.previous, record.version) == (True, newest, PATCH)
        assert (record.approval, record.proof, record.recovered) == (None, None, False)

    def test_the_hold_names_what_was_left_and_why(self, world: World) -> None:
        newest, until = at(world), datetime(2027, 1, 31, tzinfo=UTC)
        back(world, until=until, reason="webhooks time out")
        (hold,) = Ledger(world.registry, CHANNEL, OURS).holds(at(world))
        assert (hold.version, hold.digest, hold.until, hold.reason) == (MINOR, newest, until, "webhooks time out")

    def test_the_hold_is_written_and_read_back_before_the_channel_moves(self, world: World) -> None:
        back(world)
        asked = [(it.method, it.what.removeprefix(str(CHANNEL.repository))[:20]) for it in world.registry.requests]
        written = asked.index(next(it for it in asked if it[0] == "put_referrer"))
        moved = asked.index(("put_manifest", ":production"))
        read_back = ["referrers", "manifest"]  # the second time for the content in the target's newest record
        signatures = ["manifest", *read_back, "manifest"]  # once more: what is held by now is not deleted any more
        assert [method for method, _ in asked[written + 1 : moved]] == [*read_back, *read_back, *signatures, "resolve"]
        after = ["put_manifest", "resolve", "referrers", "put_blob", "put_referrer"]
        assert [method for method, _ in asked[moved:]] == [*after, "resolve", "put_blob", "put_referrer", *read_back]

    def test_a_hold_that_a_slow_writer_overwrote_is_written_again(self, world: World) -> None:
        world.registry.referrers_api = False
        proposal = propose_rollback(CHANNEL, Wish(str(PATCH)), world.ports(), intent())
        tag = referrers_tag(CHANNEL, proposal.shown.target)
        stale = world.registry.read_index(tag)

        def overwrite(asked: Asked) -> None:
            if (asked.method, asked.what) == ("put_manifest", str(CHANNEL)):
                world.registry.before = lambda _: None
                world.registry.write_index(tag, stale)

        world.registry.before = overwrite
        roll_back(proposal, world.ports(), intent())
        assert held(world) == [MINOR]
        assert Ledger(world.registry, CHANNEL, OURS).all_records(at(world))[-1].rolled_back

    def test_nothing_is_rendered_or_fetched(self, world: World) -> None:
        world.releases.fetched.clear()
        back(world)
        assert world.releases.fetched == []

    def test_a_freeze_and_a_pause_do_not_stop_it(self, world: World) -> None:
        proposal = propose_rollback(CHANNEL, Wish(str(PATCH)), world.ports(), intent(paused=True))
        roll_back(proposal, world.ports(), intent(paused=True))
        assert version_of(world) == PATCH

    def test_looking_at_it_writes_nothing(self, world: World) -> None:
        before = world.contents()
        propose_rollback(CHANNEL, Wish(str(PATCH)), world.ports(), intent())
        assert world.contents() == before


class TestWhere:
    @pytest.mark.parametrize("form", ["version", "version without v", "tag", "digest"])
    def test_may_be_a_version_a_tag_or_a_digest(self, world: World, form: str) -> None:
        tag = next(tag for tag in world.registry.tags(CHANNEL) if tag.startswith("v2.98.8"))
        digest = world.registry.resolve(CHANNEL.at_tag(tag))
        forms = {"version": "v2.98.8", "version without v": "2.98.8", "tag": tag, "digest": str(digest)}
        back(world, forms[form])
        assert at(world) == digest

    @pytest.mark.parametrize(
        "wanted",
        [
            "",
            "v2.97.0",
            "v2.98.8-000000000000",
            f"sha256:{'0' * 64}",
            "production",
            "production@2",
            "407c2ea8c7ae",
            "sha256:407c2ea8c7ae",
        ],
    )
    def test_has_to_be_in_the_history_whose_tags_the_hint_names(self, world: World, wanted: str) -> None:
        with pytest.raises(NotInHistory) as caught:
            propose_rollback(CHANNEL, Wish(wanted), world.ports(), intent())
        (tag,) = (tag for tag in world.registry.tags(CHANNEL) if tag.startswith("v2.98.5"))
        assert tag in caught.value.hint

    @pytest.mark.parametrize(("scheme", "digits"), [("sha256:", 11), ("sha256:", 4), ("", 20), ("", 3)])
    def test_the_beginning_of_a_digest_names_its_tag(self, world: World, scheme: str, digits: int) -> None:
        registry = world.registry
        (tag,) = (tag for tag in registry.tags(CHANNEL) if tag.startswith("v2.98.5"))
        digest = registry.resolve(CHANNEL.at_tag(tag))
        assert digest is not None
        with pytest.raises(NotInHistory) as caught:
            propose_rollback(CHANNEL, Wish(f"{scheme}{digest.hex[:digits]}"), world.ports(), intent())
        assert caught.value.hint.startswith(f"Did you mean --to {tag}? " if digits > 3 else "Give a version, or")

    @pytest.mark.parametrize("scheme", ["", "sha256:"])
    def test_can_be_its_first_12_characters_unless_a_tag_lies(self, world: World, scheme: str) -> None:
        tags = world.registry.repositories[str(CHANNEL.repository)].tags
        (digest,) = (digest for tag, digest in tags.items() if tag.startswith("v2.98.5"))
        wish = Wish(f"{scheme}{digest.short}")
        assert propose_rollback(CHANNEL, wish, world.ports(), intent()).shown.target == digest
        tags[f"v2.98.8-{digest.short}"] = at(world)
        with pytest.raises(ImmutableTagMoved):
            propose_rollback(CHANNEL, wish, world.ports(), intent())

    def test_where_nothing_was_published_no_tags_are_named(self) -> None:
        error = NotInHistory(CHANNEL, "v2.98.5", Digest.of(b""), World().ports())
        assert error.hint.startswith("Nothing that this program published")

    def test_no_tag_is_named_that_a_rollback_would_refuse(self, world: World) -> None:
        """Neither what other channels alone had, nor what the channel has, nor what is newer."""
        init(CHANNEL.at_tag("staging"), PATCH, world.ports(), intent(flags={"log-level": "debug"}))
        (own,) = (tag for tag in world.registry.tags(CHANNEL) if tag.endswith(at(world).short))
        back(world, str(PATCH))
        with pytest.raises(NotInHistory, match=r"'v2\.98\.7'; the nearest is v2\.98\.5$") as caught:
            propose_rollback(CHANNEL, Wish("2.98.7"), world.ports(), intent())
        (tag,) = (tag for tag in world.registry.tags(CHANNEL) if tag.startswith("v2.98.5"))
        assert caught.value.hint.startswith(f"Give a version, or one of these tags: {tag}. ")
        assert own not in caught.value.hint

    def test_no_tag_is_named_that_hides_its_digest(self, world: World) -> None:
        tags = world.registry.repositories[str(CHANNEL.repository)].tags
        (moved,) = (tag for tag in tags if tag.startswith("v2.98.5"))
        tags[moved] = next(digest for tag, digest in tags.items() if tag.startswith("v2.98.8"))
        with pytest.raises(NotInHistory) as caught:
            propose_rollback(CHANNEL, Wish(""), world.ports(), intent())
        assert moved not in caught.value.hint

    def test_what_is_not_there_is_told_before_a_key_is_asked_for(self, world: World) -> None:
        with pytest.raises(NotInHistory, match="'v1'"):
            propose_rollback(CHANNEL, Wish("v1"), world.ports(signer=None, trusted=None), intent())
        with pytest.raises(NoSigner):
            propose_rollback(CHANNEL, Wish("v2.98.5"), world.ports(signer=None), intent())

    @pytest.mark.parametrize("row", ["@2", "production@2"])
    def test_a_number_of_the_history_is_told_to_move(self, world: World, row: str) -> None:
        with pytest.raises(NotInHistory) as caught:
            find_past(CHANNEL, row, at(world), world.ports())
        assert caught.value.hint.startswith(
            "The numbers of `history` move, so --to takes none. Give a version, or one "
        )

    def test_of_a_channel_that_had_one_digest_no_tag_is_named(self) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent())
        with pytest.raises(NotInHistory, match="nothing says where") as caught:
            propose_rollback(CHANNEL, Wish(""), world.ports(), intent())
        assert caught.value.hint.startswith("The channel is at the oldest that it had.")

    def test_names_the_neighbours_of_a_version_that_is_not_there(self, world: World) -> None:
        with pytest.raises(NotInHistory, match=r"'v2\.98\.6'; the nearest are v2\.98\.5 and v2\.98\.8$"):
            propose_rollback(CHANNEL, Wish("2.98.6"), world.ports(), intent())

    def test_of_several_digests_of_a_version_it_is_the_one_that_the_channel_had_last(self) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        never = intent(flags={"log-level": "debug"}, policy=Policy(actions=dict.fromkeys(BUMPS, Action.NEVER)))
        plan = make_plan(CHANNEL, world.ports(), never).plan
        apply(plan, {plan.steps[-1].target}, world.ports(), never)
        last = at(world)
        update(CHANNEL, world.ports(), intent(policy=AUTO))
        back(world, str(OLD))
        assert at(world) == last

    def test_is_asked_for_where_no_record_tells(self) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        other = CHANNEL.at_tag("other")
        init(other, OLD, world.ports(), intent())
        update(CHANNEL, world.ports(), intent(policy=AUTO))
        for tag in world.registry.tags(CHANNEL):
            if tag.startswith("v2.98.5"):
                digest = world.registry.resolve(CHANNEL.at_tag(tag))
                assert digest
                forget_records(world, digest)
        with pytest.raises(AmbiguousVersion, match=r"2 digests .* v2\.98\.5-[0-9a-f]{12}, v2\.98\.5-[0-9a-f]{12}"):
            propose_rollback(CHANNEL, Wish(str(OLD)), world.ports(), intent())

    def test_is_not_what_only_another_channel_had(self, world: World) -> None:
        staging = CHANNEL.at_tag("staging")
        init(staging, OLD, world.ports(), intent(flags={"log-level": "debug"}))
        digest = world.registry.resolve(staging)
        with pytest.raises(NotOfThisChannel, match="staging"):
            propose_rollback(CHANNEL, Wish(str(digest)), world.ports(), intent())

    @pytest.mark.parametrize("form", ["version", "tag"])
    def test_is_no_older_version_that_a_planted_tag_calls_by_another(self, world: World, form: str) -> None:
        tags = world.registry.repositories[str(CHANNEL.repository)].tags
        wanted, older = (next(tag for tag in tags if tag.startswith(name)) for name in ("v2.98.8", "v2.98.5"))
        del tags[wanted]
        planted = f"v2.98.8-{tags[older].short}"
        tags[planted] = tags[older]
        with pytest.raises(OtherVersion, match=r"which is v2\.98\.5"):
            propose_rollback(CHANNEL, Wish({"version": "v2.98.8", "tag": planted}[form]), world.ports(), intent())

    def test_is_no_pre_release_of_the_version(self, world: World) -> None:
        tags = world.registry.repositories[str(CHANNEL.repository)].tags
        wanted = next(tag for tag in tags if tag.startswith("v2.98.8"))
        digest = tags.pop(wanted)
        tags[f"v2.98.8-rc.1-{digest.short}"] = digest
        with pytest.raises(NotInHistory):
            propose_rollback(CHANNEL, Wish("v2.98.8"), world.ports(), intent())

    def test_is_not_a_newer_version(self, world: World) -> None:
        back(world)
        with pytest.raises(NotBack) as caught:
            propose_rollback(CHANNEL, Wish(str(MINOR)), world.ports(), intent())
        assert caught.value.hint.endswith(f"`rollback {CHANNEL} --lift` ends a hold.")

    def test_is_no_tag_that_was_moved(self, world: World) -> None:
        tag = next(tag for tag in world.registry.tags(CHANNEL) if tag.startswith("v2.98.8"))
        world.registry.put_manifest(CHANNEL.at_tag(tag), world.registry.manifest(CHANNEL))
        with pytest.raises(ImmutableTagMoved):
            propose_rollback(CHANNEL, Wish(tag), world.ports(), intent())


class TestWhoseItIs:
    def past(self, world: World) -> Digest:
        tag = next(tag for tag in world.registry.tags(CHANNEL) if tag.startswith("v2.98.8"))
        digest = world.registry.resolve(CHANNEL.at_tag(tag))
        assert digest
        return digest

    def test_what_lost_its_signature_is_signed_again_where_a_record_says_that_the_channel_had_it(
        self, world: World
    ) -> None:
        digest = self.past(world)
        forget_signature(world, digest)
        assert back(world).signs
        verify(world.registry, CHANNEL, digest, OURS)
        assert at(world) == digest

    def test_what_nobody_signed_and_no_record_names_is_refused(self, world: World) -> None:
        digest = self.past(world)
        forget_signature(world, digest)
        forget_records(world, digest)
        before = world.contents()
        with pytest.raises(PastNotOurs):
            propose_rollback(CHANNEL, Wish(str(digest)), world.ports(), intent())
        assert world.contents() == before

    def test_what_somebody_else_signed_is_refused(self, world: World) -> None:
        digest = self.past(world)
        forget_signature(world, digest)
        ensure_signed(world.registry, CHANNEL, digest, KeySigner(signing_key("theirs")), SignatureFormat.LEGACY)
        with pytest.raises(ForeignSignature):
            propose_rollback(CHANNEL, Wish(str(digest)), world.ports(), intent())

    def test_it_leads_away_from_what_somebody_planted_and_holds_back_nothing_but_that(self, world: World) -> None:
        planted = plant(world, made(MINOR, OVERLAY, None))
        planted = plant(world, made(Version.parse("v2.98.8"), type(OVERLAY)(OVERLAY.files[:1])))
        shown = back(world, str(OLD))
        assert "is not signed" in shown.problem
        (hold,) = Ledger(world.registry, CHANNEL, OURS).holds(at(world))
        assert (hold.version, hold.digest, hold.alone) == (PATCH, planted, True)
        assert update(CHANNEL, world.ports(), intent()).done == 1

    def test_no_tag_of_somebody_else_keeps_anybody_from_leaving_what_somebody_planted(self, world: World) -> None:
        plant(world, made(PATCH, type(OVERLAY)(OVERLAY.files[:1])))
        world.registry.put_manifest(CHANNEL.at_tag("v9.9.9-000000000000"), world.registry.manifest(CHANNEL))
        shown = back(world)
        assert (version_of(world), "is not signed" in shown.problem) == (PATCH, True)

    def test_no_tag_of_somebody_else_ends_a_hold_when_somebody_leaves_what_was_planted(self, world: World) -> None:
        back(world)
        misleading = CHANNEL.at_tag("v9.9.9-000000000000")
        plant(world, made(PATCH, type(OVERLAY)(OVERLAY.files[:1])))
        world.registry.put_manifest(misleading, world.registry.manifest(CHANNEL))
        back(world, str(OLD))
        del world.registry.repositories[str(CHANNEL.repository)].tags[str(misleading.tag)]  # as the message says
        there = at(world)
        scheduled(world)
        assert at(world) == there

    @pytest.mark.parametrize("signed", [False, True], ids=["planted", "moved"])
    def test_a_hold_of_before_goes_on_whatever_somebody_put_there(self, world: World, *, signed: bool) -> None:
        back(world)
        planted = plant(world, made(PATCH, type(OVERLAY)(OVERLAY.files[:1])))
        if signed:
            ensure_signed(world.registry, CHANNEL, planted, KeySigner(signing_key()), SignatureFormat.LEGACY)
        assert ("is not signed" in back(world, str(OLD)).problem) is not signed
        kept = Ledger(world.registry, CHANNEL, OURS).holds(at(world))
        assert [(hold.version, hold.alone) for hold in kept] == [(MINOR, False), (PATCH, not signed)]
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 0

    @pytest.mark.parametrize("adopting", [update, heal, adopt])
    def test_an_adoption_ends_no_hold(self, world: World, adopting: Callable[..., object]) -> None:
        back(world)
        planted = plant(world, made(PATCH, type(OVERLAY)(OVERLAY.files[:1])))
        asked: list[Adoption] = []

        def ask(adoption: Adoption) -> bool:
            asked.append(adoption)
            return True

        adopting(CHANNEL, replace(world.ports(), confirm=ask), intent(adopt=True))
        assert f"The hold on {MINOR} (" in adoption_text(asked[0])
        assert (at(world), held(world)) == (planted, [MINOR])
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 0

    def test_where_somebody_else_moved_the_channel_there_already_is_told(self, world: World) -> None:
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(self.past(world))))
        shown = back(world)
        assert (shown.is_there, shown.hold) == (True, None)
        assert "a signed record says that it was moved on to" in shown.problem
        assert shown.last is not None
        page = [str(part) for part in rollback_parts(shown, None, name="production")]
        (stops,) = (at for at, part in enumerate(page) if "Updates stop at it" in part)
        assert f"To put it back at {MINOR}: `rollback production --to {shown.last[1]}`." in page[stops + 1]
        assert "To go on from there, adopt it" in page[stops + 2]
        back(world, str(shown.last[1]))
        assert version_of(world) == MINOR

    @pytest.mark.parametrize("killed", [False, True], ids=["", "though its run was killed"])
    @pytest.mark.parametrize("signed", [False, True], ids=["planted", "moved"])
    def test_nobody_moves_the_channel_up_again_to_what_it_had_before_somebody_moved_it(
        self, world: World, *, signed: bool, killed: bool
    ) -> None:
        newest = at(world)
        if signed:
            world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(self.past(world))))
        else:
            plant(world, made(PATCH, type(OVERLAY)(OVERLAY.files[:1])))
        moved = world.channel_digest()

        def die(_: Asked) -> None:
            if world.channel_digest() != moved:
                raise Killed

        if killed:
            world.registry.before = die
            with pytest.raises(Killed):
                back(world, str(OLD))
            world.registry.before = lambda _: None
        back(world, str(OLD))
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(newest)))
        with pytest.raises(ChannelMovedBack):
            update(CHANNEL, world.ports(), intent(policy=AUTO))

    @pytest.mark.parametrize("adopting", [update, adopt])
    def test_an_adoption_of_less_lets_nobody_move_the_channel_up_again(
        self, world: World, adopting: Callable[..., object]
    ) -> None:
        left, before = at(world), find_past(CHANNEL, str(PATCH), at(world), world.ports())
        for digest in (before, left):
            world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(digest)))
            if digest == before:
                adopting(CHANNEL, world.ports(), intent(adopt=True))
        with pytest.raises(ChannelMovedBack):
            update(CHANNEL, world.ports(), intent(policy=AUTO))
        assert isinstance(verify_channel(CHANNEL, world.ports(), intent()).problem, ChannelMovedBack)

    def test_without_a_signer_there_is_no_hold_and_so_no_rollback(self, world: World) -> None:
        with pytest.raises(NoSigner):
            propose_rollback(CHANNEL, Wish(str(PATCH)), world.ports(None), intent(unsafe_unsigned=True))


class TestWhatBreaks:
    def test_a_certain_break_is_refused_and_said(self, world: World, judged: Callable[[Impact], None]) -> None:
        judged(Impact(hazards=(CERTAIN,)))
        before = world.contents()
        proposal = propose_rollback(CHANNEL, Wish(str(PATCH)), world.ports(), intent())
        assert proposal.shown.obstacles == (CERTAIN.sentence,)
        with pytest.raises(RollbackRefused, match="storage version of buckets") as caught:
            roll_back(proposal, world.ports(), intent())
        assert f"--acknowledge {CERTAIN.fingerprint}" in caught.value.hint
        assert (world.contents(), caught.value.exit_code) == (before, 11)

    def test_what_no_cluster_can_build_is_refused_whatever_is_acknowledged(
        self, world: World, judged: Callable[[Impact], None]
    ) -> None:
        final = replace(CERTAIN, final=True)
        judged(Impact(hazards=(final,)))
        wish = intent(policy=Policy().acknowledging((final.fingerprint,), NOW))
        with pytest.raises(RollbackRefused) as caught:
            roll_back(propose_rollback(CHANNEL, Wish(str(PATCH)), world.ports(), wish), world.ports(), wish)
        assert caught.value.hint.startswith("Nothing was changed. Go back to another digest: ")

    def test_until_it_is_acknowledged(self, world: World, judged: Callable[[Impact], None]) -> None:
        judged(Impact(hazards=(CERTAIN,)))
        wish = intent(policy=Policy().acknowledging((CERTAIN.fingerprint,), NOW))
        roll_back(propose_rollback(CHANNEL, Wish(str(PATCH)), world.ports(), wish), world.ports(), intent())
        assert version_of(world) == PATCH

    def test_what_the_policy_refuses_is_refused(self, world: World, judged: Callable[[Impact], None]) -> None:
        widened = Change(
            ChangeKind.RULE_WIDENED,
            ObjectId("rbac.authorization.k8s.io", "ClusterRole", "", "crd-controller"),
            Severity.DANGER,
            "it may read all secrets",
        )
        judged(Impact(changes=(widened,)))
        asked = propose_rollback(CHANNEL, Wish(str(PATCH)), world.ports(), intent())
        assert asked.shown.decision is Decision.APPROVAL  # which whoever says yes gives
        strict = intent(policy=Policy(refuse=frozenset({"rbac"})))
        assert propose_rollback(CHANNEL, Wish(str(PATCH)), world.ports(), strict).shown.decision is Decision.REFUSED

    def test_old_and_new_are_turned_round(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        sides: list[tuple[Version, Version]] = []

        def look(old: object, new: object, *_: object) -> Impact:
            sides.append((old.version, new.version))  # type: ignore[attr-defined]
            return Impact()

        monkeypatch.setattr("ci_automation.flows.planning.findings.impact_of", look)
        propose_rollback(CHANNEL, Wish(str(PATCH)), world.ports(), intent())
        assert sides == [(MINOR, PATCH)]


class TestAfterwards:
    def test_the_next_scheduled_run_leaves_it_alone(self, world: World) -> None:
        back(world)
        before, digest = world.contents(), at(world)
        outcome = update(CHANNEL, world.ports(), intent(policy=AUTO))
        assert (outcome.done, at(world), world.contents()) == (0, digest, before)
        (step,) = outcome.plan.steps
        assert (step.new_version, step.decision) == (MINOR, Decision.WAIT)
        assert "was rolled back" in step.reasons[0]

    def test_a_release_after_that_is_offered_again(self, world: World) -> None:
        back(world)
        world.releases = MemoryReleases((*world.releases.samples, NEWER))
        outcome = update(CHANNEL, world.ports(), intent(policy=AUTO))
        assert (outcome.done, version_of(world)) == (1, Version.parse("v2.99.5"))
        assert held(world) == []

    def test_after_its_date_the_refused_one_is_offered_again(self, world: World) -> None:
        back(world, until=NOW + timedelta(days=7))
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 0
        later = intent(policy=AUTO, now=NOW + timedelta(days=8))
        assert update(CHANNEL, world.ports(), later).done == 1
        assert version_of(world) == MINOR

    def test_a_patch_of_the_old_minor_that_came_later_is_taken_and_the_hold_goes_along(self, world: World) -> None:
        back(world)
        (hold,) = Ledger(world.registry, CHANNEL, OURS).holds(at(world))
        later = (hold.at + timedelta(days=1)).isoformat()
        world.releases = MemoryReleases((*world.releases.samples, release("v2.98.9", published_at=later)))
        then = intent(policy=AUTO, now=hold.at + timedelta(days=30))
        outcome = update(CHANNEL, world.ports(), then)
        assert (outcome.done, version_of(world)) == (1, Version.parse("v2.98.9"))
        assert held(world) == [MINOR]
        assert update(CHANNEL, world.ports(), then).done == 0

    def test_what_came_out_before_the_hold_was_changed_is_new_all_the_same(self, world: World) -> None:
        back(world)
        (hold,) = Ledger(world.registry, CHANNEL, OURS).holds(at(world))
        later = hold.at + timedelta(days=1)
        world.releases = MemoryReleases((*world.releases.samples, release("v2.98.9", published_at=later.isoformat())))
        ports = replace(world.ports(), clock=lambda: later + timedelta(days=1))
        shown = propose_rollback(CHANNEL, Wish(str(PATCH), reason="see #7"), ports, intent())
        roll_back(shown, ports, intent())
        (changed,) = Ledger(world.registry, CHANNEL, OURS).holds(at(world))
        assert (changed.since, changed.reason) == (hold.at, "see #7")
        assert changed.at > later
        then = intent(policy=AUTO, now=later + timedelta(days=30))
        assert update(CHANNEL, world.ports(), then).done == 1
        assert version_of(world) == Version.parse("v2.98.9")

    def test_a_plan_that_was_approved_is_refused(self, world: World) -> None:
        target, base = at(world), self.before(world)
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(base)))
        forget_records(world, target)
        plan = make_plan(CHANNEL, world.ports(), intent(policy=AUTO)).plan
        assert plan.steps[0].target == target
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(target)))
        back(world)
        with pytest.raises(StepRefused, match="has to wait") as caught:
            apply(plan, {target}, world.ports(), intent(policy=AUTO))
        assert f"`rollback {CHANNEL} --lift` ends the hold" in caught.value.hint
        assert at(world) == base

    def before(self, world: World) -> Digest:
        previous = Ledger(world.registry, CHANNEL, OURS).all_records(at(world))[-1].previous
        assert previous
        return previous

    @pytest.mark.parametrize("now", [NOW, NOW + timedelta(days=400)], ids=["held", "after the hold"])
    def test_an_old_approval_of_the_refused_target_does_not_count_again(self, world: World, now: datetime) -> None:
        target, base = at(world), self.before(world)
        forget_records(world, target)  # so that no record tells that it was used
        back(world, until=NOW + timedelta(days=7))
        granted = GrantedApproval(
            ApprovalRequest(CHANNEL, MINOR, base, target), Approval("ada", "pull request 7", NOW - timedelta(days=9))
        )
        with pytest.raises(CameBack):
            apply_granted(granted, world.ports(), intent(now=now))
        assert at(world) == base

    def test_an_old_approval_of_another_step_from_the_target_does_not_count_either(self, world: World) -> None:
        back(world)
        base = at(world)
        wish = intent(flags={"log-level": "debug"}, policy=Policy(actions=dict.fromkeys(BUMPS, Action.NEVER)))
        plan = make_plan(CHANNEL, world.ports(), wish).plan
        request = ApprovalRequest.of(plan, next(step for step in plan.steps if step.new_version == PATCH))
        old, new = (
            GrantedApproval(request, Approval("ada", f"pull request {days}", datetime.now(UTC) + timedelta(days=days)))
            for days in (-9, 9)
        )
        with pytest.raises(CameBack, match=f"has left {base} since ada approved it"):
            apply_granted(old, world.ports(), wish)
        assert at(world) == base
        apply_granted(new, world.ports(), wish)
        assert at(world) == request.target

    def test_an_approval_of_the_second_in_which_its_base_came_counts(self, world: World) -> None:
        # GitHub says no more of a time than its second, and a run asks as soon as it has published.
        moment = (datetime.now(UTC) + timedelta(seconds=1)).replace(microsecond=200_000)
        ports = replace(world.ports(), clock=lambda: moment)
        roll_back(propose_rollback(CHANNEL, Wish(str(PATCH)), ports, intent()), ports, intent())
        wish = intent(flags={"log-level": "debug"}, policy=Policy(actions=dict.fromkeys(BUMPS, Action.NEVER)))
        plan = make_plan(CHANNEL, world.ports(), wish).plan
        request = ApprovalRequest.of(plan, next(step for step in plan.steps if step.new_version == PATCH))
        (hold,) = Ledger(world.registry, CHANNEL, OURS).holds(at(world))
        second = hold.since.replace(microsecond=0)
        early = GrantedApproval(request, Approval("ada", "run 1", second - timedelta(seconds=1)))
        with pytest.raises(CameBack):
            apply_granted(early, world.ports(), wish)
        apply_granted(replace(early, approval=Approval("ada", "run 2", second)), world.ports(), wish)
        assert at(world) == request.target

    def test_content_that_is_published_on_top_keeps_the_hold(self, world: World) -> None:
        back(world, reason="webhooks time out")
        never = intent(flags={"log-level": "debug"}, policy=Policy(actions=dict.fromkeys(BUMPS, Action.NEVER)))
        plan = make_plan(CHANNEL, world.ports(), never).plan
        target = next(step.target for step in plan.steps if step.new_version == PATCH)
        world.registry.requests.clear()
        apply(plan, {target}, world.ports(), never)
        assert (at(world), held(world)) == (target, [MINOR])
        asked = [it.method for it in world.registry.requests]
        moved = next(n for n, it in enumerate(world.registry.requests) if it == ("put_manifest", str(CHANNEL)))
        assert asked.index("put_referrer") < moved
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 0

    def test_a_channel_that_was_deleted_does_not_begin_again_with_what_is_held(self, world: World) -> None:
        back(world)
        past = at(world)
        delete_channel(world)
        for wish in (intent(overlay=OVERLAY), intent()):
            with pytest.raises(StillHeld, match="was rolled back") as caught:
                init(CHANNEL, MINOR, world.ports(), wish)
            assert f"lift the hold with `rollback {CHANNEL} --lift`" in caught.value.hint
        with pytest.raises(WasNewer, match=f"had {PATCH} last, which is newer than {OLD}"):
            init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        slow = replace(world.ports(), clock=lambda: NOW - timedelta(days=900))
        assert init(CHANNEL, PATCH, slow, intent(overlay=OVERLAY)).digest == past
        assert held(world) == [MINOR]
        lift(CHANNEL, "", world.ports(), intent())
        update(CHANNEL, world.ports(), intent(policy=AUTO))
        assert version_of(world) == MINOR

    def test_the_refused_digest_of_the_same_version_waits_too(self) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        first = at(world)
        never = intent(flags={"log-level": "debug"}, policy=Policy(actions=dict.fromkeys(BUMPS, Action.NEVER)))
        plan = make_plan(CHANNEL, world.ports(), never).plan
        target = plan.steps[-1].target
        apply(plan, {target}, world.ports(), never)
        back(world, str(first))
        with pytest.raises(StepRefused, match="was rolled back"):
            apply(plan, {target}, world.ports(), never)
        assert at(world) == first
        back(world, str(target))  # the person who held it may go there again
        assert at(world) == target
        assert [it.digest for it in Ledger(world.registry, CHANNEL, OURS).holds(target)] == [first]

    def test_two_rollbacks_after_one_another_hold_both(self, world: World) -> None:
        back(world, str(PATCH))
        back(world, str(OLD))
        assert held(world) == [MINOR, PATCH]
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 0

    def test_nobody_without_a_key_lifts_it_or_makes_one(self, world: World) -> None:
        target = at(world)
        theirs = World(registry=world.registry)
        back(world)
        proposal = propose_rollback(CHANNEL, Wish(str(OLD)), theirs.ports(), intent())
        writer = RecordWriter(theirs.ports().registry, CHANNEL, KeySigner(signing_key("theirs")))
        writer.keep(proposal.target.manifest, proposal.holds)
        assert held(world, proposal.shown.target) == []
        assert held(world) == [MINOR]
        assert target != at(world)

    def test_an_old_digest_under_the_channel_is_still_found_out(self, world: World) -> None:
        digest = at(world)
        back(world)
        world.releases = MemoryReleases((*world.releases.samples, NEWER))
        update(CHANNEL, world.ports(), intent(policy=AUTO))
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(digest)))
        with pytest.raises(ChannelMovedBack):
            update(CHANNEL, world.ports(), intent(policy=AUTO))

    def test_a_hold_of_another_channel_is_none_of_this_one(self, world: World) -> None:
        back(world)
        assert Ledger(world.registry, CHANNEL.at_tag("staging"), OURS).holds(at(world)) == ()


class TestAgain:
    def test_repeating_it_changes_nothing(self, world: World) -> None:
        back(world)
        before = world.contents()
        assert back(world).is_there
        assert world.contents() == before

    def test_repeating_it_with_another_date_changes_the_hold(self, world: World) -> None:
        back(world)
        until = NOW - timedelta(days=1)
        back(world, until=until)
        (hold,) = Ledger(world.registry, CHANNEL, OURS).holds(at(world))
        assert hold.until == until
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 1  # it is lifted

    @pytest.mark.parametrize("on_top", [False, True], ids=["after the rollback", "after content on top of it"])
    def test_changing_the_hold_is_recorded_as_no_move(self, world: World, *, on_top: bool) -> None:
        back(world)
        if on_top:
            debug = intent(flags={"log-level": "debug"}, policy=Policy(actions=dict.fromkeys(BUMPS, Action.NEVER)))
            plan = make_plan(CHANNEL, world.ports(), debug).plan
            apply(plan, {plan.steps[-1].target}, world.ports(), debug)
        before = Ledger(world.registry, CHANNEL, OURS).all_records(at(world))
        back(world, until=NOW + timedelta(days=30))
        scheduled(world)
        assert Ledger(world.registry, CHANNEL, OURS).all_records(at(world)) == before

    def test_a_second_move_back_from_the_same_digest_is_recorded_after_a_crash(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        left = at(world)
        back(world)
        back(world, until=NOW - timedelta(days=1))
        scheduled(world)
        assert at(world) == left

        def die(*_: object) -> None:
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr("ci_automation.records.writer.RecordWriter.attach", die)
            with pytest.raises(Killed):
                back(world)
        scheduled(world)
        found = [it for it in Ledger(world.registry, CHANNEL, OURS).all_records(at(world)) if it.rolled_back]
        assert [(it.previous, it.recovered) for it in found] == [(left, False), (left, True)]

    @pytest.mark.parametrize("lifted", [False, True], ids=["its date has passed", "lifted"])
    def test_repeating_it_after_the_hold_has_ended_changes_nothing_unless_a_date_asks_for_it(
        self, world: World, *, lifted: bool
    ) -> None:
        back(world, until=None if lifted else NOW - timedelta(days=1), reason="webhooks time out")
        if lifted:
            lift(CHANNEL, "", world.ports(), intent())
        before = world.contents()
        shown = back(world, reason="it fails again")
        assert world.contents() == before
        assert (shown.is_there, shown.holds) == (True, False)
        assert (shown.hold, shown.ended and shown.ended.version) == (None, MINOR)
        until = NOW + timedelta(days=30)
        back(world, until=until, reason="it fails again")
        (hold,) = Ledger(world.registry, CHANNEL, OURS).holds(at(world))
        assert (hold.version, hold.until, hold.reason) == (MINOR, until, "it fails again")
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 0
        before = world.contents()
        back(world)
        assert world.contents() == before

    def test_repeating_what_ended_it_changes_nothing(self, world: World) -> None:
        until = NOW - timedelta(days=1)
        back(world)
        back(world, until=until)
        before = world.contents()
        back(world, until=until)
        assert world.contents() == before

    def test_somebody_who_was_faster_is_a_conflict(self, world: World) -> None:
        proposal = propose_rollback(CHANNEL, Wish(str(PATCH)), world.ports(), intent())
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(self_old(world))))
        with pytest.raises(ChannelMoved) as caught:
            roll_back(proposal, world.ports(), intent())
        assert caught.value.exit_code == Conflict.exit_code

    def test_a_registry_that_forgets_the_hold_stops_it(self, world: World) -> None:
        proposal = propose_rollback(CHANNEL, Wish(str(PATCH)), world.ports(), intent())
        digest = at(world)
        repository = world.registry.repositories[str(CHANNEL.repository)]

        def forget(asked: object) -> None:
            if asked.method == "referrers":  # type: ignore[attr-defined]
                for found, raw in list(repository.manifests.items()):
                    if b"hold.v1" in raw:
                        del repository.manifests[found]

        world.registry.before = forget
        with pytest.raises(HoldNotKept):
            roll_back(proposal, world.ports(), intent())
        assert at(world) == digest


def self_old(world: World) -> Digest:
    tag = next(tag for tag in world.registry.tags(CHANNEL) if tag.startswith("v2.98.5"))
    digest = world.registry.resolve(CHANNEL.at_tag(tag))
    assert digest
    return digest


def repeat(world: World) -> None:
    back(world, reason="webhooks time out")


def scheduled(world: World) -> None:
    update(CHANNEL, world.ports(), intent(policy=AUTO))


class TestLifting:
    def test_what_was_held_is_offered_again_and_the_channel_stays(self, world: World) -> None:
        back(world, reason="webhooks time out")
        there = at(world)
        lifted = lift(CHANNEL, "", world.ports(), intent())
        assert [hold.version for hold in lifted.holds] == [MINOR]
        assert (at(world), lifted.digest) == (there, there)
        (hold,) = Ledger(world.registry, CHANNEL, OURS).holds(there)
        assert (hold.has_ended, hold.reason, hold.since < hold.at) == (True, "", True)
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 1

    def test_the_reason_of_lifting_is_kept(self, world: World) -> None:
        back(world, reason="webhooks time out")
        lift(CHANNEL, "fixed on our side", world.ports(), intent())
        (hold,) = Ledger(world.registry, CHANNEL, OURS).holds(at(world))
        assert hold.reason == "fixed on our side"

    def test_repeating_it_writes_nothing(self, world: World) -> None:
        assert lift(CHANNEL, "", world.ports(), intent()).holds == ()
        back(world)
        lift(CHANNEL, "", world.ports(), intent())
        before = world.contents()
        assert lift(CHANNEL, "another word", world.ports(), intent()).holds == ()
        assert world.contents() == before

    def test_an_approval_older_than_the_lifting_does_not_count_again(self, world: World) -> None:
        target = at(world)
        base = Ledger(world.registry, CHANNEL, OURS).all_records(target)[-1].previous
        assert base
        forget_records(world, target)  # so that no record tells that it was used
        before = datetime.now(UTC)
        back(world)
        held = datetime.now(UTC)
        lift(CHANNEL, "", world.ports(), intent())
        request = ApprovalRequest(CHANNEL, MINOR, base, target)
        for moment, error in ((before, CameBack), (held, ApprovalUsed)):
            with pytest.raises(error):
                apply_granted(
                    GrantedApproval(request, Approval("ada", "pull request 7", moment)), world.ports(), intent()
                )
            assert at(world) == base

    @pytest.mark.parametrize("lost", [False, True], ids=["as it was", "with the records of the target lost"])
    def test_a_plan_that_led_to_a_publication_is_approved_anew(self, world: World, lost: bool) -> None:
        back(world)
        lift(CHANNEL, "", world.ports(), intent())
        plan = Plan.parse(make_plan(CHANNEL, world.ports(), intent()).plan.to_text().encode())
        assert apply(plan, [plan.steps[-1].target], world.ports(), intent()).done == len(plan.steps)
        if lost:
            forget_records(world, plan.steps[-1].target)
        back(world)
        base = at(world)
        lift(CHANNEL, "", world.ports(), intent())
        with pytest.raises(PlanUsed):
            apply(plan, [plan.steps[-1].target], world.ports(), intent())
        assert at(world) == base
        anew = make_plan(CHANNEL, world.ports(), intent()).plan
        assert apply(anew, [anew.steps[-1].target], world.ports(), intent()).digest == anew.steps[-1].target

    def test_a_plan_that_was_begun_goes_on_from_where_the_channel_was_before(self, world: World) -> None:
        back(world, str(OLD))
        lift(CHANNEL, "", world.ports(), intent())
        plan = make_plan(CHANNEL, world.ports(), intent()).plan
        first, last = (step.target for step in plan.steps)
        apply(plan, [first], world.ports(), intent())
        assert at(world) == first
        assert apply(plan, [first, last], world.ports(), intent()).digest == last
        roll_back(propose_rollback(CHANNEL, Wish(str(PATCH)), world.ports(), intent()), world.ports(), intent())
        lift(CHANNEL, "", world.ports(), intent())
        with pytest.raises(PlanUsed):
            apply(plan, [first, last], world.ports(), intent())

    def test_one_of_two_is_lifted_by_the_digest_of_its_statement(self, world: World) -> None:
        back(world, reason="webhooks time out")
        back(world, str(OLD), reason="leaks memory")
        ledger = Ledger(world.registry, CHANNEL, OURS)
        (name, hold), (_, other) = ledger.named_holds(at(world))
        lifted = lift(CHANNEL, "", world.ports(), intent(), name)
        assert [it.digest for it in lifted.holds] == [hold.digest] != [other.digest]
        on = [it.digest for it in ledger.holds(at(world)) if it.is_on(intent().now)]
        assert on == [other.digest]
        assert lift(CHANNEL, "", world.ports(), intent(), name).holds == ()  # its statement is another now

    def test_all_of_several_are_lifted(self, world: World) -> None:
        back(world)
        back(world, str(OLD))
        assert len(lift(CHANNEL, "", world.ports(), intent()).holds) == len(held(world)) == 2
        assert not any(hold.is_on(NOW) for hold in Ledger(world.registry, CHANNEL, OURS).holds(at(world)))

    def test_a_hold_of_a_fast_clock_is_lifted_too(self, world: World) -> None:
        ahead = replace(world.ports(), clock=lambda: NOW + timedelta(hours=1))
        roll_back(propose_rollback(CHANNEL, Wish(str(PATCH)), ahead, intent()), ahead, intent())
        behind = replace(world.ports(), clock=lambda: NOW)
        assert len(lift(CHANNEL, "", behind, intent()).holds) == 1
        assert not any(hold.is_on(NOW) for hold in Ledger(world.registry, CHANNEL, OURS).holds(at(world)))

    def test_a_lifting_by_a_fast_clock_ends_no_later_hold(self, world: World) -> None:
        back(world)
        lift(CHANNEL, "", replace(world.ports(), clock=lambda: NOW + timedelta(days=9)), intent())
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 1
        back(world)
        there = at(world)
        assert [hold.is_on(NOW) for hold in Ledger(world.registry, CHANNEL, OURS).holds(there)] == [True]
        update(CHANNEL, world.ports(), intent(policy=AUTO))
        assert at(world) == there

    def test_a_lifting_by_a_fast_clock_ends_no_hold_that_a_publication_brings_there_later(self) -> None:
        world = World()
        other = type(OVERLAY)(OVERLAY.files[:1])
        first = init(CHANNEL, PATCH, world.ports(), intent(overlay=other)).digest
        second = with_overlay(world)
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 1
        back(world, str(second))
        lift(CHANNEL, "", replace(world.ports(), clock=lambda: NOW + timedelta(days=90)), intent())
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 1
        back(world, str(first))
        assert with_overlay(world) == second
        assert update(CHANNEL, world.ports(), intent(policy=AUTO)).done == 0
        assert at(world) == second

    def test_nobody_lifts_it_without_a_key(self, world: World) -> None:
        back(world)
        before = world.contents()
        with pytest.raises(NoSigner):
            lift(CHANNEL, "", replace(world.ports(), signer=None), intent())
        with pytest.raises(NobodyTrusted):
            lift(CHANNEL, "", replace(world.ports(), trusted=None), intent(unsafe_unsigned=True))
        assert world.contents() == before

    def test_a_channel_that_moves_meanwhile_is_a_conflict(self, world: World) -> None:
        back(world)
        moved = world.registry.manifest(CHANNEL.at_digest(self_old(world)))

        def meanwhile(*_: object) -> None:
            world.registry.put_manifest(CHANNEL, moved)

        with pytest.raises(ChannelMoved):
            lift(CHANNEL, "", world.ports(), intent(), ask=meanwhile)

    def test_no_hold_is_lifted_where_somebody_else_moved_the_channel(self, world: World) -> None:
        back(world)
        before = at(world)
        present = with_overlay(world, type(OVERLAY)(OVERLAY.files[:1]))
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(before)))
        with pytest.raises(ChannelMovedBack):
            lift(CHANNEL, "", world.ports(), intent())
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(present)))
        back(world, str(before))
        assert is_held(world)


def lifted(world: World) -> None:
    lift(CHANNEL, "fixed on our side", world.ports(), intent())


def is_held(world: World) -> bool:
    return any(hold.is_on(NOW) for hold in Ledger(world.registry, CHANNEL, OURS).holds(at(world)))


@made_once
def held_back(*, api: bool = True) -> World:
    """Return a channel that was moved back to the patch, and is held there."""
    world = rebuilt(api=api)
    repeat(world)
    world.registry.requests.clear()
    return world


class TestLiftingInBadTimes:
    @pytest.mark.parametrize("api", [True, False], ids=["referrers API", "fallback tag"])
    def test_a_crash_at_any_request_and_repeating_it_ends_the_same(self, *, api: bool) -> None:
        undisturbed = held_back(api=api)
        lifted(undisturbed)
        number = len(undisturbed.registry.requests)
        assert number > 8
        for request in range(number):
            world = held_back(api=api)
            there = at(world)
            world.registry.requests.clear()
            kill_at(world, request, partial(lifted, world))
            assert (at(world), is_all_signed(world)) == (there, True), request
            lifted(world)
            assert plain(names(world)) == plain(names(undisturbed)), request
            # That it is held, and that it ended.
            assert len(notes_in(raw_holds(world, there), HoldStatement)) == 2, request
            assert not is_held(world), request
            scheduled(world)
            assert version_of(world) == MINOR, request

    def test_after_a_crash_a_scheduled_run_takes_it_only_if_the_hold_has_ended(self) -> None:
        undisturbed = held_back()
        lifted(undisturbed)
        outcomes = set()
        for request in range(len(undisturbed.registry.requests)):
            world = held_back()
            kill_at(world, request, partial(lifted, world))
            held_still = is_held(world)
            scheduled(world)
            assert version_of(world) == (PATCH if held_still else MINOR), request
            outcomes.add(held_still)
        assert outcomes == {True, False}

    def test_a_channel_that_moves_at_any_request_is_a_conflict_or_lifted_where_it_is(self) -> None:
        undisturbed = held_back()
        lifted(undisturbed)
        conflicts = 0
        for request in range(len(undisturbed.registry.requests)):
            world = held_back()
            interfere(world, request, lambda world=world: back(world, str(OLD)))  # type: ignore[misc, arg-type]
            try:
                lifted(world)
            except ChannelMoved:
                conflicts += 1
            else:
                assert not is_held(world), request
            lifted(world)
            assert (version_of(world), is_held(world)) == (OLD, False), request
            scheduled(world)
            assert version_of(world) == MINOR, request
        assert conflicts

    def test_one_that_is_lifted_while_the_channel_moves_back_further_is_at_most_held_again(self) -> None:
        undisturbed = held_back()
        back(undisturbed, str(OLD))
        for request in range(len(undisturbed.registry.requests)):
            world = held_back()

            def lift_it(world: World = world) -> None:
                with contextlib.suppress(ChannelMoved):
                    lifted(world)

            interfere(world, request, lift_it)
            back(world, str(OLD))
            assert (version_of(world), is_all_signed(world)) == (OLD, True), request
            lifted(world)
            scheduled(world)
            assert version_of(world) == MINOR, request


class TestCrashes:
    @pytest.mark.parametrize("api", [True, False], ids=["referrers API", "fallback tag"])
    def test_at_any_request_and_repeating_it_ends_the_same(self, *, api: bool) -> None:
        undisturbed = rebuilt(api=api)
        undisturbed.registry.requests.clear()
        repeat(undisturbed)
        number = len(undisturbed.registry.requests)
        assert number > 20
        for request in range(number):
            world = rebuilt(api=api)
            world.registry.requests.clear()
            kill_at(world, request, partial(repeat, world))
            assert is_all_signed(world), request
            # Whatever it came to, a channel that has moved is held.
            if version_of(world) == PATCH:
                assert held(world) == [MINOR], request
            repeat(world)
            digest = at(world)
            assert plain(names(world)) == plain(names(undisturbed)), request
            assert len(notes_in(raw_holds(world, digest), HoldStatement)) == 1, request
            moves = [it for it in Ledger(world.registry, CHANNEL, OURS).all_records(digest) if it.rolled_back]
            assert len(moves) == 1, request
            scheduled(world)
            assert at(world) == digest, request

    def test_at_any_request_and_the_next_scheduled_run_goes_on_from_either_side(self) -> None:
        undisturbed = grown()
        repeat(undisturbed)
        for request in range(len(undisturbed.registry.requests)):
            world = grown()
            kill_at(world, request, partial(repeat, world))
            digest, version = at(world), version_of(world)
            scheduled(world)
            assert at(world) == digest, request
            if version == PATCH:
                record = Ledger(world.registry, CHANNEL, OURS).all_records(digest)[-1]
                assert record.rolled_back, request

    def test_what_one_left_behind_is_marked_by_the_next_from_where_it_led(self, world: World) -> None:
        refused = at(world)
        killed_after_the_move(world)
        assert version_of(world) == PATCH
        back(world, str(OLD))
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(refused)))
        with pytest.raises(ChannelMovedBack, match="rolled back"):
            scheduled(world)

    @pytest.mark.parametrize("planted", [True, False], ids=["planted", "an old one"])
    def test_a_publication_by_a_fast_clock_lets_nobody_undo_what_leads_away_from_somebody_elses_move(
        self, planted: bool
    ) -> None:
        world = World()
        oldest = init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY)).digest
        update(CHANNEL, world.ports(), intent())
        patch = at(world)
        fast = replace(world.ports(), clock=lambda: datetime.now(UTC) + timedelta(days=90))
        assert update(CHANNEL, fast, intent(policy=AUTO)).done == 1
        newest = at(world)
        if planted:
            plant(world, made(PATCH, type(OVERLAY)(OVERLAY.files[:1])))
        else:
            world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(patch)))
        back(world, str(oldest))
        update(CHANNEL, world.ports(), intent(policy=EVERY))
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(newest)))
        with pytest.raises(ChannelMovedBack, match="rolled back"):
            scheduled(world)

    @pytest.mark.parametrize("then", ["adopted", "rolled back", "deleted"])
    def test_what_one_left_behind_holds_whatever_somebody_makes_of_the_channel_before_the_next_run(
        self, world: World, then: str
    ) -> None:
        killed_after_the_move(world)
        if then == "deleted":
            delete_channel(world)
            with pytest.raises(StillHeld):
                init(CHANNEL, MINOR, world.ports(), intent(overlay=OVERLAY))
            init(CHANNEL, PATCH, world.ports(), intent(overlay=OVERLAY))
        else:
            plant(world, made(PATCH, type(OVERLAY)(OVERLAY.files[:1])))
            if then == "adopted":
                update(CHANNEL, world.ports(), intent(adopt=True))
            else:
                back(world, str(OLD))
        there = at(world)
        assert MINOR in held(world)
        scheduled(world)
        assert at(world) == there

    def test_after_one_that_was_killed_nothing_is_recorded_that_only_leads_on_from_where_it_began(
        self, world: World
    ) -> None:
        world.releases = MemoryReleases((*world.releases.samples, NEWER))

        def before(asked: Asked) -> None:
            if asked == Asked("put_manifest", str(CHANNEL)):
                raise Killed

        world.registry.before = before
        with pytest.raises(Killed):
            update(CHANNEL, world.ports(), intent())  # it signed the next patch, and moved nothing
        world.registry.before = lambda _: None
        killed_after_the_move(world)
        tag = next(tag for tag in world.registry.tags(CHANNEL) if tag.startswith("v2.99.5-"))
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_tag(tag)))
        update(CHANNEL, world.ports(), intent())
        assert not Ledger(world.registry, CHANNEL, OURS).records(at(world))

    def test_after_one_that_was_killed_no_signature_is_made_anew_of_what_it_left(self, world: World) -> None:
        refused = at(world)
        killed_after_the_move(world)
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(refused)))
        forget_signature(world, refused)
        with pytest.raises(NotOurs):
            heal(CHANNEL, world.ports(), intent())

    def test_what_one_that_never_moved_left_lets_an_attacker_go_nowhere_after_another(self, world: World) -> None:
        go_back = propose_rollback(CHANNEL, Wish(str(PATCH)), world.ports(), intent())
        patch = go_back.shown.target

        def before(asked: Asked) -> None:
            if asked == Asked("put_manifest", str(CHANNEL)):
                raise Killed

        world.registry.before = before
        with pytest.raises(Killed):
            roll_back(go_back, world.ports(), intent())
        world.registry.before = lambda _: None
        assert (version_of(world), held(world, patch)) == (MINOR, [MINOR])
        back(world, str(OLD))
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(patch)))
        with pytest.raises(ChannelMovedBack, match="moved on"):
            scheduled(world)


@made_once
def rebuilt(*, api: bool) -> World:
    world = World()
    world.registry.referrers_api = api
    init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
    update(CHANNEL, world.ports(), intent())
    update(CHANNEL, world.ports(), intent(policy=AUTO))
    return world


def is_all_signed(world: World) -> bool:
    """Return whether all that people and clusters look at is signed."""
    tags = [tag for tag in world.registry.tags(CHANNEL) if not tag.startswith("sha256-")]
    digests = {world.registry.resolve(CHANNEL.at_tag(tag)) for tag in tags}
    return all(d is not None and verify(world.registry, CHANNEL, d, OURS) for d in digests)


def raw_holds(world: World, digest: Digest) -> tuple[Said, ...]:
    return attached.read_statements(world.registry, CHANNEL, digest, OURS, (HoldStatement.media_type,))


def plain(tags: dict[str, str]) -> dict[str, str]:
    """Return where the tags stand, without those whose manifests have times in them."""
    return {tag: digest for tag, digest in tags.items() if not tag.startswith("sha256-")}


def test_the_immutable_tag_of_what_is_gone_back_to_is_there_again(world: World) -> None:
    tag = next(tag for tag in world.registry.tags(CHANNEL) if tag.startswith("v2.98.8"))
    digest = world.registry.resolve(CHANNEL.at_tag(tag))
    assert digest
    del world.registry.repositories[str(CHANNEL.repository)].tags[tag]
    back(world, str(digest))
    assert world.registry.resolve(CHANNEL.at_tag(immutable_tag(PATCH, digest))) == digest


def test_what_was_lost_of_the_present_is_no_obstacle(world: World) -> None:
    forget_signature(world, at(world))
    with pytest.raises(Unsigned):
        make_plan(CHANNEL, world.ports(), intent())
    shown = back(world)
    assert (shown.problem, held(world)) == ("", [MINOR])


@pytest.mark.parametrize("reason", ["one\ntwo", "\x1b[2J", "a" * 1025], ids=["two lines", "control", "too long"])
def test_a_reason_that_no_hold_can_have_is_told_before_anything_is_read(
    reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["rollback", "layout:nowhere:production", "--to", "v2.8.8", "--reason", reason]) == 2
    assert "code unfit-reason" in capsys.readouterr().err
