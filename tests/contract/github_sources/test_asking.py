"""What is asked of GitHub, and how often."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ci_automation.flux.release import InvalidReleaseList
from ci_automation.flux.version import Version
from ci_automation.github.errors import UnexpectedGitHubAnswer
from tests.fakes.forge import TOKEN, Fault, Forge, times
from tests.fakes.forge.described import PUBLIC
from tests.fakes.releases import SampleRelease, advisory, write_releases

if TYPE_CHECKING:
    from tests.contract.github_sources.conftest import Open

V285, V294 = Version.parse("v2.8.5"), Version.parse("v2.9.4")


def many() -> list[SampleRelease]:
    """Return 153 releases: v2.0.0 to v2.50.2, each minor's patches a day apart, and minors a hundred days."""
    return [
        SampleRelease(f"v2.{minor}.{patch}", f"{2001 + minor}-0{1 + patch}-01T00:00:00Z")
        for minor in range(51)
        for patch in range(3)
    ]


def test_a_check_that_finds_nothing_newer_is_one_small_request(github: Forge, source: Open) -> None:
    write_releases(github.published.folder, many())
    source().list(Version.parse("v2.50.2"))
    (request,) = github.requests
    assert (request.method, request.path) == ("POST", "/graphql")
    assert request.received + request.sent < 3000


def test_checksums_are_asked_for_only_where_something_is_newer(github: Forge, source: Open) -> None:
    source().list(V285)
    assert [request.path for request in github.requests] == ["/graphql", "/graphql"]
    assert "flux_2.9.4_checksums.txt" in str(github.requests[1].body)
    assert "flux_2.8.5_checksums.txt" not in str(github.requests[1].body)


def test_notes_are_asked_for_only_where_something_is_newer(github: Forge, source: Open) -> None:
    notes = {str(release.version): release.notes for release in source().list(V285)}
    assert notes["v2.9.4"] == "Release notes of v2.9.4"
    assert notes["v2.8.5"] == ""
    assert "description" not in str(github.requests[0].body)


@pytest.mark.parametrize(
    ("newer_than", "pages", "least"),
    [
        pytest.param("v2.50.2", 1, 30, id="newest"),
        pytest.param("v2.30.1", 2, 130, id="on the second page"),
        pytest.param("v2.0.0", 3, 153, id="oldest"),
        pytest.param(None, 3, 153, id="all"),
    ],
)
def test_graphql_is_paged_as_far_as_successors_can_be(
    github: Forge, source: Open, newer_than: str | None, pages: int, least: int
) -> None:
    write_releases(github.published.folder, many())
    known = Version.parse(newer_than) if newer_than else None
    listed = {release.version for release in source().list(known)}
    assert len(listed) == least
    assert sum("CREATED_AT" in str(request.body) for request in github.requests) == pages
    assert listed >= {v for sample in many() if (v := Version.parse(sample.tag)) >= (known or v)}


@pytest.mark.parametrize(("newer_than", "pages"), [("v2.50.2", 1), ("v2.18.0", 1), ("v2.10.2", 2), (None, 2)])
def test_rest_is_paged_as_far_as_successors_can_be(
    github: Forge, source: Open, newer_than: str | None, pages: int
) -> None:
    write_releases(github.published.folder, many())
    known = Version.parse(newer_than) if newer_than else None
    listed = {release.version for release in source(None).list(known)}
    assert len(github.requests) == pages
    assert listed >= {v for sample in many() if (v := Version.parse(sample.tag)) >= (known or v)}


def test_a_patch_that_is_older_than_the_present_release_is_found_on_a_later_page(github: Forge, source: Open) -> None:
    """2.8.5 was published after 2.9.0: with enough releases in between, 2.9.0 is not on the first page."""
    between = [SampleRelease(f"v2.7.{patch}", f"2026-05-{patch:02}T00:00:00Z") for patch in range(1, 29)]
    late = [SampleRelease("v2.8.5", "2026-06-02T00:00:00Z"), SampleRelease("v2.8.4", "2026-06-01T00:00:00Z"), *between]
    early = [SampleRelease("v2.9.0", "2026-03-01T00:00:00Z"), SampleRelease("v2.8.0", "2026-02-01T00:00:00Z")]
    write_releases(github.published.folder, [*late, *early])
    assert source().list(V285)[0].version == Version.parse("v2.9.0")


def test_rest_out_of_order_is_read_to_its_end(github: Forge, source: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    write_releases(github.published.folder, many())
    listed = github.published.listed
    monkeypatch.setattr(github.published, "listed", lambda: [*reversed(listed())])
    assert source(None).list(Version.parse("v2.0.0"))[0].version == Version.parse("v2.50.2")
    assert len(github.requests) == 2


def test_a_list_without_end_is_given_up(github: Forge, source: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci_automation.flux.sources.github._MAX_PAGES", 2)
    write_releases(
        github.published.folder, [SampleRelease(f"v3.{n}.1", f"{2000 + n}-01-01T00:00:00Z") for n in range(300)]
    )
    for token in (TOKEN, None):
        with pytest.raises(InvalidReleaseList, match="more than 2 pages"):
            source(token).list()


def test_advisories_cost_one_request_and_are_those_about_flux(github: Forge, source: Open) -> None:
    known = [advisory(1, {"source-controller": "< 1.9.1"}), advisory(2, {"pkg": "< 1.0.0"})]
    assert source().advisories() == ()
    (github.published.folder / "advisories.json").write_text(json.dumps(known))
    github.requests.clear()
    assert [it.id for it in source(None).advisories()] == ["CVE-2026-0001"]
    assert len(github.requests) == 1


def test_a_list_is_not_sent_twice_in_a_run(github: Forge, source: Open) -> None:
    releases = source(None)
    first, second = releases.list(), releases.list()
    assert first == second
    assert [request.status for request in github.requests] == [200, 304]
    assert github.requests[1].headers["if-none-match"].startswith('W/"')


def test_a_list_that_changed_in_a_run_is_read_anew(github: Forge, source: Open) -> None:
    releases = source(None)
    releases.list()
    write_releases(github.published.folder, [SampleRelease("v2.10.0")])
    assert releases.list()[0].version == Version.parse("v2.10.0")
    assert [request.status for request in github.requests] == [200, 200]


def test_a_lightweight_tag_is_its_commit(github: Forge, source: Open) -> None:
    github.published.annotated = False
    assert source().fetch(V294).commit == SampleRelease("v2.9.4").commit


def test_a_tag_of_a_tag_without_end_is_given_up(github: Forge, source: Open) -> None:
    github.faults = [times(99, Fault(200, {"object": {"type": "tag", "sha": "a" * 40}}), part="/git/")]
    with pytest.raises(UnexpectedGitHubAnswer, match="without end"):
        source().fetch(V294)


@pytest.mark.parametrize("flavour", [PUBLIC, "ghes"])
def test_the_address_may_end_with_a_slash(github: Forge, source: Open, flavour: str) -> None:
    with Forge(flavour, github.releases) as other:
        releases = source(url=f"{other.url}/")
        assert releases.fetch(releases.list()[0].version).release.version == V294
        assert other.requests[0].path == "/graphql"


def test_a_list_without_an_etag_is_read_anew(github: Forge, source: Open) -> None:
    releases = source(None)
    github.faults = [times(1, Fault(200, json.dumps(github.published.listed()).encode()))]
    assert releases.list() == releases.list()
    assert "if-none-match" not in github.requests[1].headers
