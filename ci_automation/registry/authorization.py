"""Authorization at one registry: its challenges, tokens for each repository and right, and secrets kept out of texts.

Specifications: RFC 9110 section 11, https://distribution.github.io/distribution/spec/auth/token/, and .../oauth/ for
identity tokens.
"""

from __future__ import annotations

import base64
import re
import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct

from ci_automation.net.network import Origin, UnsafeAddress
from ci_automation.net.values import Call, parsed_json, printable
from ci_automation.registry.addresses import check_address, shares_credentials
from ci_automation.registry.port import AccessDenied, UnexpectedAnswer, UnknownTokenHost

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.net.values import Answer
    from ci_automation.net.waiting import Clock, Deadline
    from ci_automation.registry.credentials import Credential, Credentials

CLIENT_ID = "flux-manifests"
_MAX_TOKEN_ANSWER_BYTES = 1 << 20
_DEFAULT_LIFETIME = 60  # of a token that does not say, by the token specification
_TOKEN = re.compile(r"[\x21-\x7e]+")
_REFUSED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_BYTES_OF_A_SECRET = 4  # anything shorter is in every text

# Parameters may be quoted or not: both are seen. A word without `=` begins the next challenge.
_CHALLENGE_PART = re.compile(
    r'[\s,]*(?:(?P<name>[\w-]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,"]*))|(?P<scheme>[A-Za-z][\w-]*))'
)
_MAX_CHALLENGE = 8192


class Challenge(Struct, frozen=True):
    """One challenge: `bearer`, with a realm to get tokens from and the service to name there; or `basic`."""

    scheme: str
    realm: str = ""
    service: str = ""

    @classmethod
    def parse(cls, header: str) -> Self | None:
        """Return the challenge in a `WWW-Authenticate` header that we can meet, tokens first, or None."""
        found: list[tuple[str, dict[str, str]]] = []
        text, position = header[:_MAX_CHALLENGE], 0
        while match := _CHALLENGE_PART.match(text, position):
            position = match.end()
            if match["scheme"]:
                found.append((match["scheme"].lower(), {}))
            elif found:
                value = match["plain"] if match["quoted"] is None else re.sub(r"\\(.)", r"\1", match["quoted"])
                found[-1][1].setdefault(match["name"].lower(), value)
        for scheme, parameters in found:
            if scheme == "bearer" and parameters.get("realm"):
                return cls(scheme, parameters["realm"], parameters.get("service", ""))
        return cls("basic") if any(scheme == "basic" for scheme, _ in found) else None


class Scope(Struct, frozen=True):
    """Right that a request needs: to read a repository, or to write to it; `source` is one to read besides.

    `delete` is a right of its own in the token specification, and whoever may write need not have it.
    """

    repository: str
    push: bool = False
    source: str = ""
    delete: bool = False


class Request(Call, frozen=True, kw_only=True):
    """A request to one registry, and the right that it needs."""

    scope: Scope


class _Key(NamedTuple):
    repository: str
    actions: str
    source: str = ""

    @property
    def scopes(self) -> tuple[str, ...]:
        """What a token is asked for (token specification, *Requesting a Token*: there may be several scopes)."""
        other = (f"repository:{self.source}:pull",) if self.source else ()
        return (f"repository:{self.repository}:{self.actions}", *other)


class _Token(Struct, frozen=True):
    header: str
    expires: float


class Authorization:
    """Values of the header `Authorization` for one registry; `fetch` asks its token server. Threads may share it."""

    def __init__(
        self,
        registry: Origin,
        source: Callable[[], Credentials],
        fetch: Callable[[Request, Deadline], Answer],
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._source = source
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None
        self._challenge: Challenge | None = None
        self._tokens: dict[_Key, _Token] = {}
        self._written: set[str] = set()
        self._will_write = True  # where the credentials say so
        self._secrets: frozenset[str] = frozenset()

    def header(self, scope: Scope, deadline: Deadline) -> str | None:
        """Return what to send for `scope`, or None as long as the registry has not asked for anything.

        Raises:
            AccessDenied: the token server refuses.
            Again: it may not, the next time.
        """
        with self._lock:
            return self._header(scope, deadline)

    def renewed(self, scope: Scope, answer: Answer, sent: str | None, deadline: Deadline) -> bool:
        """Return whether, after the 401 in `answer` to a request that had `sent`, there is another header to try.

        Raises:
            AccessDenied: the token server refuses, or is nowhere that credentials may go.
            Again: it may not, the next time.
        """
        with self._lock:
            challenge = Challenge.parse(answer.headers.get("www-authenticate", ""))
            if challenge is None:
                return False
            if challenge != self._challenge:
                self._challenge = challenge
                self._tokens.clear()
            key = self._key(scope)
            if (token := self._tokens.get(key)) is not None and token.header == sent:
                del self._tokens[key]  # and not where another thread has renewed it meanwhile
            return self._header(scope, deadline) not in {None, sent}

    @property
    def secrets(self) -> frozenset[str]:
        """Return everything that may have been shown, and must be in no text."""
        return self._secrets

    @property
    def is_anonymous(self) -> bool:
        """Return whether there were no credentials to show."""
        found = self._credentials
        return found is None or (found.pull is None and found.push is None)

    def _header(self, scope: Scope, deadline: Deadline) -> str | None:
        if self._challenge is None:
            if scope.push:
                self._written.add(scope.repository)
            return None
        key = self._key(scope)
        credential = self._credential(key)
        if self._challenge.scheme == "basic":
            return self._basic(credential)
        token = self._tokens.get(key)
        if token is None or token.expires <= self._clock.monotonic():
            try:
                token = self._tokens[key] = self._token(self._challenge, key, credential, deadline)
            except AccessDenied:
                if scope.push or key.actions == "pull" or not self._will_write:
                    raise
                self._will_write = False  # a user who may only read still can
                return self._header(scope, deadline)
        return token.header

    def _key(self, scope: Scope) -> _Key:
        """Return which token serves `scope`: one for reads and writes where one user does both."""
        if scope.push:
            self._written.add(scope.repository)
        known = self._known()
        writes = scope.repository in self._written or (known.writes and known.push is not None and self._will_write)
        push = scope.push or (writes and known.pull == known.push)
        actions = "pull,push,delete" if scope.delete else "pull,push" if push else "pull"
        return _Key(scope.repository, actions, scope.source)

    def _known(self) -> Credentials:
        if self._credentials is None:
            self._credentials = self._source()
            for credential in (self._credentials.pull, self._credentials.push):
                if credential is not None:
                    self._keep_secret(credential.password, credential.identity_token)
        return self._credentials

    def _credential(self, key: _Key) -> Credential | None:
        known = self._known()
        return known.pull if key.actions == "pull" else known.push

    def _basic(self, credential: Credential | None) -> str | None:
        if credential is None or credential.identity_token:  # an identity token buys tokens, and is no password
            return None
        encoded = base64.b64encode(f"{credential.username}:{credential.password}".encode()).decode()
        self._keep_secret(encoded)
        return f"Basic {encoded}"

    def _token(self, challenge: Challenge, key: _Key, credential: Credential | None, deadline: Deadline) -> _Token:
        asked_at = self._clock.monotonic()
        request = self._token_request(challenge, key, credential)
        answer = self._fetch(request, deadline)
        if answer.status in _REFUSED:
            complaint = answer.complaint()
            wish = f"to {key.actions.replace(',', ' and ')} {key.repository}"
            raise AccessDenied(f"{self._registry.host} gives no token {wish}: {complaint}", complaint)
        match parsed_json(answer.body) if answer.status == HTTPStatus.OK else None:
            case {"token": str(token), **rest} | {"access_token": str(token), **rest} if _TOKEN.fullmatch(token):
                self._keep_secret(token)
                return _Token(f"Bearer {token}", asked_at + _lifetime(rest.get("expires_in")))
        raise UnexpectedAnswer(
            f"{answer.host}, the token service of {self._registry.host}, answered without a token: {answer.status} "
            f"with {answer.media_type or 'no media type'}"
        )

    def _token_request(self, challenge: Challenge, key: _Key, credential: Credential | None) -> Request:
        try:
            check_address(challenge.realm, self._registry)
        except UnsafeAddress as reason:
            raise AccessDenied(
                f"{self._registry.host} names an address for tokens that this program refuses: {reason}"
                f" ({printable(challenge.realm.partition('?')[0], 100)})"
            ) from None
        realm = Origin.of(challenge.realm)
        if credential is not None and not shares_credentials(self._registry, realm, self._known().token_host):
            raise UnknownTokenHost(self._registry.host, printable(realm.host, 255))
        scope = Scope(key.repository)
        if credential is not None and credential.identity_token:
            form = {"grant_type": "refresh_token", "refresh_token": credential.identity_token, "client_id": CLIENT_ID}
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            asked = {"service": challenge.service, "scope": " ".join(key.scopes)}
            body = urlencode(form | asked).encode()
            return Request("POST", challenge.realm, headers, body, _MAX_TOKEN_ANSWER_BYTES, scope=scope)
        separator = "&" if urlsplit(challenge.realm).query else "?"
        query = [("service", challenge.service), *(("scope", each) for each in key.scopes)]
        url = f"{challenge.realm}{separator}{urlencode(query, quote_via=quote, safe=':,/')}"
        basic = self._basic(credential)
        shown = {"Authorization": basic} if basic else {}
        return Request("GET", url, shown, None, _MAX_TOKEN_ANSWER_BYTES, scope=scope)

    def _keep_secret(self, *texts: str) -> None:
        self._secrets |= {text for text in texts if len(text) >= _BYTES_OF_A_SECRET}


def _lifetime(stated: object) -> float:
    """Return for how many seconds a token is used: a little less than it lasts."""
    if isinstance(stated, bool) or not isinstance(stated, int | float) or not stated >= 0:
        return _DEFAULT_LIFETIME * 0.9
    return min(stated, 86400) * 0.9
