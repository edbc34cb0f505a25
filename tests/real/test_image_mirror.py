"""Images that `mirror --images` copies: real cosign, crane and oras take them for the originals in another registry."""

from __future__ import annotations

import json
import os
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.signing.trust import Identity
from tests.fakes.sigstore import LocalSigstore
from tests.real import cosign
from tests.real.crash import MOMENTS, killed
from tests.real.peers import peer
from tests.real.pipeline import PASSWORD
from tests.real.processes import ProgramFailed, run
from tests.real.program import elliptic_key, flux_manifests, succeed
from tests.real.registries import distribution

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.pipeline import KeyPair
    from tests.real.registries import RealRegistry

VERSION = "v2.9.4"
IMAGES = {
    "helm-controller": "v1.6.3",
    "image-automation-controller": "v1.2.4",
    "image-reflector-controller": "v1.2.4",
    "kustomize-controller": "v1.9.4",
    "notification-controller": "v1.9.3",
    "source-controller": "v1.9.4",
    "source-watcher": "v2.2.3",
}
SOURCE = f"source-controller:{IMAGES['source-controller']}"
LAYER = 50 << 20  # bytes of source-controller's layer
ISSUER = "https://token.actions.githubusercontent.com"
WORKFLOWS = r"^https://github\.com/fluxcd/[a-z-]+/\.github/workflows/release\.yml@refs/tags/v[0-9.]+$"
MEASURED = """
import resource, sys
from ci_automation.cli import run
code = run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, file=sys.stderr)
sys.exit(code)
"""


def crane(*arguments: object) -> str:
    return run([peer("crane"), *arguments]).strip()


@dataclass(frozen=True, slots=True)
class Published:
    """What upstream publishes: an index of two platforms for each controller, signed by its release workflow."""

    registry: RealRegistry
    files: cosign.Files
    releases: Path
    key: KeyPair
    digests: dict[str, str]

    @property
    def place(self) -> str:
        return f"oci://{self.registry.host}/upstream/fluxcd"

    @property
    def signers(self) -> tuple[str, ...]:
        return ("--identity-regexp", WORKFLOWS, "--issuer", ISSUER, "--trust-config", str(self.files.trusted_root))

    def mirror(self, to: str, taken: str | None = None, *versions: str) -> tuple[object, ...]:
        """Return the command that copies the images, verified."""
        where = ("--from-images", taken or self.place, "--releases", self.releases)
        return ("mirror", "--images", to, *where, *versions, *self.signers)

    def check(self, place: str) -> None:
        """Check that every image is the original at `host/path`, whole and with its signatures."""
        for name, digest in self.digests.items():
            image, _, tag = name.partition(":")
            assert crane("digest", f"{place}/{name}") == digest
            signer = Identity(ISSUER, workflow(image, tag))
            assert cosign.verify_legacy(signer, self.files, f"{place}/{image}@{digest}")
        image, _, tag = SOURCE.partition(":")
        signer = Identity(ISSUER, workflow(image, tag))
        for digest in (self.digests[SOURCE], *platforms(f"{place}/{SOURCE}")):
            assert cosign.verify_legacy(signer, self.files, f"{place}/{image}@{digest}")
        assert cosign.verify_bundle(signer, self.files, f"{place}/{image}@{self.digests[SOURCE]}")
        attested = ("--type=custom", f"--key={self.key.public}", "--insecure-ignore-tlog", "--allow-insecure-registry")
        run([peer("cosign"), "verify-attestation", *attested, f"{place}/{image}@{self.digests[SOURCE]}"])
        for digest in platforms(f"{place}/{SOURCE}"):
            crane("validate", "--remote", f"{place}/{image}@{digest}")


def workflow(image: str, tag: str) -> str:
    return f"https://github.com/fluxcd/{image}/.github/workflows/release.yml@refs/tags/{tag}"


def platforms(image: str) -> list[str]:
    """Return the digests of the images of an index."""
    return [each["digest"] for each in json.loads(crane("manifest", image))["manifests"]]


def layer(path: Path, content: bytes) -> Path:
    """Write a layer with one file."""
    path.with_suffix(".bin").write_bytes(content)
    with tarfile.open(path, "w") as archive:
        archive.add(path.with_suffix(".bin"), "manager")
    return path


def push(place: str, name: str, folder: Path) -> str:
    """Push an image for two platforms, and return the digest of its index."""
    image, _, tag = name.partition(":")
    made = []
    for machine in ("amd64", "arm64"):
        large = os.urandom(LAYER) if (name, machine) == (SOURCE, "amd64") else os.urandom(1 << 10)
        own = layer(folder / f"{image}-{machine}.tar", large)
        made.append(f"{place}/{image}:{machine}")
        crane("append", "--oci-empty-base", "-f", folder / "base.tar", "-f", own, "-t", made[-1])
    crane("index", "append", *(f"-m={each}" for each in made), "-t", f"{place}/{image}:{tag}")
    return crane("digest", f"{place}/{image}:{tag}")


@pytest.fixture(scope="module")
def published(
    distribution_registry: RealRegistry,
    flux_releases: Path,
    cosign_key: KeyPair,
    tmp_path_factory: pytest.TempPathFactory,
) -> Published:
    """Return stand-ins for upstream's images; the Sigstore that signed them is gone."""
    top, place = tmp_path_factory.mktemp("images"), f"{distribution_registry.host}/upstream/fluxcd"
    layer(top / "base.tar", os.urandom(2 << 20))
    digests = {}
    with LocalSigstore() as local:
        files = cosign.Files.write(local, top / "sigstore")
        for image, tag in IMAGES.items():
            name = f"{image}:{tag}"
            digests[name] = push(place, name, top)
            token = local.token(job_workflow_ref=workflow(image, tag).removeprefix("https://github.com/"))
            signed = [digests[name], *(platforms(f"{place}/{name}") if name == SOURCE else ())]
            for digest in signed:
                cosign.sign_legacy_keyless(local, files, f"{place}/{image}@{digest}", token)
            if name == SOURCE:
                cosign.sign_bundle_keyless(local, files, f"{place}/{image}@{digests[name]}", token)
    (top / "predicate.json").write_text("{}")
    how = (f"--key={cosign_key.private}", "--tlog-upload=false", "--type=custom", f"--predicate={top}/predicate.json")
    attested = f"{place}/source-controller@{digests[SOURCE]}"
    run([peer("cosign"), "attest", *how, *cosign.ANYWAY, attested], COSIGN_PASSWORD=PASSWORD)
    return Published(distribution_registry, files, flux_releases, cosign_key, digests)


def digests(answer: dict[str, Any]) -> dict[str, str]:
    """Return the digest of each image that the program copied, by its last name."""
    return {each["image"].rpartition("/")[2]: each["digest"] for each in answer["images"]}


def sent(registry: RealRegistry) -> list[str]:
    """Return the digests of the blobs that were uploaded whole."""
    done = [each for each in registry.requests if each.method == "PUT" and "/blobs/uploads/" in each.path]
    return [each.path.rpartition("digest=")[2] for each in done if each.status == 201]


def test_images_arrive_with_the_signatures_that_cosign_accepts_and_a_second_run_sends_nothing(
    published: Published, any_registry: RealRegistry, repository: str, tmp_path: Path
) -> None:
    place = f"{any_registry.host}/{repository}"
    script = tmp_path / "measured.py"
    script.write_text(MEASURED)
    any_registry.proxy.forget()
    done = flux_manifests(*published.mirror(f"oci://{place}", None, VERSION), "--output", "json", script=script)
    assert done.code == 0, done.errors
    assert digests(done.json) == published.digests
    assert {each["new"] for each in done.json["images"]} == {True}
    assert all(each["signedBy"].startswith("https://github.com/fluxcd/") for each in done.json["images"])
    uploads = sent(any_registry)
    mounted = any_registry is published.registry  # which has all blobs in other repositories
    assert (len(uploads), not uploads) == (len({*uploads}), mounted)
    published.check(place)
    any_registry.proxy.forget()
    again = flux_manifests(*published.mirror(f"oci://{place}", None, VERSION), "--output", "json", script=script)
    assert {(each["new"], each["sentBytes"]) for each in again.json["images"]} == {(False, 0)}
    assert {each.method for each in any_registry.requests} == {"HEAD", "GET"}
    peaks = [int(it.errors.split()[-1]) for it in (done, again)]

    assert peaks[0] - peaks[1] < LAYER >> 21  # no layer was held in memory


def test_a_folder_carries_them_from_one_network_to_another(
    published: Published, referrers_registry: RealRegistry, repository: str, tmp_path: Path
) -> None:
    layout, place = tmp_path / "images", f"{referrers_registry.host}/{repository}/fluxcd"
    assert set(digests(succeed(*published.mirror(f"layout:{layout}", None, VERSION))).values()) == {
        *published.digests.values()
    }
    name = f"{published.registry.host}/upstream/fluxcd/{SOURCE}"
    shown = run([peer("oras"), "manifest", "fetch", "--descriptor", "--oci-layout-path", layout, name])
    assert json.loads(shown)["digest"] == published.digests[SOURCE]
    copied = f"{referrers_registry.host}/{repository}/by-oras:copied"
    run([peer("oras"), "cp", "--from-oci-layout-path", layout, "--to-plain-http", name, copied])
    assert crane("digest", copied) == published.digests[SOURCE]
    done = succeed("mirror", "--images", f"oci://{place}", "--from-images", f"layout:{layout}", *published.signers)
    assert digests(done) == published.digests
    published.check(place)


def test_a_layout_that_oras_made_is_a_source(
    published: Published, referrers_registry: RealRegistry, repository: str, tmp_path: Path
) -> None:
    layout, place = tmp_path / "images", f"{referrers_registry.host}/{repository}/fluxcd"
    for name in published.digests:
        whole = f"{published.registry.host}/upstream/fluxcd/{name}"
        run([peer("oras"), "cp", "--from-plain-http", "--to-oci-layout-path", layout, whole, whole])
    done = succeed("mirror", "--images", f"oci://{place}", "--from-images", f"layout:{layout}")
    assert digests(done) == published.digests
    assert {each["signedBy"] for each in done["images"]} == {None}


def test_a_copy_that_was_killed_goes_on_where_it_was(published: Published, repository: str, tmp_path: Path) -> None:
    with distribution(tmp_path / "whole") as whole:
        succeed(*published.mirror(f"oci://{whole.host}/{repository}", None, VERSION))
        total, uploads = len(whole.requests), sent(whole)
    with distribution(tmp_path / "cut") as cut:
        place = f"{cut.host}/{repository}"
        killed(cut.proxy, published.mirror(f"oci://{place}", None, VERSION), total // 2, MOMENTS[0])
        stored = {path.name for path in (tmp_path / "cut/data/docker/registry/v2/blobs/sha256").glob("*/*")}
        named = [name for name in published.digests if tagged(place, name)]
        assert 0 < len(named) < len(published.digests)
        for name in named:
            for digest in platforms(f"{place}/{name}"):
                crane("validate", "--remote", f"{place}/{name.partition(':')[0]}@{digest}")
        assert succeed(*published.mirror(f"oci://{place}", None, VERSION))
        published.check(place)
        again = {digest.replace("%3A", ":").removeprefix("sha256:") for digest in sent(cut)}
        assert len(again) < len(uploads)
        assert not again & stored


def tagged(place: str, name: str) -> bool:
    image, _, tag = name.partition(":")
    try:
        return tag in crane("ls", f"{place}/{image}").split()
    except ProgramFailed:
        return False


def test_a_channel_that_is_rendered_for_the_registry_passes_its_check_of_images(
    published: Published, distribution_registry: RealRegistry, repository: str, tmp_path: Path
) -> None:
    place = f"{distribution_registry.host}/{repository}/fluxcd"
    where = ("--registry", place, "--releases", published.releases)
    at = f"oci://{distribution_registry.host}/{repository}/flux:production"
    init = ("init", at, "--flux-version", VERSION, *where, *elliptic_key(tmp_path / "keys").signing)
    before = flux_manifests(*init)
    assert (before.code, "is not there" in before.errors) == (11, True)
    assert f"`flux-manifests mirror --images oci://{place} {VERSION}`" in before.errors
    succeed(*published.mirror(f"oci://{place}", None, VERSION))
    assert succeed(*init)


def test_what_is_not_signed_by_the_named_workflows_is_not_copied(
    published: Published, distribution_registry: RealRegistry, repository: str
) -> None:
    place = f"{distribution_registry.host}/{repository}"
    command = [*published.mirror(f"oci://{place}", None, VERSION)]
    command[command.index(WORKFLOWS)] = WORKFLOWS.replace("fluxcd", "another")
    done = flux_manifests(*command)
    assert (done.code, done.error) == (10, "foreign-signature")
    assert not tagged(place, SOURCE)
