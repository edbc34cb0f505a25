"""HTTP to the services that keyless signing needs.

The clients in sigstore have no time limit, do not retry, follow redirects and read `.netrc`. They send plain JSON, so
this module sends it instead.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar

from ci_automation.errors import SigningError
from ci_automation.net import services
from ci_automation.net.network import Origin, UnsafeAddress

if TYPE_CHECKING:
    from ci_automation.net.values import Answer, Call

JSON = {"Content-Type": "application/json", "Accept": "application/json"}
_DONE = frozenset({HTTPStatus.OK, HTTPStatus.CREATED})


class ServiceFailed(SigningError):
    """A service that keyless signing needs fails, refuses, or cannot be reached."""

    name: ClassVar[str]
    hint = (
        "Nothing was tagged: the channel and the clusters are unchanged. Run again; or sign with a key (--signing key "
        "--key FILE), which needs no service."
    )

    def __init__(self, host: str, problem: str, attempts: int = 1) -> None:
        tried = f", the last of {attempts} attempts" if attempts > 1 else ""
        super().__init__(f"{self.name} at {host} failed: {problem}{tried}")


class FulcioFailed(ServiceFailed):
    """Fulcio gives no certificate."""

    name = "Fulcio (certificates)"


class RekorFailed(ServiceFailed):
    """Rekor takes or gives no entry."""

    name = "Rekor (the transparency log)"


class TokenServiceFailed(ServiceFailed):
    """The identity token endpoint gives no token."""

    name = "the identity token endpoint"


class UnsafeService(SigningError):
    """A service has an address that this program sends no secret to."""

    hint = "Correct the trust configuration: a service needs an https:// address, or http:// on this machine."

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"the address of {what} is refused: {reason}")


class SigstoreExchange(services.Exchange, frozen=True):
    """Client of the services of a Sigstore instance, over TLS except on this machine."""

    def ask(self, call: Call, failed: type[ServiceFailed]) -> Answer:  # type: ignore[override]  # one kind of error
        """Return the whole answer to `call`, whatever its status; wait and retry while the service is busy.

        Raises:
            UnsafeService: the call would be plain HTTP to another machine.
            MissingCertificates: the environment names a file of certificates that does not exist.
            ServiceFailed: of the kind `failed`; the service did not answer, or stayed busy.
        """
        checked_origin(call.url, failed.name)
        return services.Exchange.ask(self, call, failed)


def require_done(answer: Answer, failed: type[ServiceFailed]) -> None:
    """Raise `failed` unless an answer reports success.

    Raises:
        ServiceFailed: of the kind `failed`; the answer reports something else.
    """
    if answer.status not in _DONE:
        raise failed(answer.host, f"it answered {answer.complaint()}")


def checked_origin(url: str, what: str) -> Origin:
    """Return the origin of `url`.

    Raises:
        UnsafeService: `url` is not an address of a web server, or plain HTTP to another machine.
    """
    try:
        return Origin.secure(url)
    except UnsafeAddress as reason:
        raise UnsafeService(what, str(reason)) from None
