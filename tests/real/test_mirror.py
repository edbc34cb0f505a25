"""A mirror of what the real cosign and flux have made verifies without anybody to ask, and other programs read it."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from ci_automation.artifact.archive import read_archive
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.flows import mirror as mirroring
from ci_automation.flows.mirror import mirror
from ci_automation.flows.ports import Ports, Upstream
from ci_automation.flows.rendering import fetch, find_artifact
from ci_automation.flux.bundle import checksums_name
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.flux.sources.github import GitHubSource
from ci_automation.flux.version import Version
from ci_automation.github.client import GitHub
from ci_automation.registry import open_registry
from ci_automation.registry.releases import RegistryReleases, rendered_beside
from ci_automation.signing.sigstore.root import TrustRoot
from ci_automation.signing.upstream import UpstreamForged, upstream_identity
from tests.fakes.forge import TOKEN, Forge
from tests.fakes.sigstore import LocalSigstore
from tests.real import cosign
from tests.real.peers import peer
from tests.real.pipeline import push, tag
from tests.real.processes import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.registries import RealRegistry

VERSIONS = tuple(Version.parse(text) for text in ("v2.8.8", "v2.9.4"))
HOST = "https://github.com/"


@dataclass(frozen=True, slots=True)
class Made:
    """What upstream published, and a mirror of it, made while everybody could be asked."""

    origin: Path
    host: str
    repository: str
    folder: Path
    files: cosign.Files
    digests: dict[Version, Digest]

    @property
    def artifacts(self) -> Reference:
        return Reference.parse(f"layout:{self.folder}/flux-manifests")

    def inside(self) -> Ports:
        """Return the world of the air-gapped side: the directory alone, and the roots that were carried there."""
        registry = open_registry(self.artifacts)
        root = TrustRoot.from_file(self.files.trusted_root)
        upstream = Upstream(root, required=True, manifests=self.artifacts, find_registry=lambda: registry)
        return Ports(registry, DirectorySource(self.folder), find_upstream=lambda: upstream)


def token(local: LocalSigstore, version: Version) -> str:
    """Return the identity token of upstream's release workflow for that tag."""
    return local.token(job_workflow_ref=upstream_identity(version).subject.removeprefix(HOST))


def sign_blob(local: LocalSigstore, files: cosign.Files, path: Path, version: Version) -> None:
    """Sign a file as upstream's `.goreleaser.yml` has it done."""
    where = (
        f"--fulcio-url={local.url}",
        f"--rekor-url={local.url}",
        f"--identity-token={files.token(token(local, version))}",
    )
    out = (f"--output-signature={path}.sig", f"--output-certificate={path}.pem")
    run([peer("cosign"), "sign-blob", "--yes", *where, *out, path], **files.environment)


def release(local: LocalSigstore, files: cosign.Files, data: Path, origin: Path, version: Version) -> None:
    """Publish a real release's files, with a signature of their checksums."""
    shutil.copytree(data / str(version), origin / str(version))
    sign_blob(local, files, origin / str(version) / checksums_name(version), version)


def lists(data: Path, origin: Path) -> None:
    """Write the two lists of the releases that are there, with the files that are there."""
    known = {str(version) for version in VERSIONS}
    releases = [each for each in json.loads((data / "releases.json").read_text()) if each["tag_name"] in known]
    for each in releases:
        each["assets"] = [{"name": path.name} for path in sorted((origin / each["tag_name"]).iterdir())]
    tags = [each for each in json.loads((data / "tags.json").read_text()) if each["name"] in known]
    (origin / "releases.json").write_text(json.dumps(releases))
    (origin / "tags.json").write_text(json.dumps(tags))


def artifact(local: LocalSigstore, files: cosign.Files, text: bytes, where: str, folder: Path) -> Digest:
    """Push and sign what upstream renders, as its `release.yaml` does, and return the digest."""
    version = Version.parse(where.rpartition(":")[2])
    folder.mkdir()
    (folder / "gotk-components.yaml").write_bytes(text)
    digest = push(where, folder, f"{version}@sha1:{'5' * 40}")
    cosign.sign_legacy_keyless(local, files, f"{where.rpartition(':')[0]}@{digest}", token(local, version))
    tag(f"{where.rpartition(':')[0]}@{digest}", "latest")
    return Digest.parse(digest)


@pytest.fixture(scope="module")
def made(
    distribution_registry: RealRegistry, flux_releases: Path, golden: Path, tmp_path_factory: pytest.TempPathFactory
) -> Made:
    """Return a mirror of two real releases; the Sigstore that signed them is gone, and so is GitHub."""
    top = tmp_path_factory.mktemp("mirror")
    origin, folder, repository = top / "origin", top / "mirror", "tests/upstream/flux-manifests"
    place = Reference.parse(f"oci://{distribution_registry.host}/{repository}:latest")
    with LocalSigstore() as local, Forge(releases=origin) as github:
        files = cosign.Files.write(local, top / "sigstore")
        digests = {}
        for version in VERSIONS:
            release(local, files, flux_releases, origin, version)
            text = gzip.decompress((golden / "text" / str(version) / "all-six.yaml.gz").read_bytes())
            where = f"{distribution_registry.host}/{repository}:{version}"
            digests[version] = artifact(local, files, text, where, top / str(version))
        lists(flux_releases, origin)
        made = Made(origin, distribution_registry.host, repository, folder, files, digests)
        client = GitHub(TOKEN, github.url)
        upstream = Upstream(TrustRoot.from_file(files.trusted_root), True, place, lambda: open_registry(place))
        ports = Ports(open_registry(made.artifacts), GitHubSource(client), find_upstream=lambda: upstream)
        done = mirror(folder, ports)
        client.close()
        assert [each.version for each in done] == list(VERSIONS)
        for each in VERSIONS:
            verify_blob(local, files, folder / str(each) / checksums_name(each), each)
    return made


def verify_blob(local: LocalSigstore, files: cosign.Files, path: Path, version: Version) -> None:
    """Let cosign verify a file with the signature and certificate beside it; it looks the entry up as we do."""
    who = upstream_identity(version)
    trust = (f"--certificate-identity={who.subject}", f"--certificate-oidc-issuer={who.issuer}")
    proof = (f"--signature={path}.sig", f"--certificate={path}.pem", f"--rekor-url={local.url}")
    run([peer("cosign"), "verify-blob", *trust, *proof, path], **files.environment)


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_a_mirrored_release_verifies_with_nobody_to_ask(made: Made, flux_releases: Path, version: Version) -> None:
    found = fetch(version, made.inside())
    assert found.vouched == str(upstream_identity(version))
    assert found.files.log_entry is not None
    assert found.files.bundle == (flux_releases / str(version) / "manifests.tar.gz").read_bytes()


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_what_upstream_rendered_verifies_from_the_layout(made: Made, golden: Path, version: Version) -> None:
    ports = made.inside()
    found = find_artifact(version, ports)
    assert found is not None
    assert (found.digest, found.vouched) == (made.digests[version], str(upstream_identity(version)))
    reference = found.reference.at_digest(found.digest)
    tree = read_archive(ports.registry.blob(reference, ports.registry.manifest(reference).layers[0]))
    text = gzip.decompress((golden / "text" / str(version) / "all-six.yaml.gz").read_bytes())
    assert tree["gotk-components.yaml"] == text


def test_what_cosign_signed_for_one_release_is_refused_for_another(made: Made, tmp_path: Path) -> None:
    shutil.copytree(made.folder, tmp_path / "swapped")
    for path in (made.folder / "v2.8.8").iterdir():
        (tmp_path / "swapped/v2.9.4" / path.name.replace("2.8.8", "2.9.4")).write_bytes(path.read_bytes())
    ports = made.inside()
    swapped = Ports(ports.registry, DirectorySource(tmp_path / "swapped"), find_upstream=lambda: ports.upstream)
    with pytest.raises(UpstreamForged, match=r"refs/tags/v2\.8\.8"):
        fetch(VERSIONS[1], swapped)


def test_a_registry_takes_the_releases_of_a_folder_and_hands_them_out_with_the_same_proofs(
    made: Made, flux_releases: Path, repository: str
) -> None:
    place = Reference.parse(f"oci://{made.host}/{repository}")
    inside = made.inside()
    rendered = open_registry(rendered_beside(place))
    done = mirroring.push(place, rendered, replace(inside, registry=open_registry(place)))
    assert [(release.release.version, new) for release, new in done] == [(version, True) for version in VERSIONS]
    root = TrustRoot.from_file(made.files.trusted_root)
    upstream = Upstream(root, True, rendered_beside(place), lambda: rendered)
    reader = Ports(open_registry(place), RegistryReleases(open_registry(place), place), find_upstream=lambda: upstream)
    assert [it.version for it in reader.releases.list()] == sorted(VERSIONS, reverse=True)
    for version in VERSIONS:
        found = fetch(version, reader)
        assert found.vouched == str(upstream_identity(version))
        assert found.files.bundle == (flux_releases / str(version) / "manifests.tar.gz").read_bytes()
        artifact = find_artifact(version, reader)
        assert artifact is not None
        assert artifact.digest == made.digests[version]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_oras_reads_the_files_of_a_pushed_release(
    made: Made, flux_releases: Path, repository: str, tmp_path: Path, version: Version
) -> None:
    place = Reference.parse(f"oci://{made.host}/{repository}")
    ports = replace(made.inside(), registry=open_registry(place))
    mirroring.push(place, open_registry(rendered_beside(place)), ports)
    run([peer("oras"), "pull", "--plain-http", "-o", tmp_path, f"{made.host}/{repository}:{version}"])
    pulled = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert pulled["manifests.tar.gz"] == (flux_releases / str(version) / "manifests.tar.gz").read_bytes()
    assert checksums_name(version) in pulled


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_other_programs_read_the_layout_and_what_they_take_from_it_still_verifies(
    made: Made, repository: str, version: Version
) -> None:
    layout, digest = made.folder / "flux-manifests", made.digests[version]
    shown = run([peer("oras"), "manifest", "fetch", "--descriptor", "--oci-layout", f"{layout}:{version}"])
    assert json.loads(shown)["digest"] == str(digest)
    copied = f"{made.host}/{repository}"
    for name in (str(version), f"sha256-{digest.hex}.sig"):
        run([peer("oras"), "cp", "--from-oci-layout", f"{layout}:{name}", "--to-plain-http", f"{copied}:{name}"])
    assert run([peer("crane"), "digest", f"{copied}:{version}"]).strip() == str(digest)
    assert cosign.verify_legacy(upstream_identity(version), made.files, f"{copied}@{digest}")
