"""Credentials of registries, the port of their sources, and environment variables as a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from msgspec import Struct, field
from msgspec.structs import replace

from ci_automation.errors import UsageError
from ci_automation.hiding import Hiding

if TYPE_CHECKING:
    from collections.abc import Mapping

_IDENTITY_TOKEN_USER = "<token>"  # noqa: S105 - what docker's helpers call the user of an identity token


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
    token for reads and writes.
    """

    pull: Credential | None = None
    push: Credential | None = None
    token_host: str | None = None
    writes: bool = False

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
        ...


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
        """Return the credential in the variables.

        Raises:
            MissingVariable: a variable is not set.
        """
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
        pull = self.pull.read(self.environment) if self.pull else self.otherwise.for_host(host).pull
        push = self.push.read(self.environment) if self.push else pull
        return Credentials(pull, push, self.token_host)
