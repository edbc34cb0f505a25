"""Publication: push by digest, sign, verify, compare, tag, read back (design section 7).

Every step finds out by itself that it was done, so that a run after a crash ends as if there had been no crash; and
the channel moves last, so that clusters see nothing but what is signed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.artifact.manifest import CONFIG_BLOB
from ci_automation.errors import Conflict, SigningError
from ci_automation.flux.artifact import immutable_tag
from ci_automation.signing import legacy

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.artifact import Composed
    from ci_automation.flux.version import Version


class ChannelMoved(Conflict):
    """The channel no longer points at the base that the plan was made on."""

    hint = "Somebody published in between. Run the update again; it plans on the new base."

    def __init__(self, channel: Reference, expected: Digest | None, found: Digest | None) -> None:
        super().__init__(
            f"{channel} moved from {expected or 'nothing'} to {found or 'nothing'} while this run was publishing"
        )


class ImmutableTagTaken(Conflict):
    """An immutable tag points at another digest than the one it is named after."""

    hint = "Somebody moved a tag that must never move. Find out who, and delete the tag before you publish again."

    def __init__(self, reference: Reference, found: Digest) -> None:
        super().__init__(f"{reference} points at {found}, which it is not named after")


class NoSigningKey(SigningError):
    """Something is to be published, and there is no key to sign it with."""

    hint = "Give --signing key --key FILE (or env://NAME)."

    def __init__(self) -> None:
        super().__init__("there is no key to sign with, and nothing is published unsigned")


class KeysDiffer(SigningError):
    """What is published would be signed by another key than the one that is trusted."""

    hint = (
        "To change the key, put the new public key beside the old one in the clusters' Secret; run once with --adopt."
    )

    def __init__(self, signing: Digest, trusted: Digest) -> None:
        super().__init__(
            f"the signing key is {signing}, the trusted key {trusted}: clusters would refuse what is published"
        )


def require_key(ports: Ports, intent: Intent) -> None:
    """Check, before anything is read, that what is to be published can be signed by the key that is trusted.

    Raises:
        NoSigningKey: there is no key, and signing is not switched off.
        KeysDiffer: another key is trusted, and the user does not adopt.
    """
    if ports.signing_key is None:
        if not intent.unsafe_unsigned:
            raise NoSigningKey
    elif ports.trusted_key is not None and not intent.adopt:
        signing, trusted = ports.signing_key.public.fingerprint, ports.trusted_key.fingerprint
        if signing != trusted:
            raise KeysDiffer(signing, trusted)


def publish(
    channel: Reference, base: Digest | None, version: Version, composed: Composed, ports: Ports, intent: Intent
) -> None:
    """Let `channel` point at the composed artifact, signed, if it still points at `base` (None: at nothing).

    A registry cannot compare and swap a tag: between the last look and the move lies one request, and the read-back
    reports a race that was lost in it.

    Raises:
        NoSigningKey: there is no key, and signing is not switched off.
        ChannelMoved: the channel points at something else than `base`, or was moved at the same moment.
        ImmutableTagTaken: the immutable tag is there, with another digest.
        VerificationFailed: the signature that was read back does not verify.
    """
    require_key(ports, intent)
    registry, target = ports.registry, composed.digest
    ports.say(f"pushing {target}")
    registry.put_blob(channel, composed.layer)
    registry.put_blob(channel, CONFIG_BLOB)
    registry.put_manifest(channel.at_digest(target), composed.manifest)
    if ports.signing_key is not None:
        ports.say("signing it, and verifying the signature as a cluster would")
        legacy.ensure_signed(registry, channel, target, ports.signing_key)
    tag = channel.at_tag(immutable_tag(version, target))
    if (present := registry.resolve(tag)) is None:
        registry.put_manifest(tag, composed.manifest)
    elif present != target:
        raise ImmutableTagTaken(tag, present)
    if (now := registry.resolve(channel)) == target:
        return  # another run with the same target was faster
    if now != base:
        raise ChannelMoved(channel, base, now)
    ports.say(f"moving {channel}")
    registry.put_manifest(channel, composed.manifest)
    if (now := registry.resolve(channel)) != target:
        raise ChannelMoved(channel, target, now)
