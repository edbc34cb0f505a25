"""Registry over HTTP (OCI distribution spec v1.1): requests, and checks of the answers."""

from __future__ import annotations

import re
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec.structs import replace

from ci_automation.artifact.index import MAX_ENTRIES, Index, InvalidIndex, parse_stored
from ci_automation.artifact.manifest import OCI_INDEX, Descriptor, Manifest
from ci_automation.artifact.reference import Digest, InvalidReference, Reference
from ci_automation.net.values import Answer, parsed_json
from ci_automation.net.waiting import Deadline, Patience, at_once
from ci_automation.registry.contents import (
    StoredManifests,
    Uploads,
    index_entry,
    is_no_api,
    merge,
    referrers_in,
    referrers_tag,
)
from ci_automation.registry.files import Sink, check_blob, require_readable
from ci_automation.registry.port import (
    MAX_BLOB_BYTES,
    AnswerTooLong,
    ContentMismatch,
    DeletionRefused,
    NotAnIndex,
    NotFound,
)
from ci_automation.registry.transport import STORED, Wire, unexpected

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.net.network import Network
    from ci_automation.registry.credentials import CredentialSource

MAX_TAGS = 100_000
_OK, _NOT_FOUND = 200, 404
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


class HttpRegistry:
    """The registry at one host. Its methods are the port's; threads may share it."""

    def __init__(
        self, host: str, credentials: CredentialSource, network: Network | None = None, patience: Patience | None = None
    ) -> None:
        self.host = host
        self._wire = Wire(host, credentials, network, patience)
        self._uploads = Uploads(self._wire)
        self._manifests = StoredManifests(self._wire)
        self._there = self._manifests.there
        self._has_no_referrers = False
        self._merging: dict[Reference, threading.Lock] = {}

    def at_once(self, *work: Callable[[], Any]) -> list[Any]:
        """Run independent work in parallel, and return the results after all has ended."""
        return at_once(*work)

    def close(self) -> None:
        """Close open connections; later requests open new ones."""
        self._wire.close()

    def identity(self, reference: Reference) -> str:
        """Return the repository's address."""
        return str(reference.repository)

    def give_identity(self, reference: Reference) -> None:
        """Do nothing: the address is the identity."""

    def resolve(self, reference: Reference) -> Digest | None:
        """Return the digest of the manifest that `reference` names, or None if it does not exist."""
        return self._manifests.resolve(reference)

    def manifest(self, reference: Reference) -> Manifest:
        """Return the manifest that `reference` names."""
        answer = self._manifests.read(reference)
        if answer.status == _NOT_FOUND:
            raise NotFound(str(reference), answer.complaint())
        manifest = Manifest.parse(answer.body)
        self._there.update(reference.at_digest(each.digest) for each in (manifest.config, *manifest.layers))
        return manifest

    def stored(self, reference: Reference) -> Manifest | Index:
        """Return the manifest or the index that `reference` names."""
        answer = self._manifests.read(reference)
        if answer.status == _NOT_FOUND:
            raise NotFound(str(reference), answer.complaint())
        return parse_stored(answer.body)

    def blob(self, reference: Reference, descriptor: Descriptor) -> bytes:
        """Return the bytes of a blob of the reference's repository."""
        what = f"blob {descriptor.digest} of {reference.repository}"
        require_readable(what, descriptor, MAX_BLOB_BYTES)
        request = self._wire.request("GET", reference, f"blobs/{descriptor.digest}")
        try:
            answer = self._wire.ask(replace(request, cap=descriptor.size))
        except AnswerTooLong:
            raise ContentMismatch(what, f"{descriptor.size} bytes", "more") from None
        if answer.status == _NOT_FOUND:
            raise NotFound(what, answer.complaint())
        found = Digest.of(answer.body)
        if answer.status != _OK or (found != descriptor.digest and answer.is_web_page):
            raise unexpected(answer, what)
        check_blob(what, descriptor, found, len(answer.body))
        return answer.body

    def require_writable(self, reference: Reference) -> None:
        """Check that the credentials may write: begin an upload, and give it up."""
        self._uploads.begin_and_cancel(reference)

    def put_blob(self, reference: Reference, data: bytes) -> Digest:
        """Store `data` in the reference's repository, unless it is already known there, and return its digest.

        This does not ask the registry whether it has the blob: most blobs are new, and the others are known from a
        manifest of the repository or an earlier put.
        """
        digest = Digest.of(data)
        blob = reference.at_digest(digest)
        if blob not in self._there:
            self._uploads.put(blob, data)
            self._there.add(blob)
        return digest

    def has_blob(self, reference: Reference, descriptor: Descriptor) -> bool:
        """Return whether the reference's repository has a blob."""
        blob = reference.at_digest(descriptor.digest)
        if blob not in self._there:
            answer = self._wire.ask(self._wire.request("HEAD", reference, f"blobs/{descriptor.digest}", push=True))
            if answer.status not in {_OK, _NOT_FOUND} or (answer.status == _OK and answer.is_web_page):
                raise unexpected(answer, f"blob {descriptor.digest} of {reference.repository}")
            if answer.status == _OK:
                self._there.add(blob)
        return blob in self._there

    def fetch_blob(self, reference: Reference, descriptor: Descriptor, file: BinaryIO) -> None:
        """Write a blob of the reference's repository to a file; an attempt that breaks off begins anew."""
        what = f"blob {descriptor.digest} of {reference.repository}"
        request = replace(self._wire.request("GET", reference, f"blobs/{descriptor.digest}"), cap=descriptor.size)

        def attempt(deadline: Deadline) -> tuple[Answer, Sink]:
            sink = Sink(file, descriptor, what)
            return self._wire.do_request(replace(request, sink=sink.write), deadline), sink

        try:
            answer, sink = self._wire.run(attempt, descriptor.size)
        except AnswerTooLong:
            raise ContentMismatch(what, f"{descriptor.size} bytes", "more") from None
        if answer.status == _NOT_FOUND:
            raise NotFound(what, answer.complaint())
        if answer.status != _OK or (answer.is_web_page and not sink.is_whole):
            raise unexpected(answer, what)
        sink.check()

    def send_blob(self, reference: Reference, descriptor: Descriptor, file: BinaryIO) -> None:
        """Store the blob that a file has in the reference's repository."""
        blob = reference.at_digest(descriptor.digest)
        self._uploads.put_file(blob, file, descriptor.size)
        self._there.add(blob)

    def mount_blob(self, reference: Reference, descriptor: Descriptor, source: Reference) -> bool:
        """Mount a blob from the source's repository in the reference's, and return whether the blob is there now.

        A registry that does not mount begins an upload, which `put_blob` continues.
        """
        blob = reference.at_digest(descriptor.digest)
        if blob not in self._there and self._uploads.mount(blob, source):
            self._there.add(blob)
        return blob in self._there

    def put_manifest(self, reference: Reference, manifest: Manifest | Index) -> Digest:
        """Store the bytes of `manifest` under the reference's digest or tag, and return their digest.

        After a failure this reads a tag before it writes it again: the first write may have succeeded, and another
        writer may have moved the tag since.
        """
        if reference.digest not in {None, manifest.digest}:
            raise ContentMismatch(f"the manifest for {reference}", reference.digest, manifest.digest)
        self._manifests.write(reference, manifest)
        return manifest.digest

    def delete_manifest(self, reference: Reference) -> None:
        """Delete the manifest with the reference's digest, if it exists."""
        if reference.digest is None:
            raise InvalidReference(str(reference), "only a digest can be deleted, because a tag may move")
        request = self._wire.request("DELETE", reference, f"manifests/{reference.digest}", push=True)
        answer = self._wire.ask(replace(request, scope=replace(request.scope, delete=True)))
        refused = answer.status not in STORED
        self._manifests.forget(reference.at_digest(reference.digest))
        # Registries without deletion answer 404 too; a manifest that is gone is not a failure.
        if refused and (answer.status != _NOT_FOUND or self.resolve(reference) is not None):
            raise DeletionRefused(reference, answer.complaint())

    def tags(self, reference: Reference) -> tuple[str, ...]:
        """Return all tags of the reference's repository, sorted; an empty tuple if the repository does not exist."""
        found: set[str] = set()
        what = f"the tags of {reference.repository}"
        for answer in self._wire.pages(self._wire.request("GET", reference, "tags/list"), what):
            if answer.status == _NOT_FOUND and not found and reference.repository not in self._manifests.tagged:
                return ()
            found.update(_tags(answer, what))
            if len(found) > MAX_TAGS:
                raise self._wire.endless(what)
        return tuple(sorted(found))

    def referrers(self, reference: Reference, digest: Digest) -> tuple[Descriptor, ...]:
        """Return the referrers of `digest` in the reference's repository.

        This costs one request, or two until it is certain that the registry has no API for it.
        """
        found = None if self._has_no_referrers else self._listed_referrers(reference.at_digest(digest))
        return self.read_index(referrers_tag(reference, digest)).manifests if found is None else found

    def put_referrer(self, reference: Reference, manifest: Manifest, check: Callable[[], None] | None = None) -> Digest:
        """Store a manifest with a subject by its digest, make sure that it is listed, and return the digest.

        This costs one request if the registry lists it by itself. Elsewhere it costs three more, to read, write and
        read back the index, two more for each time that another writer overwrote it, and only the first read if the
        index lists it already.
        """
        subject, entry = index_entry(manifest)
        tag = referrers_tag(reference, subject)
        write = partial(self._manifests.write, reference.at_digest(manifest.digest), manifest)
        checks = (check,) if check is not None else ()

        def look() -> Index:
            *_, index = self.at_once(*checks, write, partial(self.read_index, tag))  # nothing is listed yet
            return index  # type: ignore[no-any-return]

        first = look if self._has_no_referrers else None
        if first is None and check is not None:
            check()
        answer = None if first else write()
        if answer is None or answer.headers.get("oci-subject") != str(subject):
            with self._merging.setdefault(tag, threading.Lock()):
                merge(self, tag, entry, self._wire.clock, first)
        return manifest.digest

    def read_index(self, tag: Reference) -> Index:
        """Return the index of referrers under a tag, empty if the tag does not exist."""
        answer = self._manifests.read(tag)
        if answer.status == _NOT_FOUND:
            return Index.build()
        try:
            return Index.parse(answer.body)
        except InvalidIndex as error:
            raise NotAnIndex(tag, error.reason) from None

    def write_index(self, tag: Reference, index: Index) -> None:
        """Store an index of referrers under a tag."""
        self._manifests.write(tag, index)

    def _listed_referrers(self, subject: Reference) -> tuple[Descriptor, ...] | None:
        """Return the list of the referrers API, or None if the registry has no such API."""
        found: list[Descriptor] = []
        what = f"the referrers of {subject}"
        request = self._wire.request("GET", subject, f"referrers/{subject.digest}").accepting(OCI_INDEX)
        for number, answer in enumerate(self._wire.pages(request, what)):
            if number == 0 and is_no_api(answer):
                # Some registries with the API answer 404 for a digest that they do not know.
                self._has_no_referrers = answer.status != _NOT_FOUND or subject in self._there
                return None
            listed = referrers_in(answer, what)
            found += [replace(each, later_page=True) for each in listed] if number else listed
            if len(found) > MAX_ENTRIES:
                raise self._wire.endless(what)
        return tuple(found)


def _tags(answer: Answer, what: str) -> list[str]:
    match parsed_json(answer.body):
        case {"tags": list(tags)} if answer.status == _OK and all(isinstance(tag, str) for tag in tags):
            if all(_TAG.fullmatch(tag) for tag in tags):
                return tags
        case {"tags": None} if answer.status == _OK:
            return []
    raise unexpected(answer, what)
