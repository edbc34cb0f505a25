"""The double on the wire: HTTP on loopback, with ETags, compression, late, lost and missing answers."""

from __future__ import annotations

import gzip
import hashlib
import json
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fakes.forge.forge import Forge
    from tests.fakes.forge.routes import Answer


def serve(forge: Forge, host: str = "api") -> Server:
    """Return a running server."""
    server = Server(forge, host)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


class Server(ThreadingHTTPServer):
    """The listening side."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, forge: Forge, host: str) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.forge, self.host = forge, host

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that hangs up is no news."""


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 30
    server: Server

    def _answer(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        exchanges = self.server.forge.exchanges
        if self.server.host == "api":
            answer = exchanges.answer(self.command, self.path, headers, body)
        else:
            answer = exchanges.stored(self.command, self.path, headers)
        if answer.delay:
            time.sleep(answer.delay)
        status, wire = _on_the_wire(answer, headers) if answer.status else (0, b"")
        if answer.log:
            head = sum(len(f"{name}: {value}\r\n") for name, value in self.headers.items())
            answer.log.received = len(self.requestline) + head + len(b"\r\n\r\n") + len(body)
            answer.log.status, answer.log.sent = status, len(wire)
        self.wfile.write(wire[: len(wire) - answer.cut])
        if answer.status and not answer.cut:
            return
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815  # the names that http.server wants

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _on_the_wire(answer: Answer, asked: Mapping[str, str]) -> tuple[int, bytes]:
    status, body, headers = answer.status, answer.body, dict(answer.headers)
    if not isinstance(body, bytes):
        body = json.dumps(body, separators=(",", ":")).encode() if status != HTTPStatus.NO_CONTENT else b""
        headers["Content-Type"] = "application/json; charset=utf-8"
        if status == HTTPStatus.OK and answer.cached:
            headers["ETag"] = f'W/"{hashlib.sha256(body).hexdigest()}"'
            if asked.get("if-none-match") == headers["ETag"]:
                status, body = 304, b""
        if "gzip" in asked.get("accept-encoding", "") and body:
            body = gzip.compress(body, mtime=0)
            headers["Content-Encoding"] = "gzip"
    if status not in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}:
        headers["Content-Length"] = str(len(body))
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return status, "\r\n".join(lines).encode() + b"\r\n\r\n" + body
