"""The controllers' images: whether a mirror has them before clusters are pointed there, and the digests to pin."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ci_automation.errors import PolicyRefused, RegistryError, VerificationFailed
from ci_automation.flux.options import Options
from ci_automation.flux.pins import image_names, pin
from ci_automation.impact.hazard import Certainty, Hazard, in_shell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_automation.artifact.digest import Digest
    from ci_automation.flows.ports import Images, Ports

GATE = "images"
_THREADS = 4


class ImageMissing(VerificationFailed):
    """An image is not in its registry, and so can be neither pinned nor pulled."""

    hint = "Copy the images into the mirror first, or give a version or a --registry that has them."

    def __init__(self, images: Sequence[str]) -> None:
        super().__init__(f"{_listed(images)} {'is' if len(images) == 1 else 'are'} not there")


class NobodyToAsk(PolicyRefused):
    """Images are to be pinned, and there is no way to look up their digests."""

    hint = "This is a mistake in the program. Please report it."

    def __init__(self) -> None:
        super().__init__("the digests of the images cannot be looked up here")


def pinned_components(text: str, ports: Ports) -> str:
    """Return a components file, as Flux renders it, with the digest behind each image that its registry has now.

    Raises:
        ImageMissing: an image is not there.
        RegistryError: nobody can tell.
    """
    if ports.images is None:
        raise NobodyToAsk
    names = image_names(text)
    ports.say(f"looking up the digests of {len(names)} images")
    found = _looked_up(names, ports.images)
    if failure := next((it for it in found.values() if isinstance(it, RegistryError)), None):
        raise failure
    if missing := [name for name, digest in found.items() if digest is None]:
        raise ImageMissing(missing)
    return pin(text, {name: digest for name, digest in found.items() if digest and not isinstance(digest, Exception)})


def missing_images(components: str, options: Options, ports: Ports) -> tuple[Hazard, ...]:
    """Return which images of a components file its mirror lacks, so that clusters would meet ImagePullBackOff.

    Flux's own registry is not asked: upstream publishes images before their release. Each image is asked for by its
    digest where it is pinned, otherwise by its tag; that the mirror's is upstream's is not looked at.
    """
    upstream = Options().registry
    if ports.images is None or options.registry == upstream:
        return ()
    names = image_names(components)
    ports.say(f"looking for {len(names)} images in {options.registry}")
    found = _looked_up(names, ports.images)
    unknown: dict[str, list[str]] = {}
    for name, answer in found.items():
        if isinstance(answer, RegistryError):
            unknown.setdefault(str(answer), []).append(name)
    return (
        *(_missing(name, options.registry, upstream) for name, answer in found.items() if answer is None),
        *(_unknown(images, reason) for reason, images in unknown.items()),
    )


def _looked_up(names: Sequence[str], images: Images) -> dict[str, Digest | RegistryError | None]:
    """Return for each image its digest, None where it is not there, or why nobody can tell."""

    def ask(name: str) -> Digest | RegistryError | None:
        try:
            return images.digest(name)
        except RegistryError as error:
            return error

    with ThreadPoolExecutor(_THREADS) as threads:
        return dict(zip(names, threads.map(ask, names), strict=True))


def _missing(image: str, registry: str, upstream: str) -> Hazard:
    name, _, digest = image.partition("@")
    original = f"{upstream}{name.removeprefix(registry)}"
    source = f"{original.rpartition(':')[0]}@{digest}" if digest else original
    return Hazard(
        GATE,
        Certainty.CERTAIN,
        image,
        f"{image} is not there: clusters would meet ImagePullBackOff",
        remedies=(in_shell("crane", "copy", source, name),),
    )


def _unknown(images: Sequence[str], reason: str) -> Hazard:
    subject = f"nobody can tell whether {_listed(images)} {'is' if len(images) == 1 else 'are'} there"
    return Hazard(GATE, Certainty.UNCHECKED, ", ".join(images), f"{subject}: {reason}")


def _listed(names: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
