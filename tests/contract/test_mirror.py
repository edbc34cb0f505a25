"""A mirror has nothing but what was verified, is whole whenever one looks, and lets an air-gapped side verify it."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, OCI_MANIFEST, Descriptor, Manifest
from ci_automation.artifact.reference import Digest, LayoutDirectory, Reference
from ci_automation.cli import run
from ci_automation.errors import Error, ReleaseSourceError
from ci_automation.flows import mirror as module
from ci_automation.flows.files import Unwritable
from ci_automation.flows.mirror import MirrorBusy, mirror, push
from ci_automation.flows.ports import Ports, Upstream
from ci_automation.flows.publication.copy import TooManyReferrers, copy
from ci_automation.flows.rendering import fetch, find_artifact
from ci_automation.flux.advisories import advisories_in
from ci_automation.flux.bundle import ChecksumMismatch
from ci_automation.flux.release import InvalidReleaseList, ReleaseIncomplete, ReleaseNotFound
from ci_automation.flux.sources.directory import ADVISORIES, DirectorySource, LeavesDirectory, UnreadableDirectory
from ci_automation.flux.version import Version
from ci_automation.registry import open_registry
from ci_automation.registry.layout import LayoutRegistry
from ci_automation.registry.port import NotFound
from ci_automation.registry.releases import (
    OtherRelease,
    RegistryReleases,
    ReleaseFileTooLarge,
    put_advisories,
    put_release,
    rendered_beside,
)
from ci_automation.signing.sigstore.root import TrustRoot
from ci_automation.signing.upstream import UpstreamForged, UpstreamUnsigned, upstream_identity
from tests.fakes.registry import InMemoryRegistry
from tests.fakes.releases import SampleRelease, advisory, signed, write_releases
from tests.fakes.sigstore import LocalSigstore
from tests.fakes.upstream import MANIFESTS, publish, sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.artifact.index import Index
    from ci_automation.flows.mirror import Mirrored
    from ci_automation.flux.advisories import Advisory
    from ci_automation.flux.release import FetchedRelease, Release

TAGS = ("v2.6.4", "v2.7.4", "v2.7.5", "v2.8.0", "v2.8.8", "v2.9.3", "v2.9.4")
V = Version.parse("v2.9.4")
FIXED = advisory(1, {"source-controller": ">= 1.0.0, < 1.9.1", "flux2": "< 2.9.4"})
PROGRAMS = {
    f"flux_2.9.4_linux_{machine}.tar.gz": f"the program for {machine}".encode() for machine in ("amd64", "arm64")
}


@pytest.fixture(scope="module")
def releases(local: LocalSigstore) -> dict[str, SampleRelease]:
    """Return upstream's releases, the newest with its programs."""
    plain = [SampleRelease(tag, programs=PROGRAMS if tag == "v2.9.4" else {}) for tag in TAGS]
    candidate = SampleRelease("v2.10.0-rc.1", prerelease=True)
    return {each.tag: signed(each, local) for each in (*plain, candidate)}


@pytest.fixture(scope="module")
def published(local: LocalSigstore) -> InMemoryRegistry:
    """Return the registry with what upstream rendered of each release."""
    registry = InMemoryRegistry()
    for tag in (*TAGS, "v2.10.0-rc.1"):
        publish(registry, Version.parse(tag), local)
    return registry


@dataclass(slots=True)
class CountingSource:
    """A source that tells which files are asked for by name."""

    source: DirectorySource
    assets: list[str] = field(default_factory=list)

    def list(self, newer_than: Version | None = None) -> tuple[Release, ...]:
        return self.source.list(newer_than)

    def fetch(self, version: Version) -> FetchedRelease:
        return self.source.fetch(version)

    def advisories(self) -> tuple[Advisory, ...]:
        return self.source.advisories()

    def asset(self, version: Version, name: str, limit: int) -> bytes | None:
        self.assets.append(name)
        return self.source.asset(version, name, limit)


@dataclass(slots=True)
class Site:
    """Upstream, and a directory to fill from it."""

    folder: Path
    origin: Path
    published: InMemoryRegistry
    root: TrustRoot
    required: bool = True
    said: list[str] = field(default_factory=list)

    @property
    def artifacts(self) -> Reference:
        return Reference.parse(f"layout:{self.folder}/flux-manifests")

    def ports(self) -> Ports:
        upstream = Upstream(self.root, self.required, MANIFESTS, lambda: self.published)
        registry = open_registry(self.artifacts)
        return Ports(registry, DirectorySource(self.origin), find_upstream=lambda: upstream, say=self.said.append)

    def mirror(self, *versions: str, ports: Ports | None = None, with_programs: bool = False) -> tuple[Mirrored, ...]:
        wanted = [Version.parse(text) for text in versions]
        return mirror(self.folder, ports or self.ports(), wanted, with_programs=with_programs)

    def inside(self) -> Ports:
        """Return the world of the air-gapped side: the directory alone, and the roots that were carried there."""
        registry = open_registry(self.artifacts)
        upstream = Upstream(self.root, required=True, manifests=self.artifacts, find_registry=lambda: registry)
        return Ports(InMemoryRegistry(), DirectorySource(self.folder), find_upstream=lambda: upstream)

    def content(self) -> dict[str, str]:
        """Return a digest of every file of the directory, but for locks."""
        return {
            str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and path.name != ".flux-manifests.lock"
        }


def without_answers(content: dict[str, str]) -> dict[str, str]:
    """Return what two runs have in common: the log signs its answers anew each time it is asked."""
    return {name: "" if name.endswith(".rekor.json") else digest for name, digest in content.items()}


@pytest.fixture
def site(
    tmp_path: Path, releases: dict[str, SampleRelease], published: InMemoryRegistry, root: TrustRoot
) -> Iterator[Site]:
    """Yield a site that nothing was mirrored to yet."""
    origin = write_releases(tmp_path / "upstream", list(releases.values()))
    published.before = lambda _: None
    yield Site(tmp_path / "mirror", origin, published, root)
    published.before = lambda _: None


def names(done: tuple[Mirrored, ...]) -> list[str]:
    return [str(each.version) for each in done]


def listed(folder: Path) -> list[str]:
    return [str(each.version) for each in DirectorySource(folder).list()]


@pytest.mark.parametrize("link", ["v2.9.4", "flux-manifests"])
def test_nothing_is_written_through_a_link_out_of_the_directory(site: Site, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    site.folder.mkdir()
    (site.folder / link).symlink_to(outside)
    with pytest.raises(LeavesDirectory, match=link):
        site.mirror("v2.9.4")
    assert not list(outside.iterdir())


def test_its_lock_empties_no_file_elsewhere(site: Site, tmp_path: Path) -> None:
    (precious := tmp_path / "precious").write_text("text")
    site.folder.mkdir()
    (site.folder / ".flux-manifests.lock").symlink_to(precious)
    with pytest.raises(Unwritable):
        site.mirror("v2.9.4")
    assert precious.read_text() == "text"


@pytest.mark.parametrize("link", ["v2.9.4/manifests.tar.gz", "releases.json"])
def test_nothing_is_read_or_written_through_a_link_to_a_device(site: Site, link: str) -> None:
    (path := site.folder / link).parent.mkdir(parents=True)
    path.symlink_to("/dev/zero")
    if link == "releases.json":
        with pytest.raises(ReleaseSourceError, match=r"not a regular file|leads out"):
            site.mirror("v2.9.4")
        assert path.is_symlink()
    else:
        site.mirror("v2.9.4")
        assert not path.is_symlink()
        assert path.is_file()


class TestWhatIsTaken:
    """Without a wish, what somebody who keeps Flux current needs."""

    def test_an_empty_directory_gets_the_newest_patch_of_the_last_three_minors(self, site: Site) -> None:
        assert names(site.mirror()) == ["v2.7.5", "v2.8.8", "v2.9.4"]
        assert listed(site.folder) == ["v2.9.4", "v2.8.8", "v2.7.5"]

    def test_later_it_gets_what_is_newer(self, site: Site) -> None:
        site.mirror("v2.8.0")
        assert names(site.mirror()) == ["v2.8.8", "v2.9.3", "v2.9.4"]
        assert listed(site.folder) == ["v2.9.4", "v2.9.3", "v2.8.8", "v2.8.0"]

    def test_nothing_newer_is_nothing_to_do(self, site: Site) -> None:
        site.mirror("v2.9.4")
        before = site.content()
        assert site.mirror() == ()
        assert site.content() == before

    def test_a_candidate_that_is_there_does_not_hide_its_release(self, site: Site) -> None:
        site.mirror("v2.10.0-rc.1", "v2.9.3")
        assert names(site.mirror()) == ["v2.9.4"]

    def test_what_is_named_is_taken_once_and_in_order(self, site: Site) -> None:
        assert names(site.mirror("v2.9.3", "v2.6.4", "2.9.3")) == ["v2.6.4", "v2.9.3"]

    def test_a_release_with_a_problem_is_passed_over(self, site: Site) -> None:
        value = json.loads((site.origin / "releases.json").read_text())
        for release in value:
            release["draft"] = release["tag_name"] == "v2.9.4"
        (site.origin / "releases.json").write_text(json.dumps(value))
        assert names(site.mirror()) == ["v2.7.5", "v2.8.8", "v2.9.3"]

    def test_a_release_that_is_not_there_is_an_error(self, site: Site) -> None:
        with pytest.raises(ReleaseNotFound):
            site.mirror("v2.9.9")
        assert not (site.folder / "releases.json").exists()


class TestTheDirectory:
    """What is in it is what upstream has, in the form of a directory of releases."""

    def test_it_says_who_vouched_for_what(self, site: Site, published: InMemoryRegistry) -> None:
        (done,) = site.mirror("v2.9.4")
        digest = published.resolve(MANIFESTS.at_tag("v2.9.4"))
        who = str(upstream_identity(V))
        assert done.artifact is not None
        assert (done.vouched, done.artifact.digest, done.artifact.vouched) == (who, digest, who)

    def test_a_release_from_it_is_the_one_of_upstream(self, site: Site) -> None:
        site.mirror()
        for version in (each.version for each in DirectorySource(site.folder).list()):
            theirs, ours = DirectorySource(site.origin).fetch(version), DirectorySource(site.folder).fetch(version)
            assert (ours.release, ours.commit, ours.bundle) == (theirs.release, theirs.commit, theirs.bundle)
            assert replace(ours.files, log_entry=None) == theirs.files

    def test_its_list_names_what_is_in_the_folder(self, site: Site) -> None:
        site.mirror("v2.9.4", with_programs=True)
        (release,) = json.loads((site.folder / "releases.json").read_text())
        assert {path.name for path in (site.folder / "v2.9.4").iterdir()} == {
            each["name"] for each in release["assets"]
        }
        assert [each["name"] for each in release["assets"]] == [
            "flux_2.9.4_checksums.txt",
            "flux_2.9.4_checksums.txt.pem",
            "flux_2.9.4_checksums.txt.rekor.json",
            "flux_2.9.4_checksums.txt.sig",
            "flux_2.9.4_linux_amd64.tar.gz",
            "flux_2.9.4_linux_arm64.tar.gz",
            "manifests.tar.gz",
        ]

    def test_the_programs_come_only_if_they_are_wanted(self, site: Site) -> None:
        assert site.mirror("v2.9.4")[0].programs == ()
        assert not list(site.folder.glob("v2.9.4/*.tar.gz.*"))
        assert DirectorySource(site.folder).asset(V, "flux_2.9.4_linux_amd64.tar.gz", 100) is None
        assert site.mirror("v2.9.4", with_programs=True)[0].programs == ("linux_amd64", "linux_arm64")
        for name, content in PROGRAMS.items():
            assert DirectorySource(site.folder).asset(V, name, 100) == content

    def test_a_program_that_is_there_is_not_downloaded_again(self, site: Site) -> None:
        site.mirror("v2.9.4", with_programs=True)
        source = CountingSource(DirectorySource(site.origin))
        site.mirror("v2.9.4", ports=replace(site.ports(), releases=source), with_programs=True)
        assert source.assets == []
        (site.folder / "v2.9.4/flux_2.9.4_linux_arm64.tar.gz").write_bytes(b"damaged")
        site.mirror("v2.9.4", ports=replace(site.ports(), releases=source), with_programs=True)
        assert source.assets == ["flux_2.9.4_linux_arm64.tar.gz"]
        assert (site.folder / "v2.9.4/flux_2.9.4_linux_arm64.tar.gz").read_bytes() == b"the program for arm64"

    def test_the_same_again_changes_no_byte_and_asks_no_log(self, site: Site, local: LocalSigstore) -> None:
        site.mirror(with_programs=False)
        before = site.content()
        local.requests.clear()
        assert site.mirror("v2.7.5", "v2.8.8", "v2.9.4")
        assert site.content() == before
        assert local.requests == []

    def test_another_mirror_of_the_same_differs_in_what_the_log_answers_alone(self, site: Site, tmp_path: Path) -> None:
        other = dataclasses.replace(site, folder=tmp_path / "other")
        for each in (site, other):
            each.mirror()
        assert without_answers(site.content()) == without_answers(other.content())

    def test_what_others_have_listed_stays(self, site: Site) -> None:
        write_releases(site.folder, [SampleRelease("nightly"), SampleRelease("v2.5.0")])
        site.mirror("v2.9.4")
        value = json.loads((site.folder / "releases.json").read_text())
        assert [release["tag_name"] for release in value] == ["v2.9.4", "v2.5.0", "nightly"]
        assert [tag["name"] for tag in json.loads((site.folder / "tags.json").read_text())] == [
            "v2.9.4",
            "v2.5.0",
            "nightly",
        ]
        assert DirectorySource(site.folder).fetch(Version.parse("v2.5.0")).commit == SampleRelease("v2.5.0").commit

    @pytest.mark.parametrize("name", ["releases.json", "tags.json"])
    @pytest.mark.parametrize("content", ["", "{}", "[7]", '[{"name": 7, "tag_name": 7}]', "[" * 100_000])
    def test_a_list_that_is_none_is_not_overwritten(self, site: Site, name: str, content: str) -> None:
        site.folder.mkdir()
        (site.folder / name).write_text(content)
        with pytest.raises(ReleaseSourceError, match=name.replace(".", r"\.")):
            site.mirror("v2.9.4")
        assert (site.folder / name).read_text() == content

    def test_it_has_the_advisories_of_today_and_loses_none_when_the_source_has_none(self, site: Site) -> None:
        site.mirror("v2.9.4")
        assert not (site.folder / ADVISORIES).exists()
        for known in ([FIXED], [FIXED, advisory(2, {"helm-controller": "< 9.0.0"})]):
            (site.origin / ADVISORIES).write_text(json.dumps(known))
            assert site.mirror() == ()
            assert DirectorySource(site.folder).advisories() == advisories_in(known)
        before = site.content()
        for damaged in ("[]", "not JSON"):
            (site.origin / ADVISORIES).write_text(damaged)
            site.mirror("v2.9.4")
            assert site.content() == before
        assert any("security advisories were not read" in line for line in site.said)

    def test_a_mirror_can_be_mirrored(self, site: Site, tmp_path: Path) -> None:
        site.mirror(with_programs=False)
        inside = site.inside()
        assert inside.upstream is not None
        other = dataclasses.replace(site, folder=tmp_path / "other")
        ports = replace(inside, registry=open_registry(other.artifacts))
        assert names(other.mirror(ports=ports)) == ["v2.7.5", "v2.8.8", "v2.9.4"]
        assert other.content() == site.content()


class TestTheAirGap:
    """The other side verifies the same things, and needs neither upstream nor Rekor."""

    def test_all_that_was_mirrored_verifies_with_nobody_to_ask(
        self, tmp_path: Path, releases: dict[str, SampleRelease]
    ) -> None:
        registry = InMemoryRegistry()
        with LocalSigstore() as running:
            path = tmp_path / "trusted_root.json"
            path.write_bytes(running.trusted_root)
            root = TrustRoot.from_file(path)
            made = [signed(releases[tag], running) for tag in ("v2.8.8", "v2.9.4")]
            origin = write_releases(tmp_path / "upstream", made)
            digests = [publish(registry, Version.parse(each.tag), running) for each in made]
            site = Site(tmp_path / "mirror", origin, registry, root)
            site.mirror("v2.8.8", "v2.9.4")
        for release, digest in zip(made, digests, strict=True):
            version, inside = Version.parse(release.tag), site.inside()
            who = str(upstream_identity(version))
            assert fetch(version, inside).vouched == who
            artifact = find_artifact(version, inside)
            assert artifact is not None
            assert (artifact.digest, artifact.vouched) == (digest, who)

    def test_the_log_is_not_asked_for_what_is_there(self, site: Site, local: LocalSigstore) -> None:
        site.mirror("v2.9.4")
        local.requests.clear()
        fetch(V, site.inside())
        find_artifact(V, site.inside())
        assert local.requests == []

    @pytest.mark.parametrize(
        "name",
        [
            "manifests.tar.gz",
            "flux_2.9.4_checksums.txt",
            "flux_2.9.4_checksums.txt.sig",
            "flux_2.9.4_checksums.txt.pem",
            "flux_2.9.4_checksums.txt.rekor.json",
        ],
    )
    def test_a_file_that_was_tampered_with_is_found(self, site: Site, name: str) -> None:
        site.mirror("v2.9.4")
        path = site.folder / "v2.9.4" / name
        data = path.read_bytes()
        for position in (0, len(data) // 2):
            path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
            with pytest.raises((UpstreamForged, ReleaseSourceError)):
                fetch(V, site.inside())
        assert site.mirror("v2.9.4")
        assert path.read_bytes() == data or name.endswith(".rekor.json")
        assert fetch(V, site.inside()).vouched

    def test_another_releases_files_under_its_name_are_found(self, site: Site) -> None:
        site.mirror("v2.9.3", "v2.9.4")
        for path in (site.folder / "v2.9.3").iterdir():
            (site.folder / "v2.9.4" / path.name.replace("2.9.3", "2.9.4")).write_bytes(path.read_bytes())
        with pytest.raises(UpstreamForged, match=r"refs/tags/v2\.9\.3"):
            fetch(V, site.inside())

    def test_a_signature_that_was_taken_away_is_missed(self, site: Site) -> None:
        site.mirror("v2.9.4")
        for suffix in ("sig", "pem"):
            (site.folder / f"v2.9.4/flux_2.9.4_checksums.txt.{suffix}").unlink()
        with pytest.raises(UpstreamUnsigned):
            fetch(V, site.inside())

    def test_an_artifact_that_was_tampered_with_is_found(self, site: Site) -> None:
        site.mirror("v2.9.3", "v2.9.4")
        index = site.folder / "flux-manifests/index.json"
        swapped = index.read_text().replace('"v2.9.4"', '"x"').replace('"v2.9.3"', '"v2.9.4"')
        index.write_text(swapped)
        with pytest.raises(UpstreamForged, match=r"refs/tags/v2\.9\.3"):
            find_artifact(V, site.inside())

    def test_an_artifact_whose_signature_was_taken_away_is_missed(self, site: Site) -> None:
        site.mirror("v2.9.4")
        index = site.folder / "flux-manifests/index.json"
        value = json.loads(index.read_text())
        value["manifests"] = [each for each in value["manifests"] if not str(each).count(".sig")]
        index.write_text(json.dumps(value))
        with pytest.raises(UpstreamUnsigned):
            find_artifact(V, site.inside())


class TestNothingUnverified:
    """What is not Flux's own does not get in, not even as a file that nobody lists."""

    def nothing(self, site: Site, before: dict[str, str], kind: type[Error], *, programs: bool = False) -> None:
        with pytest.raises(kind):
            site.mirror("v2.9.4", with_programs=programs)
        assert site.content() == before

    @pytest.fixture
    def before(self, site: Site) -> dict[str, str]:
        site.mirror("v2.8.8")
        return site.content()

    def test_a_release_of_somebody_else(self, site: Site, before: dict[str, str], local: LocalSigstore) -> None:
        evil = SampleRelease("v2.9.4", files={**SampleRelease("v2.9.4").files, "policies.yaml": "# evil\n"})
        write_releases(site.origin, [signed(evil, local, identity=upstream_identity(Version.parse("v2.9.3")))])
        self.nothing(site, before, UpstreamForged)

    def test_a_release_that_nobody_signed(self, site: Site, before: dict[str, str]) -> None:
        for path in (site.origin / "v2.9.4").glob("*.txt.*"):
            path.unlink()
        self.nothing(site, before, UpstreamUnsigned)

    def test_a_bundle_that_is_another(self, site: Site, before: dict[str, str]) -> None:
        (site.origin / "v2.9.4/manifests.tar.gz").write_bytes(SampleRelease("v2.8.8").bundle)
        self.nothing(site, before, ReleaseSourceError)

    def test_a_program_that_is_another(self, site: Site, before: dict[str, str]) -> None:
        (site.origin / "v2.9.4/flux_2.9.4_linux_amd64.tar.gz").write_bytes(b"evil")
        self.nothing(site, before, ChecksumMismatch, programs=True)

    def test_a_program_that_is_missing(self, site: Site, before: dict[str, str]) -> None:
        (site.origin / "v2.9.4/flux_2.9.4_linux_amd64.tar.gz").unlink()
        self.nothing(site, before, ReleaseIncomplete, programs=True)

    def test_a_release_without_programs(self, site: Site, before: dict[str, str]) -> None:
        with pytest.raises(ReleaseIncomplete, match=r"has no flux_2\.9\.3_linux_amd64"):
            site.mirror("v2.9.3", with_programs=True)
        assert site.content() == before

    @pytest.mark.parametrize("signer", [None, "v2.9.3"], ids=["nobody", "another version"])
    def test_an_artifact_that_is_not_upstreams(
        self, site: Site, before: dict[str, str], local: LocalSigstore, signer: str | None
    ) -> None:
        site.published = InMemoryRegistry()
        identity = upstream_identity(Version.parse(signer or "v2.9.4"))
        publish(site.published, V, local if signer else None, identity=identity)
        self.nothing(site, before, UpstreamForged if signer else UpstreamUnsigned)

    def test_a_release_whose_artifact_is_missing(self, site: Site, before: dict[str, str]) -> None:
        site.published = InMemoryRegistry()
        self.nothing(site, before, NotFound)

    def test_an_artifact_whose_signature_got_lost_on_the_way(self, site: Site, before: dict[str, str]) -> None:
        class Forgetful(LayoutRegistry):
            def put_manifest(self, reference: Reference, manifest: Manifest | Index) -> Digest:
                if reference.tag is not None and reference.tag.endswith(".sig"):
                    return manifest.digest
                return super().put_manifest(reference, manifest)

        directory = site.artifacts.repository
        assert isinstance(directory, LayoutDirectory)
        with pytest.raises(UpstreamUnsigned):
            site.mirror("v2.9.4", ports=replace(site.ports(), registry=Forgetful(directory)))
        assert site.content()["releases.json"] == before["releases.json"]


class TestUnsigned:
    """Where signatures need not be there, what has none is taken, and is said to have none."""

    def test_an_unsigned_release_is_taken_and_said_so(self, site: Site) -> None:
        write_releases(site.origin, [SampleRelease("v2.9.4")])
        for path in (site.origin / "v2.9.4").glob("*.txt.*"):
            path.unlink()
        site.published = InMemoryRegistry()
        digest = publish(site.published, V, None)
        site.required = False
        (done,) = site.mirror("v2.9.4")
        assert done.artifact is not None
        assert (done.vouched, done.artifact.digest, done.artifact.vouched) == (None, digest, None)
        assert sum("is not signed, so nothing proves" in line for line in site.said) == 2
        assert listed(site.folder) == ["v2.9.4"]

    def test_an_artifact_need_not_be_there_then(self, site: Site) -> None:
        site.published = InMemoryRegistry()
        site.required = False
        (done,) = site.mirror("v2.9.4")
        assert (done.vouched is None, done.artifact) == (False, None)

    def test_a_wrong_signature_is_refused_all_the_same(self, site: Site, local: LocalSigstore) -> None:
        site.required = False
        write_releases(
            site.origin, [signed(SampleRelease("v2.9.4"), local, identity=upstream_identity(Version.parse("v2.9.3")))]
        )
        with pytest.raises(UpstreamForged):
            site.mirror("v2.9.4")
        assert not (site.folder / "v2.9.4").exists()


class Cut(BaseException):
    """The process ends here."""


class TestInterruption:
    """Wherever a run is cut off, what is listed is whole, and the same run again ends as if nothing had been."""

    def test_a_run_that_was_cut_off_continues(self, site: Site, tmp_path: Path) -> None:
        undisturbed = dataclasses.replace(site, folder=tmp_path / "undisturbed", said=[])
        undisturbed.mirror()
        wanted = without_answers(undisturbed.content())
        for number in range(len(undisturbed.said)):
            disturbed = dataclasses.replace(site, folder=tmp_path / f"cut {number}")
            left = [number]

            def say(_: str, left: list[int] = left) -> None:
                if not left[0]:
                    raise Cut
                left[0] -= 1

            with pytest.raises(Cut):
                disturbed.mirror(ports=replace(disturbed.ports(), say=say))
            assert not (disturbed.folder / "releases.json").exists()
            assert names(disturbed.mirror()) == ["v2.7.5", "v2.8.8", "v2.9.4"]
            assert without_answers(disturbed.content()) == wanted

    def test_every_request_to_upstreams_registry_may_be_the_last(self, site: Site, tmp_path: Path) -> None:
        undisturbed = dataclasses.replace(site, folder=tmp_path / "undisturbed")
        site.published.requests.clear()
        undisturbed.mirror("v2.9.4")
        for number in range(len(site.published.requests)):
            disturbed = dataclasses.replace(site, folder=tmp_path / f"cut {number}")
            left = [number]

            def before(_: object, left: list[int] = left) -> None:
                left[0] -= 1
                if left[0] == -1:
                    raise Cut

            site.published.before = before
            with pytest.raises(Cut):
                disturbed.mirror("v2.9.4")
            disturbed.mirror("v2.9.4")
            assert without_answers(disturbed.content()) == without_answers(undisturbed.content())

    def test_no_half_a_file_is_left(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        written = []

        def write(path: Path, data: bytes) -> None:
            written.append(path.name)
            if len(written) == 3:
                raise Cut
            path.write_bytes(data)

        monkeypatch.setattr(module, "write_file", write)
        with pytest.raises(Cut):
            site.mirror("v2.9.4")
        assert "manifests.tar.gz" not in written  # it comes last of a release's files
        assert not (site.folder / "releases.json").exists()

    def test_two_at_a_time_wait_for_each_other(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_LOCK_SECONDS", 0)
        site.folder.mkdir()
        with FileLock(site.folder / ".flux-manifests.lock"), pytest.raises(MirrorBusy):
            site.mirror("v2.9.4")
        assert site.mirror("v2.9.4")

    def test_a_place_that_is_no_directory_is_told(self, site: Site) -> None:
        site.folder.write_text("a file")
        with pytest.raises(Unwritable):
            site.mirror("v2.9.4")

    def test_a_file_in_place_of_a_releases_folder_is_told(self, site: Site) -> None:
        site.folder.mkdir()
        (site.folder / "v2.9.4").write_text("a file")
        with pytest.raises(UnreadableDirectory):
            site.mirror("v2.9.4")

    def test_a_folder_in_place_of_a_file_is_told(self, site: Site) -> None:
        (site.folder / "v2.9.4/manifests.tar.gz").mkdir(parents=True)
        with pytest.raises(Unwritable):
            site.mirror("v2.9.4")

    def test_a_program_that_cannot_be_read_is_told(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        site.mirror("v2.9.4", with_programs=True)

        opened = Path.open

        def broken(path: Path, *mode: Any) -> Any:
            if "_linux_" in path.name:
                raise OSError(errno.EIO, "Input/output error")
            return opened(path, *mode)

        monkeypatch.setattr(Path, "open", broken)
        with pytest.raises(UnreadableDirectory, match="Input/output error"):
            site.mirror("v2.9.4", with_programs=True)


class TestCopying:
    """An artifact arrives with all that speaks for it, and is named last."""

    TO = Reference.parse("oci://registry.example/acme/copy:v2.9.4")

    @pytest.mark.parametrize("forms", [[], ["legacy"], ["bundle"], ["legacy", "bundle", "bundle"]])
    def test_signatures_and_referrers_come_along(self, local: LocalSigstore, forms: list[str]) -> None:
        source, target = InMemoryRegistry(), InMemoryRegistry()
        digest = self.made(source, local, forms)
        copy(source, MANIFESTS, target, self.TO, digest)
        assert target.resolve(self.TO) == digest
        assert self.held(target, self.TO) == self.held(source, MANIFESTS)

    def test_the_tag_comes_last(self, local: LocalSigstore) -> None:
        source, target = InMemoryRegistry(), InMemoryRegistry()
        copy(source, MANIFESTS, target, self.TO, self.made(source, local, ["legacy", "bundle"]))
        assert target.requests[-1] == ("put_manifest", str(self.TO))
        assert sum(what == str(self.TO) for _, what in target.requests) == 1

    def test_what_is_no_image_manifest_is_left_out(self, local: LocalSigstore) -> None:
        source, target = InMemoryRegistry(), InMemoryRegistry()
        digest = self.made(source, local, ["bundle"])
        real = source.referrers

        def referrers(reference: Reference, digest: Digest) -> tuple[Descriptor, ...]:
            odd = Descriptor.of("application/vnd.oci.artifact.manifest.v1+json", b"{}")
            return (odd, *real(reference, digest))

        class Odd(InMemoryRegistry):
            pass

        odd = Odd(source.repositories)
        odd.referrers = referrers  # type: ignore[method-assign]
        copy(odd, MANIFESTS, target, self.TO, digest)
        assert len(target.referrers(self.TO, digest)) == 1

    @pytest.mark.parametrize("kind", ["", ".sig", ".att", ".sbom"], ids=["a referrer", "sig", "att", "sbom"])
    def test_what_is_about_something_else_is_not_taken_along(self, local: LocalSigstore, kind: str) -> None:
        class Lying(InMemoryRegistry):
            def referrers(self, reference: Reference, digest: Digest) -> tuple[Descriptor, ...]:
                """Return what refers to anything."""
                return (*super().referrers(reference, digest), *super().referrers(reference, present))

        target, config = InMemoryRegistry(), Descriptor.of(FLUX_CONFIG, CONFIG_BLOB)
        present = Digest.of(b"what another channel of the target has")
        source = Lying()
        digest = self.made(source, local, [])
        source.put_blob(MANIFESTS, CONFIG_BLOB)
        subject = Descriptor(OCI_MANIFEST, present, 7)
        planted = Manifest.build(config, (config,), artifact_type="application/x-hides", subject=subject)
        if kind:
            source.put_manifest(MANIFESTS.at_tag(f"sha256-{digest.hex}{kind}"), planted)
        else:
            source.put_referrer(MANIFESTS, planted)
        copy(source, MANIFESTS, target, self.TO, digest)
        assert target.referrers(self.TO, present) == ()

    def test_there_is_an_end_to_referrers(self, local: LocalSigstore) -> None:
        source, target = InMemoryRegistry(), InMemoryRegistry()
        digest = self.made(source, local, [])
        subject = source.manifest(MANIFESTS.at_digest(digest))
        for number in range(65):
            manifest = Manifest.build(
                Descriptor.of(FLUX_CONFIG, CONFIG_BLOB),
                (Descriptor.of(FLUX_CONFIG, CONFIG_BLOB),),
                {"number": str(number)},
                artifact_type="application/x-flood",
                subject=Descriptor(subject.media_type, digest, len(subject.raw)),
            )
            source.put_referrer(MANIFESTS, manifest)
        with pytest.raises(TooManyReferrers):
            copy(source, MANIFESTS, target, self.TO, digest)
        assert target.resolve(self.TO) is None

    def test_what_is_not_there_is_not_copied(self, local: LocalSigstore) -> None:
        source, target = InMemoryRegistry(), InMemoryRegistry()
        digest = self.made(source, local, ["legacy"])
        source.repositories[str(MANIFESTS.repository)].blobs.clear()
        with pytest.raises(NotFound):
            copy(source, MANIFESTS, target, self.TO, digest)
        assert target.resolve(self.TO) is None

    @staticmethod
    def made(source: InMemoryRegistry, local: LocalSigstore, forms: list[str]) -> Digest:
        digest = publish(source, V, None)
        for form in forms:
            sign(source, MANIFESTS, digest, local, form=form, identity=upstream_identity(V))
        return digest

    @staticmethod
    def held(registry: InMemoryRegistry, reference: Reference) -> tuple[object, ...]:
        place = registry.repositories[str(reference.repository)]
        return place.blobs, place.manifests, place.tags


RELEASES = Reference.parse("oci://registry.test/flux/releases")


@dataclass(slots=True)
class Pushed:
    """What a folder was pushed to: the registry, which both repositories are in."""

    site: Site
    registry: InMemoryRegistry = field(default_factory=InMemoryRegistry)

    def ports(self) -> Ports:
        return replace(self.site.inside(), registry=self.registry)

    def push(self) -> list[tuple[str, bool]]:
        done = push(RELEASES, self.registry, self.ports())
        return [(str(release.release.version), written) for release, written in done]

    def reader(self, *, required: bool = True) -> Ports:
        """Return what a run has that knows the registry alone."""
        upstream = Upstream(self.site.root, required, rendered_beside(RELEASES), lambda: self.registry)
        return Ports(self.registry, RegistryReleases(self.registry, RELEASES), find_upstream=lambda: upstream)

    def content(self) -> dict[str, dict[str, str]]:
        return {
            name: {tag: str(digest) for tag, digest in it.tags.items()}
            for name, it in self.registry.repositories.items()
        }


class TestPushing:
    """`mirror --push`: the same releases from a registry, checked in the same way."""

    @pytest.fixture
    def pushed(self, site: Site) -> Pushed:
        site.mirror("v2.8.8", "v2.9.4", with_programs=False)
        made = Pushed(site)
        assert made.push() == [("v2.8.8", True), ("v2.9.4", True)]
        return made

    def test_a_run_reads_there_what_the_folder_has(self, pushed: Pushed) -> None:
        reader, inside = pushed.reader(), pushed.site.inside()
        assert [str(it.version) for it in reader.releases.list()] == ["v2.9.4", "v2.8.8"]
        for version in (Version.parse("v2.8.8"), V):
            assert fetch(version, reader) == fetch(version, inside)
            there, here = find_artifact(version, reader), find_artifact(version, inside)
            assert there is not None
            assert here is not None
            assert (there.digest, there.vouched) == (here.digest, here.vouched)

    def test_a_list_of_what_is_newer_reads_only_that(self, pushed: Pushed) -> None:
        pushed.registry.requests.clear()
        assert len(pushed.reader().releases.list(V)) == 1
        assert len(pushed.registry.requests) == 3  # the tags, a manifest and its config

    def test_the_advisories_of_the_folder_are_read_there(self, pushed: Pushed) -> None:
        source = pushed.reader().releases
        assert source.advisories() == ()
        for known in ([FIXED], [FIXED, advisory(2, {"helm-controller": "< 9.0.0"})]):
            (pushed.site.folder / ADVISORIES).write_text(json.dumps(known))
            pushed.push()
            assert source.advisories() == advisories_in(known) != ()
        pushed.registry.requests.clear()
        pushed.push()
        about = [it.method for it in pushed.registry.requests if it.what.endswith(":advisories")]
        assert about == ["resolve"]
        assert len(source.list()) == 2

    def test_advisories_that_are_too_large_are_not_read(self, pushed: Pushed) -> None:
        put_advisories(pushed.registry, RELEASES, b" " * ((4 << 20) + 1))
        with pytest.raises(ReleaseFileTooLarge, match=r"advisories\.json in .*:advisories has more than"):
            pushed.reader().releases.advisories()

    def test_the_same_again_writes_nothing(self, pushed: Pushed) -> None:
        before = pushed.content()
        assert pushed.push() == [("v2.8.8", False), ("v2.9.4", False)]
        assert pushed.content() == before

    def test_programs_come_later_and_other_files_stay(self, pushed: Pushed) -> None:
        pushed.site.mirror("v2.9.4", with_programs=True)
        assert pushed.push() == [("v2.8.8", False), ("v2.9.4", True)]
        name = "flux_2.9.4_linux_amd64.tar.gz"
        assert pushed.reader().releases.asset(V, name, 1 << 20) == PROGRAMS[name]
        assert fetch(V, pushed.reader()).vouched

    def test_a_forged_program_is_not_pushed(self, pushed: Pushed) -> None:
        pushed.site.mirror("v2.9.4", with_programs=True)
        (pushed.site.folder / "v2.9.4/flux_2.9.4_linux_amd64.tar.gz").write_bytes(b"another")
        with pytest.raises(ChecksumMismatch):
            pushed.push()

    @pytest.mark.parametrize("lost", ["v2.9.4/*.sig", "flux-manifests/index.json"], ids=["signature", "rendering"])
    def test_what_a_folder_may_lack_is_refused_before_anything_of_the_release_is_written(
        self, site: Site, lost: str
    ) -> None:
        site.mirror("v2.9.4")
        for path in [*site.folder.glob(lost)]:
            path.unlink()
        refused = Pushed(site)
        with pytest.raises(Error):
            refused.push()
        assert not [it for it in refused.registry.requests if it.method.startswith("put")]

    def test_other_files_under_the_version_are_not_overwritten(self, pushed: Pushed) -> None:
        described = {"release": {"tag_name": "v2.9.4"}, "tags": []}
        other = InMemoryRegistry()
        put_release(other, RELEASES, described, {"manifests.tar.gz": b"another"})
        with pytest.raises(OtherRelease, match=r"v2\.9\.4 is there already, with another manifests\.tar\.gz"):
            Pushed(pushed.site, other).push()

    @pytest.mark.parametrize("name", ["manifests.tar.gz", "flux_2.9.4_checksums.txt.sig"])
    def test_a_writer_of_the_registry_cannot_change_a_file(self, pushed: Pushed, name: str) -> None:
        files = {it.name: it.read_bytes() for it in (pushed.site.folder / "v2.9.4").iterdir()}
        listed = json.loads((pushed.site.folder / "releases.json").read_bytes())
        tags = json.loads((pushed.site.folder / "tags.json").read_bytes())
        one = {"release": next(it for it in listed if it["tag_name"] == "v2.9.4"), "tags": tags}
        forged = Pushed(pushed.site)
        put_release(forged.registry, RELEASES, one, files | {name: files[name][:-1] + b"x"})
        with pytest.raises((UpstreamForged, ReleaseSourceError)):
            fetch(V, forged.reader())

    def test_nor_give_a_release_the_name_of_another(self, pushed: Pushed) -> None:
        manifest = pushed.registry.manifest(RELEASES.at_tag("v2.8.8"))
        pushed.registry.put_manifest(RELEASES.at_tag("v2.9.5"), manifest)
        with pytest.raises(InvalidReleaseList, match=r"what is under v2\.9\.5 says that it is v2\.8\.8"):
            pushed.reader().releases.list()

    def test_what_is_no_release_is_told(self, pushed: Pushed) -> None:
        publish(pushed.registry, Version.parse("v2.9.6"), None, place=RELEASES)
        with pytest.raises(InvalidReleaseList, match=r"what is under v2\.9\.6 is no release"):
            pushed.reader().releases.list()

    def test_every_write_may_be_the_last(self, site: Site) -> None:
        site.mirror("v2.9.4")
        undisturbed = Pushed(site)
        undisturbed.push()
        for number in range(len(undisturbed.registry.requests)):
            cut, left = Pushed(site), [number]

            def before(_: object, left: list[int] = left) -> None:
                left[0] -= 1
                if left[0] == -1:
                    raise Cut

            cut.registry.before = before
            with contextlib.suppress(Cut):
                cut.push()
            cut.registry.before = lambda _: None
            with contextlib.suppress(InvalidReleaseList):  # nothing is there yet
                assert [fetch(it.version, cut.reader()).vouched for it in cut.reader().releases.list()] != [None]
            cut.push()
            assert cut.content() == undisturbed.content()


class TestTheCommand:
    """`flux-manifests mirror`."""

    @pytest.fixture
    def config(self, site: Site, local: LocalSigstore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Return a configuration whose upstream is on this machine."""
        monkeypatch.delenv("FLUX_RELEASES", raising=False)  # whoever runs the tests may have named real ones
        place = Reference.parse(f"layout:{tmp_path}/published")
        registry = open_registry(place)
        for tag in ("v2.8.8", "v2.9.4"):
            publish(registry, Version.parse(tag), local, place=place)
        (tmp_path / "trusted_root.json").write_bytes(local.trusted_root)
        upstream = {
            "verify": "required",
            "trustConfig": str(tmp_path / "trusted_root.json"),
            "manifests": f"{place}:latest",
        }
        value = {
            "version": 1,
            "source": f"dir:{site.origin}",
            "upstream": upstream,
            "artifacts": [{"name": "production", "url": "oci://registry.example/acme/flux:production"}],
        }
        path = tmp_path / "config.yaml"
        path.write_text(json.dumps(value))  # JSON is YAML
        return path

    def test_it_says_what_it_took_and_how_it_was_verified(
        self, site: Site, config: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        arguments = ["mirror", str(site.folder), "--flux-version", "v2.9.4", "--with-programs", "--config", str(config)]
        assert run(arguments) == 0
        head, row, below = capsys.readouterr().out.splitlines()
        assert head.split() == ["release", "files", "rendered", "by", "Flux", "programs"]
        assert row.startswith("v2.9.4   signed  sha256:")
        assert row.endswith(", signed  linux/amd64, linux/arm64")
        assert "https://github.com/fluxcd/flux2/.github/workflows/release.yaml" in below

    def test_it_says_so_for_programs(self, site: Site, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["mirror", str(site.folder), "--flux-version", "v2.8.8", "--flux-version", "v2.9.4"]
        assert run([*arguments, "--config", str(config), "--output", "json"]) == 0
        value = json.loads(capsys.readouterr().out)
        assert value["folder"] == str(site.folder)
        assert [each["version"] for each in value["releases"]] == ["v2.8.8", "v2.9.4"]
        assert value["releases"][1]["signedBy"] == str(upstream_identity(V))
        assert value["releases"][1]["artifactSignedBy"] == str(upstream_identity(V))
        assert value["releases"][1]["artifact"].startswith("sha256:")
        assert value["releases"][1]["programs"] == []

    def test_nothing_newer_is_nothing_to_do(self, site: Site, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["mirror", str(site.folder), "--config", str(config)]
        assert run([*arguments, "--flux-version", "v2.9.4"]) == 0
        capsys.readouterr()
        assert run(arguments) == 0
        assert capsys.readouterr().out.startswith("Nothing to do: ")

    def test_what_is_forged_ends_with_10(
        self, site: Site, config: Path, local: LocalSigstore, capsys: pytest.CaptureFixture[str]
    ) -> None:
        forged = signed(SampleRelease("v2.9.4"), local, identity=upstream_identity(Version.parse("v2.9.3")))
        write_releases(site.origin, [forged])
        assert run(["mirror", str(site.folder), "--config", str(config), "--flux-version", "v2.9.4"]) == 10
        assert "code upstream-forged" in capsys.readouterr().err
        assert not (site.folder / "v2.9.4").exists()

    def test_what_is_pushed_is_a_source(
        self, site: Site, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        site.mirror("v2.9.4")
        place = f"layout:{tmp_path / 'pushed'}"
        pushing = ["mirror", str(site.folder), "--push", place, "--config", str(config)]
        assert run(pushing) == 0
        assert capsys.readouterr().out.splitlines()[1].split() == ["v2.9.4", "signed", "pushed"]
        assert run([*pushing, "--output", "json"]) == 0
        assert [it["written"] for it in json.loads(capsys.readouterr().out)["releases"]] == [False]
        again = ["mirror", str(tmp_path / "again"), "--flux-version", "v2.9.4", "--config", str(config)]
        assert run([*again, "--releases", place]) == 0
        copied = dataclasses.replace(site, folder=tmp_path / "again").content()
        assert {it: copied[it] for it in copied if it.startswith("v2.9.4/")} == {
            it: digest for it, digest in site.content().items() if it.startswith("v2.9.4/")
        }
        assert run([*again, "--releases", f"{place}:v2.9.4"]) == 2
        assert "name the repository alone" in capsys.readouterr().err

    def test_a_folder_that_no_address_can_name_is_told(
        self, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["mirror", str(tmp_path / "a:b"), "--config", str(config)]) == 2
        assert "invalid-reference" in capsys.readouterr().err
