"""Operations by dispatch through the shipped workflow, run by act in containers of the built image, without a key.

As in test_action.py, which has the approvals by merge and by run. act knows no environments: the job `do` always
starts, and judges by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real import cosign
    from tests.real.fleet import Fleet
    from tests.real.podman import Acted

pytest_plugins = ["tests.real.fleet"]

FOLDER = "clusters/production/flux-system"
OTHERS = "https://github.com/acme/other/.github/workflows/publish.yaml@refs/heads/main"


def operate(fleet: Fleet, *, approved_by: str = "", **inputs: str) -> Acted:
    """Let alice start the workflow, and maybe a reviewer approve the run."""
    waiting = fleet.github.dispatch(
        "flux.yaml", "main", {"artifact": "production", "to": "", "reason": ""} | inputs, "alice"
    )
    if approved_by:
        fleet.forge.approve(waiting.id, approved_by)
    return fleet.run("flux.yaml", "workflow_dispatch", {"inputs": waiting.inputs}, run=waiting.id)


def test_an_adoption_and_a_rollback_from_a_browser_and_the_way_forward_again(
    fleet: Fleet, files: cosign.Files, flux_releases: Path
) -> None:
    own = ("--trust-config", fleet.folder / "sigstore.json")
    fleet.begin("v2.9.0", *own, releases=flux_releases, subject=OTHERS)
    fleet.configure(*fleet.up_to_2_9_3)
    fleet.use("flux.yaml", "flux.yaml")
    fleet.github.environment("flux-manifests", reviewers=["carol"])
    old = fleet.verified(files, OTHERS)
    adopted = operate(fleet, approved_by="carol", command="adopt")
    assert adopted.code == 0, adopted.text
    assert fleet.verified(files, "flux.yaml") == old in adopted.outputs("show", "show")["shown"]
    assert fleet.run("flux.yaml", "schedule").outputs("flux", "flux")["target-version"] == "v2.9.3"

    before = fleet.state()["tags"]
    early = operate(fleet, command="rollback", to="v2.9.0", reason="webhooks time out")
    assert early.code == 1, early.text
    assert "goes back from v2.9.3 to v2.9.0" in early.text
    assert "no reviewer approved this run" in early.text
    assert fleet.state()["tags"] == before

    done = operate(fleet, approved_by="carol", command="rollback", to="v2.9.0", reason="webhooks time out")
    assert done.code == 0, done.text
    assert fleet.verified(files, "flux.yaml") == old
    held = fleet.run("flux.yaml", "schedule", run=2)
    assert (held.code, held.outputs("flux", "flux")["changed"]) == (0, "false"), held.text

    lifted = operate(fleet, approved_by="carol", command="lift-hold", reason="mended")
    assert lifted.code == 0, lifted.text
    assert "The next scheduled run publishes v2.9.3" in lifted.text
    assert fleet.run("flux.yaml", "schedule", run=3).outputs("flux", "flux")["target-version"] == "v2.9.3"
    fleet.verified(files, "flux.yaml")


def test_the_first_artifact_of_a_channel_comes_from_git_and_the_schedule_goes_on(
    fleet: Fleet, files: cosign.Files
) -> None:
    fleet.configure(*fleet.up_to_2_9_3, f"overlay: {FOLDER}")
    fleet.write(f"{FOLDER}/kustomization.yaml", "resources: [flux-system/gotk-components.yaml]\n")
    fleet.use("flux.yaml", "flux.yaml")
    fleet.github.environment("flux-manifests", reviewers=["carol"])
    done = operate(fleet, approved_by="carol", command="init", to="v2.9.0")
    assert done.code == 0, done.text
    fleet.channels.append(fleet.channel)
    assert fleet.verified(files, "flux.yaml") in done.outputs("show", "show")["shown"]

    patched = fleet.run("flux.yaml", "schedule")
    assert (patched.code, patched.outputs("flux", "flux")["target-version"]) == (0, "v2.9.3"), patched.text
    fleet.verified(files, "flux.yaml")
