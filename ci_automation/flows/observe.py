"""Observe the present digest of a channel, and whether a trusted signer signed it."""

from __future__ import annotations

import contextlib
import enum
import shlex
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.errors import Conflict, Error, VerificationFailed
from ci_automation.flux.artifact import immutable_version, stated_version
from ci_automation.registry.port import NotFound
from ci_automation.signing.trust import Identity, IdentityMatch, Trusted, TrustedIdentities, TrustedKeys
from ci_automation.signing.verify import ForeignSignature, Unsigned, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from ci_automation.artifact.manifest import Manifest
    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.release import Release
    from ci_automation.flux.version import Version
    from ci_automation.policy.decision import Hold
    from ci_automation.records.notes import Record
    from ci_automation.signing.signer import Signer


class ChannelMoved(Conflict):
    """The channel left the base of the plan."""

    hint = "Another writer moved the channel. Run the update again; it plans on the new base."

    def __init__(self, channel: Reference, expected: Digest | None, found: Digest | None) -> None:
        super().__init__(
            f"{channel} moved from {expected or 'nothing'} to {found or 'nothing'} while this run was publishing"
        )


class Trust(enum.StrEnum):
    """Trust in the signature of a channel's digest."""

    VERIFIED = "verified"
    ADOPTED = "adopted"
    UNCHECKED = "not checked"


class Observed(Struct, frozen=True):
    """A channel as it is now; `releases` and `layer` are what the run read ahead, while it verified the signature."""

    channel: Reference
    manifest: Manifest
    trust: Trust
    version: Version | None  # as its annotation states it
    releases: tuple[Release, ...] | None = None
    layer: bytes | None = None

    @property
    def digest(self) -> Digest:
        """Return what the channel points at."""
        return self.manifest.digest


class Placed(Observed, frozen=True):
    """A channel as it is now, and what trusted signers said of the digest that it has.

    `record` is the newest record of this channel about it, `others` the channels that it was published to if there is
    none. `rolled_back` is the newest hold on it if no record of the channel is as new: its rollback wrote no record.
    `left` is when a rollback moved the channel away from it, if no record is newer. `tags` are the repository's.
    """

    record: Record | None = None
    others: tuple[str, ...] = ()
    rolled_back: Hold | None = None
    left: datetime | None = None
    holds: tuple[Hold, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def last(self) -> datetime | None:
        """Return when the channel was last said to come to the digest, or to leave it."""
        own = (self.record.at if self.record else None, self.left, *(hold.since for hold in self.holds))
        return max((at for at in own if at is not None), default=None)


def look_at(channel: Reference, ports: Ports) -> Observed:
    """Return what `channel` has now, nothing of it verified.

    Raises:
        ImmutableTagMoved: `channel` is an immutable tag that names another digest than its name says.
        NotFound: there is no such channel; the hint names one that is nearly called so, or those that are there.
    """
    ports.say(f"reading {channel}")
    try:
        manifest = ports.registry.manifest(channel)
    except NotFound as error:
        with contextlib.suppress(Error):  # some registries list no tags
            if channel.tag:
                tags = ports.registry.tags(channel)
                error.name_channels(tags)
                if near := channel.nearly(tags):
                    error.hint = f"Did you mean {channel.at_tag(near)}? {NotFound.hint}"
                from ci_automation.flows.publication.placement import way_back_of_deleted  # only where it is told

                error.hint = way_back_of_deleted(channel, ports) or error.hint
        raise
    if channel.tag and immutable_version(channel.tag) and not channel.tag.endswith(manifest.digest.short):
        from ci_automation.records.ledger import ImmutableTagMoved  # only where it is told

        raise ImmutableTagMoved(channel, manifest.digest)
    return Observed(channel, manifest, Trust.UNCHECKED, stated_version(manifest))


def observe(
    channel: Reference, ports: Ports, finish: Callable[[Observed], Observed] = lambda observed: observed
) -> Observed:
    """Return the present digest of `channel`, verified if there are trusted signers.

    Trusted signers come from the configuration or the command line, never from the registry (invariant 3). `finish` is
    called meanwhile, to read what belongs to the digest; its result counts only if the digest is verified.

    Raises:
        NotFound: there is no such channel.
        Unsigned: it is not signed.
        ForeignSignature: another signer signed it.
    """
    observed = look_at(channel, ports)
    if ports.trusted is None:
        return observed
    try:
        named = replace(channel, digest=observed.digest)
        check = partial(verify, ports.registry, named, observed.digest, ports.trusted)
        _, found = ports.registry.at_once(check, partial(finish, observed))
    except ForeignSignature as error:
        error.hint += " If that key is lost or stolen, `update --adopt` shows every file, and signs with yours."
        if error.signers and ports.signer is not None:
            with contextlib.suppress(Error):  # who signed it matters more than that our own key is lost
                error.hint = _if_it_was_you(error.signers, ports.signer)
        raise
    return replace(found, trust=Trust.VERIFIED)  # type: ignore[no-any-return]


def accept_both(signing: Trusted, trusted: Trusted) -> str:
    """Return the change to a cluster's verify block that accepts either of two keys, or of two identities."""
    from ci_automation.report.sync import NoSingleIdentity, inline_entry, one_entry  # only for what is told

    if isinstance(signing, TrustedKeys) or isinstance(trusted, TrustedKeys):
        return "add the new public key beside the old one in the Secret of verify.secretRef"
    try:
        return inline_entry(*one_entry(tuple((it.issuer, it.subject) for it in (*trusted.matches, *signing.matches))))
    except NoSingleIdentity:
        return (
            "one entry cannot, because both issuer and subject differ and it would match mixtures of them; use one "
            "after the other"
        )


class SignedForOthers(VerificationFailed):
    """Clusters of the target do not trust the signer of the channel's digest."""

    def __init__(self, source: str, target: str, digest: Digest, found: Trusted, wanted: Trusted) -> None:
        super().__init__(
            f"{digest} is signed for {source} by {found}, and {target} trusts {wanted}: its clusters would refuse it"
        )
        if isinstance(found, TrustedIdentities) is isinstance(wanted, TrustedIdentities):
            way = f"let the clusters of {target} accept both: {accept_both(found, wanted)}"
        else:
            way = "clusters take a key or an identity, never both: sign both channels the same way"
        self.hint = (
            f"A promotion does not sign the artifact again. If both signers are yours, {way}; then name both in "
            "`verify` too."
        )


def _if_it_was_you(signers: Sequence[Identity], signer: Signer) -> str:
    """Return what to do if one of those who signed is one's own workflow, of another file or branch than this run's.

    An identity of another owner is never put into a command: a writer of the registry chose it.
    """
    signing = signer.trusted
    if isinstance(signing, TrustedKeys) or not isinstance(signer.who, Identity):
        return f"If you are {signers[0]}, give --identity and --issuer. If not, find out who signed."
    before = next((each for each in signers if each.shares_owner(signer.who)), None)
    if before is None:
        return f"This run signs as {signing}. {signers[0]} has another owner: find out who signed."
    then = TrustedIdentities((IdentityMatch.exact(before),), signing.root)
    options = ("--identity", before.subject, "--issuer", before.issuer, "--accept-identity-change")
    return (
        f"This run signs as {signing}. If {before} was you, let the clusters accept both "
        f"({accept_both(signing, then)}), then run once with {shlex.join(options)}. "
        "A job that calls a reusable workflow signs as that workflow. If it was not you, find out who that is."
    )


def observe_or_adopt(
    channel: Reference, ports: Ports, intent: Intent, finish: Callable[[Observed], Observed] = lambda observed: observed
) -> Observed:
    """Return the present digest of `channel`, if a trusted signer signed it or a person adopts it.

    Raises:
        NotFound: there is no such channel.
        Unsigned, ForeignSignature: it is not to be trusted, and is not being adopted.
        NotAdopted: a person was asked, and did not say yes.
    """
    try:
        return observe(channel, ports, finish)
    except (Unsigned, ForeignSignature) as error:
        if not intent.adopt:
            raise
        from ci_automation.flows.publication.adoption import confirm  # only where a person is asked

        observed = look_at(channel, ports)
        confirm(observed, str(error), ports, intent)
        return replace(observed, trust=Trust.ADOPTED)


def observe_past(channel: Reference, digest: Digest, ports: Ports) -> Observed:
    """Return a past digest of a channel as if the channel still had it.

    Raises:
        NotFound, VerificationFailed: it is gone, or no trusted signer signed it.
    """
    earlier = look_at(channel.at_digest(digest), ports)
    verify(ports.registry, channel, digest, ports.require_trusted())
    return replace(earlier, channel=channel, trust=Trust.VERIFIED)
