"""The state that a channel leaves when it goes back, read in a way that no planted object stops a rollback."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.manifest import InvalidManifest, Manifest
from ci_automation.errors import Error, PolicyRefused
from ci_automation.flows.observe import Observed, look_at
from ci_automation.flows.planning.base import Contents, read_contents
from ci_automation.flows.publication.placement import place, problem_of
from ci_automation.flows.publication.recording import kept_holds
from ci_automation.impact.change import in_shell
from ci_automation.policy.decision import Hold, still_on
from ci_automation.records.ledger import HIDING
from ci_automation.registry.port import NotFound
from ci_automation.signing.verify import ForeignSignature, Unsigned, verify

if TYPE_CHECKING:
    from datetime import datetime

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flux.version import Version
    from ci_automation.records.notes import Record


class NotBack(PolicyRefused):
    """A rollback would lead to a newer version than the present one."""

    hint = "Use `update` or `apply` to go to a newer version. `rollback` with `--lift` ends a hold."

    def __init__(self, channel: Reference, present: Version, wanted: Version) -> None:
        super().__init__(f"{wanted} is newer than {present}, which {channel} has")
        newer = "`update` goes to a newer version, and says how to go on where someone moved the channel back"
        self.hint = f"{newer}. {in_shell('rollback', str(channel), '--lift')} ends a hold."


class Present(Struct, frozen=True):
    """The digest that a channel has, and what is there; without that, `problem` says why it cannot be read."""

    channel: Reference
    digest: Digest
    observed: Observed | None
    problem: str = ""


class Leaving(Struct, frozen=True):
    """What a channel leaves: why that is not to be trusted, if so, its contents, if they can be read, and its version.

    `kept` are the holds that go on, `last` is when the channel was last said to come anywhere. `newest` is its newest
    record, where that is not about what it leaves, or where that is not where it belongs.
    """

    version: Version
    problem: str = ""
    contents: Contents | None = None
    ours: Manifest | None = None  # if it is
    kept: tuple[Hold, ...] = ()
    newest: Record | None = None
    last: datetime | None = None


def read_present(channel: Reference, ports: Ports) -> Present:
    """Return what `channel` has now, also if it cannot be read.

    Raises:
        NotFound: there is no such channel.
    """
    try:
        observed = look_at(channel, ports)
    except InvalidManifest as error:
        if (digest := ports.registry.resolve(channel)) is None:
            raise NotFound(str(channel)) from None
        return Present(channel, digest, None, str(error))
    return Present(channel, observed.digest, observed)


def read_leaving(present: Present, target: Contents, ports: Ports, intent: Intent) -> Leaving:
    """Return what a channel leaves that goes back to what has the contents of `target`.

    Without contents that are trusted the version is what signed statements say of the digest, or else the target's: a
    planted digest must not hold back every version by the number in it.

    Raises:
        NotBack: the target is newer than what the channel has.
        NotAnIndex, TooManyRecords: an attacker hides the holds of a digest that a trusted signer signed.
    """
    problem, contents = _problem(present, ports), None
    if present.observed is not None:
        try:
            contents = read_contents(present.observed, ports, intent)
        except Error:
            if not problem:
                raise
    version = target.version if problem or contents is None else contents.version
    if target.version > version:
        raise NotBack(present.channel, version, target.version)
    leaving = Leaving(version, problem, contents)
    if present.observed is not None and not problem:
        leaving = replace(leaving, ours=present.observed.manifest)
    return _with_past(leaving, present, target.version, ports, intent)


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


def _with_past(leaving: Leaving, present: Present, back_to: Version, ports: Ports, intent: Intent) -> Leaving:
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
    return replace(leaving, kept=kept, newest=newest, last=max(filter(None, moments), default=None))
