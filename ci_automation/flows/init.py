"""The first artifact of a channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.artifact.tree import COMPONENTS_PATH, Tree
from ci_automation.errors import Conflict
from ci_automation.flows.files import beside_components
from ci_automation.flows.images import pinned_components, require_images
from ci_automation.flows.observe import observe
from ci_automation.flows.publication.publish import Publication, publish, require_signer
from ci_automation.flows.publication.settle import settle_record
from ci_automation.flows.rendering.proof import UnprovenRendering, rendering
from ci_automation.flows.rendering.upstream import fetch
from ci_automation.flux.artifact import Recipe, compose
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.version import Version


class ChannelExists(Conflict):
    """`init` is asked to make a channel that is there already, with other content."""

    hint = "Use `update` to change it, or choose another tag."

    def __init__(self, channel: Reference, found: Digest) -> None:
        super().__init__(f"{channel} exists already, at {found}")


@dataclass(frozen=True, slots=True)
class Initialised:
    """The artifact that a channel begins with, and whether it was published now."""

    version: Version
    digest: Digest
    options: Options
    path: str
    published: bool


def init(channel: Reference, version: Version, ports: Ports, intent: Intent) -> Initialised:
    """Publish the first artifact of `channel`; if it is there already, with the same digest, nothing is done.

    Raises:
        ChannelExists: the channel has something else.
        UnprovenRendering: nothing proves the rendering, and that is not accepted.
        ImageMissing: an image is not in its registry.
    """
    require_signer(ports, intent)
    options = Options().with_flags(intent.flags)
    ports.say(f"rendering {version}")
    release = fetch(version, ports)
    path = intent.components_file or COMPONENTS_PATH
    overlay = beside_components(intent.overlay or Tree(()), path)
    made = rendering(release, options, ports)
    if made.proof is Proof.NONE and not intent.unsafe_unproven_rendering:
        raise UnprovenRendering(version, made.detail)
    components = pinned_components(made.text, ports) if intent.pin_images else made.text
    require_images(components, options, ports)
    recipe = Recipe(version, release.commit, release.bundle.digest, options, components, overlay, path)
    composed = compose(recipe)
    present = ports.registry.resolve(channel)
    if present is None:
        publish(Publication(channel, None, version, composed, release, made.proof), ports, intent)
    elif present != composed.digest:
        raise ChannelExists(channel, present)
    else:
        settle_record(observe(channel, ports), ports, intent)
    return Initialised(version, composed.digest, options, path, published=present is None)
