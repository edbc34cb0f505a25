"""A transparent HTTP proxy in front of a real registry: it writes down every request and lets a test interfere.

`before` runs before a request is passed on, `after` when the registry has answered and the client does not know yet:
the two points between which a crash or a race matters. Either may kill the client, wait at a barrier, or raise `Drop`.
"""

from __future__ import annotations

import http.client
import socket
import socketserver
import threading
from collections import deque
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from tests.fakes.loopback import Loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CHUNK = 64 * 1024
TIMEOUT = 60.0
HOP_BY_HOP = frozenset(
    {"connection", "expect", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
DROPPED = 0


class Request(NamedTuple):
    """One request as it was on the wire; the path has its query, the status is 0 where the client got no answer."""

    method: str
    path: str
    status: int


class Drop(Exception):
    """Close the client's connection without an answer: a registry that went away."""


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def _nothing(*_: object) -> None:
    pass


class Proxy(Loopback):
    """A proxy on a free loopback port in front of `upstream`, `host:port`; a context manager.

    The Host header passes unchanged, so that the registry builds its Location headers with the proxy's own address.
    `upstream` may be set once it is known, before the first request. Paths that start as in `routes` go elsewhere.
    """

    def __init__(self, upstream: str = "", routes: Mapping[str, str] = MappingProxyType({})) -> None:
        self.upstream = upstream
        self.routes = routes
        self.before: Callable[[int, str, str], None] = _nothing
        self.after: Callable[[int, str, str, int], None] = _nothing
        self._lock = threading.Lock()
        self._seen: list[Request | None] = []
        self._server = server = _Server(_Exchange)
        server.proxy = self

    @property
    def requests(self) -> list[Request]:
        """The requests that were answered or dropped, in the order in which they came."""
        with self._lock:
            return [request for request in self._seen if request is not None]

    @property
    def busy(self) -> bool:
        """Whether a request came that was neither answered nor dropped yet."""
        with self._lock:
            return None in self._seen

    def route(self, path: str) -> str:
        """Return the `host:port` that a path goes to."""
        return next((place for start, place in self.routes.items() if path.startswith(start)), self.upstream)

    def forget(self) -> None:
        """Start the list of requests, and their numbers, anew, and let nobody interfere any more."""
        with self._lock:
            self._seen = []
        self.before = self.after = _nothing

    def arrived(self) -> tuple[int, list[Request | None]]:
        """Return the number of a request that came just now, from 1, and the list that it will be written into."""
        with self._lock:
            self._seen.append(None)
            return len(self._seen), self._seen

    def answered(self, number: int, seen: list[Request | None], request: Request) -> None:
        """Write down how a request ended."""
        with self._lock:
            seen[number - 1] = request


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128
    proxy: Proxy

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.connections: set[socket.socket] = set()

    def server_close(self) -> None:
        """Hang up on the clients too: a connection that one keeps open must not outlive the test."""
        super().server_close()
        for connection in tuple(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that was killed on purpose is no news."""


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = TIMEOUT
    server: _Server

    def setup(self) -> None:
        """Take the connection up."""
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        """Let the connection go."""
        self.server.connections.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def _pass(self) -> None:
        proxy = self.server.proxy
        number, seen = proxy.arrived()
        status = DROPPED
        upstream = http.client.HTTPConnection(proxy.route(self.path), timeout=TIMEOUT)
        try:
            proxy.before(number, self.command, self.path)
            answer = self._forward(upstream)
            proxy.after(number, self.command, self.path, answer.status)
            # Written down before the client knows: a test that looks when its client is done misses nothing.
            status = answer.status
            proxy.answered(number, seen, Request(self.command, self.path, status))
            self._answer(answer)
        except (Drop, OSError, http.client.HTTPException):
            self.close_connection = True
        finally:
            upstream.close()
            if status == DROPPED:
                proxy.answered(number, seen, Request(self.command, self.path, DROPPED))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _pass  # noqa: N815 - http.server's names

    def _forward(self, upstream: http.client.HTTPConnection) -> http.client.HTTPResponse:
        chunked = "chunked" in self.headers.get("Transfer-Encoding", "").lower()
        pieces = self._chunks() if chunked else self._body(int(self.headers.get("Content-Length", "0")))
        # A client that is killed may break off the body of a request beside the one that was counted. A registry
        # refuses such a body, but go-containerregistry's stores what came of a manifest: so read the first piece first.
        first = next(pieces, b"")
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in HOP_BY_HOP:
                upstream.putheader(name, value)
        if chunked:
            upstream.putheader("Transfer-Encoding", "chunked")
        upstream.endheaders()
        try:
            for piece in chain([first] if first else [], pieces):
                upstream.send(_chunk(piece) if chunked else piece)
            if chunked:
                upstream.send(_chunk(b""))
        except (BrokenPipeError, ConnectionResetError):
            # A registry may answer before it has read everything; the client hears that once it has sent its all.
            deque(pieces, maxlen=0)
        return upstream.getresponse()

    def _body(self, left: int) -> Iterator[bytes]:
        while left:
            piece = self.rfile.read(min(left, CHUNK))
            if len(piece) < min(left, CHUNK):
                raise Drop
            left -= len(piece)
            yield piece

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield from self._body(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass

    def _answer(self, answer: http.client.HTTPResponse) -> None:
        self.send_response_only(answer.status, answer.reason)
        length = answer.getheader("Content-Length")
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        empty = self.command == "HEAD" or answer.status in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}
        chunked = length is None and not empty
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if empty:
            return
        while piece := answer.read1(CHUNK):
            self.wfile.write(_chunk(piece) if chunked else piece)
        if chunked:
            self.wfile.write(_chunk(b""))
        elif answer.length:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Say nothing: the proxy keeps its own list."""


def kill_after(number: int, kill: Callable[[], None]) -> Callable[[int, str, str, int], None]:
    """Return an `after` that kills the client once its request of that number was done, and lets no answer through."""

    def after(seen: int, _method: str, _path: str, _status: int) -> None:
        if seen == number:
            with suppress(ProcessLookupError):
                kill()
        if seen >= number:
            raise Drop

    return after
