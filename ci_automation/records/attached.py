"""Signed statements beside a digest, each in a Sigstore bundle that is a referrer of the digest.

Records and holds have media types of their own (design section 5.1), so that Flux does not take them for signatures. An
attestation (provenance, SBOM) is laid out as a signature in that format is, so that all tools find it. Flux takes every
such bundle for a signature since 2.8, and it may be the only one that it looks at; the signer of the artifact signs it
too, which keeps the artifact verified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.artifact.manifest import Descriptor, InvalidManifest, Manifest
from ci_automation.errors import VerificationFailed
from ci_automation.records.content import InvalidStatement, Statement, subject_name
from ci_automation.records.notes import HoldStatement, InvalidNote, Record
from ci_automation.registry.port import ContentMismatch, NotFound, Registry
from ci_automation.signing import bundle
from ci_automation.signing.bundle_format import Bundle

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.signing.signer import Signer
    from ci_automation.signing.trust import Trusted

_NAMES = {Record.media_type: "publication record", HoldStatement.media_type: "hold"}
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_MAX_BYTES = 1 << 20
# No verifier of artifacts takes an envelope of this type, so that a statement attached as a bundle is no signature.
PAYLOAD_TYPE = "application/vnd.flux-manifests.statement.v1+json"
MAX_STATEMENTS = 64  # of one kind


class TooManyRecords(VerificationFailed):
    """A digest has so many records or holds that one could be hidden among them."""

    hint = "A writer of the registry attached them. Find out who, and delete those that are not yours."

    def __init__(self, reference: Reference, kind: str, number: int) -> None:
        super().__init__(f"{reference} has {number} {_NAMES[kind]}s, more than the limit of {MAX_STATEMENTS}")


class Said(Struct, frozen=True):
    """A statement by a trusted signer: its kind, its signer (as `Verified.by` prints itself), and its content."""

    kind: str
    by: str
    statement: Statement


def channel_name(registry: Registry, channel: Reference) -> str:
    """Return the name of a channel in records and holds: the identity of its repository, and its tag."""
    return f"{registry.identity(channel) or 'layout'}:{channel.tag}"


def known_as(registry: Registry, channel: Reference, name: str) -> str:
    """Return how people know a channel that a record names: by its address, if it is in the repository of `channel`.

    Another layout directory has a name only in records, which is no path.
    """
    repository, _, tag = name.rpartition(":")
    if repository == channel_name(registry, channel).rpartition(":")[0]:
        return str(channel.at_tag(tag))
    return f"{tag} of another layout directory" if repository.startswith("layout:") else name


def read_statements(
    registry: Registry, reference: Reference, digest: Digest, trusted: Trusted, kinds: Collection[str]
) -> tuple[Said, ...]:
    """Return the statements of these kinds about `digest` by trusted signers; others are ignored.

    Raises:
        NotAnIndex: an attacker put something else in the place of the list of referrers.
        TooManyRecords: an attacker attached very many.
    """
    # Some registries list every referrer under the type of its configuration (go-containerregistry `pkg/registry`).
    listed = [it for it in registry.referrers(reference, digest) if it.artifact_type in {*kinds, CONFIG_TYPE}]
    for kind in kinds:
        if (number := sum(it.artifact_type in {kind, CONFIG_TYPE} for it in listed)) > MAX_STATEMENTS:
            raise TooManyRecords(reference.at_digest(digest), kind, number)
    found = (said for each in listed for said in _said(registry, reference, each, trusted, kinds))
    return tuple(said for said in found if said.statement.subject == digest)


def _said(
    registry: Registry, reference: Reference, candidate: Descriptor, trusted: Trusted, kinds: Collection[str]
) -> Iterator[Said]:
    """Yield the statement in a referrer, if a trusted signer signed it.

    What the list of referrers or the referrer embeds is read from there; else the registry is asked for it.
    """
    try:
        raw = candidate.content
        layers = (Manifest.parse(raw) if raw else registry.manifest(reference.at_digest(candidate.digest))).layers
        kind = layers[0].media_type
        if len(layers) != 1 or kind not in kinds or layers[0].size > _MAX_BYTES:
            return
        found = Bundle.parse(layers[0].content or registry.blob(reference, layers[0]))
        if found and (said := bundle.proven(found, trusted, PAYLOAD_TYPE)):
            yield Said(kind, str(said[0]), Statement.parse(said[1]))
    except (NotFound, ContentMismatch, InvalidManifest, InvalidStatement):
        return


def unverified_note(kind: str, raw: bytes) -> Record | HoldStatement | None:
    """Return the record or the hold in a bundle; its signature is not verified."""
    note = next((it for it in (Record, HoldStatement) if it.media_type == kind), None)
    found = Bundle.parse(raw) if note else None
    if note is None or found is None or found.envelope is None:
        return None
    try:
        return note.from_statement(Statement.parse(found.envelope.payload))
    except (InvalidStatement, InvalidNote):
        return None


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
    found = attestations(registry, channel, digest, signer.trusted) if predicates else ()
    present = {said.kind for said in found}
    missing = tuple(kind for kind in predicates if kind not in present)
    for kind in missing:
        statement = Statement(subject_name(channel), digest, kind, predicates[kind])
        bundle.attach_bundle(registry, channel, digest, signer.sign_statement(statement.to_bytes()), kind)
    return missing


def attestations(registry: Registry, reference: Reference, digest: Digest, trusted: Trusted) -> Iterator[Said]:
    """Yield the attestations of `digest` by trusted signers; the kind of each is its predicate type."""
    for each in bundle.read_bundles(registry, reference, digest):
        try:
            said = bundle.proven(each, trusted)
            statement = Statement.parse(said[1]) if said else None
        except InvalidStatement:  # a signature names its subject otherwise
            continue
        if said is not None and statement is not None and statement.subject == digest:
            yield Said(statement.predicate_type, str(said[0]), statement)
