"""Who is trusted: keys, or identities in the certificates of a Sigstore instance; and what was found to be signed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from ci_automation.errors import UsageError
from ci_automation.policy.patterns import is_found, require_re2

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.signing.keys.locations import PublicKey
    from ci_automation.signing.sigstore.root import TrustRoot

_SPECIAL, _ESCAPED = re.compile(r"[\\.+*?()|\[\]{}^$]"), r"\\\g<0>"  # what Go's regexp.QuoteMeta quotes

# As GitHub names a workflow in a token, and Fulcio in a certificate; a pull request's `refs/pull/7/merge` is nobody's.
_WORKFLOW = re.compile(
    r"(?P<owner>https://[^/\s]+/[A-Za-z0-9-]+)/[A-Za-z0-9._-]+/\.github/workflows/[^/@\s]+@refs/(?:heads|tags)/[!-~]+"
)


NOBODY_NAMED = "no public key or identity is given"


class NobodyTrusted(UsageError):
    """Something is to be verified, and neither a key nor an identity is trusted."""

    hint = "Give --public-key FILE, or --identity with --issuer; or `verify` in the configuration."

    def __init__(self, why: str = NOBODY_NAMED) -> None:
        super().__init__(f"nothing was verified: {why}")


class Identity(Struct, frozen=True):
    """What a certificate of Fulcio says about who signed: the token's issuer, and the subject alternative name."""

    issuer: str
    subject: str

    def shares_owner(self, other: Identity) -> bool:
        """Return whether both are workflows on branches or tags of repositories of one owner, on one GitHub."""
        mine, theirs = _WORKFLOW.fullmatch(self.subject), _WORKFLOW.fullmatch(other.subject)
        if mine is None or theirs is None:
            return False
        return (self.issuer, mine["owner"]) == (other.issuer, theirs["owner"])

    def __str__(self) -> str:
        issuer, subject = (text if text.isprintable() else ascii(text) for text in (self.issuer, self.subject))
        return f"{subject} (issuer {issuer})"


class IdentityMatch(Struct, frozen=True):
    """One entry of Flux's `matchOIDCIdentity`: two RE2 patterns, which match anywhere unless they are anchored.

    Whoever takes patterns from a person requires that they are (`policy.patterns`).
    """

    issuer: str
    subject: str

    @classmethod
    def exact(cls, identity: Identity) -> Self:
        """Return the entry that only this identity matches."""
        return cls(*(f"^{_SPECIAL.sub(_ESCAPED, text)}$" for text in (identity.issuer, identity.subject)))

    def __post_init__(self) -> None:
        """Check the patterns.

        Raises:
            InvalidPattern: one of them is empty, or not RE2's.
        """
        for pattern in (self.issuer, self.subject):
            require_re2(pattern)

    def matches(self, identity: Identity) -> bool:
        """Return whether the patterns are found in issuer and subject, as Go's `regexp.MatchString` does."""
        return is_found(self.issuer, identity.issuer) and is_found(self.subject, identity.subject)

    def __str__(self) -> str:
        return f"{self.subject} (issuer {self.issuer})"


class TrustedKeys(Struct, frozen=True):
    """Keys of which any one may have signed, as the `*.pub` entries of the Secret that `verify.secretRef` names."""

    keys: tuple[PublicKey, ...]

    def __post_init__(self) -> None:
        if not self.keys:
            raise NobodyTrusted

    def names(self, who: Digest | Identity) -> bool:
        """Return whether `who` is among them."""
        return any(key.fingerprint == who for key in self.keys)

    def __str__(self) -> str:
        return " or ".join(f"the key {key.fingerprint}" for key in self.keys)


class TrustedIdentities(Struct, frozen=True):
    """Identities of which any one may have signed, and the Sigstore instance whose word for it counts."""

    matches: tuple[IdentityMatch, ...]
    root: TrustRoot

    def __post_init__(self) -> None:
        if not self.matches:
            raise NobodyTrusted

    def names(self, who: Digest | Identity) -> bool:
        """Return whether `who` is among them; that a certificate really says so is proven elsewhere."""
        return isinstance(who, Identity) and any(match.matches(who) for match in self.matches)

    def __str__(self) -> str:
        return " or ".join(str(match) for match in self.matches)


Trusted = TrustedKeys | TrustedIdentities


class Verified(Struct, frozen=True):
    """A valid signature that was found: over which digest, whose (a key's fingerprint, or an identity)."""

    digest: Digest
    by: Digest | Identity
