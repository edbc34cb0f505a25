"""Check whether a version of Flux fits the clusters' Kubernetes, upstream's support, and the version before.

The floors are those of `cmd/flux/check.go` at each minor's tag, the documented versions those of upstream's page on
installation and of the release notes, where these were seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.flux.listing import is_draft
from ci_automation.impact.change import Certainty, Hazard, all_of
from ci_automation.impact.check import Applied, Check, Known, KubernetesRange, Seen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ci_automation.flux.release import Release
    from ci_automation.flux.version import Version

GATE = "compatibility"
_SUPPORTED = 3  # minors that get patches (fluxcd.io/flux/releases, *Release support*)

_Minor = tuple[int, int]


class _Kubernetes(Struct, frozen=True):
    """Minor releases of Kubernetes: the lowest that Flux's own check takes, and those that its documents name."""

    floor: int
    lowest: int
    highest: int | None = None  # None: not known


_KUBERNETES = {
    (2, 0): _Kubernetes(24, 24),
    (2, 1): _Kubernetes(25, 25, 28),
    (2, 2): _Kubernetes(26, 26),
    (2, 3): _Kubernetes(28, 28),
    (2, 4): _Kubernetes(28, 29, 31),
    (2, 5): _Kubernetes(30, 30),
    (2, 6): _Kubernetes(31, 31, 33),
    (2, 7): _Kubernetes(32, 32),
    (2, 8): _Kubernetes(33, 33),
    (2, 9): _Kubernetes(33, 34, 36),
}


def fit(
    old: Version | None, new: Version, kubernetes: KubernetesRange | None, releases: Sequence[Release] = ()
) -> tuple[Hazard, ...]:
    """Return how `new` fits the clusters, and the version that was there before, if one was; the date plays no part.

    Without `releases`, minors that are skipped are only known inside of one major.
    """
    return (*_clusters(old, new, kubernetes), *(_skipped(old, new, releases) if old else ()))


def support(version: Version, releases: Sequence[Release], now: datetime) -> tuple[Hazard, ...]:
    """Return that upstream no longer patches the minor of `version`, if that is so, and since when.

    It is so since the third minor after it came out.
    """
    firsts = _first_releases(releases, now)
    later = sorted(minor for minor in firsts if minor > version.minor)
    if len(later) < _SUPPORTED:
        return ()
    first = firsts[later[_SUPPORTED - 1]]
    days = (now - first.published_at).days
    name = _flux(version.minor)
    since = f"on {first.published_at:%Y-%m-%d}, {days} day{'' if days == 1 else 's'} ago"
    sentence = f"{name} gets no patches: upstream keeps three minors, and {first.version} came out {since}"
    return (Hazard(GATE, Certainty.ADVICE, f"{name} out of support", sentence),)


def _first_releases(releases: Sequence[Release], now: datetime) -> dict[_Minor, Release]:
    """Return the first release of each minor that has come out."""
    found: dict[_Minor, Release] = {}
    for release in releases:
        version = release.version
        if release.prerelease or version.is_prerelease or is_draft(release) or release.published_at > now:
            continue
        if version.minor not in found or version < found[version.minor].version:
            found[version.minor] = release
    return found


def _clusters(old: Version | None, new: Version, kubernetes: KubernetesRange | None) -> Iterator[Hazard]:
    """Yield what does not fit between Flux and the clusters; a step inside of a minor brings none of it about."""
    if kubernetes is None:
        return
    name, stated = _flux(new.minor), f"the clusters have Kubernetes {kubernetes}"
    known = _KUBERNETES.get(new.minor)
    if known is None:
        sentence = f"this version of the program does not know which Kubernetes {name} needs; {stated}"
        yield Hazard(GATE, Certainty.UNCHECKED, f"{name} on Kubernetes {kubernetes}", sentence)
        return
    stays = old is not None and old.minor == new.minor
    lowest, highest = f"Kubernetes 1.{kubernetes.lowest}", f"Kubernetes 1.{kubernetes.highest}"
    if kubernetes.lowest < known.floor:
        certainty = Certainty.ADVICE if stays else Certainty.CERTAIN
        documented = f", and 1.{known.lowest} by its documents" if known.lowest > known.floor else ""
        sentence = f"{name} needs Kubernetes 1.{known.floor} or later by its own check{documented}; {stated}"
        remedies = (f"update the clusters to Kubernetes 1.{known.lowest} or later first",)
        yield Hazard(GATE, certainty, f"{name} on {lowest}", sentence, remedies=remedies)
    elif kubernetes.lowest < known.lowest:
        certainty = Certainty.ADVICE if stays else Certainty.POSSIBLE
        sentence = f"{name} is documented for Kubernetes 1.{known.lowest} or later, though its own check takes older"
        yield Hazard(GATE, certainty, f"{name} on {lowest}", f"{sentence}; {stated}")
    if known.highest is not None and kubernetes.highest > known.highest:
        sentence = f"{name} is documented for Kubernetes up to 1.{known.highest}; {stated}"
        yield Hazard(GATE, Certainty.ADVICE, f"{name} on {highest}", sentence)


def _skipped(old: Version, new: Version, releases: Sequence[Release]) -> Iterator[Hazard]:
    """Yield that a step leaves out minors; their changes are in it all the same."""
    low, high = sorted((old.minor, new.minor))
    between = {release.version.minor for release in releases if low < release.version.minor < high}
    if low[0] == high[0]:  # those of one major are known without a list
        between = {(low[0], number) for number in range(low[1] + 1, high[1])}
    if not between:
        return
    names = [_number(minor) for minor in sorted(between, reverse=old > new)]
    step = f"{_number(old.minor)} -> {_number(new.minor)}"
    sentence = (
        f"{step} skips {all_of(names)}; upstream guarantees one minor of skew between controllers, and what the "
        f"skipped ones removed {'comes back' if old > new else 'goes'} all at once"
    )
    yield Hazard(GATE, Certainty.ADVICE, f"{step} skips minors", sentence)


def _flux(minor: _Minor) -> str:
    return f"Flux {_number(minor)}"


def _number(minor: _Minor) -> str:
    return f"{minor[0]}.{minor[1]}"


def _look(before: Applied | None, after: Applied, known: Known) -> Seen:
    kubernetes, old = known.clusters.kubernetes, before.version if before else None
    if after.version is None and kubernetes is None:
        return Seen()
    if after.version is None:
        sentence = f"which Flux {after.name} has, and whether it fits Kubernetes {kubernetes}, is unknown"
        return Seen((Hazard(GATE, Certainty.UNCHECKED, f"an unknown Flux on Kubernetes {kubernetes}", sentence),))
    found = fit(old, after.version, kubernetes, known.releases)
    return Seen((*found, *support(old, known.releases, known.now)) if old and known.now else found)


def _clear(_after: Applied, known: Known) -> tuple[str, str]:
    return "nothing stands against it", f"clusters.kubernetes: {known.clusters.kubernetes or 'not stated'}"


CHECK = Check(GATE, 3, _look, _clear)
