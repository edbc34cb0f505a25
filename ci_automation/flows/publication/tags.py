"""The tags beside a channel: immutable tags, which never move, and version tags, which follow the channel.

A version tag (`v2.9.4`) is for clusters with `spec.ref.semver`. It leads to what the channel published last with that
version. Those above the channel's version lead to what the channel has: after a rollback, no range finds the release
on hold. They are not deleted, because many registries cannot delete a tag, and since the immutable tags of the release
are pre-releases below its version tag.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.errors import Conflict, VerificationFailed
from ci_automation.flows.observe import ChannelMoved, Placed
from ci_automation.flux.artifact import immutable_tag, immutable_version, tagged_version, version_tag
from ci_automation.impact.change import in_shell
from ci_automation.records.attached import known_as
from ci_automation.records.ledger import Position
from ci_automation.registry.port import TagMoved

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.artifact.manifest import Manifest
    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.ports import Ports
    from ci_automation.flux.version import Version
    from ci_automation.policy.decision import Hold

_AT_ONCE = 16  # requests: each takes a thread, and all who can write to the registry can make tags


class ImmutableTagTaken(Conflict):
    """An immutable tag points at another digest than its name says."""

    hint = (
        "A writer of the registry moved a tag that must never move. Find out who, and delete the tag before you "
        "publish again."
    )

    def __init__(self, reference: Reference, found: Digest) -> None:
        super().__init__(f"{reference} points at {found}, and its name says another digest")
        self.hint = f"{reference.tag} must never move. Find out who moved it, delete it, and run again."


class VersionTagTaken(Conflict):
    """A version tag leads to a digest that the channel never had."""

    def __init__(self, tag: Reference, found: Digest, channel: Reference, others: tuple[str, ...]) -> None:
        whose = f"signed records name {', '.join(others)}" if others else "no signed record names a channel of it"
        super().__init__(f"{tag} is at {found}, which {channel} never had: {whose}")
        self.hint = (
            f"Only one channel of a repository can have versionTags. If that is {channel.tag}, delete {tag.tag}, or "
            f"point it at the digest of {channel.tag}; then run the same command again."
        )


class VersionTagAstray(VerificationFailed):
    """A version tag leads to another signed digest than it should."""

    hint = "Find out who moved the tag. The next `update` of the channel, or `check --heal`, moves it back."

    def __init__(self, tag: Reference, digest: Digest, why: str, channel: Reference | None) -> None:
        super().__init__(f"{tag} is at {digest}, {why}")
        way = f"Delete it, or point it at what a channel of {tag.repository} published with that version."
        if channel is not None:
            heal = in_shell("check", str(channel), "--heal")
            way = f"{in_shell('update', str(channel))} or {heal} moves it back."
        self.hint = f"Find out who moved {tag.tag}. {way}"


def tag_for_ever(channel: Reference, version: Version, manifest: Manifest, ports: Ports) -> None:
    """Let the immutable tag of a manifest that is signed by now point at it.

    Raises:
        ImmutableTagTaken: it is there, with another digest.
    """
    tag = channel.at_tag(immutable_tag(version, manifest.digest))
    tag_unless_taken(tag, manifest, ports.registry.resolve(tag), ports)


def tag_unless_taken(tag: Reference, manifest: Manifest, named: Digest | None, ports: Ports) -> None:
    """Let an immutable tag point at a manifest if it points there already, or `named` nothing a moment ago.

    Raises:
        ImmutableTagTaken: it is there, with another digest.
    """
    if named is None:
        ports.registry.put_manifest(tag, manifest)
    elif named != manifest.digest:
        raise ImmutableTagTaken(tag, named)


class VersionTags(Struct, frozen=True):
    """The version tags of a channel that has `version`, or is about to; `had` are digests that it had before."""

    channel: Reference
    version: Version
    ports: Ports
    had: frozenset[Digest | None] = frozenset()

    def astray(self, digest: Digest) -> dict[Reference, Digest | None]:
        """Return the tags of this version and of all above that do not lead to `digest`, and where they lead."""
        registry, channel = self.ports.registry, self.channel
        found = ((tag, tagged_version(tag)) for tag in registry.tags(channel))
        above = (tag for tag, version in found if version is not None and version >= self.version)
        tags = [channel.at_tag(tag) for tag in dict.fromkeys((version_tag(self.version), *above))]
        leads: list[Digest | None] = []
        for few in (tags[start : start + _AT_ONCE] for start in range(0, len(tags), _AT_ONCE)):
            leads += registry.at_once(*(partial(registry.resolve, tag) for tag in few))
        return {tag: now for tag, now in zip(tags, leads, strict=True) if now != digest}

    def require_free(self, digest: Digest) -> None:
        """Raise `VersionTagTaken` if `settle` would move a tag of others."""
        for error in self._taken(self.astray(digest)).values():
            raise error

    def settle(self, manifest: Manifest) -> None:
        """Let the tags lead to what the channel has, which is signed; what others published is left alone.

        Raises:
            ChannelMoved, TagMoved: another writer moved the channel or a tag at the same moment.
            VersionTagTaken: a tag leads to what others published; all the other tags are where they belong.
        """
        registry, digest = self.ports.registry, manifest.digest
        astray = self.astray(digest)
        taken = self._taken(astray)
        for tag in (tag for tag in astray if tag not in taken):
            self._require_there(digest)
            self.ports.say(f"moving {tag}")
            registry.put_manifest(tag, manifest)
            if (now := registry.resolve(tag)) != digest:
                raise TagMoved(tag, digest, now)
        if len(astray) > len(taken):
            self._require_there(digest)
        for error in taken.values():
            raise error

    def _require_there(self, digest: Digest) -> None:
        if (now := self.ports.registry.resolve(self.channel)) != digest:
            raise ChannelMoved(self.channel, digest, now)

    def _taken(self, astray: dict[Reference, Digest | None]) -> dict[Reference, VersionTagTaken]:
        """Return the tags that lead to what the channel never had, as far as its signed records tell."""
        ledger, found = replace(self.ports.ledger(self.channel), lenient=True), {}
        for tag, digest in astray.items():
            if digest is None or digest in self.had:
                continue
            names = {record.channel for record in ledger.all_records(digest)}
            if ledger.name not in names:
                found[tag] = VersionTagTaken(tag, digest, self.channel, tuple(sorted(names)))
        return found


def digests_before(base: Digest | None, holds: Iterable[Hold]) -> frozenset[Digest | None]:
    """Return what a channel had before, by its base and by its holds."""
    return frozenset((base, *(hold.digest for hold in holds)))


def version_tag_problem(placed: Placed, version: Version, ports: Ports) -> VersionTagAstray | None:
    """Return why a version tag, which leads to `version`, is not where it belongs; None if nothing speaks against it.

    It belongs to each channel of the repository whose records name the digest: one that accounts for it is enough. What
    only channels of other repositories had belongs to a mirror of them alone, which has no records of its own.
    """
    named = tagged_version(str(placed.channel.tag))
    assert named is not None  # noqa: S101  # for the type checker: the caller knows that it is a version tag
    ledger = ports.ledger(placed.channel)
    home = ledger.name.rpartition(":")[0]
    here = [tag for repository, _, tag in (name.rpartition(":") for name in placed.others) if repository == home]
    if placed.others and not here and ledger.has_own_repository():
        others = ", ".join(known_as(ports.registry, placed.channel, name) for name in placed.others)
        why = f"which was published to {others} and to no channel of this repository"
        return VersionTagAstray(placed.channel, placed.digest, why, None)
    why, channel = "" if version == named else f"which is {version}", placed.channel
    for channel in map(placed.channel.at_tag, here):
        if not (why := _unaccounted(placed, named, version, channel, ports)):
            return None
    return VersionTagAstray(placed.channel, placed.digest, why, channel) if why else None


def _unaccounted(placed: Placed, named: Version, version: Version, channel: Reference, ports: Ports) -> str:
    """Return why a channel does not account for where a version tag leads, or nothing."""
    ledger = ports.ledger(channel)
    holds, records = ledger.holds(placed.digest), ledger.records(placed.digest)
    if version != named:
        held = any(hold.version >= named for hold in holds) or ports.registry.resolve(channel) == placed.digest
        return "" if held else f"which is {version}, and no rollback of {channel} led there"
    hold = max(holds, key=lambda hold: hold.since, default=None)
    tags = [tag for tag in placed.tags if immutable_version(tag) == named]
    later = ledger.superseded_by(Position(placed.digest, version, records[-1], hold), tags)
    return f"and {channel} published {later.digest} with that version later" if later else ""
