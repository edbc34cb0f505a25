"""What one signature turned out to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.signing.trust import Identity, TrustedIdentities


class Finding(Struct, frozen=True):
    """What one signature is worth to whoever trusts certain keys or identities.

    `by` is who has made it, proven but perhaps not trusted; `problem` is why Flux would not take it from somebody who
    is trusted, None if it would; `left_out` is what is wrong with it and Flux does not look at. An attestation says
    something else than that the artifact is signed.
    """

    by: Digest | Identity | None
    problem: str | None
    left_out: str | None = None
    attestation: bool = False
    only_rekor_2: bool = False
    envelope_in_rekor_2: bool = False

    @property
    def counts(self) -> bool:
        """Return whether somebody trusted has signed this very digest."""
        return self.problem is None and self.left_out is None


def distrust(trusted: TrustedIdentities, identity: Identity) -> str | None:
    """Return why a signature that `identity` has made is not one of those who are trusted; None if it is."""
    if trusted.names(identity):
        return None
    return f"{identity} made it, who is not trusted"
