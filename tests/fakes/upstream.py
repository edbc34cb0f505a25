"""Upstream's own artifact of a release, `flux-manifests:vX.Y.Z`, pushed and signed as flux2's `release.yaml` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci_automation.artifact.archive import write_archive
from ci_automation.artifact.manifest import CONFIG_BLOB, FLUX_CONFIG, FLUX_LAYER, Descriptor, Manifest
from ci_automation.artifact.reference import Reference
from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.signing import bundle, legacy
from ci_automation.signing.upstream import upstream_identity

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Digest
    from ci_automation.flux.version import Version
    from ci_automation.registry.port import Registry
    from tests.fakes.sigstore import LocalSigstore

MANIFESTS = Reference.parse("oci://ghcr.example/fluxcd/flux-manifests:latest")


def publish(
    registry: Registry,
    version: Version,
    local: LocalSigstore | None,
    *,
    place: Reference = MANIFESTS,
    text: str | None = None,
    form: str = "legacy",
    **how: Any,
) -> Digest:
    """Return the digest of an artifact that is at the version's tag from now on; signed, unless there is no `local`.

    `how` is what a local Sigstore takes to sign as somebody else, at another time, or with something wrong.
    """
    content = (f"# of {version}\n" if text is None else text).encode()
    layer = write_archive(Tree((TreeFile("gotk-components.yaml", content),)))
    annotations = {
        "org.opencontainers.image.created": "2026-08-07T14:30:00Z",
        "org.opencontainers.image.source": "git://github.com/fluxcd/flux2.git",
        "org.opencontainers.image.revision": f"{version}@sha1:{'5' * 40}",
    }
    config = Descriptor.of(FLUX_CONFIG, CONFIG_BLOB)
    manifest = Manifest.build(config, (Descriptor.of(FLUX_LAYER, layer),), annotations)
    registry.put_blob(place, CONFIG_BLOB)
    registry.put_blob(place, layer)
    digest = registry.put_manifest(place.at_tag(str(version)), manifest)
    if local is not None:
        sign(registry, place, digest, local, form=form, **{"identity": upstream_identity(version), **how})
    return digest


def sign(
    registry: Registry, place: Reference, digest: Digest, local: LocalSigstore, *, form: str = "legacy", **how: Any
) -> None:
    """Sign a digest, in the legacy form or by a bundle."""
    if form == "bundle":
        raw = local.sign_bundle(bundle.statement(digest), **how)
        bundle.attach_bundle(registry, place, digest, raw, bundle.SIGNATURE_PREDICATE)
        return
    made = local.sign_detached(legacy.payload(place, digest), **how)
    legacy.add(registry, place, digest, made.annotations)
