"""A Sigstore on loopback, all its services behind one address, as a context manager."""

from __future__ import annotations

import json
import re
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from tests.fakes.loopback import Loopback
from tests.fakes.sigstore import tokens, trust
from tests.fakes.sigstore.api import REQUEST_TOKEN, Answer, Api, Request, public_pem
from tests.fakes.sigstore.signing import IN_TOTO, Desk, Services
from tests.fakes.sigstore.tokens import GITHUB, HOST, WORKFLOW

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ci_automation.signing.trust import Identity
    from tests.fakes.sigstore.signing import Detached, Fault

RESET = "reset"
SERVICES = {
    "fulcio": r"/api/v[12]/signingCert",
    "rekor": r"/api/v[12]/(log|index)(/.*)?",
    "tsa": r"/api/v1/timestamp",
    "oidc": r"/oidc/.*",
}


class LocalSigstore(Loopback):
    """A Sigstore of one's own, and the GitHub that vouches for workflows; a context manager."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.services = Services.new("127.0.0.1")
        self._api = Api(self.services)
        self._faults: dict[str, list[int | str]] = {name: [] for name in SERVICES}

    def __enter__(self) -> Self:
        self._server = _Server(self)
        return super().__enter__()

    @property
    def url(self) -> str:
        """The address of all its services."""
        return f"http://{self.host}"

    @property
    def trusted_root(self) -> bytes:
        """Its trusted root, as a `trusted_root.json`."""
        return json.dumps(trust.trusted_root(self.services, self.url)).encode()

    def signing_config(self, rekor: int = 1) -> bytes:
        """Return where to sign, as a `signing_config.json`, with an entry in Rekor 1 or 2."""
        return json.dumps(trust.signing_config(self.url, rekor)).encode()

    def trust_config(self, rekor: int = 1) -> bytes:
        """Return the client trust configuration: the trusted root and the signing configuration."""
        return json.dumps(trust.trust_config(self.services, self.url, rekor)).encode()

    @property
    def rekor_key(self) -> str:
        """The public key of Rekor 1 as PEM, for clients without a trusted root."""
        return public_pem(self.services.rekor1.key)

    @property
    def ct_key(self) -> str:
        """The public key of the certificate transparency log as PEM, for clients without a trusted root."""
        return public_pem(self.services.ct.key)

    def token(self, subject: str = "", issuer: str = GITHUB, **claims: Any) -> str:
        """Return an identity token that Fulcio takes, GitHub's for the default workflow unless told otherwise.

        A certificate for GitHub's token names the claim `job_workflow_ref`, for any other the subject, which is an URI
        or an email address.
        """
        self._api.issuers.add(issuer)
        workflow = claims.get("job_workflow_ref", WORKFLOW.subject.removeprefix(HOST))
        base = tokens.github_claims(workflow) if issuer == GITHUB else {"iss": issuer}
        return tokens.encode(base | ({"sub": subject} if subject else {}) | claims)

    def environment(self, identity: Identity = WORKFLOW, **claims: str) -> dict[str, str]:
        """Return what a job with `id-token: write` finds in its environment, in a run of that workflow."""
        runs = self._api.runs
        runs.append(tokens.github_claims(identity.subject.removeprefix(HOST)) | claims)
        return {
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.url}/oidc/runs/{len(runs) - 1}/idtoken?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": REQUEST_TOKEN,
        }

    def fail(self, service: str, *statuses: int | str) -> None:
        """Let the next answers of `fulcio`, `rekor`, `tsa` or `oidc` be these; `reset` closes the connection."""
        self._faults[service] += statuses

    def sign_detached(
        self, message: bytes, identity: Identity = WORKFLOW, at: datetime | None = None, fault: Fault | None = None
    ) -> Detached:
        """Return a signature over a message, made at that moment, with an entry of Rekor 1."""
        return Desk(self.services, identity, at, fault).detached(message)

    def sign_bundle(
        self,
        statement: bytes,
        identity: Identity = WORKFLOW,
        rekor: int = 1,
        at: datetime | None = None,
        fault: Fault | None = None,
        *,
        as_envelope: bool = False,
        payload_type: str = IN_TOTO,
    ) -> bytes:
        """Return a bundle with a signed in-toto statement: an entry of Rekor 1, or of Rekor 2 and a time stamp.

        In Rekor 2 it is logged as a hash, as sigstore-python does it, or `as_envelope`, as cosign 3 does it.
        """
        desk = Desk(self.services, identity, at, fault)
        return desk.statement(statement, rekor, as_envelope=as_envelope, kind=payload_type)

    def sign_artifact(
        self,
        message: bytes,
        identity: Identity = WORKFLOW,
        rekor: int = 1,
        at: datetime | None = None,
        fault: Fault | None = None,
    ) -> bytes:
        """Return a bundle with a signature over a message, without an envelope."""
        return Desk(self.services, identity, at, fault).artifact(message, rekor)

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer | None:
        """Return what is answered to one request, or nothing where the connection is to be closed."""
        self.requests.append((method, target))
        parts = urlsplit(target)
        for name, pattern in SERVICES.items():
            if re.fullmatch(pattern, parts.path) and self._faults[name]:
                status = self._faults[name].pop(0)
                message = {"code": status, "message": "as the test wants it"}
                return None if status == RESET else Answer(int(status), message)
        return self._api.answer(Request.read(method, target, headers, body))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, sigstore: LocalSigstore) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.sigstore = sigstore

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that hangs up is no news."""


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 30
    server: _Server

    def _answer(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        answer = self.server.sigstore.answer(self.command, self.path, headers, body)
        if answer is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(answer.status)
        for name, value in (*answer.headers, ("Content-Type", answer.kind)):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.wire)))
        self.end_headers()
        self.wfile.write(answer.wire)

    do_GET = do_POST = _answer  # noqa: N815  # the names that http.server wants

    def log_message(self, *_: object) -> None:
        """Print nothing."""
