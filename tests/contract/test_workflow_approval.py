"""Asking by a run that waits in a protected environment, on a GitHub with state: once, found again, never replayed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.approval.approved_run import JobFacts, judge_run, run_facts
from ci_automation.approval.port import (
    ApprovalRequest,
    Approvals,
    Asked,
    AskedState,
    GrantedApproval,
    NotCounted,
    Question,
)
from ci_automation.approval.workflow_run import UnprotectedEnvironment, WorkflowApprovals
from ci_automation.artifact.reference import Reference
from ci_automation.config.model import ApprovalConfig
from ci_automation.errors import ReleaseSourceError
from ci_automation.github.repository import Repository
from ci_automation.github.runs import Runs
from tests.contract.approval_doubles import CHANNEL, NOW, client, die_everywhere, question
from tests.contract.scene import APPROVE
from tests.fakes.forge.faults import LOST, nth
from tests.fakes.forge.forge import Forge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fakes.forge.repository import Repository as Fleet
    from tests.fakes.forge.state import Run

FLEET = "acme/fleet"
PATH = ".github/workflows/approve.yaml"
SETTINGS = ApprovalConfig()
PERMISSIONS = {"actions": "write", "contents": "read"}
PAGE = "https://github.com/acme/fleet/actions/workflows/approve.yaml"


@dataclass(slots=True)
class Scene:
    """A fleet's repository, and who acts in it."""

    forge: Forge
    slept: list[float]

    @property
    def fleet(self) -> Fleet:
        """The repository."""
        return self.forge.repositories[FLEET]

    def desk(self, channel: Reference = CHANNEL, settings: ApprovalConfig = SETTINGS) -> Approvals:
        """Return the desk of a check that begins now."""
        runs = Runs(client(self.forge, PERMISSIONS, FLEET), FLEET)
        return WorkflowApprovals(runs, "https://github.com", "main", channel, settings, lambda: NOW, self.slept.append)

    def ask(self, asked: Question | None = None) -> Asked:
        """Ask, as a check of its own."""
        asked = asked or question()
        return self.desk(asked.plan.artifact).ask(asked)

    def judge(
        self, run: Run, request: ApprovalRequest | None = None, settings: ApprovalConfig = SETTINGS
    ) -> GrantedApproval | NotCounted:
        """Return what the job of a run finds."""
        github = client(self.forge, {"actions": "read", "contents": "read", "members": "read"}, FLEET)
        job = JobFacts(run.id, run.event, f"refs/heads/{run.branch}", "main")
        request = request or request_of(question())
        facts = run_facts(job, Runs(github, FLEET), Repository(github, FLEET), settings)
        return judge_run(request, run.inputs.get("key", ""), facts, settings, NOW)

    def shape(self) -> list[tuple[str, str, str | None]]:
        """Return what runs there are, and what became of them."""
        return [(run.title, run.status, run.conclusion) for run in self.fleet.runs]


def request_of(asked: Question) -> ApprovalRequest:
    """Return what a question asks for."""
    return ApprovalRequest.of(asked.plan, asked.step)


def made(flavour: str = "api.github.com", workflow: bytes = APPROVE) -> Forge:
    """Return a GitHub with a fleet whose environment waits for alice, carol or a bot."""
    forge = Forge(flavour=flavour, now=lambda: NOW)
    fleet = forge.repository(FLEET, {PATH: workflow})
    fleet.environment("flux-manifests", ["alice", "carol", "acme-flux[bot]"])
    fleet.collaborators |= {"alice": "write", "carol": "read", "acme-flux[bot]": "write"}
    for login in fleet.collaborators:
        forge.user(login)
    return forge


@pytest.fixture(params=["api.github.com", "ghes"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Yield a fleet on github.com, and on an Enterprise Server that does not name the runs that it starts."""
    with made(request.param) as forge:
        yield Scene(forge, [])


class TestAsking:
    def test_it_starts_one_run_that_waits_for_a_person(self, scene: Scene) -> None:
        asked = scene.ask()
        (run,) = scene.fleet.runs
        request = request_of(question())
        assert (run.status, run.title, run.event, run.branch) == (
            "waiting", f"Approve {CHANNEL} v2.9.4 ({request.key})", "workflow_dispatch", "main",
        )  # fmt: skip
        assert run.inputs == request.texts
        assert asked.state is AskedState.OPENED
        assert asked.url.endswith(f"/acme/fleet/actions/runs/{run.id}")
        assert not asked.remark

    def test_what_was_asked_is_found_again(self, scene: Scene) -> None:
        first = scene.ask()
        before = len(scene.forge.requests)
        assert scene.ask() == replace(first, state=AskedState.UNCHANGED)
        assert len(scene.fleet.runs) == 1
        assert len(scene.forge.requests) == before + 1

    def test_it_takes_few_requests(self, scene: Scene) -> None:
        scene.ask()
        assert len(scene.forge.requests) <= (3 if scene.forge.is_public else 7)
        assert sum(scene.slept) < 10

    def test_on_a_public_github_nothing_is_waited_for(self) -> None:
        with made() as forge:
            scene = Scene(forge, [])
            scene.ask()
            assert not scene.slept

    def test_a_run_that_goes_on_is_no_reason_to_ask_again(self, scene: Scene) -> None:
        scene.ask()
        scene.forge.approve(scene.fleet.runs[0].id, "alice")
        assert scene.ask().state is AskedState.UNCHANGED
        scene.fleet.begin(scene.fleet.runs[0].id)
        assert scene.ask().state is AskedState.UNCHANGED
        assert len(scene.fleet.runs) == 1

    def test_a_newer_release_supersedes_the_request(self, scene: Scene) -> None:
        scene.ask(question("v2.9.3"))
        scene.ask()
        assert [(run.status, run.conclusion) for run in scene.fleet.runs] == [
            ("completed", "cancelled"), ("waiting", None),
        ]  # fmt: skip

    def test_a_publication_is_never_cancelled(self, scene: Scene) -> None:
        scene.ask(question("v2.9.3"))
        scene.forge.approve(scene.fleet.runs[0].id, "alice")
        scene.fleet.begin(scene.fleet.runs[0].id)
        scene.ask()
        assert [run.status for run in scene.fleet.runs] == ["in_progress", "waiting"]

    def test_other_artifacts_are_let_be(self, scene: Scene) -> None:
        others = [
            CHANNEL.at_tag("production-eu"),
            CHANNEL.at_tag("produc"),
            Reference.parse("layout:a b (c):production"),
        ]
        for other in others:
            scene.ask(question(channel=other))
        scene.ask()
        assert [run.status for run in scene.fleet.runs] == ["waiting"] * 4
        assert all(scene.ask(question(channel=other)).state is AskedState.UNCHANGED for other in others)
        scene.desk().withdraw("it is paused")
        assert [run.status for run in scene.fleet.runs] == ["waiting"] * 3 + ["completed"]

    def test_two_checks_at_the_same_moment_leave_one_run(self, scene: Scene) -> None:
        scene.ask()
        request = request_of(question())
        scene.fleet.dispatch("approve.yaml", "main", request.texts, "alice")
        assert scene.ask().state is AskedState.UNCHANGED
        assert [run.status for run in scene.fleet.runs] == ["waiting", "completed"]

    @pytest.mark.parametrize("conclusion", ["failure", "cancelled", "timed_out"])
    def test_what_ended_without_a_no_is_asked_again(self, scene: Scene, conclusion: str) -> None:
        scene.ask()
        scene.fleet.complete(scene.fleet.runs[0].id, conclusion)
        asked = scene.ask()
        assert asked.state is AskedState.OPENED
        assert "ended without a rejection" in asked.remark
        assert [run.status for run in scene.fleet.runs] == ["completed", "waiting"]

    def test_what_was_approved_and_failed_is_asked_again(self, scene: Scene) -> None:
        scene.ask()
        scene.forge.approve(scene.fleet.runs[0].id, "alice")
        scene.fleet.complete(scene.fleet.runs[0].id, "failure")
        assert scene.ask().state is AskedState.OPENED

    def test_a_no_is_a_no(self, scene: Scene) -> None:
        scene.ask()
        scene.forge.reject(scene.fleet.runs[0].id, "alice")
        asked = scene.ask()
        assert asked.state is AskedState.KEPT
        assert asked.url.endswith(f"/runs/{scene.fleet.runs[0].id}")
        assert "rejected" in asked.remark
        assert len(scene.fleet.runs) == 1

    def test_a_no_holds_though_a_later_run_was_cancelled(self, scene: Scene) -> None:
        scene.ask()
        scene.forge.reject(scene.fleet.runs[0].id, "alice")
        later = scene.fleet.dispatch("approve.yaml", "main", request_of(question()).texts, "alice")
        scene.fleet.cancel(later.id)
        assert scene.ask().state is AskedState.KEPT

    @pytest.mark.parametrize("ended", ["failure", "success"])  # and after that there was a way back
    def test_a_later_yes_outweighs_a_no(self, scene: Scene, ended: str) -> None:
        scene.ask()
        scene.forge.reject(scene.fleet.runs[0].id, "alice")
        later = scene.fleet.dispatch("approve.yaml", "main", request_of(question()).texts, "alice")
        scene.forge.approve(later.id, "alice")
        scene.fleet.complete(later.id, ended)
        assert scene.ask().state is AskedState.OPENED

    def test_a_no_is_to_one_target(self, scene: Scene) -> None:
        scene.ask()
        scene.forge.reject(scene.fleet.runs[0].id, "alice")
        assert scene.ask(question("v2.9.5")).state is AskedState.OPENED

    @pytest.mark.parametrize(("days", "counts"), [(70, True), (71, False)])
    def test_a_no_since_a_merge_is_not_forgotten(self, scene: Scene, days: int, *, counts: bool) -> None:
        scene.ask()
        (run,) = scene.fleet.runs
        scene.forge.reject(run.id, "alice")
        run.created = run.updated = NOW - timedelta(days=days)
        desk = scene.desk()
        assert isinstance(desk, WorkflowApprovals)
        assert bool(desk.rejected(NOW - timedelta(days=70))) is counts

    def test_a_no_is_forgotten_after_two_months(self, scene: Scene) -> None:
        scene.ask()
        scene.forge.reject(scene.fleet.runs[0].id, "alice")
        scene.fleet.runs[0].created = NOW - timedelta(days=70)
        assert scene.ask().state is AskedState.OPENED

    def test_a_run_that_is_not_listed_in_time_is_found_by_its_page(self) -> None:
        with made("ghes", APPROVE.replace(b"run-name", b"x-run-name")) as forge:
            scene = Scene(forge, [])
            assert scene.ask() == Asked(PAGE, AskedState.OPENED)
            assert len(scene.slept) == 3


class TestTitlesOfOthers:
    def test_a_title_that_a_branch_makes_up_keeps_nobody_from_asking(self, scene: Scene) -> None:
        request = request_of(question())
        title = f"Approve {request.artifact} {request.version} ({request.key})".encode()
        scene.fleet.push(
            "evil",
            {
                PATH: APPROVE.replace(
                    b'"Approve ${{ inputs.artifact }} ${{ inputs.version }} (${{ inputs.key }})"', title
                )
            },
            "alice",
            "x",
        )
        scene.fleet.dispatch("approve.yaml", "evil", {**request_of(question("v2.9.3")).texts}, "alice")
        assert scene.fleet.runs[0].title == title.decode()
        assert scene.ask().state is AskedState.OPENED
        assert [run.status for run in scene.fleet.runs] == ["waiting", "waiting"]

    def test_our_key_in_a_title_about_something_else_is_not_ours(self, scene: Scene) -> None:
        ours = request_of(question())
        other = request_of(question(channel=CHANNEL.at_tag("eu"))).texts
        scene.fleet.dispatch("approve.yaml", "main", {**other, "key": ours.key}, "mallory")
        scene.fleet.dispatch("approve.yaml", "main", {**other, "version": f"v1 ({ours.key}) {CHANNEL} v2"}, "mallory")
        assert scene.ask().state is AskedState.OPENED
        assert [run.status for run in scene.fleet.runs] == ["waiting"] * 3


class TestWithdrawing:
    def test_what_waits_is_cancelled(self, scene: Scene) -> None:
        scene.ask()
        scene.desk().withdraw("the artifact is paused")
        scene.desk().withdraw("the artifact is paused")
        assert [(run.status, run.conclusion) for run in scene.fleet.runs] == [("completed", "cancelled")]

    def test_where_nothing_waits_nothing_is_done(self, scene: Scene) -> None:
        scene.desk().withdraw("the artifact is paused")
        assert [request.method for request in scene.forge.requests] == ["GET"]

    def test_nothing_is_granted(self, scene: Scene) -> None:
        scene.ask()
        scene.forge.approve(scene.fleet.runs[0].id, "alice")
        assert scene.desk().granted(question().step.base) is None


class TestProtection:
    @pytest.mark.parametrize("exists", [True, False])
    def test_an_environment_that_lets_everything_pass_is_not_asked(self, scene: Scene, *, exists: bool) -> None:
        scene.fleet.environments.clear()
        if exists:
            scene.fleet.environment("flux-manifests")
        with pytest.raises(UnprotectedEnvironment, match="flux-manifests") as raised:
            scene.ask()
        assert "tick 'Required reviewers'" in raised.value.hint
        assert not scene.fleet.runs

    def test_a_yes_counts_for_the_run_that_it_was_given_to(self, scene: Scene) -> None:
        scene.ask()
        run = scene.fleet.runs[0]
        assert isinstance(scene.judge(run), NotCounted)
        scene.forge.approve(run.id, "alice")
        granted = scene.judge(run)
        assert isinstance(granted, GrantedApproval)
        assert granted.approval.by == "alice"
        assert granted.approval.how.startswith("run http")
        assert granted.approval.how.endswith(f"/acme/fleet/actions/runs/{run.id}")

    def test_a_run_by_hand_passes_the_same_gate(self, scene: Scene) -> None:
        run = scene.fleet.dispatch("approve.yaml", "main", {**request_of(question()).texts, "key": ""}, "alice")
        assert isinstance(scene.judge(run), NotCounted)
        scene.forge.approve(run.id, "alice")
        assert isinstance(scene.judge(run), GrantedApproval)

    @pytest.mark.parametrize(
        ("by", "reason"),
        [
            pytest.param("carol", "carol approved it, but may not write", id="a reviewer who may only read"),
            pytest.param("acme-flux[bot]", "is not a person", id="the bot itself"),
        ],
    )
    def test_the_yes_of_some_reviewers_is_none(self, scene: Scene, by: str, reason: str) -> None:
        scene.ask()
        scene.forge.approve(scene.fleet.runs[0].id, by)
        verdict = scene.judge(scene.fleet.runs[0])
        assert isinstance(verdict, NotCounted)
        assert reason in verdict.reason
        assert not any("[bot]" in request.path for request in scene.forge.requests)

    def test_a_permission_that_was_revoked_meanwhile_takes_the_yes_with_it(self, scene: Scene) -> None:
        scene.ask()
        scene.forge.approve(scene.fleet.runs[0].id, "alice")
        scene.fleet.collaborators["alice"] = "read"
        assert isinstance(scene.judge(scene.fleet.runs[0]), NotCounted)

    def test_where_a_team_is_named_only_its_members_count(self, scene: Scene) -> None:
        scene.forge.team("acme/platform", ["bob"])
        settings = ApprovalConfig(team="acme/platform")
        scene.ask()
        scene.forge.approve(scene.fleet.runs[0].id, "alice")
        assert isinstance(scene.judge(scene.fleet.runs[0], settings=settings), NotCounted)
        scene.forge.team("acme/platform", ["alice"])
        assert isinstance(scene.judge(scene.fleet.runs[0], settings=settings), GrantedApproval)

    def test_an_environment_opened_after_the_request_lets_nothing_through(self, scene: Scene) -> None:
        scene.ask()
        scene.forge.approve(scene.fleet.runs[0].id, "alice")
        scene.fleet.environment("flux-manifests")
        verdict = scene.judge(scene.fleet.runs[0])
        assert isinstance(verdict, NotCounted)
        assert "has no required reviewers" in verdict.reason

    def test_a_run_of_another_branch_counts_for_nothing(self, scene: Scene) -> None:
        scene.fleet.push("feature", {"x": b"y"}, "alice", "x")
        run = scene.fleet.dispatch("approve.yaml", "feature", request_of(question()).texts, "alice")
        scene.forge.approve(run.id, "alice")
        verdict = scene.judge(run)
        assert isinstance(verdict, NotCounted)
        assert "not on the default branch" in verdict.reason

    def test_a_yes_to_one_target_is_none_to_another(self, scene: Scene) -> None:
        scene.ask()
        scene.forge.approve(scene.fleet.runs[0].id, "alice")
        verdict = scene.judge(scene.fleet.runs[0], request_of(question("v2.9.5")))
        assert isinstance(verdict, NotCounted)
        assert verdict.reason == "the key belongs to another request"

    def test_a_repeated_run_is_still_one_run_and_a_no_in_any_attempt_is_the_end(self, scene: Scene) -> None:
        scene.ask()
        run = scene.fleet.runs[0]
        scene.forge.approve(run.id, "alice")
        first = scene.judge(run)
        scene.fleet.complete(run.id, "failure")
        scene.fleet.rerun(run.id, "bob")
        second = scene.judge(run)
        assert isinstance(first, GrantedApproval)
        assert isinstance(second, GrantedApproval)
        assert first.approval.how == second.approval.how  # so that it is used up once for all attempts
        scene.forge.reject(run.id, "alice")
        assert isinstance(scene.judge(run), NotCounted)


class TestCrashes:
    @pytest.mark.parametrize("flavour", ["api.github.com", "ghes"])
    def test_wherever_asking_dies_the_next_check_ends_the_same(self, flavour: str) -> None:
        def act(forge: Forge) -> None:
            Scene(forge, []).ask()

        requests = die_everywhere(lambda: made(flavour), act, lambda forge: Scene(forge, []).shape())
        assert requests >= 3

    @pytest.mark.parametrize(
        ("act", "requests"),
        [
            pytest.param(lambda scene: scene.ask(), 6, id="superseding"),
            pytest.param(lambda scene: scene.desk().withdraw("paused"), 4, id="withdrawing"),
        ],
    )
    def test_wherever_a_change_dies_the_next_check_ends_the_same(
        self, act: Callable[[Scene], object], requests: int
    ) -> None:
        def begun() -> Forge:
            forge = made()
            for version in ("v2.9.1", "v2.9.2", "v2.9.3"):
                forge.repositories[FLEET].dispatch("approve.yaml", "main", request_of(question(version)).texts, "bot")
            return forge

        dies = die_everywhere(begun, lambda forge: act(Scene(forge, [])), lambda forge: Scene(forge, []).shape())
        assert dies >= requests

    def test_a_start_whose_answer_was_lost_is_said_and_found_by_the_next_check(self) -> None:
        with made() as forge:
            scene = Scene(forge, [])
            forge.faults.append(nth(1, LOST, "POST"))
            with pytest.raises(ReleaseSourceError):
                scene.ask()
            assert scene.ask().state is AskedState.UNCHANGED
            assert len(scene.fleet.runs) == 1
