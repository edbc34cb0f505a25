"""Making an artifact again from upstream's release and its own overlay, to see whether the same digest comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.errors import VerificationFailed
from ci_automation.flows.observe import look_at
from ci_automation.flows.planning.base import read_base
from ci_automation.flows.rendering.proof import rendering
from ci_automation.flows.rendering.upstream import fetch
from ci_automation.flux.artifact import Recipe, compose
from ci_automation.flux.components import pin

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.planning.base import Base
    from ci_automation.flows.ports import Intent, Ports


class NotRederived(VerificationFailed):
    """The same inputs give another digest: another tool made the artifact, or it says of itself what is not so."""

    hint = "Flux renders the same components, see above; their packing or their description differs."

    def __init__(self, reference: Reference, found: Digest, made: Digest) -> None:
        super().__init__(f"{reference} is {found}, and rebuilding it from its inputs gives {made}")


class Derivation(Struct, frozen=True):
    """The inputs of an artifact in the order in which they come in, each with what proves it, and what they give."""

    steps: tuple[tuple[str, str], ...]
    found: Digest
    made: Digest

    def check(self, reference: Reference) -> None:
        """Raise `NotRederived` unless the digest is the same."""
        if self.found != self.made:
            raise NotRederived(reference, self.found, self.made)


def rederive(reference: Reference, ports: Ports, intent: Intent) -> Derivation:
    """Return how the artifact that `reference` names comes from upstream's release and its overlay.

    Raises:
        EditedByHand, MadeByAnotherTool: its components are not what the release and its options give.
        UpstreamUnsigned, UpstreamForged: the release is not proven to be Flux's.
    """
    observed = look_at(reference, ports)
    base = read_base(observed, ports, intent)
    release = fetch(base.version, ports)
    rendered = rendering(release, base.options, ports)
    recipe = Recipe(
        version=base.version,
        commit=release.commit,
        release=release.bundle.digest,
        options=base.options,
        components=pin(rendered.text, base.pins),
        overlay=base.overlay,
        path=base.path,
    )
    made = compose(recipe)
    steps = (
        ("artifact", f"{reference.repository} has {observed.digest}"),
        ("release", f"{base.version}, its manifests {release.bundle.digest}, commit {release.commit}"),
        ("upstream", release.vouched or "nothing proves the release: its checksums are not signed"),
        ("options", " ".join(base.options.to_arguments()) or "Flux's own"),
        (
            "rendering",
            (f"{base.path} is byte for byte what the release renders to with these options ({rendered.proof})"),
        ),
        *_pinned(base),
        ("overlay", f"{len(base.overlay.files)} other files: {base.overlay.digest()}"),
        ("result", f"rebuilding it gives {made.digest}"),
    )
    return Derivation(steps, observed.digest, made.digest)


def _pinned(base: Base) -> tuple[tuple[str, str], ...]:
    """Return the input that nothing proves: which digests the images had."""
    number = len(base.pins)
    return (("images", f"it pins {number} images, to digests that this run did not look up"),) if number else ()
