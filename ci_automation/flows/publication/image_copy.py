"""Copying an image of several platforms, whose layers may be larger than memory, with all that speaks for it."""

from __future__ import annotations

import tempfile
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.index import Index
from ci_automation.artifact.reference import LayoutDirectory, Reference
from ci_automation.errors import Conflict, RegistryError
from ci_automation.flows.publication.copy import Copying, require_attached_to_nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.manifest import Descriptor, Manifest

_AT_ONCE = 4  # blobs
_SMALL = 1 << 20  # bytes, which fit into memory
_MAX_IMAGES, _DEPTH = 64, 2  # manifests of an image, indexes among them, which may list others
_MAX_IMAGE_BYTES = 8 << 30


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


class ImageCopy(Copying, frozen=True):
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
        require_attached_to_nothing(content, self.taken)
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


def copy_image(way: ImageCopy, digest: Digest) -> bool:
    """Let the tag of `way.put` name an image in the target, with its signatures and referrers; `copy` says the rest.

    Return whether the tag is new. What is there already is not sent again: a copy that was cut off is repeated.

    Raises:
        NotFound: it is not there, or not whole.
        OtherImage: the tag names another image.
        RefersElsewhere: a part of it says that it is attached to something else.
        ImageTooLarge, TooManyReferrers: no image has so many platforms, bytes or referrers.
        SignaturesUnreadable: both have more signatures together than readers take.
    """
    if (found := way.target.resolve(way.put)) not in {None, digest}:
        raise OtherImage(way.put, found, digest)
    content = way.image(digest)
    if found is None:
        way.target.put_manifest(way.put, content)
    return found is None
