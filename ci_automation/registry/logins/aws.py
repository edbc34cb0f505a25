"""ECR: a role that is assumed with an identity token, or keys in the environment; then ECR's own token.

References: AWS, "AssumeRoleWithWebIdentity", "GetAuthorizationToken", "Container credential provider", and "Create a
signed AWS API request" (Signature Version 4). The order of the sources of credentials is that of AWS' SDKs.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from datetime import UTC, datetime
from urllib.parse import urlsplit

from msgspec import Struct

from ci_automation.hiding import Hiding
from ci_automation.net.values import Call
from ci_automation.registry.credentials import Credential
from ci_automation.registry.logins.cloud import Cloud, form

REGISTRY = re.compile(
    r"[0-9]{12}\.dkr\.ecr(?P<fips>-fips)?\.(?P<region>[a-z]{2,4}(?:-[a-z]+)+-[0-9]{1,2})"
    r"\.(?P<domain>amazonaws\.(?:com(?:\.cn)?|eu))"
)
AUDIENCE = "sts.amazonaws.com"
_TARGET = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
_STS, _ECR, _CONTAINER = "AWS STS", "ECR", "the credentials of the container"
_CONTAINER_HOST = "169.254.170.2"


class Keys(Hiding, Struct, frozen=True):
    """Keys to sign requests to AWS with."""

    hides = ("secret", "session")

    access: str
    secret: str
    session: str = ""


def ecr_login(cloud: Cloud, registry: re.Match[str]) -> Credential:
    """Return a credential for a registry of ECR, which lasts twelve hours.

    Raises:
        NoCloudIdentity: the environment has neither keys nor a role to assume.
        CloudLoginFailed: STS or ECR refuses.
    """
    region, domain = registry["region"], registry["domain"]
    keys = _keys(cloud, f"sts.{region}.{domain}")
    name = f"ecr-fips.{region}.{domain}" if registry["fips"] else f"api.ecr.{region}.{domain}"
    headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": _TARGET}
    now = datetime.fromtimestamp(cloud.exchange.patience.clock.now(), UTC)
    call = _with_signature(Call("POST", f"{cloud.where(name)}/", headers, b"{}"), keys, region, "ecr", now)
    match cloud.json(_ECR, call):
        case {"authorizationData": [{"authorizationToken": str(token)}, *_]}:
            try:
                user, colon, password = base64.b64decode(token, validate=True).decode().partition(":")
            except ValueError:
                user, colon, password = "", "", ""
            if colon and user:
                return Credential(user, cloud.secret(password, _ECR, name))
    raise cloud.failed(_ECR, name, "its answer has no token")


def _keys(cloud: Cloud, sts: str) -> Keys:
    if access := cloud.value("AWS_ACCESS_KEY_ID"):
        if not (secret := cloud.value("AWS_SECRET_ACCESS_KEY")):
            raise cloud.missing("AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not")
        return Keys(access, secret, cloud.value("AWS_SESSION_TOKEN"))
    if role := cloud.value("AWS_ROLE_ARN"):
        file = "AWS_WEB_IDENTITY_TOKEN_FILE"
        token = cloud.file(file) if cloud.value(file) else cloud.job_token(AUDIENCE)
        return _assumed(cloud, role, token, sts)
    if path := cloud.value("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        return _of_container(cloud, f"{cloud.where(_CONTAINER_HOST).replace('https://', 'http://')}/{path.lstrip('/')}")
    if url := cloud.value("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        return _of_container(cloud, url)
    raise cloud.missing("neither AWS_ROLE_ARN nor AWS_ACCESS_KEY_ID is set")


def _assumed(cloud: Cloud, role: str, token: str, sts: str) -> Keys:
    call = form(
        f"{cloud.where(sts)}/",
        token,
        Action="AssumeRoleWithWebIdentity",
        Version="2011-06-15",
        RoleArn=role,
        RoleSessionName=cloud.value("AWS_ROLE_SESSION_NAME") or "flux-manifests",
        WebIdentityToken=token,
    )
    text = cloud.body(_STS, call).decode(errors="replace")
    access, secret, session = (_element(text, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken"))
    if not (access and secret and session):
        raise cloud.failed(_STS, sts, "its answer has no keys")
    return Keys(access, cloud.secret(secret, _STS, sts), cloud.secret(session, _STS, sts))


def _of_container(cloud: Cloud, url: str) -> Keys:
    """Return the keys that ECS or EKS gives to its containers, by the rules of the SDKs."""
    file, variable = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN"
    token = cloud.file(file) if cloud.value(file) else cloud.value(variable)
    headers = {"Authorization": token} if token else {}
    match cloud.json(_CONTAINER, Call("GET", url, headers, secrets=frozenset({token} - {""}))):
        case {"AccessKeyId": str(access), "SecretAccessKey": str(secret), "Token": str(session)}:
            host = urlsplit(url).netloc
            return Keys(access, cloud.secret(secret, _CONTAINER, host), cloud.secret(session, _CONTAINER, host))
    raise cloud.failed(_CONTAINER, urlsplit(url).netloc, "the answer has no keys")


def _element(text: str, name: str) -> str:
    """Return the text of the one element of that name; STS answers XML that is flat enough to need no parser."""
    found = re.findall(rf"<{name}>([\x21-\x3b\x3d-\x7e]+)</{name}>", text)
    return found[0] if len(found) == 1 else ""


def _with_signature(call: Call, keys: Keys, region: str, service: str, now: datetime) -> Call:
    """Return a request with the headers that sign it (Signature Version 4, without a query)."""
    when = f"{now:%Y%m%dT%H%M%SZ}"
    parts, body = urlsplit(call.url), call.body or b""
    headers = {**call.headers, "X-Amz-Date": when}
    if keys.session:
        headers["X-Amz-Security-Token"] = keys.session
    named = {name.lower(): text for name, text in ({"Host": parts.netloc} | headers).items()}
    names = ";".join(sorted(named))
    lines = "".join(f"{name}:{named[name]}\n" for name in sorted(named))
    canonical = f"{call.method}\n{parts.path or '/'}\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{when[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{when}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{keys.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return Call(call.method, call.url, headers, call.body, call.cap, frozenset({keys.secret, keys.session} - {""}))
