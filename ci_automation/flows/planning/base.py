"""Files of an artifact, with the version and options that its components file states; proven, they are a base."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.archive import HiddenContent, read_archive
from ci_automation.artifact.manifest import FLUX_LAYER, Descriptor, InvalidManifest, Manifest
from ci_automation.artifact.reference import Digest
from ci_automation.errors import Error, PolicyRefused, UsageError
from ci_automation.flows.observe import Observed, Trust, look_at
from ci_automation.flows.rendering import fetch, rendering
from ci_automation.flux.artifact import (
    PUSHED,
    stated_flags,
    stated_options_digest,
    stated_overlay_digest,
    with_stated_flags,
)
from ci_automation.flux.options import Options
from ci_automation.flux.recover import EditedByHand, MadeByAnotherTool, Recovered, prove_options, recover
from ci_automation.flux.render import render
from ci_automation.flux.text import TemplateMismatch, unpin
from ci_automation.impact.overlay.bootstrapped import UnfitBootstrap, edits_as_patches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.reference import Reference
    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.version import Version
    from ci_automation.policy.decision import Hold

_MAX_PATCHES = 20_000  # characters


class Contents(Struct, frozen=True):
    """Files of an artifact, with the version and options that its components file states."""

    tree: Tree
    path: str
    components: str
    plain: str  # the components without digests behind the images
    recovered: Recovered
    pinned: bool

    @property
    def version(self) -> Version:
        """Return the version of the components."""
        return self.recovered.version

    @property
    def options(self) -> Options:
        """Return the options that the components show."""
        return self.recovered.options

    @property
    def overlay(self) -> Tree:
        """Return all files but the components."""
        return self.tree.without(self.path)


def read_tree(observed: Observed, ports: Ports) -> Tree:
    """Return the files of an artifact, from its first layer, as source-controller takes it.

    Raises:
        UnsafeArchive: the layer is hostile or broken.
    """
    return read_archive(observed.layer or ports.registry.blob(observed.channel, observed.manifest.layers[0]))


def read_shown(observed: Observed, ports: Ports) -> Tree:
    """Return the files of another tool's artifact, which we are to sign, if every reader finds the same files in it.

    A cluster takes the first layer, or with `layerSelector` the first one of a media type. A layer of another type
    than Flux's makes it a chart or an image, and a signature counts there too.

    Raises:
        HiddenContent: some readers could find other files.
        UnsafeArchive: the layer is hostile or broken.
    """
    layer = only_layer(observed.manifest)
    if layer.media_type != FLUX_LAYER:
        raise HiddenContent(f"its layer is of the type {layer.media_type[:100]!r}, and Flux's is {FLUX_LAYER}")
    return read_archive(ports.registry.blob(observed.channel, layer), exact=True)


def only_layer(manifest: Manifest) -> Descriptor:
    """Return the layer of an artifact that has just one.

    Raises:
        HiddenContent: it has several layers, and this program reads only one.
    """
    first, *others = manifest.layers
    if others:
        raise HiddenContent(f"it has {len(others) + 1} layers, and clusters can select any of them")
    return first


def present_version(observed: Observed, ports: Ports, intent: Intent) -> Version:
    """Return the version that a channel has, as its annotation states it, or else its components file."""
    return observed.version or read_contents(observed, ports, intent).version


def read_contents(observed: Observed, ports: Ports, intent: Intent) -> Contents:
    """Return what a channel has, its version and options as its components file tells them.

    What `push` made has no components file.

    Raises:
        InvalidManifest: the annotation states another version than the file, or the file is not text.
        UsageError: it has no components file, several, or one that says too little of itself.
    """
    tree = read_tree(observed, ports)
    if observed.version == PUSHED:
        return Contents(tree, "", "", "", Recovered(PUSHED, Options(), generated=False), pinned=False)
    path = tree.components_path(intent.components_file)
    try:
        text = tree[path].decode()
    except UnicodeDecodeError:
        raise InvalidManifest(f"{path} is not text") from None
    plain, pins = unpin(text)
    recovered = recover(plain, path)
    recovered = replace(recovered, options=with_stated_flags(recovered.options, observed.manifest))
    if observed.version not in {None, recovered.version}:
        raise InvalidManifest(f"its annotation states {observed.version}, its components file {recovered.version}")
    return Contents(tree, path, text, plain, recovered, bool(pins))


def content_differs(observed: Observed, ports: Ports, intent: Intent) -> bool:
    """Return whether a channel has other content than wanted; what an artifact of ours states is not read again."""
    same_overlay = intent.overlay is None or stated_overlay_digest(observed.manifest) == str(intent.overlay.digest())
    if same_overlay and not intent.flags and intent.pin_images is None:
        return False
    found = read_contents(observed, ports, intent)
    wanted = found.options.with_flags(intent.flags).digest, intent.pin_images in {None, found.pinned}
    overlay = found.overlay if intent.overlay is None else intent.overlay
    return wanted != (stated_options(observed, found), True) or overlay.digest() != found.overlay.digest()


def stated_options(observed: Observed, contents: Contents) -> Digest:
    """Return the digest of the options, as the annotation states it, or else as the components show them."""
    stated = stated_options_digest(observed.manifest)
    return Digest.parse(stated) if stated else contents.options.digest


class NotRendered(UsageError):
    """A channel with a team's own manifests, where something is to be rendered."""

    hint = "`push` publishes new content of it, and `promote` moves it to other channels."

    def __init__(self, channel: Reference) -> None:
        super().__init__(f"{channel} has manifests that `push` published, and no Flux to render")


class OptionsUnclear(PolicyRefused):
    """Options that the components file does not show completely."""

    hint = "Give the flags that the artifact was made with, for example --cluster-domain."
    message = "the components file does not show all options that the artifact was made with"


class EditedNotAdopted(PolicyRefused):
    """The components file to adopt is not what its release and options give."""

    hint = (
        "To adopt it as it is, give --adopt and --accept-edits: the next step then drops the edits. To keep them, "
        "move them into a patch of the kustomization first."
    )

    def __init__(self, channel: Reference, version: Version) -> None:
        super().__init__(f"{channel} was not adopted: its components differ from what Flux {version} renders")


class Base(Struct, frozen=True):
    """Base of a step: an artifact whose options are known and proven, with the components that clusters have."""

    digest: Digest
    version: Version
    options: Options
    overlay: Tree
    path: str
    components: str
    edited: bool = False  # the components were edited by hand; a step drops that, which the user accepted
    holds: tuple[Hold, ...] = ()  # on the digest, as far as they were read

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
        EditedNotAdopted: the same of an artifact to adopt, whose difference was shown.
        NotRendered: `push` published it.
        EditedByHand: the components file is not what its release and options give, and the user does not accept that.
        MadeByAnotherTool: neither, and another tool wrote it.
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
        try:
            prove_options(plain, recovered, rendered)
        except (EditedByHand, MadeByAnotherTool) as error:
            adopts = observed.trust is Trust.ADOPTED
            told = EditedNotAdopted(observed.channel, found.version) if adopts else error
            told.below = _patches(rendered, plain) if recovered.generated else ""
            raise told from None
    edited = rendered != plain
    return Base(observed.digest, found.version, options, found.overlay, found.path, found.components, edited)


def is_edited_by_hand(channel: Reference, ports: Ports, intent: Intent) -> bool:
    """Return whether the adoption of what a channel has would be refused because of edits by hand."""
    try:
        read_base(look_at(channel, ports), ports, intent)
    except Error as error:  # all but these the adoption tells
        return isinstance(error, EditedByHand | MadeByAnotherTool)
    return False


def _patches(rendered: str, edited: str) -> str:
    """Return the patches that keep the edits, for a terminal; nothing where they are no YAML, or too many to copy."""
    found = ""
    with suppress(UnfitBootstrap):
        found = edits_as_patches(rendered, edited)
    return f"This keeps the edits, in kustomization.yaml:\n{found}" if 0 < len(found) <= _MAX_PATCHES else ""


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
