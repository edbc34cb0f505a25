"""What signs in this process, at any moment, for anybody, and with any one thing wrong: what attackers have."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from tests.fakes.sigstore import entries, tsa
from tests.fakes.sigstore.ca import Authority, CtLog, new_key, pem
from tests.fakes.sigstore.entries import Envelope, Verifier, encode
from tests.fakes.sigstore.logs import Rekor1, Rekor2
from tests.fakes.sigstore.tokens import claims_of

if TYPE_CHECKING:
    from cryptography import x509

    from ci_automation.signing.trust import Identity
    from tests.fakes.sigstore.entries import Body
    from tests.fakes.sigstore.logs import Entry

IN_TOTO = "application/vnd.in-toto+json"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
LATE = timedelta(hours=1)


class NoSuchFault(ValueError):
    """What is asked for has no place where that could be wrong."""


class Fault(Enum):
    """The one thing that is wrong; everything else is as it should be."""

    EXPIRED = auto()  # log and time stamp are an hour later than the certificate
    EARLY = auto()  # log and time stamp are an hour earlier than the certificate
    UNTIMED = auto()  # nobody says when: neither a promise of Rekor 1 nor a time stamp
    PROMISE = auto()  # the log's promise (SET) was tampered with
    LOG = auto()  # the log is not the trusted one
    OTHER_ENTRY = auto()  # the entry is about another signature by the same key
    AUTHORITY = auto()  # another authority issued the certificate
    UNLOGGED = auto()  # another certificate transparency log signed the SCT
    KEY = auto()  # another key than the certificate's made the signature, and it is logged as such
    CONTENT = auto()  # what was signed is another text than the one that comes with it
    STAMPER = auto()  # the time stamper is not the trusted one
    OTHER_STAMP = auto()  # the time stamp is about another signature


EVERYWHERE = frozenset(
    {Fault.EXPIRED, Fault.EARLY, Fault.LOG, Fault.OTHER_ENTRY, Fault.AUTHORITY, Fault.UNLOGGED, Fault.KEY}
)
IN_FORM = {"detached": set[Fault](), "statement": {Fault.UNTIMED, Fault.CONTENT}, "artifact": {Fault.UNTIMED}}
IN_REKOR = {1: {Fault.PROMISE}, 2: {Fault.STAMPER, Fault.OTHER_STAMP}}


def faults(form: str, rekor: int = 1) -> frozenset[Fault]:
    """Return what can be wrong with a `detached` signature, or a bundle of a `statement` or an `artifact`."""
    return EVERYWHERE | IN_FORM[form] | IN_REKOR[rekor]


@dataclass(frozen=True, slots=True)
class Detached:
    """A signature apart from what it signs, with what cosign's legacy format keeps beside it."""

    signature: bytes
    certificate: str
    chain: str
    entry: str

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of a layer in a `.sig` manifest."""
        return {
            "dev.cosignproject.cosign/signature": encode(self.signature),
            "dev.sigstore.cosign/bundle": self.entry,
            "dev.sigstore.cosign/certificate": self.certificate,
            "dev.sigstore.cosign/chain": self.chain,
        }


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one Sigstore, each with its key."""

    authority: Authority
    ct: CtLog
    rekor1: Rekor1
    rekor2: Rekor2
    stamper: tsa.Stamper

    @classmethod
    def new(cls, host: str) -> Services:
        """Return services that nobody knows yet."""
        return cls(Authority("fulcio"), CtLog(), Rekor1(), Rekor2(host), tsa.Stamper())


class Desk:
    """One signature in the making: its key, its certificate, its moment, and what is wrong with it."""

    def __init__(self, services: Services, identity: Identity, at: datetime | None, fault: Fault | None) -> None:
        others = Services.new(services.rekor2.name) if fault else services
        self.fault = fault
        self.services = replace(
            services,
            rekor1=others.rekor1 if fault is Fault.LOG else services.rekor1,
            rekor2=others.rekor2 if fault is Fault.LOG else services.rekor2,
            stamper=others.stamper if fault is Fault.STAMPER else services.stamper,
        )
        start = at or datetime.now(UTC)
        self.moment = start + {Fault.EXPIRED: LATE, Fault.EARLY: -LATE}.get(fault, timedelta()) if fault else start
        self.key = new_key()
        authority = others.authority if fault is Fault.AUTHORITY else services.authority
        log = others.ct if fault is Fault.UNLOGGED else services.ct
        self.certificate: x509.Certificate = authority.certify(self.key.public_key(), claims_of(identity), start, log)
        self.chain = authority.chain_pem
        self._signer = new_key() if fault is Fault.KEY else self.key

    def detached(self, message: bytes) -> Detached:
        """Return the signature over a message, with an entry of Rekor 1."""
        self._possible("detached", 1)
        signature = self._sign(message)
        log, entry = self.services.rekor1, self._log1(self._hashed(message, signature))
        stored = {"SignedEntryTimestamp": encode(self._promise(entry)), "Payload": log.payload(entry)}
        return Detached(signature, pem(self.certificate), self.chain, json.dumps(stored, separators=(",", ":")))

    def statement(self, statement: bytes, rekor: int, *, as_envelope: bool = False, kind: str = IN_TOTO) -> bytes:
        """Return a bundle around a DSSE envelope."""
        self._possible("statement", rekor)
        envelope = Envelope(kind, statement, self._sign(entries.pae(kind, statement)))
        shown = replace(envelope, payload=statement + b" ") if self.fault is Fault.CONTENT else envelope
        logged = self._other(envelope) if self.fault is Fault.OTHER_ENTRY else envelope
        if rekor == 1:
            body = entries.dsse(logged, json.dumps(logged.json).encode(), self._verifier)
        elif as_envelope:
            body = entries.dsse_v2(logged, self._verifier)
        else:
            body = self._hashed(entries.pae(kind, statement), envelope.signature, rekor)
        return self._bundle({"dsseEnvelope": shown.json}, envelope.signature, body, rekor)

    def artifact(self, message: bytes, rekor: int) -> bytes:
        """Return a bundle around a signature over a message."""
        self._possible("artifact", rekor)
        signature = self._sign(message)
        digest = {"algorithm": "SHA2_256", "digest": encode(hashlib.sha256(message).digest())}
        content = {"messageSignature": {"messageDigest": digest, "signature": encode(signature)}}
        return self._bundle(content, signature, self._hashed(message, signature, rekor), rekor)

    def _bundle(self, content: dict[str, Any], signature: bytes, body: Body, rekor: int) -> bytes:
        material: dict[str, Any] = {"certificate": {"rawBytes": encode(self.certificate.public_bytes(Encoding.DER))}}
        if rekor == 1:
            entry = self._log1(body)
            found = self.services.rekor1.proto(entry)
            found["inclusionPromise"] = {"signedEntryTimestamp": encode(self._promise(entry))}
            if self.fault is Fault.UNTIMED:
                del found["inclusionPromise"]
        else:
            found = self.services.rekor2.proto(self.services.rekor2.add(body))
            if self.fault is not Fault.UNTIMED:
                stamped = b"another" if self.fault is Fault.OTHER_STAMP else signature
                stamp = encode(self.services.stamper.answer(tsa.query(stamped), self.moment))
                material["timestampVerificationData"] = {"rfc3161Timestamps": [{"signedTimestamp": stamp}]}
        return json.dumps(
            {"mediaType": BUNDLE, "verificationMaterial": material | {"tlogEntries": [found]}, **content}
        ).encode()

    def _possible(self, form: str, rekor: int) -> None:
        if self.fault and self.fault not in faults(form, rekor):
            raise NoSuchFault(f"{form} with Rekor {rekor}: {self.fault}")

    @property
    def _verifier(self) -> Verifier:
        if self.fault is Fault.KEY:  # as the log takes nothing whose signature does not hold
            return Verifier(self._signer.public_key(), None)
        return Verifier(self.key.public_key(), self.certificate)

    def _sign(self, message: bytes) -> bytes:
        return self._signer.sign(message, ec.ECDSA(SHA256()))

    def _hashed(self, message: bytes, signature: bytes, rekor: int = 1) -> Body:
        if self.fault is Fault.OTHER_ENTRY:
            message = b"another"
            signature = self._sign(message)
        make = entries.hashedrekord if rekor == 1 else entries.hashedrekord_v2
        return make(signature, hashlib.sha256(message).digest(), self._verifier)

    def _other(self, envelope: Envelope) -> Envelope:
        statement = b"{}"
        return replace(envelope, payload=statement, signature=self._sign(entries.pae(envelope.kind, statement)))

    def _log1(self, body: Body) -> Entry:
        return self.services.rekor1.add(body, int(self.moment.timestamp()))

    def _promise(self, entry: Entry) -> bytes:
        told = replace(entry, at=entry.at - 1) if self.fault is Fault.PROMISE else entry
        return self.services.rekor1.promise(told)
