"""Hand edits that a step drops: the page compares with the bytes that clusters have, and every gate asks about that."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Reference
from ci_automation.artifact.tree import COMPONENTS_PATH, Tree, TreeFile
from ci_automation.flows.apply import NotApproved, apply
from ci_automation.flows.init import init
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.rollback import Wish, propose_rollback
from ci_automation.flows.update import update
from ci_automation.flows.verify import pull
from ci_automation.impact.change import ChangeClass
from ci_automation.policy.decision import Decision
from ci_automation.policy.model import BUMPS, Action, Allowance, Policy
from ci_automation.registry import open_registry
from tests.contract.planting import at, forget_signature
from tests.contract.publishing import publish_text
from tests.contract.scene import CHANNEL as LAYOUT
from tests.contract.scene import FIRST
from tests.contract.test_promote import SAME, STAGING, settled
from tests.fakes.world import CHANNEL, NOW, OLD, OVERLAY, PATCH, World, intent, made_once

if TYPE_CHECKING:
    from ci_automation.policy.plan import PlannedStep
    from tests.contract.scene import Scene

ADMIN = "ClusterRoleBinding cluster-reconciler-flux-system"
RBAC = f"{ADMIN} is new: it gives ClusterRole cluster-admin to"
NO_VERSION = Policy(actions=dict.fromkeys(BUMPS, Action.NEVER))
ACCEPTED: dict[str, Any] = {"accept_edits": True}


def components(world: World, channel: Reference = CHANNEL) -> bytes:
    """Return the components file that a channel has."""
    return pull(channel, world.ports())[0][COMPONENTS_PATH]


def without_admin(text: bytes) -> bytes:
    """Return components as teams harden them: no cluster-admin for the controllers."""
    documents = text.split(b"\n---\n")
    left = [it for it in documents if b"name: cluster-reconciler-flux-system" not in it]
    assert len(left) == len(documents) - 1
    return b"\n---\n".join(left)


@pytest.fixture
@made_once
def world() -> World:
    """A channel at the oldest sample, from which a team took the binding to cluster-admin by hand."""
    world = World()
    init(CHANNEL, OLD, world.ports(), intent(overlay=OVERLAY))
    publish_text(world, without_admin(components(world)))
    return world


def allowed(world: World) -> dict[str, Any]:
    """Return an intent that drops the edits by the configuration."""
    digest = world.registry.resolve(CHANNEL)
    return {"policy": Policy(accept_edits=(Allowance(str(digest), NOW + timedelta(days=1), "patched"),))}


def said(step: PlannedStep) -> list[str]:
    """Return what a step changes besides images and versions."""
    by_release = {ChangeClass.IMAGE, ChangeClass.VERSION}
    return [str(it.sentence) for it in step.changes if it.belongs_to not in by_release]


@pytest.mark.parametrize("how", ["the option", "the configuration"])
def test_what_an_edit_had_removed_is_shown_and_waits_for_approval(world: World, how: str) -> None:
    before = world.registry.resolve(CHANNEL)
    outcome = update(CHANNEL, world.ports(), intent(**(ACCEPTED if how == "the option" else allowed(world))))
    step = outcome.plan.steps[0]
    assert (outcome.done, step.new_version, step.decision) == (0, PATCH, Decision.APPROVAL)
    assert said(step)[0].startswith(RBAC)
    assert "only images change" not in {it.reason for it in step.gates}
    assert world.registry.resolve(CHANNEL) == before


def test_a_step_of_the_same_version_shows_it_too(world: World) -> None:
    (step,) = make_plan(CHANNEL, world.ports(), intent(**ACCEPTED, policy=NO_VERSION)).plan.steps
    assert (step.kind, step.new_version, step.decision) == ("content", OLD, Decision.APPROVAL)
    assert [it.startswith(RBAC) for it in said(step)] == [True]


def test_a_class_that_the_policy_refuses_is_refused(world: World) -> None:
    policy = replace(NO_VERSION, refuse=frozenset({ChangeClass.RBAC}))
    (step,) = make_plan(CHANNEL, world.ports(), intent(**ACCEPTED, policy=policy)).plan.steps
    assert step.decision is Decision.REFUSED


def test_apply_asks_as_the_plan_does(world: World) -> None:
    wish = intent(**ACCEPTED)
    plan = make_plan(CHANNEL, world.ports(), wish).plan
    with pytest.raises(NotApproved):
        apply(plan, (), world.ports(), wish)
    assert apply(plan, {plan.steps[0].target}, world.ports(), wish).done == 1
    assert ADMIN.split()[1].encode() in components(world)


def test_an_edit_that_no_policy_minds_is_dropped_by_itself_and_shown(world: World) -> None:
    publish_text(world, components(world).replace(b"replicas: 1\n", b"replicas: 2\n", 1))
    policy = replace(NO_VERSION, escalate=frozenset())
    outcome = update(CHANNEL, world.ports(), intent(**ACCEPTED, policy=policy))
    assert (outcome.done, b"replicas: 2" in components(world)) == (1, False)
    assert [it for it in said(outcome.plan.steps[0]) if "spec.replicas" in it]


@pytest.mark.parametrize("apart", [False, True], ids=["one content", "content from Git"])
def test_new_content_on_top_of_edits_shows_both(world: World, *, apart: bool) -> None:
    overlay = Tree((TreeFile("a.yaml", b"a: 1\n"),))
    wish = intent(**ACCEPTED, overlay=overlay, content_apart=apart)
    plan = make_plan(CHANNEL, world.ports(), wish).plan
    lost = [step for step in plan.steps if step.base == plan.current]
    assert {step.kind for step in lost} <= {"content", "patch", "minor"}
    assert lost
    for step in lost:
        assert said(step)[0].startswith(RBAC), step.kind
        assert step.decision is Decision.APPROVAL
    assert any("a.yaml" in it for step in plan.steps for it in said(step))


def test_what_was_adopted_with_its_edits_keeps_them_until_a_person_approves(world: World) -> None:
    edited = at(world)
    forget_signature(world, edited)
    outcome = update(CHANNEL, world.ports(), intent(**ACCEPTED, adopt=True))
    assert (outcome.trust, outcome.done, world.registry.resolve(CHANNEL)) == ("adopted", 0, edited)
    for wish in (ACCEPTED, allowed(world)):
        assert update(CHANNEL, world.ports(), intent(**wish)).done == 0
    assert world.registry.resolve(CHANNEL) == edited


def test_a_rollback_to_edits_and_away_from_them_compares_what_clusters_have(world: World) -> None:
    edited = at(world)
    plan = make_plan(CHANNEL, world.ports(), intent(**ACCEPTED)).plan
    apply(plan, {plan.steps[0].target}, world.ports(), intent(**ACCEPTED))
    shown = propose_rollback(CHANNEL, Wish(str(edited)), world.ports(), intent()).shown
    (gone,) = [it for it in shown.findings.changes if it.belongs_to is ChangeClass.RBAC_NARROWED]
    assert gone.sentence.startswith(f"{ADMIN} is gone")
    assert "edits" not in {it.gate for it in shown.findings.gates}  # nobody rendered either side to look for any


@pytest.mark.parametrize("source", ["edited", "as Flux renders it"])
def test_a_promotion_compares_what_both_channels_have(source: str) -> None:
    road = settled(SAME)
    channel = STAGING if source == "edited" else SAME
    here = World(registry=road.here)
    publish_text(here, without_admin(components(here, channel)), channel=channel)
    promoted = road.promote(policy=Policy())
    assert promoted.considered.step is not None
    assert "edits" not in {it.gate for it in promoted.considered.gates}
    first = said(promoted.considered.step)[0]
    if source == "edited":
        assert first.startswith(f"{ADMIN} is gone")
    else:
        assert (promoted.done, first.startswith(RBAC)) == (False, True)


def test_the_request_of_the_action_lists_it_and_only_its_merge_brings_it_back(scene: Scene) -> None:
    channel = Reference.parse(LAYOUT)
    here = World(registry=open_registry(channel))  # type: ignore[arg-type]  # of the job
    edited = publish_text(here, without_admin(components(here, channel)), channel=channel)
    scene.configure(more=f", acceptEdits: [{{digest: '{edited}', until: 2999-01-31, reason: hardened}}]")
    scene.offer(FIRST)
    scene.fleet.protections.clear()
    ran = scene.run()
    assert (ran.outputs["pending-decision"], scene.channel) == ("approval", str(edited)), ran
    (asked,) = scene.fleet.pulls
    for page in (asked.body, ran.summary):
        assert "`ClusterRoleBinding cluster-reconciler-flux-system` is new: it gives ClusterRole cluster-admin" in page
    scene.fleet.merge(asked.number, "ben")
    assert scene.run().outputs["changed"] == "true"
    assert ADMIN.split()[1].encode() in components(here, channel)
