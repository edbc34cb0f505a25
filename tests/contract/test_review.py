"""What the reviewers of a waiting run see before they answer, and that their yes counts for nothing more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ci_automation.approval.handover import NOTHING_SHOWN
from tests.contract.operating import configure, dispatch, patched
from tests.contract.scene import FIRST, MINOR, PATCH

if TYPE_CHECKING:
    from tests.conftest import Once
    from tests.contract.scene import Scene
    from tests.fakes.runner import Ran

BY_RUN = "{via: workflow-dispatch}"
KUBERNETES = ", clusters: {kubernetes: '1.34'}"  # which the minor does not support
LIVE = (
    "- {name: live, url: 'layout:live:live', verify: {publicKey: cosign.pub}, signing: {mode: key, key: cosign.key}, "
    "approval: {via: workflow-dispatch}, promote: {from: production}}\n"
)
USAGE, REFUSED, VOID = 2, 11, 12


@pytest.fixture
def scene(scene: Scene, once: Once) -> Scene:
    """Return a scene where a run waits with the minor."""
    patched(scene, once)
    configure(scene, approval=BY_RUN)
    scene.offer(FIRST, PATCH, MINOR)
    return scene


def asked(scene: Scene) -> dict[str, str]:
    """Let a check have asked, and return what the jobs of the run that waits are given."""
    assert scene.run().code == 0
    return scene.approving()


def shown(scene: Scene, given: dict[str, str]) -> Ran:
    """Run the first job of the run that waits, which has no key."""
    return scene.runner.run(command="review", releases="../releases", **given)


def test_verdict_digests_and_hazards_are_shown_and_nothing_is_written(scene: Scene) -> None:
    configure(scene, approval=BY_RUN, more=KUBERNETES)
    given, before = asked(scene), scene.tags
    ran = shown(scene, given)
    assert (ran.code, scene.tags, ran.outputs["changed"]) == (0, before, "false"), ran
    assert f"{MINOR} [needs approval]" in ran.summary
    assert given["target"] in ran.summary
    assert given["base"] in ran.summary
    assert "Kubernetes 1.34" in ran.summary
    assert "ClusterRole crd-controller-flux-system may now create serviceaccounts/token" in ran.summary
    assert json.loads(ran.outputs["shown"])["target"] == given["target"]


def test_what_was_shown_is_published(scene: Scene) -> None:
    given = asked(scene)
    handed = shown(scene, given).outputs["shown"]
    scene.fleet.answer(scene.fleet.runs[-1].id, "ada")
    assert scene.run("approve", **given, shown=handed).outputs["target-version"] == MINOR


def test_a_hazard_that_the_run_did_not_show_voids_the_yes_to_it(scene: Scene) -> None:
    given = asked(scene)
    handed = shown(scene, given).outputs["shown"]
    scene.fleet.answer(scene.fleet.runs[-1].id, "ada")
    configure(scene, approval=BY_RUN, more=KUBERNETES)
    before = scene.tags
    ran = scene.run("approve", **given, shown=handed)
    assert (ran.code, scene.tags) == (VOID, before), ran
    assert "before it was known that" in ran.said("error")[0]


def test_a_yes_to_another_digest_than_was_shown_counts_for_nothing(scene: Scene) -> None:
    given = asked(scene)
    handed = shown(scene, given).outputs["shown"].replace(given["target"], given["base"])
    scene.fleet.answer(scene.fleet.runs[-1].id, "ada")
    ran = scene.run("approve", **given, shown=handed)
    assert ran.code == REFUSED
    assert f"its reviewers were shown {given['base']}" in ran.said("error")[0]


@pytest.mark.parametrize("handed", ["***", "{}", "[]", '{"target": 1, "hazards": []}'])
def test_what_was_lost_between_the_jobs_publishes_nothing(scene: Scene, handed: str) -> None:
    given = asked(scene)
    scene.fleet.answer(scene.fleet.runs[-1].id, "ada")
    before = scene.tags
    assert (scene.run("approve", **given, shown=handed).code, scene.tags) == (USAGE, before)


def test_a_second_attempt_shows_nothing(scene: Scene) -> None:
    """Where the last job runs all the same, as in the reusable workflow, the yes to the first does not count for it."""
    given = asked(scene)
    scene.fleet.answer(scene.fleet.runs[-1].id, "ada")
    scene.runner.variables["GITHUB_RUN_ATTEMPT"] = "2"
    ran = shown(scene, given)
    assert (ran.code, "this is a re-run" in ran.said("error")[0]) == (USAGE, True)
    before = scene.tags
    last = scene.run("approve", **given, shown=ran.outputs["shown"])
    assert (last.code, scene.tags) == (REFUSED, before), last
    assert "its reviewers were shown nothing" in last.said("error")[0]


@pytest.mark.parametrize(
    "false", [{"request_key": "0123456789abcdef"}, {"target": f"sha256:{'0' * 64}"}, {"version": FIRST}], ids=str
)
def test_a_run_that_has_the_key_of_another_request_asks_nobody(scene: Scene, false: dict[str, str]) -> None:
    """A check finds the run that asks by its key: with the digests of another one, it would wait in its place.

    The reusable workflow asks where nothing can be shown, and so needs to be told that nobody is to be asked.
    """
    given = asked(scene)
    ran = shown(scene, {**given, **false})
    assert (ran.code, ran.outputs["shown"]) == (USAGE, NOTHING_SHOWN)
    assert "the key of this run belongs to another request" in ran.said("error")[0]
    assert shown(scene, {**given, "request_key": ""}).code == 0


@pytest.mark.parametrize("way", ["the channel moved", "the digest is another", "paused"])
def test_nobody_is_asked_for_what_cannot_be_done(scene: Scene, way: str) -> None:
    given = asked(scene)
    if way == "the channel moved":
        given["base"], given["request_key"] = given["target"], ""
    elif way == "the digest is another":
        given["target"] = f"sha256:{'0' * 64}"
        given["request_key"] = ""
    else:
        configure(scene, approval=BY_RUN, more=", paused: true")
    ran = shown(scene, given)
    assert (ran.code in {REFUSED, VOID}, ran.outputs["shown"]) == (True, ""), ran


def test_a_promotion_is_shown_too(scene: Scene) -> None:
    configure(scene, others=LIVE, more=", policy: {minor: auto, escalate: []}")
    scene.offer(FIRST, PATCH)
    assert dispatch(scene, "promote", artifact="live").through().code == 0
    scene.offer(FIRST, PATCH, MINOR)
    scene.runner.event("schedule", {})
    assert scene.run().code == 0
    given = scene.approving()
    assert "live" in given["artifact"]
    ran = shown(scene, given)
    assert (ran.code, json.loads(ran.outputs["shown"])["target"]) == (0, given["target"]), ran
    assert given["target"] in ran.summary
    assert f"{MINOR} [needs approval]" in ran.summary
    scene.fleet.answer(scene.fleet.runs[-1].id, "ada")
    assert scene.run("approve", **given, shown=ran.outputs["shown"]).outputs["target-version"] == MINOR
    assert shown(scene, {**given, "base": given["target"], "request_key": ""}).code == VOID
