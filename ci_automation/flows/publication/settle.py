"""What has to be so before a channel moves, and what is written down after it has."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ci_automation.artifact.digest import Digest
from ci_automation.artifact.manifest import CONFIG_BLOB
from ci_automation.attestation import provenance, sbom
from ci_automation.attestation.hold import MEDIA_TYPE as HOLD
from ci_automation.attestation.provenance import Build, Source
from ci_automation.attestation.record import MEDIA_TYPE as RECORD
from ci_automation.attestation.record import Record, channel_name
from ci_automation.errors import SigningError, VerificationFailed
from ci_automation.flows.observe import ChannelMoved, Trust
from ci_automation.flows.publication import holds, records, statements
from ci_automation.flows.publication.adopt import adopt
from ci_automation.flows.publication.attest import attest
from ci_automation.flux.artifact import SOURCE, immutable_tag, stated_options_digest, stated_version
from ci_automation.flux.checksums import BUNDLE
from ci_automation.flux.inventory import images
from ci_automation.flux.pins import unpin

if TYPE_CHECKING:
    from datetime import datetime

    from ci_automation.artifact.manifest import Manifest
    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.observe import Observed
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flows.publication.publish import Publication
    from ci_automation.flux.version import Version
    from ci_automation.signing.signer import Signer


class ChannelMovedBack(VerificationFailed):
    """A channel points at a digest that it had left: an old one that is signed, and no longer wanted."""

    def __init__(self, channel: Reference, observed: Observed, later: Record) -> None:
        super().__init__(
            f"{channel} is at {observed.digest}, and a signed record says that it was moved on to {later.digest} "
            f"({later.version}) at {later.at:%Y-%m-%d %H:%M} UTC"
        )
        self.hint = (
            "Nothing was built on it. Find out who moved the channel back; to go on from where it was, let "
            f"{channel.tag} point at {later.digest} again. If it was you, use --adopt."
        )


class NotRecorded(SigningError):
    """A channel moved to what was signed and verified, and the record of that could not be signed."""

    hint = "Clusters need no record. The next run writes it."

    def __init__(self, channel: Reference, digest: Digest, problem: SigningError) -> None:
        super().__init__(f"{channel} is at {digest}, signed and verified, and that is not recorded: {problem}")


def refuse_moved_back(observed: Observed, version: Version, ports: Ports, intent: Intent) -> None:
    """Check that nobody moved the channel, which has `version`, back to what it had left, unless a person adopts it.

    Raises:
        ChannelMovedBack: a record says so.
        NotAdopted: a person was asked, and did not say yes.
    """
    if ports.trusted is None or observed.trust is Trust.ADOPTED:
        return
    channel = observed.channel
    tags = ports.registry.tags(channel)
    later = records.superseded_by(ports.registry, channel, observed.digest, version, ports.trusted, tags)
    if later is None:
        return
    if (now := ports.registry.resolve(channel)) != observed.digest:  # it was us who were slow
        raise ChannelMoved(channel, observed.digest, now)
    problem = ChannelMovedBack(channel, observed, later)
    if not intent.adopt:
        raise problem
    adopt(observed, str(problem), ports, intent)


def record(publication: Publication, ports: Ports, intent: Intent) -> None:
    """Write down that the channel moved, where somebody signs; no cluster needs it.

    Raises:
        NotRecorded: the record cannot be signed.
    """
    if ports.signer is None:
        return
    made = Record(
        channel=channel_name(publication.channel),
        digest=publication.composed.digest,
        previous=publication.base,
        version=publication.version,
        tag=immutable_tag(publication.version, publication.composed.digest),
        by=str(ports.signer.who),
        at=ports.clock(),
        proof=publication.proof,
        options=publication.composed.recipe.options.digest,
        run=intent.run.url or None,
        approval=publication.approval,
    )
    write_down(made, publication.channel, publication.composed.manifest, ports.signer, ports)


def write_down(made: Record, channel: Reference, manifest: Manifest, signer: Signer, ports: Ports) -> None:
    """Write the record of a move that is done.

    Raises:
        NotRecorded: it cannot be signed.
    """
    ports.say("recording it")
    try:
        records.write(ports.registry, channel, manifest, made, signer)
    except SigningError as problem:  # its own hint would say that nothing has changed
        raise NotRecorded(channel, made.digest, problem) from problem


def attest_publication(publication: Publication, signer: Signer, ports: Ports, intent: Intent) -> None:
    """Attach provenance and a list of the controllers (SBOM), signed by whoever signs the artifact."""
    ports.say("attaching provenance and SBOM")
    composed, release = publication.composed, publication.release
    recipe = composed.recipe
    build = Build(
        channel=publication.channel,
        version=publication.version,
        options=recipe.options,
        source=Source(
            uri=f"{SOURCE}/releases/download/{recipe.version}/{BUNDLE}",
            archive=Digest.of(release.files.bundle),
            content=recipe.release,
            commit=recipe.commit,
        ),
        base=publication.base,
        overlay=recipe.overlay.without(recipe.path).digest(),
        configuration=intent.config_digest,
        pins=unpin(recipe.components)[1],
    )
    run = provenance.Invocation(
        policy="approval" if publication.approval else "auto",
        proof=publication.proof,
        program=importlib.metadata.version("flux-manifests"),
        builder=None if isinstance(signer.who, Digest) else signer.who.subject,
        url=intent.run.url or None,
        approval=publication.approval,
    )
    predicates = {
        provenance.PREDICATE_TYPE: provenance.provenance(build, run),
        sbom.PREDICATE_TYPE: _contents(publication.version, recipe.components),
    }
    attest(ports.registry, publication.channel, composed.digest, predicates, signer)


def _contents(version: Version, components: str) -> dict[str, Any]:
    """Return the list of the controllers in a components file, with the digests of those that are pinned."""
    plain, pins = unpin(components)
    return sbom.sbom(version, images(plain), pins)


def settle_record(observed: Observed, ports: Ports, intent: Intent) -> None:
    """Write the record of where the channel is, if the run that moved it had no time to."""
    if ports.signer is None or ports.trusted is None or observed.trust is not Trust.VERIFIED:
        return
    said = statements.read(ports.registry, observed.channel, observed.digest, ports.trusted, (RECORD, HOLD))
    present = [found for found in records.believed(said) if found.is_for(observed.channel)]
    held = max(holds.believed(said, observed.channel), key=lambda hold: hold.since, default=None)
    rolled_back = held.digest if present and held and held.since > present[-1].at else None
    if present and rolled_back is None:
        return
    if (missing := _recovered(observed, ports.signer, ports.clock(), intent.run.url)) is not None:
        missing = replace(missing, previous=rolled_back, rolled_back=rolled_back is not None)
        refuse_moved_back(observed, missing.version, ports, intent)  # a record vouches for where the channel is
        ports.registry.put_blob(observed.channel, CONFIG_BLOB)
        records.write(ports.registry, observed.channel, observed.manifest, missing, ports.signer)


def _recovered(observed: Observed, signer: Signer, now: datetime, run: str) -> Record | None:
    """Return what can still be said of a publication; None where the artifact is not one of ours."""
    version, options = stated_version(observed.manifest), stated_options_digest(observed.manifest)
    if version is None or options is None:
        return None
    return Record(
        channel=channel_name(observed.channel),
        digest=observed.digest,
        previous=None,
        version=version,
        tag=immutable_tag(version, observed.digest),
        by=str(signer.who),
        at=now,
        proof=None,
        options=Digest.parse(options),
        run=run or None,
        recovered=True,
    )
