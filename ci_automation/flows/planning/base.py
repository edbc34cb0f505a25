"""Base of a step: the files of an artifact, with its options recovered and proven."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.errors import PolicyRefused, UsageError
from ci_automation.flows.observe import Trust
from ci_automation.flows.planning.contents import read_contents
from ci_automation.flows.rendering import fetch, rendering
from ci_automation.flux.artifact import PUSHED, stated_flags, stated_options_digest
from ci_automation.flux.components import unpin
from ci_automation.flux.recover import Recovered, prove_options
from ci_automation.flux.render import render
from ci_automation.flux.text import TemplateMismatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.observe import Observed
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.options import Options
    from ci_automation.flux.version import Version
    from ci_automation.policy.hold import Hold


class NotRendered(UsageError):
    """A channel with a team's own manifests, where something is to be rendered."""

    hint = "`push` publishes new content of it, and `promote` moves it to other channels."

    def __init__(self, channel: Reference) -> None:
        super().__init__(f"{channel} has manifests that `push` published, and no Flux to render")


class OptionsUnclear(PolicyRefused):
    """Options that the components file does not show completely."""

    hint = "Give the flags that the artifact was made with, for example --cluster-domain."

    def __init__(self) -> None:
        super().__init__("the components file does not show all options that the artifact was made with")


class EditedNotAdopted(PolicyRefused):
    """An artifact to adopt whose components file is not what its release and options give."""

    hint = (
        "To adopt it as it is, give --adopt and --accept-edits: the next update then drops the edits. To keep them, "
        "move them into a patch of the kustomization first."
    )

    def __init__(self, channel: Reference, version: Version) -> None:
        super().__init__(f"{channel} was not adopted: its components differ from what Flux {version} renders")


class Base(Struct, frozen=True):
    """Base of a step: an artifact whose options are known and proven."""

    digest: Digest
    version: Version
    options: Options
    overlay: Tree
    path: str
    components: str
    unedited: str | None = None  # what its release gives, where the components were edited by hand
    holds: tuple[Hold, ...] = ()  # on the digest, as far as they were read

    @property
    def edited(self) -> bool:
        """Return whether the components were edited by hand, which the user accepted."""
        return self.unedited is not None

    @property
    def pins(self) -> Mapping[str, Digest]:
        """Return the digests of the images in the components file, by image; none if they are not pinned."""
        return unpin(self.components)[1]

    @property
    def pinned(self) -> bool:
        """Return whether the images are pinned to digests, which later steps keep unless the user changes it."""
        return bool(self.pins)


def read_base(observed: Observed, ports: Ports, intent: Intent) -> Base:
    """Return the base of a step, its options recovered and proven by rendering its own release again.

    Its holds are for `in_place` to tell.

    Raises:
        EditedByHand: the components file is not what its release and options give, and the user does not accept that.
        MadeByAnotherTool: neither, and another tool wrote it.
        EditedNotAdopted: the same of an artifact to adopt, whose difference was shown.
        NotRendered: `push` published it.
        OptionsUnclear: our annotation states other options than can be recovered.
        InvalidManifest: our annotation states another version than the file.
        ComponentMissing, TemplateMismatch: its own release cannot be rendered.
    """
    if observed.version == PUSHED:
        raise NotRendered(observed.channel)
    found = read_contents(observed, ports, intent)
    plain, recovered = found.plain, found.recovered
    options = _stated_options(observed, recovered.options, intent)
    ports.say(f"rendering the present {recovered.version} again to prove its options")
    rendered = _rendered_again(plain, recovered, ports)
    if not intent.drops_edits(observed.digest):
        if observed.trust is Trust.ADOPTED and plain != rendered:
            raise EditedNotAdopted(observed.channel, found.version)
        prove_options(plain, recovered, rendered)
    unedited = rendered if rendered != plain else None
    return Base(observed.digest, found.version, options, found.overlay, found.path, found.components, unedited)


def _rendered_again(text: str, recovered: Recovered, ports: Ports) -> str:
    """Render the release with the recovered options: with our renderer, or with the release's own flux CLI.

    Where our rendering is the present file, nothing else has to be asked: it is compared, whatever it is worth.
    """
    release = fetch(recovered.version, ports)
    with suppress(TemplateMismatch):
        if text == render(release.bundle, recovered.version, recovered.options):
            return text
    return rendering(release, recovered.options, ports).text


def _stated_options(observed: Observed, recovered: Options, intent: Intent) -> Options:
    """Return the options that the annotation states; flags must give the options that the text does not show."""
    stated = stated_options_digest(observed.manifest)
    known_by_now = recovered.digest_with(stated_flags(observed.manifest))
    if stated in {None, str(recovered.digest), str(known_by_now)} or intent.drops_edits(observed.digest):
        return recovered
    if stated == str((options := recovered.with_flags(intent.flags)).digest):
        return options
    raise OptionsUnclear
