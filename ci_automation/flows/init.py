"""The first artifact of a channel; and artifacts with a team's own manifests, which hold no Flux."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.tree import COMPONENTS_NAMES, COMPONENTS_PATH, Tree
from ci_automation.errors import Conflict, PolicyRefused, UsageError
from ci_automation.flows.carry_out import settle_version_tags
from ci_automation.flows.files import beside_components
from ci_automation.flows.observe import Trust, observe
from ci_automation.flows.planning.findings import first_findings
from ci_automation.flows.planning.step import Wanted, make
from ci_automation.flows.publication.placement import had_last, in_place
from ci_automation.flows.publication.publish import Publication, publish, require_signer
from ci_automation.flows.publication.recording import record_interrupted_rollback
from ci_automation.flows.rendering import UnprovenRendering
from ci_automation.flux.artifact import PUSHED, compose_pushed
from ci_automation.flux.options import Options
from ci_automation.flux.proof import Proof
from ci_automation.impact.change import Hazard, in_shell
from ci_automation.policy.decision import (
    ACKNOWLEDGED,
    Decision,
    Hold,
    Offered,
    Verdict,
    decide,
    hold_verdict,
    reasons,
    still_on,
)
from ci_automation.policy.gates import Situation, version_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.version import Version
    from ci_automation.records.notes import Record
    from ci_automation.report.findings import Findings

_SHOWN = 5
_MAX_ORIGIN = 500


class ChannelExists(Conflict):
    """A channel for `init` that exists already, with other content."""

    hint = "Use `update` to change the channel, `update --adopt` if another signer made it, or choose another tag."

    def __init__(self, channel: Reference, found: Digest) -> None:
        super().__init__(f"{channel} exists already, at {found}")


class FirstRefused(PolicyRefused):
    """A first artifact that would break clusters."""

    def __init__(self, channel: Reference, hazards: Sequence[Hazard]) -> None:
        told = [f"{it.sentence}{_at(it)}{'' if it.final else f' ({it.fingerprint})'}" for it in hazards[:_SHOWN]]
        told += [f"and {len(hazards) - _SHOWN} more"] if len(hazards) > _SHOWN else []
        super().__init__(f"{channel} cannot start with this artifact: {'; '.join(told)}")
        remedies = dict.fromkeys("; or ".join(it.remedies) for it in hazards[:_SHOWN] if it.remedies)
        known = "accept it: --acknowledge with its fingerprint, or `acknowledge` of the artifact's configuration"
        ways = ("; and ".join(remedies), "" if any(it.final for it in hazards) else known)
        self.hint = f"Nothing was published. What to do: {'; or '.join(filter(None, ways))}."


class StillHeld(PolicyRefused):
    """A rollback had moved this deleted channel back from that version."""

    hint = "Begin with the version that the channel had last, lift the hold with `rollback --lift`, and `update` it."

    def __init__(self, channel: Reference, verdict: Verdict) -> None:
        super().__init__(f"{channel} was deleted, and its hold counts: {verdict.reason}")
        lift = in_shell("rollback", str(channel), "--lift")
        self.hint = f"Begin with the version that it had last, lift the hold with {lift}, and `update` it."


class WasNewer(PolicyRefused):
    """This deleted channel had a newer version than the one to begin with."""

    hint = "Begin with the version that the channel had last, and go back from there with `rollback`."

    def __init__(self, channel: Reference, version: Version, last: Record) -> None:
        super().__init__(f"{channel} was deleted, and had {last.version} last, which is newer than {version}")


def _at(hazard: Hazard) -> str:
    return f" (at {', '.join(map(str, hazard.places[:_SHOWN]))})" if hazard.places else ""


class FirstArtifact(Struct, frozen=True):
    """A first artifact that was rendered and judged; `findings` are empty if the channel has it already.

    `last` says what the channel had before it was deleted, if it had anything. `signed` says that the run which
    published it, or found it, verified its signature. `doubt` says why Flux itself may render it differently, and
    `unsigned` that nothing proves that Flux published the release.
    """

    publication: Publication
    findings: Findings
    last: Record | None = None
    signed: bool = False
    doubt: str = ""
    unsigned: bool = False

    @property
    def digest(self) -> Digest:
        """Return the digest that the channel begins with."""
        return self.publication.composed.digest

    @property
    def is_there(self) -> bool:
        """Return whether the channel has it already."""
        return self.publication.recovered

    @property
    def hazards(self) -> tuple[Hazard, ...]:
        """Return what it may break, but for what is acknowledged."""
        taken = self.findings.taken()
        return tuple(it for it in self.findings.ranked_hazards() if taken.hazard(it) != ACKNOWLEDGED)


def init(channel: Reference, version: Version, ports: Ports, intent: Intent) -> FirstArtifact:
    """Publish the first artifact of `channel`; if it is there already, with the same digest, nothing is done.

    The gates on hazards judge it, as at the first promotion to a channel. What needs approval is in the result, which
    the operator sees.

    Raises:
        ChannelExists, UnprovenRendering, ImageMissing, FirstRefused: see `propose_init`.
    """
    return publish_first(propose_init(channel, version, ports, intent), ports, intent)


def propose_init(channel: Reference, version: Version, ports: Ports, intent: Intent) -> FirstArtifact:
    """Return the first artifact of `channel`; nothing is written.

    Raises:
        ChannelExists: the channel has something else.
        UnprovenRendering: nothing proves the rendering, and that is not accepted.
        FirstRefused: it would break clusters, or policy refuses it.
        WasNewer, StillHeld: the channel had a newer version before it was deleted, or was moved back from this.
        ImageMissing: an image is to be pinned, and is not there.
    """
    require_signer(ports, intent)
    options = Options().with_flags(intent.flags)
    path = intent.components_file or COMPONENTS_PATH
    overlay = beside_components(intent.overlay or Tree(()), path)
    made = make(Wanted(version, options, overlay, bool(intent.pin_images)), path, ports)
    if made.rendering.proof is Proof.NONE and not intent.unsafe_unproven_rendering:
        raise UnprovenRendering(version, made.rendering.detail)
    composed = made.composed
    present = ports.registry.resolve(channel)
    if present not in {None, composed.digest}:
        raise ChannelExists(channel, present)
    last, holds = (None, ()) if present else had_last(channel, ports)
    if last and version < last.version:
        raise WasNewer(channel, version, last)
    offered = Offered(version if last and version != last.version else None, None, composed.digest)
    if (verdict := hold_verdict(holds, offered, intent.now)).decision is not Decision.AUTO:
        raise StillHeld(channel, verdict)
    findings = first_findings(composed.recipe, ports, intent)
    taken = findings.taken()
    refused = [it for it in findings.ranked_hazards() if taken.hazard(it) == Decision.REFUSED]
    if refused and not present:
        raise FirstRefused(channel, refused)
    publication = Publication(
        channel, None, version, composed, made.release, made.rendering.proof, recovered=present is not None
    )
    publication = replace(publication, holds=still_on(holds, version, intent.now))
    return FirstArtifact(publication, findings, last, doubt=made.rendering.doubt, unsigned=made.unsigned)


def publish_first(first: FirstArtifact, ports: Ports, intent: Intent) -> FirstArtifact:
    """Publish a first artifact, if the channel still has nothing, or has it already, and return it.

    Raises:
        ChannelMoved: the channel has something else by now.
    """
    publication = replace(first.publication, approval=intent.approval)
    signed = ports.signer is not None
    if first.is_there:
        signed = _finish(publication, ports, intent)
    else:
        publish(publication, ports.later_than(first.last.at if first.last else None), intent)
    return replace(first, signed=signed)


class HoldsFlux(Conflict):
    """A channel for `push` that has Flux."""

    hint = "Choose another tag or repository: `update` and `promote` change a channel with Flux."

    def __init__(self, channel: Reference) -> None:
        super().__init__(f"{channel} has Flux, and `push` publishes a team's own manifests")


class FluxInFolder(UsageError):
    """A folder to `push` has Flux's components: no run would update them."""

    hint = (
        "`init --from FOLDER` makes a channel of Flux from such a folder. If Flux's components are not meant for "
        "clusters, take the file out."
    )

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is there, and `push` publishes a team's own manifests")


class PushRefused(PolicyRefused):
    """Manifests that must not be published now."""

    hint = "Nothing was published. Wait until the time that the reason names, or change what the reason names."

    def __init__(self, channel: Reference, why: Iterable[str]) -> None:
        super().__init__(f"{channel} cannot have these manifests now: {'; '.join(why)}")


class UnfitOrigin(UsageError):
    """A source or a revision that Flux could not show."""

    hint = "Give them as `flux push artifact` does: --source https://..., --revision main@sha1:..."


class Pushed(Struct, frozen=True):
    """Digest with a team's own manifests, whether this run published it, and whether it is signed."""

    digest: Digest
    published: bool
    signed: bool


def push_manifests(channel: Reference, files: Tree, source: str, revision: str, ports: Ports, intent: Intent) -> Pushed:
    """Publish a team's own manifests as the next artifact of `channel`; nothing is done if it has them.

    Raises:
        UnfitOrigin: the source or the revision is empty, or cannot be printed on one line.
        FluxInFolder: a file has the name of Flux's components.
        HoldsFlux: the channel has Flux.
        PushRefused: it is paused or frozen, no window is open, or the same content was rolled back.
        Conflict, VerificationFailed, SigningError: as `publish`.
    """
    for text in (source, revision):
        if not (text.isprintable() and 0 < len(text) <= _MAX_ORIGIN):
            raise UnfitOrigin(f"{text[:_MAX_ORIGIN]!r} is not a text of one line with at most {_MAX_ORIGIN} characters")
    if path := next((path for path in files.by_path if PurePosixPath(path).name in COMPONENTS_NAMES), ""):
        raise FluxInFolder(path)
    require_signer(ports, intent)
    composed = compose_pushed(files, source, revision)
    present = ports.registry.resolve(channel)
    publication = Publication(channel, None, PUSHED, composed, None, None, recovered=present is not None)
    if present == composed.digest:
        if ports.trusted and not ports.ledger(channel).records(present):  # an attacker may have moved it there
            _require_now(channel, composed.digest, (), intent)
        return Pushed(present, published=False, signed=_finish(publication, ports, intent))
    if present is None:
        had, holds = had_last(channel, ports)
        last, base = had.at if had else None, None
    else:
        observed = observe(channel, ports)
        if observed.version != PUSHED:
            raise HoldsFlux(channel)
        placed = in_place(observed, PUSHED, ports, intent)
        last, holds, base = placed.last, placed.holds, placed.digest
    ports = ports.later_than(last)
    publication = replace(publication, base=base, holds=still_on(holds, PUSHED, intent.now))
    _require_now(channel, composed.digest, holds, intent)
    publish(replace(publication, recovered=False), ports, intent)
    return Pushed(composed.digest, published=True, signed=ports.signer is not None)


def _require_now(channel: Reference, digest: Digest, holds: Sequence[Hold], intent: Intent) -> None:
    """Check that a team's own manifests may be published, or recorded, now."""
    verdicts = (
        *version_verdicts(PUSHED, Situation(PUSHED, intent.policy, intent.now, paused=intent.paused)),
        hold_verdict(holds, Offered(digest=digest), intent.now),
    )
    if decide(verdicts) is not Decision.AUTO:
        raise PushRefused(channel, reasons(verdicts))


def _finish(publication: Publication, ports: Ports, intent: Intent) -> bool:
    """Write the record that an interrupted run owes for what the channel has: a rollback, or its publication again.

    Return whether a trusted signer has signed it.
    """
    observed = observe(publication.channel, ports)
    placed = in_place(observed, publication.version, ports, intent, approved=True)
    signed = placed.trust is Trust.VERIFIED
    if signed and not record_interrupted_rollback(placed, ports, intent) and placed.record is None:
        publish(publication, ports.later_than(placed.last), intent)
    settle_version_tags(placed, ports, intent)
    return signed
