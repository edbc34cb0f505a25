"""Keyless signatures: a key for minutes, Fulcio's certificate with the identity, and the log's proof of the time.

This module builds the requests to the services, and verifies each new signature as a cluster would before it returns
it. It does not use sigstore's own signer, which wants a name in each subject of a statement, unlike cosign, and takes
no time limit.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from ci_automation.artifact.reference import Digest
from ci_automation.errors import SigningError
from ci_automation.hiding import Hiding
from ci_automation.net.values import Answer, Call, parsed_json
from ci_automation.signing.bundle import BUNDLE_TYPE
from ci_automation.signing.bundle_format import PAYLOAD_TYPE, Envelope
from ci_automation.signing.legacy import (
    CERTIFICATE_ANNOTATION,
    CHAIN_ANNOTATION,
    ENTRY_ANNOTATION,
    SIGNATURE_ANNOTATION,
)
from ci_automation.signing.signer import SignatureUnusable
from ci_automation.signing.sigstore.certified import certificate_of_pem, identity_of
from ci_automation.signing.sigstore.exchange import JSON, FulcioFailed, RekorFailed, SigstoreExchange, require_done
from ci_automation.signing.sigstore.rekor import (
    UnreadableEntry,
    base64_encoded,
    bundle_entry_of_answer,
    compact,
    dsse_proposal,
    entry_of_rekor_answer,
    hashedrekord_proposal,
)
from ci_automation.signing.trust import Certified, Identity, IdentityMatch, Rejected, TrustedIdentities

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from ci_automation.signing.sigstore.instance import Services
    from ci_automation.signing.sigstore.oidc import Token, Tokens
    from ci_automation.signing.sigstore.root import TrustRoot

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


T = TypeVar("T")

_SHORTEST_LIFE = 60.0  # seconds that a certificate must have left: the log has to take the entry within them
_UUID = re.compile(r"[0-9a-f]{64}(?:[0-9a-f]{16})?")


class KeylessSigner:
    """A signer with the identity in the tokens. It uses one certificate while it is valid; threads may share it.

    All entries are in a log of Rekor v1: a legacy signature has no place for those of v2, nor does each Flux read them.
    """

    def __init__(self, root: TrustRoot, tokens: Tokens, exchange: SigstoreExchange | None = None) -> None:
        self._root, self._tokens = root, tokens
        self._exchange = exchange or SigstoreExchange(root.network)
        self._lock = Lock()
        self._held: Certificate | None = None

    @property
    def who(self) -> Identity:
        """Return the identity that the certificates name; see `Signer`."""
        return self._held.identity if self._held else self._tokens.token().identity

    @property
    def claims(self) -> Mapping[str, Any]:
        """Return the claims of the token that the certificates are for.

        Raises:
            SigningError: there is no token to tell it.
        """
        return self._tokens.token().claims

    @property
    def trusted(self) -> TrustedIdentities:
        """Return trust in exactly that identity, with this instance's roots; see `Signer`."""
        return TrustedIdentities((IdentityMatch.exact(self.who),), self._root)

    def sign_payload(self, payload: bytes) -> Mapping[str, str]:
        """Return the annotations of a legacy signature over `payload`, which was verified; see `Signer`."""
        services = self._root.services
        held = self._certificate(services)
        signature = held.sign(payload)
        proposal = hashedrekord_proposal(Digest.of(payload), signature, held.pem)
        answer = self._logged(services, proposal)
        entry = _read(entry_of_rekor_answer, answer).to_json()
        _require_good(lambda: self._root.verify_detached(payload, signature, held.pem, entry))
        return {
            SIGNATURE_ANNOTATION: base64_encoded(signature),
            CERTIFICATE_ANNOTATION: held.pem,
            CHAIN_ANNOTATION: held.chain,
            ENTRY_ANNOTATION: entry,
        }

    def sign_statement(self, statement: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
        """Return a bundle v0.3 around `statement`, which was verified; see `Signer`."""
        services = self._root.services
        held = self._certificate(services)
        unsigned = Envelope(payload_type, statement, ())
        signature = held.sign(unsigned.message)
        envelope = unsigned.signed(signature)
        answer = self._logged(services, dsse_proposal(compact(envelope), held.pem))
        material = {
            "certificate": {"rawBytes": base64_encoded(held.der)},
            "tlogEntries": [_read(bundle_entry_of_answer, answer)],
        }
        bundle = {"mediaType": BUNDLE_TYPE, "verificationMaterial": material, "dsseEnvelope": envelope}
        raw = compact(bundle).encode()
        _require_good(lambda: self._root.verify_bundle(raw))
        return raw

    def _certificate(self, services: Services) -> Certificate:
        """Return the held certificate while it is valid, else a new one."""
        now = self._exchange.patience.clock.now()
        with self._lock:
            held = self._held
            if held is None or held.certificate.not_valid_after_utc.timestamp() - now < _SHORTEST_LIFE:
                self._held = held = issued(services.fulcio, self._tokens.token(), self._exchange)
            return held

    def _logged(self, services: Services, proposal: bytes) -> Answer:
        """Return the log's answer with the entry for `proposal`, even if an earlier attempt logged it."""
        answer = self._exchange.ask(Call("POST", services.entries, JSON, proposal), RekorFailed)
        if answer.status == HTTPStatus.CONFLICT:
            uuid = answer.headers.get("location", "").rpartition("/")[2]
            if not _UUID.fullmatch(uuid):
                raise RekorFailed(answer.host, "it has the entry already, but does not say where")
            answer = self._exchange.ask(Call("GET", f"{services.entries}/{uuid}", JSON), RekorFailed)
        require_done(answer, RekorFailed)
        return answer


def _require_good(verify: Callable[[], Certified]) -> None:
    """Raise `SignatureUnusable` for a new signature that does not verify, before the signer returns it."""
    try:
        verify()
    except Rejected as error:
        raise SignatureUnusable(error.reason) from None


def _read(parse: Callable[[bytes], T], answer: Answer) -> T:
    try:
        return parse(answer.body)
    except UnreadableEntry as reason:
        raise RekorFailed(answer.host, f"its answer is not an entry: {reason}") from None
