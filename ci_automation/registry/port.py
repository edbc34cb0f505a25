"""The port to a registry, and what can go wrong behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ci_automation.errors import RegistryError

if TYPE_CHECKING:
    from ci_automation.artifact.digest import Digest
    from ci_automation.artifact.manifest import Descriptor, Manifest
    from ci_automation.artifact.reference import Reference

MAX_MANIFEST_BYTES = 4 << 20  # what the distribution spec asks registries to take
MAX_BLOB_BYTES = 100 << 20


class NotFound(RegistryError):
    """A repository, a tag, a manifest or a blob is not there."""

    hint = "Check the spelling. Registries also say so where the credentials lack the right to read."

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was not found")


class AccessDenied(RegistryError):
    """A registry refused the credentials, or their absence."""

    hint = "Log in with `docker login`, or give --registry-config; to push, the credentials need the right to write."


class Unreachable(RegistryError):
    """A registry could not be spoken to: its name, its certificate, the network, or a time-out."""

    hint = "Check the address and the network. All registries but those on this machine are spoken to over TLS."


class UnexpectedAnswer(RegistryError):
    """A registry answered what the distribution spec does not provide for."""

    hint = "Check that the address is a registry's. If it is, its log may say more; the run can be repeated."


class ContentMismatch(RegistryError):
    """A registry handed out other bytes than those asked for."""

    hint = "The registry, or something between, is damaged or lies. Nothing of it was used."

    def __init__(self, what: str, expected: object, found: object) -> None:
        super().__init__(f"{what}: expected {expected}, got {found}")


class Registry(Protocol):
    """A place that stores manifests and blobs by digest and names them by tag.

    Every adapter verifies what it returns: bytes handed out match the digest and size asked for, and no answer is longer than
    the caps above, or an error is raised. Any method may raise `AccessDenied`, `Unreachable` or `UnexpectedAnswer`.
    """

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
        """Store `data` in the reference's repository, unless it is there, and return its digest."""
        ...

    def put_manifest(self, reference: Reference, manifest: Manifest) -> Digest:
        """Store the bytes of `manifest` under the reference's digest or tag, and return their digest.

        Raises:
            ContentMismatch: the reference has another digest, or the registry answered with another.
        """
        ...

    def tags(self, reference: Reference) -> tuple[str, ...]:
        """Return all tags of the reference's repository, sorted; none where there is no such repository."""
        ...
