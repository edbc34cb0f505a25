"""Requests to one registry: their addresses, repetitions and pages, and the errors of wrong answers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from msgspec.structs import replace

from ci_automation.artifact.digest import Digest, InvalidDigest
from ci_automation.artifact.reference import OciRepository
from ci_automation.net.network import Network, Origin
from ci_automation.net.waiting import Patience
from ci_automation.registry.authorization import Request, Scope
from ci_automation.registry.credentials import base_url, registry_host, repository_path
from ci_automation.registry.port import (
    MAX_MANIFEST_BYTES,
    ContentMismatch,
    OtherRegistry,
    UnexpectedAnswer,
    Unreachable,
)
from ci_automation.registry.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_automation.artifact.reference import Reference
    from ci_automation.net.values import Answer
    from ci_automation.net.waiting import Clock, Deadline
    from ci_automation.registry.credentials import CredentialSource

MAX_PAGES = 200
_SLOWEST = 256 << 10  # bytes a second
STORED = frozenset({200, 201, 202, 204})  # 201 by the spec; not every registry is exact

T = TypeVar("T")


class Wire:
    """Requests to the registry at one host."""

    def __init__(
        self, host: str, credentials: CredentialSource, network: Network | None, patience: Patience | None
    ) -> None:
        self.host = host
        self._base = base_url(registry_host(host))
        self._patience = patience or Patience()
        self._network = network or Network()
        self._transport = Transport(host, credentials, self._network, self.clock)

    @property
    def clock(self) -> Clock:
        """Return the clock for this registry."""
        return self._patience.clock

    def close(self) -> None:
        """Close open connections."""
        self._transport.close()

    def request(self, method: str, reference: Reference, path: str, *, push: bool = False) -> Request:
        """Return the request about `path` of the reference's repository, with the right to write if it pushes.

        Raises:
            OtherRegistry: the reference is not in this registry.
        """
        repository = reference.repository
        if not isinstance(repository, OciRepository) or repository.host != self.host:
            raise OtherRegistry(self.host, reference)
        name = repository_path(repository)
        return Request(method, f"{self._base}/v2/{name}/{path}", cap=MAX_MANIFEST_BYTES, scope=Scope(name, push))

    def mounting(self, reference: Reference, digest: Digest, source: Reference) -> Request:
        """Return the request to mount a blob of the source's repository in the reference's.

        Raises:
            OtherRegistry: one of the two is not in this registry.
        """
        origin = self.request("POST", source, "").scope.repository
        request = self.request("POST", reference, "blobs/uploads/", push=True)
        url = f"{request.url}?mount={quote(str(digest), safe='')}&from={quote(origin, safe='')}"
        return replace(request, url=url, scope=replace(request.scope, source=origin), body=b"")

    def run(self, attempt: Callable[[Deadline], T], size: int = 0) -> T:
        """Return the result of `attempt`; call it again while another attempt may succeed.

        The limit in time grows with the bytes of a large blob.
        """
        seconds = self._patience.seconds or self._network.watch.seconds
        patience = replace(self._patience, seconds=seconds + size / _SLOWEST) if size else self._patience
        return patience.run(attempt, self.host, partial(Unreachable, self.host), self._network.watch)

    def exchange(self, request: Request, deadline: Deadline) -> Answer:
        """Return the answer to `request`, sent once."""
        return self._transport.do_request(request, deadline)

    def ask(self, request: Request) -> Answer:
        """Return the answer to `request`, sent again while another attempt may succeed."""
        return self.run(lambda deadline: self.exchange(request, deadline))

    def followed(self, answer: Answer) -> str:
        """Return the URL in an answer's `Location`.

        Raises:
            UnexpectedAnswer: the answer has no `Location`, or an unsafe one.
        """
        return self._transport.followed(answer, answer.headers.get("location", ""))

    def pages(self, request: Request, what: str) -> Iterator[Answer]:
        """Yield the answers to a request for a list, page by page along their `Link` (RFC 8288).

        Raises:
            UnexpectedAnswer: the list does not end, or continues at another host.
        """
        for _ in range(MAX_PAGES):
            answer = self.ask(request)
            yield answer
            link = next_link(answer.headers.get("link", ""))
            if link is None:
                return
            url = self._transport.followed(answer, link)
            if Origin.of(url) != Origin.of(self._base):
                raise UnexpectedAnswer(f"{self.host} continues its list of {what} at another host")
            request = replace(request, url=url)
        raise self.endless(what)

    def endless(self, what: str) -> UnexpectedAnswer:
        """Return the error for a list without an end."""
        return UnexpectedAnswer(f"{self.host} never ends its list of {what}")


def next_link(header: str) -> str | None:
    """Return the target of the first link in a `Link` header whose relation is `next`, in one pass over it."""
    for link in header.split("<")[1:]:
        target, _, parameters = link.partition(">")
        for parameter in parameters.split(";")[1:]:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "rel" and "next" in value.strip(' \t,"').lower().split():
                return target
    return None


def stated_digest(answer: Answer) -> Digest | None:
    """Return the digest that the registry states for the content, or None without a valid one."""
    try:
        return Digest.parse(answer.headers.get("docker-content-digest", ""))
    except InvalidDigest:
        return None


def check_stored(answer: Answer, what: str, digest: Digest) -> None:
    """Check that the registry has stored the content under its digest.

    Raises:
        UnexpectedAnswer: the registry answered something else.
        ContentMismatch: the registry states another digest.
    """
    if answer.status not in STORED:
        raise unexpected(answer, what)
    if (stated := stated_digest(answer)) not in {None, digest}:
        raise ContentMismatch(f"{what}, as {answer.host} stored it", digest, stated)


def unexpected(answer: Answer, what: str) -> UnexpectedAnswer:
    """Return the error for an answer that is not in the distribution spec."""
    return UnexpectedAnswer(f"{what}: {answer.host} answered {answer.described()}", answer.complaint())
