"""A channel that flux published, with files of a test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.artifact.archive import write_archive
from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.tree import COMPONENTS_PATH
from ci_automation.policy.model import SignatureFormat
from ci_automation.signing.signer import KeySigner
from ci_automation.signing.verify import ensure_signed
from tests.fakes.world import CHANNEL, OVERLAY, World, signing_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.reference import Digest, Reference


def publish_text(
    world: World, text: bytes, annotations: Mapping[str, str] | None = None, channel: Reference = CHANNEL
) -> Digest:
    """Publish a components file as another tool might, signed by us."""
    layer = write_archive(OVERLAY.replaced(COMPONENTS_PATH, text))
    manifest = Manifest.build(Descriptor.of(FLUX_CONFIG, CONFIG_BLOB), (Descriptor.of(FLUX_LAYER, layer),), annotations)
    for blob in (layer, CONFIG_BLOB):
        world.registry.put_blob(channel, blob)
    digest = world.registry.put_manifest(channel, manifest)
    ensure_signed(world.registry, channel, digest, KeySigner(signing_key()), SignatureFormat.LEGACY)
    return digest
