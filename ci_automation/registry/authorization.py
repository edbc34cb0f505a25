"""Authorization at one registry: challenges, tokens for each repository and right, and secrets to keep out of texts.

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
from ci_automation.net.values import Answer, Call, parsed_json, printable
from ci_automation.registry.credentials import Credential, Credentials, check_address, shares_credentials
from ci_automation.registry.port import AccessDenied, UnexpectedAnswer, UnknownTokenHost

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.net.waiting import Clock, Deadline

CLIENT_ID = "flux-manifests"
_AS_BYTES = "surrogateescape"  # what the environment has may be no text
_MAX_TOKEN_ANSWER_BYTES = 1 << 20
_DEFAULT_LIFETIME = 60  # of a token without a stated lifetime, by the token specification
_TOKEN = re.compile(r"[\x21-\x7e]+")
_REFUSED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_BYTES_OF_A_SECRET = 4  # a shorter text is part of every message

# Registries write parameters with and without quotes. A word without `=` begins the next challenge.
_CHALLENGE_PART = re.compile(
    r'[\s,]*(?:(?P<name>[\w-]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,"]*))|(?P<scheme>[A-Za-z][\w-]*))'
)
_MAX_CHALLENGE = 8192


class Challenge(Struct, frozen=True):
    """One challenge: `basic`, or `bearer` with the token server (realm) and the service to name there."""

    scheme: str
    realm: str = ""
    service: str = ""

    @classmethod
    def parse(cls, header: str) -> Self | None:
        """Return the first supported challenge in a `WWW-Authenticate` header, tokens before `basic`, or None."""
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
    """Right that a request needs: to read a repository, or to write to it; `source` is a second one to read.

    `delete` is a separate right in the token specification, which users with the right to write may lack.
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
        """Return the scopes to request a token for (token specification, *Requesting a Token*)."""
        other = (f"repository:{self.source}:pull",) if self.source else ()
        return (f"repository:{self.repository}:{self.actions}", *other)


class _Token(Struct, frozen=True):
    header: str
    expires: float


class Authorization:
    """Values of the header `Authorization` for one registry; `fetch` asks the token server. Threads may share it."""

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
        """Return the header for `scope`, or None until the registry asks for authorization.

        Raises:
            AccessDenied: the token server refuses.
            Again: the token server failed; another attempt may succeed.
        """
        with self._lock:
            return self._header(scope, deadline)

    def renewed(self, scope: Scope, answer: Answer, sent: str | None, deadline: Deadline) -> bool:
        """Return whether another header is worth a try, after the 401 in `answer` to a request with `sent`.

        Raises:
            AccessDenied: the token server refuses, or must not see the credentials.
            Again: the token server failed; another attempt may succeed.
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
                del self._tokens[key]  # unless another thread has renewed it meanwhile
            return self._header(scope, deadline) not in {None, sent}

    @property
    def secrets(self) -> frozenset[str]:
        """Return every secret that a server may have seen, to keep it out of texts."""
        return self._secrets

    @property
    def is_anonymous(self) -> bool:
        """Return whether the registry has no credentials."""
        found = self._credentials
        return found is None or (found.pull is None and found.push is None)

    @property
    def found_in(self) -> str:
        """Return which file or variables have the credentials that were used; empty if none were."""
        return self._credentials.found_in if self._credentials else ""

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
                self._will_write = False  # a user without the right to write can still read
                return self._header(scope, deadline)
        return token.header

    def _key(self, scope: Scope) -> _Key:
        """Return the key of the token for `scope`: one for reads and writes if the same user does both."""
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
        if credential is None or credential.identity_token:  # an identity token gets tokens, and is not a password
            return None
        encoded = base64.b64encode(f"{credential.username}:{credential.password}".encode(errors=_AS_BYTES)).decode()
        self._keep_secret(encoded)
        return f"Basic {encoded}"

    def _token(self, challenge: Challenge, key: _Key, credential: Credential | None, deadline: Deadline) -> _Token:
        asked_at = self._clock.monotonic()
        request = self._token_request(challenge, key, credential)
        answer = self._fetch(request, deadline)
        if answer.status in _REFUSED:
            complaint = answer.complaint()
            wish = f"to {key.actions.replace(',', ' and ')} {key.repository}"
            raise AccessDenied(f"{self._registry.host} gives no token {wish}: {complaint}", self.found_in)
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
            body = urlencode(form | asked, errors=_AS_BYTES).encode()
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
    """Return the number of seconds to use a token, a little less than its lifetime."""
    if isinstance(stated, bool) or not isinstance(stated, int | float) or not stated >= 0:
        return _DEFAULT_LIFETIME * 0.9
    return min(stated, 86400) * 0.9
