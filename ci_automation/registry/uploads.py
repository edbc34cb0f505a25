"""Uploads of blobs to a repository in one piece, and mounts from another repository of the same registry."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from ci_automation.errors import RegistryError
from ci_automation.registry.port import AccessDenied, NotFound
from ci_automation.registry.wire import check_stored, unexpected

if TYPE_CHECKING:
    from typing import BinaryIO

    from ci_automation.artifact.reference import Reference
    from ci_automation.net.waiting import Deadline
    from ci_automation.registry.authorization import Request
    from ci_automation.registry.wire import Wire

_BYTES = "application/octet-stream"
_CREATED, _ACCEPTED, _NOT_FOUND = 201, 202, 404


class Uploads:
    """Uploads to one registry; a blob is a reference with its digest. Threads may share it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._begun: dict[Reference, str] = {}  # addresses of uploads that a registry began in place of a mount

    def put(self, blob: Reference, data: bytes) -> None:
        """Upload a blob; start again after an interruption, because the registry forgets the sent part."""
        self._wire.run(lambda deadline: self._upload(blob, deadline, body=data))

    def put_file(self, blob: Reference, file: BinaryIO, size: int) -> None:
        """Upload a blob of that size from a file."""
        self._wire.run(lambda deadline: self._upload(blob, deadline, file=file), size)

    def mount(self, blob: Reference, source: Reference) -> bool:
        """Mount a blob from the source's repository, and return whether the registry did.

        A registry that does not mount begins an upload, which `put` continues.
        """
        assert blob.digest is not None  # noqa: S101  # for the type checker: that is what a blob's reference has
        try:
            answer = self._wire.ask(self._wire.mounting(blob, blob.digest, source))
        except AccessDenied:  # the user may lack the right to read the source
            return False
        if answer.status == _CREATED:
            check_stored(answer, _named(blob), blob.digest)
            return True
        if answer.status == _ACCEPTED:
            self._begun[blob] = self._wire.followed(answer)
        return False

    def begin_and_cancel(self, reference: Reference) -> None:
        """Begin an upload and cancel it; a registry that does not cancel forgets it by itself."""
        begin = replace(self._wire.request("POST", reference, "blobs/uploads/", push=True), body=b"")
        location = self._wire.run(lambda deadline: self._begin(reference, begin, deadline))
        with suppress(RegistryError):
            self._wire.ask(replace(begin, method="DELETE", url=location, body=None))

    def _upload(
        self, blob: Reference, deadline: Deadline, *, body: bytes | None = None, file: BinaryIO | None = None
    ) -> None:
        """Upload a blob in one piece (OCI distribution spec, *POST then PUT*)."""
        assert blob.digest is not None  # noqa: S101  # as above
        begin = replace(self._wire.request("POST", blob, "blobs/uploads/", push=True), body=b"")
        location = self._begun.pop(blob, None) or self._begin(blob, begin, deadline)
        url = f"{location}{'&' if urlsplit(location).query else '?'}digest={quote(str(blob.digest), safe='')}"
        answer = self._wire.exchange(
            replace(begin.carrying(b"", _BYTES), method="PUT", url=url, body=body, file=file), deadline
        )
        check_stored(answer, _named(blob), blob.digest)

    def _begin(self, blob: Reference, begin: Request, deadline: Deadline) -> str:
        """Begin an upload, and return the address to continue at."""
        answer = self._wire.exchange(begin, deadline)
        if answer.status == _NOT_FOUND:
            raise NotFound(str(blob.repository), answer.complaint())
        if answer.status != _ACCEPTED:
            raise unexpected(answer, f"an upload to {blob.repository}")
        return self._wire.followed(answer)


def _named(blob: Reference) -> str:
    return f"blob {blob.digest} of {blob.repository}"
