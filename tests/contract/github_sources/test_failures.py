"""What becomes of each way in which GitHub can fail: waited for, or one clear error."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from ci_automation.errors import Error, ReleaseSourceError
from ci_automation.flux.version import Version
from ci_automation.github.errors import GitHubDenied, GitHubUnreachable, RateLimited, UnexpectedGitHubAnswer
from tests.contract.github_sources.conftest import NOW
from tests.fakes.forge import RESET, TOKEN, Fault, Forge, times

if TYPE_CHECKING:
    from tests.contract.github_sources.conftest import Open

V285, V294 = Version.parse("v2.8.5"), Version.parse("v2.9.4")


@pytest.mark.parametrize("token", [TOKEN, None], ids=["GraphQL", "REST"])
@pytest.mark.parametrize(
    "response",
    [
        pytest.param(RESET, id="reset"),
        pytest.param(Fault(500), id="500"),
        pytest.param(Fault(502, b"<html>"), id="502"),
        pytest.param(Fault(503), id="503"),
        pytest.param(Fault(504), id="504"),
        pytest.param(Fault(200, [], cut=1), id="cut off"),
    ],
)
def test_a_passing_failure_is_overcome(
    github: Forge, source: Open, waited: list[float], token: str | None, response: Fault
) -> None:
    github.faults = [times(3, response)]
    assert source(token).list(V294)[0].version == V294
    assert waited == [1, 2, 4]


@pytest.mark.parametrize("part", ["/releases/assets/", "sig=canary-store"], ids=["at the API", "at the store"])
@pytest.mark.parametrize("response", [RESET, Fault(503), Fault(200, b"x", cut=1)], ids=["reset", "503", "cut"])
def test_a_passing_failure_of_a_download_is_overcome(
    github: Forge, source: Open, waited: list[float], part: str, response: Fault
) -> None:
    github.faults = [times(2, response, part=part)]
    assert source().fetch(V294).release.version == V294
    assert waited == [1, 2]


@pytest.mark.parametrize("token", [TOKEN, None], ids=["GraphQL", "REST"])
@pytest.mark.parametrize(
    ("response", "error"),
    [
        pytest.param(RESET, GitHubUnreachable, id="reset"),
        pytest.param(Fault(502, b"<html>"), UnexpectedGitHubAnswer, id="502"),
        pytest.param(Fault(429), RateLimited, id="429 without a word"),
    ],
)
def test_a_lasting_failure_is_given_up_after_four_attempts(
    github: Forge, source: Open, token: str | None, response: Fault, error: type[Error]
) -> None:
    github.faults = [times(99, response)]
    with pytest.raises(error):
        source(token).list(V294)
    assert len(github.requests) == (1 if error is RateLimited else 4)


def limited(status: int, message: str = "no", **headers: str) -> Fault:
    return Fault(status, {"message": message}, {name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize("token", [TOKEN, None], ids=["GraphQL", "REST"])
@pytest.mark.parametrize(
    ("response", "waits"),
    [
        pytest.param(limited(429, Retry_After="7"), 7, id="429 with Retry-After"),
        pytest.param(limited(403, Retry_After="7"), 7, id="403 with Retry-After"),
        pytest.param(limited(503, Retry_After="7"), 7, id="503 with Retry-After"),
        pytest.param(
            limited(403, X_RateLimit_Remaining="0", X_RateLimit_Reset=str(NOW + 6)), 7, id="the hour is nearly over"
        ),
    ],
)
def test_a_short_wait_that_github_asks_for_is_kept(
    github: Forge, source: Open, waited: list[float], token: str | None, response: Fault, waits: float
) -> None:
    github.faults = [times(1, response)]
    assert source(token).list(V294)[0].version == V294
    assert waited == [waits]


@pytest.mark.parametrize("token", [TOKEN, None], ids=["GraphQL", "REST"])
@pytest.mark.parametrize(
    ("response", "seconds"),
    [
        pytest.param(limited(429, Retry_After="3600"), 3600, id="429 with Retry-After"),
        pytest.param(
            limited(403, X_RateLimit_Remaining="0", X_RateLimit_Reset=str(NOW + 1800)), 1801, id="the hour is used up"
        ),
        pytest.param(limited(403, "You have exceeded a secondary rate limit."), 60, id="secondary limit"),
        pytest.param(limited(429, X_RateLimit_Remaining="0", X_RateLimit_Reset="soon"), 60, id="nonsense"),
    ],
)
def test_a_long_wait_ends_the_run_and_says_until_when(
    github: Forge, source: Open, waited: list[float], token: str | None, response: Fault, seconds: int
) -> None:
    github.faults = [times(99, response)]
    with pytest.raises(RateLimited) as caught:
        source(token).list(V294)
    assert caught.value.reset == datetime.fromtimestamp(NOW + seconds, UTC)
    assert f"{caught.value.reset:%H:%M:%S} UTC" in str(caught.value)
    assert ("GITHUB_TOKEN" in caught.value.hint) == (token is None)
    assert waited == []


def test_the_limit_of_graphql_is_one_too(github: Forge, source: Open) -> None:
    body = {"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}
    github.faults = [times(1, Fault(200, body, {"X-RateLimit-Reset": str(NOW + 60)}))]
    with pytest.raises(RateLimited):
        source().list()


def test_a_wrong_token_is_named_and_not_shown(source: Open) -> None:
    with pytest.raises(GitHubDenied, match=r"the token of GITHUB_TOKEN: Bad credentials") as caught:
        source("ghs_wrong").list()
    assert "ghs_wrong" not in f"{caught.value}{caught.value.hint}"
    assert "contents=read" in caught.value.hint


def test_missing_rights_are_named(github: Forge, source: Open) -> None:
    body = {"message": f"Resource not accessible to {TOKEN}\x1b[31m"}
    github.faults = [times(1, Fault(403, body, {"X-Accepted-GitHub-Permissions": "contents=read; metadata=read"}))]
    with pytest.raises(GitHubDenied) as caught:
        source().list()
    assert "contents=read; metadata=read" in caught.value.hint
    assert TOKEN not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_a_refusal_without_a_token_asks_for_one(github: Forge, source: Open) -> None:
    github.faults = [times(1, Fault(403, {"message": "Forbidden"}))]
    with pytest.raises(GitHubDenied, match="without a token") as caught:
        source(None).list()
    assert "GITHUB_TOKEN" in caught.value.hint


@pytest.mark.parametrize("kind", ["FORBIDDEN", "INSUFFICIENT_SCOPES"])
def test_a_refusal_of_graphql_is_one_too(github: Forge, source: Open, kind: str) -> None:
    github.faults = [times(1, Fault(200, {"data": None, "errors": [{"type": kind, "message": "no"}]}))]
    with pytest.raises(GitHubDenied):
        source().list()


REPOSITORY = {"l": {"p": {"n": True, "c": None}, "n": []}}


@pytest.mark.parametrize("token", [TOKEN, None], ids=["GraphQL", "REST"])
@pytest.mark.parametrize(
    "response",
    [
        pytest.param(Fault(200, b"<html>Sign in</html>"), id="HTML"),
        pytest.param(Fault(200, b""), id="empty"),
        pytest.param(Fault(200, b"\xff\xfe"), id="not text"),
        pytest.param(Fault(200, b"[" * 200_000), id="nested without end"),
        pytest.param(Fault(200, b'{"data": '), id="cut JSON"),
        pytest.param(Fault(200, 7), id="a number"),
        pytest.param(Fault(200, {"data": []}), id="data is a list"),
        pytest.param(Fault(200, {"data": {"repository": REPOSITORY}}), id="a further page without a cursor"),
        pytest.param(Fault(200, {"data": {"repository": {"l": {"n": [None]}}}}), id="a release is null"),
        pytest.param(Fault(200, {"errors": "none"}), id="errors is text"),
        pytest.param(Fault(200, {"errors": [None], "data": {}}), id="an error is null"),
        pytest.param(Fault(200, {"errors": [{"message": "Parse error"}]}), id="an error of the query"),
        pytest.param(Fault(201, []), id="created"),
        pytest.param(Fault(202, []), id="accepted"),
        pytest.param(Fault(204), id="no content"),
        pytest.param(Fault(304), id="unchanged, though never asked"),
        pytest.param(Fault(301, b"", {"Location": "/repositories/1/releases"}), id="renamed"),
        pytest.param(Fault(302, b"", {"Location": "http://127.0.0.1:9/"}), id="redirected"),
        pytest.param(Fault(307, b"", {"Location": "/"}), id="redirected with its body"),
        pytest.param(Fault(400, ["no"]), id="an error that is a list"),
        pytest.param(Fault(418, b"{"), id="an error that is broken JSON"),
        pytest.param(Fault(422, {"message": {"a": 1}}), id="an error without a text"),
        pytest.param(Fault(200, [], {"X-RateLimit-Remaining": "x", "X-RateLimit-Limit": "x"}), id="odd headers"),
    ],
)
def test_an_answer_that_is_none_is_an_error_of_the_source(
    github: Forge, source: Open, token: str | None, response: Fault
) -> None:
    github.faults = [times(1, response)]
    with pytest.raises(ReleaseSourceError) as caught:
        source(token).list()
    assert caught.value.hint
    assert len(github.requests) == 1


@pytest.mark.parametrize("part", ["/releases/tags/", "/git/ref/", "/git/tags/"])
@pytest.mark.parametrize(
    "body", [[], {}, "text", None, {"object": None}, {"object": {"type": "blob", "sha": "a" * 40}}]
)
def test_a_fetch_of_nonsense_is_an_error_of_the_source(github: Forge, source: Open, part: str, body: Any) -> None:
    github.faults = [times(1, Fault(200, body), part=part)]
    with pytest.raises(ReleaseSourceError):
        source().fetch(V294)


def test_the_release_of_another_tag_is_not_taken(github: Forge, source: Open) -> None:
    other = github.published.listed()[1]
    github.faults = [times(1, Fault(200, other), part="/releases/tags/")]
    with pytest.raises(ReleaseSourceError, match=r"has no release v2\.9\.4"):
        source().fetch(V294)
