"""The signature of a promoted digest, which has to count for the target: a promotion signs no artifact again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.errors import VerificationFailed
from ci_automation.flows.observe import accept_both
from ci_automation.signing.cluster import require_accepted_there
from ci_automation.signing.trust import Trusted, TrustedIdentities, Verified
from ci_automation.signing.verify import ForeignSignature, verify

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.planning.promotion import Considered, Promotion
    from ci_automation.registry.port import Registry


class SignedForOthers(VerificationFailed):
    """Clusters of the target do not trust the signer of the channel's digest."""

    def __init__(self, promotion: Promotion, digest: Digest, found: Trusted, wanted: Trusted) -> None:
        super().__init__(
            f"{digest} is signed for {promotion.source} by {found}, and {promotion.target} trusts {wanted}: its "
            "clusters would refuse it"
        )
        if isinstance(found, TrustedIdentities) is isinstance(wanted, TrustedIdentities):
            way = f"let the clusters of {promotion.target} accept both: {accept_both(found, wanted)}"
        else:
            way = "clusters take a key or an identity, never both: sign both channels the same way"
        self.hint = (
            f"A promotion does not sign the artifact again. If both signers are yours, {way}; then name both in "
            "`verify` too."
        )


def require_signed_for_target(considered: Considered, registry: Registry, at: Reference) -> Verified:
    """Return the signature of the digest that is there by a signer whom the target trusts and its clusters accept.

    Raises:
        SignedForOthers: another signer signed it.
        ClusterWouldRefuse: a cluster would refuse it all the same.
    """
    promotion, digest, trusted = considered.promotion, considered.digest, considered.promotion.ports.require_trusted()
    try:
        signed = verify(registry, at, digest, trusted)
    except ForeignSignature:
        raise SignedForOthers(promotion, digest, promotion.origin.require_trusted(), trusted) from None
    versions = (considered.old_version or considered.version, considered.version)
    require_accepted_there(registry, at.at_digest(digest), trusted, versions)
    return signed
