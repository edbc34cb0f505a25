"""A double that serves on a port of this machine while a test uses it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from socketserver import TCPServer

_POLL_SECONDS = 0.02


class Loopback:
    """The context of such a double. It makes `_server` before it is entered, or calls `__enter__` after that."""

    _server: TCPServer

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return int(self._server.server_address[1])

    @property
    def host(self) -> str:
        """The address, `127.0.0.1:port`."""
        return f"127.0.0.1:{self.port}"
