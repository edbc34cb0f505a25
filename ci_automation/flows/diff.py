"""Differences between two states of Flux: artifacts, folders, components files, releases."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.tree import NoComponentsFile, Tree
from ci_automation.errors import UsageError
from ci_automation.flows.files import read_file, read_folder
from ci_automation.flows.rendering import render_release
from ci_automation.flows.verify import pull
from ci_automation.flux.recover import recover
from ci_automation.flux.text import unpin
from ci_automation.impact.assess import assess, compare_files, flux_alone
from ci_automation.impact.change import Certainty, Hazard
from ci_automation.impact.check import Applied, Clusters, Known
from ci_automation.impact.crds.versions import UnreadableCrds, crds
from ci_automation.impact.overlay.targets import GATE as OVERLAY
from ci_automation.report.findings import Findings

if TYPE_CHECKING:
    from pathlib import Path

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.ports import Ports
    from ci_automation.flux.options import Options
    from ci_automation.flux.version import Version
    from ci_automation.impact.overlay.builder import Kustomize

_MAX_BYTES = 50 << 20


class NotComparable(UsageError):
    """A file is not a components file that can be compared."""

    hint = "Name a file with the output of `flux install --export`."

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")


class NotWhole(UsageError):
    """A folder or an artifact without a components file, compared with one that has it."""

    hint = "Give folders that `pull` wrote. `plan` with `--overlay` shows what an overlay changes."

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} has no file with Flux's components")


class Side(Struct, frozen=True):
    """One of two states: its components file at `path`, and the files around it where they are known.

    A release has no other files, wherever the other state has its components.
    """

    name: str  # as the user named it
    components: str
    version: Version | None  # None: the components file does not say it
    overlay: Tree | None = None
    path: str = ""
    digest: Digest | None = None
    remark: str = ""  # what is not sure about it
    is_release: bool = False


def of_artifact(name: str, reference: Reference, ports: Ports, components_file: str | None) -> Side:
    """Return the state in an artifact; its signature is verified if there are trusted signers.

    Raises:
        VerificationFailed: no trusted signer signed it.
        UsageError: its components file is no text.
    """
    tree, digest, trust = pull(reference, ports)
    return _of_tree(
        name, tree, components_file, digest, "" if trust == "verified" else f"nothing was verified: {ports.why_nobody}"
    )


def of_folder(path: Path, components_file: str | None) -> Side:
    """Return the state in a folder, such as `pull` makes one.

    Raises:
        UsageError: it cannot be read, or its components file is no text.
    """
    return _of_tree(str(path), read_folder(path), components_file, None, "")


def of_file(path: Path) -> Side:
    """Return the state of a single components file.

    Raises:
        NotComparable: it cannot be read, or is no text.
    """
    name = str(path)
    text = _text(name, read_file(path, _MAX_BYTES, partial(NotComparable, name)))
    return Side(name, text, _version(text))


def of_release(version: Version, options: Options, ports: Ports) -> Side:
    """Return what `flux install --export` of a release gives."""
    made = render_release(version, options, ports)
    return Side(str(version), made.text, version, remark=made.doubt, is_release=True)


class Difference(Struct, frozen=True):
    """Two states and their differences; files around the components are not compared with a components file alone."""

    old: Side
    new: Side
    found: Findings

    @property
    def overlays_compared(self) -> bool:
        """Return whether the files around the components were compared."""
        return self.old.overlay is not None and self.new.overlay is not None


def compare(old: Side, new: Side, clusters: Clusters, kustomize: Kustomize | None = None) -> Difference:
    """Return every change and hazard from `old` to `new`, in clusters and in the files around the components.

    The end of upstream's support for a version is left out, because that takes the list of releases. Of two sides
    without Flux only the files are compared.

    Raises:
        NotWhole: only one side has Flux.
        UsageError: a components file is no list of Kubernetes objects.
    """
    if old.overlay is not None and new.overlay is not None and not (old.path or new.path):
        return Difference(old, new, Findings(compare_files(old.overlay, new.overlay).changes))
    for side in (old, new):
        if side.overlay is not None and not side.path:
            raise NotWhole(side.name)
    old, new = _alone_as(new, old), _alone_as(old, new)
    both, moved = old.overlay is not None and new.overlay is not None, old.path != new.path
    known = Known(clusters, kustomize=kustomize, build=both and not moved)
    # The files that only one side has are looked at on both: there is nothing to compare them with.
    only = new.overlay or old.overlay or Tree(())
    before, after = (Applied(it.components, it.version, it.overlay or only, it.path, name=it.name) for it in (old, new))
    impact = assess(before, after, known)
    hazards = impact.hazards
    if both and moved:
        sentence = f"the files were not built: the components are at {old.path}, and then at {new.path}"
        hazards = (Hazard(OVERLAY, Certainty.UNCHECKED, f"{old.path} to {new.path}", sentence), *hazards)
    return Difference(old, new, Findings(impact.changes, hazards, impact.pruned))


def _alone_as(other: Side, side: Side) -> Side:
    """Return a release as an artifact would have it that has nothing else, in the folders of the other side."""
    if not side.is_release or other.overlay is None:
        return side
    files = flux_alone(other.overlay.replaced(other.path, other.components.encode()), other.path)
    return replace(side, overlay=files, path=other.path)


def _of_tree(name: str, tree: Tree, components_file: str | None, digest: Digest | None, remark: str) -> Side:
    try:
        path = tree.components_path(components_file)
    except NoComponentsFile:
        if components_file is not None:
            raise
        return Side(name, "", None, tree, "", digest, remark)
    text = _text(f"{path} of {name}", tree[path])
    return Side(name, text, _version(text), tree.without(path), path, digest, remark)


def _version(text: str) -> Version | None:
    try:
        return recover(unpin(text)[0]).version
    except UsageError:
        return None


def _text(name: str, data: bytes) -> str:
    """Return the text of a components file."""
    try:
        text = data.decode()
        crds(text)
    except UnicodeDecodeError:
        raise NotComparable(name, "it is not text") from None
    except UnreadableCrds as error:
        raise NotComparable(name, error.reason) from None
    if not any(line.strip("- \t") and not line.startswith("#") for line in text.splitlines()):
        raise NotComparable(name, "it has no objects")
    return text
