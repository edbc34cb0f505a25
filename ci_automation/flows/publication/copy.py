"""Copying an artifact from one registry to another, with all that speaks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.artifact.manifest import OCI_MANIFEST
from ci_automation.errors import RegistryError
from ci_automation.registry.port import NotFound

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.manifest import Descriptor, Manifest
    from ci_automation.artifact.reference import Reference
    from ci_automation.registry.port import Registry

_MAX_REFERRERS = 64


class TooManyReferrers(RegistryError):
    """More refers to an artifact than anybody would write."""

    hint = "Somebody fills the registry. Remove what does not belong there, or copy the artifact by hand."

    def __init__(self, reference: Reference, number: int) -> None:
        super().__init__(f"{number} manifests refer to {reference}; no more than {_MAX_REFERRERS} are copied")


def copy(source: Registry, taken: Reference, target: Registry, put: Reference, digest: Digest) -> None:
    """Let `put` name in `target` what is `digest` in the repository of `taken`, with its signatures and referrers.

    All referrers are taken, for a bundle that is left out, or the only one that is not, changes what a cluster decides.
    The tag comes last: what it names can be verified from the first moment on.

    Raises:
        NotFound: it is not there, or not whole.
        TooManyReferrers: no registry in its right mind has so many.
    """
    manifest = source.manifest(taken.at_digest(digest))
    _copy_blobs(source, taken, target, put, manifest)
    target.put_manifest(put.at_digest(digest), manifest)
    signatures = f"sha256-{digest.hex}.sig"
    try:
        signed = source.manifest(taken.at_tag(signatures))
    except NotFound:
        pass
    else:
        _copy_blobs(source, taken, target, put, signed)
        target.put_manifest(put.at_tag(signatures), signed)
    for referrer in _referrers(source, taken, digest):
        found = source.manifest(taken.at_digest(referrer.digest))
        _copy_blobs(source, taken, target, put, found)
        target.put_referrer(put, found)
    if put.tag is not None:
        target.put_manifest(put.at_tag(put.tag), manifest)


def _referrers(source: Registry, taken: Reference, digest: Digest) -> tuple[Descriptor, ...]:
    """Return the image manifests among the referrers, in an order that is always the same."""
    found = [each for each in source.referrers(taken, digest) if each.media_type == OCI_MANIFEST]
    if len(found) > _MAX_REFERRERS:
        raise TooManyReferrers(taken.at_digest(digest), len(found))
    return tuple(sorted(found, key=lambda each: each.digest))


def _copy_blobs(source: Registry, taken: Reference, target: Registry, put: Reference, manifest: Manifest) -> None:
    for blob in dict.fromkeys(each.digest for each in (manifest.config, *manifest.layers)):
        descriptor = next(each for each in (manifest.config, *manifest.layers) if each.digest == blob)
        target.put_blob(put, source.blob(taken, descriptor))
