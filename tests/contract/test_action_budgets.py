"""What a run of the whole action asks of GitHub, and what it says while it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.cli import run
from ci_automation.github.client import GitHub
from ci_automation.github.waiting import GitHubPatience
from ci_automation.net.waiting import Clock
from tests.contract.scene import EVERYTHING, LOCK, MINOR, PATCH, PINS, Scene
from tests.fakes.forge import Fault, times

if TYPE_CHECKING:
    from tests.fakes.forge.exchange import Request

WAYS = {
    "pull request": EVERYTHING,
    "run": "{via: workflow-dispatch}",
    "event": "{via: repository-dispatch, repository: acme/apps}",
}


@pytest.fixture
def scene(scene: Scene) -> Scene:
    del scene.own["releases"]  # GitHub has them
    return scene


def of_releases(request: Request) -> bool:
    """Return whether a request is about the files of a release, once it was listed."""
    if request.host == "assets":
        return True
    if request.path == "/graphql":
        return "r0:release(tagName:" in request.body["query"]
    return request.method == "GET" and request.path.startswith("/repos/fluxcd/flux2/")


def spent(scene: Scene, **inputs: str) -> list[Request]:
    """Return what a run asks for, the files of releases aside, and the advisories, which are asked for once at most."""
    before = len(scene.forge.requests)
    ran = scene.run(**inputs)
    assert ran.code == 0, ran
    asked = [request for request in scene.forge.requests[before:] if not of_releases(request)]
    advisories = [request for request in asked if request.path.startswith("/advisories")]
    assert len(advisories) <= 1
    return [request for request in asked if request not in advisories]


@pytest.mark.parametrize("way", WAYS)
def test_a_check_that_finds_nothing_asks_once(scene: Scene, way: str) -> None:
    scene.configure(approval=WAYS[way], policy="{minor: auto, escalate: []}", more=", announce: [acme/apps]")
    assert scene.run().outputs["target-version"] == MINOR
    before = len(scene.forge.requests)
    assert len(spent(scene)) == 1
    assert len(scene.forge.requests) - before == 1


def test_a_check_after_an_approval_was_used_asks_once(scene: Scene) -> None:
    scene.configure(approval=EVERYTHING)
    scene.run()
    scene.fleet.review(1, "ben", "APPROVED")
    scene.pushed()
    assert scene.run("apply").outputs["target-version"] == MINOR
    assert scene.fleet.read(LOCK)
    scene.runner.event("schedule", {})
    before = len(scene.forge.requests)
    scene.run()
    assert len(scene.forge.requests) - before == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_patch_and_asking_for_an_approval_take_nine_requests_at_most(scene: Scene, way: str) -> None:
    scene.configure(approval=WAYS[way])
    requests = spent(scene)
    assert scene.fleet.pulls or scene.fleet.runs or scene.apps.dispatched
    assert len(requests) <= 9, [f"{request.method} {request.path}" for request in requests]


@pytest.mark.parametrize("way", WAYS)
def test_what_was_asked_already_is_found_with_two(scene: Scene, way: str) -> None:
    scene.configure(approval=WAYS[way])
    scene.run()
    assert len(spent(scene)) <= 2


def test_a_newer_request_takes_eight_at_most(scene: Scene) -> None:
    scene.offer("v2.98.5", PATCH)
    scene.configure(approval=EVERYTHING, policy="{patch: approval}")
    scene.run()
    scene.offer("v2.98.5", PATCH, MINOR)
    scene.configure(approval=EVERYTHING)
    requests = spent(scene)
    assert len(requests) <= 8, [f"{request.method} {request.path}" for request in requests]


def group_of(scene: Scene, number: int, more: str = "") -> None:
    """Let the configuration have a group of channels that have the patch; `more` is said of the first."""
    scene.fleet.protections.clear()
    own = ["--flux-version", PATCH, "--releases", "../releases", "--signing", "key", "--key", "cosign.key"]
    rows: list[str] = []
    for name in map(str, range(number)):
        channel = f"layout:{name}:{name}"
        if not (scene.runner.workspace / name).exists():
            assert run(["init", channel, *own]) == 0
        rows.append(f"- {{name: '{name}', url: '{channel}', group: eu{'' if rows else more}}}\n")
    (scene.runner.workspace / ".github/flux-manifests.yaml").write_text(
        f"version: 1\napiUrl: {scene.forge.url}\nupstream: {{verify: if-available}}\n"
        f"defaults: {{approval: {{via: pull-request}}}}\nartifacts:\n{''.join(rows)}"
    )


def merged(scene: Scene) -> None:
    """Merge the request that is open as a person who may."""
    scene.fleet.merge(next(it.number for it in scene.fleet.pulls if it.state == "OPEN"), "ada")


def of_fleet(scene: Scene) -> list[str]:
    """Return what a run asks of the repository that it runs in."""
    found = (it for it in spent(scene) if it.path != "/graphql" or it.body["variables"].get("o") != "fluxcd")
    return [f"{it.method} {it.path}" for it in found]


@pytest.mark.parametrize("number", [1, 4])
def test_a_merged_group_takes_three_requests_for_each_artifact_and_five(scene: Scene, number: int) -> None:
    group_of(scene, number)
    before = len(scene.forge.requests)
    assert len(of_fleet(scene)) == 4
    assert len(scene.forge.requests) - before == 4 + 17  # releases and advisories, for all artifacts
    merged(scene)
    requests = of_fleet(scene)
    assert len(requests) == 3 * number + 5, requests  # one before it signs; the last two delete its branch


def test_a_hazard_that_the_page_did_not_show_takes_four_more(scene: Scene) -> None:
    group_of(scene, 1)
    scene.run()
    merged(scene)
    group_of(scene, 1, ", clusters: {kubernetes: '1.34'}")
    for number in (5 + 4, 5 + 2):  # it is asked for, and found to be asked for
        requests = of_fleet(scene)
        assert len(requests) == number, requests


def test_a_job_that_begins_again_takes_three_more(scene: Scene) -> None:
    group_of(scene, 1)
    scene.run()
    once = len(of_fleet(scene))
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    path = ".github/flux-manifests.yaml"
    scene.fleet.push("main", {path: (scene.runner.workspace / path).read_bytes()}, "keeper")
    scene.runner.variables["GITHUB_RUN_ATTEMPT"] = "2"
    requests = of_fleet(scene)
    assert len(requests) == once + 3, requests


def test_many_repositories_are_written_to_at_a_pace_that_github_takes(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, pauses = [1e9], []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock[0] += seconds

    patient = {
        **(GitHub.__init__.__kwdefaults__ or {}),
        "patience": GitHubPatience(clock=Clock(sleep=sleep, now=lambda: clock[0])),
    }
    monkeypatch.setattr(GitHub.__init__, "__kwdefaults__", patient)
    names = [f"acme/r{number}" for number in range(8)]
    for name in names:
        scene.forge.repository(name, {"flux/source.yaml": PINS}).collaborators["keeper"] = "write"
    scene.configure(more=f", consumers: [{', '.join(f'{{repository: {name}}}' for name in names)}]")
    assert scene.run("consumers").code == 0
    assert [len(scene.forge.repositories[name].pulls) for name in names] == [1] * 8
    assert pauses == [1.0] * (3 * 8 - 10)  # the first ten writes of a run are not held up


@pytest.mark.parametrize("part", ["/graphql", "/pulls", "/requested_reviewers"])
def test_a_wait_is_told(scene: Scene, part: str) -> None:
    limited = Fault(429, {"message": "You have exceeded a secondary rate limit."}, {"Retry-After": "7"})
    scene.forge.faults.append(times(1, limited, "POST", part))
    scene.configure(approval=EVERYTHING)
    ran = scene.run()
    assert ran.code == 0, ran
    waits = [line for line in ran.log.splitlines() if "takes no more requests at the moment" in line]
    assert [line.endswith("; asking again in 7 s") for line in waits] == [True]


def test_a_limit_that_lasts_is_not_waited_for(scene: Scene) -> None:
    limited = Fault(429, {"message": "You have exceeded a secondary rate limit."}, {"Retry-After": "3600"})
    scene.forge.faults.append(times(9, limited, "POST", "/pulls"))
    scene.configure(approval=EVERYTHING)
    ran = scene.run()
    assert (ran.code, ran.outputs["target-version"]) == (21, PATCH), ran
    assert "asking again" not in ran.log
    assert scene.fleet.pulls == []
