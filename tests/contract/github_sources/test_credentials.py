"""Whom the token is shown to, and who never sees it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
import requests

from ci_automation.flux.release import InvalidReleaseList
from ci_automation.flux.sources.github import RepositoryNotFound
from ci_automation.flux.version import Version
from ci_automation.github.client import GitHub
from ci_automation.github.errors import InvalidApiUrl, InvalidRepositoryName, InvalidToken
from ci_automation.net.network import Network
from ci_automation.net.session import Session
from tests.fakes.forge import TOKEN, Fault, Forge, times

if TYPE_CHECKING:
    from pathlib import Path

    from tests.contract.github_sources.conftest import Open

V285, V294 = Version.parse("v2.8.5"), Version.parse("v2.9.4")


def test_the_token_goes_to_the_api_alone(github: Forge, source: Open) -> None:
    source().fetch(V294)
    sent = {request.host: request.headers.get("authorization") for request in github.requests}
    assert sent == {"api": f"token {TOKEN}", "assets": None}


def test_nobody_has_no_credential(github: Forge, source: Open) -> None:
    releases = source(None)
    releases.list()
    releases.fetch(V294)
    assert not any("authorization" in request.headers for request in github.requests)


def test_netrc_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login someone password canary-netrc\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with Session(Network.from_environment({})) as session:
        request = session.prepare_request(requests.Request("GET", "https://api.github.example/"))
    assert "Authorization" not in request.headers


def test_what_is_on_this_machine_is_not_asked_of_a_proxy(source: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert source().fetch(V294).release.version == V294


def test_cookies_are_not_kept(github: Forge, source: Open) -> None:
    releases = source(None)
    github.faults = [times(1, Fault(200, [], {"Set-Cookie": "session=1; Path=/"}))]
    with pytest.raises(InvalidReleaseList):
        releases.list()
    releases.list()
    assert "cookie" not in github.requests[-1].headers


def test_nothing_secret_is_logged(source: Open, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        releases = source()
        releases.list()
        releases.fetch(V294)
    assert TOKEN not in caplog.text
    assert "sig=canary-store" not in caplog.text


@pytest.mark.parametrize("token", ["", "ghs_a\n", "ghs a", "ghs_ä", "a\r\nX: y", "a" * 5000])
def test_a_token_that_is_none_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(InvalidToken, match="GITHUB_TOKEN") as caught:
        GitHub(token)
    assert not token or token not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://api.github.com",
        "http://127.0.0.1.example.com",
        "ftp://api.github.com",
        "api.github.com",
        "https://",
        "https://host:port",
        "https://user:canary-hunter2@api.github.com",
        "https://api.github.com?x=1",
        "https://api.github.com#x",
        "",
    ],
)
def test_an_address_that_a_token_must_not_go_to_is_refused(url: str) -> None:
    with pytest.raises(InvalidApiUrl) as caught:
        GitHub(TOKEN, url)
    assert "canary-hunter2" not in str(caught.value)


@pytest.mark.parametrize("repository", ["", "flux2", "a/b/c", "../x", "a/..", "a/b?x", "a b/c", "a/b\n", "-a/b"])
def test_a_repository_that_is_none_is_refused(source: Open, repository: str) -> None:
    with pytest.raises(InvalidRepositoryName):
        source(repository=repository)


@pytest.mark.parametrize("token", [TOKEN, None], ids=["GraphQL", "REST"])
def test_a_repository_that_is_not_there_is_said_so(source: Open, token: str | None) -> None:
    with pytest.raises(RepositoryNotFound, match="acme/nothing"):
        source(token, repository="acme/nothing").list()
