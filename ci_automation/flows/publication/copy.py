"""Copying an artifact or an image from one repository to another, with all that speaks for it, digest by digest."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.index import Index
from ci_automation.artifact.manifest import MAX_LAYERS, OCI_MANIFEST, Manifest, NoLayers
from ci_automation.artifact.reference import LayoutDirectory, OciRepository
from ci_automation.errors import Conflict, RegistryError
from ci_automation.registry.port import NotFound, TagMoved
from ci_automation.signing.legacy import SignaturesUnreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.manifest import Descriptor
    from ci_automation.artifact.reference import Reference
    from ci_automation.registry.port import Registry

_MAX_REFERRERS = 64
_BESIDE = ("sig", "att", "sbom")  # what cosign's tags end with (`pkg/oci/remote/remote.go`)
_ATTEMPTS = 3
_AT_ONCE = 4  # blobs
_MAX_BYTES = 256 << 20  # of the parts of one manifest, but for images: each part has 100 MiB at most
_SMALL = 1 << 20  # bytes, which fit into memory
_MAX_IMAGES, _DEPTH = 64, 2  # manifests of an image, indexes among them, which may list others
_MAX_IMAGE_BYTES = 8 << 30


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


class ImageTooLarge(RegistryError):
    """An image has more platforms or bytes than any controller's, or indexes within indexes."""

    hint = "Check that the address is that of an image. If it is, copy it by hand."

    def __init__(self, reference: Reference) -> None:
        limits = f"{_MAX_IMAGES} platforms, {_DEPTH} levels of indexes or {_MAX_IMAGE_BYTES >> 30} GiB"
        super().__init__(f"{reference} has more than {limits}")


class OtherImage(Conflict):
    """A registry has another image under the tag of an image."""

    hint = "Find out who pushed it, and whether clusters run it. Delete that tag, then run the same command again."

    def __init__(self, place: Reference, found: Digest, wanted: Digest) -> None:
        super().__init__(f"{place} is {found} already, and not {wanted}")


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


class Sent(Struct):
    """What a copy of images had to do: bytes that were sent, and blobs that were mounted or there already."""

    bytes: int = 0
    mounted: int = 0
    present: int = 0

    def add(self, other: Sent) -> None:
        """Count what another part of the copy took."""
        self.bytes += other.bytes
        self.mounted += other.mounted
        self.present += other.present


class ImageCopy(_Copy, frozen=True):
    """A copy of images; `known` says in which of the target's repositories a blob is."""

    known: dict[Digest, Reference]
    sent: Sent
    say: Callable[[str], None]
    seen: set[Digest]  # manifests and indexes of the image

    def image(self, digest: Digest, depth: int = 0) -> Manifest | Index:
        """Have an image in the target under its digest, after all that it needs, and with all that speaks for it.

        A manifest that a registry has is whole, because it came last. A directory may be damaged, and is looked at.
        """
        content, at = self.source.stored(self.taken.at_digest(digest)), self.put.at_digest(digest)
        self.seen.add(digest)
        if isinstance(content, Index):
            found = self.seen.union(each.digest for each in content.manifests)
            if depth == _DEPTH or max(len(content.manifests), len(found)) > _MAX_IMAGES:
                raise ImageTooLarge(self.taken.at_digest(digest))
            for each in content.manifests:
                if each.digest not in self.seen:
                    self.image(each.digest, depth + 1)
        there = self.target.resolve(at) is not None and not isinstance(self.put.repository, LayoutDirectory)
        if not isinstance(content, Index):
            if not there:
                self.blobs(content)
            self.known.update((each.digest, self.put) for each in content.parts if each.digest not in self.known)
        if not there:
            self.target.put_manifest(at, content)
        self.all_beside(digest)
        return content

    def referrer(self, manifest: Manifest) -> None:
        """Copy a referrer, unless the target lists it."""
        subject, _ = manifest.referral
        if all(each.digest != manifest.digest for each in self.target.referrers(self.put, subject)):
            super().referrer(manifest)

    def blobs(self, manifest: Manifest) -> None:
        """Have the blobs of a manifest in the target's repository, a few at a time; none of them is held in memory."""
        side = self.source if isinstance(self.put.repository, LayoutDirectory) else self.target
        if self.sent.bytes + sum(each.size for each in manifest.parts) > _MAX_IMAGE_BYTES:
            raise ImageTooLarge(self.taken.at_digest(manifest.digest))
        wanted = iter({each.digest: each for each in manifest.parts}.values())
        while some := tuple(islice(wanted, _AT_ONCE)):
            for took in side.at_once(*(partial(self._blob, each) for each in some)):
                self.sent.add(took)

    def _blob(self, descriptor: Descriptor) -> Sent:
        """Have one blob there: mounted from a sibling, or as it is, or else sent after a check of each byte."""
        origin = self.known.get(descriptor.digest) or (self.taken if self.mounts else None)
        elsewhere = origin is not None and origin.repository != self.put.repository
        if elsewhere and self.target.mount_blob(self.put, descriptor, origin):  # type: ignore[arg-type]  # it is one
            return Sent(mounted=1)
        if self.target.has_blob(self.put, descriptor):
            return Sent(present=1)
        if descriptor.size <= _SMALL:
            self.target.put_blob(self.put, self.source.blob(self.taken, descriptor))
            return Sent(descriptor.size)
        self.say(f"a layer of {descriptor.size >> 20} MiB")
        with tempfile.TemporaryFile() as file:
            self.source.fetch_blob(self.taken, descriptor, file)
            self.target.send_blob(self.put, descriptor, file)
        return Sent(descriptor.size)


def copy(source: Registry, taken: Reference, target: Registry, put: Reference, digest: Digest) -> None:
    """Let `put` name in `target` what is `digest` in the repository of `taken`, with its signatures and referrers.

    All referrers are taken, for a bundle that is left out, or the only one that is not, changes what a cluster decides.
    What the target has beside it stays. The tag comes last: what it names can be verified from the first moment on. A
    reference without a tag, and only by digest, is for a caller that tags it himself.

    Raises:
        NotFound: it is not there, or not whole.
        TooManyReferrers: no registry in its right mind has so many.
        SignaturesUnreadable: both have more signatures together than readers take.
    """
    way = _Copy(source, taken, target, put)
    manifest = source.manifest(taken.at_digest(digest))
    if taken.repository != put.repository:
        way.blobs(manifest)
        target.put_manifest(put.at_digest(digest), manifest)
        way.all_beside(digest)
    if put.tag is not None:
        target.put_manifest(put.at_tag(put.tag), manifest)


def copy_image(way: ImageCopy, digest: Digest) -> bool:
    """Let the tag of `way.put` name an image in the target, with its signatures and referrers; `copy` says the rest.

    Return whether the tag is new. What is there already is not sent again: a copy that was cut off is repeated.

    Raises:
        NotFound: it is not there, or not whole.
        OtherImage: the tag names another image.
        ImageTooLarge, TooManyReferrers: no image has so many platforms, bytes or referrers.
        SignaturesUnreadable: both have more signatures together than readers take.
    """
    if (found := way.target.resolve(way.put)) not in {None, digest}:
        raise OtherImage(way.put, found, digest)
    content = way.image(digest)
    if found is None:
        way.target.put_manifest(way.put, content)
    return found is None


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
