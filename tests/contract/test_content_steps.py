"""Content of an artifact whose overlay is in Git: a step of its own, beside the versions and never with one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from ci_automation.approval.port import ApprovalRequest, GrantedApproval, RequestKind
from ci_automation.artifact.git import git_blob_id
from ci_automation.artifact.reference import Digest
from ci_automation.config.load import parse_config
from ci_automation.flows.apply import ApprovedTwice, apply
from ci_automation.flows.approved import ApprovalUsed, apply_granted
from ci_automation.flows.init import init
from ci_automation.flows.lift import lift
from ci_automation.flows.planning.git_content import GitContent, GitPlace
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.planning.shown import hidden_states
from ci_automation.flows.rollback import Wish, propose_rollback, roll_back
from ci_automation.flows.update import update
from ci_automation.flows.update_and_ask import update_and_ask
from ci_automation.flows.workspace import OverlayFolder
from ci_automation.github.model import (
    Access,
    Actor,
    BranchUpdate,
    ContentAt,
    ContentMerge,
    Making,
    PullRequest,
    PullState,
    UpdateKind,
)
from ci_automation.impact.change import ChangeClass
from ci_automation.policy.decision import Decision
from ci_automation.policy.model import Period, Policy
from ci_automation.policy.plan import Plan
from ci_automation.records.writer import RecordWriter
from tests.contract.planting import forget_signature, made, plant
from tests.contract.test_flows_approval import PaperApprovals, yes
from tests.fakes.world import CHANNEL, MINOR, NOW, OLD, OVERLAY, PATCH, World, intent, made_once

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.policy.plan import PlannedStep

GIT = OVERLAY.replaced("flux-system/more.yaml", b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: more}\n")


@pytest.fixture
@made_once
def world() -> World:
    """A channel at the newest patch, with a minor that waits."""
    world = World()
    init(CHANNEL, PATCH, world.ports(), intent(overlay=OVERLAY))
    return world


def apart(overlay: Tree = GIT, **changes: Any) -> Intent:
    """Return what a run wants whose overlay is in Git."""
    return intent(overlay=overlay, content_apart=True, **changes)


def planned(world: World, **changes: Any) -> Plan:
    return make_plan(CHANNEL, world.ports(), apart(**changes)).plan


def of(world: World, kind: str, **changes: Any) -> PlannedStep:
    (step,) = (step for step in planned(world, **changes).steps if step.kind == kind)
    return step


def approve(world: World, kind: str, **changes: Any) -> GrantedApproval:
    plan = planned(world, **changes)
    return yes(ApprovalRequest.of(plan, next(step for step in plan.steps if step.kind == kind)))


class TestPlanning:
    def test_the_same_content_is_no_step(self, world: World) -> None:
        assert [step.kind for step in planned(world, overlay=OVERLAY).steps] == ["minor"]
        assert [step.kind for step in planned(world, overlay=OVERLAY, flags={"log-level": "info"}).steps] == ["minor"]

    def test_without_a_checkout_nothing_is_compared(self, world: World) -> None:
        plan = make_plan(CHANNEL, world.ports(), intent(content_apart=True)).plan
        assert [step.kind for step in plan.steps] == ["minor"]

    def test_content_and_minor_start_from_the_present_digest(self, world: World) -> None:
        content, minor = planned(world).steps
        assert (content.kind, minor.kind) == ("content", "minor")
        assert str(content.base) == str(minor.base) == world.channel_digest()
        assert (content.old_version, content.new_version, minor.new_version) == (PATCH, PATCH, MINOR)
        assert (content.overlay, minor.overlay) == (GIT.digest(), OVERLAY.digest())
        assert (content.decision, minor.decision) == (Decision.APPROVAL, Decision.APPROVAL)

    def test_options_are_content_and_a_version_step_keeps_those_of_the_channel(self, world: World) -> None:
        content, minor = planned(world, overlay=OVERLAY, flags={"log-level": "debug"}).steps
        assert (content.options.log_level, minor.options.log_level) == ("debug", "info")
        assert content.base == minor.base

    def test_a_patch_comes_first_and_both_start_from_it(self) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        patch, content, minor = planned(world).steps
        assert (patch.kind, patch.decision, patch.overlay) == ("patch", Decision.AUTO, OVERLAY.digest())
        assert content.base == minor.base == patch.target
        assert update(CHANNEL, world.ports(), apart()).done == 1
        assert world.channel_digest() == str(patch.target)

    def test_content_does_not_wait_for_a_patch_that_needs_approval(self) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        policy = Policy(escalate=frozenset(ChangeClass))
        content, patch, *_ = planned(world, policy=policy).steps
        assert (content.kind, patch.kind, patch.decision) == ("content", "patch", Decision.APPROVAL)
        assert str(content.base) == str(patch.base) == world.channel_digest()

    @pytest.mark.parametrize(
        ("changes", "decision"),
        [
            pytest.param({"paused": True}, Decision.WAIT, id="paused"),
            pytest.param({"flags": {"components": ["source-controller"]}}, Decision.REFUSED, id="removal"),
        ],
    )
    def test_content_that_may_not_be_published_is_shown(
        self, world: World, changes: dict[str, Any], decision: Decision
    ) -> None:
        content = of(world, "content", **changes)
        assert content.decision is decision
        assert update(CHANNEL, world.ports(), apart(**changes)).done == 0


class TestApproved:
    def test_content_keeps_the_version_and_the_minor_is_asked_for_anew(self, world: World) -> None:
        minor = of(world, "minor")
        granted = approve(world, "content")
        assert apply_granted(granted, world.ports(), apart()).done == 1
        assert world.channel_digest() == str(granted.request.target)
        (again,) = planned(world).steps
        assert (again.kind, again.base, again.overlay) == ("minor", granted.request.target, GIT.digest())
        assert again.target != minor.target

    def test_a_version_carries_no_content_and_the_content_is_asked_for_anew(self, world: World) -> None:
        granted = approve(world, "minor")
        assert apply_granted(granted, world.ports(), apart()).done == 1
        (again,) = planned(world).steps
        assert (again.kind, again.base, again.new_version) == ("content", granted.request.target, MINOR)
        assert make_plan(CHANNEL, world.ports(), apart(OVERLAY)).plan.steps == ()

    def test_what_was_approved_and_rolled_back_is_not_published_again(self, world: World) -> None:
        before, granted = world.channel_digest(), approve(world, "content")
        apply_granted(granted, world.ports(), apart())
        wish = Wish(str(before))
        roll_back(propose_rollback(CHANNEL, wish, world.ports(), intent()), world.ports(), intent())
        for hour in range(48):
            now = replace(apart(), now=NOW + timedelta(hours=hour))
            with pytest.raises(ApprovalUsed):
                apply_granted(granted, world.ports(), now)
            assert update(CHANNEL, world.ports(), now).done == 0
        assert world.channel_digest() == before


class TestPlanFile:
    def test_a_person_chooses_one_of_two_steps_from_the_same_digest(self, world: World) -> None:
        plan = Plan.parse(planned(world).to_text().encode())
        content, minor = plan.steps
        outcome = apply(plan, [minor.target], world.ports(), apart())
        assert world.channel_digest() == str(minor.target)
        assert (outcome.done, outcome.digest, outcome.plan.steps) == (1, minor.target, (minor,))
        assert apply(plan, [], world.ports(), apart()).done == 1
        assert content.target != minor.target

    def test_the_content_can_be_the_one(self, world: World) -> None:
        plan = planned(world)
        content, minor = plan.steps
        outcome = apply(plan, [content.target], world.ports(), apart())
        assert (outcome.done, outcome.waiting) == (1, ())
        assert world.channel_digest() == str(content.target) != str(minor.target)

    def test_two_at_once_are_refused(self, world: World) -> None:
        plan, before = planned(world), world.channel_digest()
        with pytest.raises(ApprovedTwice, match="only one can be published"):
            apply(plan, [step.target for step in plan.steps], world.ports(), apart())
        assert world.channel_digest() == before


class TestAsking:
    def test_each_kind_is_asked_for_at_its_own_desk(self, world: World) -> None:
        desks = {kind: PaperApprovals() for kind in RequestKind}
        progress = update_and_ask(CHANNEL, world.ports(), apart(), desks)
        asked = {kind: [question.step.kind for question in desk.asked] for kind, desk in desks.items()}
        assert asked == {RequestKind.VERSION: ["minor"], RequestKind.CONTENT: ["content"]}
        assert progress.asked.keys() == {question.step.target for desk in desks.values() for question in desk.asked}

    def test_a_request_stays_open_while_its_content_has_to_wait(self, world: World) -> None:
        desks = {kind: PaperApprovals() for kind in RequestKind}
        update_and_ask(CHANNEL, world.ports(), apart(paused=True), desks, thorough=True)
        assert desks[RequestKind.CONTENT].withdrawn == []
        assert len(desks[RequestKind.VERSION].withdrawn) == 1
        update_and_ask(CHANNEL, world.ports(), apart(OVERLAY, paused=True), desks, thorough=True)
        assert len(desks[RequestKind.CONTENT].withdrawn) == 1

    def test_what_is_published_voids_the_other_and_withdraws_what_waits_no_more(self, world: World) -> None:
        desks = {kind: PaperApprovals() for kind in RequestKind}
        desks[RequestKind.CONTENT].answer = approve(world, "content")
        desks[RequestKind.VERSION].answer = approve(world, "minor")
        progress = update_and_ask(CHANNEL, world.ports(), apart(), desks)
        assert progress.granted == desks[RequestKind.VERSION].answer
        assert [question.step.kind for question in desks[RequestKind.CONTENT].asked] == ["content"]
        assert len(desks[RequestKind.VERSION].withdrawn) == 1
        assert desks[RequestKind.CONTENT].withdrawn == []


TEXT = f"version: 1\nartifacts: [{{name: production, url: '{CHANNEL}', overlay: clusters}}]\n"
ALICE, BOB = Actor("alice"), Actor("bob")
MORE = GIT.replaced("patches/limits.yaml", b"# 4Gi\n- op: replace\n")
TREES = {"a" * 40: OVERLAY, "b" * 40: GIT, "c" * 40: MORE}


class Story:
    """A default branch whose commits have the same digit as their trees, and that bob merges into for alice."""

    def __init__(self) -> None:
        self.log: list[BranchUpdate] = []
        self.now = datetime.now(UTC) - timedelta(days=3)

    def merge(self, before: str, after: str) -> None:
        self.now += timedelta(minutes=5)
        self.log.insert(0, BranchUpdate(before * 40, after * 40, UpdateKind.PR_MERGE, BOB, self.now))

    def head(self, _folder: str, _config: str) -> tuple[str, ContentAt, datetime]:
        self.now += timedelta(seconds=1)
        return "main", self._at(self.log[0].after), self.now

    def seen(self, _branch: str) -> None:
        """Return that no desk asks for approvals."""

    def updates(self, _branch: str) -> tuple[BranchUpdate, ...]:
        return tuple(self.log)

    def contents(self, commits: Iterable[str], _folder: str, _config: str) -> dict[str, ContentAt]:
        return {commit: self._at(commit) for commit in commits}

    def merges(
        self, updates: Iterable[BranchUpdate], _folder: str, _config: str, **_depth: bool
    ) -> dict[str, tuple[ContentMerge, ...]]:
        return {it.after: (self._merge(it),) for it in updates}

    def _merge(self, update: BranchUpdate) -> ContentMerge:
        pull = PullRequest(
            "id", 7, "https://github.com/acme/fleet/pull/7", PullState.MERGED, "", "", "change", "main",
            update.after, cross_repository=False, author=ALICE, merged_by=BOB, merged_at=update.at,
        )  # fmt: skip
        making = Making(frozenset({"alice"}), update.at)
        return ContentMerge(
            pull, self._at(update.before), self._at(update.after), making, Actor("flux[bot]", is_bot=True)
        )

    def _at(self, commit: str) -> ContentAt:
        return ContentAt(commit, commit, TEXT)

    def ports(self, world: World) -> Ports:
        tree = self.log[0].after
        folder = OverlayFolder("clusters", tree, TREES[tree])
        place = GitPlace("77", "flux.yaml", TEXT, "", folder, parse_config(TEXT.encode(), "flux.yaml").artifacts[0])
        git = GitContent(cast("Any", self), cast("Any", self), place)
        return replace(world.ports(), find_overlay=lambda: folder, find_git=lambda: git)

    def permission(self, _login: str) -> Access:
        return Access("write", 1)


def test_merged_content_that_was_rolled_back_is_not_published_by_any_later_run(world: World) -> None:
    story, wish = Story(), intent(content_apart=True)
    story.merge("a", "b")
    plan = make_plan(CHANNEL, story.ports(world), wish).plan
    assert "no record says which content" in plan.steps[0].reasons[0]
    first = yes(ApprovalRequest.of(plan, plan.steps[0]))
    assert apply_granted(first, story.ports(world), wish).done == 1
    before = world.channel_digest()
    story.merge("b", "c")
    outcome = update(CHANNEL, story.ports(world), wish)
    assert (outcome.done, outcome.plan.steps[0].overlay) == (1, MORE.digest())
    roll_back(propose_rollback(CHANNEL, Wish(str(before)), world.ports(), wish), world.ports(), wish)
    lift(CHANNEL, "it was not that", world.ports(), wish)
    for hour in range(48):
        story.now += timedelta(hours=1)
        outcome = update(CHANNEL, story.ports(world), replace(wish, now=NOW + timedelta(hours=hour)))
        assert (outcome.done, outcome.left) == (0, Decision.APPROVAL)
    assert world.channel_digest() == before
    story.now = datetime.now(UTC) + timedelta(hours=1)  # the rollback was dated by the clock of its run
    story.merge("c", "b")  # A-B-A-B: what the channel has again, and then the old content in a new merge
    assert update(CHANNEL, story.ports(world), wish).plan.steps[0].kind == "minor"
    story.merge("b", "c")
    assert update(CHANNEL, story.ports(world), wish).done == 1


def begun(world: World, wish: Intent) -> Story:
    """Return a story whose first content is published."""
    story = Story()
    story.merge("a", "b")
    plan = make_plan(CHANNEL, story.ports(world), wish).plan
    step = next(step for step in plan.steps if step.kind == "content")
    assert apply_granted(yes(ApprovalRequest.of(plan, step)), story.ports(world), wish).done == 1
    return story


def test_no_merge_counts_on_a_record_that_a_later_run_wrote(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    wish = intent(content_apart=True)
    story = begun(world, wish)
    story.merge("b", "c")
    with monkeypatch.context() as patched:
        patched.setattr(RecordWriter, "attach", lambda *_: None)  # as if the run had ended before
        assert update(CHANNEL, story.ports(world), wish).done == 1
    moved = world.channel_digest()
    assert update(CHANNEL, story.ports(world), wish).done == 0
    story.merge("c", "b")
    outcome = update(CHANNEL, story.ports(world), wish)
    assert (outcome.done, outcome.left, world.channel_digest()) == (0, Decision.APPROVAL, moved)
    assert "no record says which content of Git the channel has" in outcome.plan.steps[0].reasons


def test_content_that_waited_for_a_freeze_is_judged_on_the_version_of_the_day() -> None:
    world, wish = World(), intent(content_apart=True)
    init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
    story = begun(world, replace(wish, policy=Policy(escalate=frozenset(ChangeClass))))
    story.merge("b", "c")
    freeze = Period("* * * * *", timedelta(minutes=5), ZoneInfo("UTC"))
    outcome = update(CHANNEL, story.ports(world), replace(wish, policy=Policy(freeze=(freeze,))))
    assert (outcome.done, outcome.left) == (0, Decision.WAIT)
    outcome = update(CHANNEL, story.ports(world), wish)
    patch, content = outcome.plan.steps[: outcome.done]
    assert (patch.kind, content.kind, content.base, content.new_version) == ("patch", "content", patch.target, PATCH)
    assert content.overlay == MORE.digest()


def test_a_merge_during_a_hold_does_not_count_once_the_hold_is_lifted(world: World) -> None:
    wish = intent(content_apart=True)
    story, before = begun(world, wish), world.channel_digest()
    story.merge("b", "c")
    assert update(CHANNEL, story.ports(world), wish).done == 1
    roll_back(propose_rollback(CHANNEL, Wish(str(before)), world.ports(), wish), world.ports(), wish)
    story.now = datetime.now(UTC) + timedelta(hours=1)
    story.merge("c", "b")
    story.merge("b", "c")
    assert update(CHANNEL, story.ports(world), wish).left is not None
    late = replace(world.ports(), clock=lambda: story.now + timedelta(hours=1))
    lift(CHANNEL, "it was not that", late, wish)
    outcome = update(CHANNEL, story.ports(world), wish)
    assert (outcome.done, outcome.left, world.channel_digest()) == (0, Decision.APPROVAL, before)
    story.now += timedelta(hours=2)
    story.merge("c", "b")
    story.merge("b", "c")
    assert update(CHANNEL, story.ports(world), wish).done == 1


NOT_SHOWN = {
    "a file that GitHub does not send": ("new.yaml", None),
    "a zero byte": ("new.yaml", b"\0"),
    "another encoding": ("new.yaml", b"# \x85"),
    "lines that end for YAML alone": ("new.yaml", b"# a\r- op: add\n"),
    "the same, by Unicode": ("new.yaml", "# a\u0085- op: add\n".encode()),
    "text that is turned around": ("new.yaml", "# a \u202e b\n".encode()),
    "a folder that pages fold": ("a/vendor/new.yaml", b"text"),
    "a folder that ends like one": ("old-vendor/a.io/new.yaml", b"text"),
    "a folder of reports": ("htmlcov/new.yaml", b"text"),
    "a folder of queries": (".sqlx/query-1.json", b"text"),
    "a name that pages fold": ("pnpm-lock.yaml", b"text"),
    "a part of a name": ("Package.resolved.yaml", b"text"),
    "a name of a list": ("JuliaManifest-v1.11.toml", b"text"),
    "a name of a script": ("Gradlew", b"text"),
    "more than a page shows": ("new.yaml", b"a" * 400_001),
    "a type that pages may fold": ("new.js", b"text"),
    "a text that pages fold": ("new.yml", b"# recorded_with: VCR\n"),
}
SHOWN = {
    "plain text": ("new.yaml", b"text"),
    "ends of lines, tabs and the mark of Windows": ("new.yml", "\ufeffkey:\ta\r\nmore: b\r\n".encode()),
    "letters of any language": ("README", "Übung, 練習\n".encode()),
    "as much as a page shows": ("new.yaml", b"a" * 300_000),
}


@pytest.mark.parametrize(
    ("name", "data", "hidden"),
    [(*given, True) for given in NOT_SHOWN.values()] + [(*given, False) for given in SHOWN.values()],
    ids=[*NOT_SHOWN, *SHOWN],
)
def test_a_state_whose_lines_a_page_did_not_show_proves_nothing(name: str, data: bytes | None, hidden: bool) -> None:
    states = {it * 40: ContentAt(it * 40, it * 40, TEXT) for it in "abc"}
    trees = {"a" * 40: OVERLAY, "c" * 40: MORE}
    listed = {file.path: git_blob_id(file.content) for file in GIT.files} | {name: "f" * 40}
    history = SimpleNamespace(files=lambda *trees: dict.fromkeys(trees, listed), blob=lambda _: data)
    found = hidden_states(states, trees, "clusters", "flux.yaml", cast("Any", history))
    assert found == (set(states) if hidden else set())
    history.files = lambda *_: None  # more than GitHub lists
    assert hidden_states(states, trees, "clusters", "flux.yaml", cast("Any", history)) == set(states)


def published(world: World, story: Story, wish: Intent) -> str:
    """Publish the first content by its digest, and return the digest."""
    story.merge("a", "b")
    plan = make_plan(CHANNEL, story.ports(world), wish).plan
    assert apply_granted(yes(ApprovalRequest.of(plan, plan.steps[0])), story.ports(world), wish).done == 1
    return str(world.channel_digest())


def asked_by_digest(world: World, story: Story, wish: Intent) -> str:
    """Return why the content is asked for by digest, which a run does not publish."""
    before = world.channel_digest()
    outcome = update(CHANNEL, story.ports(world), wish)
    assert (outcome.done, outcome.left, world.channel_digest()) == (0, Decision.APPROVAL, before)
    return next(step for step in outcome.plan.steps if step.kind == "content").reasons[0]


NO_RECORD = "no record says which content of Git the channel has"


def test_content_follows_upon_what_was_signed_again(world: World) -> None:
    story, wish = Story(), intent(content_apart=True)
    digest = published(world, story, wish)
    forget_signature(world, Digest.parse(digest))
    story.merge("b", "c")
    outcome = update(CHANNEL, story.ports(world), wish)
    assert (outcome.healed, outcome.done, outcome.plan.steps[0].overlay) == (True, 1, MORE.digest())


def test_content_upon_what_a_person_adopted_is_asked_by_digest(world: World) -> None:
    story, wish = Story(), intent(content_apart=True)
    published(world, story, wish)
    planted = plant(world, made(PATCH, OVERLAY.replaced("patches/theirs.yaml", b"# theirs\n")))
    story.merge("b", "c")
    adopting = replace(wish, adopt=True)
    ports = replace(story.ports(world), confirm=lambda _: True)
    assert update(CHANNEL, ports, adopting).done == 0
    assert world.channel_digest() == str(planted)
    assert NO_RECORD in asked_by_digest(world, story, wish)


def test_two_channels_of_one_repository_get_one_merge_each_by_its_own_record(world: World) -> None:
    story, wish = Story(), intent(content_apart=True)
    published(world, story, wish)
    staging = CHANNEL.at_tag("staging")
    init(staging, PATCH, story.ports(world), intent(overlay=OVERLAY))
    story.merge("b", "c")
    assert update(CHANNEL, story.ports(world), wish).done == 1
    outcome = update(staging, story.ports(world), wish)
    assert (outcome.done, outcome.left) == (0, Decision.APPROVAL)
    assert NO_RECORD in outcome.plan.steps[0].reasons[0]
    granted = yes(ApprovalRequest.of(outcome.plan, outcome.plan.steps[0]))
    assert apply_granted(granted, story.ports(world), wish).done == 1
    assert world.registry.resolve(staging) == world.registry.resolve(CHANNEL)
    story.merge("c", "b")
    for channel in (CHANNEL, staging):
        assert update(channel, story.ports(world), wish).done == 1
        assert update(channel, story.ports(world), wish).done == 0
    assert world.registry.resolve(staging) == world.registry.resolve(CHANNEL)


def test_a_rollback_dates_content_by_the_clock_that_it_is_given(world: World) -> None:
    story, wish = Story(), intent(content_apart=True)
    before = published(world, story, wish)
    story.merge("b", "c")
    assert update(CHANNEL, story.ports(world), wish).done == 1
    now, said = datetime.now(UTC) + timedelta(hours=5), list[str]()
    ports = replace(world.ports(), clock=lambda: now, whose_clock="GitHub", say=said.append)
    roll_back(propose_rollback(CHANNEL, Wish(before), ports, wish), ports, wish)
    words = f"merges before {now:%Y-%m-%d %H:%M:%S} UTC, by the clock of GitHub, approve nothing now"
    assert words in said
    ledger = ports.ledger(CHANNEL)
    assert ledger is not None
    content = ledger.records(Digest.parse(before))[-1].content
    assert content is not None
    assert timedelta() <= content.at - now < timedelta(seconds=1)
