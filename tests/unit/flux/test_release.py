"""What a list of releases says, what is wrong with a release, and the proof of its files."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from ci_automation.flux.bundle import (
    MAX_CHECKSUMS_BYTES,
    ChecksumMismatch,
    InvalidChecksums,
    ReleaseFiles,
    checksums_name,
    parse_checksums,
    program_name,
    verify_checksums,
    verify_file,
)
from ci_automation.flux.listing import NOT_PUBLISHED, Listing, is_draft, releases, successors_complete, usable
from ci_automation.flux.release import (
    InvalidReleaseList,
    Release,
    ReleaseIncomplete,
    ReleaseNotFound,
    UnknownCommit,
    collected_files,
    newest_of_minors,
    open_release,
)
from ci_automation.flux.version import Version, read_version
from tests.fakes.releases import SampleRelease
from tests.fakes.world import MemoryReleases

DATE = "2026-08-07T14:22:55Z"
V = Version.parse("v2.9.4")
SAMPLE = SampleRelease("v2.9.4")
CHECKSUMS = SAMPLE.assets["flux_2.9.4_checksums.txt"]
SHA = "0123456789abcdef" * 4


def listed(tag: str, date: str | None = DATE, *, draft: bool = False, without: str = "") -> Listing:
    names = {"manifests.tar.gz", f"flux_{tag[1:]}_checksums.txt", "install.yaml"}
    return Listing(tag, date, draft, prerelease=False, assets=frozenset(names - {without}))


def test_releases_come_newest_version_first_whatever_their_order_was() -> None:
    found = releases([listed("v2.8.8"), listed("v2.10.0"), listed("v2.9.4-rc.1"), listed("v2.9.4")], "here")
    assert [str(release.version) for release in found] == ["v2.10.0", "v2.9.4", "v2.9.4-rc.1", "v2.8.8"]


def test_a_complete_release_has_no_problem() -> None:
    assert releases([listed("v2.9.4")], "here") == (Release(V, datetime(2026, 8, 7, 14, 22, 55, tzinfo=UTC)),)


def test_a_release_is_the_same_with_and_without_its_notes() -> None:
    (release,) = releases([listed("v2.9.4")], "here")
    assert {release, replace(release, notes="a fix")} == {release}
    assert release != replace(release, prerelease=True)


@pytest.mark.parametrize(
    ("listing", "problem"),
    [
        pytest.param(listed("v2.9.4", draft=True), "draft", id="draft"),
        pytest.param(listed("v2.9.4", without="manifests.tar.gz"), "no manifests.tar.gz", id="no bundle"),
        pytest.param(
            listed("v2.9.4", without="flux_2.9.4_checksums.txt"), "no flux_2.9.4_checksums.txt", id="no checksums"
        ),
        pytest.param(
            Listing("v2.9.4", DATE, draft=False, prerelease=False, assets=frozenset({"flux_2.9.3_checksums.txt"})),
            "no manifests.tar.gz and no flux_2.9.4_checksums.txt",
            id="checksums of another release only",
        ),
    ],
)
def test_a_release_that_cannot_be_taken_says_why(listing: Listing, problem: str) -> None:
    (release,) = releases([listing], "here")
    assert release.problem is not None
    assert problem in release.problem


def test_a_draft_without_a_date_is_never_old_enough() -> None:
    (release,) = releases([listed("v2.9.4", None, draft=True)], "here")
    assert release.published_at == NOT_PUBLISHED


@pytest.mark.parametrize("tags", [("draft", "published"), ("published", "draft")], ids=" then ".join)
def test_a_published_release_counts_more_than_a_draft_of_the_same_tag(tags: tuple[str, ...]) -> None:
    (release,) = releases([listed("v2.9.4", draft=tag == "draft") for tag in tags], "here")
    assert not is_draft(release)


def test_a_published_and_whole_release_is_usable() -> None:
    found = releases([listed("v2.9.4"), listed("v2.9.3")], "here")
    assert usable(found, V, "here", MemoryReleases()).version == V


def test_neither_a_draft_nor_another_version_is_usable() -> None:
    for listing in (listed("v2.9.4", draft=True), listed("v2.9.3")):
        with pytest.raises(ReleaseNotFound, match=r"here has no release v2\.9\.4"):
            usable(releases([listing], "here"), V, "here", MemoryReleases())


def test_a_release_that_lacks_a_file_is_not_usable() -> None:
    found = releases([listed("v2.9.4", without="manifests.tar.gz")], "here")
    with pytest.raises(ReleaseIncomplete, match=r"no manifests\.tar\.gz"):
        usable(found, V, "here", MemoryReleases())


def test_two_drafts_of_a_tag_are_one() -> None:
    assert len(releases([listed("v2.9.4", draft=True), listed("v2.9.4", draft=True)], "here")) == 1


@pytest.mark.parametrize(
    ("tag", "version"),
    [
        pytest.param("v2.9.4", V, id="release"),
        pytest.param("v2.9.0-rc.1", Version.parse("2.9.0-rc.1"), id="candidate"),
        pytest.param("2.9.4", None, id="without v"),
        pytest.param("v2.9", None, id="two numbers"),
        pytest.param("kustomize/v2.9.4", None, id="of a part"),
        pytest.param("v2.9.4+build", None, id="with a build"),
        pytest.param("../v2.9.4", None, id="path"),
        pytest.param("v2.9.4\n", None, id="line break"),
        pytest.param("", None, id="empty"),
    ],
)
def test_only_tags_of_releases_are_versions(tag: str, version: Version | None) -> None:
    assert read_version(tag) == version


@pytest.mark.parametrize(
    "listings",
    [
        pytest.param([], id="empty"),
        pytest.param([listed("nightly")], id="no release of Flux"),
        pytest.param([listed("v2.9.4"), listed("v2.9.4")], id="the same twice"),
        pytest.param([listed("v2.9.4", None)], id="published without a date"),
        pytest.param([listed("v2.9.4", "2026-08-07")], id="a date without time"),
        pytest.param([listed("v2.9.4", "2026-08-07T14:22:55")], id="a date without zone"),
        pytest.param([listed("v2.9.4", "2026-13-07T14:22:55Z")], id="month 13"),
        pytest.param([listed("v2.9.4", "0001-01-01T00:00:00+14:00")], id="before the first year"),
        pytest.param([listed("v2.9.4", "2026-W32-5T14:22:55Z")], id="week date"),
        pytest.param([listed("nightly")] * 10_001, id="without end"),
    ],
)
def test_a_list_that_is_none_is_refused(listings: list[Listing]) -> None:
    with pytest.raises(InvalidReleaseList, match="here has no usable list"):
        releases(listings, "here")


def test_dates_are_in_utc() -> None:
    (release,) = releases([listed("v2.9.4", "2026-08-07T16:22:55.5+02:00")], "here")
    assert release.published_at == datetime(2026, 8, 7, 14, 22, 55, 500000, tzinfo=UTC)
    assert release.published_at.tzinfo is UTC


@pytest.mark.parametrize(
    ("seen", "newer_than", "complete"),
    [
        pytest.param(["2.9.4", "2.8.5"], "2.8.5", False, id="reached itself, but 2.9.0 may be older"),
        pytest.param(["2.9.4", "2.8.5", "2.9.0"], "2.8.5", False, id="a later minor says nothing"),
        pytest.param(["2.9.4", "2.7.5"], "2.8.5", False, id="an earlier minor's patch may be young"),
        pytest.param(["2.9.4", "2.8.0"], "2.8.5", True, id="its minor's first"),
        pytest.param(["2.9.4", "2.8.0-rc.2"], "2.8.5", True, id="a candidate of its minor"),
        pytest.param(["2.9.4", "2.7.0"], "2.8.5", True, id="an earlier minor's first"),
        pytest.param(["2.9.0"], "2.9.0", True, id="itself the first"),
        pytest.param(["2.9.0", "2.9.0-rc.2"], "2.9.0-rc.1", False, id="a later candidate"),
        pytest.param(["2.9.0", "2.9.0-rc.1"], "2.9.0-rc.1", True, id="itself a candidate"),
        pytest.param([], "2.9.0", False, id="nothing"),
        pytest.param(["2.9.0"], None, False, id="all are wanted"),
    ],
)
def test_paging_stops_where_no_successor_can_follow(seen: list[str], newer_than: str | None, complete: bool) -> None:
    assert successors_complete(map(Version.parse, seen), newer_than and Version.parse(newer_than)) is complete  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "names"),
    [
        pytest.param(f"{SHA}  a.tar.gz\n{SHA}  b.tar.gz\n", {"a.tar.gz", "b.tar.gz"}, id="as upstream writes it"),
        pytest.param(f"{SHA}  a.tar.gz", {"a.tar.gz"}, id="without a last line break"),
        pytest.param(f"{SHA} *a.tar.gz\n", {"a.tar.gz"}, id="binary mark"),
    ],
)
def test_checksums_are_read(data: str, names: set[str]) -> None:
    assert parse_checksums(V, data.encode()) == dict.fromkeys(names, SHA)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"<html>", id="HTML"),
        pytest.param(f"{SHA}  a\n{SHA}  a\n".encode(), id="a name twice"),
        pytest.param(f"{SHA}  a\n\n".encode(), id="an empty line"),
        pytest.param(f"{SHA}  a\r\n".encode(), id="a carriage return"),
        pytest.param(f"{SHA.upper()}  a\n".encode(), id="upper case"),
        pytest.param(f"{SHA[1:]}  a\n".encode(), id="too short"),
        pytest.param(f"{SHA} a\n".encode(), id="one space"),
        pytest.param(f"{SHA}  a b\n".encode(), id="two names"),
        pytest.param(f"{SHA}  a\x00\n".encode(), id="NUL"),
        pytest.param(f"{SHA}  ä\n".encode(), id="not ASCII"),
        pytest.param(b"\xff\xfe", id="not text"),
        pytest.param(b"a" * (MAX_CHECKSUMS_BYTES + 1), id="without end"),
    ],
)
def test_checksums_that_are_none_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidChecksums, match=r"flux_2\.9\.4_checksums\.txt of v2\.9\.4"):
        parse_checksums(V, data)


def test_the_checksums_file_has_no_v_in_its_name() -> None:
    assert checksums_name(Version.parse("v2.10.0-rc.1")) == "flux_2.10.0-rc.1_checksums.txt"


def test_every_byte_of_the_bundle_counts() -> None:
    verify_checksums(V, ReleaseFiles(CHECKSUMS, SAMPLE.bundle))
    for position in (0, len(SAMPLE.bundle) // 2, len(SAMPLE.bundle) - 1):
        damaged = bytearray(SAMPLE.bundle)
        damaged[position] ^= 1
        with pytest.raises(ChecksumMismatch):
            verify_checksums(V, ReleaseFiles(CHECKSUMS, bytes(damaged)))
    for other in (SAMPLE.bundle[:-1], SAMPLE.bundle + b"\0", b""):
        with pytest.raises(ChecksumMismatch):
            verify_checksums(V, ReleaseFiles(CHECKSUMS, other))


def test_checksums_without_a_file_prove_nothing_of_it() -> None:
    checksums = f"{SHA}  install.yaml\n".encode()
    with pytest.raises(ChecksumMismatch, match=r"do not list manifests\.tar\.gz"):
        verify_checksums(V, ReleaseFiles(checksums, SAMPLE.bundle))
    with pytest.raises(ChecksumMismatch, match=rf"do not list flux_{V.semver}_linux_arm64\.tar\.gz"):
        verify_file(V, checksums, program_name(V, "linux_arm64"), b"")


def test_a_proven_release_is_opened() -> None:
    release = Release(V, datetime(2026, 8, 7, tzinfo=UTC))
    fetched = open_release(release, ReleaseFiles(CHECKSUMS, SAMPLE.bundle), SAMPLE.commit)
    assert (fetched.release, fetched.commit) == (release, SAMPLE.commit)
    assert fetched.bundle.components == ("source-controller",)


@pytest.mark.parametrize("commit", ["", "main", "A" * 40, "0" * 39, "0" * 41, "0" * 40 + "\n"])
def test_what_is_not_a_commit_is_refused(commit: str) -> None:
    release = Release(V, datetime(2026, 8, 7, tzinfo=UTC))
    with pytest.raises(UnknownCommit):
        open_release(release, ReleaseFiles(CHECKSUMS, SAMPLE.bundle), commit)


@pytest.mark.parametrize(
    ("parts", "signed"), [({}, False), ({"signature": b"x"}, True), ({"certificate": b"x"}, True)], ids=str
)
def test_files_with_any_part_of_a_signature_count_as_signed(parts: dict[str, bytes], *, signed: bool) -> None:
    assert ReleaseFiles(CHECKSUMS, SAMPLE.bundle, **parts).is_signed is signed


def test_a_release_that_cannot_be_had_is_named() -> None:
    assert str(ReleaseNotFound(V, "GitHub", lambda _: ())) == "GitHub has no release v2.9.4"
    assert str(ReleaseIncomplete(V, "no install.yaml")) == "v2.9.4 cannot be used: no install.yaml"


def test_a_list_that_cannot_be_had_leaves_out_the_neighbours_alone() -> None:
    def fails(_: Version) -> tuple[Release, ...]:
        raise InvalidReleaseList("GitHub", "it is empty")

    assert str(ReleaseNotFound(V, "GitHub", fails)) == "GitHub has no release v2.9.4"


def test_a_release_that_cannot_be_used_is_no_neighbour() -> None:
    asked: list[Version] = []

    def listed(newer_than: Version) -> list[Release]:
        asked.append(newer_than)
        names = {"v2.9.2": None, "v2.9.3": "it has no files", "v2.9.5": None, "v2.10.0": None}
        return [Release(Version.parse(name), NOT_PUBLISHED, problem=problem) for name, problem in names.items()]

    assert str(ReleaseNotFound(V, "GitHub", listed)).endswith("no release v2.9.4; the nearest are v2.9.2 and v2.9.5")
    assert asked == [Version.parse("v2.8.0")]


def test_the_files_of_a_release_are_collected_by_their_names() -> None:
    version = Version.parse("v2.9.4")
    checksums = "flux_2.9.4_checksums.txt"
    there = {"manifests.tar.gz": b"bundle", checksums: b"sums", f"{checksums}.sig": b"sig"}
    asked: dict[str, int] = {}

    def asset(_: Version, name: str, limit: int) -> bytes | None:
        asked[name] = limit
        return there.get(name)

    files = collected_files(version, asset, "here")
    assert (files.bundle, files.checksums, files.signature) == (b"bundle", b"sums", b"sig")
    assert (files.certificate, files.log_entry) == (None, None)
    assert all(limit > 0 for limit in asked.values())
    del there["manifests.tar.gz"]
    with pytest.raises(ReleaseIncomplete, match=r"here has no manifests\.tar\.gz"):
        collected_files(version, asset, "here")


@pytest.mark.parametrize(
    ("newest", "taken"),
    [
        pytest.param(None, ["v2.7.5", "v2.8.8", "v2.9.4"], id="the newest of each of the last three minors"),
        pytest.param("v2.8.7", ["v2.8.8", "v2.9.3", "v2.9.4"], id="each that is newer than what is there"),
    ],
)
def test_a_mirror_takes_what_can_be_taken_the_oldest_first(newest: str | None, taken: list[str]) -> None:
    tags = ("v2.10.0-rc.1", "v2.9.4", "v2.9.3", "v2.8.8", "v2.8.7", "v2.7.5", "v2.6.9")
    unusable = Release(Version.parse("v2.9.5"), datetime(2026, 8, 7, tzinfo=UTC), problem="it has no checksums")
    offered = [*releases([listed(tag) for tag in tags], "here"), unusable]
    found = newest_of_minors(offered, Version.parse(newest) if newest else None)
    assert [str(version) for version in found] == taken
