"""Attestations: provenance and a list of contents beside the signature, signed by the same signer.

Each is a Sigstore bundle v0.3, laid out as a signature in that format is, so that all tools find it. Flux takes every
such bundle for a signature since 2.8, and it may be the only one that it looks at; that it is signed by whoever signs
the artifact keeps the artifact verified.
"""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING, Any

from ci_automation.artifact.digest import Digest
from ci_automation.attestation import provenance, sbom
from ci_automation.attestation.provenance import Build, Source
from ci_automation.attestation.statement import InvalidStatement, Statement, subject_name
from ci_automation.flux.artifact import SOURCE
from ci_automation.flux.checksums import BUNDLE
from ci_automation.flux.inventory import images
from ci_automation.flux.pins import unpin
from ci_automation.signing import bundle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.reference import Reference
    from ci_automation.flows.ports import Intent, Ports
    from ci_automation.flows.publication.publish import Publication
    from ci_automation.flux.version import Version
    from ci_automation.registry.port import Registry
    from ci_automation.signing.signer import Signer


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


def attest(
    registry: Registry,
    channel: Reference,
    digest: Digest,
    predicates: Mapping[str, Mapping[str, Any]],
    signer: Signer,
) -> tuple[str, ...]:
    """Attach a signed statement about `digest` for each predicate, by its type; return the types that were missing.

    A valid statement of that type by the same signer is left as it is, whatever it says: the first run made it.

    Raises:
        NotFound: `digest` is not there.
        SigningError: a statement cannot be signed.
    """
    present = _present(registry, channel, digest, signer) if predicates else frozenset()
    missing = tuple(kind for kind in predicates if kind not in present)
    for kind in missing:
        statement = Statement(subject_name(channel), digest, kind, predicates[kind])
        bundle.attach(registry, channel, digest, signer.sign_statement(statement.to_bytes()), kind)
    return missing


def _present(registry: Registry, channel: Reference, digest: Digest, signer: Signer) -> frozenset[str]:
    """Return the types of the valid statements about `digest` that this signer made."""
    found = set()
    for each in bundle.read(registry, channel, digest):
        try:
            statement = Statement.parse(said[1]) if (said := bundle.proven(each, signer.trusted)) else None
        except InvalidStatement:  # a signature names its subject otherwise
            continue
        if statement is not None and statement.subject == digest:
            found.add(statement.predicate_type)
    return frozenset(found)
