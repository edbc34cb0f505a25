"""Moving a channel back to what it had before: shown first with what it breaks, and held there.

Nothing is rendered: what clusters get is what is in the registry. The order is that of a publication, with the hold
before the move: verify, sign again if need be, hold and read it back, move, record. A freeze or a pause is for what
happens by itself, and stops no rollback. A channel whose tag was moved back without a record is put back in the same
way, and nothing is held.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB, Manifest
from ci_automation.errors import PolicyRefused, UsageError, VerificationFailed
from ci_automation.flows.observe import ChannelMoved, Observed, Trust, look_at
from ci_automation.flows.planning.base import Contents, read_contents, read_shown, stated_options
from ci_automation.flows.planning.findings import findings, impact_of
from ci_automation.flows.publication.leaving import (
    Leaving,
    Present,
    Stray,
    put_back_from,
    read_leaving,
    read_present,
    require_last,
    sign_put_back,
)
from ci_automation.flows.publication.past import find_past, other_tags, prove_past, require_version
from ci_automation.flows.publication.placement import ChannelMovedBack, place, problem_of
from ci_automation.flows.publication.publish import move, require_counted
from ci_automation.flows.publication.recording import left_behind, mark_left, record_interrupted_rollback, sign_rollback
from ci_automation.flows.publication.tags import ImmutableTagTaken, VersionTags, digests_before, tag_for_ever
from ci_automation.impact.change import Certainty, Hazard
from ci_automation.policy.content import Content, hazard_verdicts
from ci_automation.policy.decision import Decision, Hold
from ci_automation.policy.gates import Situation
from ci_automation.registry.port import NotAnIndex
from ci_automation.report.findings import Findings
from ci_automation.report.rollback import Rollback
from ci_automation.signing.cluster import require_accepted_there
from ci_automation.signing.verify import ensure_signed

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.version import Version
    from ci_automation.records.ledger import Ledger
    from ci_automation.records.writer import RecordWriter

_THIS_RUN = timedelta(days=1)


class RollbackRefused(PolicyRefused):
    """A rollback breaks something that is not acknowledged."""

    def __init__(self, rollback: Rollback) -> None:
        what = f"{rollback.channel} was not rolled back to {rollback.target_version}"
        super().__init__(f"{what}: {'; '.join(rollback.obstacles)}")
        accept = " ".join(f"--acknowledge {each}" for each in rollback.breaks) or "--allow-removal"
        self.hint = f"Nothing was changed. Do what the message says, or accept that: {accept}"
        if any(it.final for it in rollback.findings.hazards):
            self.hint = "Nothing was changed. Go back to another digest: `history` lists them, and --to takes one."


class NothingHeld(UsageError):
    """A date for a hold, where a rollback holds nothing."""

    hint = "Leave out --until."
    message = "putting the channel back at what it had last holds nothing, so --until has no hold to end"


class Wish(Struct, frozen=True):
    """Request of a person: the target, the end of the hold, and the reason.

    `left` is what the channel had before an earlier attempt, which may have put it back and written no record of that.
    """

    to: str
    until: datetime | None = None
    reason: str = ""
    left: Digest | None = None


class RollbackProposal(Struct, frozen=True):
    """A rollback that was looked at, and what it takes to do it; `shown` is what a person says yes to."""

    shown: Rollback
    target: Observed
    options: Digest
    holds: tuple[Hold, ...]  # that the target needs: those of the base, and the new one
    left: Manifest | None = None  # of the base, if it is ours
    behind: tuple[Hold, ...] = ()  # on what the channel left before, which may have no note of that yet
    stray: Stray | None = None  # the tag was moved from the target without a record


def propose_rollback(channel: Reference, wish: Wish, ports: Ports, intent: Intent) -> RollbackProposal:
    """Return what moving `channel` back would do; nothing is written.

    What the channel has now need not have a trusted signature: nothing of it is taken along.

    Raises:
        NotInHistory: nothing says where to go back to, or that is not there.
        NoSigner, IdentityChange, NobodyTrusted: this run cannot sign the hold as a trusted signer.
        AmbiguousVersion, OtherVersion: where to go back to is not clear.
        NotOfThisChannel, PastNotOurs, ForeignSignature: what it names was never this channel's.
        NotBack: it is a newer version.
    """
    present = read_present(channel, ports)
    past = find_past(channel, wish.to, present.digest, ports)
    require_counted(ports)
    known = prove_past(channel, past, ports)
    past_one = replace(look_at(channel.at_digest(known.digest), ports), channel=channel, trust=Trust.VERIFIED)
    target = read_contents(past_one, ports, intent)
    require_version(channel, wish.to, known.digest, target.version)
    if known.digest == present.digest and wish.left and (was := put_back_from(past_one, wish.left, ports, intent)):
        present = Present(channel, was.digest, was)
    if known.digest == present.digest:
        return _repeated(past_one, target, wish, ports, intent, signs=not known.signed)
    leaving = read_leaving(present, known.digest, target, ports, intent)
    found = _findings(leaving.contents, target, ports, intent)
    versions = leaving.version, target.version
    shown = Rollback(channel, present.digest, versions[0], known.digest, versions[1], None, found, leaving.problem)
    tags = _astray(present, target.version, known.digest, ports, intent)
    shown = replace(shown, signs=not known.signed, version_tags=tags, moves_tags=intent.version_tags)
    options = stated_options(past_one, target)
    if leaving.stray:
        return _put_back(RollbackProposal(shown, past_one, options, ()), leaving.stray, wish, ports, intent)
    stated = leaving.contents.version if leaving.problem and leaving.contents else None
    hold = _new_hold(leaving, stated, shown, wish, ports)
    # Going back to what was on hold says that it is wanted.
    kept = tuple(it for it in leaving.kept if it.digest != known.digest)
    behind = (*kept, *left_behind(leaving.newest, hold, target.version))
    ended = next((it for it in leaving.kept if it.digest == known.digest), None)
    shown = _with_also(replace(shown, hold=hold, stated=stated, ended=ended), kept, ports, intent)
    return RollbackProposal(shown, past_one, options, (*kept, hold), leaving.ours, behind)


def _astray(base: Present, version: Version, target: Digest, ports: Ports, intent: Intent) -> tuple[str, ...]:
    """Return the version tags from the target's version on that lead elsewhere; if it has none, to the base."""
    led = VersionTags(base.channel, version, ports).astray(target)
    return tuple(str(tag.tag) for tag, at in led.items() if intent.version_tags or at == base.digest)


def _with_also(shown: Rollback, kept: tuple[Hold, ...], ports: Ports, intent: Intent) -> Rollback:
    """Return it with the other holds that are on afterwards: the target's own, and those that are `kept`."""
    there = ports.ledger(shown.channel).holds(shown.target)
    of_rollback = shown.hold.digest if shown.hold else None
    found = {it.digest: it for it in (*there, *kept) if it.is_on(intent.now) and it.digest != of_rollback}
    return replace(shown, also=tuple(found.values()))


def _put_back(proposal: RollbackProposal, stray: Stray, wish: Wish, ports: Ports, intent: Intent) -> RollbackProposal:
    shown = _with_also(replace(proposal.shown, puts_back=True), (), ports, intent)
    if wish.until:
        raise NothingHeld
    return replace(proposal, shown=shown, behind=stray.behind, stray=stray)


def _new_hold(leaving: Leaving, stated: Version | None, shown: Rollback, wish: Wish, ports: Ports) -> Hold:
    hold = Hold(leaving.version, shown.base, ports.clock(), wish.until, wish.reason)
    # The digest counts as what it says: that keeps back nothing else.
    if leaving.foreign or leaving.version == shown.target_version:
        hold = replace(hold, version=max(leaving.version, stated or leaving.version), alone=True)
    return _hold_of_today(hold, shown.target, leaving.last, ports.ledger(shown.channel), ports)


def _hold_of_today(hold: Hold, target: Digest, came: datetime | None, ledger: Ledger, ports: Ports) -> Hold:
    """Return the new hold, or the same one that a run wrote today, which ended before it moved the channel.

    It is dated after `came`, when the channel came to where it was last, after the record of the digest that it
    refuses, and after an earlier rollback from that digest, whatever the clocks say: that of the later rollback counts.
    """
    present = [it for it in ledger.holds(target) if it.digest == hold.digest]
    moved = [record.at for record in replace(ledger, lenient=True).records(hold.digest)][-1:]
    before = max(filter(None, (*moved, came)), default=None)
    for it in present:
        if moved and before and it.at >= before and hold.at - it.at < _THIS_RUN and replace(it, at=hold.at) == hold:
            return it
    last = max(filter(None, (before, *(it.since for it in present))), default=None)
    return replace(hold, at=ports.later_than(last).clock())


def _findings(base: Contents | None, target: Contents, ports: Ports, intent: Intent) -> Findings:
    """Return what the gates say, roles turned round: what is there is the old, what was there is the new."""
    if base is not None:
        return findings(base, target, ports, intent)
    breaks = impact_of(None, target, ports, intent).hazards
    sentence = "the run cannot read the present digest of the channel, so the changes are unknown"
    # What clusters have may be as broken, so a person can accept whatever the target breaks.
    found = (replace(it, final=False) for it in breaks)
    hazards = (*found, Hazard("content", Certainty.UNCHECKED, "base", sentence))
    situation = Situation(target.version, intent.policy, intent.now)
    return Findings(hazards=hazards, gates=hazard_verdicts(Content(hazards=hazards), situation))


def _repeated(
    observed: Observed, target: Contents, wish: Wish, ports: Ports, intent: Intent, *, signs: bool
) -> RollbackProposal:
    """Return what is left to do where the channel is back already: the hold may change, a record may be missing.

    A hold that has ended is made anew only until a date that is named.
    """
    held = ports.ledger(observed.channel).holds(observed.digest)
    hold, ended = max(held, key=lambda it: it.order, default=None), None  # of the rollback that led here
    kept: tuple[Hold, ...] = ()
    if hold and not (wish.until or hold.is_on(intent.now)):
        hold, ended = None, hold
    if hold:
        until, reason = wish.until or hold.until, wish.reason or hold.reason
        if (until, reason) != (hold.until, hold.reason):
            hold = replace(hold, at=ports.later_than(hold.at).clock(), until=until, reason=reason, moved=hold.since)
            kept = (hold,)
    digest, version = observed.digest, target.version
    shown = Rollback(observed.channel, digest, version, digest, version, hold, Findings(), ended=ended)
    shown = _with_also(shown, (), ports, intent)
    astray: Exception | None
    try:
        astray = problem_of(place(observed, ports), version, ports)
    except (VerificationFailed, NotAnIndex) as error:
        astray = error
    last = astray.last if isinstance(astray, ChannelMovedBack) else None
    had = (last.version, last.digest) if last and last.digest != digest else None
    is_version = wish.to.removeprefix("v") == str(version).removeprefix("v")  # which any of its digests has
    others = other_tags(observed.channel, version, digest, ports) if is_version else ()
    shown = replace(shown, signs=signs, holds=bool(kept), problem=str(astray or ""), others=others, last=had)
    return RollbackProposal(shown, observed, stated_options(observed, target), kept)


def roll_back(proposal: RollbackProposal, ports: Ports, intent: Intent) -> None:
    """Do what was proposed, if the channel still is where it was then. It can be repeated after a crash at any point.

    Raises:
        RollbackRefused: a gate refuses it.
        ChannelMoved: the channel is somewhere else by now, or was.
        ClusterWouldRefuse: clusters would not accept the target.
        HoldNotKept: the registry does not keep the hold.
        ImmutableTagTaken: the target's immutable tag leads to another digest; everything else is done.
        VersionTagTaken: a version tag leads to a digest of another channel; everything else is done.
    """
    shown, signer = proposal.shown, ports.own_signer()
    if shown.decision is Decision.REFUSED:
        raise RollbackRefused(shown)
    registry, channel, manifest = ports.registry, shown.channel, proposal.target.manifest
    if (now := registry.resolve(channel)) not in {shown.base, shown.target}:
        raise ChannelMoved(channel, shown.base, now)
    if proposal.stray is not None and now != shown.target:
        require_last(proposal.stray, ports)
    registry.put_blob(channel, CONFIG_BLOB)  # what another tool published may lack it
    if shown.signs:
        read_shown(proposal.target, ports)
        ports.say(f"signing {shown.target} again")
        ensure_signed(registry, channel, shown.target, signer, intent.signature_format)
    _require_accepted(shown, ports)
    taken = None
    try:
        tag_for_ever(channel, shown.target_version, manifest, ports)
    except ImmutableTagTaken as error:  # no cluster follows that tag
        taken = error
    writer = ports.writer(channel, intent.run)
    writer.keep(manifest, proposal.holds)
    if shown.is_there:
        record_interrupted_rollback(place(proposal.target, ports), ports, intent)
    else:
        _move_back(proposal, writer, ports, intent)
    if intent.version_tags:  # those from the target's version on lead to it then
        VersionTags(channel, shown.target_version, ports, digests_before(shown.base, proposal.holds)).settle(manifest)
    if taken is not None:
        raise taken


def _move_back(proposal: RollbackProposal, writer: RecordWriter, ports: Ports, intent: Intent) -> None:
    shown, manifest = proposal.shown, proposal.target.manifest
    if proposal.stray is not None:
        signed_record = sign_put_back(proposal.stray, proposal.options, writer, ports, intent)
    else:
        signed_record = sign_rollback(shown, proposal.options, writer, ports, intent)
    _require_accepted(shown, ports)  # a `prune` that saw no hold yet may have deleted it
    move(shown.channel, shown.base, manifest, ports)
    if proposal.left is not None and shown.hold is not None:
        writer.mark_left(proposal.left, shown.hold)
    mark_left(writer, proposal.behind)
    now = ports.registry.resolve(shown.channel)  # a publication that began before may have moved it again
    if now != shown.target:
        raise ChannelMoved(shown.channel, shown.target, now)
    ports.say("recording it")
    writer.attach(manifest, signed_record)
    writer.keep(manifest, proposal.holds)  # a slow writer may have overwritten their entries meanwhile


def _require_accepted(shown: Rollback, ports: Ports) -> None:
    """Raise `ClusterWouldRefuse` unless clusters accept the target."""
    versions = (shown.base_version, shown.target_version)  # of clusters before it, and after it
    require_accepted_there(ports.registry, shown.channel.at_digest(shown.target), ports.require_trusted(), versions)
