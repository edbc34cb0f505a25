"""The input and the result of every check of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from ci_automation.artifact.tree import Tree
from ci_automation.flux.options import Options
from ci_automation.impact.clusters import Clusters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from ci_automation.artifact.digest import Digest
    from ci_automation.flux.release import Release
    from ci_automation.flux.version import Version
    from ci_automation.impact.change import ObjectId
    from ci_automation.impact.hazard import Hazard
    from ci_automation.impact.overlay.builder import Kustomize


def _silent(_: str) -> None:
    """Say nothing."""


class Images(Protocol):
    """The registries that the controllers' images come from."""

    def digest(self, image: str) -> Digest | None:
        """Return the digest that `image`, such as `ghcr.io/fluxcd/source-controller:v1.9.4`, has, or None: not there.

        Raises:
            RegistryError: the registry cannot be reached, or does not let us look.
        """
        ...


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
    build: bool = True  # whether the overlay is to be built
    say: Callable[[str], None] = _silent


class Seen(Struct, frozen=True):
    """What a check found, and the objects that a prune would delete, if the check can tell."""

    hazards: tuple[Hazard, ...] = ()
    pruned: tuple[ObjectId, ...] = ()


class Check(Struct, frozen=True):
    """A check: the gate that its hazards belong to, and what that gate says if there are none.

    `look` is called with what clusters apply before the step (None: nothing), after it, and what is known. `clear`
    returns why the gate lets the step through, and what the check looked at. Checks run in the order of `rank`.
    """

    gate: str
    rank: int
    look: Callable[[Applied | None, Applied, Known], Seen]
    clear: Callable[[Applied, Known], tuple[str, str]]
