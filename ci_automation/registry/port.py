"""Port to a registry, and its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from ci_automation.errors import Conflict, RegistryError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ci_automation.artifact.index import Index
    from ci_automation.artifact.manifest import Descriptor, Manifest
    from ci_automation.artifact.reference import Digest, Reference
    from ci_automation.net.values import Complaint

MAX_MANIFEST_BYTES = 4 << 20  # what the distribution spec asks registries to take
MAX_BLOB_BYTES = 100 << 20
_NEW = "`init` or `promote` makes a new channel"
_NAMED = 9  # channels in a hint


class NotFound(RegistryError):
    """A repository, a tag, a manifest or a blob is not there."""

    hint = f"Check the spelling; {_NEW}. Registries also answer like this if the credentials lack the right to read."

    def __init__(self, what: str, complaint: Complaint | str = "") -> None:
        super().__init__(f"{what} was not found" + (f" ({complaint})" if complaint else ""))

    def name_channels(self, tags: Collection[str]) -> None:
        """Name the channels among `tags` in the hint, without a word of credentials, which sufficed to list them."""
        named = [it for it in tags if it[:2].strip("v0123456789") and not it.startswith("sha256-")]
        more = " and more" if len(named) > _NAMED else ""
        there = f"Channels there: {', '.join(named[:_NAMED])}{more}" if named else "There is no channel"
        self.hint = f"{there}. Check the spelling; {_NEW}."


class AccessDenied(RegistryError):
    """A registry refused the credentials, or their absence."""

    hint = "Log in with `docker login`, or give --registry-config. To push, the credentials need the right to write."

    def __init__(self, message: str, found_in: str = "") -> None:
        super().__init__(message)
        if found_in:
            correct = "Correct it, or give another file with --registry-config. To push, it needs the right to write."
            self.hint = f"The login is the one in {found_in}. {correct}"


class UnknownTokenHost(AccessDenied):
    """A registry names a token server on another host, which may not see its credentials."""

    hint = (
        "Nothing was sent to that host. If the registry's documentation names it, set it as `tokenHost` under the "
        "`credentials` of the artifact in the configuration."
    )

    def __init__(self, registry: str, host: str) -> None:
        super().__init__(f"{registry} asks this run to send its credentials to {host}, another host")


class Unreachable(RegistryError):
    """A registry cannot be reached: its name, its certificate, the network or a time-out."""

    hint = "Check the address and the network."

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"{host} could not be reached: {reason}")


class UnexpectedAnswer(RegistryError):
    """A registry gave an answer that is not in the distribution spec."""

    hint = "Check that the address is a registry. If it is, see its log, and run again."


class AnswerTooLong(UnexpectedAnswer):
    """A registry sent an answer above the size limit; reading stopped there."""

    def __init__(self, host: str, cap: int, what: str = "this") -> None:
        super().__init__(f"{host} answered with more than the {cap} bytes that this program reads of {what}")


class ContentMismatch(RegistryError):
    """A registry returned or stored other bytes than the expected ones."""

    hint = "The registry or a proxy sent damaged or forged content. This run used nothing of it."

    def __init__(self, what: str, expected: object, found: object) -> None:
        super().__init__(f"{what}: expected {expected}, got {found}")


class TagMoved(Conflict):
    """Another writer moved a tag while this run wrote it."""

    hint = "Another writer moved the tag. Run the same command again; it starts from the present digest."

    def __init__(self, reference: Reference, expected: Digest | None, found: Digest | None) -> None:
        super().__init__(
            f"{reference} moved from {expected or 'nothing'} to {found or 'nothing'} while this run was writing it"
        )


class ReferrerLost(Conflict):
    """Other writers keep overwriting the tag that lists referrers."""

    hint = "Another writer is signing or attesting the same artifact. Run the same command again when it is done."

    def __init__(self, tag: Reference, digest: Digest, times: int) -> None:
        super().__init__(f"{tag} was written {times} times to list {digest}, and each time another writer overwrote it")


class NotAnIndex(RegistryError):
    """The tag for the index of a digest's referrers names something else."""

    hint = "This program never overwrites it. Delete the tag if you do not need its content."

    def __init__(self, tag: Reference, reason: str) -> None:
        super().__init__(f"{tag} should be the index of the digest's referrers, but is not: {reason}")


class DeletionRefused(RegistryError):
    """A registry refuses to delete manifests."""

    hint = (
        "Nothing else was deleted. Many registries have their own retention rules, or need you to switch deletion on."
    )

    def __init__(self, reference: Reference, complaint: Complaint) -> None:
        super().__init__(f"{reference} cannot be deleted: {complaint}")


class OtherRegistry(RegistryError):
    """A reference is of another registry than this connection and its credentials."""

    hint = "This is a mistake in the program. Please report it."

    def __init__(self, registry: str, reference: Reference) -> None:
        super().__init__(f"{reference} is not in {registry}")


class Registry(Protocol):
    """A place that stores manifests and blobs by digest and names them by tag.

    Every adapter verifies its results: returned bytes match the requested digest and size, and no answer exceeds the
    caps above; otherwise the method raises an error. Any method may raise `AccessDenied`, `Unreachable` or
    `UnexpectedAnswer`.
    """

    def at_once(self, *work: Callable[[], Any]) -> list[Any]:
        """Run independent work, in parallel if requests take time, and return the results.

        If some of it fails, raise the first error in this order after all work has ended. Only the first piece of work
        may start a program or make a folder, because Ctrl-C lets only that one clean up.
        """

    def identity(self, reference: Reference) -> str | None:
        """Return the name of the reference's repository in signed statements, or None if it has no identity.

        The identity in a registry is the address. A layout directory may be moved or copied, so its identity is random,
        made by `give_identity` with the first channel.
        """

    def give_identity(self, reference: Reference) -> None:
        """Give the reference's repository an identity, if it is empty and has none."""

    def resolve(self, reference: Reference) -> Digest | None:
        """Return the digest of the manifest that `reference` names, or None if it does not exist."""

    def manifest(self, reference: Reference) -> Manifest:
        """Return the manifest that `reference` names; its bytes match the digest, if the reference has one.

        Raises:
            NotFound: the manifest does not exist.
            InvalidManifest: the reference names an index, or something else.
            ContentMismatch: the bytes do not match the digest.
        """

    def stored(self, reference: Reference) -> Manifest | Index:
        """Return the manifest or the index that `reference` names; its bytes match the digest, if it has one.

        Raises:
            NotFound: it does not exist.
            InvalidManifest, InvalidIndex: it is neither.
            ContentMismatch: the bytes do not match the digest.
        """

    def blob(self, reference: Reference, descriptor: Descriptor) -> bytes:
        """Return the bytes of a blob of the reference's repository.

        Raises:
            NotFound: the blob does not exist.
            ContentMismatch: the bytes do not match the descriptor's digest and size.
        """

    def require_writable(self, reference: Reference) -> None:
        """Raise `AccessDenied` or `LayoutUnusable` unless the credentials may write there; nothing is stored."""

    def put_blob(self, reference: Reference, data: bytes) -> Digest:
        """Store `data` in the reference's repository, unless it is already known there, and return its digest."""

    def has_blob(self, reference: Reference, descriptor: Descriptor) -> bool:
        """Return whether the reference's repository has a blob; a directory's has it only if it is undamaged."""

    def fetch_blob(self, reference: Reference, descriptor: Descriptor, file: BinaryIO) -> None:
        """Write a blob of the reference's repository, which may be too large for memory, to a file.

        Raises:
            NotFound: the blob does not exist.
            ContentMismatch: the bytes do not match the descriptor's digest and size.
            NoSpace: the file cannot be written.
        """

    def send_blob(self, reference: Reference, descriptor: Descriptor, file: BinaryIO) -> None:
        """Store the blob that a file has, as `fetch_blob` wrote it, in the reference's repository."""

    def mount_blob(self, reference: Reference, descriptor: Descriptor, source: Reference) -> bool:
        """Mount a blob from the source's repository in the reference's, and return whether the blob is there now.

        If not, for whatever reason, the caller has to put the bytes (OCI distribution spec, *Mounting a blob from
        another repository*: a registry is free not to mount).

        Raises:
            OtherRegistry: the source is in another registry.
        """

    def put_manifest(self, reference: Reference, manifest: Manifest | Index) -> Digest:
        """Store the bytes of `manifest` under the reference's digest or tag, and return their digest.

        Raises:
            ContentMismatch: the reference has another digest, or the registry answered with another.
            NotFound: the registry lacks a blob of the manifest, or a manifest of the index. Not every registry checks.
            TagMoved: another writer moved the tag during the write.
        """

    def delete_manifest(self, reference: Reference) -> None:
        """Delete the manifest with the reference's digest, if it exists, and with it every tag that names it.

        In some registries the tags stay, and keep the manifest. The registry collects the blobs (OCI distribution spec
        v1.1, *Deleting Manifests*; not every registry allows it).

        Raises:
            InvalidReference: the reference has no digest.
            DeletionRefused: the registry refuses to delete manifests.
        """

    def tags(self, reference: Reference) -> tuple[str, ...]:
        """Return all tags of the reference's repository, sorted; an empty tuple if the repository does not exist.

        That it does not is no answer where a tag of it was read before.
        """

    def referrers(self, reference: Reference, digest: Digest) -> tuple[Descriptor, ...]:
        """Return the referrers of `digest` in the reference's repository, each with its kind and annotations.

        The list is not verified, and its entries may not exist. Without an API (OCI distribution spec v1.1, *Listing
        Referrers*; 404, 400 or 406, or an answer without the media type of an index, as in go-containerregistry) the
        index under the tag `sha256-<hex>` is the list (*Referrers Tag Schema*).

        Raises:
            NotAnIndex: that tag names something else.
        """

    def put_referrer(self, reference: Reference, manifest: Manifest, check: Callable[[], None] | None = None) -> Digest:
        """Store a manifest with a subject by its digest, make sure that it is listed, and return the digest.

        A registry that lists it by itself says so (OCI distribution spec v1.1, *Pushing Manifests with Subject*). In
        other registries this adds it to the index under the tag `sha256-<hex>` (*Referrers Tag Schema*), beside the
        entries of others. `check` is called before the manifest is listed; the error that it raises prevents that.

        Raises:
            InvalidManifest: the manifest has no subject.
            NotFound: the registry lacks a blob of the manifest. Not every registry checks.
            NotAnIndex: that tag names something else, which stays.
            ReferrerLost: other writers kept overwriting the index.
        """
