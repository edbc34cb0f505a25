"""Logins to registries, from the action's inputs: each for the registry that it is meant for, and for no other."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ci_automation.artifact.reference import OciRepository, Reference
from ci_automation.errors import UsageError
from ci_automation.hiding import Hiding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ci_automation.action.inputs import Inputs
    from ci_automation.action.job import Job
    from ci_automation.registry.credentials import Credential, Credentials, CredentialSource

GHCR = "ghcr.io"
_PUBLIC_SERVER = "https://github.com"
_SECRETS = frozenset({"auth", "password", "identitytoken", "registrytoken"})  # of docker's config.json


class OneLoginForSeveralRegistries(UsageError):
    """One user and password are given for several registries."""

    hint = "Use the input docker-config, or name variables under `credentials` in the configuration, or an artifact."

    def __init__(self, hosts: Iterable[str]) -> None:
        super().__init__(f"registry-password is for one registry, and the artifacts are in {', '.join(hosts)}")


class Logins(Hiding, Struct, frozen=True):
    """Credentials from the inputs: a login or a provider for `hosts`, a docker configuration, and GitHub's."""

    hides = ("login", "docker_config", "github", "hide")

    hosts: frozenset[str] = frozenset()
    login: tuple[str, str] | None = None
    docker_config: str = ""
    provider: str = ""
    github: tuple[str, str] | None = None  # the actor and the token, for ghcr.io
    hide: Callable[[str], None] = lambda _: None

    def before(self, otherwise: CredentialSource, environment: Mapping[str, str]) -> CredentialSource:
        """Return where credentials come from: these logins, and `otherwise` for whom they are not."""
        from ci_automation.registry.docker_config import DockerConfig

        given = self.docker_config
        docker = DockerConfig(Path("docker-config"), environment, text=given) if given else None
        return _Credentials(self, docker, environment, otherwise)


class _Credentials(Hiding, Struct, frozen=True):
    """The credentials of a run, by registry; a cloud is logged in to once for each."""

    hides = ("environment", "known")

    logins: Logins
    docker: CredentialSource | None
    environment: Mapping[str, str]
    otherwise: CredentialSource
    known: dict[str, Credential] = field(default_factory=dict)

    def for_host(self, host: str) -> Credentials:
        """Return the credentials to read and to write alike, from the first that has some: see `Logins`."""
        from ci_automation.registry.credentials import Credential, Credentials

        given = self.logins
        if given.login and host in given.hosts:
            return Credentials.both(Credential.of(*given.login))
        if self.docker and (found := self.docker.for_host(host)) != Credentials():
            return found
        if given.provider and host in given.hosts and (of_cloud := self._of_cloud(host)):
            return Credentials.both(of_cloud)
        if (found := self.otherwise.for_host(host)) != Credentials() or not (given.github and host == GHCR):
            return found
        return Credentials.both(Credential.of(*given.github))

    def _of_cloud(self, host: str) -> Credential | None:
        """Return fresh credentials of the provider; None for one of several registries that is not the provider's."""
        from ci_automation.registry.logins import login
        from ci_automation.registry.logins.cloud import NotOfProvider

        if host not in self.known:
            try:
                self.known[host] = login(self.logins.provider, host, self.environment, mask=self.logins.hide)
            except NotOfProvider:
                if len(self.logins.hosts) == 1:
                    raise
                return None
        return self.known[host]


def logins(inputs: Inputs, job: Job, channels: Iterable[Reference], hide: Callable[[str], None]) -> Logins:
    """Return the logins for the registries of `channels`; `hide` is told each secret before it is used.

    Raises:
        OneLoginForSeveralRegistries: it cannot be said which of them the password is for.
    """
    hosts = sorted({it.repository.host for it in channels if isinstance(it.repository, OciRepository)})
    if inputs.registry_password and len(hosts) > 1:
        raise OneLoginForSeveralRegistries(hosts)
    for secret in secrets_in(inputs.docker_config):
        hide(secret)
    # A token of an enterprise server is nothing to ghcr.io, which belongs to github.com.
    public = job.server == _PUBLIC_SERVER and job.actor and inputs.github_token
    return Logins(
        hosts=frozenset(hosts),
        login=(inputs.registry_username, inputs.registry_password) if inputs.registry_password else None,
        docker_config=inputs.docker_config,
        provider=inputs.provider,
        github=(job.actor, inputs.github_token) if public else None,
        hide=hide,
    )


def secrets_in(docker_config: str) -> tuple[str, ...]:
    """Return the secrets in the text of a docker configuration; where it is none, all of it is one."""
    if not docker_config:
        return ()
    try:
        return tuple(dict.fromkeys(_secrets(json.loads(docker_config), "")))
    except (ValueError, RecursionError):
        return (docker_config,)


def _secrets(value: object, key: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets(inner, str(name).lower())
    elif isinstance(value, str) and value and key in _SECRETS:
        yield value
        if key == "auth" and (password := _password(value)):
            yield password


def _password(auth: str) -> str:
    """Return the password in docker's base64 form of NAME:PASSWORD, or nothing."""
    try:
        return base64.b64decode(auth, validate=True).decode().partition(":")[2].rstrip("\0")
    except ValueError:
        return ""
