"""Approvals through the shipped workflows, run by act in containers of the built image, with real releases.

GitHub is the double, which checks each exchange against GitHub's own description; cosign judges what was published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.approval.lock import LOCK_FILE
from ci_automation.github.commits import branch_name

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real import cosign
    from tests.real.fleet import Fleet
    from tests.real.pipeline import KeyPair

pytest_plugins = ["tests.real.fleet"]

ASKING, NOTHING_TO_DO = 8, 1  # requests to GitHub, but for the downloads of releases


def test_called_workflows_publish_a_patch_and_ask_for_the_minor_whose_merge_publishes_it(
    with_key: Fleet, cosign_key: KeyPair, files: cosign.Files
) -> None:
    fleet = with_key
    fleet.use("with-key/flux.yaml", "flux.yaml")
    first = fleet.run("flux.yaml", "schedule")
    assert first.code == 0, first.text
    said = first.outputs("update", "update")
    assert (said["changed"], said["target-version"], said["pending-version"]) == ("true", "v2.8.8", "v2.9.4")
    assert said["digest"] == fleet.verified(files, cosign_key.public)
    (pull,) = fleet.github.pulls
    assert said["approval-url"].endswith(f"/pull/{pull.number}")
    assert pull.branch == branch_name("production")
    assert len(fleet.asked) <= ASKING

    before = fleet.state()
    again = fleet.run("flux.yaml", "schedule", run=2)
    assert (again.code, again.outputs("update", "update")["changed"]) == (0, "false"), again.text
    assert fleet.state() == before

    fleet.github.merge(pull.number, "alice", "merge")
    fleet.check_out()
    applied = fleet.run("flux.yaml", "push", {"ref": "refs/heads/main"}, run=3)
    assert applied.code == 0, applied.text
    said = applied.outputs("update", "update")
    assert (said["changed"], said["decision"], said["target-version"]) == ("true", "approval", "v2.9.4")
    assert said["digest"] == fleet.verified(files, cosign_key.public)
    assert said["digest"].encode() in (fleet.github.read(LOCK_FILE, "main") or b"")

    before = fleet.state()
    for number, event in enumerate(("push", "schedule"), 4):
        again = fleet.run("flux.yaml", event, {"ref": "refs/heads/main"}, run=number)
        assert (again.code, again.outputs("update", "update")["changed"]) == (0, "false"), again.text
        assert len(fleet.asked) <= NOTHING_TO_DO + (event == "push")  # a push looks for requests that are over
    assert fleet.state() == before


def test_one_file_signs_as_itself_and_a_merge_is_taken_up_by_the_schedule_too(
    keyless: Fleet, files: cosign.Files
) -> None:
    fleet = keyless
    fleet.use("flux.yaml", "flux.yaml")
    first = fleet.run("flux.yaml", "schedule")
    assert first.code == 0, first.text
    said = first.outputs("flux", "flux")
    assert (said["changed"], said["target-version"]) == ("true", "v2.9.3")
    assert said["digest"] == fleet.verified(files, "flux.yaml")

    fleet.configure(*fleet.ask_always)
    asked = fleet.run("flux.yaml", "schedule", run=2)
    assert (asked.code, asked.outputs("flux", "flux")["pending-version"]) == (0, "v2.9.4"), asked.text
    fleet.github.merge(fleet.github.pulls[0].number, "alice", "squash")
    fleet.check_out()
    applied = fleet.run("flux.yaml", "schedule", run=3)
    assert (applied.code, applied.outputs("flux", "flux")["target-version"]) == (0, "v2.9.4"), applied.text
    assert fleet.verified(files, "flux.yaml") == applied.outputs("flux", "flux")["digest"]


def test_a_merge_by_somebody_who_may_not_write_now_publishes_nothing(keyless: Fleet) -> None:
    fleet = keyless
    fleet.configure(*fleet.ask_always)
    fleet.use("flux.yaml", "flux.yaml")
    assert fleet.run("flux.yaml", "schedule").code == 0
    fleet.github.merge(fleet.github.pulls[0].number, "alice", "squash")
    fleet.github.collaborators["alice"] = "read"
    fleet.check_out()
    before = fleet.state()["tags"]
    done = fleet.run("flux.yaml", "push", {"ref": "refs/heads/main"}, run=2)
    assert done.outputs("flux", "flux")["changed"] == "false", done.text
    assert "alice may not write to the repository now" in done.text
    assert fleet.state()["tags"] == before


def test_a_called_workflow_publishes_with_a_key_what_a_run_was_approved_for(
    with_key: Fleet, cosign_key: KeyPair, files: cosign.Files, flux_releases: Path
) -> None:
    fleet = with_key
    fleet.begin("v2.8.5", "--signing", "key", "--key", cosign_key.private, releases=flux_releases, staging=True)
    fleet.configure(
        *("verify: {publicKey: cosign.pub}", "approval: {via: workflow-dispatch}"),
        staging=("verify: {publicKey: cosign.pub}", 'policy: {range: "<=2.8.8"}'),
    )
    fleet.use("with-key/fleet.yaml", "flux.yaml")
    fleet.use("with-key/approve.yaml", "approve.yaml")
    fleet.github.environment("flux-manifests", reviewers=["carol"])
    asked = fleet.run("flux.yaml", "schedule")
    assert asked.code == 0, asked.text
    (waiting,) = fleet.github.runs
    staging = fleet.of("staging", asked).outputs("update", "update")
    assert (staging["target-version"], staging["pending-version"]) == ("v2.8.8", "")
    assert staging["digest"] == fleet.verified(files, cosign_key.public, fleet.staging)
    assert waiting.inputs["artifact"] == str(fleet.channel)

    before = fleet.state()
    assert fleet.run("flux.yaml", "schedule", run=2).code == 0
    assert fleet.state() == before

    fleet.forge.approve(waiting.id, "carol")
    done = fleet.run("approve.yaml", "workflow_dispatch", {"inputs": waiting.inputs}, run=waiting.id)
    assert done.code == 0, done.text
    assert fleet.verified(files, cosign_key.public) == waiting.inputs["target"]
