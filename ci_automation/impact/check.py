"""The input and the result of every check of a step, and what is known of the clusters that follow a channel.

That is stated or given as files, since the program never asks a cluster.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol, Self

from msgspec import Struct, field

from ci_automation.artifact.tree import Tree
from ci_automation.errors import UsageError
from ci_automation.flux.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from ci_automation.artifact.reference import Digest
    from ci_automation.flux.release import Release
    from ci_automation.flux.version import Version
    from ci_automation.impact.change import Change, FileDiff, Hazard, ObjectId
    from ci_automation.impact.crds.versions import Snapshot
    from ci_automation.impact.overlay.builder import Kustomize
    from ci_automation.impact.rights import FolderRights

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
        """Return the range that `text` writes; raise `InvalidKubernetes` if it is none, or upside down."""
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
    """Clusters: their versions of Kubernetes, which versions of custom resources they store, and their manifests."""

    kubernetes: KubernetesRange | None = None
    snapshots: tuple[Snapshot, ...] = ()
    files: tuple[GivenFile, ...] = ()

    @property
    def oldest(self) -> tuple[Version, str] | None:
        """Return the oldest Flux in the snapshots, and in which; None if one does not say, or there are none."""
        found = [(it.flux, it.name) for it in self.snapshots if it.flux is not None]
        return min(found) if found and len(found) == len(self.snapshots) else None


def _silent(_: str) -> None:
    """Say nothing."""


class Images(Protocol):
    """The registries that the controllers' images come from."""

    def digest(self, image: str) -> Digest | None:
        """Return the digest that `image`, such as `ghcr.io/fluxcd/source-controller:v1.9.4`, has, or None: not there.

        Raises:
            RegistryError: the registry cannot be reached, or does not let us look.
        """


class Applied(Struct, frozen=True):
    """What clusters apply on one side of a step: the components file at `path`, and the files around it."""

    components: str
    version: Version | None = None  # None: the components file does not say it
    overlay: Tree = field(default_factory=lambda: Tree(()))
    path: str = ""
    registry: str = Options().registry
    name: str = ""  # as the user named this side

    @property
    def files(self) -> Tree:
        """Return all files."""
        return self.overlay.replaced(self.path, self.components.encode())


class Known(Struct, frozen=True):
    """What is known besides the two sides of a step, and who can be asked."""

    clusters: Clusters = field(default_factory=Clusters)
    releases: Sequence[Release] = ()
    now: datetime | None = None  # None: the date plays no part
    kustomize: Kustomize | None = None  # None: this machine has none
    images: Images | None = None  # None: no registry is asked
    folder: str = ""  # that a person named for the overlay; empty: its files are those of the artifact
    build: bool = True  # whether the overlay is to be built
    kustomization: Mapping[str, Any] = field(default_factory=dict)  # the spec by which clusters apply it, if known
    say: Callable[[str], None] = _silent


class Seen(Struct, frozen=True):
    """Findings of a check; if it can tell, the objects that a prune would delete, and changes that no file shows."""

    hazards: tuple[Hazard, ...] = ()
    pruned: tuple[ObjectId, ...] = ()
    changes: tuple[Change, ...] = ()
    diffs: tuple[FileDiff, ...] = ()  # of what the overlay renders to
    rights: tuple[FolderRights, ...] = ()  # in what clusters get


class Check(Struct, frozen=True):
    """A check: the gate that its hazards belong to, and what that gate says if there are none.

    `look` is called with what clusters apply before the step (None: nothing), after it, and what is known. `clear`
    returns why the gate lets the step through, and what the check looked at. Checks run in the order of `rank`.
    """

    gate: str
    rank: int
    look: Callable[[Applied | None, Applied, Known], Seen]
    clear: Callable[[Applied, Known], tuple[str, str]]
