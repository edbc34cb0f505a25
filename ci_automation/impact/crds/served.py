"""The versions of custom resources in each minor release of Flux, which tell where an upgrade can stop.

Measured on the definitions in the manifests bundles of the releases v2.2.3 to v2.9.4 on github.com/fluxcd/flux2
(that of 2.4 from the same definitions at its tag); `*` is the version that objects are stored in, all are served.
"""

from __future__ import annotations

from msgspec import Struct

_SOURCE, _IMAGE, _NOTIFICATION = (f"{group}.toolkit.fluxcd.io" for group in ("source", "image", "notification"))
_TABLE: dict[tuple[str, ...], tuple[tuple[int, str], ...]] = {
    (f"gitrepositories.{_SOURCE}", "kustomizations.kustomize.toolkit.fluxcd.io"): (
        (2, "v1* v1beta1 v1beta2"),
        (7, "v1* v1beta2"),
        (8, "v1*"),
    ),
    (f"buckets.{_SOURCE}",): ((2, "v1beta1 v1beta2*"), (4, "v1* v1beta1 v1beta2"), (7, "v1* v1beta2"), (8, "v1*")),
    (f"helmrepositories.{_SOURCE}", f"helmcharts.{_SOURCE}"): (
        (2, "v1beta1 v1beta2*"),
        (3, "v1* v1beta1 v1beta2"),
        (7, "v1* v1beta2"),
        (8, "v1*"),
    ),
    (f"ocirepositories.{_SOURCE}",): ((2, "v1beta2*"), (6, "v1* v1beta2"), (8, "v1*")),
    (f"externalartifacts.{_SOURCE}",): ((7, "v1*"),),
    ("artifactgenerators.source.extensions.fluxcd.io",): ((7, "v1beta1*"),),
    ("helmreleases.helm.toolkit.fluxcd.io",): (
        (2, "v2beta1 v2beta2*"),
        (3, "v2* v2beta1 v2beta2"),
        (7, "v2* v2beta2"),
        (8, "v2*"),
    ),
    (f"alerts.{_NOTIFICATION}", f"providers.{_NOTIFICATION}"): (
        (2, "v1beta1 v1beta2 v1beta3*"),
        (7, "v1beta2 v1beta3*"),
        (9, "v1beta3*"),
    ),
    (f"receivers.{_NOTIFICATION}",): ((2, "v1* v1beta1 v1beta2"), (7, "v1* v1beta2"), (9, "v1*")),
    (f"imagerepositories.{_IMAGE}", f"imagepolicies.{_IMAGE}"): (
        (2, "v1beta1 v1beta2*"),
        (7, "v1* v1beta2"),
        (9, "v1*"),
    ),
    (f"imageupdateautomations.{_IMAGE}",): (
        (2, "v1beta1*"),
        (3, "v1beta1 v1beta2*"),
        (7, "v1* v1beta2"),
        (9, "v1*"),
    ),
}
MINORS = range(2, 10)  # of Flux 2


class Served(Struct, frozen=True):
    """The versions of one custom resource in one minor release of Flux, and the one that objects are stored in."""

    versions: frozenset[str]
    storage: str


def served(name: str, minor: int) -> Served | None:
    """Return which versions of a CRD a minor release of Flux has, 7 for 2.7; None where it has none, or is unknown."""
    spans = next((spans for names, spans in _TABLE.items() if name in names), ())
    found = [versions.split() for first, versions in spans if first <= minor and minor in MINORS]
    if not found:
        return None
    storage = next(it for it in found[-1] if it.endswith("*"))
    return Served(frozenset(it.rstrip("*") for it in found[-1]), storage.rstrip("*"))
