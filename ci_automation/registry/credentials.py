"""Credentials of registries: their values, the port of their sources, and the variables that a user names."""

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
    """A variable that should hold a part of the credentials is not set."""

    hint = "Set the variable, or remove its name from the configuration to use no credentials."

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the environment variable {name}, named for the credentials of a registry, is empty or not set"
        )


class Credential(Hiding, Struct, frozen=True):
    """A user of one registry: name and password, or an identity token, which buys tokens (docker's OAuth2 form)."""

    hides = ("password", "identity_token")

    username: str
    password: str = ""
    identity_token: str = ""

    @classmethod
    def of(cls, username: str, secret: str) -> Self:
        """Return the credential that docker's helpers and files mean by a name and a secret."""
        return cls("", "", secret) if username == _IDENTITY_TOKEN_USER else cls(username, secret)


class Credentials(Struct, frozen=True):
    """Credentials to read from a registry and to write to it; None is to do so without.

    `token_host` is another host whose token server they may be shown to. `writes` says that this run writes, so that
    one token is asked for, for reads and writes.
    """

    pull: Credential | None = None
    push: Credential | None = None
    token_host: str | None = None
    writes: bool = False

    @classmethod
    def both(cls, pull: Credential | None, push: Credential | None = None) -> Self:
        """Return the credentials where who reads also writes, unless somebody else is named for that."""
        return cls(pull, pull if push is None else push)


class CredentialSource(Protocol):
    """A place to look up credentials in."""

    def for_host(self, host: str) -> Credentials:
        """Return the credentials for the registry at `host`, which must be shown to no other.

        Raises:
            UsageError: the place is damaged, or a helper fails.
        """
        ...


class Anonymous(Struct, frozen=True):
    """No credentials for anybody."""

    def for_host(self, host: str) -> Credentials:  # noqa: ARG002 - the port's
        """Return none."""
        return Credentials()


class Writing(Struct, frozen=True):
    """The credentials of `source`, for a run that writes."""

    source: CredentialSource

    def for_host(self, host: str) -> Credentials:
        """Return the credentials for the registry at `host`."""
        return replace(self.source.for_host(host), writes=True)


class Variables(Struct, frozen=True):
    """The names of the two variables that hold one user's name and password."""

    username: str
    password: str

    def read(self, environment: Mapping[str, str]) -> Credential:
        """Return the credential that they hold.

        Raises:
            MissingVariable: one of them is not set.
        """
        for name in (self.username, self.password):
            if not environment.get(name):
                raise MissingVariable(name)
        return Credential.of(environment[self.username], environment[self.password])


class NamedVariables(Hiding, Struct, frozen=True):
    """Credentials of one host in the variables that the configuration names; `otherwise` is asked for all else."""

    hides = ("environment",)

    host: str
    environment: Mapping[str, str]
    pull: Variables | None = None
    push: Variables | None = None
    otherwise: CredentialSource = field(default_factory=Anonymous)
    token_host: str | None = None

    def for_host(self, host: str) -> Credentials:
        """Return what the variables hold, if they are for `host`."""
        if host != self.host:
            return self.otherwise.for_host(host)
        pull = self.pull.read(self.environment) if self.pull else self.otherwise.for_host(host).pull
        push = self.push.read(self.environment) if self.push else pull
        return Credentials(pull, push, self.token_host)
