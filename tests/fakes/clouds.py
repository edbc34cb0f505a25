"""Doubles of what logs in to the registries of AWS, Azure and Google, on one port of loopback.

The first part of a path is the name of the service that is meant, so that a login runs through several of them as it
does for real. Each step checks what it is shown: tokens by their audience, AWS' requests by their signature, as AWS'
own library computes it, Google's assertions by their signature.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

from tests.fakes.loopback import Loopback

if TYPE_CHECKING:
    from collections.abc import Mapping

CANARY = "canary-cloud"  # is in every secret of these doubles
REQUEST_TOKEN = f"{CANARY}-request"
ROLE = "arn:aws:iam::111122223333:role/flux"
KEYS = ("ASIAOFTHETESTS", f"{CANARY}/key+secret", f"{CANARY}-session")
PASSWORD, REFRESH, ACCESS = f"{CANARY}-ecr", f"{CANARY}-acr-refresh", f"{CANARY}-access"
IMPERSONATED, FEDERATED = f"{CANARY}-impersonated", f"{CANARY}-federated"
CLIENT, TENANT, CLIENT_SECRET = "11111111-aaaa-bbbb-cccc-222222222222", "acme.example", f"{CANARY}-client"
POOL = "projects/42/locations/global/workloadIdentityPools/github/providers/fleet"
ACCOUNT = "flux@acme.iam.gserviceaccount.com"
ECR = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived: the service that it was for, and what it said."""

    service: str
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        """What a form says."""
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}


class Refused(Exception):
    """What a service says instead of serving."""

    def __init__(self, status: int, body: object) -> None:
        super().__init__(status, body)
        self.status, self.body = status, body


@cache
def _key() -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


@dataclass
class Clouds(Loopback):
    """All of them; `faults` are what the next requests are answered with, whoever they are for."""

    requests: list[Request] = field(default_factory=list)
    faults: list[Refused] = field(default_factory=list)
    key: RSAPrivateKey = field(default_factory=_key)

    def __enter__(self) -> Self:
        self._server = server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        server.daemon_threads = True
        return super().__enter__()

    def where(self, host: str) -> str:
        """Return where a service is, in place of its real address."""
        return f"http://{self.host}/{host}"

    @property
    def job(self) -> dict[str, str]:
        """Return the variables of a job that may ask for identity tokens."""
        return {
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.where('github')}/token?api-version=2.0&audience=nobody",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": REQUEST_TOKEN,
        }

    @property
    def services(self) -> list[str]:
        """Return who was asked, in order."""
        return [request.service for request in self.requests]

    def served(self, request: Request) -> object:
        """Return the answer to one request."""
        host = request.service
        if "amazonaws" in host or host == "169.254.170.2":
            return self._aws(request)
        if host.startswith("login."):
            return self._entra(request)
        if ".azurecr." in host:
            return self._registry(request)
        return self._github(request) if host == "github" else self._google(request)

    @staticmethod
    def _github(request: Request) -> object:
        if request.headers.get("authorization") != f"bearer {REQUEST_TOKEN}":
            raise Refused(401, {"message": "who is this?"})
        return {"value": identity_token(request.query["audience"])}

    @staticmethod
    def _registry(request: Request) -> object:
        said = {"grant_type": "access_token", "service": request.service, "tenant": TENANT, "access_token": ACCESS}
        if request.path != "/oauth2/exchange" or request.form != said:
            raise Refused(401, {"errors": [{"code": "UNAUTHORIZED", "message": "not this one"}]})
        return {"refresh_token": REFRESH}

    def _aws(self, request: Request) -> object:
        if request.service.startswith("sts."):
            return self._assumed(request.form)
        if request.service == "169.254.170.2":
            if request.headers.get("authorization") != f"{CANARY}-container":
                raise Refused(403, {"message": "no"})
            return {"AccessKeyId": KEYS[0], "SecretAccessKey": KEYS[1], "Token": KEYS[2]}
        self._require_signature(request)
        token = base64.b64encode(f"AWS:{PASSWORD}".encode()).decode()
        return {"authorizationData": [{"authorizationToken": token, "expiresAt": 1.0}]}

    def _assumed(self, form: Mapping[str, str]) -> object:
        if form.get("RoleArn") != ROLE or form.get("WebIdentityToken") != identity_token("sts.amazonaws.com"):
            raise Refused(
                403,
                b"<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>\n"
                b"<Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message></Error></ErrorResponse>",
            )
        access, secret, session = KEYS
        return (
            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
            f"<AccessKeyId>{access}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>"
            f"<SessionToken>{session}</SessionToken></Credentials></AssumeRoleWithWebIdentityResult>"
            "</AssumeRoleWithWebIdentityResponse>"
        ).encode()

    def _require_signature(self, request: Request) -> None:
        said = request.headers["authorization"]
        scope = said.partition("Credential=")[2].partition(",")[0].split("/")
        names = said.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        url = f"http://{request.headers['host']}/{request.service}{request.path}"
        headers = {name: request.headers[name] for name in names if name != "host"}
        signed = AWSRequest(request.method, url, headers=headers, data=request.body)
        signed.context["timestamp"] = request.headers["x-amz-date"]
        _, _, region, service, _ = scope
        judge = SigV4Auth(Credentials(*KEYS), service, region)
        wanted = judge.signature(judge.string_to_sign(signed, judge.canonical_request(signed)), signed)
        session = request.headers.get("x-amz-security-token")
        right = said.endswith(f"Signature={wanted}") and scope[0] == KEYS[0] and session == KEYS[2] and service == "ecr"
        if not right or f".{region}." not in request.service or request.headers["x-amz-target"] != ECR:
            raise Refused(400, {"__type": "InvalidSignatureException", "message": "The signature does not match"})

    def _entra(self, request: Request) -> object:
        form, china, gov = request.form, ".cn" in request.service, ".us" in request.service
        audience = f"api://AzureADTokenExchange{'China' if china else 'USGov' if gov else ''}"
        shown = form.get("client_assertion") == identity_token(audience) or form.get("client_secret") == CLIENT_SECRET
        scope = form.get("scope") == "https://containerregistry.azure.net/.default"
        if request.path != f"/{TENANT}/oauth2/v2.0/token" or form.get("client_id") != CLIENT or not (shown and scope):
            said = f"AADSTS700213: no matching federated identity record for {form.get('client_assertion')}"
            raise Refused(401, {"error": "invalid_client", "error_description": said})
        return {"access_token": ACCESS, "token_type": "Bearer"}

    def _google(self, request: Request) -> object:
        audience = f"//iam.googleapis.com/{POOL}"
        match request.service, request.path:
            case "sts.googleapis.com", "/v1/token":
                right = request.form.get("subject_token") == identity_token(f"https:{audience}")
                if right and request.form.get("audience") == audience:
                    return {"access_token": FEDERATED}
                raise Refused(400, {"error": "invalid_grant", "error_description": "a condition is not met"})
            case "iamcredentials.googleapis.com", path:
                shown = request.headers.get("authorization") == f"Bearer {FEDERATED}"
                if shown and path == f"/v1/projects/-/serviceAccounts/{ACCOUNT}:generateAccessToken":
                    return {"accessToken": IMPERSONATED, "expireTime": "2026-11-21T12:00:00Z"}
                raise Refused(403, {"error": {"code": 403, "message": "no such right", "status": "PERMISSION_DENIED"}})
            case "oauth2.googleapis.com", "/token":
                unsigned, _, signature = request.form["assertion"].rpartition(".")
                self.key.public_key().verify(_decoded(signature), unsigned.encode(), PKCS1v15(), SHA256())
                claims = json.loads(_decoded(unsigned.partition(".")[2]))
                assert claims["iss"] == ACCOUNT
                assert claims["aud"] == "https://oauth2.googleapis.com/token"
                assert claims["exp"] - claims["iat"] == 3600
                return {"access_token": ACCESS}
            case "metadata.google.internal", "/computeMetadata/v1/instance/service-accounts/default/token":
                if request.headers.get("metadata-flavor") == "Google":
                    return {"access_token": ACCESS, "expires_in": 3000}
        raise Refused(404, {"message": f"{request.service} has no {request.path}"})


def identity_token(audience: str) -> str:
    """Return the identity token of the job for an audience."""
    return f"{CANARY}.{base64.urlsafe_b64encode(audience.encode()).decode().rstrip('=')}.signature"


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, clouds: Clouds, *arguments: Any) -> None:
        self.clouds = clouds
        super().__init__(*arguments)

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        parts = urlsplit(self.path)
        service, _, path = parts.path.removeprefix("/").partition("/")
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(service, self.command, f"/{path}", query, headers, body)
        self.clouds.requests.append(request)
        try:
            if self.clouds.faults:
                raise self.clouds.faults.pop(0)
            status, said = 200, self.clouds.served(request)
        except Refused as refusal:
            status, said = refusal.status, refusal.body
        answer = said if isinstance(said, bytes) else json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = handle_request  # noqa: N815  # the names that the base class looks for

    def log_message(self, *_: object) -> None:
        """Say nothing."""
