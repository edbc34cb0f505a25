"""What is known of the clusters that follow a channel, from options and configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ci_automation.config.model import ClustersConfig
from ci_automation.flows.clusters import read_clusters
from ci_automation.impact.clusters import KubernetesRange

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_automation.artifact.tree import Tree
    from ci_automation.cli.arguments import Arguments
    from ci_automation.impact.clusters import Clusters


def clusters(configured: ClustersConfig | None, given: Arguments, open_artifact: Callable[[str], Tree]) -> Clusters:
    """Return it: --kubernetes is over what is configured; snapshots and objects are looked at besides those.

    Raises:
        InvalidKubernetes: --kubernetes is no version, and no range of them.
        UnreadablePlace, InvalidSnapshot: what is named cannot be used.
    """
    stated = configured or ClustersConfig()
    return read_clusters(
        replace(
            stated,
            kubernetes=KubernetesRange.parse(given.kubernetes) if given.kubernetes else stated.kubernetes,
            snapshots=(*stated.snapshots, *given.cluster_snapshot),
            objects=(*stated.objects, *given.objects),
        ),
        open_artifact,
    )
