"""Logins to the clouds of a job, from its identity token or from credentials in the environment.

Logins to their registries follow the hosts of Flux's `--provider` (fluxcd/pkg, `auth`): ECR, ACR, Artifact Registry.
The clouds' own libraries are not needed for them: each is one to four plain requests. For keys in a cloud's KMS, these
libraries get the job's identity in files of tokens.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from ci_automation.net.services import REQUEST_VARIABLE, Exchange, Mask, unmasked
from ci_automation.registry.logins.cloud import Cloud, NotOfProvider, Provider, https

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

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


def variables(
    environment: Mapping[str, str], folder: Path, exchange: Exchange, mask: Mask = unmasked
) -> dict[str, str]:
    """Return the variables by which boto3, azure-identity and google-auth log in as this job.

    They name files in `folder` with a new identity token for each cloud whose role, application or provider is set.
    Variables that are set already stay. Without the permission to request tokens, the result is empty.

    Raises:
        NoCloudIdentity: a variable has an invalid name of a provider or account.
        CloudLoginFailed: GitHub gives no token.
    """
    from ci_automation.registry.logins import aws, azure, google

    if not environment.get(REQUEST_VARIABLE):
        return {}
    clouds = {provider: Cloud(provider, environment, exchange, mask) for provider in Provider}
    found: dict[str, str] = {}

    def has(*names: str) -> bool:
        return all(clouds[Provider.AWS].value(name) for name in names)

    if has("AWS_ROLE_ARN") and not (has("AWS_ACCESS_KEY_ID") or has("AWS_WEB_IDENTITY_TOKEN_FILE")):
        token = clouds[Provider.AWS].job_token(aws.AUDIENCE)
        found["AWS_WEB_IDENTITY_TOKEN_FILE"] = _written(folder / "aws", token)
    if has("AZURE_CLIENT_ID", "AZURE_TENANT_ID") and not (
        has("AZURE_CLIENT_SECRET") or has("AZURE_FEDERATED_TOKEN_FILE")
    ):
        token = clouds[Provider.AZURE].job_token(azure.audience())
        found["AZURE_FEDERATED_TOKEN_FILE"] = _written(folder / "azure", token)
    if has("GOOGLE_WORKLOAD_IDENTITY_PROVIDER") and not has("GOOGLE_APPLICATION_CREDENTIALS"):
        cloud = clouds[Provider.GCP]
        federation = google.federated(cloud, cloud.value("GOOGLE_WORKLOAD_IDENTITY_PROVIDER"))
        path = _written(folder / "google", cloud.job_token(f"https:{federation.audience}"))
        text = json.dumps(google.credentials_file(federation, path))
        found["GOOGLE_APPLICATION_CREDENTIALS"] = _written(folder / "google.json", text)
    return found


def _written(path: Path, text: str) -> str:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return str(path)


__all__ = ["cloud"]
