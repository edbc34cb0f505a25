"""What builds an overlay: kustomize, as kustomize-controller links it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ci_automation.errors import Error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_automation.artifact.tree import Tree

    Build = tuple[Tree, str]  # files, and the folder whose kustomization is built: `.` for the root


class BuildFailed(Error):
    """An overlay cannot be built; the message is kustomize's own, or says why it was stopped."""


class KustomizeUnusable(Error):
    """Nothing was built, for reasons that are not the overlay's: the program cannot be started, or the disk is full."""


class Kustomize(Protocol):
    """A builder of overlays, without network, plugins, programs, or files from outside of the tree."""

    def builds(self, wanted: Sequence[Build]) -> tuple[str | BuildFailed | KustomizeUnusable, ...]:
        """Return the YAML that each build gives, in their order; they may run at the same time.

        A build fails where it gives none, or takes too long, too much memory or too much output. kustomize is unusable
        where it cannot say whether it gives any.
        """
        ...
