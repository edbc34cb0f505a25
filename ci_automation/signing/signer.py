"""Signers: a local key, a key in a KMS, or an identity for a few minutes."""

from __future__ import annotations

import base64
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from ci_automation.errors import Error, SigningError
from ci_automation.signing.bundle import signed_with_key
from ci_automation.signing.bundle_format import PAYLOAD_TYPE
from ci_automation.signing.legacy import SIGNATURE_ANNOTATION
from ci_automation.signing.trust import Identity, PrivateKey, Trusted, TrustedKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ci_automation.artifact.reference import Digest


class SignatureUnusable(SigningError):
    """A new signature does not verify, so it was not written."""

    hint = (
        "Nothing was tagged. The key or the KMS is faulty; or the services and the roots of the trust configuration "
        "belong to different Sigstore instances; or the roots are outdated."
    )

    def __init__(self, reason: str) -> None:
        super().__init__(f"the new signature does not verify: {reason}")


class Signer(Protocol):
    """Signer of published artifacts. It never prints a secret.

    All of it raises `SigningError` if a service that the signer needs refuses, or cannot be reached.
    """

    @property
    def who(self) -> Digest | Identity:
        """Return the signer as `Verified.by` names it: the fingerprint of the key, or the certificate's identity."""

    @property
    def trusted(self) -> Trusted:
        """Return the one key or the one exact identity that a cluster must trust to accept this signer."""

    def sign_payload(self, payload: bytes) -> Mapping[str, str]:
        """Return the annotations of a legacy signature over `payload` (cosign's `SIGNATURE_SPEC.md`)."""

    def sign_statement(self, statement: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
        """Return a Sigstore bundle v0.3 as JSON: a DSSE envelope over `statement`, an in-toto statement as JSON.

        Verifiers of artifacts accept only envelopes of the default type.
        """


class LateSigner:
    """A signer that opens its key on first use, so that a run that signs nothing needs no key."""

    def __init__(self, opens: Callable[[], Signer]) -> None:
        self._opens = opens
        self._opened: Signer | Error | None = None
        self._opening = Lock()

    def prepare(self) -> None:
        """Open the signer ahead of time, once. If that fails, the first use raises the error."""
        with self._opening:
            if self._opened is None:
                try:
                    self._opened = self._opens()
                except Error as error:
                    self._opened = error

    @property
    def who(self) -> Digest | Identity:
        """Return the signer's key or identity."""
        return self._signer().who

    @property
    def trusted(self) -> Trusted:
        """Return the key or identity that a cluster must trust."""
        return self._signer().trusted

    def sign_payload(self, payload: bytes) -> Mapping[str, str]:
        """Return the annotations of a legacy signature."""
        return self._signer().sign_payload(payload)

    def sign_statement(self, statement: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
        """Return a Sigstore bundle."""
        return self._signer().sign_statement(statement, payload_type)

    def _signer(self) -> Signer:
        """Return the signer itself."""
        self.prepare()
        if isinstance(self._opened, Error):
            raise self._opened
        assert self._opened is not None  # noqa: S101  # for the type checker: it was just opened
        return self._opened


class KeySigner(Struct, frozen=True):
    """A signer with one key. It writes nothing to a transparency log."""

    key: PrivateKey

    @property
    def who(self) -> Digest:
        """Return the key's fingerprint."""
        return self.key.public.fingerprint

    @property
    def trusted(self) -> TrustedKeys:
        """Return the key's public half."""
        return TrustedKeys((self.key.public,))

    def sign_payload(self, payload: bytes) -> Mapping[str, str]:
        """Return the only annotation of a key's signature."""
        return {SIGNATURE_ANNOTATION: base64.b64encode(self.key.sign(payload)).decode()}

    def sign_statement(self, statement: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
        """Return the bundle, which identifies the key by the digest of its public half."""
        return signed_with_key(statement, self.key, payload_type)


class SignsLater(SigningError):
    """A job that only shows was asked for a signature."""

    hint = "Report this as a bug: nothing is signed before the reviewers have answered."
    message = "this job only shows what a later job would do, and signs nothing"


class AbsentSigner(Struct, frozen=True):
    """The signer of a later job: a plan can name it, and nothing can be signed with it."""

    who: Digest | Identity
    trusted: Trusted

    def sign_payload(self, payload: bytes) -> Mapping[str, str]:
        """Raise `SignsLater`."""
        del payload
        raise SignsLater

    def sign_statement(self, statement: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
        """Raise `SignsLater`."""
        del statement, payload_type
        raise SignsLater
