"""What builds an overlay: kustomize, as kustomize-controller links it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ci_automation.errors import Error

if TYPE_CHECKING:
    from ci_automation.artifact.tree import Tree


class BuildFailed(Error):
    """An overlay cannot be built; the message is kustomize's own, or says why it was stopped."""


class KustomizeUnusable(Error):
    """Nothing was built, for reasons that are not the overlay's: the program cannot be started, or the disk is full."""


class Kustomize(Protocol):
    """A builder of overlays, without network, plugins, programs, or files from outside of the tree."""

    def build(self, tree: Tree, folder: str) -> str:
        """Return the YAML that the kustomization in `folder` (`.` for the root) of `tree` gives.

        Raises:
            BuildFailed: it gives none, or takes too long, too much memory or too much output.
            KustomizeUnusable: nobody can say whether it gives any.
        """
        ...
