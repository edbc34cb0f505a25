"""Attacks on operations by dispatch, by their numbers in the review: none of them moves a channel."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ci_automation.artifact.reference import Digest
from ci_automation.cli import run
from ci_automation.flows.observe import ChannelMoved
from ci_automation.flows.publication.publish import move
from ci_automation.records.writer import RecordWriter
from tests.contract.operating import CONFIG, PAYLOAD, WORKFLOW, configure, dispatch, patched, push
from tests.contract.scene import CHANNEL, FIRST, MINOR, PATCH

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Once
    from tests.contract.operating import Dispatched
    from tests.contract.scene import Scene
    from tests.fakes.runner import Ran

INTERNAL = 1
WRONG = 2
REFUSED = 11
VOID = 12
JOBS = yaml.safe_load(WORKFLOW)["jobs"]
LIVE = (
    "- {name: live, url: 'layout:live:live', verify: {publicKey: cosign.pub}, signing: {mode: key, key: cosign.key}, "
    "promote: {from: production}}\n"
)
PEER = LIVE.replace("live", "peer")


class KilledRun(Exception):
    """The process ended here."""


@pytest.fixture
def scene(scene: Scene, once: Once) -> Scene:
    return patched(scene, once)


@pytest.fixture
def asked(scene: Scene) -> Dispatched:
    """Return a rollback that somebody has dispatched."""
    return dispatch(scene, "rollback", to=FIRST, reason="webhooks time out")


def shown_by(asked: Dispatched) -> str:
    """Return what the job `show` hands over."""
    ran = asked.show()
    assert ran.code == 0, ran
    return ran.outputs["shown"]


def approved(asked: Dispatched) -> str:
    """Return what the job `show` hands over, after a reviewer approved the run."""
    shown = shown_by(asked)
    asked.approve()
    return shown


def schedule(scene: Scene, *releases: str) -> Ran:
    """Run the scheduled job, which publishes minors by itself here, once these releases are there, too."""
    scene.offer(FIRST, PATCH, *releases)
    scene.runner.variables["GITHUB_EVENT_NAME"] = "schedule"
    before = (scene.runner.workspace / CONFIG).read_bytes()
    configure(scene, more=", policy: {minor: auto, escalate: []}", pushes=False)
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    ran = scene.run(approval="none")
    (scene.runner.workspace / CONFIG).write_bytes(before)
    assert ran.code == 0, ran
    return ran


def refused(ran: Ran, code: int, said: str, scene: Scene, before: dict[str, str]) -> None:
    """Check that a job ended so, and changed nothing."""
    assert (ran.code, ran.outputs["changed"]) in {(code, "false"), (code, "")}, ran
    assert said in " ".join(ran.said("error")), ran
    assert scene.tags == before


@pytest.mark.parametrize("ref", ["refs/heads/feature", "refs/tags/main", "main", ""])
def test_c1_another_branch_or_a_tag_shows_and_does_nothing(scene: Scene, asked: Dispatched, ref: str) -> None:
    shown, before = approved(asked), scene.tags
    scene.runner.variables["GITHUB_REF"] = ref
    for ran in (asked.show(), asked.do(shown)):
        refused(ran, WRONG, "not on the default branch main", scene, before)


def test_c2_an_attempt_that_shows_anew_is_refused(scene: Scene, asked: Dispatched) -> None:
    shown, before = approved(asked), scene.tags
    scene.fleet.complete(asked.run.id, "failure")
    scene.fleet.rerun(asked.run.id, "ada")
    refused(asked.show(), WRONG, "this is a re-run", scene, before)
    later = json.dumps({**json.loads(shown), "attempt": 2})
    refused(asked.do(later), VOID, "attempt 2 of the run showed it", scene, before)


def test_c2_the_last_job_alone_can_be_run_again(scene: Scene, asked: Dispatched) -> None:
    shown = approved(asked)
    scene.fleet.complete(asked.run.id, "failure")
    asked.run.attempt += 1
    ran = asked.do(shown)
    assert (ran.code, ran.outputs["target-version"]) == (0, FIRST), ran


def test_c3_what_was_shown_a_week_ago_is_void(scene: Scene, asked: Dispatched) -> None:
    shown, before = json.loads(approved(asked)), scene.tags
    then = datetime.fromisoformat(shown["at"]) - timedelta(days=7, minutes=1)
    refused(asked.do(json.dumps({**shown, "at": then.isoformat()})), VOID, "counts for 7 days", scene, before)


@pytest.mark.parametrize("name", ["acme/fleet", "acme/cars"], ids=["", "in a repository with another name since"])
def test_c3_the_last_job_after_another_rollback_and_the_way_forward_does_nothing(
    scene: Scene, asked: Dispatched, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    shown = approved(asked)
    assert asked.do(shown).code == 0
    lifting = dispatch(scene, "lift-hold")
    assert lifting.through().code == 0
    assert schedule(scene).outputs["target-version"] == PATCH
    before, fleet = scene.tags, scene.fleet
    fleet.full_name, scene.runner.variables["GITHUB_REPOSITORY"] = name, name
    scene.forge.repositories[name] = fleet
    monkeypatch.setitem(PAYLOAD, "repository", {**PAYLOAD["repository"], "full_name": name})
    refused(asked.do(shown), REFUSED, "was used before", scene, before)


@pytest.mark.parametrize("lost", ["", "   ", "{}", "null", "[]", "***", "x" * 9000])
def test_c4_an_output_that_was_dropped_or_masked_does_nothing(scene: Scene, asked: Dispatched, lost: str) -> None:
    approved(asked)
    refused(asked.do(lost), WRONG, "what the job `show` handed over cannot be used", scene, scene.tags)


NAMES = ["command", "name", "artifact", "base", "target", "content", "rules", "head", "plan", "attempt", "at"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", ["", None, "x", "sha256:" + "a" * 64])
def test_c4_each_value_that_was_altered_or_lost_does_nothing(
    scene: Scene, asked: Dispatched, name: str, value: str | None
) -> None:
    shown, before = json.loads(approved(asked)), scene.tags
    assert list(shown) == NAMES
    ran = asked.do(json.dumps({**shown, name: value}))
    assert ran.code in {WRONG, VOID}, ran
    assert scene.tags == before


@pytest.mark.parametrize("minutes", [0, 30])
def test_c5_an_environment_without_reviewers_approves_nothing(scene: Scene, asked: Dispatched, minutes: int) -> None:
    shown, before = approved(asked), scene.tags
    scene.fleet.environment("flux-manifests", [], wait_timer=minutes)
    refused(asked.do(shown), REFUSED, "has no required reviewers", scene, before)


def test_c5_the_environment_that_waits_is_a_literal_name() -> None:
    assert JOBS["gate"]["environment"] == "flux-manifests"
    assert {name for name, job in JOBS.items() if "environment" in job} == {"gate"}


def test_c6_the_job_that_waits_holds_no_group_and_has_no_rights_so_the_schedule_publishes(scene: Scene) -> None:
    assert "concurrency" not in JOBS["show"] | JOBS["gate"]
    assert JOBS["gate"]["permissions"] == {}
    assert set(JOBS["show"]["permissions"].values()) == {"read"}
    shown_by(dispatch(scene, "rollback", to=FIRST))
    assert schedule(scene, MINOR).outputs["target-version"] == MINOR


def test_c7_each_rollback_has_a_group_of_its_own_which_github_never_drops() -> None:
    group = JOBS["do"]["concurrency"]
    assert "github.run_id" in group["group"]
    assert group["cancel-in-progress"] is False


def test_c7_a_hundred_dispatches_around_a_rollback_leave_it_be(scene: Scene, asked: Dispatched) -> None:
    shown = approved(asked)
    for _ in range(50):
        dispatch(scene, "rollback", to=PATCH, by="ben")
    assert asked.do(shown).code == 0
    at = scene.channel
    later = dispatch(scene, "rollback", to=FIRST)
    assert later.show().outputs["shown"] == ""
    assert scene.channel == at


def test_c7_a_publication_meanwhile_voids_the_rollback(scene: Scene, asked: Dispatched) -> None:
    shown = approved(asked)
    schedule(scene, MINOR)
    refused(asked.do(shown), VOID, "base was", scene, scene.tags)


@pytest.mark.parametrize("times", [1, 3, 4])
def test_c7_a_conflict_is_tried_again_three_times(
    asked: Dispatched, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, left = approved(asked), [times]

    def lost(*given: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise ChannelMoved(given[0], given[1], None)
        move(*given)

    monkeypatch.setattr("ci_automation.flows.rollback.move", lost)
    assert asked.do(shown).code == (0 if times <= 3 else VOID)


@pytest.mark.parametrize(("times", "code"), [(1, 0), (9, VOID)])
def test_c7_a_publication_that_overwrites_the_rollback_does_not_go_unnoticed(
    scene: Scene, asked: Dispatched, times: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, left, had = approved(asked), [times], scene.channel

    def overwritten(*given: Any) -> None:
        channel, base, _, ports = given
        move(*given)
        if left[0]:
            left[0] -= 1
            ports.registry.put_manifest(channel, ports.registry.manifest(channel.at_digest(base)))

    monkeypatch.setattr("ci_automation.flows.rollback.move", overwritten)
    assert asked.do(shown).code == code
    assert (scene.channel == had) is (code == VOID)


@pytest.mark.parametrize(
    "artifact",
    ["oci://canary.example/acme/flux-manifests:production", "canary.example", "layout:elsewhere:production", "../.."],
)
def test_c8_only_what_the_configuration_names_is_looked_at(scene: Scene, artifact: str) -> None:
    before = scene.tags
    asked = dispatch(scene, "rollback", to=FIRST, artifact=artifact)
    ran = asked.show()
    refused(ran, WRONG, "", scene, before)
    assert "canary.example: " not in ran.log.replace(artifact, "")


@pytest.mark.parametrize("name", ["artifact", "to", "reason"])
@pytest.mark.parametrize(
    "text", ["$(id)", "`id`", "::error::owned", "##[error]owned", "@octocat fixes #1", "${{ secrets.KEY }}", "a" * 201]
)
def test_c9_inputs_are_data(scene: Scene, name: str, text: str) -> None:
    ran = dispatch(scene, "rollback", **{"to": FIRST, name: text}).show()
    assert {it.name for it in ran.commands} <= {"add-mask", "error"}
    assert "owned" not in ran.said("error")
    assert "@octocat" not in ran.summary
    assert not any("##[" in line for line in ran.log.splitlines() if not line.startswith("::"))


def test_c9_no_input_is_in_a_script_or_a_title() -> None:
    read = yaml.safe_load(WORKFLOW)
    assert "run-name" not in read
    scripts = [step["run"] for job in JOBS.values() for step in job.get("steps", ()) if "run" in step]
    assert scripts
    assert not any("${{" in script for script in scripts)


def test_c10_no_other_workflow_can_call_it() -> None:
    read = yaml.safe_load(WORKFLOW)
    assert set(read[True]) == {"schedule", "workflow_dispatch", "push"}
    assert read[True]["push"]["branches"] == ["main"]


@pytest.mark.parametrize("changes", [{"GITHUB_REF": "refs/heads/feature"}, {"GITHUB_EVENT_NAME": "pull_request"}])
@pytest.mark.parametrize("command", ["update", "apply", "promote"])
def test_c10_no_key_is_read_on_another_branch_or_event(scene: Scene, command: str, changes: dict[str, str]) -> None:
    configure(scene, others=LIVE)
    (scene.runner.workspace / "cosign.key").unlink()
    scene.runner.event("push", PAYLOAD)
    scene.runner.variables.update(changes)
    refused(scene.run(command), WRONG, "this job may not sign", scene, scene.tags)


def test_c11_nothing_runs_after_a_rejection_or_without_the_gate(scene: Scene, asked: Dispatched) -> None:
    assert JOBS["do"]["needs"] == ["show", "gate"]
    assert "if" not in JOBS["do"]
    assert not any("always()" in str(job.get("if", "")) for job in JOBS.values())
    shown, before = shown_by(asked), scene.tags
    refused(asked.do(shown), REFUSED, "no reviewer approved this run", scene, before)
    scene.forge.reject(asked.run.id, "ada")
    refused(asked.do(shown), REFUSED, "a reviewer rejected this run", scene, before)


def test_c12_with_approvals_the_starter_is_no_approver(scene: Scene) -> None:
    configure(scene, approval="{approvals: 1}")
    asked = dispatch(scene, "rollback", to=FIRST, by="ada")
    shown, before = approved(asked), scene.tags
    refused(asked.do(shown), REFUSED, "ada approved it and also started it", scene, before)


def test_c12_a_reader_is_no_approver(scene: Scene, asked: Dispatched) -> None:
    shown, before = shown_by(asked), scene.tags
    asked.approve("rita")
    refused(asked.do(shown), REFUSED, "rita approved it, but may not write", scene, before)


def test_c12_the_approval_of_another_run_does_not_count(scene: Scene, asked: Dispatched) -> None:
    shown = approved(asked)
    other = dispatch(scene, "rollback", to=FIRST, reason="webhooks time out")
    refused(other.do(shown), REFUSED, "no reviewer approved this run", scene, scene.tags)


def test_c12_another_configuration_since_voids_it(scene: Scene, asked: Dispatched) -> None:
    shown, before = approved(asked), scene.tags
    text = (scene.runner.workspace / CONFIG).read_text() + "\n# another\n"
    push(scene, text)
    refused(asked.do(shown), VOID, "is not what the default branch has now", scene, before)
    (scene.runner.workspace / CONFIG).write_text(text)
    refused(asked.do(shown), VOID, "rules was", scene, before)


@pytest.mark.parametrize("command", ["update", "approve"])
def test_a_run_that_begins_again_or_late_goes_by_no_old_configuration(scene: Scene, command: str) -> None:
    """Anybody who may write can run an old job again; GitHub gives it the commit, and so the configuration, of then."""
    eager = ", policy: {minor: auto, escalate: []}" if command == "update" else ""
    configure(scene, approval="{via: workflow-dispatch}", more=eager)
    scene.offer(FIRST, PATCH, *((MINOR,) if command == "approve" else ()))
    assert scene.run().code == 0
    given = {}
    if command == "approve":
        scene.fleet.answer(scene.fleet.runs[-1].id, "ada")
        given = scene.approving()
    scene.offer(FIRST, PATCH, MINOR)
    scene.runner.variables["GITHUB_RUN_ATTEMPT"] = "2" if command == "update" else "1"
    old = (scene.runner.workspace / CONFIG).read_bytes()
    configure(scene, approval="{via: workflow-dispatch}", more=", paused: true")
    (scene.runner.workspace / CONFIG).write_bytes(old)
    before = scene.tags
    ran = scene.run(command, **given)
    assert (ran.code, scene.tags) == (VOID, before), ran
    assert "is not what the default branch has now" in ran.said("error")[0]
    assert scene.run(command, **given, config=f"./{CONFIG}").code == VOID
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    scene.fleet.push("main", {CONFIG: None, ".github/flux.yaml": old}, "keeper")  # it was moved, and is another's now
    assert (scene.run(command, **given).code, scene.tags) == (VOID, before)
    push(scene, old.decode())
    assert scene.run(command, **given).outputs["target-version"] == MINOR


@pytest.mark.parametrize("command", ["update", "apply", "do"])
def test_a_run_that_begins_again_goes_by_no_old_workflow(scene: Scene, command: str) -> None:
    """The workflow names the version of this program and its inputs: an old run has those of its first attempt."""
    asked = dispatch(scene, "rollback", to=FIRST)
    shown = asked.show().outputs["shown"]
    asked.approve()
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    asked.run.attempt = 2

    def again() -> Ran:
        asked.job()
        return asked.do(shown) if command == "do" else scene.run(command)

    scene.fleet.push("main", {"apps/a.yaml": b"a"}, "ada")  # which is no reason
    assert again().code == 0
    before = scene.tags
    scene.fleet.push("main", {".github/workflows/flux.yaml": WORKFLOW + b"# newer"}, "keeper")
    ran = again()
    assert (ran.code, scene.tags) == (VOID, before), ran
    assert ".github/workflows/flux.yaml in this checkout is not what the default branch has now" in ran.said("error")[0]
    asked.run.attempt = 1
    assert again().code == 0


CALLED, NESTED = ".github/workflows/called.yaml", ".github/workflows/nested.yml"
CALLS = b"jobs: {publish: {uses: ./.github/workflows/called.yaml, secrets: inherit}}\n"
DEEPER = b"jobs:\n  publish:\n    uses: './.github/workflows/nested.yml' # below\n"
STEPS = b"jobs: {publish: {steps: [{uses: ./.github/actions/flux/}]}}\n"


@pytest.mark.parametrize("changed", [CALLED, NESTED, ".github/actions/flux/action.yml"])
def test_a_run_that_begins_again_goes_by_nothing_old_that_its_workflow_uses(scene: Scene, changed: str) -> None:
    """A local workflow that is called, or a local action, has the inputs and the version of then, too."""
    files = {
        ".github/workflows/flux.yaml": CALLS,
        CALLED: DEEPER,
        NESTED: STEPS,
        ".github/actions/flux/action.yml": b"a",
    }
    scene.fleet.push("main", files, "keeper")
    scene.runner.event("push", PAYLOAD)
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    scene.runner.variables["GITHUB_RUN_ATTEMPT"] = "2"
    scene.fleet.push("main", {".github/workflows/other.yaml": b"jobs: {}\n"}, "keeper")  # which is no reason
    assert scene.run().code == 0
    scene.fleet.push("main", {changed: files[changed] + b"# newer\n"}, "keeper")
    ran, before = scene.run(), scene.tags
    assert (ran.code, scene.tags) == (VOID, before), ran
    where = changed.removesuffix("/action.yml")
    assert f"{where} in this checkout is not what the default branch has now" in ran.said("error")[0]
    scene.runner.variables["GITHUB_RUN_ATTEMPT"] = "1"
    assert scene.run().code == 0


@pytest.mark.parametrize("uses", [b"./", b"'./'", b'"./" # the root'])
def test_a_run_that_begins_again_uses_no_old_action_at_the_root(scene: Scene, uses: bytes) -> None:
    """Such an action may use every file of the repository."""
    steps = b"jobs: {publish: {steps: [{uses: %s\n}]}}\n" % uses
    scene.fleet.push("main", {".github/workflows/flux.yaml": steps, "action.yml": b"a"}, "keeper")
    scene.runner.event("push", PAYLOAD)
    scene.runner.variables["GITHUB_SHA"] = scene.fleet.head
    scene.runner.variables["GITHUB_RUN_ATTEMPT"] = "2"
    assert scene.run().code == 0
    scene.fleet.push("main", {"run.sh": b"newer"}, "keeper")
    ran, before = scene.run(), scene.tags
    assert (ran.code, scene.tags) == (VOID, before), ran
    assert "./ in this checkout is not what the default branch has now" in ran.said("error")[0]


def test_c12_another_hold_since_voids_it(scene: Scene) -> None:
    assert dispatch(scene, "rollback", to=FIRST, reason="webhooks time out").through().code == 0
    asked = dispatch(scene, "lift-hold")
    shown = approved(asked)
    assert dispatch(scene, "rollback", to=FIRST, reason="and leaks memory").through().code == 0
    refused(asked.do(shown), VOID, "target was", scene, scene.tags)


def test_c12_who_starts_it_by_another_event_does_nothing(scene: Scene, asked: Dispatched) -> None:
    shown, before = approved(asked), scene.tags
    for event in ("push", "schedule", "repository_dispatch", "workflow_call"):
        asked.job()
        scene.runner.event(event, PAYLOAD)
        given = {"releases": "../releases", "key": "cosign.key", **asked.inputs, "shown": shown}
        refused(scene.runner.run(command="do", **given), WRONG, f"started by {event}", scene, before)


def test_d1_the_approval_for_one_channel_does_not_count_for_another(scene: Scene) -> None:
    configure(scene, others=LIVE + PEER)
    asked = dispatch(scene, "promote", artifact="peer")
    shown = approved(asked)
    refused(
        asked.do(shown, artifact="live"),
        VOID,
        "name was peer, and is live; artifact was layout:peer:peer",
        scene,
        scene.tags,
    )
    assert not (scene.runner.workspace / "live").exists()


def test_d1_an_approval_does_not_count_once_the_source_left_the_digest_and_came_back(scene: Scene) -> None:
    configure(scene, others=LIVE)
    asked = dispatch(scene, "promote", artifact="live")
    shown = approved(asked)
    assert dispatch(scene, "rollback", artifact="production", to=FIRST).through().code == 0
    assert dispatch(scene, "lift-hold", artifact="production").through().code == 0
    assert run(["update", CHANNEL, "--releases", "../releases", "--signing", "key", "--key", "cosign.key"]) == 0
    refused(asked.do(shown), VOID, "plan was sha256:", scene, scene.tags)
    assert not (scene.runner.workspace / "live").exists()


def test_d2_the_first_promotion_counts_once_though_the_channel_was_deleted(scene: Scene) -> None:
    configure(scene, others=LIVE)
    asked = dispatch(scene, "promote", artifact="live")
    shown = approved(asked)
    assert asked.do(shown).code == 0
    index = scene.runner.workspace / "live/index.json"
    forget(index, "live")
    before = index.read_text()
    ran = asked.do(shown)
    assert (ran.code, ran.said("error")[0].startswith("the approval of the run")) == (REFUSED, True), ran
    assert index.read_text() == before


def test_d2_a_first_artifact_shows_what_a_deleted_channel_had_and_counts_for_that(scene: Scene) -> None:
    index = scene.runner.workspace / "registry/index.json"
    before = index.read_bytes()
    assert dispatch(scene, "rollback", to=FIRST).through().code == 0
    had = scene.channel
    forget(index, "production")
    refused(dispatch(scene, "init", to=PATCH).show(), REFUSED, "was deleted, and its hold counts", scene, scene.tags)
    asked = dispatch(scene, "init", to=FIRST)
    shown = approved(asked)
    page = asked.show().summary
    assert "before its deletion" in page
    assert had in page
    assert f"The hold on {PATCH} (" in page
    assert asked.do(shown).code == 0
    assert scene.channel == had
    assert f"on {PATCH} (" in dispatch(scene, "lift-hold").show().summary
    index.write_bytes(before)  # as if it had never been rolled back
    forget(index, "production")
    refused(asked.do(shown), REFUSED, f"had {PATCH} last, which is newer", scene, scene.tags)


def forget(index: Path, tag: str) -> None:
    """Delete a tag of a layout, as anybody who can write there may."""
    listed, name = json.loads(index.read_text()), "org.opencontainers.image.ref.name"
    listed["manifests"] = [it for it in listed["manifests"] if it.get("annotations", {}).get(name) != tag]
    index.write_text(json.dumps(listed))


def test_d3_only_the_hold_that_was_shown_is_lifted(scene: Scene) -> None:
    assert dispatch(scene, "rollback", to=FIRST, reason="webhooks time out").through().code == 0
    asked = dispatch(scene, "lift-hold")
    shown = approved(asked)
    assert dispatch(scene, "rollback", to=FIRST, reason="and leaks memory").through().code == 0  # the hold is another
    refused(asked.do(shown), VOID, "target was", scene, scene.tags)
    refused(asked.do(shown, to="sha256:" + "a" * 64), WRONG, "no single hold that", scene, scene.tags)
    assert dispatch(scene, "lift-hold").show().code == 0  # it is still on


def retag(scene: Scene, tag: str, digest: str) -> None:
    """Let a tag of the registry point at a digest, as anybody who can write there may do."""
    path = scene.runner.workspace / "registry/index.json"
    index = json.loads(path.read_text())
    name = "org.opencontainers.image.ref.name"
    (entry,) = (it for it in index["manifests"] if it.get("annotations", {}).get(name) == tag)
    entry.update(digest=digest, size=(path.parent / "blobs/sha256" / digest.removeprefix("sha256:")).stat().st_size)
    path.write_text(json.dumps(index))


def test_d4_what_else_another_signers_artifact_holds_is_refused_before_anybody_is_asked(scene: Scene) -> None:
    planted = scene.runner.workspace / "registry"
    index = json.loads((planted / "index.json").read_text())
    name = "org.opencontainers.image.ref.name"
    (entry,) = (it for it in index["manifests"] if it.get("annotations", {}).get(name) == "production")
    manifest = json.loads((planted / "blobs/sha256" / entry["digest"].removeprefix("sha256:")).read_text())
    raw = json.dumps({**manifest, "layers": manifest["layers"] * 2}).encode()
    digest = Digest.of(raw)
    (planted / "blobs/sha256" / digest.hex).write_bytes(raw)
    entry.update(digest=str(digest), size=len(raw))
    (planted / "index.json").write_text(json.dumps(index))
    before = scene.tags
    refused(dispatch(scene, "adopt").show(), 10, "it has 2 layers", scene, before)


def test_c12_a_channel_that_somebody_moved_to_the_target_is_not_said_to_be_rolled_back(
    scene: Scene, asked: Dispatched
) -> None:
    shown = approved(asked)
    (target,) = {digest for tag, digest in scene.tags.items() if tag.startswith(FIRST)}
    retag(scene, "production", target)
    refused(asked.do(shown), VOID, "the hold of the rollback is missing or changed, and no", scene, scene.tags)


def test_d4_a_tag_that_somebody_put_there_is_left_alone(scene: Scene) -> None:
    fresh = LIVE.replace("live", "fresh").replace(", promote: {from: production}", "")
    configure(scene, others=fresh)
    asked = dispatch(scene, "init", artifact="fresh", to=FIRST)
    shown = approved(asked)
    own = ["--flux-version", PATCH, "--releases", "../releases", "--signing", "key", "--key", "cosign.key"]
    assert run(["init", "layout:fresh:fresh", *own]) == 0
    before = (scene.runner.workspace / "fresh/index.json").read_text()
    ran = asked.do(shown)
    assert (ran.code, "exists already" in ran.said("error")[0]) == (VOID, True), ran
    assert (scene.runner.workspace / "fresh/index.json").read_text() == before
    refused(dispatch(scene, "init", artifact="fresh", to=FIRST).show(), VOID, "exists already", scene, scene.tags)


def test_c3_the_last_job_run_again_does_not_make_a_lifted_hold_anew(scene: Scene, asked: Dispatched) -> None:
    shown = approved(asked)
    assert asked.do(shown).code == 0
    assert dispatch(scene, "lift-hold").through().code == 0
    refused(asked.do(shown), VOID, "hold", scene, scene.tags)
    assert schedule(scene).outputs["target-version"] == PATCH


def test_c3_the_last_job_of_an_interrupted_rollback_does_nothing_after_the_way_forward(
    scene: Scene, asked: Dispatched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KilledRun

    shown = approved(asked)
    with monkeypatch.context() as patched:
        patched.setattr(RecordWriter, "attach", die)
        assert asked.do(shown).code == INTERNAL
    assert schedule(scene).outputs["changed"] == "false"  # it writes the record that the run owes, with no approval
    assert dispatch(scene, "lift-hold").through().code == 0
    assert schedule(scene).outputs["target-version"] == PATCH
    refused(asked.do(shown), VOID, "plan was sha256:", scene, scene.tags)


def test_what_a_channel_was_moved_back_to_is_offered_to_no_consumer(scene: Scene) -> None:
    pins = b'spec:\n  digest: "" # {"$flux-manifests": "production:digest"}\n'
    scene.apps.push("main", {"flux/source.yaml": pins}, "keeper")
    configure(scene, more=", consumers: [{repository: acme/apps}]")
    had = scene.channel
    (older,) = {digest for tag, digest in scene.tags.items() if tag.startswith(FIRST)}
    retag(scene, "production", older)
    assert (scene.run("consumers").code, scene.apps.pulls) == (10, [])
    retag(scene, "production", had)
    assert (scene.run("consumers").code, len(scene.apps.pulls)) == (0, 1)
