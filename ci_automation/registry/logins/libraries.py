"""The job's identity for the clouds' own libraries, in files of tokens: for keys in a cloud's KMS."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from ci_automation.net.services import REQUEST_VARIABLE, unmasked
from ci_automation.registry.logins import aws, azure, google
from ci_automation.registry.logins.cloud import Cloud, Provider

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ci_automation.net.services import Exchange, Mask


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
