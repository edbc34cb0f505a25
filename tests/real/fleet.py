"""A team's repository as the shipped workflows find it: on the double of GitHub, with channels in a real registry.

Its jobs run by act in containers of the built image, and print no secret.
"""

from __future__ import annotations

import re
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pytest
import yaml

from ci_automation.artifact.reference import Reference
from ci_automation.registry import open_registry
from ci_automation.signing.trust import Identity
from tests.fakes.forge import Forge
from tests.fakes.forge.people import normalized
from tests.fakes.sigstore import LocalSigstore
from tests.real import cosign, podman, program
from tests.real.peers import ROOT
from tests.real.pipeline import PASSWORD
from tests.real.podman import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.fakes.forge import Repository
    from tests.real.pipeline import KeyPair
    from tests.real.podman import Acted
    from tests.real.registries import RealRegistry

ISSUER = "https://token.actions.githubusercontent.com"
WORKFLOW = "https://github.com/acme/fleet/.github/workflows/{file}@refs/heads/main"
SHIPPED = "oci://ghcr.io/acme/flux-manifests:production"
PIN = re.compile(r"acme/ci-automation(?:/\S+)?@(?P<ref>\S+)")
OVERLAY = b"resources: [flux-system/gotk-components.yaml]\n"
RELEASES = "/repos/fluxcd/flux2/"


@dataclass(slots=True)
class Fleet:
    """A repository of a team: on the double of GitHub, and as the working tree that its jobs check out.

    The token has the rights of the job that runs, and only jobs with `id-token` find an identity token, in called
    workflows too. act knows no environments: `secrets` are what all jobs have.
    """

    up_to_2_9_3: ClassVar = ("trustConfig: sigstore.json", 'policy: {range: "<=2.9.3"}')
    ask_always: ClassVar = ("trustConfig: sigstore.json", "policy: {patch: approval}")

    forge: Forge
    github: Repository
    local: LocalSigstore
    folder: Path
    channel: Reference
    service: str
    released: Path
    secrets: dict[str, str] = field(default_factory=dict)
    channels: list[Reference] = field(default_factory=list)
    ran: list[Acted] = field(default_factory=list)
    start: int = 0  # of the requests of the last run

    @classmethod
    def founded(  # what a team has
        cls, forge: Forge, local: LocalSigstore, folder: Path, channel: Reference, service: str, released: Path
    ) -> Self:
        """Return a fleet whose files are as `workflows/` has them, with the artifact's name in its place."""
        called = (ROOT / ".github/workflows").glob("*.yaml")
        forge.repository("acme/ci-automation", {str(it.relative_to(ROOT)): it.read_bytes() for it in called})
        github = forge.repository("acme/fleet", {"README.md": b"a fleet\n"})
        github.collaborators.update(alice="write", carol="write", mallory="read")
        fleet = cls(forge, github, local, folder, channel, service, released)
        fleet.write("sigstore.json", local.trust_config().decode())
        return fleet

    @property
    def staging(self) -> Reference:
        """The channel of another artifact."""
        return Reference.parse(f"{str(self.channel).removesuffix(':production')}/staging:staging")

    def configure(self, *lines: str, staging: Sequence[str] = ()) -> None:
        """Write the configuration: where releases come from here, and an artifact or two, with more lines of each."""
        text = f"version: 1\nsource: github:fluxcd/flux2\napiUrl: {self.forge.url}\n"
        text += "upstream: {verify: if-available}\nartifacts:\n"
        for name, channel, more in (("production", self.channel, lines), ("staging", self.staging, staging)):
            if more:
                text += f"- name: {name}\n  url: {channel}\n" + "".join(f"  {line}\n" for line in more)
        self.write(".github/flux-manifests.yaml", text)

    def use(
        self, shipped: str, name: str, instead: Mapping[str, str] | None = None, *, channel: Reference | None = None
    ) -> None:
        """Copy one of the shipped workflows, and name the artifact: what the README says is all. Or change it more."""
        text = (ROOT / "workflows" / shipped).read_text()
        for old, new in (instead or {}).items():
            assert old in text
            text = text.replace(old, new)
        self.write(f".github/workflows/{name}", text.replace(SHIPPED, str(channel or self.channel)))

    def write(self, path: str, text: str) -> None:
        """Change a file in the repository, and in the working tree."""
        self.github.push("main", {path: text.encode()}, "alice", f"Change {path}")
        self.check_out()

    def keep(self, pair: KeyPair) -> None:
        """Keep a private key as a secret, and its public half in the repository."""
        self.secrets.update(COSIGN_KEY=pair.private.read_text(), COSIGN_PASSWORD=PASSWORD)
        self.write("cosign.pub", pair.public.read_text())

    def check_out(self, ref: str = "main") -> None:
        """Let the working tree be what a branch has, or a commit."""
        for entry in self.folder.iterdir():
            if entry.is_dir() and entry.name != ".git":
                shutil.rmtree(entry)
            elif entry.is_file():
                entry.unlink()
        commit = self.github.resolve(ref)
        assert commit
        for path, leaf in self.forge.objects.files_at(commit).items():
            place = self.folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(self.forge.objects.blobs[leaf.sha])
        podman.commit(self.folder, "acme/fleet")
        podman.shallow(self.folder, self.forge.objects.commits[commit].content)

    def run(
        self,
        workflow: str,
        event: str,
        payload: Mapping[str, Any] | None = None,
        run: int = 1,
        *,
        subject: str = "",
        variables: Mapping[str, str] | None = None,
        ref: str = "refs/heads/main",
        seen: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> Acted:
        """Return what came of a workflow's run on the default branch, or on another `ref`.

        `subject` is who signs keyless: the workflow itself, unless the job is in a called one. `variables` are `vars`.
        `seen` is told of each entry of act's log while it runs.
        """
        shipped = self.folder / ".github/workflows" / workflow
        text = shipped.read_text()
        called = "".join(path.read_text() for path in (ROOT / ".github/workflows").glob("*.yaml"))
        pins = {match["ref"] for match in PIN.finditer(text + called)}
        own = _rights(text)
        token = self.forge.token("actions", "acme/fleet", {})
        settings = {
            "GITHUB_API_URL": self.forge.url,
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_REF": ref,
            "GITHUB_SHA": self.github.resolve(ref.removesuffix("/merge")) or self.github.head,
            "GITHUB_REPOSITORY_ID": str(self.github.id),
            "GITHUB_WORKFLOW_REF": f"acme/fleet/.github/workflows/{workflow}@{ref}",
        }
        identity = Identity(ISSUER, subject or WORKFLOW.format(file=workflow))
        proof = self.local.environment(identity, event_name=event, repository_id=str(self.github.id))
        place = self.folder.parent / "runner" / workflow
        place.parent.mkdir(exist_ok=True)
        place.write_text(_with_variables(text, proof))
        for path in (self.released / ".github/workflows").glob("*.yaml"):
            path.write_text(_with_variables((ROOT / ".github/workflows" / path.name).read_text(), proof))
        podman.commit(self.released)
        said = {"repository": {"full_name": "acme/fleet", "default_branch": "main"}}
        self.start = len(self.forge.requests)

        def begins(entry: dict[str, Any]) -> None:
            """Give the token the rights of the job that begins."""
            if (rights := own.get(entry.get("jobID", ""))) is not None:
                self.forge.tokens[token] = replace(self.forge.tokens[token], permissions=normalized(rights))
            seen(entry)

        done = podman.act(
            self.service,
            self.folder,
            Event(event, said | dict(payload or {}), run=run),
            workflow=str(place),
            variables=settings,
            secrets={"GITHUB_TOKEN": token} | self.secrets,
            repositories={f"acme/ci-automation@{pin}": self.released for pin in pins},
            options=[f"--var={name}={value}" for name, value in (variables or {}).items()],
            seen=begins,
        )
        self.ran.append(done)
        print(f"{workflow} for {event}: exit {done.code}, {len(self.asked)} requests", *self.asked, sep="\n  ")
        return done

    @property
    def asked(self) -> list[str]:
        """What the last run asked of GitHub, but for the downloads of the releases themselves."""
        asked = [
            f"{it.method} {it.path} {' '.join(it.body['query'].split())[:60] if it.path == '/graphql' else ''}".strip()
            for it in self.forge.requests[self.start :]
            if it.host == "api"
        ]
        return [it for it in asked if RELEASES not in it or f"{RELEASES}releases?" in it]

    @staticmethod
    def of(artifact: str, done: Acted) -> Acted:
        """Return the job of one artifact, of a run that has a job for each."""
        own = (entry for entry in done.entries if (entry.get("matrix") or {}).get("name") == artifact)
        return replace(done, entries=tuple(own))

    def state(self) -> dict[str, object]:
        """Return all that a run could change, in the registry and on GitHub."""
        tags = {}
        for channel in self.channels:
            registry = open_registry(channel)
            tags[channel] = {tag: registry.resolve(channel.at_tag(tag)) for tag in sorted(registry.tags(channel))}
        return {"tags": tags} | {
            name: {
                "branches": dict(place.branches),
                "issues": [(it.number, it.state, it.title, it.body, len(it.comments)) for it in place.issues],
                "runs": [(it.id, it.status, it.title) for it in place.runs],
                "dispatched": list(place.dispatched),
                "workflows": {path: it.state for path, it in place.workflows.items()},
            }
            for name, place in self.forge.repositories.items()
        }

    def begin(self, version: str, *options: object, releases: Path, staging: bool = False, subject: str = "") -> None:
        """Publish the first artifact of the channel, or of the other one."""
        channel = self.staging if staging else self.channel
        overlay = self.folder.parent / "overlay"
        overlay.mkdir(exist_ok=True)
        (overlay / "kustomization.yaml").write_bytes(OVERLAY)
        own = ("--flux-version", version, "--releases", releases, "--overlay", overlay)
        settings: Any = self.local.environment(Identity(ISSUER, subject or WORKFLOW.format(file="flux.yaml")))
        done = program.flux_manifests("init", channel, *own, *options, **settings)
        assert done.code == 0, done.errors
        self.channels.append(channel)

    def verified(self, files: cosign.Files, who: Path | str, channel: Reference | None = None) -> str:
        """Return the digest that the channel has, once the real cosign took the signature of `who`.

        That is a public key, the file of a workflow of the fleet, or the whole subject of a certificate.
        """
        channel = channel or self.channel
        digest = open_registry(channel).resolve(channel)
        assert digest is not None
        reference = str(channel.at_digest(digest)).removeprefix("oci://")
        if isinstance(who, str):
            subject = who if "://" in who else WORKFLOW.format(file=who)
            assert cosign.verify_legacy(Identity(ISSUER, subject), files, reference)
        else:
            assert cosign.verify_legacy(who, files, reference)
        return str(digest)


def _rights(workflow: str) -> dict[str, dict[str, str]]:
    """Return the permissions of each job that has steps, in the workflows that it calls too.

    Jobs that run in one run have different names in all of them.
    """
    rights: dict[str, dict[str, str]] = {}
    for name, job in yaml.safe_load(workflow)["jobs"].items():
        if "uses" in job:
            path = job["uses"].partition("@")[0].removeprefix("acme/ci-automation/")
            rights |= _rights((ROOT / path).read_text())
        else:
            rights[name] = job["permissions"]
    return rights


def _with_variables(workflow: str, proof: Mapping[str, str]) -> str:
    """Return a workflow as the runner has it: the jobs with `id-token: write` find where to get an identity token."""
    jobs = re.split(r"(?m)^(?=  [\w-]+:$)", workflow)
    lines = "".join(f"      {name}: {value}\n" for name, value in proof.items())
    return "".join(
        job.replace("    steps:\n", f"    env:\n{lines}    steps:\n", 1) if "id-token: write" in job else job
        for job in jobs
    )


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


@pytest.fixture
def fleet(
    distribution_registry: RealRegistry,
    repository: str,
    flux_releases: Path,
    service: str,
    released: Path,
    tmp_path: Path,
) -> Iterator[Fleet]:
    """Yield a fleet, which has no artifact yet; in the end no run of it has printed a secret."""
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
        secret = {line for value in fleet.secrets.values() for line in value.splitlines() if "PRIVATE KEY" not in line}
        assert not [line for line in secret if line and line in text]


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
    fleet.keep(cosign_key)
    fleet.configure("verify: {publicKey: cosign.pub}")
    return fleet


@pytest.fixture
def keyless(fleet: Fleet, flux_releases: Path) -> Fleet:
    """Return the fleet with a channel at v2.9.0, the first Flux that knows other Sigstores, which flux.yaml signed."""
    fleet.begin("v2.9.0", "--trust-config", fleet.folder / "sigstore.json", releases=flux_releases)
    fleet.configure(*fleet.up_to_2_9_3)
    return fleet
