"""Copying an artifact from one repository to another, with all that speaks for it, digest by digest."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.manifest import MAX_LAYERS, OCI_MANIFEST, Manifest, NoLayers
from ci_automation.artifact.reference import OciRepository, Reference
from ci_automation.errors import RegistryError, VerificationFailed
from ci_automation.registry.port import NotFound, Registry, TagMoved
from ci_automation.signing.legacy import SignaturesUnreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.artifact.index import Index
    from ci_automation.artifact.reference import Digest

_MAX_REFERRERS = 64
_BESIDE = ("sig", "att", "sbom")  # what cosign's tags end with (`pkg/oci/remote/remote.go`)
_ATTEMPTS = 3
_MAX_BYTES = 256 << 20  # of the parts of one manifest, but for images: each part has 100 MiB at most


class TooManyReferrers(RegistryError):
    """More refers to an artifact than any publication writes."""

    hint = (
        "An attacker may be filling the registry. Delete the referrers that do not belong there, or copy the artifact "
        "by hand."
    )

    def __init__(self, reference: Reference, number: int) -> None:
        super().__init__(f"{number} manifests refer to {reference}; a run copies at most {_MAX_REFERRERS}")


class TooLargeToCopy(RegistryError):
    """What is attached to an artifact is larger than an artifact can be."""

    hint = "An attacker may be filling the registry. Delete what does not belong there, or copy the artifact by hand."

    def __init__(self, reference: Reference, size: int) -> None:
        limit = f"a run copies at most {_MAX_BYTES >> 20} MiB"
        super().__init__(f"{reference} has parts of {size >> 20} MiB together; {limit}")


class RefersElsewhere(VerificationFailed):
    """What is to be copied says that it is attached to something else."""

    hint = (
        "Nothing was copied. Find out who published it: a bundle that is attached so hides a signature from clusters."
    )

    def __init__(self, reference: Reference, subject: Digest) -> None:
        super().__init__(f"{reference} says that it is attached to {subject}")


class Copying(Struct, frozen=True):
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
        """Have the blobs of a manifest of the source in the target's repository.

        Raises:
            TooLargeToCopy: they are larger than any publication's.
        """
        if (size := sum(each.size for each in manifest.parts)) > _MAX_BYTES:
            raise TooLargeToCopy(self.taken.at_digest(manifest.digest), size)
        for descriptor in {each.digest: each for each in (*manifest.layers, manifest.config)}.values():
            if not (self.mounts and self.target.mount_blob(self.put, descriptor, self.taken)):
                self.target.put_blob(self.put, self.source.blob(self.taken, descriptor))

    def beside(self, digest: Digest, kind: str) -> None:
        """Copy what is at one of cosign's tags of a digest; what the target has there already stays in it."""
        tag = f"sha256-{digest.hex}.{kind}"
        try:
            theirs = self.source.manifest(self.taken.at_tag(tag))
        except (NotFound, NoLayers):
            return
        if theirs.subject is not None and theirs.subject.digest != digest:
            return  # see `referrers`
        at = self.put.at_tag(tag)
        for attempt in range(1, _ATTEMPTS + 1):
            wanted = _merged(_found(self.target, at), theirs, at)
            if wanted is None:
                return
            if attempt == 1:
                self.blobs(theirs)
            try:
                self.target.put_manifest(at, wanted)
            except TagMoved:
                if attempt == _ATTEMPTS:
                    raise

    def all_beside(self, digest: Digest) -> None:
        """Copy what speaks for a digest: what is at cosign's tags, and its referrers."""
        for kind in _BESIDE:
            self.beside(digest, kind)
        for referrer in self.referrers(digest):
            self.referrer(referrer)

    def referrer(self, manifest: Manifest) -> None:
        """Copy a referrer."""
        self.blobs(manifest)
        self.target.put_referrer(self.put, manifest)

    def referrers(self, digest: Digest) -> Iterator[Manifest]:
        """Yield the image manifests among the referrers, in an order that is always the same.

        What is listed, and not there or empty, cannot be read at the source either. What is about another digest is
        left out: a writer of the source could else attach what hides a signature to anything in the target.

        Raises:
            TooManyReferrers: no registry in its right mind has so many.
        """
        listed = [each for each in self.source.referrers(self.taken, digest) if each.media_type == OCI_MANIFEST]
        if len(listed) > _MAX_REFERRERS:
            raise TooManyReferrers(self.taken.at_digest(digest), len(listed))
        for each in sorted(listed, key=lambda each: each.digest):
            with suppress(NotFound, NoLayers):
                found = self.source.manifest(self.taken.at_digest(each.digest))
                if found.subject is not None and found.subject.digest == digest:
                    yield found


def copy(source: Registry, taken: Reference, target: Registry, put: Reference, digest: Digest) -> None:
    """Let `put` name in `target` what is `digest` in the repository of `taken`, with its signatures and referrers.

    All referrers are taken, for a bundle that is left out, or the only one that is not, changes what a cluster decides.
    What the target has beside it stays. The tag comes last: what it names can be verified from the first moment on. A
    reference without a tag, and only by digest, is for a caller that tags it himself.

    Raises:
        NotFound: it is not there, or not whole.
        RefersElsewhere: it says that it is attached to something else.
        TooManyReferrers: no registry in its right mind has so many.
        SignaturesUnreadable: both have more signatures together than readers take.
    """
    way = Copying(source, taken, target, put)
    manifest = source.manifest(taken.at_digest(digest))
    if taken.repository != put.repository:
        require_attached_to_nothing(manifest, taken)
        way.blobs(manifest)
        target.put_manifest(put.at_digest(digest), manifest)
        way.all_beside(digest)
    if put.tag is not None:
        target.put_manifest(put.at_tag(put.tag), manifest)


def require_attached_to_nothing(content: Manifest | Index, taken: Reference) -> None:
    """Raise `RefersElsewhere` for a subject: a registry would list what is copied beside something else."""
    if content.subject is not None:
        raise RefersElsewhere(taken.at_digest(content.digest), content.subject.digest)


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
    if theirs.config == ours.config and theirs.layers[: len(ours.layers)] == ours.layers:
        return theirs  # the order counts: readers take the first layer with a digest
    if (number := len(ours.layers) + len(missing)) > MAX_LAYERS:
        raise SignaturesUnreadable(
            at, (f"it and the source's have {number} signatures together, and Flux would read none of them")
        )
    return Manifest.build(ours.config, (*ours.layers, *missing), ours.annotations)
