"""Logins to the registries of clouds, from the job's identity token or from credentials in the environment.

The hosts of each provider follow Flux's `--provider` (fluxcd/pkg, `auth`): ECR, ACR, Artifact Registry. The clouds' own
libraries are not needed: each login is one to four plain requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.net.services import Exchange, unmasked
from ci_automation.registry.logins.cloud import Cloud, NotOfProvider, Provider, https

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ci_automation.net.services import Mask
    from ci_automation.registry.credentials import Credential


def login(
    provider: str,
    host: str,
    environment: Mapping[str, str],
    *,
    mask: Mask = unmasked,
    exchange: Exchange | None = None,
    where: Callable[[str], str] = https,
) -> Credential:
    """Return a new credential for the registry at `host` from the provider: aws, azure or gcp.

    `mask` gets each secret before its first use, so that the log of the run hides it. The credential lasts at least an
    hour, or as long as the machine's own account allows, and is not renewed.

    Raises:
        NotOfProvider: the host is not one of the provider's registries.
        NoCloudIdentity: the environment has no usable identity; the hint says what to set.
        CloudLoginFailed: a service that the login needs refuses, fails, or cannot be reached.
    """
    from ci_automation.net.network import Network
    from ci_automation.registry.logins import aws, azure, google

    named = Provider(provider)
    names, ask = {
        Provider.AWS: (aws.REGISTRY, aws.ecr_login),
        Provider.AZURE: (azure.REGISTRY, azure.acr_login),
        Provider.GCP: (google.REGISTRY, google.artifact_registry_login),
    }[named]
    registry = names.fullmatch(host)
    if registry is None:
        raise NotOfProvider(named, host)
    cloud = Cloud(named, environment, exchange or Exchange(Network.from_environment(environment)), mask, where)
    return ask(cloud, registry)


__all__ = ["cloud", "libraries"]
