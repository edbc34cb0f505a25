"""The life of channels without a terminal: files, runs of workflows, merges and approvals, and what each of them costs.

The workflows that teams copy run by act, in containers of the built image. GitHub and Sigstore are doubles, and the
real cosign judges the result. What the minutes buy: that these files, the image of the action, and the outputs, rights
and events of GitHub fit together, from an empty repository and an empty registry to the last way back. tests/contract
has a quick test of each decision on the way. act knows no environments: the job `do` always starts, and judges.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.previewed import event as pull_event
from tests.fakes.forge import ACTIONS
from tests.fakes.samples import write_old_samples
from tests.real.peers import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ci_automation.artifact.reference import Reference
    from tests.fakes.forge import Pull, Run
    from tests.real import cosign
    from tests.real.fleet import Fleet
    from tests.real.pipeline import KeyPair
    from tests.real.podman import Acted

    Told = dict[str, dict[str, Any]]

pytest_plugins = ["tests.real.fleet"]

FIRST, PATCH, MINOR = "v2.98.5", "v2.98.8", "v2.99.4"
FOLDER = "clusters/edge/flux-system"
KUSTOMIZATION = b"resources: [flux-system/gotk-components.yaml]\n"
PATCHED = """\
resources: [flux-system/gotk-components.yaml]
patches:
- target: {kind: Deployment, name: source-controller}
  patch: |
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --requeue-dependency=5s}
"""
CONFIGURATION = """\
version: 1
source: github:fluxcd/flux2
apiUrl: {api}
upstream: {{verify: if-available}}
defaults:
  trustConfig: sigstore.json
  verify:
    identity: https://github.com/acme/fleet/.github/workflows/flux.yaml@refs/heads/main
    issuer: https://token.actions.githubusercontent.com
artifacts:
- name: edge
  url: {edge}
  overlay: {folder}
  flags: {flags}
- name: staging
  url: {staging}
  promote: {{from: edge}}
- name: production
  url: {production}
  promote: {{from: staging}}
"""
CONFIG = ".github/flux-manifests.yaml"
DOCUMENT = (ROOT / "docs/guides/ways-of-working.md").read_text()
WAYS = [line.split("|")[1:-1] for line in DOCUMENT.splitlines() if line.startswith("| ")]
OTHERS = "https://github.com/acme/other/.github/workflows/publish.yaml@refs/heads/main"
ALL = "          artifact: oci://ghcr.io/acme/flux-manifests:production\n"  # without it, all artifacts are the run's


@pytest.fixture(scope="module")
def flux_releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the sample releases: a patch, and a minor of the first Flux that knows other Sigstores."""
    return write_old_samples(tmp_path_factory.mktemp("samples"))


class Team:
    """People who work in a browser: alice writes and starts runs, carol reviews and merges."""

    def __init__(self, fleet: Fleet, files: cosign.Files, signer: Path | str = "flux.yaml") -> None:
        self.fleet, self.github, self.files, self.signer = fleet, fleet.github, files, signer
        self.github.environment("flux-manifests", reviewers=["carol"], prevent_self_review=True)

    @property
    def cost(self) -> tuple[int, int]:
        """The clicks of people until now, and the runs that came to their end."""
        runs = [it for it in self.github.runs if it.conclusion == "success"]
        by_hand = sum(1 for it in runs if it.event == "workflow_dispatch" and it.actor != ACTIONS)
        merges = sum(1 for it in self.github.pulls if it.state == "MERGED")
        return by_hand + merges + sum(len(it.decisions) for it in runs), len(runs)

    @contextmanager
    def takes(self, way: str) -> Iterator[None]:
        """Check that what is done takes the clicks and runs that the first numbers of its row in the document say."""
        (row,) = (it for it in WAYS if it[0].strip().startswith(way))
        before = self.cost
        yield
        found = tuple(after - had for after, had in zip(self.cost, before, strict=True))
        assert found == tuple(int(re.findall(r"\d+", cell)[0]) for cell in row[3:5]), way

    @property
    def channels(self) -> dict[str, Reference]:
        """The address of each channel, in the order of the waves."""
        staging = self.fleet.staging
        return {"edge": staging.at_tag("edge"), "staging": staging, "production": self.fleet.channel}

    def at(self, name: str) -> str:
        """Return the digest that a channel has, once the real cosign took its signature."""
        return self.fleet.verified(self.files, self.signer, self.channels[name])

    @property
    def edge(self) -> str:
        """The digest that edge has."""
        return self.at("edge")

    def found(self) -> None:
        """Write the files of an empty repository."""
        fleet = self.fleet
        fleet.write(f"{FOLDER}/kustomization.yaml", KUSTOMIZATION.decode())
        fleet.write(CONFIG, self.configuration())
        fleet.use("flux.yaml", "flux.yaml", {ALL: ""})
        fleet.use("preview.yaml", "preview.yaml")
        fleet.channels += self.channels.values()

    def configuration(self, flags: str = "{}") -> str:
        """Return the configuration with these flags of edge."""
        return CONFIGURATION.format(api=self.fleet.forge.url, **self.channels, folder=FOLDER, flags=flags)

    def operate(self, command: str, artifact: str, **inputs: str) -> dict[str, str]:
        """Start `flux.yaml` by hand, and return the outputs of its last job.

        Carol approves the run once its first job has shown what would happen.
        """
        done = self.dispatch(command, artifact, approved=True, **inputs)
        assert done.code == 0, done.text
        assert {"show", "gate", "do"} <= done.jobs.keys()
        return done.outputs("do", "")

    def dispatch(self, command: str, artifact: str, *, approved: bool, **inputs: str) -> Acted:
        """Start `flux.yaml` by hand, and return what came of it, whether carol approves it or not."""
        run = self.github.dispatch("flux.yaml", "main", {"command": command, "artifact": artifact, **inputs}, "alice")

        def approve(entry: dict[str, Any]) -> None:
            if approved and (entry.get("jobID"), entry.get("jobResult")) == ("show", "success"):
                self.fleet.forge.approve(run.id, "carol")

        return self.ran(run, {"inputs": run.inputs}, approve)

    def hour(self) -> Told:
        """Let the schedule start the workflow, and return what it tells of each artifact."""
        return self._told(self.ran(self.github.start("flux.yaml", "schedule", ACTIONS)))

    def merge(self, pull: Pull, how: str = "squash") -> Told:
        """Merge a pull request as carol, and return what the run tells that its push starts, or else the next one."""
        self.github.merge(pull.number, "carol", how)
        started = [it for it in self.github.runs if it.event == "push" and it.status != "completed"]
        return self._told(self.ran(started[-1], {"ref": "refs/heads/main"})) if started else self.hour()

    def merge_request(self, name: str) -> Told:
        """Merge the newest request about an artifact."""
        return self.merge(
            [pull for pull in self.github.pulls if pull.state == "OPEN" and pull.branch.endswith(name)][-1]
        )

    def _told(self, done: Acted) -> Told:
        assert done.code == 0, done.text
        return {each["name"]: each for each in json.loads(done.outputs("", "")["artifacts"])}

    def propose(self, branch: str, path: str, text: str) -> tuple[Pull, str]:
        """Open a pull request as alice, and return it with the comment that its preview leaves."""
        self.github.push(branch, {path: text.encode()}, "alice", f"Change {path}")
        pull = self.github.open_pull(branch, "alice")
        self.fleet.check_out(pull.head)
        event, ref = pull_event(self.github, pull.number), f"refs/pull/{pull.number}/merge"
        run = self.github.start("preview.yaml", "pull_request", "alice")
        done = self.fleet.run("preview.yaml", "pull_request", event, run=run.id, ref=ref)
        assert done.code == 0, done.text
        self.github.complete(run.id)
        (comment,) = pull.comments
        return pull, comment.body

    def ran(
        self, run: Run, payload: dict[str, Any] | None = None, seen: Callable[[dict[str, Any]], None] | None = None
    ) -> Acted:
        """Return what came of a run on the default branch, which is over then."""
        self.fleet.check_out()
        file = run.workflow.path.rpartition("/")[2]
        subject = str(self.signer) if "://" in str(self.signer) else ""
        done = self.fleet.run(file, run.event, payload, run=run.id, subject=subject, seen=seen or (lambda _: None))
        self.github.complete(run.id)
        return done


def test_a_team_lives_without_a_terminal_and_without_a_key(fleet: Fleet, files: cosign.Files) -> None:
    """One story, since each step starts from what those before have left."""
    team = Team(fleet, files)
    team.found()
    with team.takes("makes the first artifact of a channel"):
        assert team.operate("init", "edge", to=FIRST)["digest"] == team.edge
    for wave in ("staging", "production"):
        with team.takes("promotes from staging to production"):
            assert team.operate("promote", wave)["digest"] == team.at(wave) == team.edge
    with team.takes("gets a minor"):
        with team.takes("gets a patch"):
            patched = team.hour()
        minor = team.merge_request("edge")
    assert (patched["edge"]["target-version"], patched["edge"]["pending-version"]) == (PATCH, MINOR)
    assert {each["digest"] for each in patched.values()} == {minor["edge"]["base-digest"]} == {team.at("production")}
    assert (minor["edge"]["target-version"], minor["edge"]["digest"]) == (MINOR, team.edge)
    assert minor["staging"]["pending-digest"] == team.edge != team.at("staging")  # asked for at each wave
    newest = changed(team)
    for wave in ("staging", "production"):
        assert moved(team.merge_request(wave)) == {wave}
        assert team.at(wave) == newest
    with team.takes("rolls back"):
        rolled = team.operate("rollback", "edge", to=PATCH, reason="webhooks time out")
    assert rolled["target-version"] == PATCH
    assert team.edge == patched["edge"]["digest"]
    assert not moved(team.hour())
    assert team.edge == patched["edge"]["digest"]
    with team.takes("lets the release come again"):
        team.operate("lift-hold", "edge", reason="mended")
        assert not moved(team.hour())  # what was rolled back is asked for anew: content and minor
    for _ in range(2):
        assert moved(team.merge_request("edge")) == {"edge"}
    assert team.edge == newest == team.at("production")
    assert not [pull for pull in team.github.pulls if pull.state == "OPEN"]


def moved(told: Told) -> set[str]:
    """Return the names of the artifacts that a run moved."""
    return {name for name, each in told.items() if each["changed"]}


def changed(team: Team) -> str:
    """Change the overlay and a flag by pull requests, and return the digest that edge has then."""
    with team.takes("sees what a pull request changes and breaks"):
        pull, page = team.propose("overlay", f"{FOLDER}/kustomization.yaml", PATCHED)
    assert "+        - --requeue-dependency=5s" in page
    before = team.edge
    assert not moved(team.hour())
    with team.takes("changes the overlay, or a flag"):
        content = team.merge(pull)["edge"]
    assert (content["changed"], content["target-version"], content["digest"]) == (True, MINOR, team.edge)
    assert content["base-digest"] == before
    assert content["digest"] in page
    pull, page = team.propose("flags", CONFIG, team.configuration("{log-level: debug}"))
    with team.takes("changes the overlay, or a flag"):
        flagged = team.merge(pull, "merge")["edge"]
    assert "log-level" in page
    assert (flagged["changed"], flagged["digest"]) == (True, team.edge)
    assert flagged["digest"] in page
    return str(flagged["digest"])


def test_a_team_with_a_key_operates_by_the_reusable_workflow(
    fleet: Fleet, files: cosign.Files, cosign_key: KeyPair
) -> None:
    team = Team(fleet, files, cosign_key.public)
    fleet.keep(cosign_key)
    fleet.configure("verify: {publicKey: cosign.pub}", f"overlay: {FOLDER}")
    fleet.write(f"{FOLDER}/kustomization.yaml", KUSTOMIZATION.decode())
    fleet.use("with-key/flux.yaml", "flux.yaml")
    fleet.channels.append(fleet.channel)
    assert team.operate("init", "production", to=FIRST)["digest"] == team.at("production")
    patched = team.hour()["production"]
    assert (patched["target-version"], patched["pending-version"]) == (PATCH, MINOR)
    assert patched["digest"] == team.at("production")
    fleet.use("with-key/fleet.yaml", "flux.yaml")  # it calls the same workflow
    back = team.operate("rollback", "production", to=FIRST, reason="webhooks time out")
    assert (back["target-version"], back["digest"]) == (FIRST, team.at("production"))


def test_the_reusable_workflow_operates_keyless_where_its_shared_subject_is_accepted(
    fleet: Fleet, files: cosign.Files
) -> None:
    shipped = (ROOT / "workflows/with-key/flux.yaml").read_text()
    (called,) = re.findall(r"uses: (acme/ci-automation/.github/workflows/operate.yaml@\S+)", shipped)
    team = Team(fleet, files, f"https://github.com/{called}")
    pattern = r"^https://github\.com/acme/ci-automation/\.github/workflows/(update|operate)\.yaml@[0-9a-f]{40}$"
    verify = f"verify: {{identityRegexp: '{pattern}', issuer: 'https://token.actions.githubusercontent.com'}}"
    fleet.configure("trustConfig: sigstore.json", verify)
    keyed = "      key: env://COSIGN_KEY\n      environment: flux-manifests-production"
    fleet.use("with-key/flux.yaml", "flux.yaml", {keyed: "      accept-shared-subject: true"})
    fleet.channels.append(fleet.channel)
    assert team.operate("init", "production", to=FIRST)["digest"] == team.at("production")


def test_a_team_that_approves_in_an_environment_adopts_rolls_back_and_takes_a_minor(
    fleet: Fleet, files: cosign.Files, flux_releases: Path
) -> None:
    team = Team(fleet, files)
    own = ("--trust-config", fleet.folder / "sigstore.json")
    fleet.begin(FIRST, *own, releases=flux_releases, subject=OTHERS)
    fleet.configure("trustConfig: sigstore.json")
    fleet.use("flux-by-dispatch.yaml", "flux.yaml")
    fleet.use("approve.yaml", "approve.yaml")
    old = fleet.verified(files, OTHERS)
    adopted = team.dispatch("adopt", "production", approved=True)
    assert (adopted.code, team.at("production")) == (0, old), adopted.text
    assert old in adopted.outputs("show", "show")["shown"]
    assert team.hour()["production"]["target-version"] == PATCH

    before = fleet.state()["tags"]
    rolling = {"to": FIRST, "reason": "webhooks time out"}
    early = team.dispatch("rollback", "production", approved=False, **rolling)
    assert early.code == 1, early.text
    assert f"goes back from {PATCH} to {FIRST}" in early.text
    assert "no reviewer approved this run" in early.text
    assert fleet.state()["tags"] == before
    assert team.operate("rollback", "production", **rolling)["digest"] == old == team.at("production")
    assert not moved(team.hour())
    lifted = team.dispatch("lift-hold", "production", approved=True, reason="mended")
    assert lifted.code == 0, lifted.text
    assert f"The next scheduled run publishes {PATCH}" in lifted.text

    with team.takes("approves in a protected environment"):
        assert team.hour()["production"]["target-version"] == PATCH
        waiting = team.github.runs[-1]
        payload, before = {"inputs": waiting.inputs}, fleet.state()["tags"]
        assert (waiting.status, waiting.inputs["version"]) == ("waiting", MINOR)
        assert fleet.run("approve.yaml", "workflow_dispatch", payload, run=waiting.id).code == 1
        assert fleet.state()["tags"] == before
        fleet.forge.approve(waiting.id, "carol")
        done = team.ran(waiting, payload)
    assert done.code == 0, done.text
    assert fleet.verified(files, "approve.yaml") == waiting.inputs["target"]
    state = fleet.state()
    again = team.ran(waiting, payload)
    assert (again.code, fleet.state()) == (1, state)  # its first job has nothing to show any more
    assert "publish" not in again.jobs
