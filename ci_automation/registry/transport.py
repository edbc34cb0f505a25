"""The one place where a request to a registry leaves this program: oras' client, with its central method replaced.

oras' client (0.2.43) holds the session. This module overrides its `do_request`, which shows tokens to any host that an
answer names, keeps one token for all repositories, has no time-out and retries requests that cannot succeed. The
program does not call the other methods: they verify nothing, and `Container` takes the first part of some repository
names for a host (ADR 0010).

Some of these methods check manifests with jsonschema, whose import takes longer than all the rest of HTTP together, or
make archives. This module puts these imports off until one of them is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.net.network import Origin, UnsafeAddress
from ci_automation.net.session import Session, imported_on_use
from ci_automation.net.values import Answer, NoAnswer, TooLong
from ci_automation.net.waiting import Again, retry_after
from ci_automation.registry.authorization import Authorization, Request
from ci_automation.registry.credentials import base_url, followed, registry_host
from ci_automation.registry.port import AccessDenied, AnswerTooLong, UnexpectedAnswer, Unreachable

if TYPE_CHECKING:
    from ci_automation.net.network import Network
    from ci_automation.net.waiting import Clock, Deadline
    from ci_automation.registry.authorization import Scope
    from ci_automation.registry.credentials import CredentialSource

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


class Transport(OrasRegistry):  # type: ignore[misc]  # oras ships no types
    """HTTP connection to one registry. Only the registry's host sees its credentials. Threads may share it."""

    session: Session

    def __init__(self, host: str, source: CredentialSource, network: Network, clock: Clock) -> None:
        try:
            self.origin = Origin.of(base_url(registry_host(host)))
        except UnsafeAddress as reason:
            raise Unreachable(host, str(reason)) from None
        super().__init__(hostname=self.origin.host, insecure=self.origin.scheme == "http")
        self.session.close()
        self.session = self.auth.session = Session(network)
        self._authorization = Authorization(self.origin, lambda: source.for_host(host), self._token_answer, clock)

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
                request = replace(request, url=self.followed(answer, answer.headers.get("location", "")))
            elif answer.status in {_UNAUTHORIZED, _FORBIDDEN}:
                raise self._denied(answer, request.scope)
            else:
                return _patient(answer, request, deadline)

    def followed(self, answer: Answer, location: str) -> str:
        """Return the URL in an answer's `Location` or `Link`.

        Raises:
            UnexpectedAnswer: the answer has no address, or an unsafe one.
        """
        if not location:
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
            return AccessDenied(f"{answer.host} wants credentials {wish}, but there are none: {complaint}", complaint)
        return AccessDenied(f"{answer.host} refuses {wish}: {complaint}", complaint)


def _patient(answer: Answer, request: Request, deadline: Deadline) -> Answer:
    """Return `answer` unless the registry is busy."""
    if answer.status not in _TRANSIENT:
        return answer
    complaint = answer.complaint()
    error = UnexpectedAnswer(f"{answer.host} answered {request.method} {request.path} with {complaint}", complaint)
    raise Again(error, retry_after(answer, deadline.clock))
