"""Artifact Registry: an access token, by workload identity federation, a credentials file, or the machine's account.

References: Google, "Workload Identity Federation" (AIP-4117), "Service account credentials" (AIP-4112), "Application
Default Credentials" (AIP-4110), and "Set up authentication for Docker", which names the user.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.net.values import Call, parsed_json
from ci_automation.registry.credentials import Credential
from ci_automation.registry.logins.cloud import Cloud, CloudLoginFailed, form

if TYPE_CHECKING:
    from collections.abc import Mapping

REGISTRY = re.compile(r"(?:[a-z0-9-]+\.)?gcr\.io|[a-z0-9-]+-docker\.pkg\.dev")
_USER = "oauth2accesstoken"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_STS_HOST, _OAUTH_HOST, _IAM_HOST = "sts.googleapis.com", "oauth2.googleapis.com", "iamcredentials.googleapis.com"
_METADATA_HOST = "metadata.google.internal"
_JWT = "urn:ietf:params:oauth:token-type:jwt"
_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_POOL = re.compile(r"projects/[0-9]{1,30}/locations/global/workloadIdentityPools/[^/\s]{1,100}/providers/[^/\s]{1,100}")
_ACCOUNT = re.compile(r"[A-Za-z0-9.-]{1,100}@[A-Za-z0-9.-]{1,100}\.gserviceaccount\.com")
_IMPERSONATION = re.compile(
    rf"https://{re.escape(_IAM_HOST)}/v1/projects/-/serviceAccounts/(?P<account>[^/:]+):generateAccessToken"
)
_LIFETIME = 3600


class Federation(Struct, frozen=True):
    """A workload identity pool, and the service account to act as, if any."""

    audience: str
    account: str = ""


def artifact_registry_login(cloud: Cloud, registry: re.Match[str]) -> Credential:
    """Return a credential for all of Google's registries, which lasts an hour.

    Raises:
        NoCloudIdentity: the environment has no usable identity.
        CloudLoginFailed: Google refuses.
    """
    del registry  # one token serves them all
    if cloud.value(_FILE):
        token = _by_file(cloud)
    elif pool := cloud.value("GOOGLE_WORKLOAD_IDENTITY_PROVIDER"):
        federation = federated(cloud, pool)
        token = _exchanged(cloud, federation, cloud.job_token(f"https:{federation.audience}"))
    else:
        token = _of_machine(cloud)
    return Credential(_USER, token)


def federated(cloud: Cloud, pool: str) -> Federation:
    """Return the federation that the variables name.

    Raises:
        NoCloudIdentity: a variable has another form.
    """
    account = cloud.value("GOOGLE_SERVICE_ACCOUNT")
    if not _POOL.fullmatch(pool):
        raise cloud.missing("GOOGLE_WORKLOAD_IDENTITY_PROVIDER is not the full name of a provider")
    if account and not _ACCOUNT.fullmatch(account):
        raise cloud.missing("GOOGLE_SERVICE_ACCOUNT is not the address of a service account")
    return Federation(f"//iam.googleapis.com/{pool}", account)


def credentials_file(federation: Federation, token_file: str) -> dict[str, object]:
    """Return the content of a credentials file (AIP-4117) for a federation with its tokens in a file."""
    text: dict[str, object] = {
        "type": "external_account",
        "audience": federation.audience,
        "subject_token_type": _JWT,
        "token_url": f"https://{_STS_HOST}/v1/token",
        "credential_source": {"file": token_file},
    }
    if federation.account:
        text["service_account_impersonation_url"] = (
            f"https://{_IAM_HOST}/v1/projects/-/serviceAccounts/{federation.account}:generateAccessToken"
        )
    return text


def _exchanged(cloud: Cloud, federation: Federation, subject: str) -> str:
    call = form(
        f"{cloud.where(_STS_HOST)}/v1/token",
        subject,
        grant_type="urn:ietf:params:oauth:grant-type:token-exchange",
        audience=federation.audience,
        scope=_SCOPE,
        requested_token_type="urn:ietf:params:oauth:token-type:access_token",  # noqa: S106 - a kind of token
        subject_token_type=_JWT,
        subject_token=subject,
    )
    token = cloud.token("Google's STS", call, "access_token")
    if not federation.account:
        return token
    url = f"{cloud.where(_IAM_HOST)}/v1/projects/-/serviceAccounts/{federation.account}:generateAccessToken"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    wish = json.dumps({"scope": [_SCOPE]}).encode()
    return cloud.token("Google's IAM", Call("POST", url, headers, wish, secrets=frozenset({token})), "accessToken")


def _by_file(cloud: Cloud) -> str:
    match parsed_json(cloud.file(_FILE).encode()):
        case {"type": "service_account", "client_email": str(email), "private_key": str(key)}:
            return _by_key(cloud, email, key)
        case {"type": "external_account", "audience": str(audience), "credential_source": dict(source), **rest}:
            return _exchanged(cloud, _of_file(cloud, audience, rest), _subject(cloud, source))
    raise cloud.missing(f"the file that {_FILE} names is neither of type service_account nor external_account")


def _of_file(cloud: Cloud, audience: str, rest: Mapping[Any, Any]) -> Federation:
    """Return the federation in a file, which may only name Google's own services."""
    if rest.get("subject_token_type") != _JWT or rest.get("token_url") != f"https://{_STS_HOST}/v1/token":
        raise cloud.missing(f"the file that {_FILE} names is for another kind of token, or for another service")
    if (url := rest.get("service_account_impersonation_url")) is None:
        return Federation(audience)
    match = _IMPERSONATION.fullmatch(str(url))
    if match is None or not _ACCOUNT.fullmatch(match["account"]):
        raise cloud.missing(f"the file that {_FILE} names uses another impersonation service than Google's")
    return Federation(audience, match["account"])


def _subject(cloud: Cloud, source: Mapping[Any, Any]) -> str:
    """Return the token from the source that the file names (AIP-4117, "File-sourced", "URL-sourced")."""
    match source:
        case {"url": str(url)}:
            headers = source.get("headers") or {}
            if not isinstance(headers, dict) or not all(isinstance(text, str) for text in headers.values()):
                raise cloud.missing(f"the file that {_FILE} names has invalid headers")
            service, host = f"the address in the file of {_FILE}", urlsplit(url).netloc
            words = frozenset(word for text in headers.values() for word in text.split())
            text = cloud.body(service, Call("GET", url, headers, secrets=words)).decode(errors="replace")
        case {"file": str(path)}:
            service, host, text = f"the file that {_FILE} names", "this machine", cloud.text_of(path, _FILE)
        case _:
            raise cloud.missing(f"the file that {_FILE} names gets its token from an unknown source")
    match source.get("format"):
        case {"type": "json", "subject_token_field_name": str(name)}:
            value = parsed_json(text.encode())
            text = value.get(name, "") if isinstance(value, dict) else ""
    return cloud.secret(str(text).strip(), service, host)


def _by_key(cloud: Cloud, email: str, key: str) -> str:
    """Return a token for a service account's own key, which signs a JWT (RFC 7523)."""
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(key.encode(), None)
    except (ValueError, TypeError):
        raise cloud.missing(f"the file that {_FILE} names holds no private key") from None
    if not isinstance(private, RSAPrivateKey):
        raise cloud.missing(f"the file that {_FILE} names holds another kind of key than Google's")
    now = int(cloud.exchange.patience.clock.now())
    claims = {"iss": email, "scope": _SCOPE, "aud": f"https://{_OAUTH_HOST}/token", "iat": now, "exp": now + _LIFETIME}
    unsigned = b".".join(_base64url(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    assertion = (unsigned + b"." + _base64url(private.sign(unsigned, PKCS1v15(), SHA256()))).decode()
    cloud.mask(assertion)
    url, kind = f"{cloud.where(_OAUTH_HOST)}/token", "urn:ietf:params:oauth:grant-type:jwt-bearer"
    call = form(url, assertion, grant_type=kind, assertion=assertion)
    return cloud.token("Google's OAuth", call, "access_token")


def _of_machine(cloud: Cloud) -> str:
    """Return the token of the machine's own account on a runner in Google's cloud."""
    host = cloud.value("GCE_METADATA_HOST") or _METADATA_HOST
    path = "computeMetadata/v1/instance/service-accounts/default/token"
    url = f"{cloud.where(host).replace('https://', 'http://', 1)}/{path}"
    once = replace(cloud, exchange=replace(cloud.exchange, patience=replace(cloud.exchange.patience, attempts=1)))
    try:
        return once.token("Google's metadata server", Call("GET", url, {"Metadata-Flavor": "Google"}), "access_token")
    except CloudLoginFailed as error:
        raise cloud.missing(f"neither GOOGLE_WORKLOAD_IDENTITY_PROVIDER nor {_FILE} is set; {error}") from None


def _base64url(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
