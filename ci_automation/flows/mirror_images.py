"""Copies of the controllers' images, by digest and with their signatures, for registries without internet access.

An image layout holds images of several repositories: its index has the whole name of each, as oras writes them there.
An image has several platforms, and its layers may be larger than memory.
"""

from __future__ import annotations

import tempfile
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.index import Index
from ci_automation.artifact.reference import LayoutDirectory, OciRepository, Reference
from ci_automation.errors import Conflict, RegistryError
from ci_automation.flows.publication.copy import Copying, require_attached_to_nothing
from ci_automation.flows.rendering import fetch
from ci_automation.flux.release import newest_of_minors
from ci_automation.flux.text import SEPARATOR, image_names
from ci_automation.registry.images import parse_image
from ci_automation.registry.port import NotFound
from ci_automation.signing.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ci_automation.artifact.manifest import Descriptor, Manifest
    from ci_automation.artifact.reference import Digest
    from ci_automation.flows.ports import Ports
    from ci_automation.flux.version import Version

_AT_ONCE = 4  # blobs
_SMALL = 1 << 20  # bytes, which fit into memory
_MAX_IMAGES, _DEPTH = 64, 2  # manifests of an image, indexes among them, which may list others
_MAX_IMAGE_BYTES = 8 << 30
_OF_COSIGN = "sha256-"  # what tags of signatures begin with


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


class AmbiguousImage(Conflict):
    """A directory has images of two repositories that would get the same name."""

    hint = "Find out who put them there, and delete the one that is not Flux's from the directory's index.json."

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other} have the same name without their registries")


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


class MirroredImage(Struct, frozen=True):
    """One image that is in the target now, whether its tag is new there, its signer if verified, and what it took."""

    reference: Reference
    digest: Digest
    new: bool
    vouched: str | None
    sent: Sent


def mirror_images(way: Copying, ports: Ports, versions: Iterable[Version] = ()) -> tuple[MirroredImage, ...]:
    """Copy the images of the controllers of these releases, and return them.

    Without `versions`, a directory gives all images that it has; a registry those of the newest release of each of the
    last three minor series. The digest is the one of upstream's index, so that signatures hold in the target. Where
    `ports.trusted` says who signs, nothing unsigned is copied.

    Raises:
        NotFound: an image is not there, or not whole.
        VerificationFailed: an image, or a release, is not signed by those who are trusted.
        OtherImage: the target has another image under the tag.
        RefersElsewhere: an image says that it is attached to something else.
        AmbiguousImage: two images of a directory would get one name.
    """
    known: dict[Digest, Reference] = {}
    return tuple(_mirrored(way, taken, ports, known) for taken in _wanted(way, ports, sorted(set(versions))))


def _mirrored(way: Copying, taken: Reference, ports: Ports, known: dict[Digest, Reference]) -> MirroredImage:
    put, sent = _target(way.put, taken), Sent()
    name = _short(f"{taken}")
    ports.say(f"copying {name}")
    if (digest := way.source.resolve(taken)) is None:
        raise NotFound(str(taken))
    vouched = str(verify(way.source, taken, digest, ports.trusted).by) if ports.trusted else None
    if (found := way.target.resolve(put)) not in {None, digest}:
        raise OtherImage(put, found, digest)
    copying = ImageCopy(
        way.source, taken, way.target, put, known, sent, lambda it: ports.say(f"copying {name}: {it}"), set()
    )
    content = copying.image(digest)
    if found is None:
        way.target.put_manifest(put, content)
    return MirroredImage(put, digest, found is None, vouched, sent)


def _wanted(way: Copying, ports: Ports, versions: list[Version]) -> list[Reference]:
    """Return where the wanted images are, in a fixed order."""
    if isinstance(home := way.taken.repository, OciRepository):
        named = _named(ports, versions or newest_of_minors(ports.releases.list()))
        return [
            Reference(OciRepository(home.host, f"{home.path}/{name}"), tag)
            for name, _, tag in (image.partition(":") for image in named)
        ]
    there = [tag for tag in way.source.tags(way.taken) if "/" in tag and not _short(tag).startswith(_OF_COSIGN)]
    if not there:
        raise NotFound(f"an image with its whole name in {home}")
    known: dict[str, str] = {}
    if versions or isinstance(way.put.repository, OciRepository):  # which have no whole names
        for tag in there:
            if (other := known.setdefault(_short(tag), tag)) != tag:
                raise AmbiguousImage(other, tag)
    if not versions:
        return [way.taken.at_tag(tag) for tag in there]
    return [way.taken.at_tag(known.get(image, image)) for image in _named(ports, versions)]


def _named(ports: Ports, versions: Iterable[Version]) -> list[str]:
    """Return the names and tags of the images of all controllers of these releases, without their registry."""
    found = set[str]()
    for version in versions:
        bundle = fetch(version, ports).bundle
        text = SEPARATOR.join(bundle.component(name) for name in bundle.components)
        found.update(_short(image) for image in image_names(text))
    return sorted(found)


def _short(image: str) -> str:
    return image.rpartition("/")[2]


def _target(put: Reference, taken: Reference) -> Reference:
    """Return where an image goes to: its own repository in a registry, or its whole name in a directory."""
    home = taken.repository
    name = f"{home.host}/{home.path}:{taken.tag}" if isinstance(home, OciRepository) else str(taken.tag)
    if not isinstance(place := put.repository, OciRepository):
        return put.at_tag(name)
    image = parse_image(name)
    assert isinstance(image.repository, OciRepository)  # noqa: S101  # for the type checker: an image's is one
    return Reference(OciRepository(place.host, f"{place.path}/{_short(image.repository.path)}"), image.tag)
