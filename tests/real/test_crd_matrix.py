"""Which CRD versions go away between any two of the real releases, and what the guard makes of it.

The table is the versions of each kind by minor release, as the manifests of the releases have them; `*` is the one
that objects are stored in. All are served.
"""

from __future__ import annotations

import json
from itertools import pairwise, permutations
from typing import TYPE_CHECKING

import pytest
import yaml

from ci_automation.artifact.tree import Tree
from ci_automation.flux.options import COMPONENTS, Options
from ci_automation.flux.render import render
from ci_automation.flux.sources.directory import DirectorySource
from ci_automation.flux.version import Version
from ci_automation.impact import parts
from ci_automation.impact.change import Certainty, ChangeKind
from ci_automation.impact.check import Clusters
from ci_automation.impact.checks.crds import guard
from ci_automation.impact.compare import changes
from ci_automation.impact.crds.remedies import MINORS, Served, served, stopovers
from ci_automation.impact.crds.versions import Crd, crds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SOURCE, IMAGE, NOTIFICATION = (f"{group}.toolkit.fluxcd.io" for group in ("source", "image", "notification"))
TABLE: dict[tuple[str, ...], dict[range, str]] = {
    (f"gitrepositories.{SOURCE}", "kustomizations.kustomize.toolkit.fluxcd.io"): {
        range(2, 7): "v1* v1beta1 v1beta2",
        range(7, 8): "v1* v1beta2",
        range(8, 10): "v1*",
    },
    (f"buckets.{SOURCE}",): {
        range(2, 4): "v1beta1 v1beta2*",
        range(4, 7): "v1* v1beta1 v1beta2",
        range(7, 8): "v1* v1beta2",
        range(8, 10): "v1*",
    },
    (f"helmrepositories.{SOURCE}", f"helmcharts.{SOURCE}"): {
        range(2, 3): "v1beta1 v1beta2*",
        range(3, 7): "v1* v1beta1 v1beta2",
        range(7, 8): "v1* v1beta2",
        range(8, 10): "v1*",
    },
    (f"ocirepositories.{SOURCE}",): {range(2, 6): "v1beta2*", range(6, 8): "v1* v1beta2", range(8, 10): "v1*"},
    (f"externalartifacts.{SOURCE}",): {range(7, 10): "v1*"},
    ("artifactgenerators.source.extensions.fluxcd.io",): {range(7, 10): "v1beta1*"},
    ("helmreleases.helm.toolkit.fluxcd.io",): {
        range(2, 3): "v2beta1 v2beta2*",
        range(3, 7): "v2* v2beta1 v2beta2",
        range(7, 8): "v2* v2beta2",
        range(8, 10): "v2*",
    },
    (f"alerts.{NOTIFICATION}", f"providers.{NOTIFICATION}"): {
        range(2, 7): "v1beta1 v1beta2 v1beta3*",
        range(7, 9): "v1beta2 v1beta3*",
        range(9, 10): "v1beta3*",
    },
    (f"receivers.{NOTIFICATION}",): {
        range(2, 7): "v1* v1beta1 v1beta2",
        range(7, 9): "v1* v1beta2",
        range(9, 10): "v1*",
    },
    (f"imagerepositories.{IMAGE}", f"imagepolicies.{IMAGE}"): {
        range(2, 7): "v1beta1 v1beta2*",
        range(7, 9): "v1* v1beta2",
        range(9, 10): "v1*",
    },
    (f"imageupdateautomations.{IMAGE}",): {
        range(2, 3): "v1beta1*",
        range(3, 7): "v1beta1 v1beta2*",
        range(7, 9): "v1* v1beta2",
        range(9, 10): "v1*",
    },
}


def expected(minor: int) -> dict[str, Served]:
    """Return what the table has for a minor release, by the names of the definitions."""
    found: dict[str, Served] = {}
    for names, spans in TABLE.items():
        for listed in (listed for minors, listed in spans.items() if minor in minors):
            storage = next(version for version in listed.split() if version.endswith("*"))
            those = Served(frozenset(listed.replace("*", "").split()), storage.rstrip("*"))
            found |= dict.fromkeys(names, those)
    return found


@pytest.fixture(scope="module")
def texts(flux_releases: Path) -> Mapping[Version, str]:
    """Return the components of each release, with every controller that it has."""
    source = DirectorySource(flux_releases)
    found = {}
    for version in sorted(Version.parse(folder.name) for folder in flux_releases.glob("v*")):
        bundle = source.fetch(version).bundle
        components = [name for name in COMPONENTS if f"{name}.yaml" in bundle.files]
        found[version] = render(bundle, version, Options().with_flags({"components": components}))
    assert len(found) >= 23
    return found


@pytest.fixture(scope="module")
def definitions(texts: Mapping[Version, str]) -> Mapping[Version, Mapping[str, Crd]]:
    return {version: crds(text) for version, text in texts.items()}


def test_each_release_has_the_versions_of_the_table(definitions: Mapping[Version, Mapping[str, Crd]]) -> None:
    for version, found in definitions.items():
        assert {name: Served(crd.names, crd.storage) for name, crd in found.items()} == expected(version.minor[1])
        assert all(frozenset(crd.served) == crd.names for crd in found.values())


def test_the_programs_own_table_is_this_one() -> None:
    names = [name for names in TABLE for name in names]
    for minor in MINORS:
        assert {name: it for name in names if (it := served(name, minor))} == expected(minor)


def test_the_quick_reading_is_what_a_parser_finds(
    texts: Mapping[Version, str], definitions: Mapping[Version, Mapping[str, Crd]]
) -> None:
    for version, text in texts.items():
        parsed = {"kind": "List", "items": list(yaml.load_all(text, Loader=yaml.CSafeLoader))}
        assert crds(json.dumps(parsed)) == definitions[version]


def test_no_real_release_needs_the_parser(texts: Mapping[Version, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(part: str) -> None:
        pytest.fail(f"it was parsed: {part[:200]}")

    monkeypatch.setattr(parts, "read", refuse)
    for text in texts.values():
        crds(text)


def test_the_guard_names_the_versions_of_the_table_for_every_pair(texts: Mapping[Version, str]) -> None:
    for old, new in permutations(texts, 2):
        before, after = expected(old.minor[1]), expected(new.minor[1])
        removed = {
            (name, version, Certainty.CERTAIN if version == it.storage else Certainty.POSSIBLE)
            for name, it in before.items()
            for version in it.versions - (after[name].versions if name in after else it.versions)
        }
        gone = {(name, "", Certainty.POSSIBLE) for name in before.keys() - after.keys()}
        found = set()
        for hazard in guard(texts[old], texts[new], Clusters(), Tree(()), Tree(())):
            if hazard.certainty is not Certainty.ADVICE:
                name, _, version = hazard.subject.partition(" ")
                found.add((name, version, hazard.certainty))
        assert found == removed | gone, f"{old} -> {new}"


def test_the_changes_name_the_same_versions(texts: Mapping[Version, str]) -> None:
    for old, new in pairwise(texts):
        before, after = expected(old.minor[1]), expected(new.minor[1])
        removed = {(name, version) for name in before for version in before[name].versions - after[name].versions}
        found = {
            (change.object.name, change.path)
            for change in changes(texts[old], texts[new])
            if change.kind is ChangeKind.VERSION_REMOVED
        }
        assert found == removed, f"{old} -> {new}"


@pytest.mark.parametrize(
    ("old", "new", "way"),
    [
        ("v2.6.4", "v2.7.5", ()),
        ("v2.2.3", "v2.9.4", (6, 8)),
        ("v2.5.1", "v2.8.8", (7,)),
        ("v2.6.4", "v2.9.4", (8,)),
        ("v2.9.4", "v2.8.8", ()),
        ("v2.7.5", "v2.6.4", None),
        ("v2.6.4", "v2.5.1", None),
    ],
)
def test_the_releases_to_stop_over_at_are_told(
    old: str, new: str, way: tuple[int, ...] | None, definitions: Mapping[Version, Mapping[str, Crd]]
) -> None:
    before, after = (definitions[Version.parse(tag)] for tag in (old, new))
    assert stopovers(before, after) == way


@pytest.mark.parametrize(
    ("old", "new", "removed"), [("v2.6.4", "v2.7.0", 12), ("v2.7.5", "v2.8.0", 7), ("v2.8.8", "v2.9.0", 6)]
)
def test_the_three_minors_that_removed_versions_removed_as_many_as_upstream_says(
    old: str, new: str, removed: int, definitions: Mapping[Version, Mapping[str, Crd]]
) -> None:
    before, after = (definitions[Version.parse(tag)] for tag in (old, new))
    assert sum(len(crd.names - after[name].names) for name, crd in before.items()) == removed
