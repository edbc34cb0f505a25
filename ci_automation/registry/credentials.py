"""Credentials of registries, environment variables as their source, and the hosts that may see them.

The rules for hosts follow go-containerregistry's `pkg/v1/remote/transport/bearer.go`, and are stricter about plain
HTTP.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Protocol, Self
from urllib.parse import urljoin

from msgspec import Struct, field
from msgspec.structs import replace

from ci_automation.artifact.reference import DOCKER_HUB, OciRepository
from ci_automation.errors import UsageError
from ci_automation.hiding import Hiding
from ci_automation.net.network import Origin, UnsafeAddress

if TYPE_CHECKING:
    from collections.abc import Mapping

_IDENTITY_TOKEN_USER = "<token>"  # noqa: S105 - what docker's helpers call the user of an identity token
# Registries whose token server is on another host.
_TOKEN_HOSTS = {
    "registry-1.docker.io": "auth.docker.io",
    "registry.digitalocean.com": "api.digitalocean.com",
    "registry.gitlab.com": "gitlab.com",
}


class MissingVariable(UsageError):
    """A variable for credentials is not set."""

    hint = "Set the variable, or remove its name from the configuration to use no credentials."

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the environment variable {name}, named for the credentials of a registry, is empty or not set"
        )


class Credential(Hiding, Struct, frozen=True):
    """User of one registry: name and password, or an identity token, which gets tokens (docker's OAuth2 form)."""

    hides = ("password", "identity_token")

    username: str
    password: str = ""
    identity_token: str = ""

    @classmethod
    def of(cls, username: str, secret: str) -> Self:
        """Return the credential for a name and a secret as docker's helpers and files write them."""
        return cls("", "", secret) if username == _IDENTITY_TOKEN_USER else cls(username, secret)


class Credentials(Struct, frozen=True):
    """Credentials to read from a registry and to write to it; None means without credentials.

    `token_host` is another host whose token server may see them. `writes` says that this run writes, so it requests one
    token for reads and writes. `found_in` is the file or the variables that they come from, if a person can change it.
    """

    pull: Credential | None = None
    push: Credential | None = None
    token_host: str | None = None
    writes: bool = False
    found_in: str = ""

    @classmethod
    def both(cls, pull: Credential | None, push: Credential | None = None) -> Self:
        """Return credentials with one user for reads and writes, or with a second user for writes."""
        return cls(pull, pull if push is None else push)


class CredentialSource(Protocol):
    """Source of credentials."""

    def for_host(self, host: str) -> Credentials:
        """Return the credentials for the registry at `host`, which no other host may see.

        Raises:
            UsageError: the source is damaged, or a helper fails.
        """


class Anonymous(Struct, frozen=True):
    """Source without credentials."""

    def for_host(self, host: str) -> Credentials:  # noqa: ARG002 - the port's
        """Return empty credentials."""
        return Credentials()


class Writing(Struct, frozen=True):
    """The credentials of `source`, for a run that writes."""

    source: CredentialSource

    def for_host(self, host: str) -> Credentials:
        """Return the credentials for the registry at `host`."""
        return replace(self.source.for_host(host), writes=True)


class Variables(Struct, frozen=True):
    """Names of two variables with one user's name and password."""

    username: str
    password: str

    def read(self, environment: Mapping[str, str]) -> Credential:
        """Return the credential in the variables; raise `MissingVariable` if one is not set."""
        for name in (self.username, self.password):
            if not environment.get(name):
                raise MissingVariable(name)
        return Credential.of(environment[self.username], environment[self.password])


class NamedVariables(Hiding, Struct, frozen=True):
    """Credentials of one host in variables that the configuration names; `otherwise` has those of other hosts."""

    hides = ("environment",)

    host: str
    environment: Mapping[str, str]
    pull: Variables | None = None
    push: Variables | None = None
    otherwise: CredentialSource = field(default_factory=Anonymous)
    token_host: str | None = None

    def for_host(self, host: str) -> Credentials:
        """Return the credentials in the variables if they are for `host`, else those of the other source."""
        if host != self.host:
            return self.otherwise.for_host(host)
        known = Credentials() if self.pull else self.otherwise.for_host(host)
        pull = self.pull.read(self.environment) if self.pull else known.pull
        push = self.push.read(self.environment) if self.push else pull
        named = " and ".join(f"${it.password}" for it in (self.pull, self.push) if it)
        return Credentials(pull, push, self.token_host, found_in=named or known.found_in)


def registry_host(host: str) -> str:
    """Return the host that serves the registry API for a reference's host: Docker Hub's differs."""
    return "registry-1.docker.io" if host in DOCKER_HUB else host


def repository_path(repository: OciRepository) -> str:
    """Return the repository's name in the registry API: Docker Hub keeps the short ones in a library."""
    return (
        f"library/{repository.path}"
        if repository.host in DOCKER_HUB and "/" not in repository.path
        else repository.path
    )


def names_of(host: str) -> frozenset[str]:
    """Return all names under which a docker configuration may know a host."""
    if host in DOCKER_HUB:
        return DOCKER_HUB
    return frozenset({host} if ":" in host else {host, f"{host}:443"})


def base_url(host: str) -> str:
    """Return the root of a registry's URLs."""
    return f"{'http' if OciRepository(host, '').is_loopback else 'https'}://{host}"


def followed(url: str, location: str, registry: Origin) -> str:
    """Return the URL in a `Location` or `Link` of an answer from `url`.

    Raises:
        UnsafeAddress: the URL is malformed, leads into a private network, or has no TLS.
    """
    try:
        target = urljoin(url, location)
    except ValueError:
        raise UnsafeAddress("it is malformed") from None
    check_address(target, registry)
    return target


def check_address(url: str, registry: Origin) -> None:
    """Refuse an address that a registry must not redirect its clients to.

    Raises:
        UnsafeAddress: the address is plain HTTP, except from a loopback registry to loopback; or it is the IP address
            of a machine in a private network other than the registry.
    """
    origin = Origin.of(url)
    if origin.scheme == "http" and not (registry.is_loopback and origin.is_loopback):
        raise UnsafeAddress("it is not https")
    if origin.name != registry.name and not registry.is_loopback and _is_inside(origin.name):
        raise UnsafeAddress("it is in a private network")


def shares_credentials(registry: Origin, realm: Origin, token_host: str | None) -> bool:
    """Return whether a token server may see a registry's credentials: the same host, a known one, or `token_host`."""
    if realm.name == registry.name or (realm.is_loopback and registry.is_loopback):
        return True
    return realm.host in {_TOKEN_HOSTS.get(registry.host), token_host}


def _is_inside(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return not ipaddress.ip_address(name.partition("%")[0]).is_global
    except ValueError:
        return False
