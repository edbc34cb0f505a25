"""What else is shipped to be copied, run by act: fleets, events, repositories that pin the artifact, and the watch.

As in test_action.py, which has the approvals of one artifact.
"""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ci_automation.approval.dispatch import Dispatch, EventType, Sender
from ci_automation.approval.port import ApprovalRequest
from ci_automation.artifact.reference import Digest
from ci_automation.flux.version import Version
from tests.contract.previewed import event
from tests.fakes.forge import ACTIONS
from tests.real.peers import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real import cosign
    from tests.real.fleet import Fleet

pytest_plugins = ["tests.real.fleet"]

NOTHING_TO_DO = 1  # requests to GitHub
PACKAGES = "packages: write"
ENVIRONMENT = "      environment: flux-manifests-production"  # the input of the called workflow
PINNED = """\
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {{name: flux}}
spec:
  url: {url}
  ref:
    digest: {digest} # production
"""


def test_a_fleet_has_a_job_for_each_artifact_which_takes_up_its_own_approval_alone(
    keyless: Fleet, files: cosign.Files, flux_releases: Path
) -> None:
    fleet = keyless
    fleet.begin("v2.9.0", "--trust-config", fleet.folder / "sigstore.json", releases=flux_releases, staging=True)
    fleet.configure("trustConfig: sigstore.json", "policy: {escalate: []}", staging=fleet.ask_always)
    fleet.use("fleet.yaml", "flux.yaml")
    first = fleet.run("flux.yaml", "schedule")
    assert first.code == 0, first.text
    assert json.loads(first.outputs("list", "list")["matrix"])[0]["name"] == "production"
    (production,) = json.loads(fleet.of("production", first).outputs("update", "")["artifacts"])
    (staging,) = json.loads(fleet.of("staging", first).outputs("update", "")["artifacts"])
    assert (production["name"], production["target-version"]) == ("production", "v2.9.4")
    assert production["digest"] == fleet.verified(files, "flux.yaml")
    assert (staging["name"], staging["changed"], staging["pending-version"]) == ("staging", False, "v2.9.4")
    (pull,) = fleet.github.pulls

    fleet.github.merge(pull.number, "alice", "squash")
    fleet.check_out()
    before = fleet.state()["tags"]
    applied = fleet.run("flux.yaml", "push", {"ref": "refs/heads/main"}, run=2)
    assert applied.code == 0, applied.text
    assert fleet.of("production", applied).outputs("update", "")["changed"] == "false"
    said = fleet.of("staging", applied).outputs("update", "")
    assert (said["decision"], said["target-version"]) == ("approval", "v2.9.4")
    assert said["digest"] == fleet.verified(files, "flux.yaml", fleet.staging)
    assert fleet.state()["tags"] != before

    before = fleet.state()
    assert fleet.run("flux.yaml", "schedule", run=3).code == 0
    assert fleet.state() == before
    assert len(fleet.asked) <= 2 * NOTHING_TO_DO


def test_a_pull_request_is_previewed_in_one_comment_that_is_kept_current(with_key: Fleet) -> None:
    fleet = with_key
    fleet.use("preview.yaml", "preview.yaml")
    path = ".github/flux-manifests.yaml"
    text = (fleet.github.read(path, "main") or b"").decode()
    number, before = 0, fleet.state()["tags"]
    for run, level in enumerate(("debug", "error"), 1):
        changed = text.replace("  verify:", f"  flags: {{log-level: {level}}}\n  verify:")
        fleet.github.push("change", {path: changed.encode()}, "alice")
        number = number or fleet.github.open_pull("change", "alice").number
        fleet.github.pull(number).head = fleet.github.branches["change"]
        done = fleet.run("preview.yaml", "pull_request", event(fleet.github, number), run=run)
        assert done.code == 0, done.text
        (comment,) = fleet.github.pull(number).comments
        assert comment.author == ACTIONS
        assert f"the options change: log-level (info -\\> {level})" in comment.body
        assert f"to `{fleet.github.branches['change']}`" in comment.body
        assert "(v2.8.5 to v2.8.8)" not in comment.body  # that step comes with or without the request
    assert fleet.state()["tags"] == before


def test_an_event_of_another_repository_starts_a_check_and_decides_nothing(keyless: Fleet, files: cosign.Files) -> None:
    fleet = keyless
    fleet.use("requested.yaml", "flux.yaml")
    request = ApprovalRequest(fleet.channel, Version.parse("v2.9.4"), Digest("a" * 64), Digest("b" * 64))
    sender = Sender("acme/source", "https://github.com/acme/source/actions/runs/7")
    for asked in (replace(request, artifact=fleet.staging), request):
        payload = Dispatch.requesting(asked, sender).to_payload()
        fleet.github.dispatch_event(EventType.UPDATE_REQUESTED, payload, "carol")
    other, ours = fleet.github.runs
    assert ours.title == f"Flux {request.key}"

    before = fleet.state()
    refused = fleet.run("flux.yaml", "repository_dispatch", other.event_payload, run=other.id)
    assert refused.code == 1
    assert "which is none of the artifacts here" in refused.text
    assert fleet.state() == before

    done = fleet.run("flux.yaml", "repository_dispatch", ours.event_payload, run=ours.id)
    assert (done.code, done.outputs("flux", "")["target-version"]) == (0, "v2.9.3"), done.text
    fleet.verified(files, "flux.yaml")

    before = fleet.state()
    assert fleet.run("flux.yaml", "repository_dispatch", ours.event_payload, run=ours.id).code == 0
    assert fleet.state() == before


def test_a_publication_tells_the_workflow_that_offers_it_to_repositories_that_pin_it(
    keyless: Fleet, files: cosign.Files
) -> None:
    fleet = keyless
    fleet.configure(*fleet.up_to_2_9_3, "announce: [acme/fleet]", "consumers: [{repository: acme/clusters}]")
    fleet.use("flux.yaml", "flux.yaml", {PACKAGES: f"actions: read\n      {PACKAGES}"})
    fleet.use("consumers.yaml", "consumers.yaml")
    old = fleet.verified(files, "flux.yaml")
    address = str(fleet.channel).removesuffix(":production")
    clusters = fleet.forge.repository("acme/clusters", {"flux.yaml": PINNED.format(url=address, digest=old).encode()})
    app = fleet.forge.app("fleet-consumers")
    fleet.forge.install(app, ["acme/clusters"], {"contents": "write", "pull-requests": "write"})
    done = fleet.run("flux.yaml", "schedule")
    assert done.code == 0, done.text
    new = fleet.verified(files, "flux.yaml")
    told = fleet.github.runs[-1]
    assert told.event_payload["client_payload"]["target"] == new != old
    assert "production: acme/fleet was told." in done.text
    assert "cannot be read" not in done.text

    fleet.secrets["APP_PRIVATE_KEY"] = app.key
    settings: Any = {"variables": {"APP_ID": str(app.id)}}
    offered = fleet.run("consumers.yaml", "repository_dispatch", told.event_payload, run=told.id, **settings)
    assert offered.code == 0, offered.text
    (pull,) = clusters.pulls
    assert clusters.read("flux.yaml", pull.branch) == PINNED.format(url=address, digest=new).encode()

    before = fleet.state()
    assert fleet.run("consumers.yaml", "schedule", **settings).code == 0
    assert fleet.state() == before


def test_the_watch_opens_one_issue_where_no_check_ran_and_closes_it_when_one_did(fleet: Fleet) -> None:
    fleet.use("flux.yaml", "flux.yaml")
    fleet.use("watch.yaml", "watch.yaml")
    check = fleet.github.start("flux.yaml", "schedule", ACTIONS)
    check.created -= timedelta(days=4)
    fleet.github.complete(check.id)
    fleet.github.workflow("flux.yaml").state = "disabled_inactivity"
    silent = fleet.run("watch.yaml", "schedule")
    assert silent.code == 1, silent.text
    assert "has not succeeded since" in silent.text
    (issue,) = fleet.github.issues
    assert fleet.github.workflow("flux.yaml").state == "active"

    before = fleet.state()
    assert fleet.run("watch.yaml", "push").code == 1
    assert fleet.state() == before

    fleet.github.complete(fleet.github.start("flux.yaml", "schedule", ACTIONS).id)
    assert fleet.run("watch.yaml", "schedule").code == 0
    assert (issue.state, len(fleet.github.issues)) == ("CLOSED", 1)


def test_a_called_workflow_signs_keyless_only_where_its_shared_subject_is_accepted(
    fleet: Fleet, files: cosign.Files, flux_releases: Path
) -> None:
    shipped = (ROOT / "workflows/with-key/flux.yaml").read_text()
    called = re.search(r"acme/ci-automation/.github/workflows/update.yaml@[0-9a-f]{40}", shipped)
    assert called
    subject = f"https://github.com/{called[0]}"
    own = ("--trust-config", fleet.folder / "sigstore.json")
    fleet.begin("v2.9.0", *own, releases=flux_releases, subject=subject)
    fleet.configure(*fleet.up_to_2_9_3)
    before = fleet.state()["tags"]
    fleet.use("with-key/flux.yaml", "flux.yaml", {"key: env://COSIGN_KEY": 'key: ""'})
    refused = fleet.run("flux.yaml", "schedule", subject=subject)
    assert refused.code == 1
    assert "every caller of that workflow signs with the same name" in refused.text
    assert fleet.state()["tags"] == before

    fleet.use("with-key/flux.yaml", "flux.yaml", {ENVIRONMENT: "      accept-shared-subject: true"})
    done = fleet.run("flux.yaml", "schedule", run=2, subject=subject)
    assert done.code == 0, done.text
    assert done.outputs("update", "update")["digest"] == fleet.verified(files, subject)
