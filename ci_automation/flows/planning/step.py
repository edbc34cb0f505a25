"""One step of a plan: rendered to the byte, compared with what is there, and decided by all gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.errors import PolicyRefused, RegistryError, VerificationFailed
from ci_automation.flows.files import beside_components
from ci_automation.flows.planning.base import Base
from ci_automation.flows.planning.findings import content_of, fixed_in, impact_of, lost, planned_step
from ci_automation.flows.rendering import Rendering, fetch, is_unsigned, recipe_of, rendering
from ci_automation.flux.artifact import Composed, compose
from ci_automation.flux.text import controller_images, image_names, pin
from ci_automation.impact.assess import Impact
from ci_automation.impact.change import Hazard, all_of
from ci_automation.impact.checks.images import look_up
from ci_automation.policy.content import Content, content_verdicts
from ci_automation.policy.decision import Decision, Offered, Verdict, decide, hold_verdict, is_held, still_on
from ci_automation.policy.gates import release_verdicts
from ci_automation.policy.plan import ImageChange, PlannedStep
from ci_automation.report.findings import Findings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ci_automation.artifact.tree import Tree
    from ci_automation.flows.planning.git_content import JudgedContent
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.advisories import Vulnerability
    from ci_automation.flux.options import Options
    from ci_automation.flux.release import FetchedRelease, Release
    from ci_automation.flux.version import Version
    from ci_automation.records.notes import Approval, Record


class ImageMissing(VerificationFailed):
    """An image is not in its registry, so it cannot be pinned or pulled."""

    hint = "Copy the images there with `mirror --images` first, or give a version or a --registry that has the images."

    def __init__(self, images: Sequence[str]) -> None:
        super().__init__(f"{all_of(images)} {'is' if len(images) == 1 else 'are'} not there")


class NobodyToAsk(PolicyRefused):
    """Images to pin without a way to look up their digests."""

    hint = "This is a bug in this program. Please report it."
    message = "this program cannot look up the digests of the images here"


class Rendered(Struct, frozen=True):
    """A planned step with what would be published."""

    step: PlannedStep
    composed: Composed
    after: Base
    release: FetchedRelease
    judged: JudgedContent | None = None  # of content from Git

    @property
    def approval(self) -> Approval | None:
        """Return the approval by merges on the default branch, if content has it."""
        return self.judged.approval if self.judged else None


class Wanted(Struct, frozen=True):
    """Wanted result of a step; `pinned` with digests behind the images."""

    version: Version
    options: Options
    overlay: Tree
    pinned: bool

    def differs_from(self, base: Base) -> bool:
        """Return whether the content is another one than that of `base`."""
        own = self.options, self.overlay.digest(), self.pinned
        return own != (base.options, base.overlay.digest(), base.pinned)


def apart(record: Record | None, intent: Intent) -> Intent:
    """Return the intent; versions keep content that came from Git until other content was approved by itself."""
    return replace(intent, content_apart=intent.content_apart or (record is not None and record.content is not None))


def wanted_content(base: Base, intent: Intent) -> Wanted:
    """Return `base` with the content that the user wants.

    Raises:
        UnreadableOverlay: the overlay has a file where the components go.
    """
    overlay = base.overlay if intent.overlay is None else beside_components(intent.overlay, base.path)
    pinned = base.pinned if intent.pin_images is None else intent.pin_images
    return Wanted(base.version, base.options.with_flags(intent.flags), overlay, pinned)


def render_step(
    base: Base,
    wanted: Wanted,
    ports: Ports,
    intent: Intent,
    listed: Sequence[Release] = (),
    judge: Callable[[Decision], JudgedContent] | None = None,
) -> Rendered:
    """Return the step from `base` to what is wanted, rendered to the byte, with the decision of all gates.

    For content from Git, `judge` tells what its history says, beside the decision of the other gates.

    Raises:
        ComponentMissing: the release lacks a component that the options name.
        TemplateMismatch: the release can be rendered neither by us nor by its own flux CLI.
        ImageMissing: an image is to be pinned, and is not there.
    """
    made = _make_on(base, wanted, ports)
    return _judged(base, made, impact_of(base, made.composed.recipe, ports, intent, listed), intent, judge)


def render_automatic(
    base: Base, wanted: Wanted, ports: Ports, intent: Intent, listed: Sequence[Release] = ()
) -> Rendered | None:
    """Return the step as `render_step` does if all gates let it happen by itself, and None if one does not.

    As soon as one does not, the rest is not compared, no overlay is built, and no registry is asked for images.
    """
    made = _make_on(base, wanted, ports)

    bare = _content(base, made, Impact(), intent)

    def held_back(hazards: Sequence[Hazard]) -> bool:
        content = replace(bare, hazards=tuple(hazards))
        return decide(_verdicts(base, made, content, intent)) is not Decision.AUTO

    impact = impact_of(base, made.composed.recipe, ports, intent, listed, held_back)
    rendered = _judged(base, made, impact, intent)
    return rendered if rendered.step.decision is Decision.AUTO else None


class Made(Struct, frozen=True):
    """Result of a rendering: the release, the composed artifact, and what a channel has then."""

    after: Base
    release: FetchedRelease
    rendering: Rendering
    composed: Composed
    unsigned: bool  # nothing proves that Flux published the release
    fixes: tuple[Vulnerability, ...] = ()  # what the release fixes of the base


def make(wanted: Wanted, path: str, ports: Ports) -> Made:
    """Return what is wanted, rendered to the byte, with its components file at `path`; raise as `render_step`.

    Raises:
        ComponentMissing, TemplateMismatch, ImageMissing: see `render_step`.
    """
    ports.say(f"rendering {wanted.version}")
    release = fetch(wanted.version, ports)
    made = rendering(release, wanted.options, ports)
    components = _pinned(made.text, ports) if wanted.pinned else made.text
    composed = compose(recipe_of(release, wanted.options, components, wanted.overlay, path))
    after = Base(composed.digest, wanted.version, wanted.options, wanted.overlay, path, components)
    return Made(after, release, made, composed, is_unsigned(release, ports))


def _make_on(base: Base, wanted: Wanted, ports: Ports) -> Made:
    """Return what is wanted on top of `base`, and what it fixes of that."""
    made = make(wanted, base.path, ports)
    return replace(made, fixes=fixed_in(base, wanted.version, made.composed.recipe.components, ports))


def _pinned(text: str, ports: Ports) -> str:
    """Return a components file, as Flux renders it, with the digest behind each image that its registry has now."""
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


def _judged(
    base: Base,
    made: Made,
    impact: Impact,
    intent: Intent,
    judge: Callable[[Decision], JudgedContent] | None = None,
) -> Rendered:
    """Return the step with what all gates say of its release, its content and its impact."""
    content = _content(base, made, impact, intent)
    judged = None
    if judge:
        judged = judge(decide(_verdicts(base, made, replace(content, merged=True), intent)))
    content = replace(content, merged=judged is not None and judged.approval is not None)
    verdicts = (*(judged.verdicts if judged else ()), *_verdicts(base, made, content, intent))
    recipe, after = made.composed.recipe, made.after
    found = Findings(impact.changes, impact.hazards, impact.pruned, verdicts, diffs=impact.diffs, rights=impact.rights)
    step = replace(
        planned_step(base, after, found, (base.digest, after.digest), recipe.release, made.rendering.proof),
        images=_changed_images(base.components, after.components),
        added=lost(after.components, base.components),
    )
    after = replace(after, holds=still_on(base.holds, after.version, intent.now))
    return Rendered(step, made.composed, after, made.release, judged)


def _verdicts(base: Base, made: Made, content: Content, intent: Intent) -> tuple[Verdict, ...]:
    release, composed = made.release.release, made.composed
    situation = intent.situation(base.version, base.holds, {release.version: made.fixes})
    of_release = release_verdicts(release, situation)
    of_digest = hold_verdict(base.holds, Offered(digest=composed.digest), intent.now)
    if release.version == base.version or (is_held((of_digest,)) and not is_held(of_release)):
        of_release = (*of_release, of_digest)
    return (*of_release, *content_verdicts(content, situation))


def _content(base: Base, made: Made, impact: Impact, intent: Intent) -> Content:
    """Return what the gates judge of a step besides its release."""
    return replace(
        content_of(base, made.after, impact, intent),
        edits_dropped=base.edited,
        edits_allowance=None if intent.accept_edits else intent.edits_allowance(base.digest),
        proof=made.rendering.proof,
        proof_detail=made.rendering.detail,
        unproven_allowed=intent.unsafe_unproven_rendering,
        unsigned=made.unsigned,
    )


def _changed_images(old: str, new: str) -> tuple[ImageChange, ...]:
    before, after = controller_images(old), controller_images(new)
    return tuple(
        ImageChange(name, before.get(name, ""), after.get(name, ""))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )
