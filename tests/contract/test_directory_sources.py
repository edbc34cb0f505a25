"""A directory of releases is read as far as it is needed, and never beyond its borders."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from ci_automation.errors import ReleaseSourceError
from ci_automation.flux.release import InvalidReleaseList, ReleaseIncomplete
from ci_automation.flux.sources.directory import DirectorySource, FileTooLarge, LeavesDirectory, UnreadableDirectory
from ci_automation.flux.version import Version
from tests.fakes.releases import SampleRelease, advisory, write_releases

if TYPE_CHECKING:
    from pathlib import Path

V294 = Version.parse("v2.9.4")
BUNDLE = "v2.9.4/manifests.tar.gz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a directory with one release."""
    return write_releases(tmp_path / "releases", [SampleRelease("v2.9.4")])


def test_a_list_reads_one_file(folder: Path) -> None:
    for path in [folder / "tags.json", *(folder / "v2.9.4").iterdir()]:
        path.unlink()
    assert DirectorySource(folder).list()[0].problem is None


def test_advisories_come_from_a_file_if_it_is_there(folder: Path) -> None:
    assert DirectorySource(folder).advisories() == ()
    (folder / "advisories.json").write_text(json.dumps([advisory(1, {"source-controller": "< 1.9.1"})]))
    assert [it.id for it in DirectorySource(folder).advisories()] == ["CVE-2026-0001"]
    (folder / "advisories.json").write_text("no")
    with pytest.raises(InvalidReleaseList, match="not JSON"):
        DirectorySource(folder).advisories()


def test_the_directory_itself_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert DirectorySource(link).fetch(V294).release.version == V294


def test_a_link_within_the_directory_is_followed(folder: Path) -> None:
    (folder / BUNDLE).rename(folder / "shared.tar.gz")
    (folder / BUNDLE).symlink_to("../shared.tar.gz")
    assert DirectorySource(folder).fetch(V294).release.version == V294


@pytest.mark.parametrize("name", ["releases.json", "tags.json", BUNDLE, "v2.9.4/flux_2.9.4_checksums.txt"])
def test_a_link_out_of_the_directory_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).rename(tmp_path / "outside")
    (folder / name).symlink_to(tmp_path / "outside")
    with pytest.raises(LeavesDirectory, match=name):
        DirectorySource(folder).fetch(V294)


@pytest.mark.parametrize("suffix", ["sig", "pem", "rekor.json"])
def test_a_proof_that_is_a_link_out_of_the_directory_is_refused(folder: Path, tmp_path: Path, suffix: str) -> None:
    (tmp_path / "outside").write_bytes(b"a secret")
    (folder / f"v2.9.4/flux_2.9.4_checksums.txt.{suffix}").symlink_to(tmp_path / "outside")
    with pytest.raises(LeavesDirectory, match=suffix):
        DirectorySource(folder).fetch(V294)


def test_an_asset_out_of_the_directory_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"a secret")
    with pytest.raises(LeavesDirectory):
        DirectorySource(folder).asset(V294, "../../outside", 10)


def test_a_folder_that_is_a_link_out_of_the_directory_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "v2.9.4").rename(tmp_path / "outside")
    (folder / "v2.9.4").symlink_to(tmp_path / "outside")
    with pytest.raises(LeavesDirectory):
        DirectorySource(folder).fetch(V294)


@pytest.mark.parametrize("name", ["releases.json", "tags.json"])
def test_a_missing_list_names_the_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(UnreadableDirectory, match=f"{name}: it is not there"):
        DirectorySource(folder).fetch(V294)


@pytest.mark.parametrize("name", [BUNDLE, "v2.9.4/flux_2.9.4_checksums.txt"])
def test_a_missing_asset_names_the_release(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ReleaseIncomplete, match=r"v2\.9\.4 cannot be used"):
        DirectorySource(folder).fetch(V294)


def test_a_directory_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UnreadableDirectory, match="not there"):
        DirectorySource(tmp_path / "nowhere").list()


def test_a_file_in_place_of_the_directory_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnreadableDirectory):
        DirectorySource(tmp_path / "file").list()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(os.mkfifo, id="pipe"),
        pytest.param(os.mkdir, id="folder"),
        pytest.param(lambda path: path.symlink_to(path), id="circle of links"),
    ],
)
def test_what_is_no_file_is_not_waited_for(folder: Path, make: object) -> None:
    (folder / "releases.json").unlink()
    make(folder / "releases.json")  # type: ignore[operator]
    with pytest.raises(UnreadableDirectory, match=r"releases\.json"):
        DirectorySource(folder).list()


def test_a_list_without_end_is_not_read_to_its_end(folder: Path) -> None:
    with (folder / "releases.json").open("wb") as file:
        file.truncate((32 << 20) + 1)
    with pytest.raises(FileTooLarge):
        DirectorySource(folder).list()


@pytest.mark.parametrize("content", ["", "{}", "null", "[[]]", '[{"tag_name": "v2.9.4"}]', "[" * 100_000])
def test_a_hostile_list_is_an_error_of_the_source(folder: Path, content: str) -> None:
    (folder / "releases.json").write_text(content)
    with pytest.raises(InvalidReleaseList, match=r"releases\.json"):
        DirectorySource(folder).list()


def test_a_tag_cannot_lead_out_of_the_directory(folder: Path) -> None:
    releases = json.loads((folder / "releases.json").read_text())
    (folder / "releases.json").write_text(json.dumps([*releases, {**releases[0], "tag_name": "../../etc"}]))
    assert [release.version for release in DirectorySource(folder).list()] == [V294]


def test_every_failure_is_one_of_the_release_source() -> None:
    assert all(issubclass(kind, ReleaseSourceError) for kind in (FileTooLarge, LeavesDirectory, UnreadableDirectory))
