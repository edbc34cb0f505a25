"""What every release source promises, shown on each: a directory, a registry, and GitHub in its three forms."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ci_automation.artifact.archive import UnsafeArchive
from ci_automation.artifact.index import Index
from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, Descriptor, Manifest
from ci_automation.artifact.reference import Digest, Reference
from ci_automation.errors import ReleaseSourceError
from ci_automation.flux.bundle import ChecksumMismatch
from ci_automation.flux.release import (
    InvalidReleaseList,
    ReleaseIncomplete,
    ReleaseNotFound,
    ReleaseSource,
    UnknownCommit,
)
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.flux.sources.github import GitHubSource
from ci_automation.flux.version import Version, read_version
from ci_automation.github.client import GitHub
from ci_automation.registry.releases import OtherRelease, RegistryReleases, put_release
from tests.fakes.forge import TOKEN, Forge
from tests.fakes.forge.described import PUBLIC
from tests.fakes.registry import InMemoryRegistry
from tests.fakes.releases import SampleRelease, write_releases

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.flux.advisories import Advisory
    from ci_automation.flux.release import FetchedRelease, Release

V284, V285, V294 = (Version.parse(text) for text in ("v2.8.4", "v2.8.5", "v2.9.4"))
OLD = SampleRelease("v2.8.5", "2026-04-07T17:31:53Z")
NEW = SampleRelease("v2.9.4", "2026-08-07T14:22:55Z")
CHECKSUMS = "flux_2.9.4_checksums.txt"
PROOF = {f"{CHECKSUMS}.sig": b"sig", f"{CHECKSUMS}.pem": b"pem", f"{CHECKSUMS}.rekor.json": b"entry"}
ARCHIVE = "flux_2.9.4_linux_amd64.tar.gz"

Make = Callable[..., ReleaseSource]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return where the releases are."""
    return tmp_path / "releases"


class Pushed:
    """The releases of a folder, whatever it has at the time, pushed to a registry and read there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def now(self) -> RegistryReleases:
        registry, place = InMemoryRegistry(), Reference.parse("oci://registry.test/flux/releases")
        tags = json.loads((self.folder / "tags.json").read_bytes())
        for each in json.loads((self.folder / "releases.json").read_bytes()):
            name = each["tag_name"]
            files = {it.name: it.read_bytes() for it in sorted((self.folder / name).glob("*"))}
            if read_version(name) is not None:
                put_release(
                    registry, place, {"release": each, "tags": [it for it in tags if it["name"] == name]}, files
                )
        return RegistryReleases(registry, place)

    def list(self, newer_than: Version | None = None) -> tuple[Release, ...]:
        return self.now().list(newer_than)

    def fetch(self, version: Version) -> FetchedRelease:
        return self.now().fetch(version)

    def advisories(self) -> tuple[Advisory, ...]:
        return self.now().advisories()

    def asset(self, version: Version, name: str, limit: int) -> bytes | None:
        return self.now().asset(version, name, limit)


@pytest.fixture(params=["directory", "registry", "REST", "GraphQL", "Enterprise Server"])
def source(request: pytest.FixtureRequest, folder: Path) -> Iterator[Make]:
    """Yield the function that makes a source of some releases."""

    def directory(*samples: SampleRelease) -> ReleaseSource:
        return DirectorySource(write_releases(folder, samples))

    def in_a_registry(*samples: SampleRelease) -> ReleaseSource:
        return Pushed(write_releases(folder, samples))

    if request.param in ("directory", "registry"):
        yield directory if request.param == "directory" else in_a_registry
        return
    with Forge("ghes" if request.param == "Enterprise Server" else PUBLIC, folder) as github:
        client = GitHub(None if request.param == "REST" else TOKEN, github.url)

        def on_github(*samples: SampleRelease) -> ReleaseSource:
            write_releases(folder, samples)
            return GitHubSource(client)

        yield on_github
        client.close()
        github.violations.clear()  # the samples of some tests are what GitHub never says


def test_what_is_listed_can_be_fetched(source: Make) -> None:
    releases = source(OLD, NEW)
    listed = releases.list()
    assert [release.version for release in listed] == [V294, V285]
    for release in listed:
        fetched = releases.fetch(release.version)
        assert fetched.release == release
        assert fetched.release.notes == f"Release notes of {release.version}"
        assert f"# of {release.version}\n" in fetched.bundle.files["rbac.yaml"]


def test_the_commit_is_that_of_the_tag(source: Make) -> None:
    assert source(OLD, NEW).fetch(V285).commit == OLD.commit


@pytest.mark.parametrize("newer_than", ["v2.8.0", "v2.8.5", "v2.9.4", "v2.10.0", None])
def test_every_successor_is_listed_and_the_release_itself(source: Make, newer_than: str | None) -> None:
    known = Version.parse(newer_than) if newer_than else None
    listed = {release.version for release in source(OLD, NEW).list(known)}
    assert listed >= {version for version in (V285, V294) if known is None or version >= known}


@pytest.mark.parametrize(
    ("missing", "problem"),
    [
        pytest.param("manifests.tar.gz", "no manifests.tar.gz", id="no bundle"),
        pytest.param(CHECKSUMS, "no flux_2.9.4_checksums.txt", id="no checksums"),
    ],
)
def test_an_incomplete_release_is_listed_with_its_problem_and_not_handed_out(
    source: Make, missing: str, problem: str
) -> None:
    releases = source(OLD, SampleRelease("v2.9.4", without=(missing,)))
    by_version = {release.version: release for release in releases.list(V285)}
    assert by_version[V285].problem is None
    assert problem in str(by_version[V294].problem)
    with pytest.raises(ReleaseIncomplete, match=problem):
        releases.fetch(V294)


def test_a_draft_is_never_offered(source: Make) -> None:
    releases = source(OLD, SampleRelease("v2.9.4", None, draft=True))
    assert all(release.problem for release in releases.list(V285) if release.version == V294)
    with pytest.raises(ReleaseNotFound, match=r"v2\.9\.4"):
        releases.fetch(V294)


def test_a_prerelease_is_called_one(source: Make) -> None:
    releases = source(OLD, SampleRelease("v2.9.4", prerelease=True), SampleRelease("v2.10.0-rc.1", prerelease=True))
    assert {str(release.version) for release in releases.list() if release.prerelease} == {"v2.9.4", "v2.10.0-rc.1"}
    assert releases.fetch(V294).release.prerelease


def test_tags_that_are_no_releases_of_flux_are_left_out(source: Make) -> None:
    assert [release.version for release in source(NEW, SampleRelease("nightly")).list()] == [V294]


@pytest.mark.parametrize(
    ("version", "near"),
    [("v2.8.4", "v2.8.5"), ("v2.9.0", "v2.8.5 and v2.9.4"), ("v2.10.0", "v2.9.4"), ("v3.0.0", "v2.9.4")],
)
def test_an_unknown_version_is_not_found_and_its_neighbours_are_named(source: Make, version: str, near: str) -> None:
    with pytest.raises(ReleaseNotFound) as caught:
        source(OLD, NEW).fetch(Version.parse(version))
    verb = "are" if " and " in near else "is"
    assert str(caught.value).endswith(f" has no release {version}; the nearest {verb} {near}")


def test_an_empty_list_is_refused(source: Make) -> None:
    with pytest.raises(InvalidReleaseList):
        source().list()


def test_a_damaged_bundle_is_found(source: Make, folder: Path) -> None:
    releases = source(NEW)
    bundle = folder / "v2.9.4/manifests.tar.gz"
    bundle.write_bytes(bundle.read_bytes()[:-1] + b"?")
    with pytest.raises(ChecksumMismatch, match=r"v2\.9\.4"):
        releases.fetch(V294)


def test_the_checksums_of_another_file_do_not_count(source: Make, folder: Path) -> None:
    releases = source(NEW)
    (folder / "v2.9.4" / CHECKSUMS).write_text(f"{'0' * 64}  install.yaml\n")
    with pytest.raises(ChecksumMismatch, match=r"do not list manifests\.tar\.gz"):
        releases.fetch(V294)


def test_checksums_without_end_are_not_read_to_their_end(source: Make, folder: Path) -> None:
    releases = source(NEW)
    (folder / "v2.9.4" / CHECKSUMS).write_bytes(b"0" * (1 << 20))
    with pytest.raises(ReleaseSourceError, match="more than 65536 bytes"):
        releases.fetch(V294)


def test_a_bundle_without_end_is_not_read_to_its_end(source: Make, folder: Path) -> None:
    releases = source(NEW)
    (folder / "v2.9.4/manifests.tar.gz").write_bytes(bytes(5 << 20))
    with pytest.raises(ReleaseSourceError, match="more than 4194304 bytes"):
        releases.fetch(V294)


def test_a_bundle_that_is_none_is_refused_although_its_checksum_is_right(source: Make) -> None:
    class Broken(SampleRelease):
        __slots__ = ()

        @property
        def bundle(self) -> bytes:
            return b"<html>maintenance</html>"

    with pytest.raises(UnsafeArchive, match="not gzip"):
        source(Broken("v2.9.4")).fetch(V294)


def test_a_release_without_a_tag_has_no_commit(source: Make, folder: Path) -> None:
    releases = source(NEW)
    (folder / "tags.json").write_text("[]")
    with pytest.raises(UnknownCommit, match=r"v2\.9\.4"):
        releases.fetch(V294)


@pytest.mark.parametrize("commit", ["main", "889be9d", None, 7])
def test_a_tag_without_a_whole_commit_is_refused(source: Make, folder: Path, commit: object) -> None:
    releases = source(NEW)
    (folder / "tags.json").write_text(json.dumps([{"name": "v2.9.4", "commit": {"sha": commit}}]))
    with pytest.raises(ReleaseSourceError):
        releases.fetch(V294)


def test_a_release_that_went_away_between_list_and_fetch_is_not_found(source: Make, folder: Path) -> None:
    releases = source(OLD, NEW)
    assert releases.list()[0].version == V294
    write_releases(folder, [OLD])
    with pytest.raises(ReleaseNotFound):
        releases.fetch(V294)


def test_the_files_stay_with_the_release_as_they_came(source: Make) -> None:
    files = source(NEW).fetch(V294).files
    assert (files.checksums, files.bundle) == (NEW.assets[CHECKSUMS], NEW.bundle)


def test_the_proof_comes_with_the_release(source: Make) -> None:
    files = source(replace(NEW, proof=PROOF)).fetch(V294).files
    assert (files.signature, files.certificate, files.log_entry) == (b"sig", b"pem", b"entry")


def test_no_source_says_that_anybody_vouches_for_a_release(source: Make) -> None:
    assert source(replace(NEW, proof=PROOF)).fetch(V294).vouched is None


def test_what_is_not_there_of_the_proof_is_not_asked_for(source: Make) -> None:
    files = source(replace(NEW, proof={f"{CHECKSUMS}.sig": b"sig"})).fetch(V294).files
    assert (files.signature, files.certificate, files.log_entry) == (b"sig", None, None)


@pytest.mark.parametrize("name", PROOF)
def test_a_proof_without_end_is_not_read_to_its_end(source: Make, name: str) -> None:
    with pytest.raises(ReleaseSourceError, match="more than 65536 bytes"):
        source(replace(NEW, proof={**PROOF, name: bytes(1 << 20)})).fetch(V294)


def test_any_asset_is_handed_out_by_its_name(source: Make) -> None:
    releases = source(OLD, replace(NEW, programs={ARCHIVE: b"the program"}))
    assert releases.asset(V294, ARCHIVE, 11) == b"the program"
    assert releases.asset(V294, "install.yaml", 11) == b"---\n"


@pytest.mark.parametrize(
    ("version", "name"),
    [
        pytest.param(V294, "flux_2.9.4_linux_arm64.tar.gz", id="no such asset"),
        pytest.param(V285, ARCHIVE, id="of another release"),
        pytest.param(V284, ARCHIVE, id="no such release"),
    ],
)
def test_an_asset_that_is_not_there_is_none(source: Make, version: Version, name: str) -> None:
    assert source(OLD, replace(NEW, programs={ARCHIVE: b"the program"})).asset(version, name, 11) is None


def test_an_asset_without_end_is_not_read_to_its_end(source: Make) -> None:
    with pytest.raises(ReleaseSourceError, match="more than 10 bytes"):
        source(replace(NEW, programs={ARCHIVE: b"the program"})).asset(V294, ARCHIVE, 10)


def test_of_very_many_tags_a_few_are_read_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Pushed(write_releases(folder, (NEW,))).now()
    tags = source._registry.repositories["oci://registry.test/flux/releases"].tags  # type: ignore[attr-defined]
    tags.update({f"v3.0.{number}": Digest.of(b"nothing") for number in range(40)})
    sizes: list[int] = []
    whole = InMemoryRegistry.at_once

    def at_once(registry: InMemoryRegistry, *work: Callable[[], object]) -> list[object]:
        sizes.append(len(work))
        return whole(registry, *work)

    monkeypatch.setattr(InMemoryRegistry, "at_once", at_once)
    assert [release.version for release in source.list(V285)] == [V294]
    assert max(sizes) <= 16


@pytest.mark.parametrize("what", ["an artifact", "an index"])
def test_a_tag_of_a_version_that_names_something_else_stays(what: str) -> None:
    """A repository of channels has such tags too, with `versionTags`."""
    registry, place = InMemoryRegistry(), Reference.parse("oci://registry.test/acme/flux-manifests")
    at = place.at_tag("v2.9.4")
    registry.put_blob(place, CONFIG_BLOB)
    part = Descriptor.of(FLUX_CONFIG, CONFIG_BLOB)
    there = Index.build() if what == "an index" else Manifest.build(part, (part,))
    registry.put_manifest(at, there)
    with pytest.raises(OtherRelease, match=r"v2\.9\.4 is there already, and is no release"):
        put_release(registry, place, {"release": {"tag_name": "v2.9.4"}, "tags": []}, {"manifests.tar.gz": b"new"})
    assert registry.resolve(at) == there.digest
