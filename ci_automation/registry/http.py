"""A registry over HTTP (OCI distribution spec v1.1): what is asked, and what is made sure of in the answers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from ci_automation.artifact.digest import Digest, InvalidDigest
from ci_automation.artifact.manifest import DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST, Manifest
from ci_automation.artifact.reference import OciRepository
from ci_automation.registry.exchange import Request, Scope, parsed_json
from ci_automation.registry.network import Network, Origin, base_url, registry_host, repository_path
from ci_automation.registry.port import (
    MAX_BLOB_BYTES,
    MAX_MANIFEST_BYTES,
    AnswerTooLong,
    ContentMismatch,
    NotFound,
    OtherRegistry,
    TagMoved,
    UnexpectedAnswer,
)
from ci_automation.registry.retry import Patience
from ci_automation.registry.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.manifest import Descriptor
    from ci_automation.artifact.reference import Reference
    from ci_automation.registry.credentials import CredentialSource
    from ci_automation.registry.exchange import Answer
    from ci_automation.registry.retry import Deadline

MAX_PAGES = 200
MAX_TAGS = 100_000
_MANIFESTS = {"Accept": f"{OCI_MANIFEST}, {DOCKER_MANIFEST}, {OCI_INDEX}, {DOCKER_LIST}"}
_BYTES = {"Content-Type": "application/octet-stream"}
_OK, _ACCEPTED, _NOT_FOUND = 200, 202, 404
_STORED = frozenset({200, 201, 202, 204})  # 201 by the spec; not every registry is exact
_UNKNOWN_BLOB = "MANIFEST_BLOB_UNKNOWN"
_NEXT = re.compile(r'<(?P<url>[^<>]*)>\s*;[^,]*\brel="?next\b')
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


class HttpRegistry:
    """The registry at one host. Its methods are the port's; threads may share it."""

    def __init__(
        self, host: str, credentials: CredentialSource, network: Network | None = None, patience: Patience | None = None
    ) -> None:
        self.host = host
        self._base = base_url(registry_host(host))
        self._patience = patience or Patience()
        self._transport = Transport(host, credentials, network or Network(), self._patience.clock)
        self._seen: dict[Reference, Digest | None] = {}

    def close(self) -> None:
        """Close the connections that are kept; later requests open new ones."""
        self._transport.close()

    def resolve(self, reference: Reference) -> Digest | None:
        """Return the digest of the manifest that `reference` names, or None where there is none."""
        digest = self._patience.run(lambda deadline: self._resolve(reference, deadline))
        self._seen[reference] = digest
        return digest

    def manifest(self, reference: Reference) -> Manifest:
        """Return the manifest that `reference` names."""
        answer = self._patience.run(lambda deadline: self._get_manifest(reference, deadline))
        if answer.status == _NOT_FOUND:
            self._seen[reference] = None
            raise NotFound(str(reference), answer.complaint())
        self._seen[reference] = Digest.of(answer.body)
        return Manifest.parse(answer.body)

    def blob(self, reference: Reference, descriptor: Descriptor) -> bytes:
        """Return the bytes of a blob of the reference's repository."""
        what = f"blob {descriptor.digest} of {reference.repository}"
        if descriptor.size > MAX_BLOB_BYTES:
            raise UnexpectedAnswer(f"{what} has {descriptor.size} bytes; no more than {MAX_BLOB_BYTES} are read")
        request = self._request("GET", reference, f"blobs/{descriptor.digest}", cap=descriptor.size)
        try:
            answer = self._ask(request)
        except AnswerTooLong:
            raise ContentMismatch(what, f"{descriptor.size} bytes", "more") from None
        if answer.status == _NOT_FOUND:
            raise NotFound(what, answer.complaint())
        found = Digest.of(answer.body)
        if answer.status != _OK or (found != descriptor.digest and answer.is_web_page):
            raise _unexpected(answer, what)
        if found != descriptor.digest:
            raise ContentMismatch(what, descriptor.digest, found)
        if len(answer.body) != descriptor.size:
            raise ContentMismatch(what, f"{descriptor.size} bytes", f"{len(answer.body)} bytes")
        return answer.body

    def put_blob(self, reference: Reference, data: bytes) -> Digest:
        """Store `data` in the reference's repository, unless it is there, and return its digest."""
        digest = Digest.of(data)
        answer = self._ask(self._request("HEAD", reference, f"blobs/{digest}", push=True))
        if answer.status == _OK:
            return digest
        if answer.status != _NOT_FOUND:
            raise _unexpected(answer, f"blob {digest} of {reference.repository}")
        # An upload that broke off is begun again: the registry forgets what was sent of it.
        self._patience.run(lambda deadline: self._upload(reference, data, digest, deadline))
        return digest

    def put_manifest(self, reference: Reference, manifest: Manifest) -> Digest:
        """Store the bytes of `manifest` under the reference's digest or tag, and return their digest.

        After a failure a tag is looked at before it is written again: the write may have been done, and somebody else
        may have moved the tag since.
        """
        digest = manifest.digest
        if reference.digest not in {None, digest}:
            raise ContentMismatch(f"the manifest for {reference}", reference.digest, digest)
        tried = False

        def attempt(deadline: Deadline) -> None:
            nonlocal tried
            if not (tried and self._is_written(reference, digest, deadline)):
                tried = True
                self._put_manifest(reference, manifest, deadline)

        self._patience.run(attempt)
        self._seen[reference] = digest
        return digest

    def tags(self, reference: Reference) -> tuple[str, ...]:
        """Return all tags of the reference's repository, sorted; none where there is no such repository."""
        found: set[str] = set()
        request = self._request("GET", reference, "tags/list")
        for _ in range(MAX_PAGES):
            answer = self._ask(request)
            if answer.status == _NOT_FOUND:
                return ()
            found.update(_tags(answer, reference))
            link = _NEXT.search(answer.headers.get("link", ""))
            if link is None:
                return tuple(sorted(found))
            if len(found) > MAX_TAGS:
                break
            request = self._next(request, answer, link["url"])
        raise UnexpectedAnswer(f"{self.host} comes to no end of the tags of {reference.repository}")

    def _resolve(self, reference: Reference, deadline: Deadline) -> Digest | None:
        request = self._request("HEAD", reference, f"manifests/{reference.name}", headers=_MANIFESTS)
        answer = self._transport.exchange(request, deadline)
        if answer.status == _NOT_FOUND:
            return None
        if answer.status != _OK or answer.is_web_page:
            raise _unexpected(answer, str(reference))
        stated = _stated_digest(answer)
        if reference.digest is not None and stated not in {None, reference.digest}:
            raise ContentMismatch(f"the manifest of {reference}", reference.digest, stated)
        if reference.digest or stated:
            return reference.digest or stated
        answer = self._get_manifest(reference, deadline)
        return None if answer.status == _NOT_FOUND else Digest.of(answer.body)

    def _get_manifest(self, reference: Reference, deadline: Deadline) -> Answer:
        """Return the answer with a manifest whose bytes are those asked for, or with the status 404."""
        request = self._request("GET", reference, f"manifests/{reference.name}", headers=_MANIFESTS)
        answer = self._transport.exchange(request, deadline)
        if answer.status == _NOT_FOUND:
            return answer
        if answer.status != _OK or answer.is_web_page:
            raise _unexpected(answer, str(reference))
        found = Digest.of(answer.body)
        for expected in (reference.digest, _stated_digest(answer)):
            if expected not in {None, found}:
                raise ContentMismatch(f"the manifest of {reference}", expected, found)
        return answer

    def _upload(self, reference: Reference, data: bytes, digest: Digest, deadline: Deadline) -> None:
        """Upload a blob in one piece (OCI distribution spec, *POST then PUT*)."""
        begin = self._request("POST", reference, "blobs/uploads/", push=True, body=b"")
        answer = self._transport.exchange(begin, deadline)
        if answer.status == _NOT_FOUND:
            raise NotFound(str(reference.repository), answer.complaint())
        if answer.status != _ACCEPTED:
            raise _unexpected(answer, f"an upload to {reference.repository}")
        location = self._transport.followed(answer, answer.headers.get("location", ""))
        url = f"{location}{'&' if urlsplit(location).query else '?'}digest={quote(str(digest), safe='')}"
        answer = self._transport.exchange(Request("PUT", url, begin.scope, MAX_MANIFEST_BYTES, _BYTES, data), deadline)
        self._check_stored(answer, f"blob {digest} of {reference.repository}", digest)

    def _put_manifest(self, reference: Reference, manifest: Manifest, deadline: Deadline) -> None:
        headers = {"Content-Type": manifest.media_type}
        request = self._request(
            "PUT", reference, f"manifests/{reference.name}", push=True, headers=headers, body=manifest.raw
        )
        answer = self._transport.exchange(request, deadline)
        complaint = answer.complaint()
        if answer.status == _NOT_FOUND or complaint.code == _UNKNOWN_BLOB:
            raise NotFound(f"{reference}, or a blob of the manifest for it,", complaint)
        self._check_stored(answer, str(reference), manifest.digest)

    def _is_written(self, reference: Reference, digest: Digest, deadline: Deadline) -> bool:
        """Return whether a write that seemed to fail was done after all.

        Raises:
            TagMoved: the tag is neither what was written nor what it was before.
        """
        if reference.digest is not None or (before := self._seen.get(reference, digest)) == digest:
            return False  # a digest cannot be moved, and nobody looked at the tag before
        found = self._resolve(reference, deadline)
        if found not in {digest, before}:
            raise TagMoved(reference, before, found)
        return found == digest

    def _check_stored(self, answer: Answer, what: str, digest: Digest) -> None:
        if answer.status not in _STORED:
            raise _unexpected(answer, what)
        if (stated := _stated_digest(answer)) not in {None, digest}:
            raise ContentMismatch(f"{what}, as {answer.host} stored it", digest, stated)

    def _ask(self, request: Request) -> Answer:
        return self._patience.run(lambda deadline: self._transport.exchange(request, deadline))

    def _request(
        self,
        method: str,
        reference: Reference,
        path: str,
        *,
        push: bool = False,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        cap: int = MAX_MANIFEST_BYTES,
    ) -> Request:
        repository = reference.repository
        if not isinstance(repository, OciRepository) or repository.host != self.host:
            raise OtherRegistry(self.host, reference)
        name = repository_path(repository)
        return Request(method, f"{self._base}/v2/{name}/{path}", Scope(name, push), cap, headers or {}, body)

    def _next(self, request: Request, answer: Answer, link: str) -> Request:
        url = self._transport.followed(answer, link)
        if Origin.of(url) != Origin.of(self._base):
            raise UnexpectedAnswer(f"{self.host} continues its list of tags at another host")
        return Request("GET", url, request.scope, request.cap)


def _tags(answer: Answer, reference: Reference) -> list[str]:
    match parsed_json(answer.body):
        case {"tags": list(tags)} if answer.status == _OK and all(isinstance(tag, str) for tag in tags):
            if all(_TAG.fullmatch(tag) for tag in tags):
                return tags
        case {"tags": None} if answer.status == _OK:
            return []
    raise _unexpected(answer, f"the tags of {reference.repository}")


def _stated_digest(answer: Answer) -> Digest | None:
    """Return the digest that the registry says the content has, or None if it says none of ours."""
    try:
        return Digest.parse(answer.headers.get("docker-content-digest", ""))
    except InvalidDigest:
        return None


def _unexpected(answer: Answer, what: str) -> UnexpectedAnswer:
    return UnexpectedAnswer(f"{what}: {answer.host} answered {answer.described()}", answer.complaint())
