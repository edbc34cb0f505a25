"""Registries of container images, to look up the digests of image names. This module pulls no image."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

from ci_automation.artifact.reference import InvalidReference, OciRepository, Reference
from ci_automation.errors import UsageError
from ci_automation.registry.port import Unreachable

if TYPE_CHECKING:
    from ci_automation.artifact.reference import Digest
    from ci_automation.net.network import Network
    from ci_automation.net.waiting import Patience
    from ci_automation.registry.credentials import CredentialSource
    from ci_automation.registry.http import HttpRegistry

_DOCKER_HUB = "docker.io"
# The first part of a name with one of these is a host (distribution's `reference/normalize.go`, as in containerd).
_MARKS_OF_A_HOST = re.compile(r"[.:A-Z]")
_ATTEMPTS, _SECONDS = 3, 30.0  # for an answer without which a person can still decide


class InvalidImage(UsageError):
    """A text is not the name of an image, so no cluster can pull it."""

    hint = "Correct --registry, or `registry` under `flags` in the configuration."

    def __init__(self, image: str) -> None:
        super().__init__(f"{image[:200]!r} is not the name of an image with a tag or a digest")


def parse_image(image: str) -> Reference:
    """Return the reference for the name of an image, as containerd reads it.

    A name without a host belongs to Docker Hub. This leaves out a tag beside a digest, which is only for people.

    Raises:
        InvalidImage: the text is not a name, or has neither tag nor digest.
    """
    first, slash, _ = image.partition("/")
    named = image if slash and (first == "localhost" or _MARKS_OF_A_HOST.search(first)) else f"{_DOCKER_HUB}/{image}"
    try:
        reference = Reference.parse(f"oci://{named}")
    except InvalidReference:
        raise InvalidImage(image) from None
    if reference.digest is not None:
        return reference.at_digest(reference.digest)
    if reference.tag is None:
        raise InvalidImage(image)
    return reference


class ImageRegistries:
    """Registries by the names of their images. Threads may share it; it looks up each image once.

    It only asks for the right to read.
    """

    def __init__(self, credentials: CredentialSource, network: Network, patience: Patience | None = None) -> None:
        self._credentials = credentials
        self._network = network
        self._patience = patience
        self._lock = threading.Lock()
        self._registries: dict[str, HttpRegistry] = {}
        self._known: dict[Reference, Digest | None] = {}

    def digest(self, image: str) -> Digest | None:
        """Return the digest of `image`, or of its index for several platforms, or None if it does not exist.

        Raises:
            InvalidImage: the text is not the name of an image.
            RegistryError: the registry cannot be reached, or refuses to answer.
        """
        reference = parse_image(image)
        if reference not in self._known:
            found = self._known[reference] = self._resolved(reference)
            if found is not None:
                self._known[reference.at_digest(found)] = found
        return self._known[reference]

    def _resolved(self, reference: Reference) -> Digest | None:
        assert isinstance(reference.repository, OciRepository)  # noqa: S101  # for the type checker: an image's is one
        host = reference.repository.host
        try:
            return self._registry(host).resolve(reference)
        except UsageError as problem:  # of the credentials for a registry that is not the artifact's own
            raise Unreachable(host, str(problem)) from None

    def _registry(self, host: str) -> HttpRegistry:
        from ci_automation.net.waiting import Patience
        from ci_automation.registry.http import HttpRegistry  # loaded on the first lookup

        with self._lock:
            if host not in self._registries:
                patience = self._patience or Patience(_ATTEMPTS, _SECONDS)
                self._registries[host] = HttpRegistry(host, self._credentials, self._network, patience)
            return self._registries[host]
