"""The signed statements of moves that are about to be made, or were made by a run that wrote no record of them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation import __version__
from ci_automation.artifact.manifest import CONFIG_BLOB
from ci_automation.artifact.reference import Digest
from ci_automation.flows.planning.base import Contents, read_contents, stated_options
from ci_automation.flux.artifact import SOURCE, immutable_tag
from ci_automation.flux.bundle import BUNDLE
from ci_automation.flux.text import controller_images, unpin
from ci_automation.policy.decision import Hold, still_on
from ci_automation.records import predicates
from ci_automation.records.attached import attest
from ci_automation.records.ledger import HIDING, Ledger
from ci_automation.records.notes import Record
from ci_automation.registry.port import NotAnIndex

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ci_automation.flows.observe import Observed, Placed
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flows.publication.publish import Publication
    from ci_automation.flux.proof import Proof
    from ci_automation.flux.release import FetchedRelease
    from ci_automation.flux.version import Version
    from ci_automation.records.content import RecordedContent
    from ci_automation.records.writer import RecordWriter
    from ci_automation.report.rollback import Rollback


def attest_publication(
    publication: Publication, release: FetchedRelease, proof: Proof, ports: Ports, intent: Intent
) -> None:
    """Attach provenance and a list of the controllers (SBOM), signed by the signer of the artifact."""
    ports.say("attaching provenance and SBOM")
    composed, recipe = publication.composed, publication.composed.recipe
    signer = ports.own_signer()
    plain, pins = unpin(recipe.components)
    build = predicates.Build(
        channel=publication.channel,
        version=publication.version,
        options=recipe.options,
        source=predicates.Source(
            uri=f"{SOURCE}/releases/download/{recipe.version}/{BUNDLE}",
            archive=Digest.of(release.files.bundle),
            content=recipe.release,
            commit=recipe.commit,
        ),
        base=publication.base,
        overlay=recipe.overlay.without(recipe.path).digest(),
        configuration=intent.config_digest,
        pins=pins,
    )
    run = predicates.Invocation(
        policy="approval" if publication.approval else "auto",
        proof=proof,
        program=__version__,
        builder=None if isinstance(signer.who, Digest) else signer.who.subject,
        url=intent.run.url or None,
        approval=publication.approval,
    )
    made = {
        predicates.PROVENANCE_TYPE: predicates.provenance(build, run),
        predicates.SBOM_TYPE: predicates.sbom(publication.version, controller_images(plain), pins),
    }
    attest(ports.registry, publication.channel, composed.digest, made, signer)


def record_of(
    writer: RecordWriter, intent: Intent, digest: Digest, version: Version, options: Digest, at: datetime
) -> Record:
    """Return the record of a move to a digest, with what all records have; the caller adds what only this move has."""
    return Record(
        channel=writer.own.name,
        digest=digest,
        previous=None,
        version=version,
        tag=immutable_tag(version, digest),
        by=str(writer.signer.who),
        at=at,
        proof=None,
        options=options,
        run=writer.run,
        source=intent.run.source,
    )


def sign_publication(publication: Publication, writer: RecordWriter, ports: Ports, intent: Intent) -> bytes:
    """Return the signed record of a publication.

    Raises:
        SigningError: it cannot be signed.
    """
    composed = publication.composed
    options = composed.recipe.options.digest
    made = replace(
        record_of(writer, intent, composed.digest, publication.version, options, ports.clock()),
        previous=publication.base,
        proof=publication.proof,
        approval=publication.approval,
        recovered=publication.recovered,
        content=publication.content,
    )
    return writer.sign(made)


def kept_holds(present: Digest, version: Version, ledger: Ledger, now: datetime) -> tuple[Hold, ...]:
    """Return the holds on what a channel had last, which a person's adoption of another digest does not end.

    Raises:
        ImmutableTagMoved: a tag hides a digest.
    """
    last = ledger.last()
    if last is None or last.digest == present:
        return ()
    return tuple(it for it in still_on(ledger.holds(last.digest), version, now) if it.digest != present)


def record_adoption(observed: Observed, contents: Contents, ports: Ports, intent: Intent) -> None:
    """Write down that a person adopted what the channel has, and who, after the holds that go on.

    Raises:
        HoldNotKept: the registry does not keep the holds.
        SigningError: it cannot be signed.
    """
    channel = observed.channel
    ports.say(f"recording that {observed.digest} was adopted")
    ports.registry.put_blob(channel, CONFIG_BLOB)
    ledger, writer = ports.ledger(channel), ports.writer(channel, intent.run)
    writer.keep(observed.manifest, kept_holds(observed.digest, contents.version, ledger, intent.now))
    last, had = ledger.newest(), ledger.last()
    now = ports.later_than(had.at if had else None).clock()
    here = Hold(contents.version, observed.digest, now, reason="another digest was adopted")
    mark_left(writer, left_behind(last, here, contents.version))
    made = replace(
        record_of(writer, intent, observed.digest, contents.version, contents.options.digest, now),
        previous=last.digest if last and last.digest != observed.digest else None,
        approval=intent.approval_by("--adopt", now),
        adopted=True,
    )
    writer.write(observed.manifest, made)


def record_interrupted_rollback(placed: Placed, ports: Ports, intent: Intent) -> bool:
    """Write down that the channel was rolled back, if the run that did it had no time to: its hold says so.

    Return whether that was so.

    Raises:
        SigningError: it cannot be signed.
    """
    if (hold := placed.rolled_back) is None:
        return False
    registry, channel, contents = ports.registry, placed.channel, read_contents(placed, ports, intent)
    registry.put_blob(channel, CONFIG_BLOB)
    writer = ports.writer(channel, intent.run)
    mark_left(writer, (hold, *left_behind(writer.own.newest(), hold, contents.version)))
    options, now = stated_options(placed, contents), ports.later_than(placed.last).clock()
    made = record_of(writer, intent, placed.digest, contents.version, options, now)
    writer.write(placed.manifest, replace(made, previous=hold.digest, recovered=True, rolled_back=True))
    return True


def left_behind(last: Record | None, hold: Hold, version: Version) -> tuple[Hold, ...]:
    """Return a hold like this one on what a channel had last by its records, if it goes from there to a lower version.

    A writer of the registry may have moved it in between. Runs look for later moves among digests of the same
    or a higher version alone: without a note of its own, nothing would keep that person from moving it up again.
    """
    if last is None or last.version <= version or last.digest == hold.digest:
        return ()
    return (replace(hold, version=last.version, digest=last.digest),)


def mark_left(writer: RecordWriter, left: Iterable[Hold]) -> None:
    """Attach to each digest of these holds, if it is there, that the channel left it.

    Where an attacker put something else in the place of the list of referrers, no run goes on from the digest anyway.
    """
    for hold in left:
        at = writer.channel.at_digest(hold.digest)
        if writer.registry.resolve(at) is not None:
            with suppress(NotAnIndex):
                writer.mark_left(writer.registry.manifest(at), hold)


def sign_rollback(shown: Rollback, options: Digest, writer: RecordWriter, ports: Ports, intent: Intent) -> bytes:
    """Return the signed record of a rollback to what has these options; content from Git is its own again.

    Raises:
        SigningError: it cannot be signed.
    """
    ledger = ports.ledger(shown.channel)
    now = ports.later_than(shown.hold.at if shown.hold else None).clock()
    had = [record.content for record in ledger.records(shown.target)]
    content = had[-1] if had else None
    if content:
        ports.say(
            f"merges before {now:%Y-%m-%d %H:%M:%S} UTC, by the clock of {ports.whose_clock}, approve nothing now"
        )
    made = replace(
        record_of(writer, intent, shown.target, shown.target_version, options, now),
        previous=shown.base,
        approval=intent.approval,
        rolled_back=True,
        content=_back_again(content, shown, ledger, now) if content else None,
    )
    return writer.sign(made)


def _back_again(content: RecordedContent, shown: Rollback, ledger: Ledger, now: datetime) -> RecordedContent | None:
    """Return the content of a digest that is back: no merge before it counts again, and the last rules do.

    If the last rules are hidden, which stops no rollback, there is none: other content is asked for by digest.
    """
    try:
        left = ledger.records(shown.base)
        last = (left[-1].content if left else None) or ledger.last_content()
    except HIDING:
        return None
    return replace(content, at=max(now, content.at), rules=content.rules.after(last.rules) if last else content.rules)
