"""Preview of a promotion, and the decision on it; nothing is written anywhere."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from ci_automation.approval.content import changed_rules
from ci_automation.artifact.reference import Digest
from ci_automation.errors import Error, RegistryError
from ci_automation.flows.observe import Observed, Placed, SignedForOthers, observe, observe_past
from ci_automation.flows.planning.base import Contents, only_layer, present_version, read_contents
from ci_automation.flows.planning.findings import findings, first_findings, planned_step
from ci_automation.flows.publication.placement import had_last, in_place, place
from ci_automation.flux.artifact import PUSHED
from ci_automation.flux.proof import Proof
from ci_automation.impact.change import in_shell
from ci_automation.policy.decision import Decision, Hold, Offered, Verdict, decide, hold_verdict, reasons
from ci_automation.policy.promotion import Goal, PromotionCandidate, promotion_verdicts
from ci_automation.registry.port import NotFound, Registry
from ci_automation.report.findings import Findings
from ci_automation.report.notes import ReleaseNotes, notes_between
from ci_automation.report.promotion import FirstDigest
from ci_automation.signing.cluster import require_accepted_there
from ci_automation.signing.verify import ForeignSignature, Unsigned, verify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.evidence import Evidence
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.version import Version
    from ci_automation.policy.plan import PlannedStep
    from ci_automation.records.content import ApprovedRules, RecordedContent
    from ci_automation.records.notes import Record
    from ci_automation.signing.trust import Verified


class SourceEmpty(RegistryError):
    """The channel that a promotion starts from is not there."""

    hint = (
        "Check the spelling. If the source is itself promoted to, approve its first digest first. Registries also "
        "answer like this if the credentials lack the right to read."
    )

    def __init__(self, promotion: Promotion) -> None:
        super().__init__(f"{promotion.source_name} has nothing yet")


class Promotion(Struct, frozen=True):
    """From which channel to which, the world around each, how long a digest waits, and what has to speak for it."""

    source: Reference
    origin: Ports
    target: Reference
    ports: Ports
    intent: Intent
    after: timedelta = timedelta()
    evidence: tuple[Evidence, ...] = ()
    rules: ApprovedRules | None = None  # under which content of the target is approved now
    names: tuple[str, str] = ("", "")  # of source and target in the configuration

    @property
    def source_name(self) -> str:
        """Return what people call the source."""
        return self.names[0] or str(self.source)

    @property
    def target_name(self) -> str:
        """Return what people call the target."""
        return self.names[1] or str(self.target)


class Considered(Struct, frozen=True):
    """Preview of a promotion, with the verdict of every gate."""

    promotion: Promotion
    observed: Observed
    before: Placed | None  # what the target has, or had if its run was interrupted
    version: Version
    old_version: Version | None
    moves: tuple[Record, ...] = ()  # of the digest to the source, the oldest first
    came: tuple[datetime, ...] = ()  # when the source came to the digest, the oldest first
    holds: tuple[Hold, ...] = ()  # on what the target has
    findings: Findings = field(default_factory=Findings)  # without gates where there is nothing to do
    gone: Record | None = None  # of what the target had last, if it was deleted
    interrupted: bool = False  # the target is there already, and no record says that it was promoted
    step: PlannedStep | None = None  # None: the target has nothing yet, or there is nothing to do
    notes: tuple[ReleaseNotes, ...] = ()  # of the releases on the way, where a person decides
    first: FirstDigest | None = None  # where the target has nothing yet

    @property
    def last(self) -> datetime | None:
        """Return when the target came to what it has, or to what it had last."""
        return self.gone.at if self.gone else self.before.last if self.before else None

    @property
    def had(self) -> RecordedContent | None:
        """Return the content from Git that the target has."""
        return self.before.record.content if self.before and self.before.record else None

    @property
    def digest(self) -> Digest:
        """Return what would be promoted."""
        return self.observed.digest

    @property
    def gates(self) -> tuple[Verdict, ...]:
        """Return what every gate says."""
        return self.findings.gates

    @property
    def decision(self) -> Decision:
        """Return what is decided; what is there already happens by itself."""
        return decide(self.gates) if self.gates else Decision.AUTO

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return what a person needs to know."""
        return reasons(self.gates)

    @property
    def sentence(self) -> str:
        """Return what it is about."""
        return f"the promotion of {self.version} from {self.promotion.source_name} to {self.promotion.target_name}"


def consider(promotion: Promotion, holds: tuple[Hold, ...] | None = None) -> Considered:
    """Return what a promotion would do, and what is decided; nothing is written anywhere.

    `holds` count instead of those that are on what the target has.

    Raises:
        SourceEmpty: there is no such source.
        VerificationFailed: no trusted signer of that end signed what is at either end, or clusters of the
            target would refuse it.
    """
    promotion.origin.require_trusted()
    promotion.ports.require_trusted()
    observed, present = _at_source(promotion), _present(promotion)
    interrupted = present is not None and present.digest == observed.digest
    if present is not None and interrupted:
        version = present_version(observed, promotion.origin, promotion.intent)
        placed = place(present, promotion.ports)
        in_place(placed, version, promotion.ports, replace(promotion.intent, adopt=False), approved=True)
        if not placed.others:  # else a promotion wrote no record, or an attacker moved the channel there
            return Considered(promotion, observed, placed, version, version)
        present = _had_before(promotion)
    only_layer(observed.manifest)
    contents = read_contents(observed, promotion.origin, promotion.intent)
    old = read_contents(present, promotion.ports, promotion.intent) if present else None
    at_source = in_place(observed, contents.version, promotion.origin, promotion.intent)
    before = in_place(present, old.version, promotion.ports, promotion.intent) if present and old else None
    considered = Considered(promotion, observed, before, contents.version, old.version if old else None)
    signed = require_signed_for_target(considered, promotion.origin.registry, promotion.source)
    moves = promotion.origin.ledger(promotion.source).records(observed.digest)
    gone, held = (None, before.holds) if before else had_last(promotion.target, promotion.ports)
    considered = replace(considered, holds=held if holds is None else holds, gone=gone, interrupted=interrupted)
    considered = replace(considered, moves=moves, came=_times(moves, at_source.rolled_back))
    considered = replace(considered, findings=_findings(considered, old, contents))
    if before is None or old is None:
        return considered if interrupted else replace(considered, first=_first(contents, signed, considered.came))
    step = _step(considered, before, old, contents)
    return replace(considered, step=step, notes=_notes(step, promotion.ports))


def _times(moves: tuple[Record, ...], rolled_back: Hold | None) -> tuple[datetime, ...]:
    """Return when a channel came to a digest, the oldest first: by records, and by a rollback that wrote none yet."""
    interrupted = (rolled_back.since,) if moves and rolled_back else ()
    return (*(record.at for record in moves), *interrupted)


def _first(contents: Contents, signed: Verified, came: tuple[datetime, ...]) -> FirstDigest:
    """Return what a person should know of the digest, who has nothing to compare it with."""
    signer = f"the key {signed.by}" if isinstance(signed.by, Digest) else str(signed.by)
    return FirstDigest(contents.options.to_arguments(), contents.overlay, signer, came[-1] if came else None)


def _notes(step: PlannedStep, ports: Ports) -> tuple[ReleaseNotes, ...]:
    """Return upstream's notes for a person who decides; a promotion needs no releases, and works without them."""
    if step.decision is not Decision.APPROVAL or step.old_version >= step.new_version:
        return ()
    try:
        return notes_between(ports.releases.list(step.old_version), step.old_version, step.new_version)
    except Error as error:
        ports.say(f"the release notes cannot be read: {error}")
        return ()


def _findings(considered: Considered, old: Contents | None, new: Contents) -> Findings:
    """Return what it changes, and every gate's word: on the wait, the evidence, the version, and the changes."""
    promotion, intent = considered.promotion, considered.promotion.intent
    since = considered.came[-1] if considered.came else None
    evidence = tuple(each.look(new.version) for each in promotion.evidence)
    rendered = new.version == PUSHED or not considered.moves or any(it.proof for it in considered.moves)
    candidate = PromotionCandidate(str(promotion.source), considered.digest, new.version, since, evidence, rendered)
    gone = considered.gone.version if considered.gone else None
    goal = Goal(considered.old_version, intent.policy, intent.now, promotion.after, paused=intent.paused, gone=gone)
    found = findings(old, new, promotion.ports, intent) if old else first_findings(new, promotion.ports, intent)
    gates = (*promotion_verdicts(candidate, goal), _held(considered), *_rules(considered, old, new), *found.gates)
    return replace(found, gates=gates)


def _rules(considered: Considered, old: Contents | None, new: Contents) -> Iterator[Verdict]:
    """Yield how the rules changed since the content of the target was approved, where the promotion replaces it."""
    had, rules = considered.had, considered.promotion.rules
    if had is None or rules is None or old is None:
        return
    if (old.options, old.pinned, old.overlay.digest()) != (new.options, new.pinned, new.overlay.digest()):
        yield from (Verdict("merge", Decision.APPROVAL, it, had.commit) for it in changed_rules(had.rules, rules))


def _step(considered: Considered, before: Observed, old: Contents, new: Contents) -> PlannedStep:
    """Return the promotion as a step, for those who are asked for their approval."""
    digests = before.digest, considered.digest
    proof = (considered.moves[-1].proof if considered.moves else None) or Proof.NONE
    # The digest is taken as it is: no release is fetched.
    step = planned_step(old, new, considered.findings, digests, considered.digest, proof)
    return replace(step, promoted_from=str(considered.promotion.source))


def _held(considered: Considered) -> Verdict:
    """Hold what the target was moved back from; what came to the source after that is new."""
    had = considered.gone.version if considered.gone else considered.old_version
    version = considered.version if considered.version != had else None
    first = considered.came[0] if considered.came else None
    offered = Offered(version, first, considered.digest)
    return hold_verdict(considered.holds, offered, considered.promotion.intent.now)


def _had_before(promotion: Promotion) -> Placed | None:
    """Return what the target had by its records, before a promotion moved it and was interrupted."""
    ledger = promotion.ports.ledger(promotion.target)
    if (record := ledger.last()) is None:
        return None
    had = observe_past(promotion.target, record.digest, promotion.ports)
    return Placed(**asdict(had), record=record, holds=ledger.holds(record.digest))


def _at_source(promotion: Promotion) -> Observed:
    told = f"{promotion.target_name} is promoted from {promotion.source_name}: mend that first."
    try:
        return _end(promotion.source, promotion.origin, told)
    except NotFound:
        if promotion.origin.registry.resolve(promotion.source) is None:
            raise SourceEmpty(promotion) from None
        raise


def present(promotion: Promotion) -> tuple[Version, Digest] | tuple[None, None]:
    """Return what the target has now, verified if there are trusted signers there; None if it has nothing yet."""
    found = _present(promotion)
    return (present_version(found, promotion.ports, promotion.intent), found.digest) if found else (None, None)


def _present(promotion: Promotion) -> Observed | None:
    """Return what the target has, or None where there is no such channel yet."""
    try:
        return _end(promotion.target, promotion.ports, f"This is what the target, {promotion.target_name}, has now.")
    except NotFound:
        return None


def _end(channel: Reference, ports: Ports, told: str) -> Observed:
    """Return what one end of a promotion has; the hint about a signature begins with which end it is."""
    try:
        return observe(channel, ports)
    except (Unsigned, ForeignSignature) as error:
        error.hint = f"{told} {error.hint.replace('`update --adopt`', adoption_of(channel))}"
        raise


def adoption_of(channel: Reference) -> str:
    """Return how the hint of an unsigned end of a promotion names the command that adopts it."""
    return in_shell("update", str(channel), "--adopt")


def require_signed_for_target(considered: Considered, registry: Registry, at: Reference) -> Verified:
    """Return the signature of the digest that is there by a signer whom the target trusts and its clusters accept.

    Raises:
        SignedForOthers: another signer signed it.
        ClusterWouldRefuse: a cluster would refuse it all the same.
    """
    promotion, digest, trusted = considered.promotion, considered.digest, considered.promotion.ports.require_trusted()
    try:
        signed = verify(registry, at, digest, trusted)
    except ForeignSignature:
        found = promotion.origin.require_trusted()
        raise SignedForOthers(promotion.source_name, promotion.target_name, digest, found, trusted) from None
    versions = (considered.old_version or considered.version, considered.version)
    require_accepted_there(registry, at.at_digest(digest), trusted, versions)
    return signed
