"""Rendering a release, and proving that Flux itself would render it so (design section 6).

Tried in this order: the release is known; upstream's own signed rendering has the same bytes; the release's own flux
CLI renders it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.artifact.archive import read_archive
from ci_automation.errors import Error, VerificationFailed
from ci_automation.flows.rendering.upstream import fetch, find_artifact
from ci_automation.flux.bundle import LIMITS
from ci_automation.flux.options import UnknownFlag
from ci_automation.flux.proof import NotCalibrated, Proof, calibrate, is_known, unexercised
from ci_automation.flux.render import render

if TYPE_CHECKING:
    from ci_automation.flows.ports import Ports
    from ci_automation.flows.rendering.delegate import DelegationFailed
    from ci_automation.flux.options import Options
    from ci_automation.flux.release import FetchedRelease
    from ci_automation.flux.version import Version


class UnprovenRendering(VerificationFailed):
    """A release is not known, and nothing else proves that we render it as Flux itself does."""

    hint = (
        "Use a newer version of this program, which may know the release. --unsafe-unproven-rendering publishes it "
        "unproven."
    )

    def __init__(self, version: Version, why: str) -> None:
        super().__init__(f"nothing proves that Flux renders {version} with this content the same way: {why}")


class FlagsNotRendered(VerificationFailed):
    """Options with flags that only a release's own flux CLI knows, and it did not render."""

    hint = "Use a newer version of this program, which may know the flag, or leave it out of `flags`."

    def __init__(self, options: Options, why: DelegationFailed) -> None:
        super().__init__(f"this program does not know {options.unknown_flags}, and {why}")


class Rendering(Struct, frozen=True):
    """A components file and what proves it; `detail` says in a few words how, or why nothing does."""

    text: str
    proof: Proof
    detail: str = ""


def rendering(release: FetchedRelease, options: Options, ports: Ports) -> Rendering:
    """Return the components file of `release`, with the first proof that there is.

    Raises:
        ComponentMissing: the release lacks a component that the options name.
        UnknownFlag: the release's own flux CLI does not know a flag that this program does not know either.
        FlagsNotRendered: it could not be asked, or did not render with such a flag.
        TemplateMismatch: we cannot render the release, and its own flux CLI did not do it either.
    """
    version = release.release.version
    for component in options.components:
        release.bundle.component(component)
    known = is_known(release.bundle, version)
    if options.others:
        if known:  # and with it all of its flags
            raise UnknownFlag(options.others[0][0], version)
        return _delegated(release, options, ports)
    if known:
        return Rendering(render(release.bundle, version, options), Proof.KNOWN)
    failures = []
    for prove in (_calibrated, _delegated):
        try:
            return prove(release, options, ports)
        except Error as error:  # whatever it is, there is no proof then
            failures.append(str(error))
    return Rendering(render(release.bundle, version, options), Proof.NONE, "; ".join(failures))


def render_release(version: Version, options: Options, ports: Ports) -> Rendering:
    """Return the components file of `version`, as `flux install --export` prints it, and what proves it."""
    return rendering(fetch(version, ports), options, ports)


def _calibrated(release: FetchedRelease, options: Options, ports: Ports) -> Rendering:
    """Return our rendering, if upstream's own signed one has the same bytes."""
    version = release.release.version
    if lacking := unexercised(options):
        raise NotCalibrated(f"upstream's own rendering of {version} does not show {', '.join(lacking)}")
    if (found := find_artifact(version, ports)) is None:
        raise NotCalibrated("no repository of upstream's own renderings is configured")
    if found.vouched is None:
        raise NotCalibrated(f"nothing proves {found.reference}")
    ports.say(f"comparing with upstream's own {found.reference}")
    reference = found.reference.at_digest(found.digest)
    registry = found.upstream.registry
    layer = registry.manifest(reference).layers[0]
    if layer.size > LIMITS.compressed_bytes:
        raise NotCalibrated(f"{reference} has a layer of {layer.size} bytes, and upstream's have 50 KB")
    tree = read_archive(registry.blob(reference, layer), LIMITS)
    theirs = tree[tree.components_path()].decode(errors="replace")
    calibrate(theirs, release.bundle, version, options)
    return Rendering(
        render(release.bundle, version, options),
        Proof.CALIBRATED,
        f"upstream's own {found.reference} has the same bytes",
    )


def _delegated(release: FetchedRelease, options: Options, ports: Ports) -> Rendering:
    """Return what the release's own flux CLI renders."""
    from ci_automation.flows.rendering.delegate import (
        DelegationFailed,
        delegate,
    )  # it brings much, for one release in many

    version = release.release.version
    ports.say(f"looking for the flux CLI of {version}")
    try:
        made = delegate(release, options, ports.releases)
    except DelegationFailed as error:
        if options.others:
            raise FlagsNotRendered(options, error) from None
        raise
    flags = f" with flags that this program does not know: {options.unknown_flags}" if options.others else ""
    where = ", which ran with access to your files" if made.files_in_reach else ""
    return Rendering(made.text, Proof.DELEGATED, f"the release's own flux CLI rendered it{flags}{where}")
