"""ACR: an application of Entra ID, by a federated identity token or its secret; then ACR's own token.

References: Microsoft, "Client credentials flow" (third case: a federated credential), and Azure/acr, `AAD-OAuth.md`.
The scope is that of the container registry service, the same in all clouds (azure-sdk-for-go, `azcontainerregistry`).
"""

from __future__ import annotations

import re

from ci_automation.registry.credentials import Credential
from ci_automation.registry.logins.cloud import Cloud, form

REGISTRY = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.azurecr\.(?P<domain>io|cn|us)")
_SCOPE = "https://containerregistry.azure.net/.default"
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_UUID = re.compile(r"[0-9a-fA-F-]{36}|[A-Za-z0-9][A-Za-z0-9.-]{0,252}")  # a tenant may be a domain
_AUTHORITIES = {
    "io": "login.microsoftonline.com",
    "cn": "login.chinacloudapi.cn",
    "us": "login.microsoftonline.us",
}
_AUDIENCES = {
    "io": "api://AzureADTokenExchange",
    "cn": "api://AzureADTokenExchangeChina",
    "us": "api://AzureADTokenExchangeUSGov",
}


def acr_login(cloud: Cloud, registry: re.Match[str]) -> Credential:
    """Return the refresh token of ACR for a registry, as an identity token, which lasts three hours.

    Raises:
        NoCloudIdentity: the application or its tenant is not named, or has neither a token nor a secret.
        CloudLoginFailed: Entra ID or the registry refuses.
    """
    host, tenant = registry[0], cloud.value("AZURE_TENANT_ID")
    access = _access_token(cloud, tenant, registry["domain"])
    call = form(
        f"{cloud.where(host)}/oauth2/exchange",
        access,
        grant_type="access_token",
        service=host,
        tenant=tenant,
        access_token=access,
    )
    return Credential("", "", cloud.token("ACR", call, "refresh_token"))


def audience(domain: str = "io") -> str:
    """Return the audience of identity tokens for the cloud whose registries end in `domain`."""
    return _AUDIENCES[domain]


def _access_token(cloud: Cloud, tenant: str, domain: str) -> str:
    client = cloud.value("AZURE_CLIENT_ID")
    for name, text in (("AZURE_CLIENT_ID", client), ("AZURE_TENANT_ID", tenant)):
        if not _UUID.fullmatch(text):
            raise cloud.missing(f"{name} is not set" if not text else f"{name} is not an id")
    file = "AZURE_FEDERATED_TOKEN_FILE"
    if shown := cloud.value("AZURE_CLIENT_SECRET"):
        proof = {"client_secret": shown}
    else:
        shown = cloud.file(file) if cloud.value(file) else cloud.job_token(audience(domain))
        proof = {"client_assertion_type": _ASSERTION, "client_assertion": shown}
    authority = cloud.value("AZURE_AUTHORITY_HOST").rstrip("/") or cloud.where(_AUTHORITIES[domain])
    url = f"{authority}/{tenant}/oauth2/v2.0/token"
    call = form(url, shown, grant_type="client_credentials", client_id=client, scope=_SCOPE, **proof)
    return cloud.token("Entra ID", call, "access_token")
