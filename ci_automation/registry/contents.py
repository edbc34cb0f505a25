"""Contents of one registry: manifests and indexes, read and written by tag or digest, blobs, and referrers.

In a registry without an API for referrers an index under a tag lists them, which all writers maintain (OCI distribution
spec v1.1, *Referrers Tag Schema*). A registry cannot compare and swap, so two writers at the same time can overwrite
each other's entries: each reads the index back, and merges again while its entry is missing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, Protocol
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from ci_automation.artifact.index import Index, InvalidIndex
from ci_automation.artifact.manifest import DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST, Descriptor, Manifest
from ci_automation.artifact.reference import Digest
from ci_automation.errors import RegistryError
from ci_automation.registry.port import AccessDenied, ContentMismatch, NotFound, ReferrerLost, TagMoved
from ci_automation.registry.transport import Wire, check_stored, stated_digest, unexpected

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.reference import LayoutDirectory, OciRepository, Reference
    from ci_automation.net.values import Answer
    from ci_automation.net.waiting import Clock, Deadline
    from ci_automation.registry.authorization import Request

_MANIFESTS = (OCI_MANIFEST, DOCKER_MANIFEST, OCI_INDEX, DOCKER_LIST)
_OK, _NOT_FOUND = 200, 404
_UNKNOWN_BLOB = "MANIFEST_BLOB_UNKNOWN"
_BYTES = "application/octet-stream"
_CREATED, _ACCEPTED = 201, 202
MAX_MERGES = 5
_NO_API = frozenset({404, 400, 406})  # as in go-containerregistry, and so in Flux and cosign
_SHORTEST_WAIT, _LONGEST_WAIT = 0.025, 5.0


class StoredManifests:
    """Manifests and indexes of one registry. Threads may share it.

    `there` has the manifests and blobs that are certain to exist in the registry, `tagged` the repositories with a tag.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._seen: dict[Reference, Digest | None] = {}
        self.there: set[Reference] = set()
        self.tagged: set[OciRepository | LayoutDirectory] = set()

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
            if reference.digest is None:
                self.tagged.add(reference.repository)

    def _resolve(self, reference: Reference, deadline: Deadline) -> Digest | None:
        request = self._wire.request("HEAD", reference, f"manifests/{reference.name}")
        answer = self._wire.do_request(request.accepting(*_MANIFESTS), deadline)
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
        answer = self._wire.do_request(request.accepting(*_MANIFESTS), deadline)
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
        answer = self._wire.do_request(request.carrying(content.raw, content.media_type), deadline)
        complaint = answer.complaint()
        if answer.status == _NOT_FOUND or complaint.code == _UNKNOWN_BLOB:
            raise NotFound(f"{reference}, or a blob of the manifest for it,", complaint)
        check_stored(answer, str(reference), content.digest)
        return answer

    def _is_written(self, reference: Reference, digest: Digest, deadline: Deadline) -> bool:
        """Return whether a write that seemed to fail has succeeded."""
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
        answer = self._wire.do_request(
            replace(begin.carrying(b"", _BYTES), method="PUT", url=url, body=body, file=file), deadline
        )
        check_stored(answer, _named(blob), blob.digest)

    def _begin(self, blob: Reference, begin: Request, deadline: Deadline) -> str:
        """Begin an upload, and return the address to continue at."""
        answer = self._wire.do_request(begin, deadline)
        if answer.status == _NOT_FOUND:
            raise NotFound(str(blob.repository), answer.complaint())
        if answer.status != _ACCEPTED:
            raise unexpected(answer, f"an upload to {blob.repository}")
        return self._wire.followed(answer)


def _named(blob: Reference) -> str:
    return f"blob {blob.digest} of {blob.repository}"


class IndexStore(Protocol):
    """Store of the indexes of referrers."""

    def read_index(self, tag: Reference) -> Index:
        """Return the index under a tag, empty if the tag does not exist."""

    def write_index(self, tag: Reference, index: Index) -> None:
        """Store an index under a tag."""


def referrers_tag(reference: Reference, digest: Digest) -> Reference:
    """Return the tag that lists the referrers of `digest`."""
    return reference.at_tag(f"sha256-{digest.hex}")


def index_entry(manifest: Manifest) -> tuple[Digest, Descriptor]:
    """Return the digest of a manifest's subject, and the entry for the manifest in the index under the subject's tag.

    If the manifest's layers are embedded in it, it is embedded in the entry: who reads the index needs no request more.
    """
    subject, entry = manifest.referral
    embeds = all(layer.data is not None for layer in manifest.layers)
    return subject, replace(entry, data=manifest.raw) if embeds else entry


def is_no_api(answer: Answer) -> bool:
    """Return whether Flux and cosign would read the tag after this answer of the referrers API."""
    return answer.status in _NO_API or (answer.status == _OK and answer.headers.get("content-type") != OCI_INDEX)


def referrers_in(answer: Answer, what: str) -> tuple[Descriptor, ...]:
    """Return the referrers in an answer of the API; raise `UnexpectedAnswer` if it is not a list of them."""
    if answer.status == _OK:
        with suppress(InvalidIndex):
            return Index.parse(answer.body).manifests
    raise unexpected(answer, what)


def merge(
    store: IndexStore, tag: Reference, entry: Descriptor, clock: Clock, look: Callable[[], Index] | None = None
) -> None:
    """Add `entry` to the index under `tag`, beside its other entries; `look` does the first read.

    The run reads back after as long again as its own read and write took. By then, another writer that read before our
    write, and takes no longer than we do, has overwritten our entry, and the run notices. A writer that reads later
    sees our entry, and keeps it. One that is slower can still lose us the entry, so a hold is looked for again later.

    Raises:
        ReferrerLost: other writers overwrote the entry each time.
    """
    for merges in range(MAX_MERGES + 1):
        began = clock.monotonic()
        index = look() if look is not None and not merges else store.read_index(tag)
        if index.lists(entry.digest):
            return
        if merges < MAX_MERGES:
            with suppress(TagMoved):  # the next look finds what it moved to
                store.write_index(tag, index.with_entry(entry))
            clock.sleep(min(max(_SHORTEST_WAIT, clock.monotonic() - began), _LONGEST_WAIT))
    raise ReferrerLost(tag, entry.digest, MAX_MERGES)
