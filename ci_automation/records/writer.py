"""Records and holds as they are signed and attached to digests of one channel.

A record is signed before its channel moves, so that a signing service that fails leaves the channel where it is, and
attached after that, so that it claims nothing that has not happened (ADR 0004). A hold is attached and read back before
the channel moves to its digest. What is published on top of that digest, and still is no newer version than the refused
one, gets the same hold.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ci_automation.artifact.manifest import CONFIG_BLOB, Descriptor, Manifest
from ci_automation.errors import VerificationFailed
from ci_automation.records import attached
from ci_automation.records.content import subject_name
from ci_automation.records.ledger import HOLD, RECORD, Ledger, left_at
from ci_automation.records.notes import HoldStatement, Note, Record, RefusedRelease

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ci_automation.artifact.reference import Reference
    from ci_automation.policy.decision import Hold
    from ci_automation.registry.port import Registry
    from ci_automation.signing.signer import Signer
    from ci_automation.signing.trust import Trusted

_TICK = timedelta(microseconds=1)


class HoldNotKept(VerificationFailed):
    """The registry does not return a hold, or the end of one, that was written; the channel did not move."""

    hint = (
        "Without it the next scheduled run would undo the rollback. Check that the registry keeps referrers, then run "
        "again."
    )

    def __init__(self, reference: Reference, *, ends: bool = False) -> None:
        what = "the end of the hold" if ends else "the hold"
        super().__init__(f"{what} on {reference} was written, but the registry does not return it")
        if ends:
            self.hint = "Check that the registry keeps referrers, then run again."


class RecordWriter(Struct, frozen=True):
    """Signs and attaches the records and holds of `channel`, in the run whose address is `run`.

    `trusted` are the signers whose holds count here. The blob `CONFIG_BLOB` must be in the repository. Each method
    raises `SigningError` if the signer cannot sign.
    """

    registry: Registry
    channel: Reference
    signer: Signer
    run: str | None = None
    say: Callable[[str], object] = str  # nothing is said
    trusted: Trusted | None = None

    @property
    def own(self) -> Ledger:
        """Return the records and holds of the channel that this signer signed."""
        return Ledger(self.registry, self.channel, self.signer.trusted)

    def sign(self, note: Note) -> bytes:
        """Return a signed record or hold."""
        statement = note.to_statement(subject_name(self.channel))
        return self.signer.sign_statement(statement.to_bytes(), attached.PAYLOAD_TYPE)

    def attach(self, manifest: Manifest, signed: bytes, check: Callable[[], None] | None = None) -> None:
        """Attach a signed record to the artifact with this manifest, if `check` raises no error; see `put_referrer`."""
        self._attach(manifest, RECORD, signed, check)

    def write(self, manifest: Manifest, record: Record) -> None:
        """Sign a record, and attach it to the artifact with this manifest."""
        self.attach(manifest, self.sign(record))

    def keep(self, manifest: Manifest, holds: Sequence[Hold]) -> None:
        """Attach to a manifest each of these holds that it lacks, and read them back.

        One that was lifted there before, and is in force where the channel comes from, is made anew.

        Raises:
            HoldNotKept: the registry does not show what was written.
        """
        counts = self.trusted is not None and self.trusted.names(self.signer.who)
        ledger = replace(self.own, trusted=self.trusted) if counts else self.own
        present = ledger.holds(manifest.digest) if holds else ()
        missing = [self._latest(hold, present) for hold in holds if not any(it.outlasts(hold) for it in present)]
        for hold in missing:
            self.say(f"{'ending the hold on' if hold.has_ended else 'holding'} {hold.digest}")
            self._attach_hold(manifest, hold)
        if missing:
            kept = ledger.holds(manifest.digest)
            if not all(_has(kept, hold) for hold in missing):
                raise HoldNotKept(self.channel.at_digest(manifest.digest), ends=all(it.has_ended for it in missing))

    def _latest(self, hold: Hold, present: Sequence[Hold]) -> Hold:
        """Return a hold, dated after each word about the same digest that is there."""
        words = [it for it in present if it.digest == hold.digest and it.order >= hold.order]
        if not words:
            return hold
        since = max(it.since for it in words)
        return replace(hold, at=max(hold.at, *(it.at + _TICK for it in words)), moved=since)

    def mark_left(self, left: Manifest, hold: Hold) -> None:
        """Attach to the refused digest that a rollback moved the channel away from it, unless that is attached.

        Without it only the older digest would tell, which no run reads: an attacker could move the channel up again.
        """
        own = replace(self.own, lenient=True)  # where a mark cannot be read, another one is made
        known = left_at(own.said(left.digest, HOLD), own.name)
        if known is None or known < hold.since:
            self._attach_hold(left, hold)

    def _attach_hold(self, manifest: Manifest, hold: Hold) -> None:
        statement = HoldStatement(
            channel=self.own.name,
            digest=manifest.digest,
            refused=RefusedRelease(hold.version, hold.digest),
            until=hold.until,
            reason=hold.reason,
            by=str(self.signer.who),
            at=hold.at,
            run=self.run,
            moved=hold.moved,
            alone=hold.alone,
        )
        self._attach(manifest, HOLD, self.sign(statement))

    def _attach(self, manifest: Manifest, kind: str, signed: bytes, check: Callable[[], None] | None = None) -> None:
        """Attach it, embedded in what refers to it as well, so that its readers need fewer requests."""
        self.registry.put_blob(self.channel, signed)
        referrer = Manifest.build(
            Descriptor.of(attached.CONFIG_TYPE, CONFIG_BLOB),
            (Descriptor.embedding(kind, signed),),
            artifact_type=kind,
            subject=Descriptor.of(manifest.media_type, manifest.raw),
        )
        self.registry.put_referrer(self.channel, referrer, check)


def _has(present: Sequence[Hold], wanted: Hold) -> bool:
    """Return whether a hold is there, or a later word about the same digest."""
    return any(hold == wanted or (hold.digest == wanted.digest and hold.order > wanted.order) for hold in present)
