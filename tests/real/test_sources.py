"""The releases of Flux as they are, from the directory and through the double of GitHub."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.flux.proof import is_known
from ci_automation.flux.render import render
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.flux.sources.github import GitHubSource
from ci_automation.github.client import GitHub
from tests.fakes.forge import TOKEN, Forge
from tests.real import make_known

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ci_automation.flux.release import ReleaseSource

NUMBER = 23


@pytest.fixture
def github(flux_releases: Path) -> Iterator[Forge]:
    """Yield GitHub with the releases of Flux."""
    with Forge(releases=flux_releases) as running:
        running.limits.anonymous = 5000  # each release is fetched without a token
        yield running


@pytest.fixture(params=["directory", "REST", "GraphQL"])
def source(request: pytest.FixtureRequest, flux_releases: Path, github: Forge) -> Iterator[ReleaseSource]:
    """Yield each source of the same releases."""
    client = GitHub(TOKEN if request.param == "GraphQL" else None, github.url)
    yield DirectorySource(flux_releases) if request.param == "directory" else GitHubSource(client)
    client.close()


def test_every_release_is_listed_fetched_and_known(source: ReleaseSource) -> None:
    listed = source.list()
    assert len(listed) == NUMBER
    for release in listed:
        assert release.problem is None
        fetched = source.fetch(release.version)
        assert fetched.release == release
        assert is_known(fetched.bundle, release.version)


def test_the_sources_agree(flux_releases: Path, github: Forge) -> None:
    directory = DirectorySource(flux_releases)
    client = GitHub(TOKEN, github.url)
    through_github = GitHubSource(client)
    assert through_github.list() == directory.list()
    for release in directory.list():
        one, other = directory.fetch(release.version), through_github.fetch(release.version)
        assert (one.commit, one.bundle.digest) == (other.commit, other.bundle.digest)
    client.close()


@pytest.mark.parametrize(
    ("present", "most"),
    [pytest.param(0, 1, id="nothing newer"), pytest.param(6, 2, id="patches and a minor newer")],
)
def test_a_check_costs_little(flux_releases: Path, github: Forge, present: int, most: int) -> None:
    version = DirectorySource(flux_releases).list()[present].version
    client = GitHub(TOKEN, github.url)
    GitHubSource(client).list(version)
    client.close()
    total = sum(request.received + request.sent for request in github.requests)
    print(f"\nlist({version}): {len(github.requests)} requests, {total} bytes on the wire")
    for request in github.requests:
        print(f"  {request.method} {request.path} {request.status}: {request.received} out, {request.sent} in")
    assert len(github.requests) == most
    assert total < 3000


def test_the_table_of_known_releases_is_what_was_proven(flux_releases: Path, golden: Path) -> None:
    proven = make_known.known(flux_releases, golden)
    assert len(proven) == NUMBER
    assert make_known.TABLE.read_text() == make_known.written(proven, make_known.samples())


def test_a_release_that_renders_otherwise_is_not_proven(
    flux_releases: Path, golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = str(DirectorySource(flux_releases).list()[0].version)
    monkeypatch.setattr(
        make_known,
        "render",
        lambda bundle, version, options: render(bundle, version, options) + " " * (str(version) == tag),
    )
    assert tag not in make_known.known(flux_releases, golden).values()
