"""What is known of the clusters that follow a channel: stated or given as files, for nobody asks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from ci_automation.impact.checks.crds.snapshot import Snapshot
    from ci_automation.impact.kubernetes import KubernetesRange

ARTIFACTS = ("oci://", "layout:")


class GivenFile(Struct, frozen=True):
    """A file of manifests that somebody wants looked at, by the name that the user knows it by.

    A file in an artifact has the artifact's address before its path.
    """

    name: str
    content: bytes


class Clusters(Struct, frozen=True):
    """Their versions of Kubernetes, which versions of custom resources they store, and their manifests."""

    kubernetes: KubernetesRange | None = None
    snapshots: tuple[Snapshot, ...] = ()
    files: tuple[GivenFile, ...] = ()
