"""HTTP to services that are no registry: capped, timed, redirected nowhere, and repeated a few times."""

from __future__ import annotations

import ssl
from contextlib import closing
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from ci_automation.hiding import Hiding
from ci_automation.registry.exchange import MAX_HEADER_BYTES, Answer, read_headers
from ci_automation.registry.network import Network, Origin
from ci_automation.registry.retry import Again, Deadline, Patience, retry_after

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import urllib3

    from ci_automation.errors import Error

    Failed = Callable[[str, str, int], Error]  # host, problem, attempts

_CONNECT_SECONDS, _READ_SECONDS = 10.0, 30.0
_CHUNK = 64 << 10
ANSWERED = "it answered"  # how the reason begins where an answer said to come again
_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
_HEADERS = {"User-Agent": "flux-manifests", "Accept-Encoding": "identity"}
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Call(Hiding, Struct, frozen=True):
    """One request; `cap` is how many bytes its answer may have, `secrets` what the other side is shown."""

    hides = ("headers", "body", "secrets")

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=lambda: _NO_HEADERS)
    body: bytes | None = None
    cap: int = 1 << 20
    secrets: frozenset[str] = frozenset()


class Exchange(Struct, frozen=True):
    """Whoever sends calls: through which proxy, and with how much patience. It checks no address: the caller has."""

    network: Network = field(default_factory=Network)
    patience: Patience = field(default_factory=Patience)

    def ask(self, call: Call, failed: Failed) -> Answer:
        """Return the answer to `call`, read to its end, whatever its status but those that ask for patience.

        Raises:
            MissingCertificates: the file of them that the environment names is not there.
            Error: what `failed` makes of it; no answer came, or only busy ones.
        """
        origin = Origin.of(call.url)
        attempts = 0

        def attempt(deadline: Deadline) -> Answer:
            nonlocal attempts
            attempts += 1
            answer = self._sent(call, origin, deadline, failed, attempts)
            if answer.status in _BUSY:
                error = failed(origin.host, f"{ANSWERED} {answer.complaint()}", attempts)
                raise Again(error, retry_after(answer, deadline.clock))
            return answer

        def late(reason: str) -> Error:
            return failed(origin.host, reason, attempts)

        return self.patience.run(attempt, origin.host, late, self.network.watch)

    def _sent(self, call: Call, origin: Origin, deadline: Deadline, failed: Failed, attempts: int) -> Answer:
        import urllib3

        proxy = self.network.proxy_for(origin)
        left = max(deadline.left, 0.01)
        try:
            response = _pool(proxy, self.network.ca_bundle).request(
                call.method,
                call.url,
                body=call.body,
                headers={**_HEADERS, **call.headers},
                timeout=urllib3.Timeout(connect=min(_CONNECT_SECONDS, left), read=min(_READ_SECONDS, left)),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            body = bytearray()
            with closing(response):
                if (headers := read_headers(response.headers)) is None:
                    raise failed(origin.host, f"its headers have more than {MAX_HEADER_BYTES} bytes", attempts)
                while piece := response.read1(_CHUNK):
                    body += piece
                    if len(body) > call.cap:
                        raise failed(origin.host, f"its answer has more than {call.cap} bytes", attempts)
                    if deadline.left <= 0:
                        raise failed(origin.host, "it took longer than is allowed", attempts)
        except (urllib3.exceptions.HTTPError, OSError, UnicodeError) as error:
            # Not chained: these texts have URLs with queries in them, and a proxy's password.
            reason, hopeless = _in_words(error)
            failure = failed(origin.host, reason, attempts)
            raise (failure if hopeless else Again(failure)) from None
        return Answer(response.status, headers, bytes(body), call.url, call.secrets)


@cache
def _pool(proxy: str | None, ca_bundle: str | None) -> urllib3.PoolManager:
    import certifi
    import urllib3

    if ca_bundle is not None and not Path(ca_bundle).exists():
        from ci_automation.registry.transport import MissingCertificates

        raise MissingCertificates(ca_bundle)
    certificates = ca_bundle or certifi.where()
    if proxy is None:
        return urllib3.PoolManager(ca_certs=certificates)
    user, at, _ = urlsplit(proxy).netloc.rpartition("@")
    headers = urllib3.make_headers(proxy_basic_auth=unquote(user)) if at else None
    return urllib3.ProxyManager(proxy, proxy_headers=headers, ca_certs=certificates)


def _in_words(error: BaseException) -> tuple[str, bool]:
    """Return what a failure of the network means, and whether it is there to stay."""
    from urllib3 import exceptions

    cause = error.reason if isinstance(error, exceptions.MaxRetryError) and error.reason else error
    inner = cause.args[-1] if cause.args else None
    if isinstance(cause, exceptions.SSLError) and isinstance(inner, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {inner.verify_message}", True
    words: tuple[tuple[type[BaseException], str, bool], ...] = (
        (exceptions.SSLError, "it does not speak TLS", True),
        (exceptions.NameResolutionError, "its name cannot be resolved", False),
        (exceptions.ProxyError, "the proxy on the way to it fails", False),
        (exceptions.NewConnectionError, "nothing listens there", False),  # which is a time-out only by its class
        (exceptions.TimeoutError, "it does not answer in time", False),
        (exceptions.LocationValueError, "this is no address of a host", True),
        (UnicodeError, "this is no address of a host", True),
    )
    return next(
        ((text, stays) for kind, text, stays in words if isinstance(cause, kind)), ("the connection broke", False)
    )
