"""Doubles of AWS KMS and of Vault's transit engine on loopback: keys, aliases and versions, and who may use them.

They sign as the real ones do by default (RSA with PSS, the newest version), so that a client has to ask for what it
needs, and they check that whoever asks has the secret: AWS' by the signature of the request, Vault's by its token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, PKCS1v15
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, Hash, HashAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.fakes.loopback import Loopback

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from ci_automation.signing.keys.private import AnyPrivateKey

CANARY = "canary-kms"  # is in every secret of these doubles
REGION, ACCOUNT = "eu-central-1", "111122223333"
ACCESS_KEY, SECRET_KEY, SESSION_TOKEN = "AKIAOFTHETESTS", f"{CANARY}/secret+key", f"{CANARY}-session"
TOKEN = f"hvs.{CANARY}-token"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived; the path is AWS' target, such as `TrentService.Sign`, or Vault's path."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """What was sent."""
        value: dict[str, Any] = json.loads(self.body or b"{}")
        return value


class Fault(Exception):
    """What a service says instead of serving: a status, and a body as JSON or as it is."""

    def __init__(self, status: int, body: object, **headers: str) -> None:
        super().__init__(status, body)
        self.status, self.body, self.headers = status, body, headers


@dataclass
class _Service(Loopback):
    """A service on a port of loopback; a context manager. `faults` are what the next requests are answered with."""

    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._server = server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        server.daemon_threads = True
        if self.tls:
            server.socket = self.tls.wrap_socket(server.socket, server_side=True)
        return super().__enter__()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"{'https' if self.tls else 'http'}://{self.host}"

    @property
    def paths(self) -> list[str]:
        """What was asked, in order."""
        return [f"{request.method} {request.path}" for request in self.requests]

    def served(self, request: Request) -> object:
        """Return the answer to one request."""
        raise NotImplementedError

    def said(self, request: Request) -> tuple[int, bytes, Mapping[str, str]]:
        """Return status, body and headers."""
        self.requests.append(request)
        try:
            if self.faults:
                raise self.faults.pop(0)
            return 200, json.dumps(self.served(request)).encode(), {}
        except Fault as fault:
            body = fault.body if isinstance(fault.body, bytes) else json.dumps(fault.body).encode()
            return fault.status, body, fault.headers


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, service: _Service, *arguments: Any) -> None:
        self.service = service
        super().__init__(*arguments)

    def handle_request(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", "0")))
        path = headers.get("x-amz-target", self.path)
        status, answer, more = self.service.said(Request(self.command, path, headers, body))
        self.send_response(status)
        for name, value in more.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = handle_request  # noqa: N815  # the names that the base class looks for

    def log_message(self, *_: object) -> None:
        """Say nothing."""


EC_ALGORITHMS: dict[str, tuple[str, HashAlgorithm]] = {
    "secp256r1": ("ECDSA_SHA_256", SHA256()),
    "secp384r1": ("ECDSA_SHA_384", SHA384()),
}
RSA_ALGORITHMS = ["RSASSA_PSS_SHA_256", "RSASSA_PKCS1_V1_5_SHA_256"]


@dataclass
class FakeAws(_Service):
    """AWS KMS of one account and region: asymmetric keys by their ID, and aliases that can be moved."""

    keys: dict[str, AnyPrivateKey] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    for_encryption: set[str] = field(default_factory=set)

    def add(self, key: AnyPrivateKey, alias: str) -> str:
        """Keep a key under an alias, which is moved if it is there, and return its ID."""
        number = len(self.keys)
        identifier = f"0000{number:04}-12ab-34cd-56ef-1234567890ab"
        self.keys[identifier] = key
        self.aliases[alias] = identifier
        return identifier

    @staticmethod
    def arn(identifier: str, region: str = REGION) -> str:
        """Return the ARN of a key's ID, or of `alias/NAME`."""
        return f"arn:aws:kms:{region}:{ACCOUNT}:{identifier if '/' in identifier else f'key/{identifier}'}"

    def environment(self) -> dict[str, str]:
        """Return the variables in which the client library finds it, and nothing else."""
        return {
            "AWS_ENDPOINT_URL_KMS": self.url,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_SESSION_TOKEN": SESSION_TOKEN,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def served(self, request: Request) -> object:
        """Return what AWS answers."""
        region = _signed_for(request)
        asked = request.json
        identifier = self._find(asked["KeyId"], region)
        key = self.keys[identifier]
        algorithms = [] if identifier in self.for_encryption else self._algorithms(key)
        about = {
            "KeyId": self.arn(identifier),
            "KeyUsage": "ENCRYPT_DECRYPT" if identifier in self.for_encryption else "SIGN_VERIFY",
            **({"SigningAlgorithms": algorithms} if algorithms else {"EncryptionAlgorithms": ["RSAES_OAEP_SHA_256"]}),
        }
        match request.path:
            case "TrentService.GetPublicKey":
                public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
                return {**about, "PublicKey": base64.b64encode(public).decode()}
            case "TrentService.DescribeKey":
                return {"KeyMetadata": {**about, "KeyId": identifier, "Arn": self.arn(identifier), "Enabled": True}}
            case "TrentService.Sign" if asked["SigningAlgorithm"] in algorithms:
                message = base64.b64decode(asked["Message"])
                signature = self._sign(key, message, asked.get("MessageType", "RAW"), asked["SigningAlgorithm"])
                return {**about, "Signature": base64.b64encode(signature).decode()}
            case "TrentService.Sign":
                raise Fault(400, {"__type": "InvalidKeyUsageException", "message": "not with this key"})
        raise Fault(400, {"__type": "UnknownOperationException"})

    def _find(self, name: str, region: str) -> str:
        if name.startswith("arn:"):
            if region != name.split(":")[3]:
                raise Fault(400, {"__type": "NotFoundException", "message": f"Invalid arn {region}"})
            name = name.split(":")[5].removeprefix("key/")
        identifier = self.aliases.get(name.removeprefix("alias/")) if name.startswith("alias/") else name
        if identifier not in self.keys:
            raise Fault(400, {"__type": "NotFoundException", "message": f"{name} is not found"})
        return identifier

    @staticmethod
    def _algorithms(key: AnyPrivateKey) -> list[str]:
        match key:
            case ec.EllipticCurvePrivateKey():
                return [EC_ALGORITHMS[key.curve.name][0]]
            case rsa.RSAPrivateKey():
                return RSA_ALGORITHMS
        return ["ED25519_SHA_512"]

    @staticmethod
    def _sign(key: AnyPrivateKey, message: bytes, kind: str, algorithm: str) -> bytes:
        hashing = SHA384() if algorithm.endswith("384") else SHA256()
        if kind == "RAW":
            message = _hashed(message, hashing)
        elif len(message) != hashing.digest_size:
            raise Fault(400, {"__type": "ValidationException", "message": "Digest is of invalid length"})
        match key:
            case ec.EllipticCurvePrivateKey():
                return key.sign(message, ec.ECDSA(Prehashed(hashing)))
            case rsa.RSAPrivateKey():
                padding = PKCS1v15() if "PKCS1" in algorithm else PSS(MGF1(hashing), hashing.digest_size)
                return key.sign(message, padding, Prehashed(hashing))
        raise Fault(400, {"__type": "ValidationException", "message": "MessageType must be RAW"})


def _signed_for(request: Request) -> str:
    """Return the region that a request is for, if it is signed with the tests' secret (AWS Signature Version 4)."""
    pattern = (
        rf"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/(\d{{8}})/([\w-]+)/kms/aws4_request, "
        r"SignedHeaders=([\w;-]+), Signature=(\w+)"
    )
    if not (found := re.fullmatch(pattern, request.headers.get("authorization", ""))):
        raise Fault(400, {"__type": "MissingAuthenticationTokenException"})
    day, region, names, signature = found.groups()
    headers = "".join(f"{name}:{request.headers[name].strip()}\n" for name in names.split(";"))
    canonical = f"{request.method}\n/\n\n{headers}\n{names}\n{hashlib.sha256(request.body).hexdigest()}"
    moment, scope = request.headers["x-amz-date"], f"{day}/{region}/kms/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{SECRET_KEY}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    if key.hex() != signature or request.headers.get("x-amz-security-token") != SESSION_TOKEN:
        raise Fault(400, {"__type": "InvalidSignatureException", "message": "it does not match"})
    return region


@dataclass
class FakeVault(_Service):
    """Vault with a transit engine: keys by name, each with versions of which the newest signs by default."""

    mount: str = "transit"
    namespace: str | None = None
    keys: dict[str, list[AnyPrivateKey]] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """Return the variables in which its clients find it."""
        return {"VAULT_ADDR": self.url, "VAULT_TOKEN": TOKEN}

    def served(self, request: Request) -> object:
        """Return what Vault answers."""
        if request.headers.get("x-vault-token") != TOKEN:
            raise Fault(403, {"errors": ["permission denied"]})
        if request.headers.get("x-vault-namespace") != self.namespace:
            raise Fault(404, {"errors": ["no handler for route"]})
        found = re.fullmatch(rf"/v1/{self.mount}/(keys|sign)/([\w.-]+)(?:/([\w-]+))?", request.path)
        if not found or not (versions := self.keys.get(found[2])):
            raise Fault(404, {"errors": []})
        match request.method, found[1]:
            case "GET", "keys":
                return {"data": self._described(versions)}
            case "POST" | "PUT", "sign":
                return {"data": self._signed(versions, {"hash_algorithm": found[3], **request.json})}
        raise Fault(405, {"errors": ["unsupported operation"]})

    @staticmethod
    def _described(versions: list[AnyPrivateKey]) -> dict[str, object]:
        shown = {}
        for number, key in enumerate(versions, 1):
            public = key.public_key()
            match public:
                case ed25519.Ed25519PublicKey():
                    text = base64.b64encode(public.public_bytes_raw()).decode()
                case _:
                    text = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
            shown[str(number)] = {"name": _vault_type(key), "public_key": text, "creation_time": "2026-01-01T00:00:00Z"}
        return {"type": _vault_type(versions[-1]), "latest_version": len(versions), "keys": shown}

    @staticmethod
    def _signed(versions: list[AnyPrivateKey], asked: Mapping[str, Any]) -> dict[str, object]:
        number = int(asked.get("key_version") or len(versions))
        key, message = versions[number - 1], base64.b64decode(asked.get("input") or asked["hash_input"])
        hashing = SHA384() if asked.get("hash_algorithm") == "sha2-384" else SHA256()
        digest = message if asked.get("prehashed") else _hashed(message, hashing)
        match key:
            case ed25519.Ed25519PrivateKey():
                signature = key.sign(message)
            case ec.EllipticCurvePrivateKey():
                signature = key.sign(digest, ec.ECDSA(Prehashed(hashing)))
            case _:
                first = asked.get("signature_algorithm") == "pkcs1v15"
                padding = PKCS1v15() if first else PSS(MGF1(hashing), PSS.MAX_LENGTH)
                signature = key.sign(digest, padding, Prehashed(hashing))
        return {"signature": f"vault:v{number}:{base64.b64encode(signature).decode()}", "key_version": number}


def _vault_type(key: AnyPrivateKey) -> str:
    match key:
        case ed25519.Ed25519PrivateKey():
            return "ed25519"
        case ec.EllipticCurvePrivateKey():
            return f"ecdsa-p{key.curve.key_size}"
    return f"rsa-{key.key_size}"


def _hashed(message: bytes, hashing: HashAlgorithm) -> bytes:
    context = Hash(hashing)
    context.update(message)
    return context.finalize()
