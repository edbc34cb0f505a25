"""Looking at what a channel has now, and whether it is to be trusted."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.errors import Conflict
from ci_automation.flux.artifact import stated_version
from ci_automation.signing.trust import IdentityMatch, TrustedIdentities, TrustedKeys
from ci_automation.signing.verify import ForeignSignature, verify

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.manifest import Manifest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Ports
    from ci_automation.flux.version import Version
    from ci_automation.signing.trust import Identity, Trusted


class ChannelMoved(Conflict):
    """The channel no longer points at the base that the plan was made on."""

    hint = "Somebody published in between. Run the update again; it plans on the new base."

    def __init__(self, channel: Reference, expected: Digest | None, found: Digest | None) -> None:
        super().__init__(
            f"{channel} moved from {expected or 'nothing'} to {found or 'nothing'} while this run was publishing"
        )


class Trust(enum.StrEnum):
    """What is known about the signature of what a channel has."""

    VERIFIED = "verified"
    ADOPTED = "adopted"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Observed:
    """A channel as it is now."""

    channel: Reference
    manifest: Manifest
    trust: Trust
    version: Version | None  # as its annotation states it

    @property
    def digest(self) -> Digest:
        """Return what the channel points at."""
        return self.manifest.digest


def look_at(channel: Reference, ports: Ports) -> Observed:
    """Return what `channel` has now, nothing of it verified.

    Raises:
        NotFound: there is no such channel.
    """
    ports.say(f"reading {channel}")
    manifest = ports.registry.manifest(channel)
    return Observed(channel, manifest, Trust.UNCHECKED, stated_version(manifest))


def observe(channel: Reference, ports: Ports) -> Observed:
    """Return what `channel` has now, signed by somebody who is trusted, if anybody is.

    Who is trusted comes from the configuration or the command line, never from the registry (invariant 3).

    Raises:
        NotFound: there is no such channel.
        Unsigned: it is not signed.
        ForeignSignature: somebody else signed it.
    """
    observed = look_at(channel, ports)
    if ports.trusted is None:
        return observed
    try:
        verify(ports.registry, channel, observed.digest, ports.trusted)
    except ForeignSignature as error:
        if error.signers and ports.signer is not None:
            error.hint = _if_it_was_you(error.signers[0], ports.signer.trusted)
        raise
    return Observed(channel, observed.manifest, Trust.VERIFIED, observed.version)


def accept_both(signing: Trusted, trusted: Trusted) -> str:
    """Return what a cluster's verify block has to say to accept either of two keys, or of two identities."""
    if isinstance(signing, TrustedKeys) or isinstance(trusted, TrustedKeys):
        return "put the new public key beside the old one in the Secret of verify.secretRef"
    issuers = "|".join(dict.fromkeys(match.issuer for it in (trusted, signing) for match in it.matches))
    subjects = "|".join(dict.fromkeys(match.subject for it in (trusted, signing) for match in it.matches))
    return f"verify.matchOIDCIdentity: [{{issuer: '{issuers}', subject: '{subjects}'}}]"


def _if_it_was_you(before: Identity, signing: Trusted) -> str:
    """Return what to do if the identity that signed is one's own, of another workflow or branch than this run's."""
    if isinstance(signing, TrustedKeys):
        return f"If {before} was you, name it (--identity, --issuer). If not, find out who that is."
    then = TrustedIdentities((IdentityMatch.exact(before),), signing.root)
    return (
        f"This run signs as {signing}. If {before} was you, let the clusters accept both "
        f"({accept_both(signing, then)}), then run once with --identity '{before.subject}' --issuer '{before.issuer}' "
        "--accept-identity-change. A job that calls a reusable workflow signs as that workflow. If it was not you, "
        "find out who that is."
    )
