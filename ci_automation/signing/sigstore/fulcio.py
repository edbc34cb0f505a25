"""Certificates from Fulcio: a key that lives for minutes, and the identity that Fulcio certifies for it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.errors import SigningError
from ci_automation.hiding import Hiding
from ci_automation.net.values import Call, parsed_json
from ci_automation.signing.sigstore.certified import certificate_of_pem, identity_of
from ci_automation.signing.sigstore.exchange import JSON, FulcioFailed, SigstoreExchange, require_done
from ci_automation.signing.sigstore.rekor import base64_encoded, compact
from ci_automation.signing.trust import Identity, Rejected

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from ci_automation.signing.sigstore.oidc import Token

_TOKEN_REFUSED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


class TokenRefused(SigningError):
    """Fulcio refuses the identity token."""

    hint = (
        "The token may have expired, or this Sigstore instance does not know its issuer: a GitHub Enterprise Server "
        "needs an instance of its own (--trust-config). Nothing was tagged."
    )

    def __init__(self, host: str, identity: Identity, said: str) -> None:
        super().__init__(f"Fulcio at {host} refuses the identity token of {identity}: {said}")


class OtherIdentity(SigningError):
    """A certificate names another identity than the token."""

    hint = (
        "Nothing was signed. Verifiers have to trust the identity of the certificate, which differs from that of the "
        "token."
    )

    def __init__(self, expected: Identity, found: Identity) -> None:
        super().__init__(f"the certificate is for {found}, and the token was for {expected}")


class Certificate(Hiding, Struct, frozen=True):
    """A key that lives for minutes, with its certificate from Fulcio; `chain` is PEM."""

    hides = ("key",)

    key: EllipticCurvePrivateKey
    certificate: x509.Certificate
    chain: str
    identity: Identity

    @property
    def pem(self) -> str:
        """Return the certificate as PEM."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def der(self) -> bytes:
        """Return the certificate as DER."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self.certificate.public_bytes(Encoding.DER)

    def sign(self, message: bytes) -> bytes:
        """Return the key's signature over a message."""
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        return self.key.sign(message, ECDSA(SHA256()))


def issued(fulcio: str, token: Token, exchange: SigstoreExchange) -> Certificate:
    """Return a new certificate for the identity in `token` (Fulcio's `docs/certificate-issuance.md`, `fulcio.proto`).

    Raises:
        TokenRefused: Fulcio refuses the token.
        OtherIdentity: the certificate names another identity.
        FulcioFailed: Fulcio fails, refuses, or answers without a usable certificate.
    """
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    call = Call(
        "POST",
        f"{fulcio.rstrip('/')}/api/v2/signingCert",
        {**JSON, "Authorization": f"Bearer {token.text}"},
        compact({"certificateSigningRequest": base64_encoded(_request(key))}).encode(),
        secrets=token.secrets,
    )
    answer = exchange.ask(call, FulcioFailed)
    if answer.status in _TOKEN_REFUSED:
        raise TokenRefused(answer.host, token.identity, str(answer.complaint()))
    require_done(answer, FulcioFailed)
    match parsed_json(answer.body):
        case {"signedCertificateEmbeddedSct": {"chain": {"certificates": [str(leaf), *above]}}} if above:
            pass
        case _:
            raise FulcioFailed(answer.host, "its answer has no certificate from the certificate log")
    try:
        certificate = certificate_of_pem(leaf)
        named = identity_of(certificate)
    except Rejected as error:
        raise FulcioFailed(answer.host, f"its certificate cannot be used: {error.reason}") from None
    if named != token.identity:
        raise OtherIdentity(token.identity, named)
    chain = "".join(f"{str(each).strip()}\n" for each in above)
    return Certificate(key, certificate, chain, named)


def _request(key: EllipticCurvePrivateKey) -> bytes:
    """Return a certificate request as PEM; its subject is empty, since Fulcio takes it from the token."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding

    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
