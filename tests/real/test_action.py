"""The shipped workflows, run by act in containers of the built image: against a real registry, with real releases.

GitHub is the double, which checks each exchange against GitHub's own description; cosign judges what was published.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from ci_automation.approval.lock import LOCK_FILE
from ci_automation.approval.pull_request import branch_name
from ci_automation.artifact.reference import Reference
from ci_automation.registry import open_registry
from ci_automation.signing.trust import Identity
from tests.fakes.forge import Forge
from tests.fakes.sigstore import LocalSigstore
from tests.real import cosign, podman, program
from tests.real.peers import ROOT
from tests.real.pipeline import PASSWORD
from tests.real.podman import Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.fakes.forge import Repository
    from tests.real.pipeline import KeyPair
    from tests.real.podman import Acted
    from tests.real.registries import RealRegistry

ISSUER = "https://token.actions.githubusercontent.com"
WORKFLOW = "https://github.com/acme/fleet/.github/workflows/{file}@refs/heads/main"
SHIPPED = "oci://ghcr.io/acme/flux-manifests:production"
PIN = re.compile(r"acme/ci-automation(?:/\S+)?@(?P<ref>\S+)")
OVERLAY = b"resources: [flux-system/gotk-components.yaml]\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield where podman takes docker's requests."""
    with podman.service(tmp_path_factory.mktemp("service")) as address:
        yield address


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return this repository as a release has it: the action is an image, and the workflows are there to be called."""
    folder = tmp_path_factory.mktemp("released")
    text = (ROOT / "action.yml").read_text()
    prebuilt = re.sub(r"(?m)^  image: Dockerfile.*$", f"  image: docker://{podman.image()}", text)
    assert prebuilt != text
    (folder / "action.yml").write_text(prebuilt)
    shutil.copytree(ROOT / ".github/workflows", folder / ".github/workflows")
    podman.commit(folder)
    return folder


@dataclass(slots=True)
class Fleet:
    """A repository of a team: on the double of GitHub, and as the working tree that its jobs check out."""

    forge: Forge
    github: Repository
    local: LocalSigstore
    folder: Path
    channel: Reference
    service: str
    released: Path
    secrets: dict[str, str] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    ran: list[Acted] = field(default_factory=list)

    @classmethod
    def founded(  # what a team has
        cls, forge: Forge, local: LocalSigstore, folder: Path, channel: Reference, service: str, released: Path
    ) -> Self:
        """Return a fleet whose files are as `workflows/` has them, with the artifact's name in its place."""
        called = {
            str(path.relative_to(ROOT)): path.read_bytes() for path in (ROOT / ".github/workflows").glob("*.yaml")
        }
        forge.repository("acme/ci-automation", called)
        github = forge.repository("acme/fleet", {"README.md": b"a fleet\n"})
        github.collaborators.update(alice="write", carol="write", mallory="read")
        fleet = cls(forge, github, local, folder, channel, service, released)
        fleet.write("sigstore.json", local.trust_config().decode())
        return fleet

    def configure(self, *lines: str) -> None:
        """Write the configuration: where releases come from here, the artifact, and more lines of that."""
        text = (
            f"version: 1\nsource: github:fluxcd/flux2\napiUrl: {self.forge.url}\nupstream: {{verify: if-available}}\n"
            f"artifacts:\n- name: production\n  url: {self.channel}\n"
        )
        self.write(".github/flux-manifests.yaml", text + "".join(f"  {line}\n" for line in lines))

    def use(self, shipped: str, name: str) -> None:
        """Copy one of the shipped workflows, and name the artifact: what the README says is all."""
        text = (ROOT / "workflows" / shipped).read_text()
        self.write(f".github/workflows/{name}", text.replace(SHIPPED, str(self.channel)))

    def write(self, path: str, text: str) -> None:
        """Change a file in the repository, and in the working tree."""
        self.paths.append(path)
        self.github.push("main", {path: text.encode()}, "alice", f"Change {path}")
        self.check_out()

    def check_out(self) -> None:
        """Let the working tree be what the default branch has."""
        for path in (*self.paths, LOCK_FILE):
            if (content := self.github.read(path, "main")) is not None:
                place = self.folder / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
        podman.commit(self.folder, "acme/fleet")

    def run(self, workflow: str, event: str, payload: Mapping[str, Any] | None = None, run: int = 1) -> Acted:
        """Return what came of a workflow's run on the default branch."""
        text = (self.folder / ".github/workflows" / workflow).read_text()
        called = "".join(path.read_text() for path in (ROOT / ".github/workflows").glob("*.yaml"))
        pins = {match["ref"] for match in PIN.finditer(text + called)}
        rights = {"contents": "read", "actions": "read", "packages": "write", "metadata": "read"}
        if "contents: write" in text:
            rights |= {"contents": "write", "pull_requests": "write"}
        if "actions: write" in text:
            rights |= {"actions": "write"}
        subject = Identity(ISSUER, WORKFLOW.format(file=workflow))
        done = podman.act(
            self.service,
            self.folder,
            Event(
                event,
                {"repository": {"full_name": "acme/fleet", "default_branch": "main"}} | dict(payload or {}),
                run=run,
            ),
            workflow=f".github/workflows/{workflow}",
            variables=self.local.environment(subject)
            | {
                "GITHUB_API_URL": self.forge.url,
                "GITHUB_SERVER_URL": "https://github.com",
                "GITHUB_REF": "refs/heads/main",
                "GITHUB_WORKFLOW_REF": f"acme/fleet/.github/workflows/{workflow}@refs/heads/main",
            },
            secrets={"GITHUB_TOKEN": self.forge.token("actions", "acme/fleet", rights)} | self.secrets,
            repositories={f"acme/ci-automation@{pin}": self.released for pin in pins},
        )
        self.ran.append(done)
        return done

    def state(self) -> dict[str, object]:
        """Return all that a run could change, in the registry and on GitHub."""
        registry = open_registry(self.channel)
        return {
            "tags": sorted(
                (tag, str(registry.resolve(self.channel.at_tag(tag)))) for tag in registry.tags(self.channel)
            ),
            "branches": dict(self.github.branches),
            "pulls": [(it.number, it.state, it.title, it.body, len(it.comments)) for it in self.github.pulls],
            "runs": [(it.id, it.status, it.title) for it in self.github.runs],
            "issues": len(self.github.issues),
        }

    def begin(self, version: str, *options: object, releases: Path) -> None:
        """Publish the channel's first artifact."""
        overlay = self.folder.parent / "overlay"
        overlay.mkdir()
        (overlay / "kustomization.yaml").write_bytes(OVERLAY)
        own = ("--flux-version", version, "--releases", releases, "--overlay", overlay)
        settings: dict[str, Any] = self.local.environment(Identity(ISSUER, WORKFLOW.format(file="flux.yaml")))
        done = program.flux_manifests("init", self.channel, *own, *options, **settings)
        assert done.code == 0, done.errors

    def verified(self, files: cosign.Files, who: Path | str) -> str:
        """Return the digest that the channel has, once the real cosign took the signature of `who`."""
        digest = open_registry(self.channel).resolve(self.channel)
        assert digest is not None
        reference = str(self.channel.at_digest(digest)).removeprefix("oci://")
        assert cosign.verify_legacy(
            Identity(ISSUER, WORKFLOW.format(file=who)) if isinstance(who, str) else who, files, reference
        )
        return str(digest)


@pytest.fixture
def fleet(
    distribution_registry: RealRegistry,
    repository: str,
    flux_releases: Path,
    service: str,
    released: Path,
    tmp_path: Path,
) -> Iterator[Fleet]:
    channel = Reference.parse(f"oci://{distribution_registry.host}/{repository}:production")
    folder = tmp_path / "fleet"
    folder.mkdir()
    with ExitStack() as stack:
        forge = stack.enter_context(Forge(releases=flux_releases))
        local = stack.enter_context(LocalSigstore())
        fleet = Fleet.founded(forge, local, folder, channel, service, released)
        yield fleet
        text = "\n".join(done.text for done in fleet.ran)
        assert "canary-" not in text


@pytest.fixture
def files(fleet: Fleet, tmp_path: Path) -> cosign.Files:
    """Return what cosign verifies with."""
    place = tmp_path / "cosign"
    place.mkdir()
    return cosign.Files.write(fleet.local, place)


@pytest.fixture
def with_key(fleet: Fleet, cosign_key: KeyPair, flux_releases: Path) -> Fleet:
    """Return the fleet with a channel at v2.8.5 that was signed with a key, which is a secret of the repository."""
    fleet.begin("v2.8.5", "--signing", "key", "--key", cosign_key.private, releases=flux_releases)
    fleet.secrets.update(COSIGN_KEY=cosign_key.private.read_text(), COSIGN_PASSWORD=PASSWORD)
    fleet.write("cosign.pub", cosign_key.public.read_text())
    fleet.configure("verify: {publicKey: cosign.pub}")
    return fleet


@pytest.fixture
def keyless(fleet: Fleet, flux_releases: Path) -> Fleet:
    """Return the fleet with a channel at v2.9.0, the first Flux that knows other Sigstores, which flux.yaml signed."""
    fleet.begin("v2.9.0", "--trust-config", fleet.folder / "sigstore.json", releases=flux_releases)
    fleet.configure("trustConfig: sigstore.json", 'policy: {range: "<=2.9.3"}')
    return fleet


ASK_ALWAYS = ("trustConfig: sigstore.json", "policy: {patch: approval}")


def keep(name: str, text: str) -> None:
    """Keep what people see of a run, where somebody wants it for the documents."""
    if folder := os.environ.get("FLUX_MANIFESTS_RENDERINGS"):
        Path(folder, name).write_text(text)


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
    keep("pull-request.md", f"# {pull.title}\n\n{pull.body}")
    keep("summary-asked.md", first.summary("update", "update"))

    before = fleet.state()
    again = fleet.run("flux.yaml", "schedule", run=2)
    assert (again.code, again.outputs("update", "update")["changed"]) == (0, "false"), again.text
    assert fleet.state() == before

    fleet.github.merge(pull.number, "alice", "merge")
    fleet.check_out()
    applied = fleet.run("flux.yaml", "push", {"ref": "refs/heads/main"}, run=3)
    assert applied.code == 0, applied.text
    said = applied.outputs("apply", "apply")
    assert (said["changed"], said["decision"], said["target-version"]) == ("true", "approval", "v2.9.4")
    assert said["digest"] == fleet.verified(files, cosign_key.public)
    assert said["digest"].encode() in (fleet.github.read(LOCK_FILE, "main") or b"")
    keep("summary-applied.md", applied.summary("apply", "apply"))

    before = fleet.state()
    for number, (event, job) in enumerate((("push", "apply"), ("schedule", "update")), 4):
        again = fleet.run("flux.yaml", event, {"ref": "refs/heads/main"}, run=number)
        assert (again.code, again.outputs(job, job)["changed"]) == (0, "false"), again.text
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

    fleet.configure(*ASK_ALWAYS)
    asked = fleet.run("flux.yaml", "schedule", run=2)
    assert (asked.code, asked.outputs("flux", "flux")["pending-version"]) == (0, "v2.9.4"), asked.text
    fleet.github.merge(fleet.github.pulls[0].number, "alice", "squash")
    fleet.check_out()
    applied = fleet.run("flux.yaml", "schedule", run=3)
    assert (applied.code, applied.outputs("flux", "flux")["target-version"]) == (0, "v2.9.4"), applied.text
    assert fleet.verified(files, "flux.yaml") == applied.outputs("flux", "flux")["digest"]


def test_a_merge_by_somebody_who_may_not_write_now_publishes_nothing(keyless: Fleet) -> None:
    fleet = keyless
    fleet.configure(*ASK_ALWAYS)
    fleet.use("flux.yaml", "flux.yaml")
    assert fleet.run("flux.yaml", "schedule").code == 0
    fleet.github.merge(fleet.github.pulls[0].number, "alice", "squash")
    fleet.github.collaborators["alice"] = "read"
    fleet.check_out()
    before = fleet.state()["tags"]
    done = fleet.run("flux.yaml", "push", {"ref": "refs/heads/main"}, run=2)
    assert done.outputs("flux", "flux")["changed"] == "false", done.text
    assert "was merged by alice, who may not write" in done.text
    assert fleet.state()["tags"] == before


def test_a_run_that_waits_in_an_environment_publishes_what_was_approved(keyless: Fleet, files: cosign.Files) -> None:
    fleet = keyless
    fleet.configure(*ASK_ALWAYS)
    fleet.use("flux-by-dispatch.yaml", "flux.yaml")
    fleet.use("approve.yaml", "approve.yaml")
    fleet.github.environment("flux-manifests", reviewers=["carol"], prevent_self_review=True)
    asked = fleet.run("flux.yaml", "schedule")
    assert asked.code == 0, asked.text
    (waiting,) = fleet.github.runs
    assert waiting.status == "waiting"
    keep("summary-dispatch.md", asked.summary("flux", ""))
    payload = {"inputs": waiting.inputs}

    before = fleet.state()["tags"]
    early = fleet.run("approve.yaml", "workflow_dispatch", payload, run=waiting.id)
    assert early.code == 1, early.text
    assert fleet.state()["tags"] == before

    fleet.forge.approve(waiting.id, "carol")
    done = fleet.run("approve.yaml", "workflow_dispatch", payload, run=waiting.id)
    assert done.code == 0, done.text
    assert fleet.verified(files, "approve.yaml") == waiting.inputs["target"]
    keep("summary-approved.md", done.summary("publish", ""))
    fleet.github.complete(waiting.id)

    before = fleet.state()
    assert fleet.run("approve.yaml", "workflow_dispatch", payload, run=waiting.id).code == 0
    assert fleet.run("flux.yaml", "schedule", run=9).code == 0
    assert fleet.state() == before


def test_a_called_workflow_publishes_with_a_key_what_a_run_was_approved_for(
    with_key: Fleet, cosign_key: KeyPair, files: cosign.Files
) -> None:
    fleet = with_key
    fleet.configure("verify: {publicKey: cosign.pub}", "approval: {via: workflow-dispatch}")
    fleet.use("with-key/fleet.yaml", "flux.yaml")
    fleet.use("with-key/approve.yaml", "approve.yaml")
    fleet.github.environment("flux-manifests", reviewers=["carol"])
    asked = fleet.run("flux.yaml", "schedule")
    assert asked.code == 0, asked.text
    (waiting,) = fleet.github.runs
    fleet.forge.approve(waiting.id, "carol")
    done = fleet.run("approve.yaml", "workflow_dispatch", {"inputs": waiting.inputs}, run=waiting.id)
    assert done.code == 0, done.text
    assert fleet.verified(files, cosign_key.public) == waiting.inputs["target"]
