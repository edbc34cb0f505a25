"""Contents of one registry: manifests and indexes, read and written by tag or digest, and blobs, sent or mounted."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from ci_automation.artifact.digest import Digest
from ci_automation.artifact.manifest import DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST
from ci_automation.errors import RegistryError
from ci_automation.registry.port import AccessDenied, ContentMismatch, NotFound, TagMoved
from ci_automation.registry.wire import check_stored, stated_digest, unexpected

if TYPE_CHECKING:
    from typing import BinaryIO

    from ci_automation.artifact.index import Index
    from ci_automation.artifact.manifest import Manifest
    from ci_automation.artifact.reference import Reference
    from ci_automation.net.values import Answer
    from ci_automation.net.waiting import Deadline
    from ci_automation.registry.authorization import Request
    from ci_automation.registry.wire import Wire

_MANIFESTS = (OCI_MANIFEST, DOCKER_MANIFEST, OCI_INDEX, DOCKER_LIST)
_OK, _NOT_FOUND = 200, 404
_UNKNOWN_BLOB = "MANIFEST_BLOB_UNKNOWN"
_BYTES = "application/octet-stream"
_CREATED, _ACCEPTED = 201, 202


class StoredManifests:
    """Manifests and indexes of one registry. Threads may share it.

    `there` has the manifests and blobs that are certain to exist in the registry.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._seen: dict[Reference, Digest | None] = {}
        self.there: set[Reference] = set()

    def resolve(self, reference: Reference) -> Digest | None:
        """Return the digest of the manifest that `reference` names, or None if it does not exist."""
        digest = self._wire.run(lambda deadline: self._resolve(reference, deadline))
        self._note(reference, digest)
        return digest

    def read(self, reference: Reference) -> Answer:
        """Return the answer with a manifest whose bytes match the reference, or an answer with the status 404."""
        answer = self._wire.run(lambda deadline: self._get(reference, deadline))
        self._note(reference, None if answer.status == _NOT_FOUND else Digest.of(answer.body))
        return answer

    def write(self, reference: Reference, content: Manifest | Index) -> Answer | None:
        """Store a manifest or an index, and return the answer, or None if an earlier attempt had succeeded."""
        tried = False

        def attempt(deadline: Deadline) -> Answer | None:
            nonlocal tried
            if tried and self._is_written(reference, content.digest, deadline):
                return None
            tried = True
            return self._put(reference, content, deadline)

        answer = self._wire.run(attempt)
        self._note(reference, content.digest)
        return answer

    def forget(self, deleted: Reference) -> None:
        """Forget a manifest that was deleted by its digest, and all tags, because its tags are gone too."""
        self._seen.clear()
        self.there.discard(deleted)

    def _note(self, reference: Reference, digest: Digest | None) -> None:
        """Remember the digest that a reference named at the last read or write."""
        self._seen[reference] = digest
        if digest is not None:
            self.there.add(reference.at_digest(digest))

    def _resolve(self, reference: Reference, deadline: Deadline) -> Digest | None:
        request = self._wire.request("HEAD", reference, f"manifests/{reference.name}")
        answer = self._wire.exchange(request.accepting(*_MANIFESTS), deadline)
        if answer.status == _NOT_FOUND:
            return None
        if answer.status != _OK or answer.is_web_page:
            raise unexpected(answer, str(reference))
        stated = stated_digest(answer)
        if reference.digest is not None and stated not in {None, reference.digest}:
            raise ContentMismatch(f"the manifest of {reference}", reference.digest, stated)
        if reference.digest or stated:
            return reference.digest or stated
        answer = self._get(reference, deadline)
        return None if answer.status == _NOT_FOUND else Digest.of(answer.body)

    def _get(self, reference: Reference, deadline: Deadline) -> Answer:
        request = self._wire.request("GET", reference, f"manifests/{reference.name}")
        answer = self._wire.exchange(request.accepting(*_MANIFESTS), deadline)
        if answer.status == _NOT_FOUND:
            return answer
        if answer.status != _OK or answer.is_web_page:
            raise unexpected(answer, str(reference))
        found = Digest.of(answer.body)
        for expected in (reference.digest, stated_digest(answer)):
            if expected not in {None, found}:
                raise ContentMismatch(f"the manifest of {reference}", expected, found)
        return answer

    def _put(self, reference: Reference, content: Manifest | Index, deadline: Deadline) -> Answer:
        request = self._wire.request("PUT", reference, f"manifests/{reference.name}", push=True)
        answer = self._wire.exchange(request.carrying(content.raw, content.media_type), deadline)
        complaint = answer.complaint()
        if answer.status == _NOT_FOUND or complaint.code == _UNKNOWN_BLOB:
            raise NotFound(f"{reference}, or a blob of the manifest for it,", complaint)
        check_stored(answer, str(reference), content.digest)
        return answer

    def _is_written(self, reference: Reference, digest: Digest, deadline: Deadline) -> bool:
        """Return whether a write that seemed to fail has succeeded.

        Raises:
            TagMoved: the tag names neither the written nor the previous digest.
        """
        if reference.digest is not None or (before := self._seen.get(reference, digest)) == digest:
            return False  # a digest cannot move, and the tag's previous digest is unknown
        found = self._resolve(reference, deadline)
        if found not in {digest, before}:
            raise TagMoved(reference, before, found)
        return found == digest


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
