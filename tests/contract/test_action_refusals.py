"""What is no yes, or no yes any more, publishes nothing: each through the whole action, with GitHub and a registry."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ci_automation.approval.lock import Lock
from ci_automation.artifact.reference import Reference
from ci_automation.cli import run
from tests.contract.scene import BRANCH, CHANNEL, FIRST, LOCK, MINOR, PATCH, Scene
from tests.fakes.forge import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.runner import Ran

OTHER = "sha256:" + "a" * 64
BY_RUN = "{via: workflow-dispatch}"


@dataclass(frozen=True)
class Refusal:
    """A story after which nobody has said yes: what was done, how `apply` ends, and what it says."""

    story: Callable[[Scene], None]
    code: int
    said: str


@pytest.fixture
def scene(scene: Scene) -> Scene:
    scene.fleet.protections.clear()
    return scene


def asked(scene: Scene, approval: str = "{via: pull-request}") -> Ran:
    """Let the minor have been asked for, on top of the patch."""
    scene.configure(approval=approval)
    ran = scene.run()
    assert (ran.code, ran.outputs["pending-version"]) == (0, MINOR), ran
    return ran


def edited(text: bytes | None, **changes: str) -> bytes:
    """Return a lock file with other values for the artifact, as people would write them."""
    entry = Lock.parse((text or b"").decode()).find(Reference.parse_channel(CHANNEL))
    assert entry
    changed = (text or b"").decode()
    for name, value in changes.items():
        old = str(getattr(entry.request, name))
        assert old in changed
        changed = changed.replace(old, value)
    return changed.encode()


def another_base(scene: Scene) -> None:
    """The yes is to a step from the first release, and the patch was published since."""
    scene.offer(FIRST, MINOR)
    asked(scene)
    scene.fleet.merge(1, "ada")
    scene.offer(FIRST, PATCH, MINOR)
    scene.configure(approval="{via: none}")
    assert scene.run().outputs["target-version"] == PATCH
    scene.configure(approval="{via: pull-request}")


def another_base_in_the_file(scene: Scene) -> None:
    """And somebody who may write lets the file say that it was from where the channel is now."""
    another_base(scene)
    text = edited(scene.fleet.read(LOCK), base=scene.channel)
    scene.fleet.push("main", {LOCK: text}, "ben", "From the patch, then")


def another_target(scene: Scene) -> None:
    """Somebody who may write changes what was merged."""
    asked(scene)
    scene.fleet.merge(1, "ada")
    scene.fleet.push("main", {LOCK: edited(scene.fleet.read(LOCK), target=OTHER)}, "ben", "Another")


def another_rendering(scene: Scene) -> None:
    """What was merged renders otherwise now: an option was changed."""
    asked(scene)
    scene.fleet.merge(1, "ada")
    scene.configure(approval="{via: pull-request}", more=", flags: {log-level: debug}")


def an_edited_plan(scene: Scene) -> None:
    """What was asked for is changed on the branch, and that is merged."""
    asked(scene)
    text = edited(scene.fleet.read(LOCK, BRANCH), target=OTHER)
    scene.fleet.push(BRANCH, {LOCK: text}, "ada", "Something else")
    scene.fleet.merge(1, "ben")


def an_own_edit(scene: Scene) -> None:
    """A person changes the branch, and merges it alone."""
    asked(scene)
    scene.fleet.push(BRANCH, {"NOTES.md": b"mine"}, "ada", "Something more")
    scene.fleet.merge(1, "ada")


def an_edited_version(scene: Scene) -> None:
    """The version alone is changed on the branch: to that of the base."""
    asked(scene)
    text = edited(scene.fleet.read(LOCK, BRANCH), version=PATCH)
    scene.fleet.push(BRANCH, {LOCK: text}, "ada", "Rather not")
    scene.fleet.merge(1, "ben")


def an_unmerged_branch(scene: Scene) -> None:
    """A job looks at the branch, where the file says it all."""
    asked(scene)
    scene.fleet.review(1, "ada", "APPROVED")


def a_push_without_a_merge(scene: Scene) -> None:
    """Somebody who may write puts the file onto the default branch by hand."""
    asked(scene)
    scene.fleet.push("main", {LOCK: scene.fleet.read(LOCK, BRANCH)}, "ada", "Yes")


def a_fork(scene: Scene) -> None:
    """The same file comes from a fork, and somebody who may write merges that."""
    asked(scene)
    text = scene.fleet.read(LOCK, BRANCH)
    fork = scene.forge.fork("acme/fleet", "mallory")
    fork.push(BRANCH, {LOCK: text}, "mallory", "Yes please", onto=scene.fleet.branches["main"], force=True)
    made = scene.fleet.open_pull(f"mallory:{BRANCH}", "mallory", "Yes please", "")
    scene.fleet.close(1, "ada")
    scene.fleet.merge(made.number, "ada")


def the_bot(scene: Scene) -> None:
    """The account that asked merges it."""
    asked(scene)
    scene.fleet.merge(1, "keeper")


def the_jobs_own_bot(scene: Scene) -> None:
    """A job of the repository merges it, with its own token."""
    asked(scene)
    scene.fleet.collaborators[ACTIONS] = "write"
    scene.fleet.merge(1, ACTIONS)


def a_revoked_permission(scene: Scene) -> None:
    """Who merged it may not write any more."""
    asked(scene)
    scene.fleet.merge(1, "ben")
    scene.fleet.collaborators["ben"] = "read"


def a_person_who_left(scene: Scene) -> None:
    asked(scene)
    scene.fleet.merge(1, "ben")
    del scene.fleet.collaborators["ben"]


def a_replay(scene: Scene) -> None:
    """It was published, and then somebody who can write to the registry moved the channel back."""
    asked(scene)
    scene.fleet.merge(1, "ada")
    base = scene.channel
    assert scene.run("apply").outputs["target-version"] == MINOR
    moved_back(scene, base)


def moved_back(scene: Scene, digest: str) -> None:
    """Let the channel have an older digest again, by the hand of who writes to the registry."""
    path = scene.runner.workspace / "registry/index.json"
    index = json.loads(path.read_bytes())
    name = "org.opencontainers.image.ref.name"
    channel = Reference.parse_channel(CHANNEL).tag
    (old,) = {json.dumps({**it, "annotations": {}}) for it in index["manifests"] if it["digest"] == digest}
    rest = [it for it in index["manifests"] if it.get("annotations", {}).get(name) != channel]
    path.write_text(json.dumps({**index, "manifests": [*rest, {**json.loads(old), "annotations": {name: channel}}]}))
    assert scene.channel == digest


MERGES = {
    "another base": Refusal(another_base, 0, ""),
    "another base, in the file": Refusal(another_base_in_the_file, 11, "the file was edited"),
    "another target": Refusal(another_target, 11, "the file was edited"),
    "another rendering": Refusal(another_rendering, 12, "which renders as sha256:"),
    "an edited plan": Refusal(an_edited_plan, 11, "had a description of other digests"),
    "an edited version": Refusal(an_edited_version, 12, "which renders as sha256:"),
    "an unmerged branch": Refusal(an_unmerged_branch, 0, ""),
    "a push without a merge": Refusal(a_push_without_a_merge, 11, "the file was edited"),
    "a fork": Refusal(a_fork, 11, "comes from a fork"),
    "an own edit": Refusal(an_own_edit, 11, "ada is its author or pushed to it"),
    "the bot": Refusal(the_bot, 11, "was merged by keeper with 0 of 1 people who count"),
    "the job's own bot": Refusal(the_jobs_own_bot, 11, "[bot] with 0 of 1 people who count"),
    "a revoked permission": Refusal(a_revoked_permission, 11, "ben may not write to the repository now"),
    "a person who left": Refusal(a_person_who_left, 11, "ben may not write to the repository now"),
    "a replay": Refusal(a_replay, 11, "was used before"),
}


@pytest.mark.parametrize("name", MERGES)
def test_what_is_no_merge_that_counts_publishes_nothing(scene: Scene, name: str) -> None:
    refusal = MERGES[name]
    refusal.story(scene)
    before, tags = scene.channel, scene.tags
    scene.pushed()
    if name == "an unmerged branch":
        path = scene.runner.workspace / LOCK
        path.write_bytes(scene.fleet.read(LOCK, BRANCH) or b"")
        ran = scene.runner.run(command="apply", **scene.own)
    else:
        ran = scene.run("apply")
    assert (ran.code, ran.outputs["changed"]) == (refusal.code, "false"), ran
    assert refusal.said in "".join(ran.said("error"))
    assert (scene.channel, scene.tags) == (before, tags)
    scene.run()  # the check does not count it either, and asks anew
    assert scene.channel == before


def test_an_approved_release_that_is_gone_keeps_no_patch_from_being_published(scene: Scene) -> None:
    scene.offer(FIRST, MINOR)
    asked(scene)
    scene.fleet.merge(1, "ada")
    scene.offer(FIRST)
    before, ran = scene.channel, scene.run()
    assert (ran.code, scene.channel) == (0, before), ran
    assert f"has no release {MINOR}" in ran.said("warning")[0]
    scene.offer(FIRST, PATCH)
    assert scene.run().outputs["target-version"] == PATCH


def asked_by_run(scene: Scene) -> dict[str, str]:
    """Let the minor have been asked for by a run, and return the inputs of its job."""
    asked(scene, BY_RUN)
    return {"command": "approve", **scene.approving()}


def approved_by_run(scene: Scene) -> dict[str, str]:
    inputs = asked_by_run(scene)
    scene.forge.approve(scene.fleet.runs[-1].id, "ada")
    return inputs


def by_hand(scene: Scene, **changes: str) -> dict[str, str]:
    """Let somebody have started the workflow by hand with other inputs, and somebody else have agreed."""
    asked(scene, BY_RUN)
    run = scene.fleet.runs[-1]
    given = {name: str(run.inputs[name]) for name in ("artifact", "version", "base", "target")} | changes
    scene.fleet.dispatch("approve.yaml", "main", given | {"key": ""}, "ben")
    scene.forge.approve(scene.fleet.runs[-1].id, "ada")
    return {"command": "approve", **scene.approving()}


def run_for_another_base(scene: Scene) -> dict[str, str]:
    """The run waited, and meanwhile the patch was published."""
    scene.offer(FIRST, MINOR)
    inputs = approved_by_run(scene)
    scene.offer(FIRST, PATCH, MINOR)
    scene.configure(approval="{via: none}")
    assert scene.run().outputs["target-version"] == PATCH
    scene.configure(approval=BY_RUN)
    return inputs


def run_of_another_branch(scene: Scene) -> dict[str, str]:
    """The workflow of a branch that was not merged, where its file may say anything."""
    asked(scene, BY_RUN)
    inputs = {name: str(value) for name, value in scene.fleet.runs[-1].inputs.items()}
    scene.fleet.push("feature", {"x": b"x"}, "ben")
    scene.fleet.dispatch("approve.yaml", "feature", inputs, "ben")
    scene.forge.approve(scene.fleet.runs[-1].id, "ada")
    found = {"command": "approve", **scene.approving()}
    scene.runner.variables["GITHUB_REF"] = "refs/heads/feature"
    return found


def run_of_a_fork(scene: Scene) -> dict[str, str]:
    """The run is of a pull request, which a fork may have made."""
    inputs = approved_by_run(scene)
    scene.runner.event("pull_request_target", {"repository": {"default_branch": "main", "full_name": "acme/fleet"}})
    return inputs


def run_that_the_bot_approved(scene: Scene) -> dict[str, str]:
    """The account that asked is a reviewer, and may write."""
    inputs = asked_by_run(scene)
    scene.fleet.environment("flux-manifests", ["keeper"])
    scene.forge.approve(scene.fleet.runs[-1].id, "keeper")
    return inputs


def run_of_who_may_not_write_any_more(scene: Scene) -> dict[str, str]:
    scene.fleet.environment("flux-manifests", ["ben"])
    inputs = asked_by_run(scene)
    scene.forge.approve(scene.fleet.runs[-1].id, "ben")
    del scene.fleet.collaborators["ben"]
    return inputs


def run_again_after_a_way_back(scene: Scene) -> dict[str, str]:
    """The run published, the channel was moved back, and the run is started again."""
    inputs = approved_by_run(scene)
    base = scene.channel
    assert scene.run(**inputs).outputs["target-version"] == MINOR
    moved_back(scene, base)
    return inputs


def run_of_before_a_way_back(scene: Scene) -> dict[str, str]:
    """The run was approved while it had to wait; another approval led there, and a rollback back, which was lifted."""
    inputs, base = approved_by_run(scene), scene.channel
    target = str(scene.fleet.runs[-1].inputs["target"])
    scene.configure(approval=BY_RUN, more=", paused: true")
    assert scene.run(**inputs).code == 11
    scene.configure(approval=BY_RUN)
    file, releases, signing = "plan.json", ("--releases", "../releases"), ("--signing", "key", "--key", "cosign.key")
    assert run(["plan", CHANNEL, "--out", file, *releases]) == 0
    assert run(["apply", file, "--approve", target, *releases, *signing]) == 0
    assert run(["rollback", CHANNEL, "--to", base, "--yes", *signing]) == 0
    assert run(["rollback", CHANNEL, "--lift", "--yes", *signing]) == 0
    return inputs


def run_that_nobody_approved(scene: Scene) -> dict[str, str]:
    """The environment lost its reviewers, and let the run pass."""
    inputs = asked_by_run(scene)
    scene.fleet.environment("flux-manifests", [])
    return inputs


RUNS: dict[str, tuple[Callable[[Scene], dict[str, str]], int, str]] = {
    "another base": (run_for_another_base, 12, "the approved step starts from sha256:"),
    "another target": (lambda scene: by_hand(scene, target=OTHER), 12, "which renders as sha256:"),
    "another version": (lambda scene: by_hand(scene, version=FIRST), 12, ""),
    "another artifact": (lambda scene: by_hand(scene, artifact="layout:other:production"), 2, "none of the artifacts"),
    "an edited plan": (lambda scene: {**approved_by_run(scene), "target": OTHER}, 11, "the key belongs to another"),
    "an unmerged branch": (run_of_another_branch, 2, "it runs on refs/heads/feature"),
    "a fork": (run_of_a_fork, 2, "it was started by pull_request_target"),
    "the bot": (run_that_the_bot_approved, 11, "keeper approved it and also started it"),
    "a revoked permission": (run_of_who_may_not_write_any_more, 11, "ben approved it, but may not write"),
    "a replay": (run_again_after_a_way_back, 11, "was used before"),
    "a yes of before a rollback": (run_of_before_a_way_back, 11, "was used before"),
    "nobody": (run_that_nobody_approved, 11, "has no required reviewers"),
}


@pytest.mark.parametrize("name", RUNS)
def test_what_is_no_run_that_counts_publishes_nothing(scene: Scene, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    story, code, said = RUNS[name]
    inputs = story(scene)
    monkeypatch.setattr("ci_automation.action.commands.now", lambda: datetime.now(UTC) + timedelta(hours=1))
    before, tags = scene.channel, scene.tags
    ran = scene.run(**inputs)
    assert (ran.code, ran.outputs["changed"]) == (code, "false"), ran
    assert said in "".join(ran.said("error"))
    assert (scene.channel, scene.tags) == (before, tags)


def test_an_event_approves_nothing(scene: Scene) -> None:
    asked(scene, BY_RUN)
    wanted = scene.fleet.runs[-1].inputs
    payload = {name: str(wanted[name]) for name in ("artifact", "version", "base", "target", "key")}
    payload |= {"schema": "flux-manifests.dispatch/v1", "repository": "acme/other", "run": ""}
    scene.runner.event("repository_dispatch", {"action": "flux-manifests-update-requested", "client_payload": payload})
    before = scene.channel
    for command in ("update", "apply"):
        ran = scene.run(command)
        assert (ran.code, ran.outputs["changed"], scene.channel) == (0, "false", before), ran
    scene.runner.variables["GITHUB_RUN_ID"] = str(scene.fleet.start("flux.yaml", "repository_dispatch", "ben").id)
    approving = {name: payload[name] for name in ("artifact", "version", "base", "target")}
    ran = scene.run("approve", **approving, request_key=payload["key"])
    assert (ran.code, scene.channel) == (11, before), ran
