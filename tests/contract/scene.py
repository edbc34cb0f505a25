"""A fleet repository on a double of GitHub, whose jobs run the whole action on a channel in their workspace."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from ci_automation.cli import run
from ci_automation.github.client import GitHub
from ci_automation.github.waiting import GitHubPatience
from ci_automation.net.waiting import Clock
from tests.fakes.forge import Forge
from tests.fakes.runner import Ran, Runner
from tests.fakes.samples import write_old_samples
from tests.fakes.world import key_pem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from tests.fakes.forge.repository import Repository

NAME, APPS = "acme/fleet", "acme/apps"
CHANNEL = "layout:registry:production"
LOCK = ".github/flux-manifests.lock.yaml"
BRANCH = "flux-manifests/production"
RIGHTS = {"contents": "write", "pull_requests": "write", "issues": "write", "actions": "write", "members": "read"}
EVERYTHING = (
    "{via: pull-request, approvals: 1, reviewers: [ben], teamReviewers: [platform], labels: [flux, update], "
    "assignees: [ada], autoMerge: true}"
)
APPROVE = b"""\
run-name: "Approve ${{ inputs.artifact }} ${{ inputs.version }} (${{ inputs.key }})"
on:
  workflow_dispatch:
    inputs:
      artifact: {required: true}
      version: {required: true}
      base: {required: true}
      target: {required: true}
      key: {default: ""}
jobs: {gate: {environment: flux-manifests, runs-on: ubuntu-latest, steps: [{run: "true"}]}}
"""
CHECK = b"on:\n  schedule: [{cron: '17 * * * *'}]\n  workflow_dispatch:\njobs: {}\n"
HEARS = b"""\
run-name: (${{ github.event.client_payload.key }})
on: {repository_dispatch: {types: [flux-manifests-published, flux-manifests-update-requested]}}
"""
PINS = b'spec:\n  digest: sha256:0000 # {"$flux-manifests": "production:digest"}\n'
_SHA = re.compile(r"\b[0-9a-f]{40}\b|\([0-9a-f]{7}\)|\b[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2} UTC")
_DEFAULTS = GitHub.__init__.__kwdefaults__ or {}
FIRST, PATCH, MINOR = "v2.98.5", "v2.98.8", "v2.99.4"


def template(folder: Path) -> Path:
    """Return a folder with releases, all of them old, and a workspace whose channel has the first of them, signed."""
    releases, workspace = folder / "releases", folder / "workspace"
    write_old_samples(releases)
    (workspace / ".git").mkdir(parents=True)
    (workspace / ".github").mkdir()
    (workspace / "cosign.key").write_bytes(key_pem())
    own = ["--releases", str(releases), "--signing", "key", "--key", str(workspace / "cosign.key")]
    assert run(["init", f"layout:{workspace}/registry:production", "--flux-version", FIRST, *own]) == 0
    return folder


@dataclass(frozen=True)
class Scene:
    """One GitHub, and a job of one of its repositories; `folder` is a copy of the template of its own."""

    forge: Forge
    runner: Runner
    folder: Path
    own: dict[str, str] = field(default_factory=lambda: {"key": "cosign.key", "releases": "../releases"})  # each job's

    @property
    def fleet(self) -> Repository:
        """The repository whose jobs run."""
        return self.forge.repositories[NAME]

    @property
    def apps(self) -> Repository:
        """The repository that is told."""
        return self.forge.repositories[APPS]

    def configure(self, *, approval: str = "{}", policy: str = "{}", more: str = "") -> None:
        """Write the configuration."""
        (self.runner.workspace / ".github/flux-manifests.yaml").write_text(
            f"version: 1\napiUrl: {self.forge.url}\nupstream: {{verify: if-available}}\n"
            f"artifacts:\n- {{name: production, url: '{CHANNEL}', policy: {policy}, approval: {approval}{more}}}\n"
        )

    def offer(self, *tags: str) -> None:
        """Let upstream have released these and no more."""
        listed = self.folder / "releases/releases.json"
        known = json.loads((self.folder / "all.json").read_bytes())
        listed.write_text(json.dumps([release for release in known if release["tag_name"] in tags]))

    def checkout(self) -> None:
        """Do what actions/checkout does with the lock file."""
        path = self.runner.workspace / LOCK
        path.unlink(missing_ok=True)
        if (text := self.fleet.read(LOCK)) is not None:
            path.write_bytes(text)

    def run(self, command: str = "update", **inputs: str) -> Ran:
        """Run a job of the default branch's head: its checkout, and the action."""
        self.checkout()
        return self.runner.run(**{"command": command, **self.own, **inputs})

    def pushed(self) -> None:
        """Let a push have started the next job."""
        self.runner.event("push", {"repository": {"default_branch": "main", "full_name": NAME}})

    def approving(self) -> dict[str, str]:
        """Return the inputs of the job in the last run that asks, which has just begun."""
        asking = self.fleet.runs[-1]
        self.runner.variables["GITHUB_RUN_ID"] = str(asking.id)
        self.runner.event("workflow_dispatch", {"repository": {"default_branch": "main", "full_name": NAME}})
        named = {name: str(asking.inputs[name]) for name in ("artifact", "version", "base", "target")}
        return {**named, "request_key": str(asking.inputs["key"])}

    def saved(self) -> Callable[[], None]:
        """Return what brings the present state back, at the same addresses; it may be called often."""
        before, variables, own = self.forge.saved(), dict(self.runner.variables), dict(self.own)
        kept = shutil.copytree(self.folder, Path(mkdtemp(dir=self.folder.parent)) / "saved")

        def again() -> None:
            before()
            shutil.rmtree(self.folder)
            shutil.copytree(kept, self.folder)
            self.runner.patch.chdir(self.runner.workspace)
            for now, then in ((self.runner.variables, variables), (self.own, own)):
                now.clear()
                now.update(then)

        return again

    @property
    def channel(self) -> str:
        """Return the digest that the channel has."""
        return self.tags["production"]

    @property
    def tags(self) -> dict[str, str]:
        """Return the digests of all tags, those of signatures included."""
        index = json.loads((self.runner.workspace / "registry/index.json").read_bytes())
        name = "org.opencontainers.image.ref.name"
        return {it["annotations"][name]: it["digest"] for it in index["manifests"] if name in it.get("annotations", {})}

    @property
    def pictures(self) -> tuple[object, ...]:
        """Return all that people and clusters see, without what differs between two worlds of the same story."""
        return (self._pulls(), self._branches(), self._runs(), self._said(), self._registry())

    def _pulls(self) -> object:
        return [
            {
                **{name: getattr(pull, name) for name in ("state", "draft", "labels", "assignees", "asked", "title")},
                "repository": repository.full_name,
                "teams": pull.asked_teams,
                "auto": bool(pull.auto_merge),
                "body": _SHA.sub("SHA", pull.body.replace(self.forge.host, "HOST")),
                "comments": [(each.author, each.body) for each in pull.comments],
            }
            for repository in (self.fleet, self.apps)
            for pull in repository.pulls
        ]

    def _branches(self) -> object:
        return {
            (repository.full_name, name): (
                {
                    path: (repository.read(path, name) or b"").replace(self.forge.host.encode(), b"HOST")
                    for path in repository.objects.files_at(sha)
                },
                [commit.message for commit in repository.commits(name)],
            )
            for repository in (self.fleet, self.apps)
            for name, sha in repository.branches.items()
        }

    def _runs(self) -> object:
        return [
            (repository.full_name, each.title if repository is self.fleet else "", each.event, each.status)
            for repository in (self.fleet, self.apps)
            for each in repository.runs
        ]

    def _said(self) -> object:
        told = [(kind, payload["schema"], payload["target"]) for kind, payload in self.apps.dispatched]
        return told, [(issue.title, issue.state) for issue in self.fleet.issues]

    def _registry(self) -> object:
        index = json.loads((self.runner.workspace / "registry/index.json").read_bytes())
        ours = {tag: digest for tag, digest in self.tags.items() if not tag.startswith("sha256-")}
        return ours, sorted(self.tags), len(index["manifests"])


@contextmanager
def staged(
    source: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str] | None = None,
    *,
    flavour: str = "api.github.com",
) -> Iterator[Scene]:
    """Yield a scene made from a template: a fleet repository of two writers, a reader, a stranger, and a team."""
    shutil.copytree(source, folder)
    shutil.copy(folder / "releases/releases.json", folder / "all.json")
    with monkeypatch.context() as patch, Forge(flavour, releases=folder / "releases") as forge:
        runner = Runner.starting(folder, patch, capsys)  # type: ignore[arg-type]  # shared scenes get each test's
        patch.setattr(
            GitHub.__init__,
            "__kwdefaults__",
            {**_DEFAULTS, "patience": GitHubPatience(clock=Clock(sleep=lambda _: None))},
        )
        patch.setattr("ci_automation.approval.dispatch._WAITS", (0.0,))
        files = {".github/workflows/approve.yaml": APPROVE, ".github/workflows/flux.yaml": CHECK}
        fleet = forge.repository(NAME, files)
        apps = forge.repository(APPS, {".github/workflows/told.yaml": HEARS, "flux/source.yaml": PINS})
        for person, level in {"ada": "write", "ben": "write", "rita": "read"}.items():
            forge.user(person)
            fleet.collaborators[person] = level
        forge.team("acme/platform", ["ada"])
        fleet.team_permissions["acme/platform"] = "write"
        fleet.allow_auto_merge = True
        fleet.protect("main", reviews=1)
        fleet.environment("flux-manifests", ["ada", "rita"])
        variables = {"GITHUB_API_URL": forge.url, "GITHUB_SERVER_URL": forge.host}
        variables["INPUT_GITHUB-TOKEN"] = forge.token("pat", None, RIGHTS, login="keeper")
        fleet.collaborators["keeper"] = apps.collaborators["keeper"] = "write"
        runner.variables.update(variables)
        yield Scene(forge, runner, folder)
