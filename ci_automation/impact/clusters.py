"""What is known of the clusters that follow a channel: stated or given as files, since the program never asks them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from ci_automation.errors import UsageError

if TYPE_CHECKING:
    from ci_automation.impact.crds.snapshot import Snapshot

ARTIFACTS = ("oci://", "layout:")
_MINOR = r"v?1\.(\d{1,3})(?:\.\d{1,5})?"
_RANGE = re.compile(rf"{_MINOR}(?:\s*-\s*{_MINOR})?")


class InvalidKubernetes(UsageError):
    """A text does not say which versions of Kubernetes clusters have."""

    hint = "Write the version, such as 1.34, or the lowest and the highest, such as 1.34-1.36."

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:80]!r} is no version of Kubernetes, nor a range of them")


class KubernetesRange(Struct, frozen=True):
    """The lowest and the highest minor release that the clusters of a channel have, 33 for 1.33."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the range that `text` writes.

        Raises:
            InvalidKubernetes: it is none, or upside down.
        """
        match = _RANGE.fullmatch(text.strip())
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise InvalidKubernetes(text)
        return cls(int(match[1]), int(match[2] or match[1]))

    def __str__(self) -> str:
        return f"1.{self.lowest}" + (f"-1.{self.highest}" if self.highest != self.lowest else "")


class GivenFile(Struct, frozen=True):
    """A file of manifests to look at, by the name that the user knows it by.

    A file in an artifact has the artifact's address before its path.
    """

    name: str
    content: bytes


class Clusters(Struct, frozen=True):
    """Their versions of Kubernetes, which versions of custom resources they store, and their manifests."""

    kubernetes: KubernetesRange | None = None
    snapshots: tuple[Snapshot, ...] = ()
    files: tuple[GivenFile, ...] = ()
