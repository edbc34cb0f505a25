"""Identity tokens: whom they name, when they are good, and that nobody sees one."""

from __future__ import annotations

import base64
import json
from typing import Any, cast

import pytest

from ci_automation.errors import SigningError
from ci_automation.net.values import Answer, Call
from ci_automation.net.waiting import Clock, Patience
from ci_automation.signing.sigstore.exchange import SigstoreExchange, TokenServiceFailed, UnsafeService
from ci_automation.signing.sigstore.oidc import (
    GITHUB,
    GitHubTokens,
    HandedToken,
    NoIdentityToken,
    NoTokenPermission,
    Token,
    TokenExpired,
    TokenMalformed,
    ambient,
)
from ci_automation.signing.trust import Identity

NOW = 1_795_248_000.0
CANARY = "canary-oidc"
WORKFLOW = "acme/fleet/.github/workflows/flux.yaml@refs/heads/main"
GHES = "https://ghes.example/_services/token"
URL = "https://pipelines.example/run?api-version=2.0"


def jwt(**claims: Any) -> str:
    full = {"iss": GITHUB, "sub": "repo:acme/fleet", "aud": "sigstore", "exp": NOW + 300} | claims
    kept = {name: value for name, value in full.items() if value is not None}
    body = base64.urlsafe_b64encode(json.dumps(kept).encode()).rstrip(b"=").decode()
    return f"e30.{body}.{CANARY}"


class Endpoint:
    """GitHub's endpoint for tokens, in the place of the exchange."""

    def __init__(self, *answers: tuple[int, object]) -> None:
        self.now = NOW
        self.calls: list[Call] = []
        self.patience = Patience(clock=Clock(now=lambda: self.now))
        self._answers = list(answers)

    def ask(self, call: Call, failed: type[TokenServiceFailed]) -> Answer:
        """Answer as the exchange does."""
        assert failed is TokenServiceFailed
        self.calls.append(call)
        status, body = self._answers.pop(0)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return Answer(status, {}, data, call.url, call.secrets)

    def in_job(self, **more: str) -> GitHubTokens:
        """Return the tokens of a job that may ask for them."""
        environment = {
            "GITHUB_ACTIONS": "true",
            "ACTIONS_ID_TOKEN_REQUEST_URL": URL,
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": CANARY,
        } | more
        found = ambient(environment, cast("SigstoreExchange", self))
        assert isinstance(found, GitHubTokens)
        return found


@pytest.mark.parametrize(
    ("claims", "server", "identity"),
    [
        pytest.param(
            {"job_workflow_ref": WORKFLOW},
            None,
            Identity(GITHUB, f"https://github.com/{WORKFLOW}"),
            id="the workflow that GitHub runs, called or not",
        ),
        pytest.param(
            {"job_workflow_ref": WORKFLOW},
            "https://elsewhere.example",
            Identity(GITHUB, f"https://github.com/{WORKFLOW}"),
            id="whose server github.com's issuer settles",
        ),
        pytest.param(
            {"iss": GHES, "job_workflow_ref": WORKFLOW},
            "https://ghes.example",
            Identity(GHES, f"https://ghes.example/{WORKFLOW}"),
            id="a GitHub of one's own is where the job runs",
        ),
        pytest.param(
            {"iss": GHES, "job_workflow_ref": WORKFLOW},
            None,
            Identity(GHES, "repo:acme/fleet"),
            id="the subject where nobody says where that is",
        ),
        pytest.param(
            {"iss": "https://accounts.example", "email": "ada@example.org", "email_verified": True},
            None,
            Identity("https://accounts.example", "ada@example.org"),
            id="a person's address",
        ),
        pytest.param(
            {"iss": "https://accounts.example", "email": "ada@example.org", "email_verified": False},
            None,
            Identity("https://accounts.example", "repo:acme/fleet"),
            id="but only one that was verified",
        ),
        pytest.param(
            {
                "iss": "https://oauth2.sigstore.dev/auth",
                "email": "ada@example.org",
                "email_verified": True,
                "federated_claims": {"connector_id": "https://github.com/login/oauth"},
            },
            None,
            Identity("https://github.com/login/oauth", "ada@example.org"),
            id="by the issuer behind Sigstore's login",
        ),
        pytest.param(
            {"iss": "https://kubernetes.example", "sub": "https://kubernetes.io/namespaces/a"},
            None,
            Identity("https://kubernetes.example", "https://kubernetes.io/namespaces/a"),
            id="anybody else's subject",
        ),
    ],
)
def test_a_token_names_whom_fulcio_will_name(claims: dict[str, Any], server: str | None, identity: Identity) -> None:
    assert Token.parse(jwt(**claims), "given", server).identity == identity


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "not a JWT", id="nothing"),
        pytest.param("a.b", "not a JWT", id="two parts"),
        pytest.param(f"a.!.{CANARY}", "not a JWT", id="no base64"),
        pytest.param(f"a.{base64.b64encode(b'[]').decode()}.{CANARY}", "not a JWT", id="a list"),
        pytest.param(f"{jwt()}\nAuthorization: x", "not a JWT", id="a header after it"),
        pytest.param(f"{jwt()}{'a' * (65 << 10)}", "not a JWT", id="huge"),
        pytest.param(jwt(sub=None), "lacks claims", id="no subject"),
        pytest.param(jwt(iss=7), "lacks claims", id="a number for an issuer"),
        pytest.param(jwt(aud={}), "lacks claims", id="an object for an audience"),
        pytest.param(jwt(exp="soon"), "lacks claims", id="words for an end"),
        pytest.param(jwt(exp=1e30), "its end", id="an end out of reach"),
        pytest.param(jwt(aud="vault"), "audience sigstore", id="for somebody else"),
        pytest.param(jwt(aud=["vault"]), "audience sigstore", id="for several others"),
    ],
)
def test_what_is_no_token_for_sigstore_is_refused_and_not_shown(text: str, reason: str) -> None:
    with pytest.raises(TokenMalformed, match=reason) as caught:
        Token.parse(text, "given")
    assert CANARY not in str(caught.value)


def test_a_token_does_not_print_itself() -> None:
    token = Token.parse(jwt(aud=["sigstore", "vault"]), "given")
    assert CANARY not in repr(token)
    assert CANARY in token.secrets
    assert CANARY not in repr(HandedToken(token, Clock()))
    assert CANARY not in repr(vars(Endpoint().in_job())["_exchange"])


class TestHandedOver:
    def test_it_comes_before_what_the_job_could_ask_for(self) -> None:
        endpoint = Endpoint()
        environment = {"SIGSTORE_ID_TOKEN": f"{jwt()}\n", "ACTIONS_ID_TOKEN_REQUEST_URL": URL}
        found = ambient(environment, cast("SigstoreExchange", endpoint)).token()
        assert (found.text, endpoint.calls) == (jwt(), [])

    def test_when_its_time_is_over_a_fresh_one_is_wanted(self) -> None:
        endpoint = Endpoint()
        tokens = ambient({"SIGSTORE_ID_TOKEN": jwt(exp=NOW + 1)}, cast("SigstoreExchange", endpoint))
        tokens.token()
        endpoint.now = NOW + 1
        with pytest.raises(TokenExpired, match=r"SIGSTORE_ID_TOKEN expired at 2026-11-21 08:00 UTC"):
            tokens.token()


class TestInGitHub:
    def test_the_audience_is_sigstore_and_the_request_token_authorizes(self) -> None:
        endpoint = Endpoint((200, {"value": jwt(job_workflow_ref=WORKFLOW), "count": 1}))
        found = endpoint.in_job(GITHUB_SERVER_URL="https://github.com").token()
        assert found.identity.subject == f"https://github.com/{WORKFLOW}"
        (call,) = endpoint.calls
        assert call.url == f"{URL}&audience=sigstore"
        assert call.headers["Authorization"] == f"bearer {CANARY}"
        assert CANARY not in repr(call)

    def test_one_token_serves_until_it_is_about_to_expire(self) -> None:
        first, second = jwt(jti=1), jwt(jti=2, exp=NOW + 600)
        endpoint = Endpoint((200, {"value": first}), (200, {"value": second}))
        tokens = endpoint.in_job()
        assert [tokens.token().text, tokens.token().text] == [first, first]
        endpoint.now = NOW + 295
        assert tokens.token().text == second

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            pytest.param((401, {"message": f"bad {CANARY}"}), r"answered 401.*bad \*\*\*", id="refused"),
            pytest.param((302, b""), "answered 302", id="sent elsewhere"),
            pytest.param((200, {"token": CANARY}), "has no token", id="another form"),
            pytest.param((200, CANARY.encode()), "has no token", id="no JSON"),
        ],
    )
    def test_an_endpoint_without_a_token_is_named(self, answer: tuple[int, object], reason: str) -> None:
        with pytest.raises(TokenServiceFailed, match=rf"pipelines\.example failed: .*{reason}") as caught:
            Endpoint(answer).in_job().token()
        assert CANARY not in str(caught.value)

    def test_what_is_answered_in_place_of_a_token_is_not_shown(self) -> None:
        with pytest.raises(TokenMalformed, match=r"from pipelines\.example") as caught:
            Endpoint((200, {"value": CANARY})).in_job().token()
        assert CANARY not in str(caught.value)

    @pytest.mark.parametrize(
        "url",
        ["http://pipelines.example/run", "https://user:secret@pipelines.example/run", "file:///etc/passwd", "https:"],
    )
    def test_the_request_token_goes_nowhere_without_tls(self, url: str) -> None:
        with pytest.raises(UnsafeService, match="ACTIONS_ID_TOKEN_REQUEST_URL") as caught:
            Endpoint().in_job(ACTIONS_ID_TOKEN_REQUEST_URL=url)
        assert "secret" not in str(caught.value)


class TestNowhere:
    @pytest.mark.parametrize("missing", ["ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"])
    def test_a_job_without_the_permission_is_told_the_line_to_add(self, missing: str) -> None:
        with pytest.raises(NoTokenPermission) as caught:
            Endpoint().in_job(**{missing: ""})
        assert "id-token: write" in caught.value.hint

    def test_elsewhere_the_ways_to_sign_are_named(self) -> None:
        with pytest.raises(NoIdentityToken) as caught:
            ambient({})
        assert isinstance(caught.value, SigningError)
        assert "SIGSTORE_ID_TOKEN" in caught.value.hint
        assert "--key" in caught.value.hint
