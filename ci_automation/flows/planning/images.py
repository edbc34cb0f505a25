"""The digests of the controllers' images, to pin them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.errors import PolicyRefused, RegistryError, VerificationFailed
from ci_automation.flux.components import image_names, pin
from ci_automation.impact.checks.images import look_up
from ci_automation.impact.hazard import all_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_automation.flows.ports import Ports


class ImageMissing(VerificationFailed):
    """An image that is not in its registry, so that it can be neither pinned nor pulled."""

    hint = "Copy the images into the mirror first, or give a version or a --registry that has the images."

    def __init__(self, images: Sequence[str]) -> None:
        super().__init__(f"{all_of(images)} {'is' if len(images) == 1 else 'are'} not there")


class NobodyToAsk(PolicyRefused):
    """Images to pin without a way to look up their digests."""

    hint = "This is a bug in this program. Please report it."

    def __init__(self) -> None:
        super().__init__("this program cannot look up the digests of the images here")


def pinned_components(text: str, ports: Ports) -> str:
    """Return a components file, as Flux renders it, with the digest behind each image that its registry has now.

    Raises:
        ImageMissing: an image is not there.
        RegistryError: the registry does not answer.
    """
    if ports.images is None:
        raise NobodyToAsk
    names = image_names(text)
    ports.say(f"looking up the digests of {len(names)} images")
    found = look_up(names, ports.images)
    if failure := next((it for it in found.values() if isinstance(it, RegistryError)), None):
        raise failure
    if missing := [name for name, digest in found.items() if digest is None]:
        raise ImageMissing(missing)
    return pin(text, {name: digest for name, digest in found.items() if digest and not isinstance(digest, Exception)})
