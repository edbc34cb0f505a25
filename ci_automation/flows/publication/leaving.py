"""The state that a channel leaves when it goes back, read in a way that no planted object stops a rollback.

So is one whose tag a person moved without a record, and the way back to what it had last.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.manifest import InvalidManifest, Manifest
from ci_automation.errors import Error, PolicyRefused
from ci_automation.flows.observe import ChannelMoved, Observed, Placed, look_at
from ci_automation.flows.planning.base import Contents, present_version, read_contents
from ci_automation.flows.publication.placement import place, problem_of, putting_back
from ci_automation.flows.publication.recording import kept_holds, left_behind, record_of
from ci_automation.impact.change import in_shell
from ci_automation.policy.decision import Hold, still_on
from ci_automation.records.ledger import HIDING
from ci_automation.registry.port import ContentMismatch, NotFound
from ci_automation.signing.verify import ForeignSignature, Unsigned, verify

if TYPE_CHECKING:
    from datetime import datetime

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.version import Version
    from ci_automation.records.notes import Record
    from ci_automation.records.writer import RecordWriter

_LOST = (NotFound, ContentMismatch)  # raised where contents are gone, or damaged


class Stray(Struct, frozen=True):
    """A channel that is not where it belongs, though a trusted signer signed what it has, and what it had `last`.

    `behind` are the digests that a rollback to there left, if that wrote no record.
    """

    placed: Placed
    version: Version
    last: Record
    behind: tuple[Hold, ...] = ()

    @property
    def since(self) -> datetime:
        """Return the last moment that is said of either digest."""
        return max(filter(None, (self.last.at, self.placed.last)))


def find_stray(observed: Observed, version: Version, ports: Ports) -> Stray | None:
    """Return a channel, which has `version`, and what it had last; None if nothing says that it belongs there.

    What a rollback left, by the note on it, is nothing to go back to, also if an attacker deleted the rollback's hold.
    """
    placed, ledger = place(observed, ports), ports.ledger(observed.channel)
    if problem_of(placed, version, ports) is None:
        return None
    last = ledger.last()
    if last is None or last.digest == placed.digest:
        return None
    there = place(replace(look_at(placed.channel.at_digest(last.digest), ports), channel=placed.channel), ports)
    if there.left is not None:
        return None
    hold = there.rolled_back
    behind = (hold, *left_behind(ledger.newest(), hold, last.version)) if hold else ()
    return Stray(placed, version, last, behind)


def put_back_from(observed: Observed, left: Digest, ports: Ports, intent: Intent) -> Observed | None:
    """Return a channel as it was at `left`, if a run put it back from there to what it has, and wrote no record."""
    placed = place(observed, ports)
    if placed.rolled_back or ((it := placed.record) and it.previous == left and (it.put_back or it.rolled_back)):
        return None
    was = replace(look_at(observed.channel.at_digest(left), ports), channel=observed.channel)
    version = present_version(was, ports, intent)
    stray = find_stray(was, version, ports)
    return was if stray and stray.last.digest == observed.digest and stray.last.version >= version else None


def require_last(stray: Stray, ports: Ports) -> None:
    """Raise `ChannelMoved` if the channel had something else since: its tag may have been moved away once more."""
    now = find_stray(stray.placed, stray.version, ports)
    if now is None or now.last.digest != stray.last.digest:
        raise ChannelMoved(stray.placed.channel, stray.last.digest, now.last.digest if now else stray.placed.digest)


def sign_put_back(stray: Stray, options: Digest, writer: RecordWriter, ports: Ports, intent: Intent) -> bytes:
    """Return the signed record that a channel is again at what it had last; merges count as they did there."""
    last, now = stray.last, ports.later_than(stray.since).clock()
    made = replace(
        record_of(writer, intent, last.digest, last.version, options, now),
        previous=stray.placed.digest,
        proof=last.proof,
        promoted_from=last.promoted_from,
        approval=intent.approval,
        put_back=True,
        content=None if stray.behind else last.content,
    )
    return writer.sign(made)


class NotBack(PolicyRefused):
    """A rollback would lead to a newer version than the present one."""

    hint = "Use `update` or `apply` to go to a newer version. `rollback` with `--lift` ends a hold."

    def __init__(self, channel: Reference, present: Version, wanted: Version, stray: Stray | None = None) -> None:
        super().__init__(f"{wanted} is newer than {present}, which {channel} has")
        self.hint = f"`update` goes to a newer version. {in_shell('rollback', str(channel), '--lift')} ends a hold."
        if stray is not None:
            back = f"To put it back at {stray.last.version}, which it had last: {putting_back(channel, stray.last)}"
            self.hint = f"The tag of the channel was moved without a record. {back}."


class Present(Struct, frozen=True):
    """The digest that a channel has, and what is there; without that, `problem` says why it cannot be read."""

    channel: Reference
    digest: Digest
    observed: Observed | None
    problem: str = ""


class Leaving(Struct, frozen=True):
    """What a channel leaves: why that is not to be trusted, if so, its contents, if they can be read, and its version.

    `kept` are the holds that go on, `last` is when the channel was last said to come anywhere. `newest` is its newest
    record, where that is not about what it leaves, or where that is not where it belongs. `stray` says that its tag was
    moved there from the target, without a record; `foreign`, that only other channels published what it leaves, and
    that it had the target before.
    """

    version: Version
    problem: str = ""
    contents: Contents | None = None
    ours: Manifest | None = None  # if it is
    kept: tuple[Hold, ...] = ()
    newest: Record | None = None
    last: datetime | None = None
    stray: Stray | None = None
    foreign: bool = False


def read_present(channel: Reference, ports: Ports) -> Present:
    """Return what `channel` has now, also if it cannot be read.

    Raises:
        NotFound: there is no such channel.
    """
    try:
        observed = look_at(channel, ports)
    except (InvalidManifest, NotFound) as error:
        if (digest := ports.registry.resolve(channel)) is None:
            raise error if isinstance(error, NotFound) else NotFound(str(channel)) from None
        return Present(channel, digest, None, str(error))
    return Present(channel, observed.digest, observed)


def read_leaving(present: Present, to: Digest, target: Contents, ports: Ports, intent: Intent) -> Leaving:
    """Return what a channel leaves that goes back to the digest `to`, which has the contents of `target`.

    Without contents that are trusted and there, the version is what signed statements say of the digest, or else the
    target's: a planted digest must not hold back every version by the number in it.

    Raises:
        NotBack: the target is newer than what the channel has, and not what it had last before its tag was moved.
        NotAnIndex, TooManyRecords: an attacker hides the holds of a digest that a trusted signer signed.
    """
    problem, contents = _problem(present, ports), None
    if present.observed is not None:
        try:
            contents = read_contents(present.observed, ports, intent)
        except Error as error:
            if not (problem or isinstance(error, _LOST)):
                raise
    version = target.version if problem else _version(present, contents, target.version, ports)
    stray = None if problem else _stray(present, version, target.version, ports)
    if stray and stray.last.digest == to:
        return Leaving(version, contents=contents, stray=stray)
    if target.version > version:
        raise NotBack(present.channel, version, target.version, stray)
    leaving = Leaving(version, problem, contents)
    if present.observed is not None and not problem:
        leaving = replace(leaving, ours=present.observed.manifest)
    return _with_past(leaving, present, to, target.version, ports, intent)


def _version(present: Present, contents: Contents | None, target: Version, ports: Ports) -> Version:
    """Return the version of a trusted digest: as its contents have it, or where they are lost, as it is said to be."""
    if contents is not None:
        return contents.version
    stated = present.observed.version if present.observed else None
    said = replace(ports.ledger(present.channel), lenient=True).records(present.digest)
    return stated or max((it.version for it in said), default=target)


def _stray(present: Present, version: Version, target: Version, ports: Ports) -> Stray | None:
    """Return a channel whose tag was moved without a record, unless the target is older than what it has."""
    if present.observed is None or target < version:
        return None
    try:
        return find_stray(present.observed, version, ports)
    except HIDING:  # an attacker's, which stops no rollback
        if target > version:
            raise
        return None


def _problem(present: Present, ports: Ports) -> str:
    """Return why what a channel has is not to be trusted; nothing where it only lost its signature."""
    if present.observed is None:
        return present.problem
    try:
        verify(ports.registry, present.channel, present.digest, ports.require_trusted())
    except (Unsigned, ForeignSignature) as error:
        with suppress(*HIDING):  # which stops no rollback
            last = ports.ledger(present.channel).newest()
            if isinstance(error, Unsigned) and last is not None and last.digest == present.digest:
                return ""
        return str(error)
    return ""


def _with_past(
    leaving: Leaving, present: Present, to: Digest, back_to: Version, ports: Ports, intent: Intent
) -> Leaving:
    """Return it with the holds that go on, and what the channel had last where its place does not tell."""
    ledger = ports.ledger(present.channel)
    hidden = replace(ledger, lenient=True)
    kept = still_on((hidden if leaving.problem else ledger).holds(present.digest), back_to, intent.now)
    placed, is_astray = None, True
    with suppress(*HIDING):
        if present.observed is not None:
            placed = place(present.observed, ports)
            is_astray = bool(leaving.problem or problem_of(placed, leaving.version, ports))
    last = placed.last if placed else None
    if placed and placed.record and not is_astray:
        return replace(leaving, kept=kept, last=last)
    if is_astray:
        kept = (*kept_holds(present.digest, back_to, hidden, intent.now), *kept)
    newest, had = hidden.newest(), hidden.last()
    if leaving.problem:
        of_last = hidden.holds(had.digest) if had else ()
        known = [record.version for record in hidden.records(present.digest)]
        known += [hold.version for hold in of_last if hold.digest == present.digest and not hold.alone]
        leaving = replace(leaving, version=max((leaving.version, *known)))
    moments = (last, *(it.at for it in (newest, had) if it is not None))
    foreign = bool(placed and placed.others and had and had.digest == to)
    return replace(leaving, kept=kept, newest=newest, last=max(filter(None, moments), default=None), foreign=foreign)
