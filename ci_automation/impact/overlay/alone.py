"""Flux alone: what clusters would get of an artifact that has the components and no other file."""

from __future__ import annotations

from pathlib import PurePosixPath
from posixpath import relpath

from ci_automation.artifact.tree import Tree, TreeFile
from ci_automation.impact.overlay.folders import applied_folders
from ci_automation.impact.overlay.kustomization import Effort, TooMuch

_LISTING = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - {components}
"""


def kustomization_of(components: str) -> bytes:
    """Return a kustomization that lists the components file, by its path from there, and nothing else."""
    return _LISTING.format(components=components).encode()


def flux_alone(tree: Tree, components: str) -> Tree:
    """Return the kustomizations with which clusters get the components alone by the folders that they apply now."""
    try:
        found = applied_folders(tree, components, Effort())
    except TooMuch:
        return Tree(())
    return Tree(
        tuple(
            TreeFile(
                str(PurePosixPath(each.folder) / "kustomization.yaml"),
                kustomization_of(relpath(components, each.folder)),
            )
            for each in found
            if not each.is_made
        )
    )
