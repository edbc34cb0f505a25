"""The one session that every request goes through: capped, timed, redirected nowhere, and without a memory.

oras and PyGithub send through it too. Of itself, requests follows redirects with credentials, reads `.netrc`, keeps
cookies, has no limit for the length of an answer, and its time limits are for each read.
"""

from __future__ import annotations

import logging
import socket
import ssl
import sys
from contextlib import closing, contextmanager
from http.cookiejar import DefaultCookiePolicy
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ci_automation.net.network import MissingCertificates, Origin
from ci_automation.net.values import MAX_COMPLAINT_BYTES, MAX_HEADER_BYTES, TOO_LATE, Answer, NoAnswer, TooLong

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.net.network import Network
    from ci_automation.net.values import Call
    from ci_automation.net.waiting import Deadline


@contextmanager
def imported_on_use(name: str, **known: object) -> Iterator[None]:
    """Put off the import of a module, for modules that are imported here, until one of them uses it.

    `known` is what they may have of it without that.
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


# requests could guess the encoding of texts, and convert names of hosts; urllib3 asks for a version for HTTP/2 alone.
with (
    imported_on_use("charset_normalizer", __version__="3.4.0"),
    imported_on_use("idna"),
    imported_on_use("importlib.metadata", version=_version),
):
    import requests
    import urllib3

CONNECT_SECONDS, READ_SECONDS = 5.0, 30.0
_CHUNK = 64 << 10
logging.getLogger("urllib3").setLevel(logging.WARNING)  # at DEBUG it prints the signed addresses of downloads
_HEADERS = {
    "User-Agent": "flux-manifests",
    "Accept": "*/*",
    "Accept-Encoding": "identity",  # what is hashed and counted is what is sent
    "Connection": "keep-alive",
}
_MULTIPLE_CHOICES, _BAD_REQUEST = 300, 400
_FAILURES = (requests.RequestException, urllib3.exceptions.HTTPError, OSError, UnicodeError)
# How OpenSSL says that what came back is no TLS: HTTP, usually.
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"})


class Session(requests.Session):
    """Connections that are kept open for further requests. Threads may share it.

    Raises:
        MissingCertificates: the network's certificates are not there.
    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        if network.ca_bundle is not None and not Path(network.ca_bundle).exists():
            raise MissingCertificates(network.ca_bundle)
        self._network = network
        self.trust_env = False  # neither .netrc nor a proxy that nobody passed in
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self.headers.clear()
        self.headers.update(_HEADERS)

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return nothing: even to say where a redirect leads, requests would read all of its body."""
        del resp

    def answer(self, call: Call, deadline: Deadline) -> Answer:
        """Return the answer to `call`, read to its end.

        Raises:
            NoAnswer, TooLong: as `opened` and `read`.
        """
        return self.read(self.opened(call, deadline), call, deadline)

    def opened(self, call: Call, deadline: Deadline) -> requests.Response:
        """Return the response to `call`, its body unread.

        Raises:
            NoAnswer: none came.
        """
        if (left := deadline.left) <= 0:
            raise NoAnswer(TOO_LATE, hopeless=True, unsent=True)
        try:
            proxy = self._network.proxy_for(Origin.of(call.url))
            return self.request(
                call.method,
                call.url,
                data=call.body,
                headers=dict(call.headers),
                stream=True,
                allow_redirects=False,
                timeout=(min(CONNECT_SECONDS, left), min(READ_SECONDS, left)),
                verify=self._network.ca_bundle or True,
                proxies={"https": proxy} if proxy else {},
            )
        except _FAILURES as error:
            # Not chained: these texts have URLs with queries in them, and a proxy's password.
            raise failure(error) from None

    def read(self, response: requests.Response, call: Call, deadline: Deadline) -> Answer:
        """Return a response as a value, its connection free for the next request; of complaints the beginning.

        Raises:
            TooLong: it has more bytes than `call` allows, or than headers may have.
            NoAnswer: it does not come to its end.
        """
        with closing(response):
            if sum(map(len, (*response.headers, *response.headers.values()))) > MAX_HEADER_BYTES:
                raise TooLong(MAX_HEADER_BYTES, None)
            cap = call.cap if response.status_code < _MULTIPLE_CHOICES else MAX_COMPLAINT_BYTES
            body = bytearray()
            unpacked = "gzip" in call.headers.get("Accept-Encoding", "")
            try:
                # Not iter_content: it waits for a full chunk, so that a drip of single bytes never meets a time limit.
                while piece := response.raw.read1(_CHUNK, decode_content=unpacked):
                    body += piece
                    if len(body) > cap:
                        break
                    if deadline.left <= 0:
                        raise NoAnswer(TOO_LATE, hopeless=True)
            except _FAILURES as error:
                raise failure(error) from None
        headers = {name.lower(): text for name, text in response.headers.items()}
        answer = Answer(response.status_code, headers, bytes(body[:cap]), response.url or call.url, call.secrets)
        if len(body) > cap and answer.status < _BAD_REQUEST:
            raise TooLong(cap, answer)
        return answer


def failure(error: BaseException) -> NoAnswer:
    """Return what a failure of the network means, in words of ours."""
    causes = list(_causes(error))
    reason, hopeless = next(filter(None, map(_in_words, causes)), ("the connection broke", False))
    return NoAnswer(reason, hopeless=hopeless, unsent=any(map(_is_unsent, causes)))


def _in_words(cause: BaseException) -> tuple[str, bool] | None:  # noqa: PLR0911 - one for each case
    """Return what one cause means, and whether it is there to stay; None if it means nothing in particular."""
    match cause:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {cause.verify_message}", True
        case ssl.SSLError() if cause.reason in _NO_TLS:
            return "it does not speak TLS, and only this machine may use plain HTTP", True
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
        case urllib3.exceptions.DecodeError():
            return "its answer cannot be unpacked", True
        case requests.exceptions.InvalidURL() | UnicodeError() | urllib3.exceptions.LocationValueError():
            return "this is not the address of a host", True
    return None


def _is_unsent(cause: BaseException) -> bool:
    """Return whether no connection came about. TLS can end later too, and that has the same class."""
    match cause:
        case urllib3.exceptions.NewConnectionError() | urllib3.exceptions.ConnectTimeoutError():
            return True
        case urllib3.exceptions.ProxyError():
            return True
        case ssl.SSLError():
            return "EOF" not in str(cause)
    return False


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
