"""The one place where a request to a registry leaves this program: oras' client, with its choke point replaced.

Of oras (0.2.43) the session is used, which refuses cookies. Its `do_request` shows tokens to whatever host an answer
names, keeps one token for all repositories, knows no time-out and retries what cannot succeed: it is overridden. The
other methods verify nothing, and `Container` takes the first part of some repository names for a host: they are not
called.

oras checks manifests with jsonschema in methods that nobody calls here. jsonschema takes longer to import than all the
rest of HTTP together, so it is imported when one of them is called after all.
"""

from __future__ import annotations

import socket
import ssl
import sys
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import requests
import urllib3

from ci_automation.errors import UsageError
from ci_automation.registry.authorization import Authorization
from ci_automation.registry.exchange import MAX_COMPLAINT_BYTES, MAX_HEADER_BYTES, Answer, Request, read_headers
from ci_automation.registry.network import Network, Origin, UnsafeAddress, base_url, followed, registry_host
from ci_automation.registry.port import AccessDenied, AnswerTooLong, UnexpectedAnswer, Unreachable
from ci_automation.registry.retry import TRANSIENT, Again, Clock, Deadline, retry_after

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_automation.registry.credentials import CredentialSource
    from ci_automation.registry.exchange import Scope

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
_CHUNK = 64 << 10
_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_UNAUTHORIZED, _FORBIDDEN = 401, 403
_OK = 200
_HEADERS = {
    "User-Agent": "flux-manifests",
    "Accept": "*/*",
    "Accept-Encoding": "identity",  # what is hashed and counted is what is sent
    "Connection": "keep-alive",
}
# How OpenSSL says that what came back is no TLS: HTTP, usually.
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"})


@contextmanager
def imported_on_use(name: str) -> Iterator[None]:
    """Put off the import of a module, for modules that are imported here, until one of them uses it."""
    if name in sys.modules:
        yield
        return

    def attribute(wanted: str) -> Any:  # noqa: ANN401  # whatever the module has
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
        return getattr(import_module(name), wanted)

    stand_in = sys.modules[name] = ModuleType(name)
    stand_in.__getattr__ = attribute  # type: ignore[method-assign]  # by PEP 562
    try:
        yield
    finally:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]


with imported_on_use("jsonschema"):
    from oras.provider import Registry as OrasRegistry  # noqa: TID251 - this is the module that may


class MissingCertificates(UsageError):
    """The certificates that the environment names are not there."""

    hint = "Correct REQUESTS_CA_BUNDLE or SSL_CERT_FILE, or unset it to trust the usual authorities."

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}, named for the certificates to trust, is not there")


class Transport(OrasRegistry):  # type: ignore[misc]  # oras ships no types
    """One registry, spoken to over HTTP: the only host that is shown its credentials. Threads may share it."""

    session: requests.Session

    def __init__(self, host: str, source: CredentialSource, network: Network, clock: Clock) -> None:
        try:
            self.origin = Origin.of(base_url(registry_host(host)))
        except UnsafeAddress as reason:
            raise Unreachable(host, str(reason)) from None
        super().__init__(hostname=self.origin.host, insecure=self.origin.scheme == "http")
        if network.ca_bundle is not None and not Path(network.ca_bundle).exists():
            raise MissingCertificates(network.ca_bundle)
        self._network = network
        self.session.trust_env = False  # neither .netrc nor a proxy that nobody passed in
        # Redirects are followed here or not at all. Even to say where one leads, requests would read all of its body.
        self.session.get_redirect_target = lambda resp: None  # type: ignore[method-assign]  # noqa: ARG005 - its name
        self.session.headers.clear()
        self.session.headers.update(_HEADERS)
        self._authorization = Authorization(self.origin, lambda: source.for_host(host), self._token_answer, clock)

    def exchange(self, request: Request, deadline: Deadline) -> Answer:
        """Return the answer to `request`, read to its end, whatever its status but those that are errors below.

        Raises:
            AccessDenied: 401 or 403, with the credentials that there are.
            Again: the connection failed, or the registry is busy; another attempt may succeed.
            Unreachable: no attempt would.
            AnswerTooLong: it has more bytes than the request's cap, or than headers may have.
            UnexpectedAnswer: it leads to where nobody should go.
        """
        response = self.do_request(
            request.url, request.method, request.body, request.headers, scope=request.scope, deadline=deadline
        )
        answer = self._patient(self._read(response, request, deadline), request, deadline)
        if answer.status in {_UNAUTHORIZED, _FORBIDDEN}:
            raise self._denied(answer, request.scope)
        return answer

    def do_request(
        self,
        url: str,
        method: str = "GET",
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        scope: Scope,
        deadline: Deadline,
    ) -> requests.Response:
        """Return the response to one request, its body unread, after renewing at most once what authorizes it.

        A few redirects of reads are followed. No host but the registry itself is shown credentials.

        Raises:
            AccessDenied: the registry asks for credentials, and there are none that help.
            Again: the connection failed.
            Unreachable: it cannot succeed.
            UnexpectedAnswer: a redirect leads to where nobody should go.
        """
        hops, renewed = 0, False
        while True:
            request = Request(method, url, scope, MAX_COMPLAINT_BYTES, headers or {}, data)
            own = Origin.of(url) == self.origin
            shown = self._authorization.header(scope, deadline) if own else None
            response = self._send(request, deadline, shown)
            if response.status_code == _UNAUTHORIZED and own and not renewed:
                renewed = True
                answer = self._read(response, request, deadline)
                if not self._authorization.renewed(scope, answer, shown, deadline):
                    raise self._denied(answer, scope)
            elif response.status_code in _REDIRECTS and method in {"GET", "HEAD"} and hops < _MAX_REDIRECTS:
                hops += 1
                answer = self._read(response, request, deadline)
                url = self.followed(answer, answer.headers.get("location", ""))
            else:
                return response

    def followed(self, answer: Answer, location: str) -> str:
        """Return the URL that an answer leads to by its `Location` or `Link`.

        Raises:
            UnexpectedAnswer: it says nothing, or what must not be followed.
        """
        if not location:
            raise UnexpectedAnswer(f"{answer.host} answered {answer.status} and does not say where to go on")
        try:
            return followed(answer.url, location, self.origin)
        except UnsafeAddress as reason:
            raise UnexpectedAnswer(f"{answer.host} leads to an address that is refused: {reason}") from None

    def close(self) -> None:
        """Close the connections that are kept for further requests."""
        self.session.close()

    def _send(self, request: Request, deadline: Deadline, authorization: str | None = None) -> requests.Response:
        origin = Origin.of(request.url)
        if (left := deadline.left) <= 0:
            raise _too_late(origin.host)
        proxy = self._network.proxy_for(origin)
        try:
            return self.session.request(
                request.method,
                request.url,
                data=request.body,
                headers={**request.headers, **({"Authorization": authorization} if authorization else {})},
                stream=True,
                allow_redirects=False,
                timeout=(min(CONNECT_SECONDS, left), min(READ_SECONDS, left)),
                verify=self._network.ca_bundle or True,
                proxies={"https": proxy} if proxy else {},
            )
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, UnicodeError) as error:
            # Not chained: these texts have URLs with queries in them, and a proxy's password.
            raise _failure(error, origin.host) from None

    def _read(self, response: requests.Response, request: Request, deadline: Deadline) -> Answer:
        """Return a response as a value, its connection free for the next request."""
        host = Origin.of(response.url).host
        headers = read_headers(response.headers)
        if headers is None:
            response.close()
            raise AnswerTooLong(host, MAX_HEADER_BYTES, "headers")
        failed = response.status_code != _OK
        cap = MAX_COMPLAINT_BYTES if failed else request.cap
        body = bytearray()
        with closing(response):
            try:
                while piece := response.raw.read1(_CHUNK):
                    body += piece
                    if len(body) > cap:
                        break
                    if deadline.left <= 0:
                        raise _too_late(host)
            except (urllib3.exceptions.HTTPError, OSError) as error:
                raise _failure(error, host) from None
        answer = Answer(response.status_code, headers, bytes(body[:cap]), response.url, self._authorization.secrets)
        if len(body) > cap and not failed and not answer.is_web_page:
            raise AnswerTooLong(host, cap)
        return answer

    def _patient(self, answer: Answer, request: Request, deadline: Deadline) -> Answer:
        """Return `answer` unless it asks for patience."""
        if answer.status not in TRANSIENT:
            return answer
        complaint = answer.complaint()
        error = UnexpectedAnswer(f"{answer.host} answered {request.method} {request.path} with {complaint}", complaint)
        raise Again(error, retry_after(answer, deadline.clock))

    def _token_answer(self, request: Request, deadline: Deadline) -> Answer:
        return self._patient(self._read(self._send(request, deadline), request, deadline), request, deadline)

    def _denied(self, answer: Answer, scope: Scope) -> AccessDenied:
        complaint = answer.complaint()
        wish = f"{'to write to' if scope.push else 'to read'} {scope.repository}"
        own = Origin.of(answer.url) == self.origin
        if answer.status == _UNAUTHORIZED and own and self._authorization.is_anonymous:
            return AccessDenied(f"{answer.host} wants credentials {wish}, and there are none: {complaint}", complaint)
        return AccessDenied(f"{answer.host} refuses {wish}: {complaint}", complaint)


def _too_late(host: str) -> Unreachable:
    return Unreachable(host, "it took longer than is allowed")


def _failure(error: BaseException, host: str) -> Again | Unreachable:
    """Return what a failure of the network means, in words of ours."""
    reason, hopeless = next(filter(None, map(_in_words, _causes(error))), ("the connection broke", False))
    return Unreachable(host, reason) if hopeless else Again(Unreachable(host, reason))


def _in_words(cause: BaseException) -> tuple[str, bool] | None:  # noqa: PLR0911 - one for each case
    """Return what one cause means, and whether it is there to stay; None if it means nothing in particular."""
    match cause:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {cause.verify_message}", True
        case ssl.SSLError() if cause.reason in _NO_TLS:
            return "it does not speak TLS, and plain HTTP is only spoken to this machine", True
        case socket.gaierror():
            return "its name is unknown", cause.errno != socket.EAI_AGAIN
        case requests.exceptions.ProxyError() | urllib3.exceptions.ProxyError():
            return "the proxy on the way to it fails", False
        case urllib3.exceptions.NewConnectionError():
            return None  # which is a time-out only by its class
        case requests.exceptions.Timeout() | urllib3.exceptions.TimeoutError():
            return "it does not answer in time", False
        case ConnectionRefusedError():
            return "nothing listens there", False
        case requests.exceptions.InvalidURL() | UnicodeError() | urllib3.exceptions.LocationValueError():
            return "this is no address of a host", True
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that it says it came from: requests and urllib3 wrap them in several ways."""
    pending, seen = [error], set[int]()
    while pending:
        cause = pending.pop()
        if id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            inner = (cause.__cause__, cause.__context__, getattr(cause, "reason", None), *cause.args)
            pending += [each for each in inner if isinstance(each, BaseException)]
