"""What an attacker, or a lost file, makes of a channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, OCI_MANIFEST, Descriptor, Manifest
from ci_automation.artifact.tree import COMPONENTS_PATH, Tree
from ci_automation.flux.artifact import Composed, Recipe, compose
from ci_automation.flux.options import Options
from ci_automation.flux.render import render
from ci_automation.policy.model import BUMPS, Action, Policy
from ci_automation.records.attached import MAX_STATEMENTS
from ci_automation.records.notes import HoldStatement, Record
from ci_automation.registry.contents import referrers_tag
from tests.fakes.world import CHANNEL, OVERLAY, MemoryReleases, World

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flux.version import Version
    from ci_automation.registry.port import Registry
EVERY = Policy(actions=dict.fromkeys(BUMPS, Action.NEVER))


def forget_signature(world: World, digest: Digest) -> None:
    """Let a `.sig` vanish, as retention rules do that know only tags."""
    del world.registry.repositories[str(CHANNEL.repository)].tags[f"sha256-{digest.hex}.sig"]


def forget_records(world: World, digest: Digest) -> None:
    """Let what hangs on a digest vanish."""
    repository = world.registry.repositories[str(CHANNEL.repository)]
    for referrer in world.registry.referrers(CHANNEL, digest):
        del repository.manifests[referrer.digest]


def lose_contents(world: World, digest: Digest) -> None:
    """Let the files of an artifact vanish, whose manifest stays."""
    repository = world.registry.repositories[str(CHANNEL.repository)]
    del repository.blobs[world.registry.manifest(CHANNEL.at_digest(digest)).layers[0].digest]


def delete_channel(world: World) -> None:
    """Let the channel's tag vanish."""
    del world.registry.repositories[str(CHANNEL.repository)].tags[str(CHANNEL.tag)]


def attach_junk(world: World, digest: Digest, kind: str = "record") -> None:
    """Let somebody attach more records, or holds, to a digest than a run reads."""
    attach_junk_in(world.registry, CHANNEL, digest, kind)


def attach_junk_in(registry: Registry, at: Reference, digest: Digest, kind: str = "record") -> None:
    """Let somebody do that in a registry."""
    registry.put_blob(at, CONFIG_BLOB)
    for each in range(MAX_STATEMENTS + 1):
        layer = f"junk {each}".encode()
        registry.put_blob(at, layer)
        junk = Manifest.build(
            Descriptor.of(FLUX_CONFIG, CONFIG_BLOB),
            (Descriptor.of("text/plain", layer),),
            artifact_type=(Record if kind == "record" else HoldStatement).media_type,
            subject=Descriptor(OCI_MANIFEST, digest, 2),
        )
        registry.put_referrer(at, junk)


def put_in_place_of_the_list(world: World, digest: Digest) -> None:
    """Let somebody put an artifact where the list of what refers to a digest has to be."""
    world.registry.put_manifest(referrers_tag(CHANNEL, digest), world.registry.manifest(CHANNEL))


def at(world: World) -> Digest:
    digest = world.registry.resolve(CHANNEL)
    assert digest is not None
    return digest


def made(version: Version, overlay: Tree = OVERLAY, options: Options | None = None) -> Composed:
    """Return an artifact as we would make it, which anybody can."""
    release, options = MemoryReleases().fetch(version), options or Options()
    text = render(release.bundle, version, options)
    return compose(Recipe(version, release.commit, release.bundle.digest, options, text, overlay, COMPONENTS_PATH))


def plant(world: World, composed: Composed) -> Digest:
    """Let somebody who can write to the registry point the channel at something."""
    world.registry.put_blob(CHANNEL, composed.recipe.layer)
    world.registry.put_blob(CHANNEL, CONFIG_BLOB)
    return world.registry.put_manifest(CHANNEL, composed.manifest)


def signatures(world: World) -> frozenset[str]:
    """Return all that we have signed: `.sig` manifests with their layers, and referrers."""
    repository = world.registry.repositories[str(CHANNEL.repository)]
    return frozenset(str(digest) for digest in repository.manifests)
