"""Search for the entry of a signature in Rekor, the transparency log (version 1 of its API).

Like cosign (`FindTlogEntry`), the search asks for exactly the entry that the signature must have. A search by the
file's digest would also return any number of entries that others log about a public file. This module does not verify
the entry; the trusted root does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from ci_automation.artifact.digest import Digest
from ci_automation.errors import ReleaseSourceError
from ci_automation.net.network import Network
from ci_automation.signing.sigstore.exchange import Call, RekorFailed, SigstoreExchange, UnsafeService
from ci_automation.signing.sigstore.rekor import UnreadableEntry, entries_of_rekor_answer, hashedrekord_proposal

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_ANSWER_BYTES = 1 << 20  # an entry over a file has 10 KB
_OK = 200
_NO_SUCH = frozenset({400, 404, 422})  # of what no log takes, the signature of something else for example
_JSON = {"Accept": "application/json", "Content-Type": "application/json"}


class RekorUnreachable(ReleaseSourceError):
    """The transparency log does not say when a release was signed."""

    hint = (
        "Run again. A directory that `mirror` filled has the log's entries beside the signatures, and needs no Rekor."
    )


class TransparencyLog(Protocol):
    """A transparency log that can be searched."""

    def find(self, message: bytes, signature: bytes, certificate: str) -> str | None:
        """Return the entry of a signature, not verified, as `LogEntry` writes it, or None if the log has no entry.

        Raises:
            RekorUnreachable: the log does not answer.
        """
        ...


class RekorLog:
    """A log that is searched over HTTP; the first search asks `where` for its address."""

    def __init__(self, where: Callable[[], str], exchange: SigstoreExchange | None = None) -> None:
        self._where = where
        self._exchange = exchange or SigstoreExchange(Network.from_environment(os.environ))

    def find(self, message: bytes, signature: bytes, certificate: str) -> str | None:
        """Return the entry of a signature; see `TransparencyLog`."""
        body = b'{"entries":[%b]}' % hashedrekord_proposal(Digest.of(message), signature, certificate)
        call = Call("POST", f"{self._where()}/api/v1/log/entries/retrieve", _JSON, body, cap=_MAX_ANSWER_BYTES)
        try:
            answer = self._exchange.ask(call, RekorFailed)
        except (RekorFailed, UnsafeService) as error:
            raise RekorUnreachable(str(error)) from None
        if answer.status in _NO_SUCH:
            return None
        try:
            entries = entries_of_rekor_answer(answer.body if answer.status == _OK else b"")
        except UnreadableEntry:
            described = answer.described()
            raise RekorUnreachable(f"the transparency log at {answer.host} answered {described}") from None
        # The same may be logged again, in a later shard: what counts is when the log first saw it.
        first = min(entries, key=lambda entry: entry.payload.integrated_time, default=None)
        return None if first is None else first.to_json()
