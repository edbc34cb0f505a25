"""What a step starts from: the files of an artifact, its options recovered and proven."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_automation.artifact.archive import read_archive
from ci_automation.artifact.manifest import InvalidManifest
from ci_automation.errors import PolicyRefused
from ci_automation.flows.rendering.proof import rendering
from ci_automation.flows.rendering.upstream import fetch
from ci_automation.flux.artifact import stated_options_digest
from ci_automation.flux.recover import EditedByHand, MadeByAnotherTool, Recovered, prove, recover
from ci_automation.flux.render import render
from ci_automation.flux.text import TemplateMismatch

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.observe import Observed
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.options import Options
    from ci_automation.flux.version import Version


class OptionsUnclear(PolicyRefused):
    """The options cannot be read from the components file, since one of them left no trace in it."""

    hint = "Give the flags that it was made with, for example --cluster-domain."

    def __init__(self) -> None:
        super().__init__("the components file does not show all options that the artifact was made with")


@dataclass(frozen=True, slots=True)
class Base:
    """What a step starts from: an artifact whose options are known and proven."""

    digest: Digest
    version: Version
    options: Options
    overlay: Tree
    path: str
    components: str
    edited: bool = False


def read_tree(observed: Observed, ports: Ports) -> Tree:
    """Return the files of an artifact, from its first layer, as source-controller takes it.

    Raises:
        UnsafeArchive: the layer is hostile or broken.
    """
    return read_archive(ports.registry.blob(observed.channel, observed.manifest.layers[0]))


def read_base(observed: Observed, ports: Ports, intent: Intent) -> Base:
    """Return what a step can start from, its options recovered and proven by rendering its own release again.

    Raises:
        EditedByHand: the components file is not what its release and options give, and the user does not accept that.
        MadeByAnotherTool: neither, and another tool wrote it.
        OptionsUnclear: our annotation states other options than can be recovered.
        InvalidManifest: our annotation states another version than the file.
        ComponentMissing, TemplateMismatch: its own release cannot be rendered.
    """
    tree = read_tree(observed, ports)
    path = tree.components_path(intent.components_file)
    try:
        text = tree[path].decode()
    except UnicodeDecodeError:
        raise InvalidManifest(f"{path} is not text") from None
    recovered = recover(text)
    if observed.version not in {None, recovered.version}:
        raise InvalidManifest(f"its annotation states {observed.version}, its components file {recovered.version}")
    options = _stated_options(observed, recovered.options, intent)
    ports.say(f"rendering the present {recovered.version} again, to prove its options")
    edited = False
    try:
        _prove(text, recovered, ports)
    except (EditedByHand, MadeByAnotherTool):
        if not intent.accept_edits:
            raise
        edited = True
    return Base(observed.digest, recovered.version, options, tree.without(path), path, text, edited)


def _prove(text: str, recovered: Recovered, ports: Ports) -> None:
    """Prove the options of a components file: by our rendering, or by what the release's own flux CLI makes of them.

    Where our rendering is the present file, nothing else has to be asked: it is compared, whatever it is worth.
    """
    release = fetch(recovered.version, ports)
    with suppress(TemplateMismatch):
        if text == render(release.bundle, recovered.version, recovered.options):
            return
    prove(text, recovered, rendering(release, recovered.options, ports).text)


def _stated_options(observed: Observed, recovered: Options, intent: Intent) -> Options:
    """Return the options that the annotation states: what left no trace in the text, the flags must say."""
    stated = stated_options_digest(observed.manifest)
    if stated in {None, str(recovered.digest)} or intent.accept_edits:
        return recovered
    if stated == str((options := recovered.with_flags(intent.flags)).digest):
        return options
    raise OptionsUnclear
