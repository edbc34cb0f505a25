"""Remedies before a version of a custom resource is removed: commands, and the releases to stop at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msgspec import Struct

from ci_automation.impact.change import all_of, in_shell, some_of
from ci_automation.impact.check import ARTIFACTS
from ci_automation.impact.crds.versions import Crd, newest_first

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SOURCE, _IMAGE, _NOTIFICATION = (f"{group}.toolkit.fluxcd.io" for group in ("source", "image", "notification"))
# The versions of custom resources in each minor release of Flux, which tell where an upgrade can stop. Measured on the
# definitions in the manifests bundles of the releases v2.2.3 to v2.9.4 on github.com/fluxcd/flux2 (that of 2.4 from the
# same definitions at its tag); `*` is the version that objects are stored in, all are served.
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
MIGRATE = "Run `flux migrate`, of the flux CLI 2.7.1 or later, on every cluster"  # 2.7.0 left the managedFields alone
FOLLOWED = (  # it applies only what differs in the version that it reads, and there nothing does
    f"{MIGRATE} that has taken the edit: kustomize-controller leaves the old version in managedFields, and the API "
    "server refuses to apply the object as soon as that version is gone."
)
TAKE = "Then take the release."
SNAPSHOT = (
    "To know, give a snapshot of each cluster, the output of `kubectl get crd -o json`, in `clusters.snapshots`: where "
    "status.storedVersions has no version that goes away, nothing breaks."
)
_MIGRATES_FILES_TO = range(6, 10)  # of Flux 2: `flux migrate -f PATH --version=2.6` and later
_FEW = 3


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


def out_of(old: Crd, new: Crd, way: Sequence[int] | None) -> tuple[str, ...]:
    """Return how clusters get their objects out of stored versions that go away; `way` is where they can stop over."""
    if old.storage in new.names:
        return (
            f"{MIGRATE} before this step.",
            f"With kubectl alone: {_rewrite(old)}, if there are objects, then {_forget(old, old.storage)}.",
            "Going one minor at a time first does not help: run `flux migrate` now.",
        )
    if way:
        stops = all_of([f"the last Flux 2.{minor}" for minor in way])
        why = "between two of these releases every version that is stored is still there"
        return (f"Stop over at {stops}: {why}.", f"{MIGRATE} before each of the steps.")
    common = [version for version in old.served if version in new.names]
    nowhere = "Going one minor at a time does not help: no release of Flux leads there."
    return (nowhere, *([_back_to(old, common[0])] if common else []))


def rewrite(crd: Crd, version: str, common: Sequence[str], new: Crd) -> tuple[str, ...]:
    """Return what to write instead of a version; `common` are those that are served before and after, newest first."""
    if common:
        wanted = new.storage if new.storage in common else common[0]
        return (f"Write `apiVersion: {crd.group}/{wanted}` instead, before this step: it is served now too.",)
    wanted = new.storage if new.storage in new.served else new.served[0]
    both = [minor for minor in MINORS if (it := served(crd.name, minor)) and {version, wanted} <= it.versions]
    if both:
        stop = f"Stop over at the last Flux 2.{both[-1]}, which serves both"
        return (f"{stop}, and write `apiVersion: {crd.group}/{wanted}` instead before the next step.",)
    return (f"Write `apiVersion: {crd.group}/{wanted}` instead, together with this step: it is not served before.",)


def migrate_files(old: Mapping[str, Crd], new: Mapping[str, Crd], files: Sequence[str]) -> tuple[str, ...]:
    """Return the command that rewrites manifests, if what it writes is served before and after in every kind."""
    paths = [file for file in files if file.endswith((".yaml", ".yml"))]
    names = old.keys() & new.keys()
    written = {
        minor: {name: it.storage for name in names if (it := served(name, minor))} for minor in _MIGRATES_FILES_TO
    }
    fit = [
        minor
        for minor, versions in written.items()
        if all(version in old[name].served and version in new[name].served for name, version in versions.items())
    ]
    if not fit or not paths:
        return ()
    target = next(minor for minor in fit if written[minor] == written[fit[-1]])  # which more of the CLI's releases know
    here = ["FOLDER" if path.startswith(ARTIFACTS) else path for path in paths]
    here = list(dict.fromkeys(here)) if len(paths) <= _FEW else ["FOLDER"]
    commands = all_of([in_shell("flux", "migrate", "-f", path, f"--version=2.{target}") for path in here])
    does = "does" if len(here) == 1 else "do"
    return (f"{commands} {does} that in YAML where `kind` is the line after `apiVersion`.",)


def at_the_source(files: Sequence[str]) -> tuple[str, ...]:
    """Return where to change those of the files that are in an artifact, which no one edits in place."""
    inside = [file for file in files if file.startswith(ARTIFACTS)]
    if not inside:
        return ()
    if len(inside) == 1:
        return (f"{inside[0]} is in an artifact: change it where that is made, and publish it again.",)
    return (f"{some_of(inside)} are in artifacts: change them where those are made, and publish them again.",)


def edit_first(old: Crd, new: Crd) -> tuple[str, ...]:
    """Return how an object of the overlay leaves a version before the release without it comes."""
    common = newest_first(set(old.served).intersection(new.served))
    both = f", in a version that is served now and then ({all_of(common)})" if common else ""
    return (f"Publish the edit of the overlay first, without the release{both}.", FOLLOWED, TAKE)


def drop(crd: Crd) -> str:
    """Return how a cluster gets rid of an unneeded definition."""
    return (
        f"If you do not need what `kubectl get {crd.name} -A` shows there: `kubectl delete crd {crd.name}`, which "
        "deletes that too."
    )


def forget_managers(crd: Crd) -> str:
    """Return how one object gets rid of its managedFields, whose versions are not needed."""
    patch = json.dumps({"metadata": {"managedFields": [{}]}})
    return (
        f"For each object, with kubectl alone: `kubectl patch {crd.name} NAME -n NAMESPACE --type=merge -p '{patch}'`."
    )


def stopovers(old: Mapping[str, Crd], new: Mapping[str, Crd]) -> tuple[int, ...] | None:
    """Return the fewest minor releases to stop over at, so that objects can be migrated before each step.

    Of two sets that follow each other the second has the version that the first stores, for every CRD of the step.
    () says that none is needed, None that there is no such way. Of several ways that by the newest releases is taken.
    """
    names = old.keys() & new.keys()
    start = {name: Served(old[name].names, old[name].storage) for name in names}
    end = {name: Served(new[name].names, new[name].storage) for name in names}
    known = {minor: {name: it for name in names if (it := served(name, minor))} for minor in MINORS}
    ways: list[tuple[int, ...]] = [()]
    left = list(reversed(MINORS))
    while ways:
        for way in ways:
            if _leads(known[way[-1]] if way else start, end):
                return way
        longer: dict[int, tuple[int, ...]] = {}
        for way in ways:
            here = known[way[-1]] if way else start
            longer |= {minor: (*way, minor) for minor in left if minor not in longer and _leads(here, known[minor])}
        left = [minor for minor in left if minor not in longer]
        ways = list(longer.values())
    return None


def _leads(here: Mapping[str, Served], there: Mapping[str, Served]) -> bool:
    return all(name in there and it.storage in there[name].versions for name, it in here.items())


def _back_to(crd: Crd, version: str) -> str:
    """Return how objects get back into an older version that both sets have."""
    index = {it.name: number for number, it in enumerate(crd.versions)}
    flags = [
        {"op": "replace", "path": f"/spec/versions/{index[name]}/storage", "value": name == version}
        for name in (crd.storage, version)
    ]
    swap = f"`kubectl patch crd {crd.name} --type=json -p '{json.dumps(flags)}'`"
    return (
        f"By hand, on every cluster, with its Kustomization suspended: {swap} stores objects as {version} again, "
        f"{_rewrite(crd)} writes them anew, if there are any, and {_forget(crd, version)} ends it. "
        f"What only {crd.storage} can say is lost."
    )


def _rewrite(crd: Crd) -> str:
    return f"`kubectl get {crd.name} -A -o json | kubectl replace -f -`"


def _forget(crd: Crd, version: str) -> str:
    status = json.dumps({"status": {"storedVersions": [version]}})
    return f"`kubectl patch crd {crd.name} --subresource=status --type=merge -p '{status}'`"
