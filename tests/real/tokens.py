"""A token server for the CNCF registry: the Docker registry token protocol, with rights that a test can set.

Specification: https://distribution.github.io/distribution/spec/auth/token/ (``GET /token``; the OAuth2 form is absent,
which the specification allows).
"""

from __future__ import annotations

import base64
import binascii
import json
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tests.fakes.loopback import Loopback

ISSUER = "tokens.example"
SERVICE = "registry.example"
PATH = "/token"
# The registry goes on accepting a token for so many seconds after its `exp` (its auth/token package, Leeway).
REGISTRY_LEEWAY = 60


@dataclass(frozen=True, slots=True)
class User:
    """Somebody with a password and rights, the actions of the protocol: `pull`, `push`, `delete`."""

    name: str
    password: str
    rights: frozenset[str]


READER = User("reader", "canary-reader's own secret", frozenset({"pull"}))
WRITER = User("writer", "canary-writer's own secret", frozenset({"pull", "push", "delete"}))
ANYBODY = User("", "", frozenset())


class TokenRequest(NamedTuple):
    """What one client asked for: who it was (nobody where the password was wrong), the scopes, what it was answered."""

    user: str
    scopes: tuple[str, ...]
    status: int


@dataclass
class TokenServer(Loopback):
    """A token server on a free loopback port; a context manager.

    A token is good for `lifetime` seconds, to the second; `told` is what the answer says about that, where it differs.
    Clients find it at the registry's own host, as on ghcr.io, or `apart` on another one, as on Docker Hub.
    """

    users: tuple[User, ...] = (READER, WRITER)
    anonymous: User = ANYBODY
    lifetime: int = 300
    told: int | None = None
    apart: bool = False
    requests: list[TokenRequest] = field(default_factory=list)
    _key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    _certificate: x509.Certificate = field(init=False)

    def __post_init__(self) -> None:
        self._certificate = self_signed(self._key)
        self._server = server = _Server(("127.0.0.1", 0), _Answer)
        server.tokens = self

    def realm(self, registry: str) -> str:
        """Return the address that the registry at `registry` sends its clients to.

        The other host is a name: newer clients refuse another host that is a loopback address.
        """
        return f"http://{self.host.replace('127.0.0.1', 'localhost') if self.apart else registry}{PATH}"

    @property
    def certificate(self) -> str:
        """The certificate that the registry must trust, as PEM."""
        return self._certificate.public_bytes(Encoding.PEM).decode()

    def user(self, authorization: str) -> User | None:
        """Return who an Authorization header speaks for; nobody where the name or the password is wrong."""
        if not authorization:
            return self.anonymous
        scheme, _, credentials = authorization.partition(" ")
        try:
            name, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        known = (user for user in self.users if (user.name, user.password) == (name, password))
        return next(known, None) if scheme.lower() == "basic" else None

    def token(self, user: User, scopes: tuple[str, ...]) -> str:
        """Return a token for what was asked and `user` may do, and for nothing else."""
        now = int(time.time())
        expires = now + self.lifetime - REGISTRY_LEEWAY
        chain = base64.b64encode(self._certificate.public_bytes(Encoding.DER)).decode()
        claims = {
            "iss": ISSUER,
            "sub": user.name,
            "aud": SERVICE,
            "exp": expires,
            "nbf": now - REGISTRY_LEEWAY,
            "iat": now,
            "jti": uuid.uuid4().hex,
            "access": [granted for scope in scopes if (granted := grant(scope, user))],
        }
        signed = f"{encoded({'typ': 'JWT', 'alg': 'EdDSA', 'x5c': [chain]})}.{encoded(claims)}"
        return f"{signed}.{unpadded(self._key.sign(signed.encode()))}"

    def answer(self, target: str, authorization: str) -> tuple[HTTPStatus, dict[str, Any]]:
        """Return the answer to one request, and write the request down."""
        query = parse_qs(urlsplit(target).query)
        scopes = tuple(scope for parameter in query.get("scope", []) for scope in parameter.split())
        user = self.user(authorization)
        status = HTTPStatus.UNAUTHORIZED if user is None else HTTPStatus.OK
        if query.get("service") != [SERVICE]:
            status = HTTPStatus.BAD_REQUEST
        self.requests.append(TokenRequest("" if user is None else user.name, scopes, status))
        if user is None or status != HTTPStatus.OK:
            return status, {"errors": [{"code": status.name, "message": status.description}]}
        issued = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        expires = self.lifetime if self.told is None else self.told
        return status, {"token": self.token(user, scopes), "expires_in": expires, "issued_at": issued}


def grant(scope: str, user: User) -> dict[str, Any] | None:
    """Return the part of one scope, `type:name:action,action`, that `user` may have."""
    kind, _, rest = scope.partition(":")
    name, _, actions = rest.rpartition(":")
    allowed = [action for action in actions.split(",") if action in user.rights]
    return {"type": kind, "name": name, "actions": allowed} if allowed else None


def self_signed(key: Ed25519PrivateKey) -> x509.Certificate:
    """Return a certificate of the key by the key itself."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, ISSUER)])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, None)
    )


def encoded(part: dict[str, Any]) -> str:
    """Return one part of a JSON web token."""
    return unpadded(json.dumps(part, separators=(",", ":")).encode())


def unpadded(data: bytes) -> str:
    """Return the base64url form without padding (RFC 7515)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    tokens: TokenServer


class _Answer(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        status, answer = self.server.tokens.answer(self.path, self.headers.get("Authorization", ""))
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Say nothing: the server keeps its own list."""
