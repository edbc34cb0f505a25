"""People who start operations by dispatch on a double of GitHub: the three jobs of the shipped workflow."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ci_automation.artifact.reference import LayoutDirectory, Reference
from ci_automation.records.ledger import Ledger
from ci_automation.registry import open_registry
from ci_automation.registry.layout import LayoutRegistry
from ci_automation.signing.trust import TrustedKeys
from tests.contract.scene import CHANNEL, FIRST, NAME, PATCH
from tests.fakes.world import signing_key

if TYPE_CHECKING:
    from ci_automation.records.notes import Record
    from tests.conftest import Once
    from tests.contract.scene import Scene
    from tests.fakes.forge.state import Run
    from tests.fakes.runner import Ran

CONFIG = ".github/flux-manifests.yaml"
WORKFLOW = (Path(__file__).parents[2] / "workflows/flux.yaml").read_bytes()
PAYLOAD = {"repository": {"default_branch": "main", "full_name": NAME}}


@dataclass(frozen=True)
class Dispatched:
    """One run of the workflow, started by a person with these inputs."""

    scene: Scene
    run: Run
    inputs: dict[str, str]
    key: dict[str, str] = field(default_factory=lambda: {"key": "cosign.key"})

    def job(self) -> None:
        """Let the next job be one of this run."""
        self.scene.runner.event("workflow_dispatch", PAYLOAD)
        self.scene.runner.variables["GITHUB_RUN_ID"] = str(self.run.id)
        self.scene.runner.variables["GITHUB_RUN_ATTEMPT"] = str(self.run.attempt)

    def show(self, **inputs: str) -> Ran:
        """Run the job `show`, which has no key."""
        self.job()
        return self.scene.runner.run(**{"command": "show", "releases": "../releases", **self.inputs, **inputs})

    def do(self, shown: str, **inputs: str) -> Ran:
        """Run the job `do`."""
        self.job()
        given = {"command": "do", "releases": "../releases", **self.key, **self.inputs, "shown": shown, **inputs}
        return self.scene.runner.run(**given)

    def approve(self, by: str = "ada") -> None:
        """Approve it as a reviewer."""
        self.scene.forge.approve(self.run.id, by)

    def with_code(self, by: str = "ada") -> Dispatched:
        """Run the job `show`, and let a person start the same with the code on its page."""
        return dispatch(self.scene, by=by, **self.inputs, code=code_of(self.show()))

    def through(self) -> Ran:
        """Run all three jobs."""
        shown = self.show()
        assert shown.code == 0, shown
        self.approve()
        return self.do(shown.outputs["shown"])


def code_of(ran: Ran) -> str:
    """Return the code that a page shows, in its first sentence and in its last."""
    assert (ran.code, ran.outputs["shown"]) == (0, ""), ran
    assert "start the workflow again with the same fields" in ran.summary
    assert "This run changed nothing. Read its page" in ran.said("warning")[0]
    code = ran.summary.rpartition("field code: `")[2].partition("`")[0]
    assert f"needs approval: start it again with code {code}\n" in ran.summary.partition("###")[0]
    return code


def configure(scene: Scene, *, approval: str = "{}", more: str = "", others: str = "", pushes: bool = True) -> None:
    """Write the configuration, and push it to the default branch."""
    scene.fleet.protections.clear()
    text = (
        f"version: 1\napiUrl: {scene.forge.url}\nupstream: {{verify: if-available}}\nartifacts:\n"
        f"- {{name: production, url: '{CHANNEL}', verify: {{publicKey: cosign.pub}}, signing: {{mode: key, "
        f"key: cosign.key}}, approval: {approval}{more}}}\n{others}"
    )
    (scene.runner.workspace / "cosign.pub").write_text(signing_key().public.to_pem())
    (scene.runner.workspace / CONFIG).write_text(text)
    if pushes:
        push(scene, text)


def patched(scene: Scene, once: Once) -> Scene:
    """Let the channel have the patch, and GitHub the configuration too."""
    configure(scene)
    scene.offer(FIRST, PATCH)

    def publish() -> None:
        ran = scene.run(approval="none")
        assert (ran.code, ran.outputs["target-version"]) == (0, PATCH), ran

    once("the channel has the patch", scene.runner.workspace / "registry", publish)
    return scene


def push(scene: Scene, text: str) -> None:
    """Let the default branch have another configuration, and the shipped workflow."""
    files = {CONFIG: text.encode(), ".github/workflows/flux.yaml": WORKFLOW}
    scene.fleet.push("main", files, "keeper")


def dispatch(scene: Scene, operation: str, *, by: str = "ada", **inputs: str) -> Dispatched:
    """Let a person start the workflow."""
    named = {"command": operation, **inputs}
    run = scene.fleet.dispatch("flux.yaml", "main", named, by)
    return Dispatched(scene, run, {"operation": operation, **inputs})


def ledger(channel: str = CHANNEL) -> Ledger:
    """Return the records of a channel."""
    registry = LayoutRegistry(LayoutDirectory(Path(channel.split(":")[1])))
    return Ledger(registry, Reference.parse(channel), TrustedKeys((signing_key().public,)))


def records(channel: str = CHANNEL) -> tuple[Record, ...]:
    """Return the records of what a channel has, oldest first."""
    digest = open_registry(Reference.parse(channel)).resolve(Reference.parse(channel))
    assert digest
    return ledger(channel).records(digest)
