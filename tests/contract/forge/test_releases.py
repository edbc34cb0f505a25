"""Releases beside the repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_automation.flux.sources.github import GitHubSource
from ci_automation.github.client import GitHub
from tests.fakes.forge import Forge
from tests.fakes.releases import SampleRelease, write_releases

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("flavour", ["api.github.com", "ghes"])
@pytest.mark.parametrize("with_token", [True, False], ids=["with a token", "without"])
def test_releases_are_served_beside_the_repository(tmp_path: Path, flavour: str, with_token: bool) -> None:
    release = SampleRelease("v2.9.4")
    write_releases(tmp_path, [release])
    with Forge(flavour, tmp_path) as forge:
        token = forge.token("actions", "acme/fleet", {"contents": "read"}) if with_token else None
        client = GitHub(token, forge.url)
        (found,) = GitHubSource(client).list()
        assert GitHubSource(client).fetch(found.version).commit == release.commit
        client.close()
        assert len(forge.requests) >= 2
