"""The port to a registry, and what can go wrong behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ci_automation.errors import Conflict, RegistryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.manifest import Descriptor, Manifest
    from ci_automation.artifact.reference import Reference
    from ci_automation.net.values import Complaint

MAX_MANIFEST_BYTES = 4 << 20  # what the distribution spec asks registries to take
MAX_BLOB_BYTES = 100 << 20


class NotFound(RegistryError):
    """A repository, a tag, a manifest or a blob is not there."""

    hint = (
        "Check the spelling; `init` makes a new channel. Registries also answer like this if the credentials lack the "
        "right to read."
    )

    def __init__(self, what: str, complaint: Complaint | None = None) -> None:
        super().__init__(f"{what} was not found" + (f" ({complaint})" if complaint else ""))
        self.complaint = complaint


class AccessDenied(RegistryError):
    """A registry refused the credentials, or their absence."""

    hint = "Log in with `docker login`, or give --registry-config. To push, the credentials need the right to write."

    def __init__(self, message: str, complaint: Complaint | None = None) -> None:
        super().__init__(message)
        self.complaint = complaint


class UnknownTokenHost(AccessDenied):
    """A registry sends its clients for tokens to a host that its credentials are not known to be meant for."""

    hint = (
        "Nothing was sent to that host. If the registry's documentation names it, set it as `tokenHost` under the "
        "`credentials` of the artifact in the configuration."
    )

    def __init__(self, registry: str, host: str) -> None:
        super().__init__(f"{registry} asks this run to send its credentials to {host}, another host")


class Unreachable(RegistryError):
    """A registry could not be spoken to: its name, its certificate, the network, or a time-out."""

    hint = "Check the address and the network. This program uses TLS for every registry that is not on this machine."

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"{host} could not be reached: {reason}")
        self.host = host
        self.reason = reason


class UnexpectedAnswer(RegistryError):
    """A registry answered what the distribution spec does not provide for."""

    hint = "Check that the address is a registry. If it is, see its log, and run again."

    def __init__(self, message: str, complaint: Complaint | None = None) -> None:
        super().__init__(message)
        self.complaint = complaint


class AnswerTooLong(UnexpectedAnswer):
    """A registry sends more than what was asked for can have; reading stopped there."""

    def __init__(self, host: str, cap: int, what: str = "this") -> None:
        super().__init__(f"{host} answered with more than the {cap} bytes that this program reads of {what}")


class ContentMismatch(RegistryError):
    """A registry handed out other bytes than those asked for, or stored others than it was given."""

    hint = "The registry or a proxy sent damaged or forged content. This run used nothing of it."

    def __init__(self, what: str, expected: object, found: object) -> None:
        super().__init__(f"{what}: expected {expected}, got {found}")


class TagMoved(Conflict):
    """A tag was moved by somebody else while it was being written, so that the write was not repeated."""

    hint = "Another writer moved the tag. Run the same command again; it starts from the present digest."

    def __init__(self, reference: Reference, expected: Digest | None, found: Digest | None) -> None:
        super().__init__(
            f"{reference} moved from {expected or 'nothing'} to {found or 'nothing'} while this run was writing it"
        )


class ReferrerLost(Conflict):
    """A referrer was stored, but others keep overwriting the tag that should list it."""

    hint = "Another writer is signing or attesting the same artifact. Run the same command again when it is done."

    def __init__(self, tag: Reference, digest: Digest, times: int) -> None:
        super().__init__(f"{tag} was written {times} times to list {digest}, and each time another writer overwrote it")


class NotAnIndex(RegistryError):
    """The tag that should list the referrers of a digest names something else."""

    hint = "This program never overwrites it. Delete the tag if you do not need its content."

    def __init__(self, tag: Reference, reason: str) -> None:
        super().__init__(f"{tag} should be the index of the digest's referrers, but is not: {reason}")


class DeletionRefused(RegistryError):
    """A registry does not let manifests be deleted."""

    hint = (
        "Nothing else was deleted. Many registries have their own retention rules, or need you to switch deletion on."
    )

    def __init__(self, reference: Reference, complaint: Complaint) -> None:
        super().__init__(f"{reference} cannot be deleted: {complaint}")
        self.complaint = complaint


class OtherRegistry(RegistryError):
    """A registry was asked for something in another one: a registry's credentials are for that registry alone."""

    hint = "This is a mistake in the program. Please report it."

    def __init__(self, registry: str, reference: Reference) -> None:
        super().__init__(f"{reference} is not in {registry}")


class Registry(Protocol):
    """A place that stores manifests and blobs by digest and names them by tag.

    Every adapter verifies what it returns: bytes handed out match the digest and size asked for, and no answer is
    longer than the caps above, or an error is raised. Any method may raise `AccessDenied`, `Unreachable` or
    `UnexpectedAnswer`.
    """

    def at_once(self, *work: Callable[[], Any]) -> list[Any]:
        """Do things that do not depend on each other, at the same time if requests take time, and return the results.

        If some fail, the error of the first of them in this order is raised, and nothing goes on afterwards. Only the
        first may start a program or make a folder: Ctrl-C lets it clean up, and not the others.
        """
        ...

    def identity(self, reference: Reference) -> str | None:
        """Return what signed statements call the reference's repository; None if it has no identity.

        Of a registry it is the address. A layout directory may be moved about and copied, so it has a random one of its
        own, if its first channel was made by `give_identity`.
        """
        ...

    def give_identity(self, reference: Reference) -> None:
        """Give the reference's repository an identity, if it is one without any and holds nothing yet."""
        ...

    def resolve(self, reference: Reference) -> Digest | None:
        """Return the digest of the manifest that `reference` names, or None where there is none."""
        ...

    def manifest(self, reference: Reference) -> Manifest:
        """Return the manifest that `reference` names; its bytes match the digest, if the reference has one.

        Raises:
            NotFound: there is none.
            InvalidManifest: it is an index, or not a manifest.
            ContentMismatch: its bytes are not what was asked for.
        """
        ...

    def blob(self, reference: Reference, descriptor: Descriptor) -> bytes:
        """Return the bytes of a blob of the reference's repository.

        Raises:
            NotFound: there is none.
            ContentMismatch: its bytes or their number are not the descriptor's.
        """
        ...

    def put_blob(self, reference: Reference, data: bytes) -> Digest:
        """Store `data` in the reference's repository, unless it is known to be there, and return its digest."""
        ...

    def mount_blob(self, reference: Reference, descriptor: Descriptor, source: Reference) -> bool:
        """Have a blob of the source's repository, in this registry, in the reference's too, and return whether it is.

        Where it is not, whatever the reason, its bytes have to be put (OCI distribution spec, *Mounting a blob from
        another repository*: a registry is free not to mount).

        Raises:
            OtherRegistry: the source is in another registry.
        """
        ...

    def put_manifest(self, reference: Reference, manifest: Manifest) -> Digest:
        """Store the bytes of `manifest` under the reference's digest or tag, and return their digest.

        Raises:
            ContentMismatch: the reference has another digest, or the registry answered with another.
            NotFound: a blob of the manifest is not there. Not every registry looks.
            TagMoved: while the tag was written, somebody else moved it.
        """
        ...

    def delete_manifest(self, reference: Reference) -> None:
        """Delete the manifest of the reference's digest, where it is there, and with it every tag that names it.

        There are registries whose tags stay, and keep it. Its blobs are the registry's to collect (OCI distribution
        spec v1.1, *Deleting Manifests*; not every registry allows it).

        Raises:
            InvalidReference: the reference has no digest.
            DeletionRefused: the registry does not do that.
        """
        ...

    def tags(self, reference: Reference) -> tuple[str, ...]:
        """Return all tags of the reference's repository, sorted; none where there is no such repository."""
        ...

    def referrers(self, reference: Reference, digest: Digest) -> tuple[Descriptor, ...]:
        """Return what in the reference's repository says it refers to `digest`, each with its kind and annotations.

        It is only listed: nothing of it is believed, nor that what it names is there. Where there is no API (OCI
        distribution spec v1.1, *Listing Referrers*; 404, 400 or 406, or no index by its media type, as
        go-containerregistry has it) the index under the tag `sha256-<hex>` is the list (*Referrers Tag Schema*).

        Raises:
            NotAnIndex: that tag names something else.
        """
        ...

    def put_referrer(self, reference: Reference, manifest: Manifest) -> Digest:
        """Store a manifest that has a subject by its digest, see that it is listed, and return the digest.

        A registry that lists it by itself says so (OCI distribution spec v1.1, *Pushing Manifests with Subject*). Where
        it does not, it is added to the index under the tag `sha256-<hex>` (*Referrers Tag Schema*), beside all that
        others put there.

        Raises:
            InvalidManifest: it has no subject.
            NotFound: a blob of the manifest is not there. Not every registry looks.
            NotAnIndex: that tag names something else, which stays.
            ReferrerLost: others kept overwriting the index.
        """
        ...
