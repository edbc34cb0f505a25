"""Settings of the objects by which clusters follow a channel, beside what the artifact says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_automation.artifact.reference import Reference

OWN_SOURCE = ("url",)  # keys of the OCIRepository's spec that the program fills in
OWN_KUSTOMIZATION = ("path", "sourceRef")  # same, of the Kustomization's


class FleetSettings(Struct, frozen=True):
    """The artifact with the fleet's own manifests, which the same clusters apply after Flux's."""

    url: Reference
    path: str = "./"
    name: str = "fleet"
    source: Mapping[str, Any] = field(default_factory=dict)
    kustomization: Mapping[str, Any] = field(default_factory=dict)
    unsafe_unsigned: bool = False


class SyncSettings(Struct, frozen=True):
    """The wanted names, and fields of both specs by Flux's own names; `namespace` is None for that of the components.

    `interval` and `secret` come from the command line: the first is for both objects, the second names the Secret with
    what the signature is verified by.
    """

    name: str = "flux-manifests"
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    kustomization: Mapping[str, Any] = field(default_factory=dict)
    fleet: FleetSettings | None = None
    interval: str | None = None
    secret: str | None = None
