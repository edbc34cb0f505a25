"""The one place where a request to a registry leaves this program: oras' client, with its choke point replaced.

Of oras (0.2.43) the client is used as the holder of the session. Its `do_request` shows tokens to whatever host an
answer names, keeps one token for all repositories, knows no time-out and retries what cannot succeed: it is overridden.
The other methods verify nothing, and `Container` takes the first part of some repository names for a host: they are not
called (ADR 0010).

oras checks manifests with jsonschema in methods that nobody calls here. jsonschema takes longer to import than all the
rest of HTTP together, so it is imported when one of them is called after all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.net.network import Origin, UnsafeAddress
from ci_automation.net.session import Session, imported_on_use
from ci_automation.net.values import Answer, NoAnswer, TooLong
from ci_automation.net.waiting import Again, retry_after
from ci_automation.registry.addresses import base_url, followed, registry_host
from ci_automation.registry.authorization import Authorization, Request
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


with imported_on_use("jsonschema"):
    from oras.provider import Registry as OrasRegistry  # noqa: TID251 - this is the module that may


class Transport(OrasRegistry):  # type: ignore[misc]  # oras ships no types
    """One registry, spoken to over HTTP: the only host that is shown its credentials. Threads may share it."""

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
        """Return the answer to `request`, read to its end, whatever its status but those that are errors below.

        What authorizes it is renewed at most once, and a few redirects of reads are followed. No host but the registry
        itself is shown credentials.

        Raises:
            AccessDenied: 401 or 403, with the credentials that there are.
            Again: the connection failed, or the registry is busy; another attempt may succeed.
            Unreachable: no attempt would.
            AnswerTooLong: it has more bytes than the request's cap, or than headers may have.
            UnexpectedAnswer: it leads to where nobody should go.
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
        """Return the URL that an answer leads to by its `Location` or `Link`.

        Raises:
            UnexpectedAnswer: it says nothing, or what must not be followed.
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
        """Close the connections that are kept for further requests."""
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
    """Return `answer` unless it asks for patience."""
    if answer.status not in _TRANSIENT:
        return answer
    complaint = answer.complaint()
    error = UnexpectedAnswer(f"{answer.host} answered {request.method} {request.path} with {complaint}", complaint)
    raise Again(error, retry_after(answer, deadline.clock))
