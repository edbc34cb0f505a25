"""Check whether a mirror has the controllers' images before clusters pull them from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.errors import RegistryError
from ci_automation.flux.options import Options
from ci_automation.flux.text import image_names
from ci_automation.impact.change import Certainty, Hazard, all_of, in_shell
from ci_automation.impact.check import Applied, Check, Images, Known, Seen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_automation.artifact.reference import Digest

GATE = "images"
_UPSTREAM = Options().registry
_THREADS = 4


def look_up(names: Sequence[str], images: Images) -> dict[str, Digest | RegistryError | None]:
    """Return for each image its digest, None where it is not there, or why the registry cannot tell."""

    def ask(name: str) -> Digest | RegistryError | None:
        try:
            return images.digest(name)
        except RegistryError as error:
            return error

    from concurrent.futures import ThreadPoolExecutor  # most runs ask for no image

    with ThreadPoolExecutor(_THREADS) as threads:
        return dict(zip(names, threads.map(ask, names), strict=True))


def _look(_before: Applied | None, after: Applied, known: Known) -> Seen:
    """Return which images of a components file its mirror lacks, so that clusters would meet ImagePullBackOff.

    Flux's own registry is not asked: upstream publishes images before their release. Each image is asked for by its
    digest if it is pinned, otherwise by its tag; the check does not compare the mirror's image with upstream's.
    """
    if known.images is None or after.registry == _UPSTREAM:
        return Seen()
    names = image_names(after.components)
    known.say(f"looking for {len(names)} images in {after.registry}")
    found = look_up(names, known.images)
    unknown: dict[str, list[str]] = {}
    for name, answer in found.items():
        if isinstance(answer, RegistryError):
            unknown.setdefault(str(answer), []).append(name)
    missing = (_missing(name, after) for name, answer in found.items() if answer is None)
    return Seen((*missing, *(_unknown(images, reason, after.registry) for reason, images in unknown.items())))


def _missing(image: str, after: Applied) -> Hazard:
    sentence = f"{image} is not there: clusters would meet ImagePullBackOff"
    return Hazard(GATE, Certainty.CERTAIN, image, sentence, remedies=(_copying(image, after),))


def _copying(image: str, after: Applied) -> str:
    """Return the command that copies all images of the version, or this one where the version or the host is unsaid."""
    is_host = {".", ":"} & {*after.registry.partition("/")[0]}  # else the name is Docker Hub's
    if after.version and is_host:
        return in_shell("flux-manifests", "mirror", "--images", f"oci://{after.registry}", str(after.version))
    name, _, digest = image.partition("@")
    original = f"{_UPSTREAM}{name.removeprefix(after.registry)}"
    return in_shell("crane", "copy", f"{original.rpartition(':')[0]}@{digest}" if digest else original, name)


def _unknown(images: Sequence[str], reason: str, registry: str) -> Hazard:
    what = f"{len(images)} images" if len(images) > 1 else "an image"
    sentence = f"{what} could not be looked up ({all_of(images)}): {reason}"
    remedy = f"check the name {registry}, and that this machine can reach and read it"
    return Hazard(GATE, Certainty.UNCHECKED, ", ".join(images), sentence, remedies=(remedy,))


def _clear(after: Applied, _known: Known) -> tuple[str, str]:
    reason = "they are Flux's own" if after.registry == _UPSTREAM else "every image is there"
    return reason, f"the images in {after.registry}"


CHECK = Check(GATE, 4, _look, _clear)
