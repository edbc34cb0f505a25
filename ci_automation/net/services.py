"""Calls to services other than registries and GitHub's API, with a few retries and without redirects."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct, field

from ci_automation.net.network import Network, Origin
from ci_automation.net.values import Answer, Call, NoAnswer
from ci_automation.net.waiting import Again, Deadline, Patience, retry_after

if TYPE_CHECKING:
    from ci_automation.errors import Error
    from ci_automation.net.session import Session

    Failed = Callable[[str, str, int], Error]  # host, problem, attempts

ANSWERED = "it answered"  # the beginning of the reason if the service answered that it is busy
URL_VARIABLE, REQUEST_VARIABLE = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
_MAX_TOKEN_BYTES = 64 << 10
Mask = Callable[[str], None]
_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})


def unmasked(_: str) -> None:
    """Hide no secret, because no log is kept."""


class Exchange(Struct, frozen=True):
    """Sender of calls, with its proxy and its patience. The caller checks the address."""

    network: Network = field(default_factory=Network)
    patience: Patience = field(default_factory=Patience)

    def ask(self, call: Call, failed: Failed) -> Answer:
        """Return the whole answer to `call`, whatever its status; wait and retry while the service is busy.

        Raises:
            MissingCertificates: the environment names a file of certificates that does not exist.
            Error: the one from `failed`; the service did not answer, or stayed busy.
        """
        host = Origin.of(call.url).host
        session = _session(self.network)
        attempts = 0

        def attempt(deadline: Deadline) -> Answer:
            nonlocal attempts
            attempts += 1
            try:
                answer = session.answer(call, deadline)
            except NoAnswer as none:
                error = failed(host, none.reason, attempts)
                raise (error if none.hopeless else Again(error)) from None
            if answer.status in _BUSY:
                error = failed(host, f"{ANSWERED} {answer.complaint()}", attempts)
                raise Again(error, retry_after(answer, deadline.clock))
            return answer

        return self.patience.run(attempt, host, lambda reason: failed(host, reason, attempts), self.network.watch)


@cache
def _session(network: Network) -> Session:
    from ci_automation.net.session import Session

    return Session(network)


def token_call(url: str, request_token: str, audience: str) -> Call:
    """Return the request for an identity token of this job for `audience`; the answer has the token as `value`.

    See GitHub, "OpenID Connect reference".
    """
    parts = urlsplit(url)
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "audience"]
    return Call(
        "GET",
        urlunsplit(parts._replace(query=urlencode([*query, ("audience", audience)]))),
        {"Authorization": f"bearer {request_token}", "Accept": "application/json"},
        cap=_MAX_TOKEN_BYTES,
        secrets=frozenset({request_token}),
    )
