"""The flows on a registry in memory: what is read, what is decided, what is refused, and what becomes of it."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from msgspec.structs import replace

from ci_automation.artifact.manifest import InvalidManifest
from ci_automation.artifact.reference import Digest
from ci_automation.artifact.tree import COMPONENTS_PATH, Tree, TreeFile
from ci_automation.flows.apply import (
    NewHazard,
    NoSuchStep,
    NotApproved,
    PlanOutdated,
    StepRefused,
    TargetDiffers,
    apply,
)
from ci_automation.flows.history import history
from ci_automation.flows.init import ChannelExists, init
from ci_automation.flows.planning.base import OptionsUnclear
from ci_automation.flows.planning.findings import impact_of
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.ports import NoSigner
from ci_automation.flows.rendering import UnprovenRendering, render_release
from ci_automation.flows.update import NotOurs, update
from ci_automation.flows.verify import pull, verify_channel
from ci_automation.flux.artifact import immutable_tag
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof
from ci_automation.flux.recover import EditedByHand, MadeByAnotherTool
from ci_automation.flux.release import ReleaseNotFound
from ci_automation.flux.version import Bump, Version
from ci_automation.impact import objects, plain
from ci_automation.impact.change import Certainty, ChangeClass, Hazard
from ci_automation.impact.check import Check, Seen
from ci_automation.impact.overlay.builder import BuildFailed
from ci_automation.policy.decision import Decision, Verdict
from ci_automation.policy.model import Action, Allowance, MinorStep, Policy
from ci_automation.records.ledger import ImmutableTagMoved
from ci_automation.signing.verify import ForeignSignature
from tests.contract.publishing import publish_text
from tests.fakes.world import (
    CHANNEL,
    MINOR,
    NOW,
    OLD,
    OVERLAY,
    PATCH,
    World,
    intent,
    made_once,
    release,
    repackaged,
    signing_key,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_automation.impact.check import Applied, Known
    from ci_automation.impact.overlay.builder import Build
    from tests.fakes.registry import Asked

LENIENT = Policy(escalate=frozenset())
MINORS = {Bump.PATCH: Action.AUTO, Bump.MINOR: Action.AUTO, Bump.MAJOR: Action.NEVER}


@pytest.fixture
@made_once
def world() -> World:
    """A channel at the oldest sample, signed by us."""
    world = World()
    init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
    world.registry.requests.clear()
    return world


def components(world: World) -> bytes:
    return pull(CHANNEL, world.ports())[0][COMPONENTS_PATH]


class TestCheck:
    def test_a_channel_that_is_current_costs_its_manifest_and_its_signature(self, world: World) -> None:
        apply(make_plan(CHANNEL, world.ports(), intent()).plan, minor_target(world), world.ports(), intent())
        world.registry.requests.clear()
        world.releases.fetched.clear()
        planned = make_plan(CHANNEL, world.ports(), intent())
        assert planned.plan.steps == ()
        assert [asked.method for asked in world.registry.requests] == ["manifest", "manifest"]
        assert world.releases.fetched == []

    def test_a_plan_reads_and_writes_nothing(self, world: World) -> None:
        before = world.contents()
        make_plan(CHANNEL, world.ports(), intent())
        assert world.contents() == before
        assert {asked.method for asked in world.registry.requests} == {"manifest", "blob", "referrers", "tags"}

    def test_the_same_inputs_give_the_same_plan(self, world: World) -> None:
        plans = {make_plan(CHANNEL, world.ports(), intent()).plan.to_text() for _ in range(2)}
        assert len(plans) == 1


class Granting:
    """A kustomize that builds the components, with a rule that grants everything."""

    def builds(self, wanted: Sequence[Build]) -> tuple[str, ...]:
        """Return the builds."""
        rule = "rules:\n- apiGroups:\n  - '*'\n  resources:\n  - '*'\n  verbs:\n  - '*'\n"
        return tuple(tree[COMPONENTS_PATH].decode().replace("rules:\n", rule, 1) for tree, _ in wanted)


class OfClusters:
    """A kustomize that builds the components, and cannot build the patch's with a patch of clusters."""

    def builds(self, wanted: Sequence[Build]) -> tuple[str | BuildFailed, ...]:
        """Return the builds."""
        fails = (b"typo" in tree["kustomization.yaml"] and b"v1.98.7" in tree[COMPONENTS_PATH] for tree, _ in wanted)
        texts = (tree[COMPONENTS_PATH].decode() for tree, _ in wanted)
        return tuple(BuildFailed("no such object") if it else text for it, text in zip(fails, texts, strict=True))


def minor_target(world: World) -> set[Digest]:
    return {make_plan(CHANNEL, world.ports(), intent()).plan.steps[-1].target}


class TestPlan:
    def test_no_text_is_read_twice(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """The differ, the check of CRDs and the check of the overlay share what one of them has read."""
        read: Counter[tuple[str, str]] = Counter()
        for module, reader in ((yaml, "parse"), (plain, "_read")):
            real = getattr(module, reader)

            def reading(text: str, *rest: object, _key: str = reader, _real: Any = real, **more: object) -> object:
                read[_key, text] += 1
                return _real(text, *rest, **more)

            monkeypatch.setattr(module, reader, reading)
        monkeypatch.setattr(objects, "LARGE", 100)  # what is large of a real release is not of the samples
        files = OVERLAY.replaced("a/kustomization.yaml", b"resources: [pod.yaml]\n").replaced(
            "a/pod.yaml", b"a: &b 1\n"
        )
        steps = make_plan(CHANNEL, world.ports(), intent(overlay=files)).plan.steps
        assert all(step.changes for step in steps)
        assert [k for k, v in read.items() if v > 1] == []
        assert not [text for _, text in read if "\n---\n" in text]

    @pytest.mark.parametrize(
        ("classes", "decision"),
        [({}, Decision.APPROVAL), ({"refuse": frozenset({ChangeClass.RBAC})}, Decision.REFUSED)],
    )
    def test_the_gates_judge_what_a_patch_of_the_overlay_does(
        self, world: World, classes: dict[str, Any], decision: Decision
    ) -> None:
        patch = b"patches:\n- {target: {kind: ClusterRole}, patch: '[{op: test, path: /kind}]'}\n"
        files = OVERLAY.replaced("kustomization.yaml", OVERLAY["kustomization.yaml"] + patch)
        ports = replace(world.ports(), find_kustomize=Granting)
        wanted = intent(overlay=files, policy=Policy(actions=dict.fromkeys(Bump, Action.NEVER), **classes))
        (step,) = make_plan(CHANNEL, ports, wanted).plan.steps
        (gate,) = [verdict for verdict in step.gates if verdict.gate == ChangeClass.RBAC]
        assert gate.decision is decision
        assert gate.reason.endswith("may now do everything with * of *, by kustomization.yaml")

    def test_a_release_that_no_cluster_can_build_with_its_own_patches_is_refused(self, world: World) -> None:
        ports = replace(world.ports(), find_kustomize=OfClusters)
        patch = {"patch": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: typo}}"}
        policy = Policy(actions={**dict.fromkeys(Bump, Action.NEVER), Bump.PATCH: Action.AUTO})
        own = intent(kustomization={"patches": [patch]}, policy=policy)
        (step,) = make_plan(CHANNEL, ports, own).plan.steps
        (found,) = [it for it in step.hazards if "sync.kustomization" in it.sentence]
        assert (found.certainty, step.decision) == (Certainty.CERTAIN, Decision.REFUSED)
        assert found.sentence.endswith("with the patches and images of `sync.kustomization`: no such object")

    def test_the_minor_is_asked_for_on_top_of_the_patch(self, world: World) -> None:
        plan = make_plan(CHANNEL, world.ports(), intent()).plan
        patch, minor = plan.steps
        assert (patch.new_version, patch.decision) == (PATCH, Decision.AUTO)
        assert (minor.new_version, minor.decision) == (MINOR, Decision.APPROVAL)
        assert (patch.base, minor.base) == (plan.current, patch.target)

    def test_what_is_passed_over_is_in_the_order_of_the_versions(self, world: World) -> None:
        world.releases.samples += (release("v2.98.9", published_at=NOW.isoformat()), release("v3.0.0", like="v2.99.4"))
        world.releases.without["v2.98.8"] = ("helm-controller",)
        found = [it.version for it in make_plan(CHANNEL, world.ports(), intent()).plan.passed_over]
        assert len(found) > 1
        assert found == sorted(found)

    @pytest.mark.parametrize("step", MinorStep)
    def test_a_minor_that_its_content_makes_wait_does_not_stop_the_patch(self, world: World, step: MinorStep) -> None:
        wish = intent(policy=Policy(actions=MINORS, minor_step=step))
        outcome = update(CHANNEL, world.ports(), wish)
        patch, minor = outcome.plan.steps
        assert outcome.done == 1
        assert (patch.new_version, patch.decision) == (PATCH, Decision.AUTO)
        assert (minor.new_version, minor.decision, minor.base) == (MINOR, Decision.APPROVAL, patch.target)
        assert outcome.plan.passed_over == ()
        assert [it.new_version for it in update(CHANNEL, world.ports(), wish).waiting] == [MINOR]

    def test_an_overlay_is_built_only_for_steps_that_no_earlier_check_holds_back(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The minor is looked at as a step from the present version, and then built once, on top of the patch."""
        built: list[tuple[Version | None, Version | None]] = []

        def warn(_: Applied | None, after: Applied, __: Known) -> Seen:
            hazard = Hazard("crds", Certainty.POSSIBLE, "a version", "a version goes away")
            return Seen((hazard,) if after.version == MINOR else ())

        def build(before: Applied | None, after: Applied, _: Known) -> Seen:
            built.append((before.version if before else None, after.version))
            return Seen()

        checks = [Check("crds", 1, warn, lambda *_: ("", "")), Check("overlay", 2, build, lambda *_: ("", ""))]
        monkeypatch.setattr("ci_automation.impact.assess.all_checks", lambda: checks)
        policy = Policy(actions=MINORS, escalate=frozenset())
        plan = make_plan(CHANNEL, world.ports(), intent(policy=policy)).plan
        assert [step.decision for step in plan.steps] == [Decision.AUTO, Decision.APPROVAL]
        assert built == [(OLD, PATCH), (PATCH, MINOR)]

    def test_a_minor_that_its_content_refuses_does_not_stop_the_patch(self, world: World) -> None:
        policy = Policy(actions=MINORS, refuse=frozenset({ChangeClass.RBAC}))
        outcome = update(CHANNEL, world.ports(), intent(policy=policy))
        assert (outcome.done, outcome.plan.steps[0].new_version) == (1, PATCH)
        assert [(it.new_version, it.decision) for it in outcome.waiting] == [(MINOR, Decision.REFUSED)]
        assert outcome.plan.passed_over == ()

    def test_a_minor_that_cannot_be_made_does_not_stop_the_patch(self, world: World) -> None:
        world.releases.without["v2.99.4"] = ("helm-controller",)
        outcome = update(CHANNEL, world.ports(), intent(policy=Policy(actions=MINORS)))
        assert [step.new_version for step in outcome.plan.steps] == [PATCH]
        assert outcome.done == 1
        assert [(it.version, it.decision) for it in outcome.plan.passed_over] == [(MINOR, Decision.REFUSED)]

    def test_a_minor_that_happens_by_itself_makes_the_patch_before_it_needless(self, world: World) -> None:
        world.releases.samples += (release("v2.99.9", like="v2.99.4"), release("v3.0.0", like="v2.99.4"))
        policy = Policy(actions={**MINORS, Bump.MAJOR: Action.APPROVAL}, escalate=frozenset())
        plan = make_plan(CHANNEL, world.ports(), intent(policy=policy, flags={"log-level": "debug"})).plan
        assert [(str(step.new_version), step.decision) for step in plan.steps] == [
            ("v2.99.9", Decision.AUTO),
            ("v2.99.9", Decision.APPROVAL),
            ("v3.0.0", Decision.APPROVAL),
        ]
        assert [step.options.log_level for step in plan.steps] == ["info", "debug", "debug"]
        assert plan.passed_over == ()

    def test_what_only_comes_later_is_told_with_what_comes_first(self, world: World) -> None:
        world.releases.samples += (release("v2.100.1", like="v2.99.4"), release("v2.100.2", like="v2.99.4"))
        wish = intent(policy=Policy(minor_step=MinorStep.NEXT))
        plan = make_plan(CHANNEL, world.ports(), wish).plan
        assert [step.new_version for step in plan.steps] == [PATCH, MINOR]
        assert [(str(it.version), it.reasons) for it in plan.passed_over] == [("v2.100.2", ("v2.99.4 comes first",))]

    def test_of_what_is_refused_the_nearest_is_shown_with_all_that_is_known_of_it(self, world: World) -> None:
        fewer = intent(flags={"components": ["source-controller"]})
        plan = make_plan(CHANNEL, world.ports(), fewer).plan
        assert [(step.new_version, step.decision, step.kind) for step in plan.steps] == [
            (PATCH, Decision.AUTO, "patch"),
            (PATCH, Decision.REFUSED, "content"),
        ]
        assert "Deployment/helm-controller" in plan.steps[-1].removed
        assert [(it.version, it.decision) for it in plan.passed_over] == [(MINOR, Decision.REFUSED)]

    def test_a_release_without_a_wanted_component_is_passed_over(self, world: World) -> None:
        world.releases.without["v2.98.8"] = ("helm-controller",)
        plan = make_plan(CHANNEL, world.ports(), intent()).plan
        assert [step.new_version for step in plan.steps] == [MINOR]
        assert [(it.version, it.decision) for it in plan.passed_over] == [(PATCH, Decision.REFUSED)]
        assert "no helm-controller" in plan.passed_over[0].reasons[0]

    def test_a_release_that_cannot_be_taken_is_passed_over_for_the_one_before(self, world: World) -> None:
        world.releases.samples += (release("v2.98.9"),)
        world.releases.problems["v2.98.9"] = "it has no manifests.tar.gz"
        plan = make_plan(CHANNEL, world.ports(), intent()).plan
        assert [step.new_version for step in plan.steps] == [PATCH, MINOR]
        assert any("no manifests.tar.gz" in it.reasons[0] for it in plan.passed_over)

    def test_young_releases_are_held(self, world: World) -> None:
        world.releases.samples = repackaged(world.releases.samples, NOW.isoformat())
        plan = make_plan(CHANNEL, world.ports(), intent()).plan
        assert not any(step.decision.is_actionable for step in plan.steps)
        assert update(CHANNEL, world.ports(), intent()).done == 0

    def test_what_is_unproven_is_refused(self, world: World) -> None:
        world.releases.samples = (release("v2.98.6"), release("v2.98.5", like="v2.98.5"))
        outcome = update(CHANNEL, world.ports(), intent(unsafe_unproven_rendering=False))
        assert (outcome.done, [step.decision for step in outcome.waiting]) == (0, [Decision.REFUSED])
        assert outcome.waiting[0].proof is Proof.NONE

    def test_options_that_left_no_trace_are_taken_from_the_flags_alone(self) -> None:
        world = World()
        flags = {"components": ["kustomize-controller"], "cluster-domain": "fleet.example"}
        init(CHANNEL, OLD, world.ports(), intent(flags=flags))
        for wrong in ({}, {"cluster-domain": "other.example"}):
            with pytest.raises(OptionsUnclear):
                make_plan(CHANNEL, world.ports(), intent(flags=wrong))
        plan = make_plan(CHANNEL, world.ports(), intent(flags={"cluster-domain": "fleet.example"})).plan
        assert {step.options.cluster_domain for step in plan.steps} == {"fleet.example"}
        assert apply(plan, {plan.steps[-1].target}, world.ports(), intent()).done == 2


class TestUpdate:
    def test_publishes_what_is_automatic_and_keeps_the_overlays_bytes(self, world: World) -> None:
        outcome = update(CHANNEL, world.ports(), intent())
        assert (outcome.done, outcome.trust) == (1, "verified")
        assert [step.new_version for step in outcome.waiting] == [MINOR]
        tree, digest, _ = pull(CHANNEL, world.ports())
        assert digest == outcome.plan.steps[0].target
        assert tree.without(COMPONENTS_PATH).digest() == OVERLAY.digest()
        assert tree.by_path["hooks/after.sh"].executable

    def test_asks_for_nothing_without_a_key(self, world: World) -> None:
        with pytest.raises(NoSigner):
            update(CHANNEL, world.ports(signer=None), intent())
        assert world.registry.requests == []

    def test_unsigned_leaves_no_signature(self) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(signer=None, trusted=None), intent(unsafe_unsigned=True))
        outcome = update(CHANNEL, world.ports(signer=None, trusted=None), intent(unsafe_unsigned=True))
        assert (outcome.done, outcome.trust) == (1, "not checked")
        assert not [tag for tag in world.registry.tags(CHANNEL) if tag.endswith(".sig")]

    def test_an_immutable_tag_that_somebody_moved_stops_the_run(self, world: World) -> None:
        target = make_plan(CHANNEL, world.ports(), intent()).plan.steps[0].target
        present = world.registry.manifest(CHANNEL)
        taken = CHANNEL.at_tag(immutable_tag(PATCH, target))
        world.registry.put_manifest(taken, present)
        with pytest.raises(ImmutableTagMoved) as caught:
            update(CHANNEL, world.ports(), intent())
        assert caught.value.hint.startswith(f"{taken.tag} must never move. Find out who moved it, ")

    def test_an_immutable_tag_that_somebody_takes_after_the_list_of_tags_is_put_right(self, world: World) -> None:
        target = make_plan(CHANNEL, world.ports(), intent()).plan.steps[0].target
        taken, present = CHANNEL.at_tag(immutable_tag(PATCH, target)), world.registry.resolve(CHANNEL)
        assert present is not None

        def take(asked: Asked) -> None:
            if asked.method == "put_manifest" and asked.what.endswith(str(taken.tag)):
                world.registry.repositories[str(CHANNEL.repository)].tags[str(taken.tag)] = present

        world.registry.before = take
        update(CHANNEL, world.ports(), intent())
        assert world.registry.resolve(taken) == target  # ADR 0016


class TestApply:
    def test_an_approval_is_for_its_own_step(self, world: World) -> None:
        update(CHANNEL, world.ports(), intent())
        plan = make_plan(CHANNEL, world.ports(), intent()).plan
        with pytest.raises(NotApproved) as refusal:
            apply(plan, (), world.ports(), intent())
        assert str(plan.steps[0].target) in refusal.value.hint
        with pytest.raises(NoSuchStep, match=f"{plan.current}; its steps lead to {plan.steps[0].target}"):
            apply(plan, {plan.current}, world.ports(), intent())
        assert apply(plan, {plan.steps[0].target}, world.ports(), intent()).done == 1

    def test_a_newer_release_does_not_ride_on_an_old_yes(self, world: World) -> None:
        old = make_plan(CHANNEL, world.ports(), intent()).plan
        world.releases.samples += (release("v2.98.9"),)
        update(CHANNEL, world.ports(), intent())
        with pytest.raises(PlanOutdated):
            apply(old, {step.target for step in old.steps}, world.ports(), intent())

    def test_it_goes_on_where_the_channel_is(self, world: World) -> None:
        plan = make_plan(CHANNEL, world.ports(), intent()).plan
        update(CHANNEL, world.ports(), intent())
        outcome = apply(plan, {plan.steps[1].target}, world.ports(), intent())
        assert (outcome.done, outcome.waiting, world.channel_digest()) == (2, (), str(plan.steps[1].target))

    def test_a_plan_without_steps_is_done(self, world: World) -> None:
        world.releases.samples = (release("v2.98.5", like="v2.98.5"),)
        plan = make_plan(CHANNEL, world.ports(), intent()).plan
        assert apply(plan, (), world.ports(), intent()).done == 0

    def test_a_release_with_another_content_is_a_conflict(self, world: World) -> None:
        plan = make_plan(CHANNEL, world.ports(), intent()).plan
        world.releases.samples = (release("v2.98.8", like="v2.99.4"), release("v2.98.5", like="v2.98.5"))
        before = world.contents()
        with pytest.raises(TargetDiffers):
            apply(plan, (), world.ports(), intent())
        assert world.contents() == before

    @pytest.mark.parametrize(
        ("changes", "word"),
        [
            ({"paused": True}, "has to wait: the artifact is paused"),
            ({"now": NOW.replace(year=2026, month=6, day=2, hour=15)}, "has to wait: v2.98.8 is 0 hours old"),
        ],
        ids=["paused", "too young"],
    )
    def test_what_is_decided_now_counts_and_not_what_was_planned(
        self, world: World, changes: dict[str, object], word: str
    ) -> None:
        plan = make_plan(CHANNEL, world.ports(), intent()).plan
        with pytest.raises(StepRefused, match=word) as refusal:
            apply(plan, {plan.steps[0].target}, world.ports(), intent(**changes))
        assert "Wait until the time" in refusal.value.hint

    def test_what_is_refused_now_cannot_be_approved(self, world: World) -> None:
        world.releases.samples = (release("v2.98.6"), release("v2.98.5", like="v2.98.5"))
        plan = make_plan(CHANNEL, world.ports(), intent()).plan
        with pytest.raises(StepRefused, match="refused: the rendering of this release is not proven") as refusal:
            apply(plan, {plan.steps[0].target}, world.ports(), intent(unsafe_unproven_rendering=False))
        assert "`plan` lists what to do" in refusal.value.hint

    def test_what_is_refused_besides_a_hold_is_not_told_to_end_it(self, world: World) -> None:
        step = make_plan(CHANNEL, world.ports(), intent()).plan.steps[0]
        gates = (Verdict("hold", Decision.WAIT, "later", ""), Verdict("removal", Decision.REFUSED, "gone", ""))
        held = replace(step, gates=gates[:1], decision=Decision.WAIT)
        assert "ends the hold" in StepRefused(held, CHANNEL).hint
        refused = replace(step, gates=gates, decision=Decision.REFUSED)
        assert "`plan` lists what to do" in StepRefused(refused, CHANNEL).hint

    @pytest.mark.parametrize(
        ("count", "said"), [(1, ": no 0"), (2, ": no 0; no 1"), (3, ": no 0; no 1; and 1 more"), (5, "; and 3 more")]
    )
    def test_a_refusal_says_two_reasons_and_how_many_more_there_are(self, world: World, count: int, said: str) -> None:
        step = make_plan(CHANNEL, world.ports(), intent()).plan.steps[0]
        gates = tuple(Verdict("crds", Decision.REFUSED, f"no {it}", "") for it in range(count))
        told = str(StepRefused(replace(step, gates=gates, decision=Decision.REFUSED), CHANNEL))
        assert told.removesuffix(" that `plan` lists").endswith(said)

    @pytest.mark.parametrize(
        ("gate", "hint"),
        [
            ("overlay", "Install kustomize or kubectl: the plan was made with one."),
            ("crds", "the snapshots and manifests of this run"),
        ],
    )
    def test_what_the_plan_does_not_know_is_a_conflict(
        self, world: World, monkeypatch: pytest.MonkeyPatch, gate: str, hint: str
    ) -> None:
        plan = make_plan(CHANNEL, world.ports(), intent()).plan
        found = Hazard(gate, Certainty.UNCHECKED, "x", "nobody could look")
        monkeypatch.setattr(
            "ci_automation.flows.planning.step.impact_of", lambda *given: replace(impact_of(*given), hazards=(found,))
        )
        with pytest.raises(NewHazard, match="was planned without knowing that nobody could look") as caught:
            apply(plan, (), world.ports(), intent())
        assert hint in caught.value.hint

    def test_an_overlay_is_used_for_the_step_that_has_it(self, world: World) -> None:
        new = intent(overlay=Tree((TreeFile("a.yaml", b"a"),)))
        plan = make_plan(CHANNEL, world.ports(), new).plan
        assert [step.overlay == OVERLAY.digest() for step in plan.steps] == [True, False, False]
        outcome = apply(plan, {step.target for step in plan.steps}, world.ports(), new)
        assert outcome.done == 3
        assert set(pull(CHANNEL, world.ports())[0].by_path) == {COMPONENTS_PATH, "a.yaml"}


class TestBase:
    def test_edits_stop_the_run_with_their_diff_and_are_dropped_when_accepted(self, world: World) -> None:
        publish_text(world, components(world).replace(b"replicas: 1\n", b"replicas: 2\n", 1))
        with pytest.raises(EditedByHand) as refusal:
            update(CHANNEL, world.ports(), intent())
        assert "\n-  replicas: 1\n+  replicas: 2\n" in refusal.value.diff
        outcome = update(CHANNEL, world.ports(), intent(accept_edits=True, policy=LENIENT))
        assert outcome.done == 1
        assert outcome.plan.steps[0].reasons
        assert b"replicas: 2" not in components(world)

    def test_edits_of_the_newest_release_are_dropped_in_a_step_of_their_own(self) -> None:
        world = World()
        init(CHANNEL, MINOR, world.ports(), intent())
        clean = components(world)
        publish_text(world, clean + b"# mine\n")
        outcome = update(CHANNEL, world.ports(), intent(accept_edits=True, policy=LENIENT))
        assert [step.kind for step in outcome.plan.steps[: outcome.done]] == ["content"]
        assert components(world) == clean

    @pytest.mark.parametrize(
        ("days", "other"), [(0, False), (1, True), (1, False)], ids=["over", "another digest", "on"]
    )
    def test_the_configuration_drops_the_edits_of_one_digest_until_a_date(
        self, world: World, days: int, *, other: bool
    ) -> None:
        publish_text(world, components(world).replace(b"replicas: 1\n", b"replicas: 2\n", 1))
        edited = Digest.of(b"") if other else world.registry.resolve(CHANNEL)
        allowance = Allowance(str(edited), NOW + timedelta(days=days), "patched")
        wish = intent(policy=replace(LENIENT, accept_edits=(allowance,)))
        if other or not days:
            with pytest.raises(EditedByHand):
                update(CHANNEL, world.ports(), wish)
            return
        outcome = update(CHANNEL, world.ports(), wish)
        assert (outcome.done, b"replicas: 2" in components(world)) == (1, False)
        assert any("which the configuration allows until" in reason for reason in outcome.plan.steps[0].reasons)

    @pytest.mark.parametrize("change", ["same objects", "other objects"])
    def test_another_tools_file_is_told_apart(self, world: World, change: str) -> None:
        text = b"".join(components(world).splitlines(keepends=True)[4:])
        more = b"" if change == "same objects" else b"---\nkind: ConfigMap\n"
        publish_text(world, text + more)
        with pytest.raises(MadeByAnotherTool, match=f"the {change}" if not more else change):
            update(CHANNEL, world.ports(), intent())

    def test_what_is_not_text_is_refused(self, world: World) -> None:
        publish_text(world, b"\xff\xfe")
        with pytest.raises(InvalidManifest, match="is not text"):
            update(CHANNEL, world.ports(), intent())

    @pytest.mark.parametrize(("stated", "message"), [("v2.98.7", "states v2.98.7"), ("newest", "'newest' is not")])
    def test_an_annotation_that_lies_is_refused(self, world: World, stated: str, message: str) -> None:
        publish_text(world, components(world), {"io.github.flux-manifests.version": stated})
        with pytest.raises(InvalidManifest, match=message):
            update(CHANNEL, world.ports(), intent())

    def test_a_release_that_is_gone_cannot_prove_the_base(self, world: World) -> None:
        world.releases.samples = (release("v2.98.8"),)
        with pytest.raises(ReleaseNotFound):
            update(CHANNEL, world.ports(), intent())

    @pytest.mark.parametrize("signer", [None, "theirs"])
    def test_who_can_only_push_cannot_have_us_sign(self, signer: str | None) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(signer, signer), intent(unsafe_unsigned=signer is None))
        before = world.contents()
        with pytest.raises((NotOurs, ForeignSignature)):
            update(CHANNEL, world.ports(), intent())
        assert world.contents() == before
        outcome = update(CHANNEL, world.ports(), intent(adopt=True))
        assert (outcome.trust, outcome.done, world.registry.resolve(CHANNEL)) == ("adopted", 0, outcome.plan.current)
        assert update(CHANNEL, world.ports(), intent()).done == 1
        assert verify_channel(CHANNEL, world.ports(), intent()).version == PATCH


class TestInit:
    def test_again_is_nothing_and_other_content_is_a_conflict(self, world: World) -> None:
        before = world.contents()
        again = init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
        assert again.is_there
        with pytest.raises(ChannelExists):
            init(CHANNEL, OLD, world.ports(), intent())
        assert world.contents() == before

    def test_what_is_there_already_must_be_signed_by_our_key(self) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports("theirs", "theirs"), intent())
        with pytest.raises(ForeignSignature):
            init(CHANNEL, OLD, world.ports(), intent())
        assert init(CHANNEL, OLD, world.ports(trusted=None), intent()).is_there

    def test_what_is_unproven_is_refused(self) -> None:
        world = World(releases=World().releases)
        world.releases.samples = (release("v2.98.6"),)
        version = Version.parse("v2.98.6")
        with pytest.raises(UnprovenRendering):
            init(CHANNEL, version, world.ports(), intent(unsafe_unproven_rendering=False))
        assert world.registry.requests == []
        assert render_release(version, Options(), world.ports()).proof is Proof.NONE

    def test_the_components_file_may_have_another_place(self) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(), intent(components_file="flux/gotk-components.yaml"))
        update(CHANNEL, world.ports(), intent())
        assert set(pull(CHANNEL, world.ports())[0].by_path) == {"flux/gotk-components.yaml"}


class TestHistory:
    def test_every_digest_once_the_highest_version_first(self, world: World) -> None:
        first = world.registry.manifest(CHANNEL)
        update(CHANNEL, world.ports(), intent())
        world.registry.put_manifest(CHANNEL.at_tag("staging"), first)
        entries = history(CHANNEL, world.ports()).entries
        assert [entry.version for entry in entries] == [PATCH, OLD]
        assert [entry.channels for entry in entries] == [("production",), ("staging",)]
        assert [entry.tag for entry in entries] == [
            immutable_tag(entry.version, entry.digest) for entry in entries if entry.version
        ]
        assert {entry.signed for entry in entries} == {f"key {signing_key().public.fingerprint.short}"}

    def test_signatures_and_attestations_are_no_artifacts(self, world: World) -> None:
        signed = next(tag for tag in world.registry.tags(CHANNEL) if tag.endswith(".sig"))
        manifest = world.registry.manifest(CHANNEL.at_tag(signed))
        for tag in ("sha256-" + "0" * 64, f"sha256-{'1' * 64}.att", "v1.sbom"):
            world.registry.put_manifest(CHANNEL.at_tag(tag), manifest)
        assert [entry.version for entry in history(CHANNEL, world.ports()).entries] == [OLD]

    def test_what_others_keep_there_is_listed_as_unknown(self, world: World) -> None:
        publish_text(world, b"x", {"io.github.flux-manifests.version": "newest"})
        assert [entry.version for entry in history(CHANNEL, world.ports()).entries] == [OLD, None]

    def test_an_immutable_tag_on_another_digest_is_shown_as_a_channel(self, world: World) -> None:
        manifest = world.registry.manifest(CHANNEL)
        world.registry.put_manifest(CHANNEL.at_tag("v2.98.5-000000000000"), manifest)
        (entry,) = history(CHANNEL, world.ports()).entries
        assert entry.channels == ("production", "v2.98.5-000000000000")

    @pytest.mark.parametrize(
        ("signer", "trusted", "word"),
        [
            (None, None, "unsigned"),
            (None, "ours", "unsigned"),
            ("ours", None, "signed, not verified"),
            ("theirs", "ours", "another signer"),
        ],
    )
    def test_who_signed(self, signer: str | None, trusted: str | None, word: str) -> None:
        world = World()
        init(CHANNEL, OLD, world.ports(signer, None), intent(unsafe_unsigned=signer is None))
        assert [entry.signed for entry in history(CHANNEL, world.ports(None, trusted)).entries] == [word]
