"""GitHub on loopback, and the source that reads it, on a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from ci_automation.flux.sources.github import GitHubSource
from ci_automation.github.client import GitHub
from ci_automation.github.waiting import GitHubPatience
from ci_automation.net.waiting import Clock
from tests.fakes.forge import TOKEN, Forge
from tests.fakes.releases import SampleRelease, write_releases

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_790_000_000  # where the clock stands still
Open = Callable[..., GitHubSource]


@pytest.fixture
def github(tmp_path: Path) -> Iterator[Forge]:
    """Yield GitHub with two releases."""
    folder = write_releases(
        tmp_path / "releases",
        [SampleRelease("v2.9.4", "2026-08-07T14:22:55Z"), SampleRelease("v2.8.5", "2026-04-07T17:31:53Z")],
    )
    with Forge(releases=folder) as running:
        yield running


@pytest.fixture
def waited() -> list[float]:
    """Return how many seconds were waited, each time."""
    return []


@pytest.fixture
def source(github: Forge, waited: list[float]) -> Iterator[Open]:
    """Yield the function that opens the source, with a token or without, on a clock that stands still."""
    clients = []

    def opened(token: str | None = TOKEN, url: str | None = None, repository: str = "fluxcd/flux2") -> GitHubSource:
        patience = GitHubPatience(clock=Clock(sleep=waited.append, now=lambda: NOW))
        clients.append(GitHub(token, url or github.url, patience=patience))
        return GitHubSource(clients[-1], repository)

    yield opened
    for client in clients:
        client.close()
