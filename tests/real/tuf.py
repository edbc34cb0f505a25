"""A TUF repository on loopback that hands out a Sigstore's trusted root, for programs that know no other way to get it.

With it, a local Sigstore is the public one to whoever is given `environment`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import (  # type: ignore[attr-defined]  # it exports them without saying so
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)

from tests.fakes.loopback import Loopback

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TARGET = "trusted_root.json"
ROLES = ("root", "timestamp", "snapshot", "targets")
LIFE = timedelta(days=1)


def pages(target: bytes) -> dict[str, bytes]:
    """Return what a repository with that trusted root serves, by path."""
    signer = CryptoSigner(Ed25519PrivateKey.generate())
    expires = datetime.now(UTC).replace(microsecond=0) + LIFE
    file = TargetFile.from_data(TARGET, target)
    root = Root(1, expires=expires, consistent_snapshot=True)
    for role in ROLES:
        root.add_key(signer.public_key, role)
    served = {f"targets/{file.hashes['sha256']}.{TARGET}": target}
    for path, signed in (
        ("1.root.json", root),
        ("1.targets.json", Targets(1, expires=expires, targets={TARGET: file})),
        ("1.snapshot.json", Snapshot(1, expires=expires, meta={"targets.json": MetaFile(1)})),
        ("timestamp.json", Timestamp(1, expires=expires, snapshot_meta=MetaFile(1))),
    ):
        metadata: Metadata[Any] = Metadata(signed)
        metadata.sign(signer)
        served[path] = metadata.to_bytes()
    return served


class Tuf(Loopback):
    """The repository's server; a context manager. What it needs on disk is in `folder`."""

    def __init__(self, target: bytes, folder: Path) -> None:
        self.pages = pages(target)
        self._root = folder / "root.json"
        self._root.write_bytes(self.pages["1.root.json"])
        self._server = _Server(self.pages)

    @property
    def environment(self) -> Mapping[str, str]:
        """What lets cosign 3, and what is built with it, take this for the public Sigstore's."""
        return {"TUF_MIRROR": f"http://{self.host}", "TUF_ROOT_JSON": str(self._root)}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, served: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.pages = served


class _Exchange(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:  # http.server's name
        """Answer with the page of that path."""
        page = self.server.pages.get(self.path.lstrip("/"))
        self.send_response(HTTPStatus.NOT_FOUND if page is None else HTTPStatus.OK)
        self.send_header("Content-Length", str(len(page or b"")))
        self.end_headers()
        self.wfile.write(page or b"")

    def log_message(self, *_: object) -> None:
        """Print nothing."""
