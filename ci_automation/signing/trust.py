"""Trusted signers: keys, or identities in the certificates of a Sigstore instance; and findings on signatures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol, Self

from msgspec import Struct

from ci_automation.errors import UsageError, VerificationFailed
from ci_automation.policy.patterns import is_found, require_re2

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Digest

_SPECIAL, _ESCAPED = re.compile(r"[\\.+*?()|\[\]{}^$]"), r"\\\g<0>"  # what Go's regexp.QuoteMeta quotes

# The name of a workflow in GitHub's tokens and Fulcio's certificates; a pull request's `refs/pull/7/merge` is left out.
_WORKFLOW = re.compile(
    r"(?P<owner>https://[^/\s]+/[A-Za-z0-9-]+)/[A-Za-z0-9._-]+/\.github/workflows/[^/@\s]+@refs/(?:heads|tags)/[!-~]+"
)


NOBODY_NAMED = "no public key or identity is given"


class NobodyTrusted(UsageError):
    """No key or identity is trusted, and a signature has to be verified."""

    hint = "Give --public-key FILE, or --identity with --issuer; or `verify` in the configuration."

    def __init__(self, why: str = NOBODY_NAMED) -> None:
        super().__init__(f"nothing was verified: {why}")


class Identity(Struct, frozen=True):
    """Signer in a certificate of Fulcio: the token's issuer, and the subject alternative name."""

    issuer: str
    subject: str

    def shares_owner(self, other: Identity) -> bool:
        """Return whether both are workflows on branches or tags in repositories of one owner, on the same GitHub."""
        mine, theirs = _WORKFLOW.fullmatch(self.subject), _WORKFLOW.fullmatch(other.subject)
        if mine is None or theirs is None:
            return False
        return (self.issuer, mine["owner"]) == (other.issuer, theirs["owner"])

    def __str__(self) -> str:
        issuer, subject = (text if text.isprintable() else ascii(text) for text in (self.issuer, self.subject))
        return f"{subject} (issuer {issuer})"


class IdentityMatch(Struct, frozen=True):
    """One entry of Flux's `matchOIDCIdentity`: two RE2 patterns, which match anywhere unless they are anchored.

    Code that takes patterns from a person requires anchors (`policy.patterns`).
    """

    issuer: str
    subject: str

    @classmethod
    def exact(cls, identity: Identity) -> Self:
        """Return the entry that matches only this identity."""
        return cls(*(f"^{_SPECIAL.sub(_ESCAPED, text)}$" for text in (identity.issuer, identity.subject)))

    def __post_init__(self) -> None:
        """Raise `InvalidPattern` for a pattern that is empty, or not valid RE2."""
        for pattern in (self.issuer, self.subject):
            require_re2(pattern)

    def matches(self, identity: Identity) -> bool:
        """Return whether the patterns are found in issuer and subject, as Go's `regexp.MatchString` does."""
        return is_found(self.issuer, identity.issuer) and is_found(self.subject, identity.subject)

    def __str__(self) -> str:
        return f"{self.subject} (issuer {self.issuer})"


class VerifyingKey(Protocol):
    """Public half of a key pair (`keys`)."""

    @property
    def fingerprint(self) -> Digest:
        """Return the digest that identifies the key."""

    def accepts(self, signature: bytes, message: bytes) -> bool:
        """Return whether this key made `signature` over `message`."""

    def to_pem(self) -> str:
        """Return the key as PEM, for a cluster's Secret."""


class PrivateKey(Protocol):
    """Private half of a key pair: in memory, or in a KMS or HSM that signs for this program (`keys`)."""

    @property
    def public(self) -> VerifyingKey:
        """Return the public half."""

    def sign(self, message: bytes) -> bytes:
        """Return a signature over `message` that the public half accepts.

        Raises:
            SigningError: the KMS refuses, or cannot be reached.
        """


class Rejected(VerificationFailed):
    """A signature by certificate is invalid, no matter who signed it."""

    hint = (
        "This run ignored it. If you expect it to be valid, check that --trust-config names the Sigstore instance "
        "that it comes from."
    )

    def __init__(self, reason: str) -> None:
        super().__init__(f"the signature by certificate is rejected: {reason}")
        self.reason = reason


class Certified(Struct, frozen=True):
    """Proven signer and content of a signature by certificate. The caller decides whether the signer is trusted."""

    identity: Identity
    statement: bytes
    payload_type: str = ""  # of the DSSE envelope; empty if there was none


class CertificateRoot(Protocol):
    """Roots of a Sigstore instance (`sigstore`), which verify signatures.

    Its methods raise `Rejected` for an invalid signature.
    """

    @property
    def custom(self) -> bool:
        """Return whether this is not the public instance, so that a cluster needs its roots."""

    def verify_bundle(self, raw: bytes) -> Certified:
        """Verify a Sigstore bundle v0.3 with a certificate and a DSSE envelope."""

    def verify_detached(self, message: bytes, signature: bytes, certificate_pem: str, entry_json: str) -> Certified:
        """Verify a signature with its certificate and its `dev.sigstore.cosign/bundle`."""


class TrustedKeys(Struct, frozen=True):
    """Trusted keys, any of which may sign, like the `*.pub` entries of the Secret that `verify.secretRef` names."""

    keys: tuple[VerifyingKey, ...]

    def __post_init__(self) -> None:
        if not self.keys:
            raise NobodyTrusted

    def names(self, who: Digest | Identity) -> bool:
        """Return whether `who` is one of these keys."""
        return any(key.fingerprint == who for key in self.keys)

    def __str__(self) -> str:
        return " or ".join(f"the key {key.fingerprint}" for key in self.keys)


class TrustedIdentities(Struct, frozen=True):
    """Trusted identities, any of which may sign, and the Sigstore instance that certifies them."""

    matches: tuple[IdentityMatch, ...]
    root: CertificateRoot

    def __post_init__(self) -> None:
        if not self.matches:
            raise NobodyTrusted

    def names(self, who: Digest | Identity) -> bool:
        """Return whether `who` matches; the caller has verified the certificate that names it."""
        return isinstance(who, Identity) and any(match.matches(who) for match in self.matches)

    def __str__(self) -> str:
        return " or ".join(str(match) for match in self.matches)


Trusted = TrustedKeys | TrustedIdentities


class Verified(Struct, frozen=True):
    """A valid signature: its digest, and its signer (a key's fingerprint, or an identity)."""

    digest: Digest
    by: Digest | Identity


class Finding(Struct, frozen=True):
    """Result of the check of one signature against trusted keys or identities.

    `by` is the proven signer, perhaps not trusted. `problem` is why Flux would refuse the signature, None if Flux would
    accept it. `left_out` is a fault that Flux does not check for. An attestation is a statement other than "signed".
    `later_page` says that the bundle is not on the first page of the list of referrers.
    """

    by: Digest | Identity | None
    problem: str | None
    left_out: str | None = None
    attestation: bool = False
    only_rekor_2: bool = False
    envelope_in_rekor_2: bool = False
    later_page: bool = False

    @property
    def counts(self) -> bool:
        """Return whether a trusted signer has signed exactly this digest."""
        return self.problem is None and self.left_out is None


def distrust(trusted: TrustedIdentities, identity: Identity) -> str | None:
    """Return why a signature by `identity` is not trusted, or None if it is."""
    if trusted.names(identity):
        return None
    return f"{identity} made it, which is not a trusted signer"
