"""The whole life of three channels without a terminal or a key: files, runs of workflows, merges and approvals.

The shipped workflows run by act in containers; GitHub and Sigstore are doubles, and the real cosign judges the result.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.previewed import event as pull_event
from tests.fakes.samples import write_old_samples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ci_automation.artifact.reference import Reference
    from tests.fakes.forge import Pull, Run
    from tests.real import cosign
    from tests.real.fleet import Fleet
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
ALL = "          artifact: oci://ghcr.io/acme/flux-manifests:production\n"  # without it, all artifacts are the run's


@pytest.fixture(scope="module")
def flux_releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the sample releases: a patch, and a minor of the first Flux that knows other Sigstores."""
    return write_old_samples(tmp_path_factory.mktemp("samples"))


class Team:
    """People who work in a browser: alice writes and starts runs, carol reviews and merges."""

    def __init__(self, fleet: Fleet, files: cosign.Files) -> None:
        self.fleet, self.github, self.files = fleet, fleet.github, files

    @property
    def channels(self) -> dict[str, Reference]:
        """The address of each channel, in the order of the waves."""
        staging = self.fleet.staging
        return {"edge": staging.at_tag("edge"), "staging": staging, "production": self.fleet.channel}

    def at(self, name: str) -> str:
        """Return the digest that a channel has, once the real cosign took the signature of `flux.yaml`."""
        return self.fleet.verified(self.files, "flux.yaml", self.channels[name])

    @property
    def edge(self) -> str:
        """The digest that edge has."""
        return self.at("edge")

    def found(self) -> None:
        """Write the files of an empty repository, and make the environment."""
        fleet = self.fleet
        fleet.write(f"{FOLDER}/kustomization.yaml", KUSTOMIZATION.decode())
        fleet.write(CONFIG, self.configuration())
        fleet.use("flux.yaml", "flux.yaml", {ALL: ""})
        fleet.use("preview.yaml", "preview.yaml")
        self.github.environment("flux-manifests", reviewers=["carol"])
        fleet.channels += self.channels.values()

    def configuration(self, flags: str = "{}") -> str:
        """Return the configuration with these flags of edge."""
        return CONFIGURATION.format(api=self.fleet.forge.url, **self.channels, folder=FOLDER, flags=flags)

    def operate(self, command: str, artifact: str, **inputs: str) -> dict[str, str]:
        """Start `flux.yaml` by hand, and return the outputs of its last job.

        Carol approves the run once its first job has shown what would happen.
        """
        run = self.github.dispatch("flux.yaml", "main", {"command": command, "artifact": artifact, **inputs}, "alice")

        def approve(entry: dict[str, Any]) -> None:
            if (entry.get("jobID"), entry.get("jobResult")) == ("show", "success"):
                self.fleet.forge.approve(run.id, "carol")

        return self._ran(run, {"inputs": run.inputs}, approve).outputs("do", "")

    def hour(self) -> Told:
        """Let the schedule start the workflow, and return what it tells of each artifact."""
        return self._told(self._ran(self.github.start("flux.yaml", "schedule", "alice")))

    def merge(self, pull: Pull, how: str = "squash") -> Told:
        """Merge a pull request as carol, and return what the run tells that its push starts, or else the next one."""
        self.github.merge(pull.number, "carol", how)
        started = [it for it in self.github.runs if it.event == "push" and it.status != "completed"]
        return self._told(self._ran(started[-1], {"ref": "refs/heads/main"})) if started else self.hour()

    def merge_request(self, name: str) -> Told:
        """Merge the newest request about an artifact."""
        return self.merge(
            [pull for pull in self.github.pulls if pull.state == "OPEN" and pull.branch.endswith(name)][-1]
        )

    def _told(self, done: Acted) -> Told:
        return {each["name"]: each for each in json.loads(done.outputs("", "")["artifacts"])}

    def propose(self, branch: str, path: str, text: str) -> tuple[Pull, str]:
        """Open a pull request as alice, and return it with the comment that its preview leaves."""
        self.github.push(branch, {path: text.encode()}, "alice", f"Change {path}")
        pull = self.github.open_pull(branch, "alice")
        self.fleet.check_out(pull.head)
        event, ref = pull_event(self.github, pull.number), f"refs/pull/{pull.number}/merge"
        done = self.fleet.run("preview.yaml", "pull_request", event, run=9000 + pull.number, ref=ref)
        assert done.code == 0, done.text
        (comment,) = pull.comments
        return pull, comment.body

    def _ran(
        self, run: Run, payload: dict[str, Any] | None = None, seen: Callable[[dict[str, Any]], None] | None = None
    ) -> Acted:
        self.fleet.check_out()
        file = run.workflow.path.rpartition("/")[2]
        done = self.fleet.run(file, run.event, payload, run=run.id, seen=seen or (lambda _: None))
        self.github.complete(run.id)
        assert done.code == 0, done.text
        return done


@pytest.fixture
def team(fleet: Fleet, files: cosign.Files) -> Team:
    """Return a team with an empty registry, and a repository with its first files."""
    team = Team(fleet, files)
    team.found()
    return team


def test_a_team_lives_without_a_terminal_and_without_a_key(team: Team) -> None:
    """One story, since each step starts from what those before have left."""
    assert team.operate("init", "edge", to=FIRST)["digest"] == team.edge
    for wave in ("staging", "production"):
        assert team.operate("promote", wave)["digest"] == team.at(wave) == team.edge
    patched = team.hour()
    assert (patched["edge"]["target-version"], patched["edge"]["pending-version"]) == (PATCH, MINOR)
    assert {each["digest"] for each in patched.values()} == {team.edge} == {team.at("production")}
    minor = team.merge_request("edge")
    assert (minor["edge"]["target-version"], minor["edge"]["digest"]) == (MINOR, team.edge)
    assert minor["staging"]["pending-digest"] == team.edge != team.at("staging")  # asked for at each wave
    newest = changed(team)
    for wave in ("staging", "production"):
        assert moved(team.merge_request(wave)) == {wave}
        assert team.at(wave) == newest
    assert team.operate("rollback", "edge", to=PATCH, reason="webhooks time out")["target-version"] == PATCH
    assert team.edge == patched["edge"]["digest"]
    assert not moved(team.hour())
    assert team.edge == patched["edge"]["digest"]
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
    pull, page = team.propose("overlay", f"{FOLDER}/kustomization.yaml", PATCHED)
    assert "+        - --requeue-dependency=5s" in page
    before = team.edge
    assert not moved(team.hour())
    content = team.merge(pull)["edge"]
    assert (content["changed"], content["target-version"], content["digest"]) == (True, MINOR, team.edge)
    assert content["base-digest"] == before
    assert content["digest"] in page
    pull, page = team.propose("flags", CONFIG, team.configuration("{log-level: debug}"))
    assert "log-level" in page
    flagged = team.merge(pull, "merge")["edge"]
    assert (flagged["changed"], flagged["digest"]) == (True, team.edge)
    assert flagged["digest"] in page
    return str(flagged["digest"])
