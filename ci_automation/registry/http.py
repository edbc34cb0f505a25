"""A registry over HTTP (OCI distribution spec v1.1): what is asked, and what is made sure of in the answers."""

from __future__ import annotations

import re
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ci_automation.artifact.digest import Digest
from ci_automation.artifact.manifest import (
    MAX_ENTRIES,
    OCI_INDEX,
    Index,
    InvalidIndex,
    Manifest,
)
from ci_automation.artifact.reference import InvalidReference
from ci_automation.net.values import parsed_json
from ci_automation.net.waiting import at_once
from ci_automation.registry.manifests import StoredManifests
from ci_automation.registry.port import (
    MAX_BLOB_BYTES,
    AnswerTooLong,
    ContentMismatch,
    DeletionRefused,
    NotAnIndex,
    NotFound,
    UnexpectedAnswer,
)
from ci_automation.registry.referrers import is_no_api, merge, referrers_in, referrers_tag
from ci_automation.registry.uploads import Uploads
from ci_automation.registry.wire import STORED, Wire, unexpected

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.manifest import Descriptor
    from ci_automation.artifact.reference import Reference
    from ci_automation.net.network import Network
    from ci_automation.net.values import Answer
    from ci_automation.net.waiting import Patience
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
        """Do things that do not depend on each other at the same time, and return the results once all have ended."""
        return at_once(*work)

    def close(self) -> None:
        """Close the connections that are kept; later requests open new ones."""
        self._wire.close()

    def identity(self, reference: Reference) -> str:
        """Return the repository's address."""
        return str(reference.repository)

    def give_identity(self, reference: Reference) -> None:
        """Do nothing: the address is the identity."""

    def resolve(self, reference: Reference) -> Digest | None:
        """Return the digest of the manifest that `reference` names, or None where there is none."""
        return self._manifests.resolve(reference)

    def manifest(self, reference: Reference) -> Manifest:
        """Return the manifest that `reference` names."""
        answer = self._manifests.read(reference)
        if answer.status == _NOT_FOUND:
            raise NotFound(str(reference), answer.complaint())
        manifest = Manifest.parse(answer.body)
        self._there.update(reference.at_digest(each.digest) for each in (manifest.config, *manifest.layers))
        return manifest

    def blob(self, reference: Reference, descriptor: Descriptor) -> bytes:
        """Return the bytes of a blob of the reference's repository."""
        what = f"blob {descriptor.digest} of {reference.repository}"
        if descriptor.size > MAX_BLOB_BYTES:
            raise UnexpectedAnswer(f"{what} has {descriptor.size} bytes, more than the limit of {MAX_BLOB_BYTES}")
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
        if found != descriptor.digest:
            raise ContentMismatch(what, descriptor.digest, found)
        if len(answer.body) != descriptor.size:
            raise ContentMismatch(what, f"{descriptor.size} bytes", f"{len(answer.body)} bytes")
        return answer.body

    def put_blob(self, reference: Reference, data: bytes) -> Digest:
        """Store `data` in the reference's repository, unless it is known to be there, and return its digest.

        Nobody is asked whether it is there: most of what is put is new, and what a manifest of the repository names,
        or this has put before, is there.
        """
        digest = Digest.of(data)
        blob = reference.at_digest(digest)
        if blob not in self._there:
            self._uploads.put(blob, data)
            self._there.add(blob)
        return digest

    def mount_blob(self, reference: Reference, descriptor: Descriptor, source: Reference) -> bool:
        """Have a blob of the source's repository in the reference's too, and return whether it is.

        A registry that does not mount begins an upload, which `put_blob` goes on with.
        """
        blob = reference.at_digest(descriptor.digest)
        if blob not in self._there and self._uploads.mount(blob, source):
            self._there.add(blob)
        return blob in self._there

    def put_manifest(self, reference: Reference, manifest: Manifest) -> Digest:
        """Store the bytes of `manifest` under the reference's digest or tag, and return their digest.

        After a failure a tag is looked at before it is written again: the write may have been done, and somebody else
        may have moved the tag since.
        """
        if reference.digest not in {None, manifest.digest}:
            raise ContentMismatch(f"the manifest for {reference}", reference.digest, manifest.digest)
        self._manifests.write(reference, manifest)
        return manifest.digest

    def delete_manifest(self, reference: Reference) -> None:
        """Delete the manifest of the reference's digest, where it is there."""
        if reference.digest is None:
            raise InvalidReference(str(reference), "only a digest can be deleted, because a tag may move")
        request = self._wire.request("DELETE", reference, f"manifests/{reference.digest}", push=True)
        answer = self._wire.ask(replace(request, scope=replace(request.scope, delete=True)))
        refused = answer.status not in STORED
        self._manifests.forget(reference.at_digest(reference.digest))
        # Registries without deletion say 404 too; that it is gone is no failure.
        if refused and (answer.status != _NOT_FOUND or self.resolve(reference) is not None):
            raise DeletionRefused(reference, answer.complaint())

    def tags(self, reference: Reference) -> tuple[str, ...]:
        """Return all tags of the reference's repository, sorted; none where there is no such repository."""
        found: set[str] = set()
        what = f"the tags of {reference.repository}"
        for answer in self._wire.pages(self._wire.request("GET", reference, "tags/list"), what):
            if answer.status == _NOT_FOUND:
                return ()
            found.update(_tags(answer, what))
            if len(found) > MAX_TAGS:
                raise self._wire.endless(what)
        return tuple(sorted(found))

    def referrers(self, reference: Reference, digest: Digest) -> tuple[Descriptor, ...]:
        """Return what in the reference's repository says it refers to `digest`.

        It costs one request; two where there is no API, until that is certain.
        """
        found = None if self._has_no_referrers else self._listed_referrers(reference.at_digest(digest))
        return self.read_index(referrers_tag(reference, digest)).manifests if found is None else found

    def put_referrer(self, reference: Reference, manifest: Manifest) -> Digest:
        """Store a manifest that has a subject by its digest, see that it is listed, and return the digest.

        It costs one request where the registry lists it by itself. Elsewhere there are three more, a look, a write and
        a look back, two more for each time that somebody else overwrote it, and just the look where it is listed.
        """
        subject, entry = manifest.referral
        tag = referrers_tag(reference, subject)
        write = partial(self._manifests.write, reference.at_digest(manifest.digest), manifest)

        def look() -> Index:
            index: Index = self.at_once(write, partial(self.read_index, tag))[1]
            return index

        first = look if self._has_no_referrers else None
        answer = None if first else write()
        if answer is None or answer.headers.get("oci-subject") != str(subject):
            with self._merging.setdefault(tag, threading.Lock()):
                merge(self, tag, entry, self._wire.clock, first)
        return manifest.digest

    def read_index(self, tag: Reference) -> Index:
        """Return the index of referrers under a tag, an empty one where there is none."""
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
        """Return what the referrers API lists, or None where there is none."""
        found: list[Descriptor] = []
        what = f"the referrers of {subject}"
        request = self._wire.request("GET", subject, f"referrers/{subject.digest}").accepting(OCI_INDEX)
        for number, answer in enumerate(self._wire.pages(request, what)):
            if number == 0 and is_no_api(answer):
                # Some that have the API say 404 for a digest that they do not know.
                self._has_no_referrers = answer.status != _NOT_FOUND or subject in self._there
                return None
            found += referrers_in(answer, what)
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
