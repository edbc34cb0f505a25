"""Copies of the controllers' images, by digest and with their signatures, for registries without internet access.

An image layout holds images of several repositories: its index has the whole name of each, as oras writes them there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.reference import OciRepository, Reference
from ci_automation.errors import Conflict
from ci_automation.flows.mirror import newest_of_minors
from ci_automation.flows.publication.image_copy import ImageCopy, Sent, copy_image
from ci_automation.flows.rendering import fetch
from ci_automation.flux.components import image_names
from ci_automation.flux.text import SEPARATOR
from ci_automation.registry.images import parse_image
from ci_automation.registry.port import NotFound, Registry
from ci_automation.signing.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_automation.artifact.digest import Digest
    from ci_automation.flows.ports import Ports
    from ci_automation.flux.version import Version

_OF_COSIGN = "sha256-"  # what tags of signatures begin with


class AmbiguousImage(Conflict):
    """A directory has images of two repositories that would get the same name."""

    hint = "Find out who put them there, and delete the one that is not Flux's from the directory's index.json."

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other} have the same name without their registries")


class ImageMirror(Struct, frozen=True):
    """Where images are, and where they go to: repositories with one image each below an address, or a directory."""

    source: Registry
    taken: Reference
    target: Registry
    put: Reference


class MirroredImage(Struct, frozen=True):
    """One image that is in the target now, whether its tag is new there, its signer if verified, and what it took."""

    reference: Reference
    digest: Digest
    new: bool
    vouched: str | None
    sent: Sent


def mirror_images(way: ImageMirror, ports: Ports, versions: Iterable[Version] = ()) -> tuple[MirroredImage, ...]:
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


def _mirrored(way: ImageMirror, taken: Reference, ports: Ports, known: dict[Digest, Reference]) -> MirroredImage:
    put, sent = _target(way.put, taken), Sent()
    name = _short(f"{taken}")
    ports.say(f"copying {name}")
    if (digest := way.source.resolve(taken)) is None:
        raise NotFound(str(taken))
    vouched = str(verify(way.source, taken, digest, ports.trusted).by) if ports.trusted else None
    new = copy_image(
        ImageCopy(
            way.source, taken, way.target, put, known, sent, lambda it: ports.say(f"copying {name}: {it}"), set()
        ),
        digest,
    )
    return MirroredImage(put, digest, new, vouched, sent)


def _wanted(way: ImageMirror, ports: Ports, versions: list[Version]) -> list[Reference]:
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
