"""A repository of Git over HTTP on loopback, as source-controller clones it."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.real.processes import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

WHO = {
    "GIT_AUTHOR_NAME": "tests",
    "GIT_AUTHOR_EMAIL": "tests@example.com",
    "GIT_COMMITTER_NAME": "tests",
    "GIT_COMMITTER_EMAIL": "tests@example.com",
}


class Checkout:
    """A checkout of the branch main, which commits go into; the server reads its repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        """Return what git prints."""
        return run(["git", "-C", self.folder, *arguments], **WHO)

    def commit(self, files: Mapping[str, str | None]) -> str:
        """Write files, delete those without a text, and return the commit."""
        for name, text in files.items():
            path = self.folder / name
            if text is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=a change")
        return self.git("rev-parse", "HEAD").strip()


@contextmanager
def served(checkout: Checkout) -> Iterator[str]:
    """Yield the address of a repository, by the smart protocol alone."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _answer(self, body: bytes) -> None:
            parts = urlsplit(self.path)
            cgi = {
                "GIT_PROJECT_ROOT": str(checkout.folder.parent),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": parts.path,
                "QUERY_STRING": parts.query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "PATH": os.environ["PATH"],
            }
            done = subprocess.run(["git", "http-backend"], input=body, env=cgi, capture_output=True, check=True)
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
            self.send_response(int(headers.pop("Status", "200").split()[0]))
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/{checkout.folder.name}/.git"
        finally:
            server.shutdown()
            thread.join()
