"""Registries with the credentials that are theirs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ci_automation.artifact.reference import OciRepository
from ci_automation.registry import open_registry

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Reference
    from ci_automation.cli.arguments import Arguments
    from ci_automation.config.model import ArtifactConfig
    from ci_automation.impact.check import Images
    from ci_automation.registry.credentials import CredentialSource
    from ci_automation.registry.port import Registry


def registry(
    reference: Reference, artifact: ArtifactConfig | None, given: Arguments, *, writes: bool = False
) -> Registry:
    """Return the registry, with credentials from named variables, the job's logins, or docker's configuration."""
    if not isinstance(reference.repository, OciRepository):
        return open_registry(reference)
    from ci_automation.net.network import Network
    from ci_automation.registry.credentials import Writing

    credentials = _credentials(reference, artifact, given)
    network = Network.from_environment(os.environ)
    return open_registry(reference, Writing(credentials) if writes else credentials, network)


def images(reference: Reference, artifact: ArtifactConfig | None, given: Arguments) -> Images:
    """Return the registries of the controllers' images; what is configured for the artifact's host counts there too."""
    from ci_automation.net.network import Network
    from ci_automation.registry.images import ImageRegistries

    return ImageRegistries(_credentials(reference, artifact, given), Network.from_environment(os.environ))


def _credentials(reference: Reference, artifact: ArtifactConfig | None, given: Arguments) -> CredentialSource:
    """Return where credentials are: nothing is read before a registry asks for them."""
    from ci_automation.config.model import CredentialsConfig
    from ci_automation.registry.credentials import DockerConfig, NamedVariables, Variables

    explicit = Path(given.registry_config) if given.registry_config else None
    source: CredentialSource = DockerConfig.find(os.environ, Path.home(), explicit)
    if given.logins:
        source = given.logins(source, os.environ)
    if isinstance(reference.repository, OciRepository) and artifact and artifact.credentials != CredentialsConfig():
        pull, push = (
            Variables(login.username_variable, login.password_variable) if login else None
            for login in (artifact.credentials.pull, artifact.credentials.push)
        )
        host, token_host = reference.repository.host, artifact.credentials.token_host
        source = NamedVariables(host, os.environ, pull, push, source, token_host)
    return source
