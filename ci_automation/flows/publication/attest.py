"""Attestations: provenance and a list of contents beside the signature, signed by the same signer.

Each is a Sigstore bundle v0.3, laid out as a signature in that format is, so that all tools find it. Flux takes every
such bundle for a signature since 2.8, and it may be the only one that it looks at; that it is signed by whoever signs
the artifact keeps the artifact verified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_automation.attestation.statement import InvalidStatement, Statement, subject_name
from ci_automation.signing import bundle

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.reference import Reference
    from ci_automation.registry.port import Registry
    from ci_automation.signing.signer import Signer


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
