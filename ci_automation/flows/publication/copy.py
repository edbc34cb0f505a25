"""Copying an artifact from one repository to another, with all that speaks for it, digest by digest."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.manifest import MAX_LAYERS, OCI_MANIFEST, Manifest, NoLayers
from ci_automation.artifact.reference import OciRepository
from ci_automation.errors import RegistryError
from ci_automation.registry.port import NotFound, TagMoved
from ci_automation.signing.legacy import SignaturesUnreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.registry.port import Registry

_MAX_REFERRERS = 64
_BESIDE = ("sig", "att", "sbom")  # what cosign's tags end with (`pkg/oci/remote/remote.go`)
_ATTEMPTS = 3


class TooManyReferrers(RegistryError):
    """More refers to an artifact than anybody would write."""

    hint = (
        "An attacker may be filling the registry. Delete the referrers that do not belong there, or copy the artifact "
        "by hand."
    )

    def __init__(self, reference: Reference, number: int) -> None:
        super().__init__(f"{number} manifests refer to {reference}; a run copies at most {_MAX_REFERRERS}")


class _Copy(Struct, frozen=True):
    """From where to where."""

    source: Registry
    taken: Reference
    target: Registry
    put: Reference

    @property
    def mounts(self) -> bool:
        """Return whether both are in one registry, which may have what is there already."""
        here, there = self.taken.repository, self.put.repository
        return isinstance(here, OciRepository) and isinstance(there, OciRepository) and here.host == there.host

    def blobs(self, manifest: Manifest) -> None:
        """Have the blobs of a manifest of the source in the target's repository."""
        for descriptor in {each.digest: each for each in (*manifest.layers, manifest.config)}.values():
            if not (self.mounts and self.target.mount_blob(self.put, descriptor, self.taken)):
                self.target.put_blob(self.put, self.source.blob(self.taken, descriptor))

    def beside(self, tag: str) -> None:
        """Copy what is at one of cosign's tags; what the target has there already stays in it."""
        try:
            theirs = self.source.manifest(self.taken.at_tag(tag))
        except (NotFound, NoLayers):
            return
        self.blobs(theirs)
        at = self.put.at_tag(tag)
        for attempt in range(1, _ATTEMPTS + 1):
            wanted = _merged(_found(self.target, at), theirs, at)
            if wanted is None:
                return
            try:
                self.target.put_manifest(at, wanted)
            except TagMoved:
                if attempt == _ATTEMPTS:
                    raise

    def referrers(self, digest: Digest) -> Iterator[Manifest]:
        """Yield the image manifests among the referrers, in an order that is always the same.

        What is listed, and not there or empty, nobody can read at the source either.

        Raises:
            TooManyReferrers: no registry in its right mind has so many.
        """
        found = [each for each in self.source.referrers(self.taken, digest) if each.media_type == OCI_MANIFEST]
        if len(found) > _MAX_REFERRERS:
            raise TooManyReferrers(self.taken.at_digest(digest), len(found))
        for each in sorted(found, key=lambda each: each.digest):
            with suppress(NotFound, NoLayers):
                yield self.source.manifest(self.taken.at_digest(each.digest))


def copy(source: Registry, taken: Reference, target: Registry, put: Reference, digest: Digest) -> None:
    """Let `put` name in `target` what is `digest` in the repository of `taken`, with its signatures and referrers.

    All referrers are taken, for a bundle that is left out, or the only one that is not, changes what a cluster decides.
    What the target has beside it stays. The tag comes last: what it names can be verified from the first moment on. A
    reference without a tag, and only by digest, is for whoever tags it himself.

    Raises:
        NotFound: it is not there, or not whole.
        TooManyReferrers: no registry in its right mind has so many.
        SignaturesUnreadable: both have so many signatures that together nobody would read them.
    """
    way = _Copy(source, taken, target, put)
    manifest = source.manifest(taken.at_digest(digest))
    if taken.repository != put.repository:
        way.blobs(manifest)
        target.put_manifest(put.at_digest(digest), manifest)
        for kind in _BESIDE:
            way.beside(f"sha256-{digest.hex}.{kind}")
        for referrer in way.referrers(digest):
            way.blobs(referrer)
            target.put_referrer(put, referrer)
    if put.tag is not None:
        target.put_manifest(put.at_tag(put.tag), manifest)


def _found(registry: Registry, at: Reference) -> Manifest | None:
    try:
        return registry.manifest(at)
    except (NotFound, NoLayers):
        return None


def _merged(ours: Manifest | None, theirs: Manifest, at: Reference) -> Manifest | None:
    """Return what the target has to have at a tag, or None where it has it."""
    if ours is None:
        return theirs
    missing = tuple(layer for layer in theirs.layers if layer not in ours.layers)
    if not missing:
        return None
    if all(layer in theirs.layers for layer in ours.layers):
        return theirs
    if (number := len(ours.layers) + len(missing)) > MAX_LAYERS:
        raise SignaturesUnreadable(
            at, (f"it and the source's have {number} signatures together, and Flux would read none of them")
        )
    return Manifest.build(ours.config, (*ours.layers, *missing), ours.annotations)
