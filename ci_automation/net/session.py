"""The one session for every request, with caps and time limits, and without redirects and cookies.

oras and PyGithub send through it too. By default, requests follows redirects with credentials, reads `.netrc`, keeps
cookies, does not limit the length of an answer, and applies its time limits to each read.
"""

from __future__ import annotations

import logging
import socket
import ssl
import sys
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ci_automation.net.network import MissingCertificates, Network, Origin
from ci_automation.net.values import MAX_COMPLAINT_BYTES, MAX_HEADER_BYTES, TOO_LATE, Answer, Call, NoAnswer, TooLong

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_automation.net.waiting import Deadline


@contextmanager
def imported_on_use(name: str, **known: object) -> Iterator[None]:
    """Put off the import of a module until its first use; this applies to imports within the context.

    `known` has the members that need no import.
    """
    if name in sys.modules:
        yield
        return

    def attribute(wanted: str) -> Any:  # noqa: ANN401  # whatever the module has
        if wanted == "__path__":  # `from name import known` looks whether it is a package
            raise AttributeError(wanted)
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
        return getattr(import_module(name), wanted)

    stand_in = sys.modules[name] = ModuleType(name)
    stand_in.__dict__.update(known)
    stand_in.__getattr__ = attribute  # type: ignore[method-assign]  # by PEP 562
    try:
        yield
    finally:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]


def _version(name: str) -> str:
    """Return the version of an installed package."""
    from importlib.metadata import version

    return version(name)


def _late(module: str, name: str) -> Callable[..., Any]:
    """Return a function that calls the one of this name in a module, which it imports then."""
    return lambda *arguments: getattr(import_module(module), name)(*arguments)  # noqa: PLW0108  # it would import now


_OF_URLLIB = ("getproxies", "getproxies_environment", "parse_http_list", "proxy_bypass", "proxy_bypass_environment")
# requests needs these only to guess encodings, to convert host names, to find proxies and to open certificates in an
# archive, and urllib3 to check a version for HTTP/2.
with (
    imported_on_use("charset_normalizer", __version__="3.4.0"),
    imported_on_use("idna"),
    imported_on_use("importlib.metadata", version=_version),
    imported_on_use("urllib.request", **{name: _late("urllib.request", name) for name in _OF_URLLIB}),
    imported_on_use("zipfile"),
):
    from http.cookiejar import DefaultCookiePolicy

    import requests
    import urllib3

CONNECT_SECONDS, READ_SECONDS = 5.0, 30.0
_CHUNK = 64 << 10
logging.getLogger("urllib3").setLevel(logging.WARNING)  # at DEBUG it prints the signed addresses of downloads
_HEADERS = {
    "User-Agent": "flux-manifests",
    "Accept": "*/*",
    "Accept-Encoding": "identity",  # the bytes to hash and count are the bytes on the wire
    "Connection": "keep-alive",
}
_OK, _MULTIPLE_CHOICES, _BAD_REQUEST = 200, 300, 400
_FAILURES = (requests.RequestException, urllib3.exceptions.HTTPError, OSError, UnicodeError)
# OpenSSL's words for an answer without TLS, usually plain HTTP.
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"})


class Session(requests.Session):
    """Connections that stay open for further requests. Threads may share it.

    Raises:
        MissingCertificates: the network's file of certificates does not exist.
    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        if network.ca_bundle is not None and not Path(network.ca_bundle).exists():
            raise MissingCertificates(network.ca_bundle)
        self._network = network
        self.trust_env = False  # no .netrc, and no proxy except the network's
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self.headers.clear()
        self.headers.update(_HEADERS)

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return nothing, because requests would read the whole body to find the target of a redirect."""
        del resp

    def answer(self, call: Call, deadline: Deadline) -> Answer:
        """Return the whole answer to `call`.

        Raises:
            NoAnswer, TooLong: as `opened` and `read`.
        """
        return self.read(self.opened(call, deadline), call, deadline)

    def opened(self, call: Call, deadline: Deadline) -> requests.Response:
        """Return the response to `call`, its body unread.

        Raises:
            NoAnswer: no response came.
        """
        if (left := deadline.left) <= 0:
            raise NoAnswer(TOO_LATE, hopeless=True, unsent=True)
        if call.file is not None:
            call.file.seek(0)
        try:
            proxy = self._network.proxy_for(Origin.of(call.url))
            return self.request(
                call.method,
                call.url,
                data=call.file or call.body,
                headers=dict(call.headers),
                stream=True,
                allow_redirects=False,
                timeout=(min(CONNECT_SECONDS, left), min(READ_SECONDS, left)),
                verify=self._network.ca_bundle or True,
                proxies={"https": proxy} if proxy else {},
            )
        except _FAILURES as error:
            # Not chained, because these texts contain URLs with queries, and a proxy's password.
            raise failure(error) from None

    def read(self, response: requests.Response, call: Call, deadline: Deadline) -> Answer:
        """Return a response as a value, and free its connection; cut complaints at their cap.

        If `call` has a sink, that gets the body of a good answer, and the value has none.

        Raises:
            TooLong: the response exceeds the cap of `call`, or of headers.
            NoAnswer: the response ends too early or too late.
        """
        with closing(response):
            if sum(map(len, (*response.headers, *response.headers.values()))) > MAX_HEADER_BYTES:
                raise TooLong(MAX_HEADER_BYTES, None)
            cap = call.cap if response.status_code < _MULTIPLE_CHOICES else MAX_COMPLAINT_BYTES
            body, size = bytearray(), 0
            take = call.sink if call.sink and response.status_code == _OK else body.extend
            unpacked = "gzip" in call.headers.get("Accept-Encoding", "")
            try:
                # Not iter_content: it waits for a full chunk, so single bytes in a drip would evade the time limit.
                while piece := response.raw.read1(_CHUNK, decode_content=unpacked):
                    size += len(piece)
                    take(piece)
                    if size > cap:
                        break
                    if deadline.left <= 0:
                        raise NoAnswer(TOO_LATE, hopeless=True)
            except _FAILURES as error:
                raise failure(error) from None
        headers = {name.lower(): text for name, text in response.headers.items()}
        answer = Answer(response.status_code, headers, bytes(body[:cap]), response.url or call.url, call.secrets)
        if size > cap and answer.status < _BAD_REQUEST:
            raise TooLong(cap, answer)
        return answer


def failure(error: BaseException) -> NoAnswer:
    """Return a failure of the network in words for people."""
    causes = list(_causes(error))
    reason, hopeless = next(filter(None, map(_in_words, causes)), ("the connection broke", False))
    return NoAnswer(reason, hopeless=hopeless, unsent=any(map(_is_unsent, causes)))


def _in_words(cause: BaseException) -> tuple[str, bool] | None:  # noqa: PLR0911 - one for each case
    """Return the words for one cause, and whether it is permanent, or None if the cause says nothing specific."""
    match cause:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {cause.verify_message}", True
        case ssl.SSLError() if cause.reason in _NO_TLS:
            return "it does not speak TLS, and only this machine may use plain HTTP", True
        case socket.gaierror():
            return "its host name cannot be resolved (DNS)", cause.errno != socket.EAI_AGAIN
        case requests.exceptions.ProxyError() | urllib3.exceptions.ProxyError():
            return "the proxy on the way to it fails", False
        case urllib3.exceptions.NewConnectionError():
            return None  # a time-out only by its class
        case requests.exceptions.Timeout() | urllib3.exceptions.TimeoutError():
            return "it does not answer in time", False
        case ConnectionRefusedError():
            return "nothing listens there", False
        case urllib3.exceptions.DecodeError():
            return "its answer cannot be unpacked", True
        case requests.exceptions.InvalidURL() | UnicodeError() | urllib3.exceptions.LocationValueError():
            return "this is not the address of a host", True
    return None


def _is_unsent(cause: BaseException) -> bool:
    """Return whether there was no connection. TLS may also fail later, with an error of the same class."""
    match cause:
        case urllib3.exceptions.NewConnectionError() | urllib3.exceptions.ConnectTimeoutError():
            return True
        case urllib3.exceptions.ProxyError():
            return True
        case ssl.SSLError():
            return "EOF" not in str(cause)
    return False


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all its causes, which requests and urllib3 wrap in several ways."""
    pending, seen = [error], set[int]()
    while pending:
        cause = pending.pop()
        if id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            inner = (cause.__cause__, cause.__context__, getattr(cause, "reason", None), *cause.args)
            pending += [each for each in inner if isinstance(each, BaseException)]
