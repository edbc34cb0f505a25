"""The records of moves that are about to be made, or were made by a run that wrote none.

A record is signed before its channel moves, so that a signing service that fails leaves the channel where it is, and
attached after that, so that it claims nothing that has not happened (ADR 0004).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.artifact.manifest import CONFIG_BLOB
from ci_automation.attestation.record import Approval, Record
from ci_automation.flows.contents import stated_options
from ci_automation.flows.publication import holds, records, statements
from ci_automation.flux.artifact import immutable_tag

if TYPE_CHECKING:
    from ci_automation.flows.contents import Contents
    from ci_automation.flows.observe import Observed
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flows.publication.publish import Publication
    from ci_automation.policy.hold import Hold
    from ci_automation.signing.signer import Signer


def sign_publication(publication: Publication, signer: Signer, ports: Ports, intent: Intent) -> bytes:
    """Return the signed record of a publication.

    Raises:
        SigningError: it cannot be signed.
    """
    made = Record(
        channel=statements.channel_name(ports.registry, publication.channel),
        digest=publication.composed.digest,
        previous=publication.base,
        version=publication.version,
        tag=immutable_tag(publication.version, publication.composed.digest),
        by=str(signer.who),
        at=ports.clock(),
        proof=publication.proof,
        options=publication.composed.recipe.options.digest,
        run=intent.run.url or None,
        approval=publication.approval,
        recovered=publication.recovered,
    )
    return records.sign_record(made, publication.channel, signer)


def record_adoption(observed: Observed, contents: Contents, signer: Signer, ports: Ports, intent: Intent) -> None:
    """Write down that a person adopted what the channel has, and who.

    Raises:
        SigningError: it cannot be signed.
    """
    channel = observed.channel
    ports.say(f"recording that {observed.digest} was adopted")
    ports.registry.put_blob(channel, CONFIG_BLOB)
    last = records.newest(ports.registry, channel, ports.trusted) if ports.trusted else None
    now = ports.later_than(last.at if last else None).clock()
    made = Record(
        channel=statements.channel_name(ports.registry, channel),
        digest=observed.digest,
        previous=last.digest if last and last.digest != observed.digest else None,
        version=contents.version,
        tag=immutable_tag(contents.version, observed.digest),
        by=str(signer.who),
        at=now,
        proof=None,
        options=contents.options.digest,
        run=intent.run.url or None,
        approval=Approval(intent.run.actor or "command line", "--adopt", now),
        adopted=True,
    )
    records.write(ports.registry, channel, observed.manifest, made, signer)


def record_rollback(
    observed: Observed, contents: Contents, hold: Hold, signer: Signer, ports: Ports, intent: Intent
) -> None:
    """Write down that the channel was rolled back, if the run that did it had no time to: its hold says so.

    Raises:
        SigningError: it cannot be signed.
    """
    registry, channel = ports.registry, observed.channel
    registry.put_blob(channel, CONFIG_BLOB)
    if registry.resolve(channel.at_digest(hold.digest)) is not None:
        holds.mark_left(channel, registry.manifest(channel.at_digest(hold.digest)), hold, signer, ports, intent)
    made = Record(
        channel=statements.channel_name(registry, channel),
        digest=observed.digest,
        previous=hold.digest,
        version=contents.version,
        tag=immutable_tag(contents.version, observed.digest),
        by=str(signer.who),
        at=ports.clock(),
        proof=None,
        options=stated_options(observed, contents),
        run=intent.run.url or None,
        recovered=True,
        rolled_back=True,
    )
    records.write(registry, channel, observed.manifest, made, signer)
