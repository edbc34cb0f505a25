"""What the services answer: Fulcio's API v1 and v2, Rekor's v1 and v2, a time stamper, GitHub's identity tokens."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.fakes.sigstore import entries, tokens
from tests.fakes.sigstore.ca import pem
from tests.fakes.sigstore.entries import Verifier, decode
from tests.fakes.sigstore.logs import AlreadyThere
from tests.fakes.sigstore.tokens import CANARY, GITHUB, Claims, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.fakes.sigstore.logs import Entry
    from tests.fakes.sigstore.signing import Services

REQUEST_TOKEN = f"{CANARY}-of-the-request"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered: JSON where the body is no bytes."""

    status: int
    body: Any = b""
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def wire(self) -> bytes:
        """The body's bytes."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


NOT_FOUND = Answer(404, {"code": 404, "message": "not found"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its path in parts, its query, its headers in lower case."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def read(cls, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
        """Return a request as it was on the wire."""
        parts = urlsplit(target)
        return cls(method, tuple(parts.path.strip("/").split("/")), parse_qs(parts.query), headers, body)

    @property
    def bearer(self) -> str:
        """The token that it was authorised with."""
        return self.headers.get("authorization", "").partition(" ")[2]

    @property
    def json(self) -> dict[str, Any]:
        """What is in the body.

        Raises:
            Refused: that is not a JSON object.
        """
        try:
            value = json.loads(self.body)
        except ValueError as error:
            raise Refused(f"parsing body failed: {error}") from None
        if not isinstance(value, dict):
            raise Refused("parsing body failed: not an object")
        return value


class Api:
    """All services in one: what GitHub knows about its runs, whom Fulcio trusts, and the keys and logs behind."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.issuers = {GITHUB}
        self.runs: list[Claims] = []

    def answer(self, request: Request) -> Answer:
        """Return what is answered to one request."""
        try:
            return self._route(request, datetime.now(UTC))
        except Refused as refused:
            return Answer(400, {"code": 400, "message": str(refused)})
        except (IndexError, KeyError, ValueError):
            return Answer(400, {"code": 400, "message": "bad request"})

    def _route(self, request: Request, now: datetime) -> Answer:
        match request.method, request.path:
            case "POST", ("api", ("v1" | "v2") as version, "signingCert"):
                return self._certificate(version, request, now)
            case "POST", ("api", "v1", "timestamp"):
                return Answer(201, self.services.stamper.answer(request.body, now), "application/timestamp-reply")
            case "POST", ("api", "v2", "log", "entries"):
                log = self.services.rekor2
                return Answer(201, log.proto(log.add(entries.proposed_v2(request.json))))
            case _, ("api", "v1", *rest):
                return self._rekor(request, rest)
            case "GET", ("oidc", "runs", number, "idtoken"):
                return self._identity(self.runs[int(number)], request)
        return NOT_FOUND

    def _certificate(self, version: str, request: Request, at: datetime) -> Answer:
        asked = request.json
        token = request.bearer or asked.get("credentials", {}).get("oidcIdentityToken", "")
        try:
            claims = tokens.decode(token, self.issuers)
        except Refused as refused:
            return Answer(401, {"code": 16, "message": str(refused)})
        authority = self.services.authority
        certificate = authority.certify(public_key(asked, tokens.proven_by(claims)), claims, at, self.services.ct)
        chain = [pem(found) for found in (certificate, *authority.chain)]
        if version == "v1":
            return Answer(201, "".join(chain).encode(), "application/pem-certificate-chain")
        return Answer(200, {"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}})

    def _rekor(self, request: Request, path: list[str]) -> Answer:
        log = self.services.rekor1
        match request.method, path:
            case "POST", ["log", "entries"]:
                return self._logged(request)
            case "GET", ["log", "entries"]:
                wanted = int(request.query["logIndex"][0])
                return self._found(entry for entry in log.entries if log.payload(entry)["logIndex"] == wanted)
            case "GET", ["log", "entries", uuid]:
                return self._found(entry for entry in log.entries if log.uuid(entry)[-len(uuid) :] == uuid)
            case "POST", (["log", "entries", "retrieve"] | ["index", "retrieve"]):
                return Answer(200, self._searched(path[0], request.json))
            case "GET", ["log", "publicKey"]:
                return Answer(200, public_pem(log.key).encode(), "application/x-pem-file")
        return NOT_FOUND

    def _logged(self, request: Request) -> Answer:
        log = self.services.rekor1
        try:
            entry = log.add(entries.proposed(request.json), int(time.time()))
        except AlreadyThere as there:
            headers = (("Location", f"/api/v1/log/entries/{log.uuid(there.entry)}"),)
            return Answer(409, {"code": 409, "message": str(there)}, headers=headers)
        uuid = log.uuid(entry)
        return Answer(201, log.answer(entry), headers=(("ETag", uuid), ("Location", f"/api/v1/log/entries/{uuid}")))

    def _searched(self, where: str, asked: dict[str, Any]) -> list[Any]:
        log = self.services.rekor1
        if where == "index":
            key = f"sha256:{str(asked['hash']).lower().removeprefix('sha256:')}"
            return [log.uuid(entry) for entry in log.entries if key in entry.body.keys]
        wanted = {entries.proposed(each).canonical for each in asked["entries"]}
        return [log.answer(entry) for entry in log.entries if entry.body.canonical in wanted]

    def _found(self, found: Iterator[Entry]) -> Answer:
        entry = next(found, None)
        return Answer(200, self.services.rekor1.answer(entry)) if entry else NOT_FOUND

    def _identity(self, claims: Claims, request: Request) -> Answer:
        if request.bearer != REQUEST_TOKEN:
            return Answer(401, {"message": "Unauthorized"})
        audience = request.query.get("audience", [f"https://github.com/{claims['repository_owner']}"])[0]
        return Answer(200, {"count": 1, "value": tokens.encode(claims | {"aud": audience})})


def public_key(asked: dict[str, Any], proven_by: bytes) -> ec.EllipticCurvePublicKey:
    """Return the key to be certified, once it is proven that the client has the other half.

    Raises:
        Refused: there is none, or the proof does not hold.
    """
    try:
        if encoded := asked.get("certificateSigningRequest"):
            request = x509.load_pem_x509_csr(decode(encoded))
            key = request.public_key()
            if not request.is_signature_valid or not isinstance(key, ec.EllipticCurvePublicKey):
                raise Refused("The certificate signing request's signature is invalid")
            return key
        if new := asked.get("publicKeyRequest"):
            content, proof = new["publicKey"]["content"].encode(), new["proofOfPossession"]
        else:
            content, proof = decode(asked["publicKey"]["content"]), asked["signedEmailAddress"]
        verifier = Verifier.read(content)
        verifier.check(decode(proof), hashlib.sha256(proven_by).digest())
    except (KeyError, TypeError, ValueError):
        raise Refused("The public key supplied in the request could not be parsed") from None
    return verifier.key


def public_pem(key: ec.EllipticCurvePrivateKey) -> str:
    """Return a key's public half as PEM."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
