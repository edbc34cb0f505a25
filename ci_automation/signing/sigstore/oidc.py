"""Identity tokens: from GitHub for a job, or from a variable. Messages and `repr` never contain one."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from ci_automation.errors import SigningError
from ci_automation.hiding import Hiding
from ci_automation.net.network import Network
from ci_automation.net.services import REQUEST_VARIABLE, URL_VARIABLE, Mask, token_call, unmasked
from ci_automation.net.values import parsed_json
from ci_automation.signing.sigstore.exchange import SigstoreExchange, TokenServiceFailed, checked_origin
from ci_automation.signing.trust import Identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.net.waiting import Clock

TOKEN_VARIABLE = "SIGSTORE_ID_TOKEN"  # noqa: S105  # the name of a variable
AUDIENCE = "sigstore"
GITHUB, GITHUB_SERVER = "https://token.actions.githubusercontent.com", "https://github.com"
_MAX_TOKEN_BYTES = 64 << 10
_MAX_TIME = 1 << 37  # the year 6325; later ones have no `datetime`
_SOON = 10.0  # seconds that a token must still be good for
_OK = 200


class NoIdentityToken(SigningError):
    """A keyless signature needs an identity, and the run has none."""

    hint = (
        f"Run it in GitHub Actions with `permissions: id-token: write`, or put an identity token for the audience "
        f"{AUDIENCE} into {TOKEN_VARIABLE}; or sign with a key (--signing key --key FILE)."
    )
    message = "no identity to sign with: there is no token, and no service to request one from"


class NoTokenPermission(SigningError):
    """A job in GitHub Actions may not request an identity token."""

    hint = (
        "Add `id-token: write` under `permissions:` of the job, and of the job that calls a reusable workflow. A run "
        "for a pull request from a fork never gets that permission."
    )
    message = "GitHub Actions gives this job no identity token: it lacks the permission id-token: write"


class TokenMalformed(SigningError):
    """A text is not an identity token for Sigstore."""

    hint = f"Give an OpenID Connect token: a JWT with iss, sub, exp, and the audience {AUDIENCE}."

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"the identity token {where} cannot be used: {reason}")


class TokenExpired(SigningError):
    """The identity token in the environment has expired."""

    hint = f"Such tokens live for minutes. Put a fresh one into {TOKEN_VARIABLE} right before the run."

    def __init__(self, at: float) -> None:
        when = datetime.fromtimestamp(at, UTC)
        super().__init__(f"the identity token in {TOKEN_VARIABLE} expired at {when:%Y-%m-%d %H:%M} UTC")


class Token(Hiding, Struct, frozen=True):
    """An identity token, the identity that Fulcio's certificate will name, and the time of expiry."""

    hides = ("text", "claims")

    text: str
    identity: Identity
    expires: float
    claims: Mapping[str, Any] = {}

    @classmethod
    def parse(cls, text: str, where: str, server: str | None = None) -> Token:
        """Return the token in `text`; `server` is the address of a GitHub that is not github.com.

        This does not check the token's signature. Fulcio does, and no other service sees the token.

        Raises:
            TokenMalformed: the text is not a token, or the token is not for Sigstore.
        """
        claims = _claims(text, where)
        match claims:
            case {"iss": str(issuer), "sub": str(), "exp": int() | float() as expires, "aud": str() | [*_] as audience}:
                if AUDIENCE not in ([audience] if isinstance(audience, str) else audience):
                    raise TokenMalformed(where, f"it is not for the audience {AUDIENCE}")
                if not 0 < expires < _MAX_TIME:
                    raise TokenMalformed(where, "its end cannot be")
                return cls(text, _identity(claims, issuer, server), float(expires), claims)
        raise TokenMalformed(where, "it lacks claims that every token has")

    @property
    def secrets(self) -> frozenset[str]:
        """Return the texts to keep out of messages: the token, and its parts."""
        return frozenset({self.text, *self.text.split(".")})


class Tokens(Protocol):
    """Source of identity tokens."""

    def token(self) -> Token:
        """Return a valid token.

        Raises:
            SigningError: no token is available.
        """


class HandedToken(Struct, frozen=True):
    """The one token in the environment."""

    held: Token
    clock: Clock

    def token(self) -> Token:
        """Return the token.

        Raises:
            TokenExpired: it has expired.
        """
        if self.held.expires <= self.clock.now():
            raise TokenExpired(self.held.expires)
        return self.held


class GitHubTokens:
    """Tokens for the present job (GitHub, "OpenID Connect reference"), requested again when one expires."""

    def __init__(
        self, url: str, request_token: str, exchange: SigstoreExchange, server: str | None, mask: Mask
    ) -> None:
        checked_origin(url, f"{TokenServiceFailed.name} ({URL_VARIABLE})")
        self._call = token_call(url, request_token, AUDIENCE)
        self._exchange, self._server, self._mask = exchange, server, mask
        self._held: Token | None = None

    def token(self) -> Token:
        """Return a token of this job.

        Raises:
            TokenServiceFailed: GitHub gives no token.
            TokenMalformed: GitHub's answer is not a token.
        """
        if self._held is None or self._held.expires - self._exchange.patience.clock.now() < _SOON:
            self._held = self._asked()
        return self._held

    def _asked(self) -> Token:
        answer = self._exchange.ask(self._call, TokenServiceFailed)
        if answer.status != _OK:
            raise TokenServiceFailed(answer.host, f"it answered {answer.complaint()}")
        match parsed_json(answer.body):
            case {"value": str(text)}:
                self._mask(text)
                return Token.parse(text, f"from {answer.host}", self._server)
        raise TokenServiceFailed(answer.host, "its answer has no token")  # and is not shown: it may have one after all


def ambient(environment: Mapping[str, str], exchange: SigstoreExchange | None = None, mask: Mask = unmasked) -> Tokens:
    """Return the source of tokens in this environment: `SIGSTORE_ID_TOKEN`, else GitHub Actions.

    `mask` gets each token before its first use, so that the log of the run hides it.

    Raises:
        NoIdentityToken: the environment has neither.
        NoTokenPermission: the job in GitHub Actions may not request tokens.
        TokenMalformed: the variable does not hold a token.
        UnsafeService: GitHub's address for tokens is plain HTTP.
    """
    exchange = exchange or SigstoreExchange(Network.from_environment(environment))
    server = environment.get("GITHUB_SERVER_URL")
    if text := environment.get(TOKEN_VARIABLE, "").strip():
        mask(text)
        return HandedToken(Token.parse(text, f"in {TOKEN_VARIABLE}", server), exchange.patience.clock)
    url, request_token = environment.get(URL_VARIABLE), environment.get(REQUEST_VARIABLE)
    if url and request_token:
        return GitHubTokens(url, request_token, exchange, server, mask)
    raise NoTokenPermission if environment.get("GITHUB_ACTIONS") == "true" else NoIdentityToken


def _claims(text: str, where: str) -> dict[str, Any]:
    try:
        if len(text) > _MAX_TOKEN_BYTES:
            raise ValueError  # noqa: TRY301 - as all else that is wrong with it
        _, body, _ = text.split(".")
        claims = json.loads(base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True))
        if not isinstance(claims, dict) or not text.isascii() or not text.isprintable():
            raise ValueError  # noqa: TRY301 - same
    except (ValueError, RecursionError):
        raise TokenMalformed(where, "it is not a JWT") from None
    return claims


def _identity(claims: Mapping[str, Any], issuer: str, server: str | None) -> Identity:
    """Return the identity that Fulcio will name (its `pkg/identity`: `github`, `email`, and the subject of others).

    GitHub's tokens do not name the server of the workflow: for an issuer other than github.com's, it is the server that
    runs the job. A federated issuer, as in Sigstore's own login, replaces the token's issuer in the certificate.
    """
    match claims:
        case {"job_workflow_ref": str(workflow)} if issuer == GITHUB or server:
            return Identity(issuer, f"{GITHUB_SERVER if issuer == GITHUB else server}/{workflow}")
        case {"email": str(email), "email_verified": True | "true", "federated_claims": {"connector_id": str(origin)}}:
            return Identity(origin, email)
        case {"email": str(email), "email_verified": True | "true"}:
            return Identity(issuer, email)
    return Identity(issuer, claims["sub"])
