"""What one yes counts for: exactly one digest, from exactly one base, once."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from ci_automation.approval.port import (
    ApprovalRequest,
    Asked,
    AskedState,
    GrantedApproval,
    NotCounted,
    Question,
    RequestKind,
)
from ci_automation.artifact.reference import Digest
from ci_automation.flows.apply import StepRefused, apply
from ci_automation.flows.approved import ApprovalOutdated, ApprovalUsed, ApprovedDiffers, CameBack, apply_granted
from ci_automation.flows.history import history
from ci_automation.flows.init import init
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.ports import NoSigner
from ci_automation.flows.rollback import Wish, propose_rollback, roll_back
from ci_automation.flows.update import update
from ci_automation.flows.update_and_ask import ApprovalNotCounted, Progress, apply_approved, update_and_ask
from ci_automation.flux.version import Bump
from ci_automation.policy.decision import Decision
from ci_automation.policy.model import Action, Period, Policy
from ci_automation.records.notes import Approval
from tests.contract.interference import Killed
from tests.contract.planting import forget_records
from tests.fakes.world import CHANNEL, MINOR, OLD, OVERLAY, PATCH, World, intent, made_once

if TYPE_CHECKING:
    from ci_automation.errors import Error
    from ci_automation.flux.version import Version

NOBODY = Digest.of(b"nobody published this")


@pytest.fixture
@made_once
def world() -> World:
    """A channel at the newest patch, with a minor that waits."""
    world = World()
    init(CHANNEL, PATCH, world.ports(), intent(overlay=OVERLAY))
    return world


def wanted(world: World) -> ApprovalRequest:
    """Return the request for the step that waits."""
    plan = make_plan(CHANNEL, world.ports(), intent()).plan
    return ApprovalRequest.of(plan, next(step for step in plan.steps if step.decision is Decision.APPROVAL))


def yes(request: ApprovalRequest) -> GrantedApproval:
    merged = datetime(2026, 1, 1, tzinfo=UTC)
    return GrantedApproval(request, Approval("alice", "pull request https://github.com/acme/fleet/pull/7", merged))


def version_of(world: World) -> Version:
    return make_plan(CHANNEL, world.ports(), intent()).plan.current_version


@dataclass
class PaperApprovals:
    """A approvals with what lies on it, and what was done at it."""

    answer: GrantedApproval | NotCounted | None = None
    asked: list[Question] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    bases: list[Digest] = field(default_factory=list)

    def granted(self, base: Digest) -> GrantedApproval | NotCounted | None:
        self.bases.append(base)
        return self.answer if self.answer is not None and self.answer.request.base == base else None

    def ask(self, question: Question) -> Asked:
        self.asked.append(question)
        return Asked("https://github.com/acme/fleet/pull/8", AskedState.OPENED)

    def withdraw(self, reason: str) -> None:
        self.withdrawn.append(reason)


class TestApplyGranted:
    def test_what_was_approved_is_published_and_its_record_says_by_whom(self, world: World) -> None:
        request = wanted(world)
        outcome = apply_granted(yes(request), world.ports(), intent())
        assert outcome.done == 1
        assert world.channel_digest() == str(request.target)
        (entry,) = [entry for entry in history(CHANNEL, world.ports()).entries if entry.digest == request.target]
        assert [record.approval for record in entry.records] == [yes(request).approval]

    def test_a_second_time_there_is_nothing_to_do(self, world: World) -> None:
        granted = yes(wanted(world))
        apply_granted(granted, world.ports(), intent())
        before = world.contents()
        assert apply_granted(granted, world.ports(), intent()).done == 0
        assert world.contents() == before

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            pytest.param({"base": NOBODY}, ApprovalOutdated, id="another base"),
            pytest.param({"target": NOBODY}, ApprovedDiffers, id="another digest"),
            pytest.param({"version": OLD}, ApprovedDiffers, id="another version"),
        ],
    )
    def test_another_step_is_refused(self, world: World, change: dict[str, object], error: type[Error]) -> None:
        request = wanted(world)
        granted = yes(replace(request, **change))  # type: ignore[arg-type]  # a table of fields
        with pytest.raises(error):
            apply_granted(granted, world.ports(), intent())
        assert world.channel_digest() == str(request.base)

    @pytest.mark.parametrize(
        "wish",
        [
            pytest.param(intent(paused=True), id="paused"),
            pytest.param(intent(policy=Policy(actions=dict.fromkeys(Policy().actions, Action.NEVER))), id="never"),
        ],
    )
    def test_a_yes_lifts_nothing_that_the_policy_refuses_now(self, world: World, wish: object) -> None:
        request = wanted(world)
        with pytest.raises(StepRefused):
            apply_granted(yes(request), world.ports(), wish)  # type: ignore[arg-type]  # an intent
        assert world.channel_digest() == str(request.base)

    def test_nothing_is_read_where_nobody_could_sign(self, world: World) -> None:
        granted = yes(wanted(world))
        world.registry.requests.clear()
        with pytest.raises(NoSigner):
            apply_granted(granted, world.ports(signer=None), intent())
        assert world.registry.requests == []


class TestOnce:
    """An approval that was used does not count again, even where the channel is back at its base."""

    def move_back(self, world: World, request: ApprovalRequest) -> None:
        repository = world.registry.repositories[str(CHANNEL.repository)]
        repository.tags["production"] = request.base

    def test_a_replay_is_refused(self, world: World) -> None:
        request = wanted(world)
        apply_granted(yes(request), world.ports(), intent())
        self.move_back(world, request)
        with pytest.raises(ApprovalUsed):
            apply_granted(yes(request), world.ports(), intent(adopt=True))
        assert world.channel_digest() == str(request.base)

    def test_a_replay_is_refused_where_the_record_was_written_by_a_later_run(self, world: World) -> None:
        request = wanted(world)
        apply_granted(yes(request), world.ports(), intent())
        repository = world.registry.repositories[str(CHANNEL.repository)]
        for referrer in world.registry.referrers(CHANNEL, request.target):
            del repository.manifests[referrer.digest]
        apply_granted(yes(request), world.ports(), intent())  # finds no record, and writes it
        self.move_back(world, request)
        with pytest.raises(ApprovalUsed):
            apply_granted(yes(request), world.ports(), intent(adopt=True))

    @pytest.mark.parametrize(
        ("came_back", "planned"),
        [
            pytest.param(False, False, id="it went on"),
            pytest.param(True, False, id="it came back"),
            pytest.param(False, True, id="a plan"),
        ],
    )
    def test_where_the_channel_left_the_base_it_records_no_move_of_a_writer_of_the_registry(
        self, *, came_back: bool, planned: bool
    ) -> None:
        """A run that was killed left the target signed, and it is the highest version."""
        world, minors = World(), intent(policy=Policy({**Policy().actions, Bump.PATCH: Action.NEVER}))
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        plan = make_plan(CHANNEL, world.ports(), minors).plan
        request = ApprovalRequest.of(plan, plan.steps[0])

        def die(asked: object) -> None:
            if asked == ("put_manifest", str(CHANNEL)):
                raise Killed

        world.registry.before = die
        with pytest.raises(Killed):
            apply_granted(yes(request), world.ports(), minors)
        world.registry.before = lambda _: None
        assert update(CHANNEL, world.ports(), intent()).done == 1
        if came_back:
            back = propose_rollback(CHANNEL, Wish(str(request.base)), world.ports(), intent())
            roll_back(back, world.ports(), intent())
        world.registry.put_manifest(CHANNEL, world.registry.manifest(CHANNEL.at_digest(request.target)))
        if planned:
            apply(plan, (request.target,), world.ports(), minors)
        else:
            with pytest.raises(CameBack if came_back else ApprovalOutdated):
                apply_granted(yes(request), world.ports(), minors)
        assert world.ports().ledger(CHANNEL).records(request.target) == ()

    def test_it_is_void_once_the_channel_left_a_base_without_a_record_and_was_adopted_there_again(self) -> None:
        """As another tool publishes, with our key."""
        world, minors = World(), intent(policy=Policy({**Policy().actions, Bump.PATCH: Action.NEVER}))
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        plan = make_plan(CHANNEL, world.ports(), minors).plan
        request = ApprovalRequest.of(plan, plan.steps[0])
        forget_records(world, request.base)
        granted = GrantedApproval(request, replace(yes(request).approval, at=datetime.now(UTC)))
        assert update(CHANNEL, world.ports(), intent()).done == 1
        self.move_back(world, request)
        update(CHANNEL, world.ports(), intent(adopt=True))
        with pytest.raises(CameBack):
            apply_granted(granted, world.ports(), minors)
        assert world.channel_digest() == str(request.base)

    def test_it_is_void_once_the_channel_left_the_base_and_is_adopted_there_by_the_same_run(self) -> None:
        world, minors = World(), intent(policy=Policy({**Policy().actions, Bump.PATCH: Action.NEVER}))
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        plan = make_plan(CHANNEL, world.ports(), minors).plan
        request = ApprovalRequest.of(plan, plan.steps[0])
        granted = GrantedApproval(request, replace(yes(request).approval, at=datetime.now(UTC)))
        assert update(CHANNEL, world.ports(), intent()).done == 1
        self.move_back(world, request)
        adopting = replace(minors, adopt=True)
        progress = update_and_ask(CHANNEL, world.ports(), adopting, {RequestKind.VERSION: PaperApprovals(granted)})
        assert world.channel_digest() == str(request.base)
        assert "and came back to it" in progress.refused[0].reason

    def test_a_new_yes_to_the_same_counts(self, world: World) -> None:
        request = wanted(world)
        apply_granted(yes(request), world.ports(), intent())
        self.move_back(world, request)
        later = datetime.now(UTC) + timedelta(hours=1)
        anew = GrantedApproval(request, Approval("bob", "pull request https://github.com/acme/fleet/pull/9", later))
        assert apply_granted(anew, world.ports(), intent(adopt=True)).done == 1
        assert world.channel_digest() == str(request.target)


class TestTend:
    def test_what_waits_is_asked_for_with_what_upstream_says(self, world: World) -> None:
        approvals = PaperApprovals()
        progress = update_and_ask(CHANNEL, world.ports(), intent(), {RequestKind.VERSION: approvals})
        (question,) = approvals.asked
        assert (question.step.new_version, question.step.base) == (MINOR, question.plan.current)
        assert progress.asked.keys() == {question.step.target}
        assert not progress.changed
        assert approvals.withdrawn == []

    def test_a_patch_is_published_first_and_the_minor_asked_for_from_there(self) -> None:
        world, approvals = World(), PaperApprovals()
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        progress = update_and_ask(CHANNEL, world.ports(), intent(), {RequestKind.VERSION: approvals})
        assert progress.changed
        assert str(approvals.asked[0].step.base) == world.channel_digest()

    def test_a_run_that_adopts_asks_for_nothing_before_the_patch_is_published(self) -> None:
        world, approvals = World(), PaperApprovals()
        init(CHANNEL, OLD, world.ports(None, None), intent(unsafe_unsigned=True))
        before = world.channel_digest()
        progress = update_and_ask(CHANNEL, world.ports(), intent(adopt=True), {RequestKind.VERSION: approvals})
        assert (progress.changed, approvals.asked, approvals.withdrawn) == (False, [], [])
        assert world.channel_digest() == before
        progress = update_and_ask(CHANNEL, world.ports(), intent(), {RequestKind.VERSION: approvals})
        assert progress.changed
        assert str(approvals.asked[0].step.base) == world.channel_digest()

    def test_what_was_approved_is_taken_up_before_all_else(self, world: World) -> None:
        request = wanted(world)
        approvals = PaperApprovals(yes(request))
        progress = update_and_ask(CHANNEL, world.ports(), intent(), {RequestKind.VERSION: approvals})
        assert world.channel_digest() == str(request.target)
        assert progress.applied is not None
        assert (progress.changed, approvals.asked) == (True, [])
        assert approvals.withdrawn == [f"{CHANNEL} is at {request.target} now, and no step needs approval"]

    def test_a_yes_that_does_not_count_is_told_and_asked_for_again(self, world: World) -> None:
        found = NotCounted(wanted(world), "mallory may not write")
        approvals = PaperApprovals(found)
        progress = update_and_ask(CHANNEL, world.ports(), intent(), {RequestKind.VERSION: approvals})
        assert progress.refused == (found,)
        assert world.channel_digest() == str(found.request.base)
        assert len(approvals.asked) == 1

    def test_a_yes_that_cannot_be_done_any_more_is_told_and_the_rest_is_done(self, world: World) -> None:
        approvals = PaperApprovals(yes(replace(wanted(world), target=NOBODY)))
        progress = update_and_ask(CHANNEL, world.ports(), intent(), {RequestKind.VERSION: approvals})
        (refused,) = progress.refused
        assert str(NOBODY) in refused.reason
        assert len(approvals.asked) == 1

    @pytest.mark.parametrize("when", ["window", "freeze"])
    def test_outside_of_a_window_a_request_stays_and_its_yes_counts_in_the_next(self, world: World, when: str) -> None:
        always, never = (Period(cron, timedelta(hours=1), ZoneInfo("UTC")) for cron in ("* * * * *", "0 0 1 1 *"))
        closed = Policy(window=(never,)) if when == "window" else Policy(freeze=(always,))
        opened = Policy(window=(always,)) if when == "window" else Policy(freeze=(never,))
        approvals = PaperApprovals(yes(wanted(world)))
        before = world.channel_digest()
        for answer in (None, approvals.answer):  # nobody said yes yet, and then somebody did
            waiting = PaperApprovals(answer)
            outside = intent(policy=closed)
            progress = update_and_ask(CHANNEL, world.ports(), outside, {RequestKind.VERSION: waiting}, thorough=True)
            assert (waiting.asked, waiting.withdrawn, world.channel_digest()) == ([], [], before)
            told = ["has to wait" in it.reason for it in progress.refused]
            assert told == [True] * bool(answer)
        inside = intent(policy=opened)
        assert update_and_ask(CHANNEL, world.ports(), inside, {RequestKind.VERSION: approvals}).changed

    @pytest.mark.parametrize("thorough", [True, False])
    def test_where_nothing_happens_nothing_is_withdrawn_unless_a_person_asks(
        self, world: World, *, thorough: bool
    ) -> None:
        apply_granted(yes(wanted(world)), world.ports(), intent())
        approvals = PaperApprovals()
        update_and_ask(CHANNEL, world.ports(), intent(), {RequestKind.VERSION: approvals}, thorough=thorough)
        assert len(approvals.withdrawn) == thorough

    def test_with_nobody_to_ask_it_is_an_update(self, world: World) -> None:
        progress = update_and_ask(CHANNEL, world.ports(), intent(), {})
        assert progress.asked == {}
        assert version_of(world) == PATCH


class TestTakeUp:
    def test_only_what_was_approved_is_published(self) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        before = world.channel_digest()
        assert apply_approved(CHANNEL, world.ports(), intent(), {RequestKind.VERSION: PaperApprovals()}) == Progress()
        assert world.channel_digest() == before

    def test_what_was_approved_is_published(self, world: World) -> None:
        request = wanted(world)
        progress = apply_approved(CHANNEL, world.ports(), intent(), {RequestKind.VERSION: PaperApprovals(yes(request))})
        assert progress.changed
        assert world.channel_digest() == str(request.target)

    def test_a_yes_that_does_not_count_is_an_error(self, world: World) -> None:
        approvals = PaperApprovals(NotCounted(wanted(world), "it comes from a fork"))
        with pytest.raises(ApprovalNotCounted, match="it comes from a fork"):
            apply_approved(CHANNEL, world.ports(), intent(), {RequestKind.VERSION: approvals})
