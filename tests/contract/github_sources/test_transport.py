"""Answers without end, servers that are none, and downloads that lead astray."""

from __future__ import annotations

import importlib
import socket
from typing import TYPE_CHECKING

import pytest

from ci_automation.flux.version import Version
from ci_automation.github import client as client_module
from ci_automation.github import waiting
from ci_automation.github.client import GitHub
from ci_automation.github.errors import GitHubAnswerTooLarge, GitHubUnreachable, UnexpectedGitHubAnswer
from ci_automation.net import session
from ci_automation.net.values import Answer
from tests.fakes.forge import RESET, TOKEN, Fault, Forge, times

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.flux.sources.github import GitHubSource
    from tests.contract.github_sources.conftest import Open

V285, V294 = Version.parse("v2.8.5"), Version.parse("v2.9.4")


def test_an_answer_without_end_is_not_read_to_its_end(
    github: Forge, source: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_MAX_ANSWER_BYTES", 100_000)
    github.faults = [times(1, Fault(200, [" " * 1_000_000]))]  # a kilobyte on the wire
    with pytest.raises(GitHubAnswerTooLarge, match="more than 100000 bytes"):
        source(None).list()
    assert github.requests[0].sent < 10_000


def test_headers_without_end_are_not_looked_at(github: Forge, source: Open) -> None:
    many = {f"Link-{number}": "<" * 1000 for number in range(70)}
    github.faults = [times(1, Fault(200, [], many))]
    with pytest.raises(GitHubAnswerTooLarge, match=r"the header of GET .* has more than 65536 bytes"):
        source(None).list()


def test_a_redirect_without_end_is_not_read_to_its_end(github: Forge, source: Open) -> None:
    github.faults = [times(1, Fault(302, bytes(1 << 20), {"Location": "/"}), part="/releases/assets/")]
    with pytest.raises(GitHubAnswerTooLarge, match="more than 65536 bytes"):
        source().fetch(V294)


def test_an_answer_that_drips_is_given_up(source: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LONGEST_ANSWER", -1.0)
    with pytest.raises(GitHubUnreachable, match="took longer than is allowed"):
        source(None).list()


def test_a_server_that_says_nothing_is_given_up(
    source: Open, waited: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "READ_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        releases = source(None, f"http://127.0.0.1:{mute.getsockname()[1]}")
        with pytest.raises(GitHubUnreachable, match="it does not answer in time"):
            releases.list()
    assert len(waited) == 3


@pytest.mark.parametrize(
    "ask",
    [
        lambda it: it.list(),
        lambda it: it.fetch(V285),
        lambda it: it.asset(V285, "manifests.tar.gz", 1),
        lambda it: it.advisories(),
    ],
    ids=["list", "fetch", "asset", "advisories"],
)
def test_of_a_server_that_is_not_there_it_says_so_and_how_to_do_without(
    source: Open, ask: Callable[[GitHubSource], object]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(GitHubUnreachable, match="nothing listens there") as caught:
        ask(source(None, f"http://127.0.0.1:{port}"))
    assert caught.value.hint.startswith(GitHubUnreachable.hint)
    assert caught.value.hint.count("--releases FOLDER, a folder that `mirror` filled") == 1


def test_a_server_without_tls_is_not_asked_again(github: Forge, source: Open, waited: list[float]) -> None:
    with pytest.raises(GitHubUnreachable, match="TLS"):
        source(url=github.url.replace("http:", "https:")).list()
    assert waited == []
    assert github.requests == []


@pytest.mark.parametrize(
    ("location", "why"),
    [
        pytest.param("http://store.example.com/x", "not https://", id="without TLS"),
        pytest.param("file:///etc/passwd", "not https://", id="a file"),
        pytest.param("https://user:word@store.example.com/", "not https://", id="with a password"),
        pytest.param("//[", "not https://", id="no address"),
        pytest.param("", "redirected more than 5 times", id="itself"),
    ],
)
def test_a_download_does_not_follow_a_redirect_anywhere(github: Forge, source: Open, location: str, why: str) -> None:
    github.faults = [times(99, Fault(302, b"", {"Location": location}), part="/releases/assets/")]
    with pytest.raises(UnexpectedGitHubAnswer, match=why):
        source().fetch(V294)
    assert {request.host for request in github.requests} == {"api"}


def test_a_real_github_cannot_redirect_a_download_to_this_machine() -> None:
    client = GitHub(TOKEN, "https://api.github.com")
    reply = Answer(302, {"location": "https://127.0.0.1/secret"}, b"")
    with pytest.raises(UnexpectedGitHubAnswer, match="this machine"):
        client._redirected("https://api.github.com/x", reply, "the download")


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_store_that_refuses_is_not_blamed_on_the_token(github: Forge, source: Open, status: int) -> None:
    github.faults = [times(1, Fault(status, b"<Error>"), part="sig=canary-store")]
    with pytest.raises(UnexpectedGitHubAnswer) as caught:
        source().fetch(V294)
    assert "sig=" not in str(caught.value)
    assert "token" not in str(caught.value)


def test_an_unreachable_store_does_not_show_its_signed_address(github: Forge, source: Open) -> None:
    github.faults = [times(99, RESET, part="sig=canary-store")]
    with pytest.raises(GitHubUnreachable) as caught:
        source().fetch(V294)
    assert "sig=" not in str(caught.value)


@pytest.mark.parametrize("failure", ["AssertionError", "GithubException"])
def test_what_pygithub_raises_is_an_error_of_ours(source: Open, monkeypatch: pytest.MonkeyPatch, failure: str) -> None:
    raised = AssertionError() if failure == "AssertionError" else importlib.import_module("github").GithubException(500)

    def fail(*_: object) -> None:
        raise raised

    releases = source()
    monkeypatch.setattr(releases._client._requester, "requestJson", fail)
    with pytest.raises(UnexpectedGitHubAnswer, match=failure):
        releases.list()


def test_an_answer_that_cannot_be_unpacked_is_an_error(github: Forge, source: Open) -> None:
    github.faults = [times(99, Fault(200, b"no gzip", {"Content-Encoding": "gzip"}))]
    with pytest.raises(GitHubUnreachable, match="cannot be unpacked"):
        source(None).list()


def test_a_proxy_that_is_not_there_is_said_so(source: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        proxy = f"http://127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setenv("https_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(GitHubUnreachable, match="the proxy on the way to it fails"):
        source(url="https://api.github.example").list()


def test_a_name_that_is_none_is_said_so(source: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def unresolved(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "api.github.example?sig=canary-store")

    monkeypatch.setattr(socket, "getaddrinfo", unresolved)
    with pytest.raises(GitHubUnreachable, match=r"its host name cannot be resolved \(DNS\)$"):
        source(url="https://api.github.example").list()
