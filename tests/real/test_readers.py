"""Crane and oras read what we write, to a registry or an image layout; we take over what the flux CLI pushed."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.archive import read_archive
from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, OCI_MANIFEST
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.artifact.tree import TreeFile
from ci_automation.flows.attachments import attach, attached_files, discover
from ci_automation.flows.init import init
from ci_automation.flows.verify import pull
from ci_automation.signing.legacy import signature_reference
from tests.real import program
from tests.real.peers import peer
from tests.real.pipeline import KeyPair, push, tag
from tests.real.processes import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ci_automation.artifact.tree import Tree
    from tests.real.registries import RealRegistry

COMPONENTS = "flux-system/gotk-components.yaml"


def beside(path: str) -> dict[str, bytes]:
    """Return the files of a team beside the components at `path`."""
    return {"kustomization.yaml": f"resources: [{path}]\n".encode(), "a/b.bin": bytes(range(256))}


OVERLAY = beside(COMPONENTS)
README = "application/vnd.acme.readme"
BEFORE, PATCH = "v2.8.5", "v2.8.8"


@pytest.fixture(scope="module")
def pair(cosign_key: KeyPair) -> program.Pair:
    """Return cosign's key, which our flows sign with too."""
    return program.Pair.read(cosign_key.private, cosign_key.public)


def crane(*arguments: object) -> str:
    """Return what crane prints."""
    return run([peer("crane"), *arguments])


def oras(*arguments: object) -> str:
    """Return what oras prints."""
    return run([peer("oras"), *arguments])


def text_of(golden: Path, version: str) -> bytes:
    """Return what ``flux install --export`` of a release prints."""
    return gzip.decompress((golden / "text" / version / "default.yaml.gz").read_bytes())


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """Return `folder` after writing the files into it."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def contents(tree: Tree) -> dict[str, bytes]:
    """Return the contents of all files."""
    return {file.path: file.content for file in tree.files}


class TestOthersReadOurs:
    @pytest.fixture
    def ours(self, any_registry: RealRegistry, repository: str, flux_releases: Path, pair: program.Pair) -> Reference:
        """Return a channel that we published."""
        channel = program.channel(any_registry.host, repository)
        ports = program.ports(channel, flux_releases, pair)
        init(channel, program.versions(flux_releases)[-1], ports, program.intent())
        return channel

    def test_crane_takes_it_for_a_sound_image(self, ours: Reference, flux_releases: Path, golden: Path) -> None:
        name = str(ours).removeprefix("oci://")
        registry = program.ports(ours, flux_releases, None).registry
        manifest = registry.manifest(ours)
        assert crane("digest", name).strip() == str(manifest.digest)
        assert crane("manifest", name).encode() == manifest.raw
        assert crane("config", name).encode() == CONFIG_BLOB
        assert crane("validate", "--remote", name).startswith("PASS")
        assert crane("validate", "--remote", str(signature_reference(ours, manifest.digest)).removeprefix("oci://"))
        tags = crane("ls", name.rpartition(":")[0]).split()
        immutable = f"v2.9.4-{manifest.digest.short}"
        # The one without a suffix lists the record of the publication, where the registry does not say that it does.
        attached = f"sha256-{manifest.digest.hex}"
        assert sorted(tags) == ["production", attached, f"{attached}.sig", immutable]
        assert exported(name) == {COMPONENTS: text_of(golden, "v2.9.4")}

    def test_oras_finds_what_we_attach_and_we_find_what_oras_attaches(
        self, ours: Reference, flux_releases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ports = program.ports(ours, flux_releases, None)
        digest, made = attach(ours, README, (TreeFile("README.md", b"# Ours\n"),), {"com.acme.team": "platform"}, ports)
        name = str(ours).removeprefix("oci://")
        plain = ("--plain-http",) if name.startswith(("127.0.0.1", "localhost")) else ()
        assert str(made) in oras("discover", *plain, "--format", "json", name)
        oras("pull", *plain, "-o", tmp_path / "got", f"{name.rpartition(':')[0]}@{made}")
        assert (tmp_path / "got/README.md").read_bytes() == b"# Ours\n"
        monkeypatch.chdir(write(tmp_path / "theirs", {"links.txt": b"https://wiki\n"}))
        theirs = "application/vnd.acme.links"
        oras("attach", *plain, "--artifact-type", theirs, "--annotation", "by=oras", name, "links.txt:text/plain")
        (seen,) = discover(ours, ports, theirs).attachments
        assert seen.annotations["by"] == "oras"
        assert [file.content for file in attached_files(ours, (seen,), ports).files] == [b"https://wiki\n"]
        assert ports.registry.resolve(ours) == digest

    def test_its_revision_is_the_release_and_the_commit_of_its_tag(self, ours: Reference, flux_releases: Path) -> None:
        commits = {
            found["name"]: found["commit"]["sha"] for found in json.loads((flux_releases / "tags.json").read_text())
        }
        annotations = json.loads(crane("manifest", str(ours).removeprefix("oci://")))["annotations"]
        assert annotations["org.opencontainers.image.revision"] == f"v2.9.4@sha1:{commits['v2.9.4']}"

    def test_flux_and_cosign_read_what_a_team_pushes_and_what_it_promotes(
        self, any_registry: RealRegistry, repository: str, cosign_key: KeyPair, pair: program.Pair, tmp_path: Path
    ) -> None:
        files = {"deploy/kustomization.yaml": b"resources: []\n", "a.bin": bytes(range(256))}
        staging = program.channel(any_registry.host, repository, "staging")
        said = program.succeed(
            "push", write(tmp_path / "shop", files), staging, *pair.signing, "--source", "https://git.example/shop",
            "--revision", f"main@sha1:{'a' * 40}",
        )  # fmt: skip
        home = f"{any_registry.host}/{repository}"
        move = ("--from", staging, "--to", program.channel(any_registry.host, repository), "--approve", said["digest"])
        program.succeed("promote", *move, *pair.signing)
        for tag_ in ("staging", "production", f"v0.0.0-{said['digest'].partition(':')[2][:12]}"):
            out = tmp_path / tag_
            out.mkdir()
            pulled = f"oci://{home}:{tag_}"
            run([peer("flux"), "pull", "artifact", pulled, f"--output={out}", "--insecure-registry"])
            assert crane("digest", f"{home}:{tag_}").strip() == said["digest"]
            assert {path: (out / path).read_bytes() for path in files} == files
            assert len(cosign_key.verify(f"{home}:{tag_}")) == 1
        annotations = json.loads(crane("manifest", f"{home}:staging"))["annotations"]
        assert annotations["org.opencontainers.image.revision"] == f"main@sha1:{'a' * 40}"

    def test_oras_reads_it(self, ours: Reference, flux_releases: Path, tmp_path: Path) -> None:
        name = str(ours).removeprefix("oci://")
        manifest = program.ports(ours, flux_releases, None).registry.manifest(ours)
        described = json.loads(oras("manifest", "fetch", "--plain-http", "--descriptor", name))
        assert described == {"mediaType": OCI_MANIFEST, "digest": str(manifest.digest), "size": len(manifest.raw)}
        assert oras("manifest", "fetch", "--plain-http", name).rstrip("\n").encode() == manifest.raw
        # It unpacks only layers that have a file name; that it says so, and no more, is all that is asked of it.
        assert f"Downloaded  {manifest.digest.short}" in oras("pull", "--plain-http", "-o", tmp_path / "pulled", name)
        layer = manifest.layers[0]
        blob = f"{name.rpartition(':')[0]}@{layer.digest}"
        oras("blob", "fetch", "--plain-http", "--output", tmp_path / "layer", blob)
        assert Digest.of((tmp_path / "layer").read_bytes()) == layer.digest
        oras("copy", "--from-plain-http", "--to-oci-layout", name, f"{tmp_path / 'copy'}:production")
        copied = Reference.parse(f"layout:{tmp_path / 'copy'}:production")
        tree, digest, _ = pull(copied, program.ports(copied, flux_releases, None))
        assert (digest, tree) == (manifest.digest, read_archive((tmp_path / "layer").read_bytes()))

    def test_a_layout_has_the_digests_of_a_registry_and_goes_into_one(
        self,
        distribution_registry: RealRegistry,
        repository: str,
        flux_releases: Path,
        cosign_key: KeyPair,
        pair: program.Pair,
        tmp_path: Path,
    ) -> None:
        folder = tmp_path / "layout"
        layout = Reference.parse_channel(f"layout:{folder}:production")
        version = program.versions(flux_releases)[-1]
        digest = init(layout, version, program.ports(layout, flux_releases, pair), program.intent()).digest
        channel = program.channel(distribution_registry.host, repository)
        name, home = str(channel).removeprefix("oci://"), f"{distribution_registry.host}/{repository}"

        tags = oras("repo", "tags", "--oci-layout", folder).split()
        assert sorted(tags) == ["production", f"sha256-{digest.hex}.sig", f"v2.9.4-{digest.short}"]
        for one in tags:
            oras("copy", "--from-oci-layout", f"{folder}:{one}", "--to-plain-http", f"{home}:{one}")
        assert crane("digest", name).strip() == str(digest)
        assert crane("validate", "--remote", name).startswith("PASS")
        # The signature came along: for cosign, and for us, who would publish the very same here.
        assert len(cosign_key.verify(f"{home}@{digest}")) == 1
        again = init(channel, version, program.ports(channel, flux_releases, pair), program.intent())
        assert (again.digest, again.is_there) == (digest, True)

        pushed = crane("push", "--index", folder, f"{home}/by-crane:all").strip()
        assert {entry["digest"] for entry in json.loads(crane("manifest", pushed))["manifests"]} >= {str(digest)}
        assert crane("digest", f"{home}/by-crane@{digest}").strip() == str(digest)


def exported(name: str) -> dict[str, bytes]:
    """Return the files of the tar that ``crane export`` makes of an image."""
    done = subprocess.run([peer("crane"), "export", name, "-"], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        streams = {entry.name: archive.extractfile(entry) for entry in archive}
        return {name: stream.read() for name, stream in streams.items() if stream is not None}


class TestWeReadOthers:
    @pytest.fixture
    def pushed(
        self, distribution_registry: RealRegistry, repository: str, tmp_path: Path
    ) -> Callable[..., tuple[Reference, str]]:
        """Return the function that lets flux push a folder, and crane point the channel at it."""

        def as_flux_does(components: bytes, path: str = COMPONENTS) -> tuple[Reference, str]:
            folder = write(tmp_path / "manifests", {path: components, **beside(path)})
            home = f"{distribution_registry.host}/{repository}"
            digest = push(f"{home}:{BEFORE}", folder, f"{BEFORE}@sha1:{'0' * 40}")
            tag(f"{home}@{digest}", "production")
            return program.channel(distribution_registry.host, repository), f"{home}@{digest}"

        return as_flux_does

    @pytest.mark.parametrize(
        "path", [COMPONENTS, "gotk-components.yaml", "clusters/one/flux-system/gotk-components.yaml"]
    )
    def test_what_flux_pushed_and_cosign_signed_is_updated(
        self,
        path: str,
        pushed: Callable[..., tuple[Reference, str]],
        flux_releases: Path,
        golden: Path,
        cosign_key: KeyPair,
        pair: program.Pair,
    ) -> None:
        channel, reference = pushed(text_of(golden, BEFORE), path)
        cosign_key.sign(reference)
        said = program.succeed("update", channel, *pair.signing, "--releases", flux_releases)
        (step,) = said["published"]
        assert (step["from"], step["to"], step["base"]) == (BEFORE, PATCH, reference.partition("@")[2])
        tree, digest, trust = pull(channel, program.ports(channel, flux_releases, pair))
        assert (str(digest), trust) == (step["target"], "verified")
        assert contents(tree) == {path: text_of(golden, PATCH), **beside(path)}
        assert len(cosign_key.verify(f"{reference.partition('@')[0]}@{digest}")) == 1

    @pytest.mark.parametrize("tool", ["oras", "crane"])
    def test_what_other_tools_packed_is_updated(
        self,
        *,
        tool: str,
        distribution_registry: RealRegistry,
        repository: str,
        flux_releases: Path,
        golden: Path,
        cosign_key: KeyPair,
        pair: program.Pair,
        tmp_path: Path,
    ) -> None:
        folder = write(tmp_path / "manifests", {COMPONENTS: text_of(golden, BEFORE), **OVERLAY})
        layer = tmp_path / "layer.tgz"
        run(["tar", "--create", "--gzip", f"--file={layer}", f"--directory={folder}", "."])
        channel = program.channel(distribution_registry.host, repository)
        name = str(channel).removeprefix("oci://")
        if tool == "oras":
            (tmp_path / "config.json").write_text("{}")
            config = f"--config={tmp_path / 'config.json'}:{FLUX_CONFIG}"
            oras("push", "--plain-http", "--disable-path-validation", config, name, f"{layer}:{FLUX_LAYER}")
        else:
            crane("append", "--oci-empty-base", f"--new_layer={layer}", f"--new_tag={name}")
        cosign_key.sign(f"{name.rpartition(':')[0]}@{crane('digest', name).strip()}")
        said = program.succeed("update", channel, *pair.signing, "--releases", flux_releases)
        assert [(step["from"], step["to"]) for step in said["published"]] == [(BEFORE, PATCH)]
        tree, *_ = pull(channel, program.ports(channel, flux_releases, pair))
        assert contents(tree) == {COMPONENTS: text_of(golden, PATCH), **OVERLAY}

    def test_without_a_signature_it_is_refused_until_it_is_adopted(
        self, pushed: Callable[..., tuple[Reference, str]], flux_releases: Path, golden: Path, pair: program.Pair
    ) -> None:
        channel, reference = pushed(text_of(golden, BEFORE))
        arguments = ("update", channel, *pair.signing, "--releases", flux_releases)
        refused = program.flux_manifests(*arguments)
        assert (refused.code, refused.error) == (10, "not-ours")
        assert "--adopt" in refused.errors
        unanswered = program.flux_manifests(*arguments, "--adopt")
        assert (unanswered.code, unanswered.error) == (10, "not-adopted")
        assert f"{COMPONENTS} equals what Flux {BEFORE} renders with its options, byte for byte." in unanswered.errors
        assert all(path in unanswered.errors for path in OVERLAY)
        assert "In these files:\n" in unanswered.errors
        assert crane("digest", str(channel).removeprefix("oci://")).strip() == reference.partition("@")[2]
        said = program.succeed(*arguments, "--adopt", "--yes")
        assert (said["version"], said["signature"]) == (BEFORE, "adopted")
        said = program.succeed(*arguments)
        assert (said["version"], said["signature"]) == (PATCH, "verified")

    def test_signed_by_a_stranger_it_is_refused_too(
        self,
        pushed: Callable[..., tuple[Reference, str]],
        flux_releases: Path,
        golden: Path,
        pair: program.Pair,
        tmp_path: Path,
    ) -> None:
        channel, reference = pushed(text_of(golden, BEFORE))
        KeyPair.make(tmp_path / "stranger").sign(reference)
        refused = program.flux_manifests("update", channel, *pair.signing, "--releases", flux_releases)
        assert (refused.code, refused.error) == (10, "foreign-signature")
        assert crane("digest", str(channel).removeprefix("oci://")).strip() == reference.partition("@")[2]

    def test_what_kustomize_built_is_told_apart_from_what_a_person_edited(
        self,
        pushed: Callable[..., tuple[Reference, str]],
        flux_releases: Path,
        golden: Path,
        cosign_key: KeyPair,
        pair: program.Pair,
        tmp_path: Path,
    ) -> None:
        (tmp_path / "kustomization").mkdir()
        sources = {"flux.yaml": text_of(golden, BEFORE), "kustomization.yaml": b"resources: [flux.yaml]\n"}
        built = run([peer("kustomize"), "build", write(tmp_path / "kustomization", sources)])
        channel, reference = pushed(built.encode())
        cosign_key.sign(reference)
        arguments = ("update", channel, *pair.signing, "--releases", flux_releases)
        refused = program.flux_manifests(*arguments)
        assert (refused.code, refused.error) == (11, "made-by-another-tool")
        assert f"the same objects as a rendering of {BEFORE}" in refused.errors
        # kustomize sorts, so the layout of every object changes, for a person to approve.
        more = ("--releases", flux_releases, "--accept-edits")
        program.succeed("plan", channel, "--public-key", pair.public, *more, "--out", tmp_path / "plan.json")
        step = json.loads((tmp_path / "plan.json").read_bytes())["steps"][0]
        assert step["decision"] == "approval"
        approval = ("apply", tmp_path / "plan.json", *pair.signing, *more, "--approve", step["target"])
        said = program.succeed(*approval)
        tree, *_ = pull(channel, program.ports(channel, flux_releases, pair))
        assert contents(tree) == {COMPONENTS: text_of(golden, said["version"]), **OVERLAY}

    def test_a_hand_edit_is_shown_and_dropped_only_when_told_so(
        self,
        pushed: Callable[..., tuple[Reference, str]],
        flux_releases: Path,
        golden: Path,
        cosign_key: KeyPair,
        pair: program.Pair,
    ) -> None:
        edited = text_of(golden, BEFORE).replace(b"            memory: 64Mi\n", b"            memory: 96Mi\n", 1)
        assert edited != text_of(golden, BEFORE)
        channel, reference = pushed(edited)
        cosign_key.sign(reference)
        arguments = ("update", channel, *pair.signing, "--releases", flux_releases)
        refused = program.flux_manifests(*arguments)
        assert (refused.code, refused.error) == (11, "edited-by-hand")
        lines = refused.errors.splitlines()
        assert "-            memory: 64Mi" in lines
        assert "+            memory: 96Mi" in lines
        assert [line[:2] for line in lines if line.startswith(("---", "+++", "@@"))] == ["--", "++", "@@"]
        assert crane("digest", str(channel).removeprefix("oci://")).strip() == reference.partition("@")[2]
        said = program.succeed(*arguments, "--accept-edits")
        assert said["version"] == PATCH
        tree, *_ = pull(channel, program.ports(channel, flux_releases, pair))
        assert hashlib.sha256(tree[COMPONENTS]).digest() == hashlib.sha256(text_of(golden, PATCH)).digest()
        assert contents(tree.without(COMPONENTS)) == OVERLAY
