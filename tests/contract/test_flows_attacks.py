"""What somebody tries who can write a plan file, a tag, or an option: each attempt ends before the channel moves."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ci_automation.artifact.reference import Digest
from ci_automation.artifact.tree import COMPONENTS_PATH, Tree, TreeFile
from ci_automation.flows.apply import StepRefused, TargetDiffers, apply
from ci_automation.flows.files import UnreadableOverlay
from ci_automation.flows.init import init
from ci_automation.flows.planning.plan import make_plan
from ci_automation.flows.publication.publish import IdentityChange
from ci_automation.flows.update import update
from ci_automation.flux.proof import Proof
from ci_automation.flux.version import Version
from ci_automation.policy.decision import Decision
from ci_automation.policy.model import Action, Allowance, Policy
from tests.fakes.world import CHANNEL, NOW, OLD, OVERLAY, World, intent, made_once, signing_key

if TYPE_CHECKING:
    from ci_automation.errors import Error
    from ci_automation.policy.plan import Plan
    from tests.fakes.registry import Asked


@pytest.fixture
@made_once
def world() -> World:
    """Return a world whose channel has the oldest release."""
    made = World()
    init(CHANNEL, OLD, made.ports(), intent(overlay=OVERLAY))
    return made


def planned(world: World, **changes: Any) -> Plan:
    return make_plan(CHANNEL, world.ports(), intent(**changes)).plan


def refused(world: World, error: type[Error], plan: Plan, **changes: Any) -> None:
    """Apply a plan with every approval, and see that it is refused and nothing written."""
    before = world.contents()
    with pytest.raises(error):
        apply(plan, {step.target for step in plan.steps}, world.ports(), intent(**changes))
    assert world.contents() == before


@pytest.mark.parametrize("decision", [Decision.REFUSED, Decision.WAIT])
def test_a_step_that_the_plan_itself_stops_is_not_done_because_a_flag_would_let_it_through(
    world: World, decision: Decision
) -> None:
    plan = planned(world)
    refused(world, StepRefused, replace(plan, steps=(replace(plan.steps[0], decision=decision),)))


@pytest.mark.parametrize(
    "forged",
    [
        {"overlay": Digest.of(b"another")},
        {"release": Digest.of(b"another")},
        {"proof": Proof.DELEGATED},
        {"images": ()},
        {"added": ("Deployment/x",)},
        {"removed": ("Deployment/x",)},
        {"old_version": Version.parse("2.98.7")},
    ],
    ids=lambda forged: next(iter(forged)),
)
def test_whatever_a_plan_shows_to_its_approver_must_be_so(world: World, forged: dict[str, Any]) -> None:
    plan = planned(world)
    refused(world, TargetDiffers, replace(plan, steps=(replace(plan.steps[0], **forged),)))


def test_an_approved_step_that_is_refused_now_is_an_error_also_behind_a_step_that_was_done(world: World) -> None:
    plan = planned(world)
    never = replace(
        Policy(),
        actions={**Policy().actions, plan.steps[1].old_version.bump_to(plan.steps[1].new_version): Action.NEVER},
    )
    with pytest.raises(StepRefused):
        apply(plan, {plan.steps[1].target}, world.ports(), intent(policy=never))


def test_a_plan_that_is_done_already_claims_nothing_for_this_run(world: World) -> None:
    plan = planned(world)
    everything = {step.target for step in plan.steps}
    first = apply(plan, everything, world.ports(), intent())
    again = apply(plan, everything, world.ports(), intent())
    assert (first.start, first.done) == (0, 2)
    assert (again.start, again.done) == (2, 2)


def test_nothing_is_published_that_the_trusted_key_did_not_sign(world: World) -> None:
    before = world.contents()
    for run in (
        lambda: update(CHANNEL, world.ports(signer="theirs", trusted="ours"), intent()),
        lambda: init(CHANNEL.at_tag("new"), OLD, world.ports(signer="theirs", trusted="ours"), intent()),
    ):
        with pytest.raises(IdentityChange, match=signing_key("theirs").public.fingerprint.hex):
            run()
    assert world.contents() == before


def test_the_key_is_changed_once_and_on_purpose(world: World) -> None:
    changed = world.ports(signer="theirs", trusted="ours")
    assert update(CHANNEL, changed, intent(accept_identity_change=True)).done == 1
    assert update(CHANNEL, world.ports(signer="theirs", trusted="theirs"), intent()).trust == "verified"


def test_an_overlay_with_a_file_where_the_components_go_is_refused(world: World) -> None:
    taken = Tree((*OVERLAY.files, TreeFile(COMPONENTS_PATH, b"mine")))
    before = world.contents()
    for run in (
        lambda: update(CHANNEL, world.ports(), intent(overlay=taken)),
        lambda: init(CHANNEL.at_tag("new"), OLD, world.ports(), intent(overlay=taken)),
        lambda: init(
            CHANNEL.at_tag("new"), OLD, world.ports(), intent(overlay=OVERLAY, components_file="kustomization.yaml")
        ),
    ):
        with pytest.raises(UnreadableOverlay, match="where the components file goes"):
            run()
    assert world.contents() == before


def test_whoever_approves_is_told_what_only_a_flag_allows(world: World) -> None:
    [_, minor] = planned(world).steps
    allowed = any("--unsafe-unproven-rendering allows" in reason for reason in minor.reasons)
    assert allowed == (minor.proof is Proof.NONE)
    fewer_flags = {"components": "source-controller,kustomize-controller"}
    refused = next(step for step in planned(world, flags=fewer_flags).steps if step.kind == "content")
    until = NOW + timedelta(days=1)
    policy = Policy(allow_removal=tuple(Allowance(name, until, "unused") for name in refused.removed))
    configured = next(step for step in planned(world, flags=fewer_flags, policy=policy).steps if step.kind == "content")
    assert (refused.decision, configured.decision) == (Decision.REFUSED, Decision.APPROVAL)
    assert any("which the configuration allows until" in reason for reason in configured.reasons)
    fewer = planned(world, flags=fewer_flags, allow_removal=True)
    content = next(step for step in fewer.steps if step.kind == "content")
    assert content.decision is Decision.APPROVAL
    assert any("would be removed, which --allow-removal allows" in reason for reason in content.reasons)


def test_whoever_approves_sees_values_before_and_after(world: World) -> None:
    plan = planned(world, flags={"log-level": "debug", "toleration-keys": "a,b", "network-policy": False})
    [reason] = [reason for step in plan.steps for reason in step.reasons if reason.startswith("the options change")]
    assert "log-level (info -> debug)" in reason
    assert "network-policy (true -> false)" in reason
    assert "toleration-keys (none -> a,b)" in reason


def test_who_finds_the_channel_where_it_was_to_go_is_done(world: World) -> None:
    """Two updaters with the same target: the slower one looks again when the other has moved the channel."""

    def other_moves(asked: Asked) -> None:
        if asked.method == "resolve" and asked.what.endswith(":production"):
            world.registry.before = lambda _: None
            update(CHANNEL, world.ports(), intent())

    world.registry.before = other_moves
    first = update(CHANNEL, world.ports(), intent())
    assert world.channel_digest() == str(first.plan.steps[0].target)
