"""The one place where a request to a registry leaves this program: oras' client, with its central method replaced.

oras' client (0.2.43) holds the session. This module overrides its `do_request`, which shows tokens to any host that an
answer names, keeps one token for all repositories, has no time-out and retries requests that cannot succeed. The
program does not call the other methods: they verify nothing, and `Container` takes the first part of some repository
names for a host (ADR 0010).

Some of these methods check manifests with jsonschema, whose import takes longer than all the rest of HTTP together, or
make archives. This module puts these imports off until one of them is called.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from msgspec.structs import replace

from ci_automation.artifact.reference import Digest, InvalidDigest, OciRepository, Reference
from ci_automation.net.network import Network, Origin, UnsafeAddress
from ci_automation.net.session import Session, imported_on_use
from ci_automation.net.values import Answer, NoAnswer, TooLong
from ci_automation.net.waiting import Again, Deadline, Patience, retry_after
from ci_automation.registry.authorization import Authorization, Request, Scope
from ci_automation.registry.credentials import CredentialSource, base_url, followed, registry_host, repository_path
from ci_automation.registry.port import (
    MAX_MANIFEST_BYTES,
    AccessDenied,
    AnswerTooLong,
    ContentMismatch,
    OtherRegistry,
    UnexpectedAnswer,
    Unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRANSIENT = frozenset({429, 502, 503, 504})
_OK, _UNAUTHORIZED, _FORBIDDEN = 200, 401, 403


with (
    imported_on_use("jsonschema"),
    imported_on_use("subprocess"),
    imported_on_use("tarfile"),
):
    from oras.provider import Registry as OrasRegistry  # noqa: TID251 - this is the module that may

MAX_PAGES = 200
_MAX_LIST_BYTES = 16 << 20  # of all pages: several lists are read at once
_SLOWEST = 256 << 10  # bytes a second
STORED = frozenset({200, 201, 202, 204})  # 201 by the spec; not every registry is exact

T = TypeVar("T")


class Wire(OrasRegistry):  # type: ignore[misc]  # oras ships no types
    """Requests to the registry at one host, which alone sees its credentials. Threads may share it."""

    session: Session

    def __init__(self, host: str, source: CredentialSource, network: Network | None, patience: Patience | None) -> None:
        self.host = host
        self._base = base_url(registry_host(host))
        try:
            self.origin = Origin.of(self._base)
        except UnsafeAddress as reason:
            raise Unreachable(host, str(reason)) from None
        super().__init__(hostname=self.origin.host, insecure=self.origin.scheme == "http")
        self._patience, self._network = patience or Patience(), network or Network()
        self.clock = self._patience.clock
        self.session.close()
        self.session = self.auth.session = Session(self._network)
        self._authorization = Authorization(self.origin, lambda: source.for_host(host), self._token_answer, self.clock)

    def do_request(self, request: Request, deadline: Deadline) -> Answer:
        """Return the whole answer to `request`, whatever its status, except for the errors below.

        This renews the authorization at most once, and follows a few redirects of reads. Only the registry itself sees
        credentials.

        Raises:
            AccessDenied: 401 or 403 with the present credentials.
            Again: the connection failed, or the registry is busy; another attempt may succeed.
            Unreachable: no attempt can succeed.
            AnswerTooLong: the answer exceeds the request's cap, or the cap of headers.
            UnexpectedAnswer: the answer redirects to an unsafe address.
        """
        hops, renewed = 0, False
        while True:
            own = Origin.of(request.url) == self.origin
            shown = self._authorization.header(request.scope, deadline) if own else None
            answer = self._sent(request, deadline, shown)
            if answer.status == _UNAUTHORIZED and own and not renewed:
                renewed = True
                if not self._authorization.renewed(request.scope, answer, shown, deadline):
                    raise self._denied(answer, request.scope)
            elif answer.status in _REDIRECTS and request.method in {"GET", "HEAD"} and hops < _MAX_REDIRECTS:
                hops += 1
                request = replace(request, url=self.followed(answer))
            elif answer.status in {_UNAUTHORIZED, _FORBIDDEN}:
                raise self._denied(answer, request.scope)
            else:
                return _patient(answer, request, deadline)

    def followed(self, answer: Answer, link: str | None = None) -> str:
        """Return the URL in an answer's `Location`, or in a `link` of it.

        Raises:
            UnexpectedAnswer: the answer has no address, or an unsafe one.
        """
        if not (location := answer.headers.get("location", "") if link is None else link):
            raise UnexpectedAnswer(f"{answer.host} answered {answer.status} without saying where to continue")
        try:
            return followed(answer.url, location, self.origin)
        except UnsafeAddress as reason:
            raise UnexpectedAnswer(
                f"{answer.host} redirects to an address that this program refuses: {reason}"
            ) from None

    def close(self) -> None:
        """Close open connections."""
        self.session.close()

    def _sent(self, request: Request, deadline: Deadline, authorization: str | None = None) -> Answer:
        host = Origin.of(request.url).host
        shown = {"Authorization": authorization} if authorization else {}
        call = replace(request, headers={**request.headers, **shown}, secrets=self._authorization.secrets)
        try:
            return self.session.answer(call, deadline)
        except TooLong as longer:
            if longer.begun is None:
                raise AnswerTooLong(host, longer.limit, "headers") from None
            if longer.begun.is_web_page or longer.begun.status != _OK:
                return longer.begun
            raise AnswerTooLong(host, longer.limit) from None
        except NoAnswer as none:
            error = Unreachable(host, none.reason)
            raise (error if none.hopeless else Again(error)) from None

    def _token_answer(self, request: Request, deadline: Deadline) -> Answer:
        return _patient(self._sent(request, deadline), request, deadline)

    def _denied(self, answer: Answer, scope: Scope) -> AccessDenied:
        complaint = answer.complaint()
        wish = f"{'to write to' if scope.push else 'to read'} {scope.repository}"
        own = Origin.of(answer.url) == self.origin
        if answer.status == _UNAUTHORIZED and own and self._authorization.is_anonymous:
            return AccessDenied(f"{answer.host} wants credentials {wish}, but there are none: {complaint}")
        found_in = self._authorization.found_in if own else ""
        return AccessDenied(f"{answer.host} refuses {wish}: {complaint}", found_in)

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

    def ask(self, request: Request) -> Answer:
        """Return the answer to `request`, sent again while another attempt may succeed."""
        return self.run(lambda deadline: self.do_request(request, deadline))

    def pages(self, request: Request, what: str) -> Iterator[Answer]:
        """Yield the answers to a request for a list, page by page along their `Link` (RFC 8288).

        Raises:
            UnexpectedAnswer: the list does not end, or continues at another host.
        """
        size = 0
        for _ in range(MAX_PAGES):
            answer = self.ask(request)
            if (size := size + len(answer.body)) > _MAX_LIST_BYTES:
                raise self.endless(what)
            yield answer
            link = next_link(answer.headers.get("link", ""))
            if link is None:
                return
            url = self.followed(answer, link)
            if Origin.of(url) != self.origin:
                raise UnexpectedAnswer(f"{self.host} continues its list of {what} at another host")
            request = replace(request, url=url)
        raise self.endless(what)

    def endless(self, what: str) -> UnexpectedAnswer:
        """Return the error for a list without an end."""
        return UnexpectedAnswer(f"{self.host} never ends its list of {what}")


def _patient(answer: Answer, request: Request, deadline: Deadline) -> Answer:
    """Return `answer` unless the registry is busy."""
    if answer.status not in _TRANSIENT:
        return answer
    complaint = answer.complaint()
    error = UnexpectedAnswer(f"{answer.host} answered {request.method} {request.path} with {complaint}")
    raise Again(error, retry_after(answer, deadline.clock))


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
    return UnexpectedAnswer(f"{what}: {answer.host} answered {answer.described()}")
