"""A server on loopback that does what no good registry does, and writes down what it was sent."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

from msgspec.structs import replace

from ci_automation.artifact.manifest import OCI_MANIFEST
from ci_automation.registry.credentials import Credential, Credentials
from tests.contract.registry_contract import artifact
from tests.fakes.loopback import Loopback

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

ENOUGH = 30.0
USER, PASSWORD = "robot", "canary-p:ss word/ü"
ROBOT = Credential(USER, PASSWORD)


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def authorization(self) -> str | None:
        """What it was authorized by."""
        return self.headers.get("authorization")

    def __str__(self) -> str:
        return f"{self.method} {self.path.partition('?')[0].removeprefix('/v2/acme/flux/')}"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `sent` is what follows the headers, by default the body; `then` is how it ends."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: bytes | None = None
    then: str = "go on"  # or: close, reset, drip, silence

    @classmethod
    def json(cls, value: object, status: int = 200, **headers: str) -> Self:
        """Return an answer with a JSON body; `_` in the names of headers stands for `-`."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return cls(status, json.dumps(value).encode(), {"Content-Type": "application/json", **named})


class HostileRegistry(Loopback):
    """The server; a context manager. `answer` gets each request and returns the reply. With `tls` it speaks TLS."""

    def __init__(self, answer: Callable[[Seen], Reply] | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer or (lambda _: Reply(404))
        self.seen: list[Seen] = []
        self.connections = 0
        self.over = threading.Event()
        self._server = _Server(self, tls)

    def __exit__(self, *_: object) -> None:
        self.over.set()
        super().__exit__()

    @property
    def asked(self) -> list[str]:
        """What was asked, in short."""
        return [str(seen) for seen in self.seen]


def in_turn(*replies: Reply) -> Callable[[Seen], Reply]:
    """Return an `answer` that gives the replies one after another, and the last one for ever."""
    number = count()
    return lambda _: replies[min(next(number), len(replies) - 1)]


MANIFEST = Reply(200, artifact().raw, {"Content-Type": OCI_MANIFEST})


def challenge(text: str) -> Reply:
    """Return a 401."""
    return Reply.json({"errors": [{"code": "UNAUTHORIZED"}]}, 401, WWW_Authenticate=text)


@dataclass
class Source:
    """Credentials for anybody who asks, which are counted."""

    pull: Credential | None = ROBOT
    push: Credential | None = None
    asked: list[str] = field(default_factory=list)
    token_host: str | None = None

    def for_host(self, host: str) -> Credentials:
        """Return them."""
        self.asked.append(host)
        return replace(Credentials.both(self.pull, self.push), token_host=self.token_host)


@dataclass
class Wall:
    """A registry behind tokens: `current` is what it takes, by scope; `realm` is where it sends for them."""

    realm: str = ""
    service: str = 'service="registry.example"'
    expires_in: Any = 300
    current: dict[str, str] = field(default_factory=dict)
    issued: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, seen: Seen) -> Reply:
        """Return the answer of the registry or of its token server."""
        if seen.path.startswith("/token"):
            return self.token(seen)
        repository = re.fullmatch(r"/v2/(.+)/(?:manifests|blobs|tags)/.*", seen.path)
        assert repository
        tokens = (token for scope, token in self.current.items() if scope.startswith(f"repository:{repository[1]}:"))
        if seen.authorization in {f"Bearer {token}" for token in tokens}:
            return MANIFEST if seen.method == "GET" else Reply(404)
        realm = self.realm or f"http://{seen.headers['host']}/token"
        return challenge(f'Bearer realm="{realm}",{self.service}')

    def token(self, seen: Seen) -> Reply:
        """Return a new token for what is asked for."""
        scope = parse_qs(urlsplit(seen.path).query or seen.body.decode())["scope"][0]
        with self._lock:
            self.issued += 1
            self.current[scope] = f"canary-token-{self.issued}"
        return Reply.json({"token": self.current[scope], "expires_in": self.expires_in})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, registry: HostileRegistry, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.registry = registry
        self.tls = tls

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve one connection, in its own thread: the handshake must not hold up the others."""
        self.registry.connections += 1
        if self.tls is not None:
            request = self.tls.wrap_socket(request, server_side=True)
        try:
            super().finish_request(request, client_address)
        finally:
            request.close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients hang up here on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = ENOUGH
    server: _Server

    def _reply(self) -> None:
        registry = self.server.registry
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(self.command, self.path, headers, body)
        registry.seen.append(seen)
        reply = registry.answer(seen)
        if reply.then == "silence":
            registry.over.wait(ENOUGH)
        if reply.then == "reset" and reply.sent is None:
            return self._reset()
        self.send_response_only(reply.status)
        for name, value in ({"Content-Length": str(len(reply.body))} | dict(reply.headers)).items():
            self.send_header(name, value)
        if reply.then == "close":
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body if reply.sent is None else reply.sent)
        while reply.then == "drip":
            self.wfile.write(b" ")
        if reply.then == "reset":
            return self._reset()
        self.close_connection = reply.then != "go on"
        return None

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_CONNECT = _reply  # noqa: N815 - http.server's names

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Say nothing."""
