"""Common parts of the logins of all clouds: the identity of the job, requests to services, and errors."""

from __future__ import annotations

import enum
import re
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from ci_automation.errors import RegistryError, UsageError
from ci_automation.hiding import Hiding
from ci_automation.net.network import Origin, UnsafeAddress
from ci_automation.net.services import REQUEST_VARIABLE, URL_VARIABLE, Exchange, Mask, token_call
from ci_automation.net.values import Answer, Call, parsed_json, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MAX_FILE_BYTES = 64 << 10
_XML_ERROR = re.compile(r"<Code>([^<]{1,100})</Code>\s*<Message>([^<]{1,1000})</Message>")
_SECRET = re.compile(r"[\x21-\x7e]+")  # fit for a header, and for one line of a log that hides it
# Services of a cloud for its own machines, without TLS, at addresses that no router forwards.
_OF_THE_MACHINE = frozenset(
    {"169.254.170.2", "169.254.170.23", "fd00:ec2::23", "169.254.169.254", "metadata.google.internal"}
)


class Provider(enum.StrEnum):
    """Provider of a registry, with the names of Flux's `--provider`."""

    AWS = "aws"
    AZURE = "azure"
    GCP = "gcp"


class About(NamedTuple):
    """Words for messages about a provider: the form of its registries' names, and what a job needs to log in."""

    registries: str
    needs: str


_JOB = "Give the job `permissions: {id-token: write}` and the variable"
_ABOUT = {
    Provider.AWS: About(
        "ACCOUNT.dkr.ecr.REGION.amazonaws.com",
        f"{_JOB} AWS_ROLE_ARN, the role that trusts GitHub's identity provider; or set AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY.",
    ),
    Provider.AZURE: About(
        "NAME.azurecr.io",
        f"{_JOB}s AZURE_CLIENT_ID and AZURE_TENANT_ID, of the application that has a federated credential for this "
        "job; or set AZURE_CLIENT_SECRET too.",
    ),
    Provider.GCP: About(
        "REGION-docker.pkg.dev or gcr.io",
        f"{_JOB} GOOGLE_WORKLOAD_IDENTITY_PROVIDER "
        "(projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/NAME), and GOOGLE_SERVICE_ACCOUNT if "
        "the job acts as a service account; or name a file in GOOGLE_APPLICATION_CREDENTIALS.",
    ),
}


class NotOfProvider(UsageError):
    """The registry does not belong to the provider of the login."""

    def __init__(self, provider: Provider, host: str) -> None:
        super().__init__(f"{host} is not a registry of the provider {provider}")
        self.hint = (
            f"Registries of {provider} are like {_ABOUT[provider].registries}. For another registry, omit `provider` "
            "and give `registry-username` and `registry-password`."
        )


class NoCloudIdentity(UsageError):
    """The environment has no usable identity for a cloud."""

    def __init__(self, provider: Provider, reason: str) -> None:
        super().__init__(f"no credentials to log in to {provider}: {reason}")
        self.hint = _ABOUT[provider].needs


class CloudLoginFailed(RegistryError):
    """A service for the login to a cloud refuses, fails, or is unreachable."""

    def __init__(self, provider: Provider, service: str, host: str, problem: str, attempts: int = 1) -> None:
        tried = f", the last of {attempts} attempts" if attempts > 1 else ""
        super().__init__(f"the login to {provider} failed: {service} at {host}: {problem}{tried}")
        self.hint = (
            "If it refuses, compare its trust policy with this job: the subject of the job's identity token has "
            f"repository, branch and environment. {_ABOUT[provider].needs}"
        )


def https(host: str) -> str:
    """Return the address of a service at `host`."""
    return f"https://{host}"


class Cloud(Hiding, Struct, frozen=True):
    """One provider in this environment; `where` lets tests put its services on loopback."""

    hides = ("environment",)

    provider: Provider
    environment: Mapping[str, str]
    exchange: Exchange
    mask: Mask
    where: Callable[[str], str] = https

    def value(self, name: str) -> str:
        """Return a variable's text without blanks around it, empty if it is not set."""
        return self.environment.get(name, "").strip()

    def missing(self, reason: str) -> NoCloudIdentity:
        """Return the error for an environment without a usable identity."""
        return NoCloudIdentity(self.provider, reason)

    def failed(self, service: str, host: str, problem: str) -> CloudLoginFailed:
        """Return the error for a service that failed."""
        return CloudLoginFailed(self.provider, service, host, problem)

    def secret(self, text: str, service: str, host: str) -> str:
        """Return a secret from a service, after masking it.

        Raises:
            CloudLoginFailed: the text is not usable as a secret.
        """
        if not _SECRET.fullmatch(text):
            raise self.failed(service, host, "its answer has no valid secret")
        self.mask(text)
        return text

    def ask(self, service: str, call: Call) -> Answer:
        """Return the answer of a service, whatever its status.

        Raises:
            NoCloudIdentity: the address of the service is unsafe for a secret.
            CloudLoginFailed: the service did not answer.
        """
        try:
            origin = Origin.of(call.url)
        except UnsafeAddress as reason:
            raise self.missing(f"this program refuses the address of {service}: {reason}") from None
        if origin.scheme != "https" and not origin.is_loopback and origin.name not in _OF_THE_MACHINE:
            raise self.missing(f"{service} at {origin.host} has an address without TLS")

        def failed(host: str, problem: str, attempts: int) -> CloudLoginFailed:
            return CloudLoginFailed(self.provider, service, host, problem, attempts)

        return self.exchange.ask(call, failed)

    def json(self, service: str, call: Call) -> Any:  # noqa: ANN401  # it is JSON, and looked at by match
        """Return the JSON of a service's answer, or None if the answer is not JSON.

        Raises:
            CloudLoginFailed: the service refuses.
        """
        return parsed_json(self.body(service, call))

    def body(self, service: str, call: Call) -> bytes:
        """Return the body of a service's answer; raise `CloudLoginFailed` if the service refuses."""
        answer = self.ask(service, call)
        if answer.status != HTTPStatus.OK:
            raise self.failed(service, answer.host, f"it answered {complaint(answer)}")
        return answer.body

    def token(self, service: str, call: Call, name: str) -> str:
        """Return the secret under `name` in a service's answer, after masking it.

        Raises:
            CloudLoginFailed: the service refuses, or its answer has no such secret.
        """
        host = urlsplit(call.url).netloc
        match self.json(service, call):
            case {**answer} if isinstance(text := answer.get(name), str):
                return self.secret(text, service, host)
        raise self.failed(service, host, "its answer has no token")

    def file(self, variable: str) -> str:
        """Return the text of the file that a variable names; raise `NoCloudIdentity` if it cannot be read."""
        return self.text_of(self.value(variable), variable)

    def text_of(self, path: str, variable: str) -> str:
        """Return the text of a file, to which `variable` led; raise `NoCloudIdentity` if it cannot be read."""
        try:
            with Path(path).open("rb") as file:
                data = file.read(_MAX_FILE_BYTES + 1)
            text = data.decode().strip() if len(data) <= _MAX_FILE_BYTES else ""
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise self.missing(f"{path}, by {variable}, cannot be read: {reason}") from None
        if not text:
            raise self.missing(f"{path}, by {variable}, is empty or too large")
        return text

    def job_token(self, audience: str) -> str:
        """Return an identity token of this job for `audience` (GitHub, "OpenID Connect reference").

        Raises:
            NoCloudIdentity: the job lacks the permission to request tokens.
            CloudLoginFailed: GitHub gives no token.
        """
        if not (self.value(URL_VARIABLE) and self.value(REQUEST_VARIABLE)):
            raise self.missing("the job gets no identity token, for it lacks the permission id-token: write")
        call = token_call(self.value(URL_VARIABLE), self.value(REQUEST_VARIABLE), audience)
        return self.token("GitHub's identity token endpoint", call, "value")


def complaint(answer: Answer) -> str:
    """Return a service's complaint: in the form of registries, of Google, or of AWS STS, which answers XML."""
    text = answer.body.decode(errors="replace")
    match parsed_json(answer.body):
        case {"error": {"status": str(code), "message": str(message)}}:
            pass
        case None if said := _XML_ERROR.search(text):
            code, message = said[1], said[2]
        case _:
            return str(answer.complaint())
    for secret in sorted(answer.secrets, key=len, reverse=True):
        code, message = code.replace(secret, "***"), message.replace(secret, "***")
    return printable(f"{answer.status} {code}: {message}")


def form(url: str, shown: str, **values: str) -> Call:
    """Return the request that sends a form with the secret `shown` in it; empty values are left out."""
    body = urlencode({name: text for name, text in values.items() if text}).encode()
    return Call("POST", url, {"Content-Type": "application/x-www-form-urlencoded"}, body, secrets=frozenset({shown}))
