"""A cluster's own word on its custom resources: the output of `kubectl get crd -o json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Of one cluster: by the name of each CRD, the versions that objects may be stored in (`status.storedVersions`)."""

    name: str
    stored: Mapping[str, tuple[str, ...]]
