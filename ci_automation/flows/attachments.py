"""Attachments of a digest: a team's own files and notes, and the statements of signers about it.

A team's attachment is a referrer as oras writes it (OCI image spec v1.1, *Guidelines for Artifact Usage*): the files
are layers with their names in annotations. They are not signed: all writers of the repository can attach something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ci_automation.artifact.manifest import Descriptor, InvalidManifest, Manifest
from ci_automation.artifact.tree import Tree, TreeFile, UnfitPath
from ci_automation.errors import UsageError, VerificationFailed
from ci_automation.records import attached
from ci_automation.records.notes import Record
from ci_automation.registry.port import MAX_BLOB_BYTES, ContentMismatch, NotFound
from ci_automation.signing.bundle import EMPTY_BLOB, EMPTY_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.flows.ports import Ports
    from ci_automation.records.attached import Said
    from ci_automation.records.notes import HoldStatement

TITLE = "org.opencontainers.image.title"  # the name of a file, as oras has it
FILE_TYPE = "application/octet-stream"
# Programs take these for what they are: a signature that masks another, a record, a layer that clusters unpack.
_OF_OTHERS = tuple(
    f"application/vnd.{of}" for of in ("dev.sigstore", "dev.cosign", "flux-manifests", "cncf.flux", "oci.")
)
_MAX_READ = 64  # each costs a request
_MAX_BYTES = 4 * MAX_BLOB_BYTES  # of all files


class UnfitAttachment(UsageError):
    """Something that cannot be attached."""

    hint = (
        "Give a type of your own, such as --type application/vnd.acme.readme, and files with different names or "
        "an --annotation KEY=VALUE."
    )


class NothingStated(VerificationFailed):
    """No trusted signer attached such a statement to an artifact."""

    hint = "`update --attestations` attaches one to what it publishes. `discover` lists what is attached."

    def __init__(self, reference: Reference, what: str) -> None:
        super().__init__(f"no trusted signer attached {what} to {reference}")


class Attachment(Struct, frozen=True):
    """One referrer of a digest: its kind, its files with their sizes in bytes, and its annotations.

    `said` is what a record or a hold says, unverified, and `at` its moment. `problem` says why it could not be read.
    """

    digest: Digest
    kind: str
    files: tuple[Descriptor, ...] = ()
    annotations: Mapping[str, str] = {}
    said: str = ""
    at: datetime | None = None
    problem: str = ""

    def named(self) -> Iterator[tuple[str, Descriptor]]:
        """Yield each file that has a name, and what describes it."""
        return ((it.annotations[TITLE], it) for it in self.files if TITLE in it.annotations)

    def to_json(self) -> dict[str, Any]:
        """Return the attachment as JSON has it."""
        return {
            "digest": str(self.digest),
            "type": self.kind,
            "files": [{"name": name, "size": it.size, "digest": str(it.digest)} for name, it in self.named()],
            "annotations": dict(self.annotations),
            "said": self.said,
            "problem": self.problem,
        }


class Discovered(Struct, frozen=True):
    """All that refers to a digest, and the number of referrers left unread.

    The newest record or hold is the first; what has no time comes last, in the order of the registry.
    """

    digest: Digest
    attachments: tuple[Attachment, ...]
    left_out: int = 0


def attach(
    reference: Reference, kind: str, files: Iterable[TreeFile], annotations: Mapping[str, str], ports: Ports
) -> tuple[Digest, Digest]:
    """Attach files and annotations to what `reference` names, and return its digest and the attachment's.

    The same content gives the same digest: to attach it twice changes nothing.

    Raises:
        UnfitAttachment: the type is one that programs read, two files have one name, or there is nothing to attach.
        NotFound: the artifact is not there.
    """
    held = tuple(files)
    if kind.lower().startswith(_OF_OTHERS) or "/" not in kind or not kind.isprintable() or " " in kind:
        raise UnfitAttachment(f"{kind!r} is no type for an attachment of yours")
    if len({file.path for file in held}) < len(held):
        raise UnfitAttachment("two files have the same name")
    if not held and not annotations:
        raise UnfitAttachment("there is neither a file nor an annotation")
    registry = ports.registry
    subject = registry.manifest(reference)
    layers = tuple(Descriptor.of(FILE_TYPE, file.content, {TITLE: file.path}) for file in held)
    for blob in (EMPTY_BLOB, *(file.content for file in held)):
        registry.put_blob(reference, blob)
    empty = Descriptor.of(EMPTY_TYPE, EMPTY_BLOB)
    made = Manifest.build(
        empty,
        layers or (empty,),
        annotations,
        artifact_type=kind,
        subject=Descriptor.of(subject.media_type, subject.raw),
    )
    return subject.digest, registry.put_referrer(reference, made)


def discover(reference: Reference, ports: Ports, kind: str | None = None) -> Discovered:
    """Return what is attached to what `reference` names, all or of one kind; nothing of it is verified.

    Raises:
        NotFound: the artifact is not there.
        NotAnIndex: an attacker put something else in the place of the list of referrers.
    """
    digest = ports.registry.manifest(reference).digest
    listed = ports.registry.referrers(reference, digest)
    found = (_attachment(reference, it, ports) for it in listed[:_MAX_READ])
    chosen = (it for it in found if kind is None or it.kind == kind)
    newest = sorted(chosen, key=lambda it: it.at.timestamp() if it.at else 0, reverse=True)
    return Discovered(digest, tuple(newest), max(0, len(listed) - _MAX_READ))


def _attachment(reference: Reference, listed: Descriptor, ports: Ports) -> Attachment:
    try:
        manifest = ports.registry.manifest(reference.at_digest(listed.digest))
    except (NotFound, ContentMismatch, InvalidManifest) as error:
        return Attachment(listed.digest, listed.artifact_type or "unknown", problem=str(error))
    kind = manifest.artifact_type or manifest.config.media_type
    files = tuple(it for it in manifest.layers if it.media_type != EMPTY_TYPE)
    raw = manifest.layers[0].content if len(manifest.layers) == 1 else None
    note = attached.unverified_note(kind, raw) if raw else None
    return Attachment(
        listed.digest, kind, files, manifest.annotations, _said(note) if note else "", note.at if note else None
    )


def _said(note: Record | HoldStatement) -> str:
    """Return the version, channel and time (UTC) of an embedded record or hold."""
    what = str(note.version) if isinstance(note, Record) else f"{note.refused.version} on hold"
    return f"{what} on {note.channel.rpartition(':')[2]}, {note.at:%Y-%m-%d %H:%M}"


def attached_files(reference: Reference, attachments: Iterable[Attachment], ports: Ports) -> Tree:
    """Return the files of attachments that have names, each in a folder that is named like its attachment's digest.

    Raises:
        UnfitAttachment: a file, or all of them, are larger than any artifact, or a name leads elsewhere.
    """
    named = [(each.digest, name, layer) for each in attachments for name, layer in each.named()]
    if (size := sum(layer.size for _, _, layer in named)) > _MAX_BYTES:  # one blob can have a thousand names
        raise UnfitAttachment(f"the {len(named)} files have {size} bytes together, too many to read")
    found = []
    for digest, name, layer in named:
        if layer.size > MAX_BLOB_BYTES:
            raise UnfitAttachment(f"{name!r} of {digest} has {layer.size} bytes, too many to read")
        try:
            found.append(TreeFile(f"{digest.short}/{name}", ports.registry.blob(reference, layer)))
        except UnfitPath as error:
            raise UnfitAttachment(f"a name in {digest} is no name of a file: {error}") from None
    return Tree(tuple(found))


def stated(reference: Reference, predicate_type: str, what: str, ports: Ports) -> tuple[Digest, Said]:
    """Return the digest that `reference` names, and the first listed statement of this type by a trusted signer.

    `what` names it in a message.

    Raises:
        NothingStated: no trusted signer attached one.
        NobodyTrusted: no key or identity is given.
        NotFound: the artifact is not there.
    """
    trusted = ports.require_trusted()
    digest = ports.registry.manifest(reference).digest
    for said in attached.attestations(ports.registry, reference, digest, trusted):
        if said.kind == predicate_type:
            return digest, said
    raise NothingStated(reference.at_digest(digest), what)
