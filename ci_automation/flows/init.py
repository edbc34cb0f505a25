"""The first artifact of a channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.artifact.tree import COMPONENTS_PATH, Tree
from ci_automation.errors import Conflict
from ci_automation.flows.files import beside_components
from ci_automation.flows.publish import publish, require_key
from ci_automation.flows.render import UnprovenRendering
from ci_automation.flux.artifact import Recipe, compose
from ci_automation.flux.known import is_known
from ci_automation.flux.options import Options
from ci_automation.signing import legacy

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
        UnprovenRendering: the release is not known, and that is not accepted.
    """
    require_key(ports, intent)
    options = Options().with_flags(intent.flags)
    ports.say(f"rendering {version}")
    release = ports.releases.fetch(version)
    path = intent.components_file or COMPONENTS_PATH
    overlay = beside_components(intent.overlay or Tree(()), path)
    composed = compose(Recipe(version, release.commit, release.bundle, options, overlay, path))
    if not is_known(release.bundle, version) and not intent.unsafe_unproven_rendering:
        raise UnprovenRendering(version)
    present = ports.registry.resolve(channel)
    if present is None:
        publish(channel, None, version, composed, ports, intent)
    elif present != composed.digest:
        raise ChannelExists(channel, present)
    elif ports.trusted_key is not None:
        legacy.verify(ports.registry, channel, present, ports.trusted_key)
    return Initialised(version, composed.digest, options, path, published=present is None)
